//! A setting measured: what segments cost here, how fast the links must be, and what fits.

use std::num::NonZeroU64;

use burn::prelude::*;
use lynx_burn::measure::{MeasureOptions, Measured, measure};
use lynx_burn::plan::cluster::{Cluster, Link};
use lynx_burn::plan::planner::{Setup, Strategy};
use lynx_burn::plan::profile::{ModelProfile, SegmentProfile};
use lynx_burn::units::{Bytes, Nanos};
use lynx_burn::{LinkSpeed, MicroBatch};

use super::contender::LIMIT;
use super::{BenchError, Setting};
use crate::data::micro_batches;
use crate::model::Gpt;

/// Seed of initial values and dropout.
pub(super) const SEED: u64 = 7;

/// A setting with everything that plans and trainers need.
pub struct Ground {
    /// The setting.
    pub setting: Setting,
    /// How the strategies plan; its budget is the setting's.
    pub setup: Setup,
    /// Of the links between ranks or between stages; nothing where nobody talks.
    pub speed: Option<LinkSpeed>,
    /// What every step trains on.
    pub(super) batches: Vec<MicroBatch<Gpt>>,
}

impl Ground {
    /// Measures a setting on as many threads as will train.
    ///
    /// # Errors
    ///
    /// If it cannot be measured or planned for.
    pub fn measure(setting: &Setting) -> Result<Self, BenchError> {
        let profile = profile(setting)?;
        Self::of(setting, &profile)
    }

    /// A setting whose segments are known.
    pub(super) fn of(setting: &Setting, profile: &ModelProfile) -> Result<Self, BenchError> {
        let machine: Cluster = "cpu-2-core".parse().map_err(BenchError::Cluster)?;
        let with = |speed: LinkSpeed| {
            let link = Link::from(speed);
            let cluster = machine.clone().with_links(setting.ranks, link, link);
            let mut setup = Setup::new(
                profile,
                &cluster,
                setting.stages,
                setting.micro_batches as u64,
            );
            // For whom nothing is too much.
            setup.budget = Bytes(1 << 40);
            setup
        };
        let talks = setting.ranks > 1 || setting.stages > 1;
        let speed = match talks && setting.communication > 0.0 {
            true => fitting(setting, with)?,
            // As good as no time at all.
            false => speed(FASTEST),
        };
        let mut setup = with(speed);
        setup.budget = budget(&setup, setting.room)?;
        Ok(Self {
            setting: setting.clone(),
            setup,
            speed: talks.then_some(speed),
            batches: batches(setting),
        })
    }

    /// Tokens of a step.
    pub(super) fn tokens(&self) -> usize {
        let setting = &self.setting;
        setting.micro_batches * setting.windows * setting.config.context
    }
}

/// The speed at which communication is the setting's share of a step without recompute.
fn fitting(setting: &Setting, with: impl Fn(LinkSpeed) -> Setup) -> Result<LinkSpeed, BenchError> {
    let share = |speed: LinkSpeed| -> Result<f64, BenchError> {
        let setup = with(speed);
        let none = Strategy::named("none", LIMIT)?.plan(&setup)?;
        let link = Link::from(speed);
        let (ranks, stages) = (setting.ranks, setting.stages);
        let sums = setup.profile.segments();
        let sums = sums.flat_map(|s| s.after_forward.iter().chain(&s.after_backward));
        let sums: Nanos = sums.map(|sum| link.collective_time(sum, ranks)).sum();
        let boundary = setup.profile.layer_kinds().last();
        let boundary = boundary.and_then(|kind| kind.segments.last());
        let boundary = boundary.map_or(Bytes(0), |segment| segment.boundary);
        // There and back again.
        let transfers = link.transfer_time(boundary).saturating_mul(2);
        let transfers = transfers.saturating_mul(stages as u64 - 1);
        let each = sums.saturating_add(transfers);
        let all = each.saturating_mul(setting.micro_batches as u64);
        Ok(all.seconds() / none.step.time.seconds())
    };
    // The share falls as the speed grows: halve the interval of its logarithm.
    let (mut slow, mut fast) = (5.0, FASTEST);
    for _ in 0..40 {
        let middle = (slow + fast) / 2.0;
        match share(speed(middle))? > setting.communication {
            true => slow = middle,
            false => fast = middle,
        }
    }
    Ok(speed(fast))
}

/// The logarithm of more bytes a second than anything here moves.
const FASTEST: f64 = 14.0;

