//! All ways to recompute at one setting, taking turns.

use std::sync::Arc;

use lynx_burn::memory::{live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::planner::Plan;
use lynx_burn::plan::sim::timeline::Timeline;
use lynx_burn::{Recorder, Rehearsal, TrainError, Trainer};

use super::burn_alone::BurnAlone;
use super::contender::{IDLE, NONE, WAYS, Way};
use super::row::{Row, Sample};
use super::statistics::median;
use super::{BenchError, Ground};
use crate::model::Gpt;

const LEARNING_RATE: f64 = 1e-3;

/// A strategy with its trainer and what it did.
struct Contender {
    way: Way,
    plan: Plan,
    trainer: Trainer<Gpt>,
    /// What its steps will hold.
    rehearsal: Rehearsal,
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
        let mut trainer = way.trainer(ground, &plan, Some(recorder.clone()))?;
        let batch = ground.batches.first().cloned();
        let batch = batch.ok_or(TrainError::NoWeight { micro_batches: 0 })?;
        let rehearsal = trainer.rehearse(batch, ground.batches.len())?;
        Ok(Some(Self {
            way,
            plan,
            trainer,
            rehearsal,
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
        let planned = one.plan.activations()?;
        row.planned_retained_bytes = Some(planned.iter().map(|bytes| bytes.0).sum::<u64>() * ranks);
        row.rehearsed_retained_bytes = Some(one.rehearsal.retained_peak().0);
        row.rehearsed_allocator_bytes = one.rehearsal.allocated_peak().map(|bytes| bytes.0);
        row.predicted_exposed_ms = Some(step.exposed.seconds() * 1e3 * ranks as f64);
        row.predicted_step_ms = Some(step.time.seconds() * 1e3);
        row.predicted_over_measured = Some(step.time.seconds() * 1e3 / row.step_ms_median);
        rows.push(row);
    }
    Ok(rows)
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
