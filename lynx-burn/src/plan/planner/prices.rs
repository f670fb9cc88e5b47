//! What no plan can go below: windows and bytes at a price instead of within a limit.
//!
//! Where every limit of a stage is a price, each layer can be planned for itself, and at any prices
//! the cheapest layers cost no more than a plan that keeps the limits (Lagrange). Prices are
//! raised where the cheapest layers use too much and lowered where they use too little. What they
//! are good for: the bound, a layer's choices that cost too much to be part of a better plan, and
//! which beginnings to follow when not all can be.

use super::space::{Guide, Space};
use super::stage_sum::StageSum;
use super::sums::{Label, SUMS, Sum};
use crate::plan::cluster::Window;

/// What is to be least, and what must not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Exposed time, with the layers' bytes within this.
    Time { bytes: u64 },
    /// The layers' bytes, with nothing exposed.
    Bytes,
}

/// Prices, and the cheapest layers at these.
pub(super) struct Prices {
    /// No plan within the limits has less of what is to be least.
    pub(super) bound: f64,
    pub(super) any: Guide,
    pub(super) alone: Guide,
}

/// A limit of a stage: a sum over its layers.
struct Row {
    parts: Vec<(Sum, f64)>,
    most: f64,
    /// More than it costs to expose what is too much is no price.
    dearest: f64,
    /// Whether only the last layer counts.
    last: bool,
    /// Whether it is the bytes that the layers hold.
    bytes: bool,
}

/// How often prices are changed: more than this hardly raises the bound.
const STEPS: usize = 24;

impl Row {
    fn used(&self, stage: &StageSum<'_>, label: &Label) -> f64 {
        if self.bytes {
            return stage.bytes_of(label) as f64;
        }
        let parts = self.parts.iter();
        parts
            .map(|&(sum, weight)| label.get(sum) as f64 * weight)
            .sum()
    }

    /// What a price is counted in.
    fn unit(&self) -> f64 {
        self.most.max(1.0)
    }
}

/// The best prices found for a stage, `known` being the amount that some plan reaches.
pub(super) fn prices(
    stage: &StageSum<'_>,
    (any, alone): (&Space, &Space),
    aim: Aim,
    known: f64,
) -> Prices {
    let rows = rows(stage, aim);
    let layers = stage.problem().layers as f64;
    let at = |prices: &[f64]| {
        let mut weights = [0.0; SUMS];
        let (mut bytes, mut free) = (0.0, 0.0);
        match aim {
            Aim::Time { .. } => weights[Sum::Exposed as usize] = 1.0,
            Aim::Bytes => bytes = 1.0,
        }
        let mut last = [0.0; SUMS];
        for (row, price) in rows.iter().zip(prices) {
            let price = price / row.unit();
            free += price * row.most;
            if row.bytes {
                bytes += price;
            }
            for &(sum, weight) in &row.parts {
                let into = if row.last { &mut last } else { &mut weights };
                into[sum as usize] += weight * price;
            }
        }
        for (last, weight) in last.iter_mut().zip(&weights) {
            *last += weight;
        }
        let (any, alone) = (any.guide(bytes, &weights), alone.guide(bytes, &last));
        let bound = (layers - 1.0) * any.least + alone.least - free;
        Prices { bound, any, alone }
    };
    let mut now = vec![0.0; rows.len()];
    let mut best = at(&now);
    let mut found = None;
    let (mut stride, mut idle) = (1.0, 0);
    for _ in 0..STEPS {
        let current = found.as_ref().unwrap_or(&best);
        if current.bound >= known {
            break;
        }
        let (a, l) = (
            any.label(current.any.choices),
            alone.label(current.alone.choices),
        );
        let over = |row: &Row| {
            let others = if row.last {
                0.0
            } else {
                (layers - 1.0) * row.used(stage, &a)
            };
            (others + row.used(stage, &l) - row.most) / row.unit()
        };
        let over: Vec<f64> = rows.iter().map(over).collect();
        // What is too little already costs nothing.
        let moves = over
            .iter()
            .zip(&now)
            .filter(|(o, p)| **o > 0.0 || **p > 0.0);
        let length: f64 = moves.map(|(over, _)| over * over).sum();
        if length <= 0.0 {
            break;
        }
        let step = stride * (known - current.bound) / length;
        for ((price, over), row) in now.iter_mut().zip(&over).zip(&rows) {
            *price = (*price + step * over).clamp(0.0, row.dearest * row.unit());
        }
        let next = at(&now);
        if next.bound > best.bound {
            idle = 0;
            best = next;
            found = None;
        } else {
            idle += 1;
            if idle % 3 == 0 {
                stride /= 2.0;
            }
            found = Some(next);
        }
    }
    best
}

fn rows(stage: &StageSum<'_>, aim: Aim) -> Vec<Row> {
    let problem = stage.problem();
    let layers = problem.layers as f64;
    let room = |window| {
        problem
            .windows
            .capacity(window)
            .map_or(0.0, |room| room.0 as f64)
    };
    let row = |sums: &[Sum], most: f64| Row {
        parts: sums.iter().map(|&sum| (sum, 1.0)).collect(),
        most,
        dearest: f64::INFINITY,
        last: false,
        bytes: false,
    };
    let mut rows = Vec::new();
    match aim {
        Aim::Time { bytes } => {
            rows.push(Row {
                bytes: true,
                ..row(&[], bytes as f64)
            });
        }
        Aim::Bytes => {
            let time: u64 = problem.segments.iter().map(|s| s.recompute.0).sum();
            let all = time as f64 * layers * problem.micro_batches() as f64;
            // Counted in units of all time there is, though none of it is allowed.
            rows.push(Row {
                parts: vec![(Sum::Exposed, 1.0 / all.max(1.0))],
                ..row(&[], 0.0)
            });
        }
    }
    // What is too much for these two is exposed.
    let dearest = |count: u64| match aim {
        Aim::Time { .. } => count as f64,
        Aim::Bytes => f64::INFINITY,
    };
    let all = [
        (Window::F1, row(&[Sum::F1], layers * room(Window::F1))),
        (Window::F2, row(&[Sum::F2], layers * room(Window::F2))),
        (
            Window::B1,
            row(&[Sum::Own, Sum::Early], layers * room(Window::B1)),
        ),
        (
            Window::B2,
            row(&[Sum::B2], (layers - 1.0) * room(Window::B2)),
        ),
        (Window::Send, row(&[Sum::Send], room(Window::Send))),
        (Window::Recv, row(&[Sum::Recv], room(Window::Recv))),
        (
            Window::Bubble,
            Row {
                dearest: dearest(problem.cool_down),
                ..row(&[Sum::Ahead], room(Window::Bubble))
            },
        ),
    ];
    let usable = all
        .into_iter()
        .filter(|(window, _)| problem.usable(*window));
    rows.extend(usable.map(|(_, row)| row));
    rows.push(Row {
        dearest: dearest(problem.micro_batches()),
        last: true,
        ..row(&[Sum::Entry], problem.windows.entry.0 as f64)
    });
    rows
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