/// So many bytes a second, by their decimal logarithm.
fn speed(exponent: f64) -> LinkSpeed {
    LinkSpeed {
        bytes_per_second: NonZeroU64::new(10_f64.powf(exponent) as u64).unwrap_or(NonZeroU64::MIN),
        latency: Nanos(0),
    }
}

/// What full recompute needs, with `room` times its activations.
fn budget(setup: &Setup, room: f64) -> Result<Bytes, BenchError> {
    let full = Strategy::named("full", LIMIT)?.plan(setup)?;
    let problems = full.problems()?;
    let stages = full.stages.iter().zip(&problems);
    let budgets = stages.map(|(stage, problem)| {
        let activations = stage.predicted.peak.0.saturating_sub(problem.fixed.0);
        problem.fixed.0 + (activations as f64 * room) as u64
    });
    Ok(Bytes(budgets.max().unwrap_or(0)))
}

fn batches(setting: &Setting) -> Vec<MicroBatch<Gpt>> {
    let text: Vec<u8> = lipsum::LIBER_PRIMUS.bytes().collect();
    let count = setting.micro_batches * setting.windows;
    let last = text.len().saturating_sub(setting.config.context + 1);
    let starts: Vec<usize> = (0..count).map(|i| i * 997 % last.max(1)).collect();
    let device = Device::flex();
    micro_batches(
        &text,
        &starts,
        setting.config.context,
        setting.micro_batches,
        (&device, &device),
    )
}

/// What the segments cost: bytes on one thread alone, because they are read from counters of the
/// process; times on as many threads as will train, because they share caches and memory.
pub(super) fn profile(setting: &Setting) -> Result<ModelProfile, BenchError> {
    let bytes = on_own_core(|| measured(setting, 1))?;
    let threads = setting.ranks * setting.stages;
    let timed: Vec<Result<Measured, BenchError>> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| on_own_core(|| measured(setting, ROUNDS)));
        let threads: Vec<_> = (0..threads).map(|_| start()).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(measured) => measured,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let timed: Vec<ModelProfile> = timed
        .into_iter()
        .map(|measured| Ok(measured?.profile))
        .collect::<Result<_, BenchError>>()?;
    let mut profile = bytes.profile;
    for (index, segment) in segments(&mut profile).into_iter().enumerate() {
        let of = |read: fn(&SegmentProfile) -> Nanos| {
            let times = timed.iter().filter_map(|one| of_kind(one, index).map(read));
            let (sum, count) = times.fold((0, 0), |(sum, count), time| (sum + time.0, count + 1));
            Nanos(sum / count.max(1))
        };
        segment.forward = of(|segment| segment.forward);
        segment.recompute = of(|segment| segment.recompute);
        segment.backward_input = of(|segment| segment.backward_input);
    }
    Ok(profile)
}

/// Rounds of measuring.
const ROUNDS: usize = 9;

/// Every segment that is described, once.
fn segments(profile: &mut ModelProfile) -> Vec<&mut SegmentProfile> {
    let layers = profile.kinds.iter_mut().flat_map(|kind| &mut kind.segments);
    let embedding = profile.embedding.iter_mut();
    embedding.chain(layers).chain(&mut profile.head).collect()
}

/// The one at this place among them.
fn of_kind(profile: &ModelProfile, index: usize) -> Option<&SegmentProfile> {
    let layers = profile.kinds.iter().flat_map(|kind| &kind.segments);
    let mut all = profile.embedding.iter().chain(layers).chain(&profile.head);
    all.nth(index)
}

fn measured(setting: &Setting, repeats: usize) -> Result<Measured, BenchError> {
    let device = Device::flex();
    let model = Gpt::new(&setting.config, SEED, &device)?.with_modules(setting.modules);
    let options = MeasureOptions {
        repeats,
        ranks: setting.ranks,
        name: Some(setting.name.clone()),
        tokens: Some((setting.windows * setting.config.context) as u64),
        // In a step every layer comes to caches that the others have filled.
        every_layer: true,
        ..MeasureOptions::default()
    };
    let batch = batches(setting).swap_remove(0);
    Ok(measure(
        model,
        batch.input,
        batch.target,
        &device,
        &options,
    )?)
}

/// Runs something as a stage runs: on one thread alone.
pub(super) fn on_own_core<R: Send>(
    work: impl FnOnce() -> Result<R, BenchError> + Send,
) -> Result<R, BenchError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(BenchError::Threads)?.install(work)
}
