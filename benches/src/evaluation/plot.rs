//! All settings in one picture: steps relative to the bound, one panel for each cluster.

use std::path::Path;

use plotters::prelude::*;

use super::run::{Compared, UNLIMITED};
use super::settings::CLUSTERS;
use super::summary::{FULL, MEGATRON, NOT_OVERLAPPED, best};

/// Name, strategies and colour of a curve.
const CURVES: [(&str, &[&str], RGBColor); 4] = [
    ("full as Megatron-LM", FULL, RGBColor(0xb0, 0x4a, 0x4a)),
    (
        "best of full, block, selective",
        MEGATRON,
        RGBColor(0xd9, 0x95, 0x3b),
    ),
    (
        "best of all that overlap nothing",
        NOT_OVERLAPPED,
        RGBColor(0x4a, 0x77, 0xb0),
    ),
    ("HEU", &["heu"], RGBColor(0x2e, 0x7d, 0x4f)),
];

/// Draws into an SVG file.
///
/// # Errors
///
/// If it cannot be drawn or written.
pub fn draw(all: &[Compared], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (1200, 860)).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(
        "Simulated step over that with unlimited memory; settings ordered by the best that overlaps nothing",
        ("sans-serif", 20),
    )?;
    for (panel, cluster) in area.split_evenly((2, 2)).iter().zip(CLUSTERS) {
        let mut of: Vec<_> = all
            .iter()
            .filter(|c| c.setting.cluster == cluster)
            .filter_map(|c| Some((ratio(c, NOT_OVERLAPPED)?, c)))
            .collect();
        of.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut chart = ChartBuilder::on(panel)
            .caption(cluster, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(34)
            .y_label_area_size(48)
            .build_cartesian_2d(0..of.len().max(1), 0.98..1.72)?;
        chart
            .configure_mesh()
            .x_desc("settings")
            .y_desc("step / bound")
            .y_label_formatter(&|ratio| format!("{ratio:.1}"))
            .light_line_style(WHITE)
            .draw()?;
        for (name, strategies, colour) in CURVES {
            let points = of.iter().enumerate();
            let points = points.filter_map(|(at, (_, c))| Some((at, ratio(c, strategies)?)));
            let dots = points.map(|point| Circle::new(point, 2, colour.filled()));
            chart
                .draw_series(dots)?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .draw()?;
    }
    area.present()?;
    Ok(())
}

fn ratio(compared: &Compared, of: &[&str]) -> Option<f64> {
    Some(best(compared, of)? / compared.step(UNLIMITED)?)
}
