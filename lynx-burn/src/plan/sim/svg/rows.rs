//! The rows: what every stage does, what it recomputes beside that, and what
//! passes between neighbours.

use super::super::timeline::{ChannelTrack, Message, Span, Timeline};
use super::axis::{Axis, duration};
use super::canvas::Canvas;
use super::pass;
use crate::units::Nanos;

pub(super) const STAGE: f64 = 26.0;
const BESIDE: f64 = 11.0;
const LINK: f64 = 8.0;
const GAP: f64 = 7.0;
/// What ends within this many pixels of what is already drawn is left out.
const GRAIN: f64 = 0.4;

pub(super) struct Rows<'a> {
    timeline: &'a Timeline,
    has_beside: bool,
    has_links: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn of(timeline: &'a Timeline) -> Self {
        let mut messages = timeline.channels.iter().flat_map(|c| &c.messages);
        Self {
            timeline,
            has_beside: timeline.stages.iter().any(|track| !track.beside.is_empty()),
            has_links: messages.any(|message| message.begin < message.arrive),
        }
    }

    fn stage_height(&self) -> f64 {
        STAGE + if self.has_beside { BESIDE + 1.0 } else { 0.0 }
    }

    fn between(&self) -> f64 {
        GAP + if self.has_links {
            2.0 * (LINK + 2.0) + GAP - 2.0
        } else {
            0.0
        }
    }

    pub(super) fn height(&self) -> f64 {
        let stages = self.timeline.stages.len();
        // Below the last stage of a ring are the links to the first.
        let is_ring = stages > 0 && self.timeline.channels.len() >= 2 * stages;
        let gaps = if is_ring {
            stages
        } else {
            stages.saturating_sub(1)
        };
        stages as f64 * self.stage_height() + gaps as f64 * self.between()
    }

    /// Whether some passes are drawn as bands.
    pub(super) fn has_bands(&self, time: &Axis) -> bool {
        let mut stages = self.timeline.stages.iter();
        stages.any(|track| pass::has_bands(track, time))
    }

    pub(super) fn draw(&self, canvas: &mut Canvas, time: &Axis, top: f64) {
        let mut y = top;
        for (stage, track) in self.timeline.stages.iter().enumerate() {
            let name = format!("stage {stage}");
            canvas.text((time.place.0 - 9.0, y + 17.5), "name end", &name);
            canvas.rect("idle", time.place, (y, STAGE), "");
            pass::row(canvas, time, track, y);
            y += STAGE;
            if self.has_beside {
                beside_row(canvas, time, &track.beside, y + 1.0);
                y += BESIDE + 1.0;
            }
            if self.has_links {
                let links = self.timeline.channels.chunks(2).nth(stage);
                let mut link_y = y + GAP - 1.0;
                for track in links.into_iter().flatten() {
                    link_row(canvas, time, track, link_y);
                    link_y += LINK + 2.0;
                }
            }
            y += self.between();
        }
    }
}

/// Keeps boxes that nobody could see out of the picture.
pub(super) struct Grain(pub(super) f64);

impl Grain {
    pub(super) fn shows(&mut self, (_, right): (f64, f64)) -> bool {
        let shows = right >= self.0 + GRAIN;
        if shows {
            self.0 = right;
        }
        shows
    }
}

/// Boxes of one row that are too narrow to be pointed at, by class.
#[derive(Default)]
pub(super) struct Narrow(Vec<(&'static str, Vec<(f64, f64)>)>);

impl Narrow {
    /// Draws a box now if it is wide enough, and later if not.
    pub(super) fn rect(
        &mut self,
        canvas: &mut Canvas,
        class: &'static str,
        ends: (f64, f64),
        row: (f64, f64),
        about: &str,
    ) {
        if ends.1 - ends.0 >= 1.5 {
            canvas.rect(class, ends, row, about);
            return;
        }
        match self.0.iter_mut().find(|(of, _)| *of == class) {
            Some((_, boxes)) => boxes.push(ends),
            None => self.0.push((class, vec![ends])),
        }
    }

    /// Draws what was put off.
    pub(super) fn finish(self, canvas: &mut Canvas, row: (f64, f64)) {
        for (class, boxes) in self.0 {
            canvas.boxes(class, &boxes, row);
        }
    }
}

pub(super) fn about(what: &str, begin: Nanos, end: Nanos) -> String {
    let time = Nanos(end.0.saturating_sub(begin.0));
    format!("{what}: {} from {}", duration(time), duration(begin))
}

fn beside_row(canvas: &mut Canvas, time: &Axis, spans: &[Span], y: f64) {
    let mut grain = Grain(f64::MIN);
    let mut narrow = Narrow::default();
    for span in spans {
        let ends = (time.at(span.begin.0), time.at(span.end.0));
        if grain.shows(ends) {
            let (mb, unit) = (span.micro_batch.0, span.unit());
            let about = about(&format!("recompute of {unit}"), span.begin, span.end);
            narrow.rect(canvas, "h", ends, (y, BESIDE), &about);
            number(canvas, mb, ends, y + 8.6, "tiny", 5.4);
        }
    }
    narrow.finish(canvas, (y, BESIDE));
}

fn link_row(canvas: &mut Canvas, time: &Axis, track: &ChannelTrack, y: f64) {
    let name = format!("{} → {}", track.from.0, track.to.0);
    canvas.text((time.place.0 - 9.0, y + 7.5), "small end", &name);
    canvas.line("grid", (time.place.0, y + LINK), (time.place.1, y + LINK));
    let mut row = |class: &'static str, part: fn(&Message) -> (Nanos, Nanos)| {
        let mut grain = Grain(f64::MIN);
        let mut narrow = Narrow::default();
        for message in &track.messages {
            let (begin, end) = part(message);
            let ends = (time.at(begin.0), time.at(end.0));
            if begin < end && grain.shows(ends) {
                let about = about(&format!("message of {}", message.unit()), begin, end);
                narrow.rect(canvas, class, ends, (y, LINK), &about);
            }
        }
        narrow.finish(canvas, (y, LINK));
    };
    row("l", |message| (message.left, message.arrive));
    row("m", |message| (message.begin, message.left));
}

pub(super) fn number(
    canvas: &mut Canvas,
    number: usize,
    ends: (f64, f64),
    y: f64,
    class: &str,
    digit: f64,
) {
    let text = number.to_string();
    if ends.1 - ends.0 >= digit * text.len() as f64 + 2.0 {
        canvas.text(((ends.0 + ends.1) / 2.0, y), class, &text);
    }
}
