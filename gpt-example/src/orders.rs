//! What a plan tells a trainer beyond what options can say.

use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::cluster::Link;
use lynx_burn::plan::layout::{ChainLayout, LayoutError};
use lynx_burn::plan::planner::{Plan, PlanError, Replicas, Setup, StageProblem};
use lynx_burn::plan::schedule::Schedule;
use lynx_burn::units::Bytes;
use lynx_burn::{LinkSpeed, Overlap};

use crate::cli::{OverlapKind, TrainArgs};
use crate::model::Gpt;

/// What stages do that no option names.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The order of work, where it is none that its kind alone would give.
    pub schedule: Option<Schedule>,
    /// What a stage recomputes while it waits.
    pub overlap: Overlap,
    /// What may be recomputed ahead, if that is planned.
    pub ahead: Option<Vec<Vec<Advance>>>,
    /// What each stage may retain, if that is limited.
    pub memory_budgets: Vec<Bytes>,
}

impl Orders {
    /// Without a plan.
    pub fn unplanned(args: &TrainArgs) -> Self {
        Self {
            overlap: args.overlap.overlap.map_or(Overlap::Never, Overlap::from),
            ..Self::default()
        }
    }
}

/// The chain of a model of so many layers, as plans see it.
pub(crate) fn layout(layers: usize) -> Result<ChainLayout, LayoutError> {
    ChainLayout::new(Gpt::segments_of(layers))
}

/// How many replicas a run of a plan has: those that the options ask for, else those that the plan
/// was made for. A plan is for one of them, so it can be run with any number.
pub(crate) fn replicas(plan: &Plan, args: &TrainArgs) -> usize {
    let planned = plan.setup.replicas.map_or(1, |replicas| replicas.count);
    match args.overlap.replicas {
        1 if !args.given.contains("replicas") => planned,
        asked => asked,
    }
}

/// What joins so many replicas, for a plan; nothing for one.
pub(crate) fn joined(count: usize, link: Option<LinkSpeed>) -> Option<Replicas> {
    let link = link.map(Link::from);
    (count > 1).then_some(Replicas { count, link })
}

/// Makes a plan's decisions those of the options, and says the rest.
pub(crate) fn follow(plan: &Plan, args: &mut TrainArgs) -> Result<Orders, PlanError> {
    let layout = layout(args.model.layers)?;
    args.overlap.replicas = replicas(plan, args);
    // The schedule depends on whether there are several.
    let plan = &Plan {
        setup: Setup {
            replicas: joined(args.overlap.replicas, args.overlap.replica_link),
            ..plan.setup.clone()
        },
        ..plan.clone()
    };
    let forecast = plan.forecast()?;
    args.overlap.tp = plan.setup.profile.tensor_parallel;
    let overlap = args.overlap.overlap.unwrap_or(OverlapKind::Planned);
    let pipeline = &mut args.pipeline;
    pipeline.policy = plan.policy(&layout)?;
    pipeline.stages = None;
    pipeline.layers_per_stage = Some(plan.layers()?);
    pipeline.schedule = plan.setup.schedule;
    let each = forecast.schedule.micro_batches;
    pipeline.micro_batches = each.saturating_mul(args.overlap.replicas);
    let deeper = plan.setup.extra_in_flight.iter().any(|&extra| extra > 0);
    Ok(Orders {
        schedule: deeper.then_some(forecast.schedule),
        overlap: overlap.into(),
        ahead: (overlap == OverlapKind::Planned)
            .then(|| plan.ahead(&layout))
            .transpose()?,
        memory_budgets: match overlap {
            OverlapKind::Opportunistic => plan.problems()?.iter().map(StageProblem::room).collect(),
            _ => Vec::new(),
        },
    })
}
