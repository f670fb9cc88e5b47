//! A timeline as a Chrome trace, which <https://ui.perfetto.dev> opens.
//!
//! Every stage is a process with a thread for what it does and one for hidden
//! recompute, and its memory as a counter; every direction of a link that
//! carries anything is a process after them. Waits are left out: they are the
//! gaps. The format counts in microseconds, so instants get three decimals and
//! stay exact.

use std::io::{self, Write};

use super::timeline::{Cargo, Message, Span, SpanKind, Timeline};
use crate::plan::schedule::Unit;
use crate::units::Nanos;

/// Writes `timeline` as one JSON object.
pub fn write(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let mut trace = Trace { out, first: true };
    trace
        .out
        .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (stage, track) in timeline.stages.iter().enumerate() {
        trace.process(stage, &format!("stage {stage}"))?;
        trace.thread(stage, MAIN, "stage")?;
        for span in &track.main {
            trace.span(stage, MAIN, span, timeline)?;
        }
        if !track.beside.is_empty() {
            trace.thread(stage, BESIDE, "hidden recompute")?;
        }
        for span in &track.beside {
            trace.span(stage, BESIDE, span, timeline)?;
        }
        for point in &track.memory {
            let (at, bytes) = (micros(point.at), point.bytes.0);
            trace.event(&format!(
                "\"ph\":\"C\",\"name\":\"memory\",\"pid\":{stage},\"ts\":{at},\
                 \"args\":{{\"bytes\":{bytes}}}"
            ))?;
        }
    }
    for (channel, track) in timeline.channels.iter().enumerate() {
        let takes_time = |message: &&Message| message.begin < message.arrive;
        let mut messages = track.messages.iter().filter(takes_time).peekable();
        if messages.peek().is_none() {
            continue;
        }
        let process = timeline.stages.len() + channel;
        trace.process(process, &format!("link {} to {}", track.from, track.to))?;
        trace.thread(process, MAIN, "messages")?;
        for message in messages {
            let cargo = match track.cargo {
                Cargo::Boundary => "boundary",
                Cargo::Gradient => "gradient",
            };
            trace.message(process, cargo, message)?;
        }
    }
    trace.out.write_all(b"\n]}\n")
}

/// [`write()`] into a string.
pub fn to_string(timeline: &Timeline) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and what is written is text.
    let _ = write(timeline, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

const MAIN: u8 = 0;
const BESIDE: u8 = 1;

struct Trace<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> Trace<'_, W> {
    fn event(&mut self, fields: &str) -> io::Result<()> {
        let separator = if self.first { "\n" } else { ",\n" };
        self.first = false;
        write!(self.out, "{separator}{{{fields}}}")
    }

    /// Names a process and puts it after the ones before it.
    fn process(&mut self, process: usize, name: &str) -> io::Result<()> {
        let name = quoted(name);
        self.event(&format!(
            "\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"tid\":0,\
             \"args\":{{\"name\":{name}}}"
        ))?;
        self.event(&format!(
            "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{process},\"tid\":0,\
             \"args\":{{\"sort_index\":{process}}}"
        ))
    }

    fn thread(&mut self, process: usize, thread: u8, name: &str) -> io::Result<()> {
        let name = quoted(name);
        self.event(&format!(
            "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{thread},\
             \"args\":{{\"name\":{name}}}"
        ))
    }

    fn span(
        &mut self,
        process: usize,
        thread: u8,
        span: &Span,
        timeline: &Timeline,
    ) -> io::Result<()> {
        let unit = span.unit();
        let (name, category) = match span.kind {
            SpanKind::Forward => (format!("F{unit}"), "forward"),
            SpanKind::Backward => (format!("B{unit}"), "backward"),
            SpanKind::Weight => (format!("W{unit}"), "weight"),
            SpanKind::Collective(window) => (format!("{window} of {unit}"), "collective"),
            SpanKind::Reduction => (format!("G{unit}"), "reduction"),
            SpanKind::Exposed => (format!("recompute {unit}"), "exposed"),
            SpanKind::Hidden(window) => (format!("recompute {unit} in {window}"), "hidden"),
            SpanKind::Wait { .. } => return Ok(()),
        };
        let name = match timeline.label(span) {
            Some(label) => quoted(&format!("{name} {label}")),
            None => quoted(&name),
        };
        let (at, time) = (micros(span.begin), between(span.begin, span.end));
        self.event(&format!(
            "\"ph\":\"X\",\"name\":{name},\"cat\":\"{category}\",\"pid\":{process},\
             \"tid\":{thread},\"ts\":{at},\"dur\":{time},\"args\":{{{args}}}",
            args = of_unit(unit)
        ))
    }

    /// A message lasts while it occupies the link; its latency is an argument,
    /// because the next message may be on its way by then.
    fn message(&mut self, process: usize, cargo: &str, message: &Message) -> io::Result<()> {
        let unit = message.unit();
        let (at, time) = (micros(message.begin), between(message.begin, message.left));
        let latency = between(message.left, message.arrive);
        self.event(&format!(
            "\"ph\":\"X\",\"name\":\"{cargo} {unit}\",\"cat\":\"message\",\"pid\":{process},\"tid\":0,\
             \"ts\":{at},\"dur\":{time},\
             \"args\":{{{args},\"latency_us\":{latency}}}",
            args = of_unit(unit)
        ))
    }
}

fn of_unit(unit: Unit) -> String {
    let (micro_batch, chunk) = (unit.micro_batch.0, unit.chunk.0);
    format!("\"micro_batch\":{micro_batch},\"chunk\":{chunk}")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn micros(Nanos(nanos): Nanos) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

fn between(begin: Nanos, end: Nanos) -> String {
    micros(Nanos(end.0.saturating_sub(begin.0)))
}
