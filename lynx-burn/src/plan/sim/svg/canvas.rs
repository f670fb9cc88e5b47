//! Writes the elements of a picture; knows XML and nothing of timelines.

use std::fmt::Write;

use super::style::STYLE;

/// A picture under way.
pub(super) struct Canvas {
    width: f64,
    body: String,
}

impl Canvas {
    pub(super) fn new(width: f64) -> Self {
        Self {
            width,
            body: String::new(),
        }
    }

    pub(super) fn width(&self) -> f64 {
        self.width
    }

    /// A box from `left` to `right` that tells `about` when pointed at.
    pub(super) fn rect(
        &mut self,
        class: &str,
        (left, right): (f64, f64),
        (top, height): (f64, f64),
        about: &str,
    ) {
        let width = right - left;
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{left:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" \
             height=\"{height:.1}\""
        ));
        if about.is_empty() {
            self.put(format_args!("/>\n"));
        } else {
            let about = escaped(about);
            self.put(format_args!("><title>{about}</title></rect>\n"));
        }
    }

    /// Many boxes in one row, in less text than one by one.
    pub(super) fn boxes(&mut self, class: &str, row: &[(f64, f64)], (top, height): (f64, f64)) {
        if row.is_empty() {
            return;
        }
        self.put(format_args!("<path class=\"{class}\" d=\""));
        for (left, right) in row {
            let width = right - left;
            self.put(format_args!(
                "M{left:.2} {top:.1}h{width:.2}v{height:.1}h-{width:.2}z"
            ));
        }
        self.put(format_args!("\"/>\n"));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>\n"
        ));
    }

    /// Text that runs upwards, around its place.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">\
             {text}</text>\n"
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A curve through these points.
    pub(super) fn curve(&mut self, color: &str, points: &[(f64, f64)]) {
        self.put(format_args!(
            "<polyline class=\"curve\" stroke=\"{color}\" points=\""
        ));
        for (x, y) in points {
            self.put(format_args!("{x:.2},{y:.2} "));
        }
        self.put(format_args!("\"/>\n"));
    }

    /// A short piece of a curve, for a key.
    pub(super) fn key(&mut self, color: &str, from: (f64, f64), to: (f64, f64)) {
        self.curve(color, &[from, to]);
    }

    /// The whole picture.
    pub(super) fn finish(self, height: f64) -> String {
        let (width, body) = (self.width, self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
        )
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = self.body.write_fmt(text);
    }
}

/// `text` as XML; characters that XML cannot have are replaced.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' => safe.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
