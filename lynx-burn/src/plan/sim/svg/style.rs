//! Colours, and the legend that explains them.
//!
//! One colour for each thing, the same in both looks: dark enough for white
//! numbers on it, and apart from each other for most colour-blind people.

use super::super::timeline::{Message, Span, SpanKind, Timeline};
use super::canvas::Canvas;

pub(super) const STYLE: &str = "
text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1b232e}
.title{font-size:18px;font-weight:600}.name{font-size:12px}.note{font-size:12.5px;fill:#4d5866}
.number{font-size:11px;fill:#4d5866}.small{font-size:9px;fill:#4d5866}
.end{text-anchor:end}.middle{text-anchor:middle}
.in{font-size:12px;fill:#fff;text-anchor:middle}.tiny{font-size:8.5px;fill:#1b232e;text-anchor:middle}
.paper{fill:#fff}.idle{fill:#eceff3}.grid{stroke:#aeb7c2;stroke-width:.6;stroke-dasharray:2 3}
.f{fill:#2a6fbb}.b{fill:#2f8f5b}.c{fill:#8b5fbf}.x{fill:#cf3f4f}.h{fill:#e6a323}
.w{fill:#84762a}.g{fill:#6a4a3c}
.f1{fill:#4d89cb}.f2{fill:#6c9fd6}.f3{fill:#89b3e0}.b1{fill:#4ca274}.b2{fill:#68b28b}.b3{fill:#86c3a3}
.w1{fill:#9a8c41}.w2{fill:#aea15c}.w3{fill:#c1b67a}
.m{fill:#1f9aa8}.l{fill:#1f9aa8;opacity:.4}
.edge{stroke:#fff;stroke-width:1}.curve{fill:none;stroke-width:1.6;stroke-linejoin:round}
.budget{stroke:#cf3f4f;stroke-width:1.4;stroke-dasharray:7 4}
@media (prefers-color-scheme:dark){
text{fill:#e4e9f0}.note,.number,.small{fill:#a9b4c2}.in{fill:#fff}.tiny{fill:#1b232e}
.paper{fill:#13171d}.idle{fill:#262c35}.grid{stroke:#56606d}.edge{stroke:#13171d}
}
";

/// The class of what fills a box; `None` for standing still. What is computed is
/// the lighter the later its chunk; the fifth chunk looks like the first again.
pub(super) fn class(span: &Span) -> Option<&'static str> {
    let shade = |shades: [&'static str; 4]| Some(shades[span.chunk.0 % shades.len()]);
    match span.kind {
        SpanKind::Forward => shade(["f", "f1", "f2", "f3"]),
        SpanKind::Backward => shade(["b", "b1", "b2", "b3"]),
        SpanKind::Weight => shade(["w", "w1", "w2", "w3"]),
        SpanKind::Collective(_) => Some("c"),
        SpanKind::Reduction => Some("g"),
        SpanKind::Exposed => Some("x"),
        SpanKind::Hidden(_) => Some("h"),
        SpanKind::Wait { .. } => None,
    }
}

/// Explains the colours that occur; returns where the next thing may begin.
pub(super) fn legend(canvas: &mut Canvas, timelines: &[&Timeline], bands: bool, top: f64) -> f64 {
    let occurs = |is_it: &dyn Fn(&Span) -> bool| {
        let tracks = timelines.iter().flat_map(|timeline| &timeline.stages);
        let mut spans = tracks.flat_map(|track| track.main.iter().chain(&track.beside));
        spans.any(is_it)
    };
    let spans = |class: &str| occurs(&|span| self::class(span) == Some(class));
    let computes = |kind: SpanKind| occurs(&|span| span.kind == kind);
    let shaded = occurs(&|span| span.chunk.0 > 0);
    let messages = |of: fn(&Message) -> bool| {
        let channels = timelines.iter().flat_map(|timeline| &timeline.channels);
        let mut messages = channels.flat_map(|track| &track.messages);
        messages.any(of)
    };
    let entries = [
        ("f", "forward", computes(SpanKind::Forward)),
        ("b", "backward", computes(SpanKind::Backward)),
        ("w", "gradients of weights", computes(SpanKind::Weight)),
        ("", "shades: chunks of a stage, the first darkest", shaded),
        ("c", "collective", spans("c")),
        ("g", "gradients over replicas", spans("g")),
        ("x", "exposed recompute", spans("x")),
        ("h", "hidden recompute, beside what is above it", spans("h")),
        ("m", "message on a link", messages(|m| m.begin < m.left)),
        ("l", "its latency", messages(|m| m.left < m.arrive)),
        ("idle", "stands still", true),
        ("", "numbers: micro-batches", true),
        ("", "bands: shares of a pass, not their order", bands),
    ];
    let (mut x, mut y) = (16.0, top);
    for (class, meaning, _) in entries.into_iter().filter(|(.., occurs)| *occurs) {
        let swatch = if class.is_empty() { 0.0 } else { 20.0 };
        let width = swatch + 6.7 * meaning.chars().count() as f64;
        if x + width > canvas.width() - 16.0 {
            (x, y) = (16.0, y + 20.0);
        }
        if !class.is_empty() {
            canvas.rect(class, (x, x + 14.0), (y, 12.0), "");
        }
        canvas.text((x + swatch, y + 10.5), "name", meaning);
        x += width + 14.0;
    }
    y + 30.0
}
