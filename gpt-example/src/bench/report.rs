//! Results as files: JSON for programs, Markdown and pictures for people.

use std::fmt::Write as _;
use std::path::Path;

use lynx_burn::plan::sim::svg;
use serde::Serialize;

use super::contest::Timelines;
use super::plot;
use super::row::Row;
use super::statistics::median;
use super::{BenchError, Cell, Ground, Machine, Setting};
use crate::cli::BenchArgs;
use crate::files;

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Results {
    /// Where.
    pub machine: Machine,
    /// Rounds of a setting.
    pub rounds: usize,
    /// Rounds of a cell of the sweep.
    pub sweep_rounds: usize,
    /// A line for each setting.
    pub settings: Vec<String>,
    /// Every strategy at every setting.
    pub rows: Vec<Row>,
    /// Communication by budget.
    pub sweep: Vec<Cell>,
}

impl Results {
    pub(super) fn new(machine: Machine, args: &BenchArgs) -> Self {
        Self {
            machine,
            rounds: args.rounds,
            sweep_rounds: args.sweep_rounds,
            settings: Vec::new(),
            rows: Vec::new(),
            sweep: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, ground: &Ground, rows: Vec<Row>) {
        let (setting, setup) = (&ground.setting, &ground.setup);
        let speed = ground
            .speed
            .map_or(String::new(), |speed| format!(", links of {speed}"));
        self.settings.push(format!(
            "{}: {}; {} layers, width {}, context {}, {} micro-batches of {} windows, budget {} a \
             thread{speed}",
            setting.name,
            setting.about,
            setting.config.layers,
            setting.config.d_model,
            setting.config.context,
            setting.micro_batches,
            setting.windows,
            setup.budget,
        ));
        self.rows.extend(rows);
    }

    /// The median over all cells of the prediction over the measurement.
    pub fn sweep_predicted_over_measured(&self) -> f64 {
        let rows = self.sweep.iter().flat_map(|cell| &cell.rows);
        median(rows.filter_map(|row| row.predicted_over_measured))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), BenchError> {
        let rows = json(&self.rows);
        write(folder, "strategies.json", &rows)?;
        write(folder, "sweep.json", &json(&self.sweep))?;
        write(folder, "strategies.md", &self.markdown())?;
        plot::strategies(&self.rows, &folder.join("strategies.svg"))?;
        if !self.sweep.is_empty() {
            plot::sweep(&self.sweep, &folder.join("sweep.svg"))?;
        }
        Ok(())
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "# Ways to recompute, in real steps\n\nMeasured on {}. Times are of that machine at that \
             moment; compare within a table only. A step is forward and backward of all micro-batches, \
             without the update: medians of {} rounds in which all take turns, quartiles in brackets. \
             Planned exposed time of what repeats sums, as Megatron-LM does, has those sums in it; \
             measured, they are waiting. Written by `cargo bench -p lynx-benches --bench strategies`, or `gpt bench`.\n",
            self.machine.line(),
            self.rounds,
        );
        for setting in &self.settings {
            let name = setting.split(':').next().unwrap_or_default();
            text += &format!("\n## {setting}\n\n");
            text += "| strategy | step, ms | x none | x best not overlapped | tokens/s | retained, MiB \
                     (rehearsed, planned) | allocator, MiB (rehearsed) | hidden | exposed, ms (planned) | predicted/measured |\n";
            text += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
            for row in self.rows.iter().filter(|row| row.setting == name) {
                line(&mut text, row);
            }
        }
        if !self.sweep.is_empty() {
            text += "\n## Sweep: HEU over the best that overlaps nothing\n\nTwo ranks. Speed-up \
                     measured (simulated); the budget is what fits of the activations beyond those of \
                     full recompute with collectives kept.\n\n";
            table(&mut text, &self.sweep);
            let _ = writeln!(
                text,
                "\nMedians of {} rounds. Predicted over measured step, median over all steps of the sweep: \
                 {:.3}.",
                self.sweep_rounds,
                self.sweep_predicted_over_measured()
            );
        }
        text
    }
}

fn line(text: &mut String, row: &Row) {
    let mib = |bytes: Option<u64>| {
        bytes.map_or("-".to_owned(), |b| format!("{:.1}", b as f64 / 1048576.0))
    };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
    let percent =
        |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:.0} %", v * 100.0));
    let planned = row.predicted_exposed_ms;
    let _ = writeln!(
        text,
        "| {} | {:.1} ({:.1}-{:.1}) | {:.3} | {} | {:.0} | {} ({}, {}) | {} ({}) | {} | {:.1} ({}) | {} |",
        row.strategy,
        row.step_ms_median,
        row.step_ms_spread[0],
        row.step_ms_spread[1],
        row.relative_to_none,
        number(row.relative_to_best_not_overlapped),
        row.tokens_per_s,
        mib(row.peak_retained_bytes),
        mib(row.rehearsed_retained_bytes),
        mib(row.planned_retained_bytes),
        mib(Some(row.allocator_peak_bytes)),
        mib(row.rehearsed_allocator_bytes),
        percent(row.hidden_fraction),
        row.exposed_ms,
        planned.map_or("-".to_owned(), |ms| format!("{ms:.1}")),
        number(row.predicted_over_measured),
    );
}

/// Shares of communication across, budgets down.
fn table(text: &mut String, cells: &[Cell]) {
    let (shares, budgets) = axes(cells);
    *text += "| budget |";
    for share in &shares {
        let _ = write!(text, " {:.0} % communication |", share * 100.0);
    }
    *text += "\n| --- |";
    *text += &" --- |".repeat(shares.len());
    *text += "\n";
    for budget in budgets {
        let _ = write!(text, "| {:.0} % |", budget * 100.0);
        for share in &shares {
            let mut all = cells.iter();
            let cell = all.find(|cell| cell.communication == *share && cell.budget == budget);
            let cell = cell.map_or("-".to_owned(), |cell| {
                format!(
                    "{:.3} ({:.3})",
                    cell.measured_speed_up, cell.simulated_speed_up
                )
            });
            let _ = write!(text, " {cell} |");
        }
        *text += "\n";
    }
}

/// The values along both axes, ascending.
pub(super) fn axes(cells: &[Cell]) -> (Vec<f64>, Vec<f64>) {
    let of = |read: fn(&Cell) -> f64| {
        let mut values: Vec<f64> = cells.iter().map(read).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    (of(|cell| cell.communication), of(|cell| cell.budget))
}

/// Every planned step as it was and as it was simulated, in one picture.
pub(super) fn write_timelines(
    folder: &Path,
    setting: &Setting,
    timelines: &[Timelines],
) -> Result<(), BenchError> {
    for one in timelines {
        let name: String = one
            .strategy
            .chars()
            .filter(|c| c.is_alphanumeric())
            .collect();
        let pair = [("measured", &one.real), ("simulated", &one.simulated)];
        let picture = svg::draw_together(&pair, &svg::Options::default());
        write(
            folder,
            &format!("timeline-{}-{name}.svg", setting.name),
            &picture,
        )?;
    }
    Ok(())
}

fn json<T: Serialize>(values: &T) -> String {
    // Plain numbers, words and lists.
    serde_json::to_string_pretty(values).map_or_else(|error| error.to_string(), |text| text + "\n")
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), BenchError> {
    let path = folder.join(name);
    Ok(files::write(&path, |out: &mut dyn std::io::Write| {
        out.write_all(text.as_bytes())
    })?)
}
