//! A timeline as a picture: a row for each stage, thin rows for links, and the
//! memory curves under them.
//!
//! It is for looking at: what is narrower than a part of a pixel is left out,
//! so that the picture of a long step stays small. Exact instants are in the
//! [trace](super::trace). It brings its own background, light or dark as the
//! viewer prefers, and needs nothing but a browser.

mod axis;
mod canvas;
mod memory;
mod pass;
mod rows;
mod style;

use super::timeline::{Span, Timeline};
use crate::units::Bytes;
use axis::Axis;
use canvas::Canvas;
use rows::Rows;

/// What can be chosen about a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The heading.
    pub title: String,
    /// In pixels; at least 480 are taken.
    pub width: u32,
    /// A line to draw across the memory curves.
    pub budget: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            title: "Timeline of one step".to_owned(),
            width: 1200,
            budget: None,
        }
    }
}

/// Left of the plots, for names and numbers of the axes.
const LEFT: f64 = 84.0;
/// Right of the plots, for the peaks of the memory curves.
const RIGHT: f64 = 172.0;
/// Right of the plots where there are no memory curves.
const NO_PEAKS: f64 = 28.0;
/// Wider pictures open nowhere.
const MAX_WIDTH: u32 = 20_000;

/// Draws `timeline`.
pub fn draw(timeline: &Timeline, options: &Options) -> String {
    picture(&[("", timeline)], options)
}

/// Draws timelines of one step, each with its name, one under the other on the same scale: what was
/// simulated and what happened.
pub fn draw_together(timelines: &[(&str, &Timeline)], options: &Options) -> String {
    picture(timelines, options)
}

fn picture(timelines: &[(&str, &Timeline)], options: &Options) -> String {
    let width = f64::from(options.width.clamp(480, MAX_WIDTH));
    let all = || timelines.iter().map(|(_, timeline)| *timeline);
    let highest = all().map(memory::highest).max().unwrap_or_default();
    let right = match highest {
        Bytes(0) => NO_PEAKS,
        _ => RIGHT,
    };
    let step = all().map(Timeline::step).max().unwrap_or_default();
    let time = Axis::of_time(step, (LEFT, width - right));
    let mut canvas = Canvas::new(width);
    canvas.text((16.0, 28.0), "title", &options.title);
    let mut y = 48.0;
    for (name, timeline) in timelines {
        let name = match *name {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let note = format!("{name}{}", summary(timeline));
        canvas.text((16.0, y), "note", &note);
        y += 18.0;
    }
    let bands = all().any(|timeline| Rows::of(timeline).has_bands(&time));
    y = style::legend(&mut canvas, &all().collect::<Vec<_>>(), bands, y - 4.0);
    for (name, timeline) in timelines {
        if !name.is_empty() {
            canvas.text((16.0, y + 12.0), "title", name);
            y += 26.0;
        }
        let rows = Rows::of(timeline);
        let bottom = y + rows.height();
        time.draw_below(&mut canvas, (y, bottom), "time");
        rows.draw(&mut canvas, &time, y);
        y = bottom + 64.0;
        y = memory::draw(&mut canvas, timeline, options.budget, &time, y);
    }
    canvas.finish(y)
}

fn summary(timeline: &Timeline) -> String {
    let stages = timeline.stages.len();
    let all = || timeline.stages.iter().flat_map(|track| &track.main);
    let micro_batches = all()
        .map(|span| span.micro_batch.0.saturating_add(1))
        .max()
        .unwrap_or(0);
    let works = |span: &&Span| !span.kind.is_wait();
    let busy = all()
        .filter(works)
        .map(|span| span.end.0.saturating_sub(span.begin.0));
    let busy = busy.fold(0.0, |sum, time| sum + time as f64);
    let step = timeline.step();
    let whole = step.0 as f64 * stages as f64;
    let idle = if whole > 0.0 {
        100.0 * (1.0 - busy / whole)
    } else {
        0.0
    };
    let plural = |count, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {}; the step takes {}; stages stand still for {idle:.1} % of it",
        plural(stages, "stage"),
        plural(micro_batches, "micro-batch").replace("batchs", "batches"),
        axis::duration(step),
    )
}
