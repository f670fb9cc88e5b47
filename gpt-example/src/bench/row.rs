//! What a strategy did, as a row of results.

use std::fmt;

use lynx_burn::BackwardReport;
use serde::Serialize;

use super::Ground;
use super::statistics::{median, quantile};

/// One strategy at one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The setting.
    pub setting: String,
    /// The strategy.
    pub strategy: String,
    /// Whether it does nothing while waiting.
    pub overlaps_nothing: bool,
    /// Forward and backward of a step, without the update: the median, in milliseconds.
    pub step_ms_median: f64,
    /// Its quartiles.
    pub step_ms_spread: [f64; 2],
    /// Over "none" in the same round: the median; NaN where that takes no part.
    pub relative_to_none: f64,
    /// Over the best that overlaps nothing and fits, in the same round: the median.
    pub relative_to_best_not_overlapped: Option<f64>,
    /// By the median.
    pub tokens_per_s: f64,
    /// The most bytes of boundaries and tapes, all threads together.
    pub peak_retained_bytes: Option<u64>,
    /// The most that the plan allows for.
    pub planned_retained_bytes: Option<u64>,
    /// What was rehearsed before the first step.
    pub rehearsed_retained_bytes: Option<u64>,
    /// What the process allocated at most during a step.
    pub allocator_peak_bytes: u64,
    /// The same as rehearsed, all threads' peaks together.
    pub rehearsed_allocator_bytes: Option<u64>,
    /// Of all recompute; nothing where there was none.
    pub hidden_fraction: Option<f64>,
    /// Exposed recompute of all threads, in milliseconds: the median.
    pub exposed_ms: f64,
    /// The same as planned.
    pub predicted_exposed_ms: Option<f64>,
    /// The step as planned, in milliseconds.
    pub predicted_step_ms: Option<f64>,
    /// Of the step.
    pub predicted_over_measured: Option<f64>,
}

/// What one step of one contender gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) retained: u64,
    pub(super) allocated: u64,
    pub(super) hidden: f64,
    pub(super) exposed: f64,
}

impl Sample {
    pub(super) fn of(report: &BackwardReport, allocated: u64) -> Self {
        Self {
            seconds: report.time.seconds(),
            retained: report.retained_peak().0,
            allocated,
            hidden: report.hidden().seconds(),
            exposed: report.exposed().seconds(),
        }
    }
}

impl Row {
    pub(super) fn new(
        ground: &Ground,
        strategy: &str,
        (samples, none, best): (&[Sample], &[Sample], Option<&[Sample]>),
    ) -> Self {
        let seconds = |samples: &[Sample]| samples.iter().map(|s| s.seconds).collect::<Vec<_>>();
        let own = seconds(samples);
        let ratio = |to: &[Sample]| {
            let to = seconds(to);
            median(own.iter().zip(&to).map(|(own, to)| own / to))
        };
        let middle = median(own.iter().copied());
        let hidden: f64 = samples.iter().map(|s| s.hidden).sum();
        let exposed: f64 = samples.iter().map(|s| s.exposed).sum();
        Self {
            setting: ground.setting.name.clone(),
            strategy: strategy.to_owned(),
            overlaps_nothing: true,
            step_ms_median: middle * 1e3,
            step_ms_spread: [0.25, 0.75].map(|q| quantile(&own, q) * 1e3),
            relative_to_none: ratio(none),
            relative_to_best_not_overlapped: best.map(ratio),
            tokens_per_s: ground.tokens() as f64 / middle,
            peak_retained_bytes: None,
            planned_retained_bytes: None,
            rehearsed_retained_bytes: None,
            rehearsed_allocator_bytes: None,
            allocator_peak_bytes: samples.iter().map(|s| s.allocated).max().unwrap_or(0),
            hidden_fraction: (hidden + exposed > 0.0).then(|| hidden / (hidden + exposed)),
            exposed_ms: median(samples.iter().map(|s| s.exposed)) * 1e3,
            predicted_exposed_ms: None,
            predicted_step_ms: None,
            predicted_over_measured: None,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<30} {:>8.1} ms {:>6.3} x none",
            self.strategy, self.step_ms_median, self.relative_to_none
        )?;
        if let Some(predicted) = self.predicted_over_measured {
            write!(f, ", predicted/measured {predicted:.3}")?;
        }
        if let Some(hidden) = self.hidden_fraction {
            write!(f, ", hidden {:.0} %", hidden * 100.0)?;
        }
        Ok(())
    }
}
