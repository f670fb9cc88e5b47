//! All ways to recompute at one setting, taking turns.

use std::fmt;
use std::sync::Arc;

use lynx_burn::memory::{live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::planner::Plan;
use lynx_burn::plan::sim::timeline::Timeline;
use lynx_burn::{BackwardReport, Recorder, Trainer};
use serde::Serialize;

use super::burn_alone::BurnAlone;
use super::contender::{IDLE, NONE, WAYS, Way};
use super::statistics::{median, quantile};
use super::{BenchError, Ground};
use crate::model::Gpt;

const LEARNING_RATE: f64 = 1e-3;

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
    /// The same as planned.
    pub planned_retained_bytes: Option<u64>,
    /// What the process allocated at most during a step.
    pub allocator_peak_bytes: u64,
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

/// A strategy with its trainer and what it did.
struct Contender {
    way: Way,
    plan: Plan,
    trainer: Trainer<Gpt>,
    recorder: Arc<Recorder>,
    samples: Vec<Sample>,
}

/// The real and the simulated step of a strategy.
pub(super) struct Timelines {
    pub(super) strategy: String,
    pub(super) real: Timeline,
    pub(super) simulated: Timeline,
}

impl Contender {
    fn new(way: Way, ground: &Ground) -> Result<Option<Self>, BenchError> {
        // What does not fit takes no part.
        let Ok(plan) = way.plan(ground) else {
            return Ok(None);
        };
        let recorder = Arc::new(Recorder::new());
        let trainer = way.trainer(ground, &plan, Some(recorder.clone()))?;
        Ok(Some(Self {
            way,
            plan,
            trainer,
            recorder,
            samples: Vec::new(),
        }))
    }

    fn step(&mut self, ground: &Ground) -> Result<(Sample, Vec<f64>), BenchError> {
        let batches = ground.batches.clone();
        let before = live_bytes();
        reset_peak();
        let report = self.trainer.backward(batches)?;
        let allocated = peak_bytes().saturating_sub(before);
        self.trainer.update(LEARNING_RATE)?;
        Ok((Sample::of(&report, allocated), report.losses))
    }

    /// What the plan says that all threads retain together: its peaks without what is there all
    /// the time and what is needed for a moment.
    fn planned_retained(&self, ranks: u64) -> Result<u64, BenchError> {
        let problems = self.plan.problems()?;
        let stages = self.plan.stages.iter().zip(&problems);
        let all = stages.map(|(stage, problem)| {
            let beside = problem.fixed.0 + problem.workspace().0;
            stage.predicted.peak.0.saturating_sub(beside)
        });
        Ok(all.sum::<u64>() * ranks)
    }
}

impl Sample {
    fn of(report: &BackwardReport, allocated: u64) -> Self {
        Self {
            seconds: report.time.seconds(),
            retained: report.retained_peak().0,
            allocated,
            hidden: report.hidden().seconds(),
            exposed: report.exposed().seconds(),
        }
    }
}

/// Lets all strategies take turns; returns what each of them did, and pictures' worth of the
/// planned ones.
pub(super) fn hold(
    ground: &Ground,
    rounds: usize,
) -> Result<(Vec<Row>, Vec<Timelines>), BenchError> {
    let found = WAYS.into_iter().map(|way| Contender::new(way, ground));
    let found: Vec<Option<Contender>> = found.collect::<Result<_, _>>()?;
    let mut contenders: Vec<Contender> = found.into_iter().flatten().collect();
    compare(ground, &mut contenders)?;
    let mut plain = BurnAlone::ways(ground)?;
    for one in &mut plain {
        // The step that the comparison was for the others.
        one.step(LEARNING_RATE, &ground.batches)?;
    }
    let mut plain_samples = vec![Vec::new(); plain.len()];
    take_turns(ground, &mut contenders, rounds, |expected| {
        for (one, samples) in plain.iter_mut().zip(&mut plain_samples) {
            let (sample, losses) = one.step(LEARNING_RATE, &ground.batches)?;
            same_losses(ground, (one.name, &losses), expected)?;
            samples.push(sample);
        }
        Ok(())
    })?;
    for samples in &mut plain_samples {
        samples.remove(0);
    }
    let mut timelines = Vec::new();
    for contender in contenders
        .iter()
        .filter(|one| !one.way.overlaps_nothing() && one.way.name != IDLE)
    {
        if let Some(last) = contender.recorder.take().pop() {
            timelines.push(Timelines {
                strategy: contender.way.name.to_owned(),
                real: last.timeline,
                simulated: contender.plan.forecast()?.record()?.1,
            });
        }
    }
    let mut rows = rows(ground, &contenders, best_not_overlapped(&contenders))?;
    let none = without_recompute(&contenders);
    for (one, samples) in plain.iter().zip(&plain_samples) {
        rows.push(Row::new(ground, one.name, (samples, none, None)));
    }
    Ok((rows, timelines))
}

/// One warm-up and so many rounds; `others` are told the losses of each.
fn take_turns(
    ground: &Ground,
    contenders: &mut [Contender],
    rounds: usize,
    mut others: impl FnMut(&[f64]) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for round in 0..=rounds {
        let mut expected: Option<Vec<f64>> = None;
        let count = contenders.len();
        // Begin with another one each time: being first may be a handicap.
        for offset in 0..count {
            let contender = &mut contenders[(round + offset) % count];
            contender.recorder.take();
            let (sample, losses) = contender.step(ground)?;
            contender.samples.push(sample);
            let expected = expected.get_or_insert_with(|| losses.clone());
            same_losses(ground, (contender.way.name, &losses), expected)?;
        }
        others(&expected.unwrap_or_default())?;
    }
    for contender in contenders {
        contender.samples.remove(0);
    }
    Ok(())
}

fn same_losses(
    ground: &Ground,
    (strategy, losses): (&str, &[f64]),
    expected: &[f64],
) -> Result<(), BenchError> {
    if losses == expected {
        return Ok(());
    }
    Err(differs(ground, strategy, "a loss"))
}

fn differs(ground: &Ground, strategy: &str, what: &str) -> BenchError {
    BenchError::Differs {
        setting: ground.setting.name.clone(),
        strategy: strategy.to_owned(),
        reference: "another".to_owned(),
        what: what.to_owned(),
    }
}

/// Fails unless all contenders have the same gradients, to the last bit.
fn compare(ground: &Ground, contenders: &mut [Contender]) -> Result<(), BenchError> {
    let mut expected = None;
    for contender in contenders {
        contender.trainer.backward(ground.batches.clone())?;
        let found = contender.trainer.gradients()?;
        contender.trainer.update(LEARNING_RATE)?;
        let expected = expected.get_or_insert_with(|| found.clone());
        for (path, gradient) in &found {
            let same = expected
                .get(path)
                .is_some_and(|expected| expected.as_bytes() == gradient.as_bytes());
            if !same || expected.len() != found.len() {
                return Err(differs(ground, contender.way.name, path));
            }
        }
    }
    Ok(())
}

/// What "none" did; nothing where it takes no part.
fn without_recompute(contenders: &[Contender]) -> &[Sample] {
    match contenders.iter().find(|one| one.way.name == NONE) {
        Some(none) => &none.samples,
        None => &[],
    }
}

/// The fastest of those that recompute and do nothing while waiting.
fn best_not_overlapped(contenders: &[Contender]) -> Option<&Contender> {
    let median_of = |one: &&Contender| median(one.samples.iter().map(|s| s.seconds));
    let others = contenders
        .iter()
        .filter(|one| one.way.overlaps_nothing() && one.way.name != NONE);
    others.min_by(|a, b| median_of(a).total_cmp(&median_of(b)))
}

/// What each did, set against one of them.
fn rows(
    ground: &Ground,
    contenders: &[Contender],
    best: Option<&Contender>,
) -> Result<Vec<Row>, BenchError> {
    let none = without_recompute(contenders);
    let best = best.map(|one| &one.samples[..]);
    let ranks = ground.setting.ranks as u64;
    let mut rows = Vec::with_capacity(contenders.len());
    for one in contenders {
        let all = (&one.samples[..], none, best);
        let mut row = Row::new(ground, one.way.name, all);
        let step = one.plan.step;
        row.overlaps_nothing = one.way.overlaps_nothing();
        row.peak_retained_bytes = one.samples.iter().map(|s| s.retained).max();
        row.planned_retained_bytes = Some(one.planned_retained(ranks)?);
        row.predicted_exposed_ms = Some(step.exposed.seconds() * 1e3 * ranks as f64);
        row.predicted_step_ms = Some(step.time.seconds() * 1e3);
        row.predicted_over_measured = Some(step.time.seconds() * 1e3 / row.step_ms_median);
        rows.push(row);
    }
    Ok(rows)
}

impl Row {
    fn new(
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
            allocator_peak_bytes: samples.iter().map(|s| s.allocated).max().unwrap_or(0),
            hidden_fraction: (hidden + exposed > 0.0).then(|| hidden / (hidden + exposed)),
            exposed_ms: median(samples.iter().map(|s| s.exposed)) * 1e3,
            predicted_exposed_ms: None,
            predicted_step_ms: None,
            predicted_over_measured: None,
        }
    }
}

/// Two ways at one ground, both set against the second.
pub(super) fn duel(
    ground: &Ground,
    ways: [Way; 2],
    rounds: usize,
) -> Result<Option<[Row; 2]>, BenchError> {
    let found = ways.into_iter().map(|way| Contender::new(way, ground));
    let found: Vec<Option<Contender>> = found.collect::<Result<_, _>>()?;
    let mut contenders: Vec<Contender> = found.into_iter().flatten().collect();
    if contenders.len() < 2 {
        return Ok(None);
    }
    take_turns(ground, &mut contenders, rounds, |_| Ok(()))?;
    let rows = rows(ground, &contenders, contenders.get(1))?;
    Ok(<[Row; 2]>::try_from(rows).ok())
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
