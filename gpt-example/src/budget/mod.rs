//! A run within a memory budget: measured, planned, watched, planned again where it turns out
//! otherwise, and at the end compared with what was planned.
//!
//! Before the run, a rank of the model is measured alone on the first device, and planned for the
//! links that the options give. The budget is a device's, and the plan is one replica's. [`Watch`] then sees every step. Where steps drift from the plan
//! ([`drift`]), it measures and plans again between two steps, for the same deal of layers: no
//! parameter moves, and no gradient depends on what is recomputed. Measuring needs the memory of a
//! micro-batch, which is free between steps, and that of the measured segments' weights.
//!
//! [`figures`] is what is predicted and what is measured, [`outcome`] the comparison, and
//! [`reasons`] why the two may differ.

mod drift;
mod figures;
mod outcome;
mod reasons;
mod watch;

use std::time::Duration;

use lynx_burn::Split;
use lynx_burn::plan::planner::{Setup, Strategy};

pub(crate) use self::watch::Watch;
use crate::cli::{OverlapKind, TrainArgs};
use crate::error::RunError;
use crate::orders::{Orders, follow, joined};
use crate::plan::{
    Links, PlanningError, Source, Subject, Wording, cores_of_each, decide, here, tell,
};
use crate::progress::say;

/// If the options give a memory budget: measures, plans, says what was found, and makes the plan's
/// decisions those of the options.
///
/// # Errors
///
/// If nothing fits the budget, or measuring fails.
pub(crate) fn prepare(args: &mut TrainArgs) -> Result<Option<(Watch, Orders)>, RunError> {
    let Some(budget) = args.budget.memory_budget else {
        return Ok(None);
    };
    let stages = match args.split() {
        Split::Even(stages) => stages,
        Split::Layers(each) => each.len(),
        Split::Starts(each) => each.len(),
    };
    let (ranks, micro_batches) = (args.overlap.tp, args.pipeline.micro_batches);
    let one_core_each = args.overlap.one_core_each;
    // clap asks for at least one.
    let device = args.pipeline.device.first().copied().unwrap_or_default();
    let replicas = args.overlap.replicas;
    let workers = stages.saturating_mul(ranks).saturating_mul(replicas);
    let windows = args.training.batch().div_ceil(micro_batches);
    let subject = Subject {
        config: args.config(),
        modules: args.model.modules,
        windows,
        ranks,
        cores: cores_of_each(device, workers, one_core_each),
        device,
    };
    let links = Links {
        collective: args.overlap.collective_link,
        pipeline: args.pipeline.link,
    };
    let source = Source::of(subject.measure()?, here(links, ranks)?);
    let mut setup = Setup::new(
        &source.profile,
        &source.cluster,
        stages,
        // Of each replica; the checks have seen that it divides.
        (micro_batches / replicas) as u64,
    );
    setup.replicas = joined(replicas, args.overlap.replica_link);
    setup.schedule = args.pipeline.schedule;
    setup.budget = budget;
    if args.overlap.overlap == Some(OverlapKind::Never) {
        setup.windows.clear();
    }
    let limit: Duration = args.budget.time_limit;
    let strategy = Strategy::named(&args.budget.strategy, limit).map_err(PlanningError::from)?;
    let wording = Wording::Train { windows, replicas };
    let plan = decide(&source, &setup, &strategy, wording)?;
    let Some(measured) = source.measured else {
        return Ok(None);
    };
    say(&measured);
    tell(&plan, &strategy)?;
    say("");
    let orders = follow(&plan, args).map_err(PlanningError::from)?;
    let watch = Watch::new(args, subject, strategy, (measured, plan), orders.overlap);
    Ok(Some((watch, orders)))
}
