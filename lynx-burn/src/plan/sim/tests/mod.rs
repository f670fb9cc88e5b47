//! Is the simulated time the right one? Closed forms, a naive second simulator
//! that goes from nanosecond to nanosecond, and laws that must hold for any costs.

mod by_hand;
mod closed_forms;
mod errors;
mod exports;
mod laws;
mod naive;
mod newer_kinds;
mod orders;
mod random;
mod size_limits;

use super::costs::{Change, Part, StageCosts};
use super::window::Window;
use crate::units::{Bytes, Nanos};

fn compute(label: &str, time: u64) -> Part {
    Part::Compute {
        label: label.to_owned(),
        time: Nanos(time),
        bytes: Change::NONE,
    }
}

fn collective(window: Window, time: u64, recompute: u64) -> Part {
    Part::Collective {
        window,
        time: Nanos(time),
        recompute: Nanos(recompute),
        busy: Nanos(0),
        bytes: Change::NONE,
    }
}

fn recompute(time: u64) -> Part {
    Part::Recompute {
        time: Nanos(time),
        bytes: Change::NONE,
    }
}

/// `p` stages that cost the same and need no memory.
fn even(p: usize, forward: u64, backward: u64) -> Vec<StageCosts> {
    vec![StageCosts::plain(Nanos(forward), Nanos(backward)); p]
}

/// Changes what a part takes and frees.
fn moving(mut part: Part, takes: u64, frees: u64) -> Part {
    let (Part::Compute { bytes, .. }
    | Part::Collective { bytes, .. }
    | Part::Recompute { bytes, .. }) = &mut part;
    (bytes.takes, bytes.frees) = (Bytes(takes), Bytes(frees));
    part
}

/// Each micro-batch keeps so many bytes from its forward on.
fn keep(stage: &mut StageCosts, bytes: u64) {
    stage
        .forward
        .insert(0, moving(compute("keep", 0), bytes, 0));
}
