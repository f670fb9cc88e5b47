//! A chart of values over steps, as SVG.
//!
//! It brings its colours for a light and a dark background, and its classes begin with `lc-`, so
//! that it can stand in a page beside other pictures.

use std::fmt::Write;

use super::page::escaped;
use super::scale::Scale;

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What the values are, with their unit.
    pub(super) unit: String,
    /// Whether the values' axis begins at zero, as for all that can be compared by height.
    pub(super) from_zero: bool,
    pub(super) series: Vec<Series>,
    /// A line across, and what it means.
    pub(super) mark: Option<(f64, String)>,
}

/// Values of one kind.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// Step and value, in order; values that are no numbers leave a gap.
    pub(super) points: Vec<(f64, f64)>,
    /// With a dot at each point: for few values that were taken apart from the others.
    pub(super) dots: bool,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
/// Left, right, top and bottom of the plot.
const PLOT: [f64; 4] = [76.0, WIDTH - 24.0, 74.0, HEIGHT - 46.0];
/// More points than that are drawn as the span of their values in each of half as many parts.
const MOST_POINTS: usize = 1200;
/// Colours that most colour-blind people tell apart; with more series they repeat.
const COLOURS: usize = 6;

const STYLE: &str = "
.lc-t{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:12px;fill:#4d5866}
.lc-title{font-size:16px;font-weight:600;fill:#1b232e}.lc-name{fill:#1b232e}
.lc-end{text-anchor:end}.lc-mid{text-anchor:middle}
.lc-paper{fill:#fff}.lc-grid{stroke:#dfe4ea;stroke-width:1}.lc-axis{stroke:#8b95a1;stroke-width:1}
.lc-mark{stroke:#4d5866;stroke-width:1.2;stroke-dasharray:6 4}
.lc-line{fill:none;stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}
.lc-s0{stroke:#2a6fbb}.lc-s1{stroke:#d1622b}.lc-s2{stroke:#2f8f5b}.lc-s3{stroke:#8b5fbf}.lc-s4{stroke:#b08a00}.lc-s5{stroke:#c0417f}
.lc-d0{fill:#2a6fbb}.lc-d1{fill:#d1622b}.lc-d2{fill:#2f8f5b}.lc-d3{fill:#8b5fbf}.lc-d4{fill:#b08a00}.lc-d5{fill:#c0417f}
@media (prefers-color-scheme:dark){
.lc-t{fill:#a9b4c2}.lc-title,.lc-name{fill:#e4e9f0}.lc-paper{fill:#13171d}.lc-grid{stroke:#2b323c}.lc-axis{stroke:#6b7684}.lc-mark{stroke:#a9b4c2}
.lc-s0{stroke:#5a9fe6}.lc-s1{stroke:#ee8450}.lc-s2{stroke:#4fb67f}.lc-s3{stroke:#b08ce0}.lc-s4{stroke:#d6b13a}.lc-s5{stroke:#e573a8}
.lc-d0{fill:#5a9fe6}.lc-d1{fill:#ee8450}.lc-d2{fill:#4fb67f}.lc-d3{fill:#b08ce0}.lc-d4{fill:#d6b13a}.lc-d5{fill:#e573a8}
}
";

impl Chart {
    /// The whole picture.
    pub(super) fn draw(&self) -> String {
        let (x, y) = self.scales();
        let mut body = String::new();
        self.frame(&mut body, &x, &y);
        for (index, series) in self.series.iter().enumerate() {
            draw_series(&mut body, series, index % COLOURS, &x, &y);
        }
        let title = escaped(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>{STYLE}</style>\n\
             <rect class=\"lc-paper\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
        )
    }

    fn scales(&self) -> (Scale, Scale) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let shown = || points().filter(|(_, value)| value.is_finite());
        let span = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let (first, last) = span(&mut points().map(|point| point.0));
        let mark = self.mark.iter().map(|(value, _)| *value);
        let zero = self.from_zero.then_some(0.0);
        let mut values = shown().map(|point| point.1).chain(mark).chain(zero);
        let (low, high) = span(&mut values);
        (Scale::between(first, last, 8), Scale::around(low, high, 5))
    }

    fn frame(&self, out: &mut String, x: &Scale, y: &Scale) {
        let [left, right, _, bottom] = PLOT;
        text(out, (16.0, 26.0), "lc-t lc-title", &self.title);
        self.legend(out);
        for &tick in &y.ticks {
            let at = down(y, tick);
            line(out, "lc-grid", (left, at), (right, at));
            text(out, (left - 8.0, at + 4.0), "lc-t lc-end", &y.label(tick));
        }
        for &tick in &x.ticks {
            let at = across(x, tick);
            line(out, "lc-axis", (at, bottom), (at, bottom + 5.0));
            text(out, (at, bottom + 20.0), "lc-t lc-mid", &x.label(tick));
        }
        line(out, "lc-axis", (left, bottom), (right, bottom));
        text(
            out,
            (right, bottom + 38.0),
            "lc-t lc-end",
            "optimizer steps",
        );
        if let Some((value, meaning)) = &self.mark {
            let at = down(y, *value);
            line(out, "lc-mark", (left, at), (right, at));
            text(out, (right, at - 6.0), "lc-t lc-end", meaning);
        }
    }

    /// Unit and names, in one row under the title.
    fn legend(&self, out: &mut String) {
        let width = |text: &str| 6.7 * text.chars().count() as f64;
        text(out, (16.0, 50.0), "lc-t", &self.unit);
        let mut x = 16.0 + width(&self.unit) + 28.0;
        for (index, series) in self.series.iter().enumerate() {
            let class = index % COLOURS;
            line(
                out,
                &format!("lc-line lc-s{class}"),
                (x, 46.0),
                (x + 18.0, 46.0),
            );
            if series.dots {
                dot(out, class, (x + 9.0, 46.0), "");
            }
            text(out, (x + 25.0, 50.0), "lc-t lc-name", &series.name);
            x += 25.0 + width(&series.name) + 22.0;
        }
    }
}

fn across(x: &Scale, step: f64) -> f64 {
    PLOT[0] + (PLOT[1] - PLOT[0]) * x.place(step)
}

fn down(y: &Scale, value: f64) -> f64 {
    PLOT[3] - (PLOT[3] - PLOT[2]) * y.place(value)
}

fn draw_series(out: &mut String, series: &Series, class: usize, x: &Scale, y: &Scale) {
    let points = thinned(&series.points);
    for run in points.split(|(_, value)| !value.is_finite()) {
        let places = run
            .iter()
            .map(|&(step, value)| (across(x, step), down(y, value)));
        match run {
            [] => {}
            // A line needs two.
            [(step, value)] if !series.dots => {
                let about = format!("step {step}: {value:.4}");
                dot(out, class, (across(x, *step), down(y, *value)), &about);
            }
            _ => {
                let _ = write!(out, "<polyline class=\"lc-line lc-s{class}\" points=\"");
                for (x, y) in places {
                    let _ = write!(out, "{x:.1},{y:.1} ");
                }
                out.push_str("\"/>\n");
            }
        }
    }
    for &(step, value) in points.iter().filter(|(_, value)| value.is_finite()) {
        if series.dots {
            let about = format!("step {step}: {value:.4}");
            dot(out, class, (across(x, step), down(y, value)), &about);
        }
    }
}

/// The lowest and the highest of each part, where there are more points than pixels.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let size = points.len().div_ceil(MOST_POINTS / 2);
    let ends = |part: &[(f64, f64)]| {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = part.iter().min_by(by).copied();
        let high = part.iter().max_by(by).copied();
        let mut both: Vec<_> = low.into_iter().chain(high).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both
    };
    points.chunks(size).flat_map(ends).collect()
}

// Writing to memory does not fail.

fn text(out: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
    );
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn dot(out: &mut String, class: usize, (x, y): (f64, f64), about: &str) {
    let about = match about {
        "" => String::new(),
        about => format!("<title>{about}</title>"),
    };
    let _ = writeln!(
        out,
        "<circle class=\"lc-d{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">{about}</circle>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "Loss <of> a & b".to_owned(),
            unit: "nats".to_owned(),
            from_zero: false,
            series: vec![Series {
                name: "training".to_owned(),
                points,
                dots: false,
            }],
            mark: Some((2.0, "entropy".to_owned())),
        }
    }

    /// All coordinates in the attribute of the first curve.
    fn curve(svg: &str) -> Vec<(f64, f64)> {
        let begin = svg.find("points=\"").expect("a curve") + 8;
        let end = begin + svg[begin..].find('"').expect("its end");
        let number = |text: &str| text.parse().expect("a number");
        svg[begin..end]
            .split_whitespace()
            .map(|point| {
                let (x, y) = point.split_once(',').expect("a point");
                (number(x), number(y))
            })
            .collect()
    }

    #[test]
    fn values_lie_where_the_axes_say() {
        let svg = chart(vec![(0.0, 4.0), (50.0, 1.0), (100.0, 2.5)]).draw();
        // The axis goes from 1 to 4, the steps from 0 to 100.
        let [left, right, top, bottom] = PLOT;
        let expected = [
            (left, top),
            ((left + right) / 2.0, bottom),
            (right, (top + bottom) / 2.0),
        ];
        for (found, expected) in curve(&svg).into_iter().zip(expected) {
            assert!(
                (found.0 - expected.0).abs() < 0.06,
                "{found:?} {expected:?}"
            );
            assert!(
                (found.1 - expected.1).abs() < 0.06,
                "{found:?} {expected:?}"
            );
        }
        assert!(svg.contains("Loss &lt;of&gt; a &amp; b"));
    }

    #[test]
    fn what_is_no_number_leaves_a_gap_and_no_nan_in_the_picture() {
        let svg = chart(vec![(0.0, 4.0), (1.0, 3.0), (2.0, f64::NAN), (3.0, 2.0)]).draw();
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for points in [vec![], vec![(0.0, f64::NAN)], vec![(3.0, 3.0)]] {
            let svg = chart(points).draw();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_long_run_keeps_its_peaks() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[77_777].1 = 9.0;
        let drawn = thinned(&points);
        assert!(drawn.len() <= MOST_POINTS);
        assert!(drawn.contains(&(77_777.0, 9.0)));
        assert!(drawn.is_sorted_by(|a, b| a.0 <= b.0));
    }
}
