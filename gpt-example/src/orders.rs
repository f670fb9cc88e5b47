//! What a plan tells a trainer beyond what options can say.

use lynx_burn::Overlap;
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::layout::{ChainLayout, LayoutError};
use lynx_burn::plan::planner::{Plan, PlanError, StageProblem};
use lynx_burn::plan::schedule::Schedule;
use lynx_burn::units::Bytes;

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

/// Makes a plan's decisions those of the options, and says the rest.
pub(crate) fn follow(plan: &Plan, args: &mut TrainArgs) -> Result<Orders, PlanError> {
    let layout = layout(args.model.layers)?;
    let forecast = plan.forecast()?;
    args.overlap.tp = plan.setup.profile.tensor_parallel;
    let overlap = args.overlap.overlap.unwrap_or(OverlapKind::Planned);
    let pipeline = &mut args.pipeline;
    pipeline.policy = plan.policy(&layout)?;
    pipeline.stages = None;
    pipeline.layers_per_stage = Some(plan.layers()?);
    pipeline.schedule = plan.setup.schedule;
    pipeline.micro_batches = forecast.schedule.micro_batches;
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
