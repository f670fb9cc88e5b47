//! A plan that a training run obeys.
//!
//! Recompute is executed on demand: the plan says what is recomputed, the partition, and the order
//! of work. Where it would be hidden is for an executor that knows windows.

use lynx_burn::plan::cluster::FileError;
use lynx_burn::plan::layout::{ChainLayout, LayoutError};
use lynx_burn::plan::planner::{Plan, PlanError};
use lynx_burn::plan::schedule::Schedule;

use crate::cli::TrainArgs;
use crate::config::{GptConfig, LARGEST};
use crate::model::Gpt;

/// A plan that a training run cannot obey.
#[derive(Debug, thiserror::Error)]
pub enum PlannedError {
    /// No plan in a file.
    #[error(transparent)]
    File(#[from] FileError<PlanError>),
    /// A plan that contradicts itself.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No chain.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A plan for another model.
    #[error(
        "the plan is for {plan_name}, a chain of {plan_layers} layers and {plan_segments} \
         segments; this model has {layers} layers and {segments} segments{difference}"
    )]
    OtherChain {
        /// The plan's model.
        plan_name: String,
        /// Its layers.
        plan_layers: usize,
        /// Its segments.
        plan_segments: usize,
        /// The model's layers.
        layers: usize,
        /// The model's segments.
        segments: usize,
        /// The first segment that differs, if both are there.
        difference: String,
    },
    /// A plan for several ranks.
    #[error("the plan shares each layer among {0} ranks; training here knows only one")]
    Ranks(usize),
    /// Micro-batches of another size.
    #[error(
        "the plan's micro-batches have {tokens} tokens, which windows of {context} do not make"
    )]
    Tokens {
        /// The plan's tokens.
        tokens: u64,
        /// The model's context.
        context: usize,
    },
    /// A batch beyond what `--batch` accepts.
    #[error("the plan asks for a batch of {wanted}, more than {LARGEST}")]
    TooLarge {
        /// The plan's.
        wanted: usize,
    },
    /// A batch of another size.
    #[error("the plan asks for a batch of {wanted}, --batch for {batch}")]
    Batch {
        /// The plan's.
        wanted: usize,
        /// The option's.
        batch: usize,
    },
}

/// What a plan brings beside options.
#[derive(Default)]
pub(crate) struct Obeyed {
    /// The schedule, where it is none that its kind alone would give.
    pub(crate) schedule: Option<Schedule>,
    /// What to say of it.
    pub(crate) about: Vec<String>,
}

/// Reads the plan that the options name, if they name one, and makes its decisions theirs.
pub(crate) fn obey(args: &mut TrainArgs) -> Result<Obeyed, PlannedError> {
    let Some(path) = &args.pipeline.plan else {
        return Ok(Obeyed::default());
    };
    let plan = Plan::read(path)?;
    let config = args.config();
    let layout = ChainLayout::new(Gpt::segments_of(config.layers))?;
    check_chain(&plan, &layout)?;
    if plan.setup.profile.tensor_parallel != 1 {
        return Err(PlannedError::Ranks(plan.setup.profile.tensor_parallel));
    }
    let forecast = plan.forecast()?;
    let micro_batches = forecast.schedule.micro_batches;
    if let Some(tokens) = plan.setup.profile.tokens {
        let wanted = micro_batches.saturating_mul(windows(tokens, config.context)?);
        match args.training.batch {
            _ if wanted > LARGEST => return Err(PlannedError::TooLarge { wanted }),
            Some(batch) if batch != wanted => return Err(PlannedError::Batch { wanted, batch }),
            _ => args.training.batch = Some(wanted),
        }
    }
    let mut about = vec![format!(
        "plan      {}: {} for {}, its recompute on demand",
        path.display(),
        plan.planner,
        plan.setup.profile.name
    )];
    about.extend(other_sizes(&plan, &config));
    let pipeline = &mut args.pipeline;
    pipeline.policy = plan.policy(&layout)?;
    pipeline.stages = None;
    pipeline.layers_per_stage = Some(plan.layers()?);
    pipeline.schedule = plan.setup.schedule;
    pipeline.micro_batches = micro_batches;
    let deeper = plan.setup.extra_in_flight.iter().any(|&extra| extra > 0);
    Ok(Obeyed {
        schedule: deeper.then_some(forecast.schedule),
        about,
    })
}

fn check_chain(plan: &Plan, layout: &ChainLayout) -> Result<(), PlannedError> {
    // Where ranks meet depends on their number, and a chain says it for any.
    let planned = plan.setup.profile.layout()?.without_collectives();
    if planned == layout.clone().without_collectives() {
        return Ok(());
    }
    let both = planned.segments().iter().zip(layout.segments());
    let difference = both.enumerate().find(|(_, (a, b))| a != b);
    let difference = difference.map_or(String::new(), |(index, (a, b))| {
        format!(
            "; segment {index} is {:?} there and {:?} here",
            a.name, b.name
        )
    });
    Err(PlannedError::OtherChain {
        plan_name: plan.setup.profile.name.clone(),
        plan_layers: planned.layers(),
        plan_segments: planned.len(),
        layers: layout.layers(),
        segments: layout.len(),
        difference,
    })
}

/// How many windows of text make a micro-batch.
fn windows(tokens: u64, context: usize) -> Result<usize, PlannedError> {
    let each = context as u64;
    let whole = tokens > 0 && tokens.is_multiple_of(each);
    whole
        .then(|| usize::try_from(tokens / each).ok())
        .flatten()
        .ok_or(PlannedError::Tokens { tokens, context })
}

/// Layers of other sizes can be cut alike, but the plan's times and bytes are not theirs.
fn other_sizes(plan: &Plan, config: &GptConfig) -> Option<String> {
    let planned = plan.setup.profile.weights().parameters.0;
    // Of 32 bits each.
    let own = 4 * config.parameters() as u64;
    (planned != 0 && planned != own).then(|| {
        format!(
            "note      the plan is for weights of {planned} bytes, this model has {own}: its times \
             and bytes are of another model"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_are_whole_windows() {
        assert_eq!(windows(64, 16).ok(), Some(4));
        for tokens in [0, 8, 17] {
            let error = windows(tokens, 16)
                .expect_err("no whole windows")
                .to_string();
            assert!(error.contains(&format!("{tokens} tokens")), "{error}");
        }
    }
}
