//! Results as pictures.

use std::path::Path;

use plotters::prelude::*;

use super::report::axes;
use super::{BenchError, Cell, Row};

const NOT_OVERLAPPED: RGBColor = RGBColor(0x4a, 0x77, 0xb0);
const OVERLAPPED: RGBColor = RGBColor(0x2e, 0x7d, 0x4f);

/// Steps relative to "none", a panel for each setting.
pub(super) fn strategies(rows: &[Row], path: &Path) -> Result<(), BenchError> {
    let mut settings: Vec<&str> = rows.iter().map(|row| row.setting.as_str()).collect();
    settings.dedup();
    let height = settings.len().max(1) as u32 * 330;
    let drawn = || -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::new(path, (980, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let panels = area.split_evenly((settings.len().max(1), 1));
        for (panel, setting) in panels.iter().zip(&settings) {
            bars(panel, rows, setting)?;
        }
        area.present()?;
        Ok(())
    };
    drawn().map_err(|error| failed(path, error.as_ref()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn bars(panel: &Area<'_>, rows: &[Row], setting: &str) -> Result<(), Box<dyn std::error::Error>> {
    let own: Vec<&Row> = rows.iter().filter(|row| row.setting == setting).collect();
    let most = own
        .iter()
        .map(|row| row.relative_to_none)
        .fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption(
            format!("{setting}: step over that without recompute"),
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(230)
        // Whole numbers would be bars' places, but plotters never ends when it looks for none to label.
        .build_cartesian_2d(0.0..most * 1.12, 0.0..own.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_label_formatter(&|x| format!("{x:.1}"))
        .light_line_style(WHITE)
        .draw()?;
    for (at, row) in own.iter().rev().enumerate() {
        let colour = match row.overlaps_nothing {
            true => NOT_OVERLAPPED,
            false => OVERLAPPED,
        };
        let (low, high) = (at as f64 + 0.1, at as f64 + 0.9);
        let bar = [(0.0, low), (row.relative_to_none, high)];
        chart.draw_series([Rectangle::new(bar, colour.filled())])?;
        let text = ("sans-serif", 14).into_font();
        let label = format!("{:.3}", row.relative_to_none);
        let place = chart.backend_coord(&(row.relative_to_none, high));
        let base = panel.get_base_pixel();
        let (x, y) = (place.0 - base.0, place.1 - base.1);
        panel.draw(&Text::new(label, (x + 6, y + 2), text.clone()))?;
        panel.draw(&Text::new(row.strategy.clone(), (16, y + 2), text))?;
    }
    Ok(())
}

/// What of a cell is shown.
type Read = fn(&Cell) -> f64;

/// Two heat maps: measured and simulated speed-up.
pub(super) fn sweep(cells: &[Cell], path: &Path) -> Result<(), BenchError> {
    let drawn = || -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::new(path, (1080, 470)).into_drawing_area();
        area.fill(&WHITE)?;
        let area = area.titled(
            "HEU over the best that overlaps nothing: speed-up of a step, two ranks",
            ("sans-serif", 20),
        )?;
        let panels = area.split_evenly((1, 2));
        let maps: [(&str, Read); 2] = [
            ("measured", |cell| cell.measured_speed_up),
            ("simulated", |cell| cell.simulated_speed_up),
        ];
        for (panel, (name, read)) in panels.iter().zip(maps) {
            heat(panel, cells, name, read)?;
        }
        area.present()?;
        Ok(())
    };
    drawn().map_err(|error| failed(path, error.as_ref()))
}

fn heat(
    panel: &Area<'_>,
    cells: &[Cell],
    name: &str,
    read: Read,
) -> Result<(), Box<dyn std::error::Error>> {
    let (shares, budgets) = axes(cells);
    let (across, down) = (shares.len().max(1), budgets.len().max(1));
    let percent = |values: &[f64], at: usize| {
        let value = values.get(at);
        value.map_or(String::new(), |value| format!("{:.0} %", value * 100.0))
    };
    let mut chart = ChartBuilder::on(panel)
        .caption(name, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        // Up to and with the last place.
        .build_cartesian_2d(
            (0..across - 1).into_segmented(),
            (0..down - 1).into_segmented(),
        )?;
    let place = |value: &SegmentValue<usize>, values: &[f64]| match value {
        SegmentValue::CenterOf(at) => percent(values, *at),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("communication, of a step without recompute")
        .y_desc("budget, from full recompute to none")
        .x_label_formatter(&|value| place(value, &shares))
        .y_label_formatter(&|value| place(value, &budgets))
        .draw()?;
    for cell in cells {
        let find = |values: &[f64], value: f64| values.iter().position(|&other| other == value);
        let (Some(x), Some(y)) = (
            find(&shares, cell.communication),
            find(&budgets, cell.budget),
        ) else {
            continue;
        };
        let value = read(cell);
        let corners = [
            (SegmentValue::Exact(x), SegmentValue::Exact(y)),
            (SegmentValue::Exact(x + 1), SegmentValue::Exact(y + 1)),
        ];
        chart.draw_series([Rectangle::new(corners, colour(value).filled())])?;
        let style = ("sans-serif", 15).into_font().color(&BLACK);
        let style = style.pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Center,
            plotters::style::text_anchor::VPos::Center,
        ));
        let centre = (SegmentValue::CenterOf(x), SegmentValue::CenterOf(y));
        chart.draw_series([Text::new(format!("{value:.2}"), centre, style)])?;
    }
    Ok(())
}

/// White at 1, green at 1.4 and above, red below 1.
fn colour(speed_up: f64) -> RGBColor {
    let mix = |share: f64, to: RGBColor| {
        let share = share.clamp(0.0, 1.0);
        let part = |to: u8| (255.0 + (f64::from(to) - 255.0) * share) as u8;
        RGBColor(part(to.0), part(to.1), part(to.2))
    };
    match speed_up >= 1.0 {
        true => mix((speed_up - 1.0) / 0.4, RGBColor(0x4c, 0xaf, 0x72)),
        false => mix((1.0 - speed_up) / 0.2, RGBColor(0xd0, 0x60, 0x60)),
    }
}

fn failed(path: &Path, error: &dyn std::error::Error) -> BenchError {
    BenchError::Picture {
        picture: path.display().to_string(),
        reason: error.to_string(),
    }
}
