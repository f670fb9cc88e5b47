//! How time and memory of a simulation grow with the number of actions.
//!
//! Even stages with windows, plain 1F1B, from a few thousand actions to 1,024 stages and 4,096
//! micro-batches. Sizes take turns in every round. Writes `results/simulator.{json,md,svg}`.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use lynx_benches::machine::Machine;
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::schedule::{Kind, transfers};
use lynx_burn::plan::sim::costs::{Change, Part, StageCosts};
use lynx_burn::plan::sim::{Costs, Window, simulate};
use lynx_burn::units::{Bytes, Nanos};
use plotters::prelude::*;
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

const SIZES: [(usize, usize); 8] = [
    (8, 64),
    (16, 128),
    (32, 256),
    (64, 512),
    (128, 1024),
    (256, 2048),
    (512, 4096),
    (1024, 4096),
];
const ROUNDS: usize = 5;
const MOST_SECONDS: f64 = 30.0;
const MOST_BYTES: u64 = 4 << 30;

/// What one size costs.
#[derive(Serialize)]
struct Row {
    stages: usize,
    micro_batches: usize,
    /// Computes, sends and receives.
    actions: usize,
    /// Of the simulation alone: median and range over the rounds.
    seconds: f64,
    least_seconds: f64,
    most_seconds: f64,
    ns_per_action: f64,
    /// Above what was there before the schedule was made.
    peak_bytes: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut times = vec![Vec::new(); SIZES.len()];
    let mut rows = Vec::new();
    for round in 0..ROUNDS {
        for (index, &(stages, micro_batches)) in SIZES.iter().enumerate() {
            let before = live_bytes();
            reset_peak();
            let plain = Kind::OneFOneB.generate(stages, micro_batches)?;
            let schedule = transfers::eager(&plain);
            drop(plain);
            let actions = schedule.stages.iter().map(Vec::len).sum();
            let costs = Costs::with_free_links(vec![stage(); stages]);
            let began = Instant::now();
            let report = simulate(&schedule, &costs)?;
            times[index].push(began.elapsed().as_secs_f64());
            // Forward 100, backward 200 and 60 exposed.
            let expected = (micro_batches + stages - 1) as u64 * 360;
            assert_eq!(report.step.0, expected, "{stages} x {micro_batches}");
            if round == 0 {
                rows.push(Row {
                    stages,
                    micro_batches,
                    actions,
                    seconds: 0.0,
                    least_seconds: 0.0,
                    most_seconds: 0.0,
                    ns_per_action: 0.0,
                    peak_bytes: peak_bytes().saturating_sub(before),
                });
            }
        }
    }
    for (row, times) in rows.iter_mut().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        row.seconds = times[ROUNDS / 2];
        (row.least_seconds, row.most_seconds) = (times[0], times[ROUNDS - 1]);
        row.ns_per_action = row.seconds * 1e9 / row.actions as f64;
    }
    if let Some(largest) = rows.last() {
        assert!(largest.most_seconds <= MOST_SECONDS && largest.peak_bytes <= MOST_BYTES);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join("simulator.json"),
        serde_json::to_string_pretty(&rows)?,
    )?;
    let text = markdown(&rows);
    println!("{text}");
    std::fs::write(folder.join("simulator.md"), text)?;
    plot(&rows, &folder.join("simulator.svg"))
}

fn stage() -> StageCosts {
    let compute = |time, takes| Part::Compute {
        label: "compute".to_owned(),
        time: Nanos(time),
        bytes: Change::takes(Bytes(takes)),
    };
    let collective = |window| Part::Collective {
        window,
        time: Nanos(20),
        recompute: Nanos(0),
        busy: Nanos(0),
        bytes: Change::NONE,
    };
    let recompute = Part::Recompute {
        time: Nanos(60),
        bytes: Change::takes(Bytes(50)),
    };
    StageCosts {
        forward: vec![compute(80, 10), collective(Window::F1)],
        backward: vec![recompute, compute(180, 0), collective(Window::B1)],
        ..StageCosts::default()
    }
}

fn markdown(rows: &[Row]) -> String {
    let mut text = format!(
        "# Simulator\n\nMeasured on: {}. Plain 1F1B with transfers, two windows and exposed recompute a pass; {ROUNDS} rounds \
         in which the sizes take turns. The step's closed form is checked each time. Bytes are the allocator's peak with \
         the schedule.\n\n\
         | stages | micro-batches | actions | seconds, median | least | most | ns an action | peak |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        Machine::here().line()
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.4} | {:.4} | {:.4} | {:.0} | {:.1} MiB |",
            row.stages,
            row.micro_batches,
            row.actions,
            row.seconds,
            row.least_seconds,
            row.most_seconds,
            row.ns_per_action,
            row.peak_bytes as f64 / (1 << 20) as f64
        );
    }
    text + "\n![seconds over actions](simulator.svg)\n"
}

/// Seconds over actions, both logarithmic: a line of slope one is linear growth.
fn plot(rows: &[Row], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (720, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let actions = |row: &Row| row.actions as f64;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Ok(());
    };
    let (left, right) = (actions(first) / 2.0, actions(last) * 2.0);
    let (low, high) = (first.least_seconds / 2.0, last.most_seconds * 2.0);
    let mut chart = ChartBuilder::on(&area)
        .caption("Simulating 1F1B", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((left..right).log_scale(), (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("actions")
        .y_desc("seconds")
        .x_label_formatter(&|actions| format!("{actions:.0e}"))
        .y_label_formatter(&|seconds| format!("{seconds:.0e}"))
        .light_line_style(WHITE)
        .draw()?;
    let grey = BLACK.mix(0.4);
    let rate = last.seconds / actions(last);
    let line = [(left, left * rate), (right, right * rate)];
    chart
        .draw_series(LineSeries::new(line, grey))?
        .label("linear: the largest size's time an action")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], grey));
    let green = RGBColor(0x2e, 0x7d, 0x4f);
    let dots = rows
        .iter()
        .map(|row| Circle::new((actions(row), row.seconds), 4, green.filled()));
    chart
        .draw_series(dots)?
        .label("measured, median")
        .legend(move |(x, y)| Circle::new((x + 8, y), 4, green.filled()));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    Ok(())
}
