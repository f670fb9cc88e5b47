//! The memory curves of all stages in one plot.

use super::super::timeline::{StageTrack, Timeline};
use super::axis::Axis;
use super::canvas::Canvas;
use crate::units::{Bytes, Nanos};

const HEIGHT: f64 = 170.0;
/// As many curves can be told apart.
const DRAWN: usize = 9;

/// The highest peak of any stage.
pub(super) fn highest(timeline: &Timeline) -> Bytes {
    let peaks = timeline.stages.iter().map(StageTrack::peak);
    peaks.max().unwrap_or_default()
}

/// Draws the curves from `top` on, unless no stage has any bytes; returns where
/// the next thing may begin.
pub(super) fn draw(
    canvas: &mut Canvas,
    timeline: &Timeline,
    budget: Option<Bytes>,
    time: &Axis,
    top: f64,
) -> f64 {
    let highest = highest(timeline);
    if highest == Bytes(0) {
        return top - 16.0;
    }
    canvas.text((16.0, top), "title", "Memory of the stages");
    let (top, bottom) = (top + 14.0, top + 14.0 + HEIGHT);
    let highest = highest.max(budget.unwrap_or_default());
    let memory = Axis::of_bytes(highest, (bottom, top));
    memory.draw_beside(canvas, time.place, "memory");
    time.draw_below(canvas, (top, bottom), "time");
    let stages = timeline.stages.len();
    for stage in chosen(timeline) {
        let track = &timeline.stages[stage];
        canvas.curve(&color(stage, stages), &points(track, time, &memory));
    }
    if let Some(budget) = budget {
        let y = memory.at(budget.0);
        canvas.line("budget", (time.place.0, y), (time.place.1, y));
    }
    peaks_beside(canvas, timeline, budget, (time.place.1 + 14.0, top));
    bottom + 52.0
}

/// The levels of one stage that lasted, and those above both their neighbours:
/// a peak of no duration is a peak, but a dip between two passes is nothing.
fn levels(track: &StageTrack) -> Vec<(Nanos, Bytes)> {
    let mut levels = Vec::new();
    let mut before = Bytes(0);
    for instant in track.memory.chunk_by(|a, b| a.at == b.at) {
        let highest = instant.iter().map(|point| point.bytes).max();
        let (Some(highest), Some(last)) = (highest, instant.last()) else {
            continue;
        };
        if highest > before.max(last.bytes) {
            levels.push((last.at, highest));
        }
        levels.push((last.at, last.bytes));
        before = last.bytes;
    }
    levels
}

/// The curve of one stage. Of what happens within a pixel only the first, the
/// lowest, the highest and the last level can be seen, so only they are kept.
fn points(track: &StageTrack, time: &Axis, memory: &Axis) -> Vec<(f64, f64)> {
    let levels = levels(track).into_iter();
    let levels = levels.map(|(at, bytes)| (time.at(at.0), memory.at(bytes.0)));
    let levels: Vec<(f64, f64)> = levels.collect();
    let pixel = |a: &(f64, f64), b: &(f64, f64)| a.0.floor() == b.0.floor();
    let mut points = Vec::new();
    let mut before = None;
    for within in levels.chunk_by(pixel) {
        let (Some((x, first)), Some((_, last))) = (within.first(), within.last()) else {
            continue;
        };
        let ys = within.iter().map(|(_, y)| *y);
        let lowest = ys.clone().fold(*first, f64::min);
        let highest = ys.fold(*first, f64::max);
        points.push((*x, before.unwrap_or(*first)));
        points.extend([lowest, highest, *last].map(|y| (*x, y)));
        before = Some(*last);
    }
    points.extend(before.map(|y| (time.place.1, y)));
    points.dedup();
    points
}

/// The stages whose curves are drawn: all, or some from the first to the last,
/// and the one with the highest peak.
fn chosen(timeline: &Timeline) -> Vec<usize> {
    let stages = timeline.stages.len();
    if stages <= DRAWN {
        return (0..stages).collect();
    }
    let spread = (0..DRAWN - 1).map(|i| i * (stages - 1) / (DRAWN - 2));
    let highest = (0..stages)
        .rev()
        .max_by_key(|stage| timeline.stages[*stage].peak());
    let mut chosen: Vec<usize> = spread.chain(highest).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn peaks_beside(
    canvas: &mut Canvas,
    timeline: &Timeline,
    budget: Option<Bytes>,
    (x, mut y): (f64, f64),
) {
    y += 8.0;
    let stages = timeline.stages.len();
    canvas.text((x, y), "note", "peak");
    let chosen = chosen(timeline);
    for stage in chosen.iter().copied() {
        y += 15.0;
        canvas.key(&color(stage, stages), (x, y - 4.0), (x + 16.0, y - 4.0));
        let text = format!("stage {stage}: {}", timeline.stages[stage].peak());
        canvas.text((x + 22.0, y), "number", &text);
    }
    if stages > chosen.len() {
        y += 15.0;
        let text = format!("({} more not drawn)", stages - chosen.len());
        canvas.text((x + 22.0, y), "number", &text);
    }
    if let Some(budget) = budget {
        y += 19.0;
        canvas.line("budget", (x, y - 4.0), (x + 16.0, y - 4.0));
        canvas.text((x + 22.0, y), "number", &format!("budget: {budget}"));
    }
}

/// Colours from violet over red to yellow, none too light or too dark for either look.
fn color(stage: usize, stages: usize) -> String {
    const STOPS: [[f64; 3]; 5] = [
        [92.0, 99.0, 222.0],
        [166.0, 82.0, 196.0],
        [219.0, 73.0, 122.0],
        [230.0, 117.0, 45.0],
        [196.0, 158.0, 18.0],
    ];
    let place = stage as f64 / stages.saturating_sub(1).max(1) as f64 * 4.0;
    let from = (place.floor() as usize).min(3);
    let part = place - from as f64;
    let mix = |i: usize| (STOPS[from][i] * (1.0 - part) + STOPS[from + 1][i] * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}
