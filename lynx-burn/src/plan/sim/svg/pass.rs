//! One stage's passes, each as a box with the number of its micro-batch.
//!
//! The parts of a pass are drawn in their order where they are wide enough, and
//! as bands one above the other where they are not: then their heights are
//! their shares of the time, and the picture does not lie about colours.

use super::super::timeline::{Span, SpanKind, StageTrack};
use super::axis::Axis;
use super::canvas::Canvas;
use super::rows::{Grain, Narrow, STAGE, about, number};
use super::style::class;

/// On average, parts narrower than this become bands.
const NARROW: f64 = 3.0;

/// Draws what a stage does, one pass after the other.
pub(super) fn row(canvas: &mut Canvas, time: &Axis, track: &StageTrack, y: f64) {
    let mut grain = Grain(f64::MIN);
    let mut narrow = Narrow::default();
    for pass in passes(track) {
        let ends = ends(pass, time);
        let Some(first) = pass.first().filter(|_| grain.shows(ends)) else {
            continue;
        };
        let mb = first.micro_batch.0;
        let letter = match pass_of(first) {
            Pass::Forward => "F",
            Pass::Backward => "B",
            Pass::Weight => "W",
            Pass::Reduction => "G",
        };
        let name = format!("{letter}{}", first.unit());
        let mut widest = ends;
        if is_narrow(pass, time) {
            bands(canvas, pass, &name, ends, y, &mut narrow);
        } else {
            widest = (0.0, 0.0);
            for alike in parts(pass) {
                let (class, what) = of_part(alike, &name);
                let (begin, end) = (alike[0].begin, alike[alike.len() - 1].end);
                let ends = self::ends(alike, time);
                narrow.rect(canvas, class, ends, (y, STAGE), &about(&what, begin, end));
                if ends.1 - ends.0 > widest.1 - widest.0 {
                    widest = ends;
                }
            }
        }
        if ends.1 - ends.0 > 3.0 {
            canvas.line("edge", (ends.1, y), (ends.1, y + STAGE));
        }
        number(canvas, mb, widest, y + 17.5, "in", 7.6);
    }
    narrow.finish(canvas, (y, STAGE));
}

/// Whether some pass of the stage is drawn as bands.
pub(super) fn has_bands(track: &StageTrack, time: &Axis) -> bool {
    passes(track).any(|pass| is_narrow(pass, time) && width(pass, time) > 1.5)
}

#[derive(PartialEq, Eq)]
enum Pass {
    Forward,
    Backward,
    Weight,
    Reduction,
}

/// The pass that a span belongs to, if it is no wait. Collectives beside
/// gradients of weights are drawn as a pass of their own.
fn pass_of(span: &Span) -> Pass {
    match span.kind {
        SpanKind::Weight => Pass::Weight,
        SpanKind::Reduction => Pass::Reduction,
        kind if kind.is_forward() => Pass::Forward,
        _ => Pass::Backward,
    }
}

/// The spans of a forward, a backward or a part of one, without waits.
fn passes(track: &StageTrack) -> impl Iterator<Item = &[Span]> {
    let of_one_pass = |a: &Span, b: &Span| {
        let waits = a.kind.is_wait() || b.kind.is_wait();
        !waits && a.unit() == b.unit() && pass_of(a) == pass_of(b)
    };
    let chunks = track.main.chunk_by(of_one_pass);
    chunks.filter(|pass| pass.iter().all(|span| !span.kind.is_wait()))
}

/// Stretches of one colour.
fn parts(pass: &[Span]) -> impl Iterator<Item = &[Span]> {
    pass.chunk_by(|a, b| class(a) == class(b))
}

fn ends(spans: &[Span], time: &Axis) -> (f64, f64) {
    let begin = spans.first().map_or(0, |span| span.begin.0);
    let end = spans.last().map_or(0, |span| span.end.0);
    (time.at(begin), time.at(end))
}

fn width(spans: &[Span], time: &Axis) -> f64 {
    let (left, right) = ends(spans, time);
    right - left
}

fn is_narrow(pass: &[Span], time: &Axis) -> bool {
    let parts = parts(pass).count();
    parts > 1 && width(pass, time) < NARROW * parts as f64
}

fn of_part(alike: &[Span], name: &str) -> (&'static str, String) {
    let class = alike.first().and_then(class);
    let class = class.unwrap_or("idle");
    let what = match class {
        "c" => format!("collective of {name}"),
        "x" => format!("exposed recompute of {name}"),
        _ => name.to_owned(),
    };
    (class, what)
}

fn bands(
    canvas: &mut Canvas,
    pass: &[Span],
    name: &str,
    ends: (f64, f64),
    y: f64,
    narrow: &mut Narrow,
) {
    let (Some(first), Some(last)) = (pass.first(), pass.last()) else {
        return;
    };
    let about = about(name, first.begin, last.end);
    let computes = |span: &&Span| !matches!(class(span), Some("c" | "x"));
    let own = pass.iter().find(computes).and_then(class).unwrap_or("c");
    if ends.1 - ends.0 < 1.5 {
        narrow.rect(canvas, own, ends, (y, STAGE), &about);
        return;
    }
    let whole = (last.end.0.saturating_sub(first.begin.0)).max(1) as f64;
    let mut top = y;
    for band in [own, "c", "x"].into_iter().skip(usize::from(own == "c")) {
        let of_band = pass.iter().filter(|span| class(span) == Some(band));
        let time = of_band.map(|span| span.end.0.saturating_sub(span.begin.0));
        let height = STAGE * time.sum::<u64>() as f64 / whole;
        if height > 0.0 {
            canvas.rect(band, ends, (top, height), &about);
            top += height;
        }
    }
}
