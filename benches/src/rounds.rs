//! Variants that take turns.

use std::time::{Duration, Instant};

pub use gpt_example::bench::quantile;
use serde::{Deserialize, Serialize};

/// A named thing to time.
pub struct Variant<'a> {
    /// Its name in the table.
    pub name: &'a str,
    /// One repetition.
    pub run: Box<dyn FnMut() + 'a>,
}

/// How long a variant took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// The variant.
    pub variant: String,
    /// Median over the rounds, in milliseconds.
    pub step_ms_median: f64,
    /// Least and most, in milliseconds.
    pub step_ms_range: [f64; 2],
    /// Median over the rounds of its time divided by the first variant's in the same round.
    pub ratio_median: f64,
    /// Quartiles of that ratio.
    pub ratio_quartiles: [f64; 2],
}

/// Runs every variant once for warm-up and then `rounds` times in turn.
pub fn take_turns(mut variants: Vec<Variant<'_>>, rounds: usize) -> Vec<Timing> {
    let mut times: Vec<Vec<Duration>> = vec![Vec::with_capacity(rounds); variants.len()];
    for variant in &mut variants {
        (variant.run)();
    }
    for round in 0..rounds {
        // Begin with another one each time: being first may be a handicap.
        for offset in 0..variants.len() {
            let index = (round + offset) % variants.len();
            let begin = Instant::now();
            (variants[index].run)();
            times[index].push(begin.elapsed());
        }
    }
    let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
    timings(&names, &times)
}

/// Statistics of variants that took turns: times by variant and round.
pub fn timings(names: &[&str], times: &[Vec<Duration>]) -> Vec<Timing> {
    let seconds = |index: usize| times[index].iter().map(Duration::as_secs_f64);
    (0..names.len())
        .map(|index| {
            let ms: Vec<f64> = seconds(index).map(|s| s * 1e3).collect();
            let ratios: Vec<f64> = seconds(index).zip(seconds(0)).map(|(a, b)| a / b).collect();
            Timing {
                variant: names[index].to_owned(),
                step_ms_median: quantile(&ms, 0.5),
                step_ms_range: [quantile(&ms, 0.0), quantile(&ms, 1.0)],
                ratio_median: quantile(&ratios, 0.5),
                ratio_quartiles: [quantile(&ratios, 0.25), quantile(&ratios, 0.75)],
            }
        })
        .collect()
}

/// The median of so many durations, in milliseconds, and the quartiles.
pub fn spread_ms(times: &[Duration]) -> [f64; 3] {
    let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    [0.5, 0.25, 0.75].map(|q| quantile(&ms, q))
}

/// A Markdown table of timings.
pub fn table(timings: &[Timing]) -> String {
    let first = timings.first().map_or("", |timing| &timing.variant);
    let mut text = format!(
        "| variant | step, median (range) | relative to \"{first}\", median (quartiles) |\n| --- | --- | --- |\n"
    );
    for t in timings {
        text += &format!(
            "| {} | {:.1} ms ({:.1}-{:.1}) | {:.3} ({:.3}-{:.3}) |\n",
            t.variant,
            t.step_ms_median,
            t.step_ms_range[0],
            t.step_ms_range[1],
            t.ratio_median,
            t.ratio_quartiles[0],
            t.ratio_quartiles[1],
        );
    }
    text
}
