//! A plan that a training run obeys: what is recomputed and in which wait, the partition, the
//! ranks, and the order of work. Whether it was made for this model is found out here.

use lynx_burn::plan::cluster::{Cluster, FileError, Link};
use lynx_burn::plan::layout::{ChainLayout, LayoutError};
use lynx_burn::plan::planner::{Plan, PlanError};

use crate::cli::TrainArgs;
use crate::config::{ConfigError, GptConfig, LARGEST};
use crate::orders::{Orders, follow, layout, replicas};
use crate::plan::{Links, here};

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
    /// A plan for ranks that cannot share this model.
    #[error("the plan shares each layer among {ranks} ranks, but {error}")]
    Ranks {
        /// The plan's ranks.
        ranks: usize,
        /// Why they cannot.
        error: ConfigError,
    },
    /// A plan for tensors of another size.
    #[error(
        "the plan is for weights of {plan_bytes} bytes a rank, this model has {bytes}: its times \
         and bytes are of another model"
    )]
    OtherSizes {
        /// The plan's.
        plan_bytes: u64,
        /// The model's.
        bytes: u64,
    },
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
    pub(crate) orders: Orders,
    /// What to say of it.
    pub(crate) about: Vec<String>,
}

/// Reads the plan that the options name, if they name one, and makes its decisions theirs.
pub(crate) fn obey(args: &mut TrainArgs) -> Result<Obeyed, PlannedError> {
    let Some(path) = args.pipeline.plan.clone() else {
        return Ok(Obeyed {
            orders: Orders::unplanned(args),
            about: Vec::new(),
        });
    };
    let plan = Plan::read(&path)?;
    let config = args.config();
    check_chain(&plan, &layout(config.layers)?)?;
    let profile = &plan.setup.profile;
    let ranks = profile.tensor_parallel;
    let shared = config.check_ranks(ranks);
    shared.map_err(|error| PlannedError::Ranks { ranks, error })?;
    if let Some(tokens) = profile.tokens {
        let micro_batches = usize::try_from(plan.setup.micro_batches).unwrap_or(usize::MAX);
        let micro_batches = micro_batches.saturating_mul(replicas(&plan, args));
        let wanted = micro_batches.saturating_mul(windows(tokens, config.context)?);
        match args.training.batch {
            _ if wanted > LARGEST => return Err(PlannedError::TooLarge { wanted }),
            Some(batch) if batch != wanted => return Err(PlannedError::Batch { wanted, batch }),
            _ => args.training.batch = Some(wanted),
        }
    }
    check_sizes(&plan, &config)?;
    let mut about = vec![format!(
        "plan      {}: {} for {}",
        path.display(),
        plan.planner,
        profile.name
    )];
    about.extend(other_links(&plan, args));
    Ok(Obeyed {
        orders: follow(&plan, args)?,
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
fn check_sizes(plan: &Plan, config: &GptConfig) -> Result<(), PlannedError> {
    let profile = &plan.setup.profile;
    let plan_bytes = profile.weights().parameters.0;
    // Of 32 bits each.
    let bytes = 4 * config.parameters_of_rank(profile.tensor_parallel) as u64;
    match plan_bytes == 0 || plan_bytes == bytes {
        true => Ok(()),
        false => Err(PlannedError::OtherSizes { plan_bytes, bytes }),
    }
}

/// What waits are planned for that these links do not make.
fn other_links(plan: &Plan, args: &TrainArgs) -> Vec<String> {
    let (setup, ranks) = (&plan.setup, plan.setup.profile.tensor_parallel);
    let links = Links {
        collective: args.overlap.collective_link,
        pipeline: args.pipeline.link,
    };
    let Ok(own) = here(links, ranks) else {
        return Vec::new();
    };
    let collective = (ranks > 1).then(|| {
        let of = |cluster: &Cluster| *cluster.collective_link(ranks);
        ("--collective-link", of(&setup.cluster), of(&own))
    });
    let pipeline = (setup.stages > 1).then(|| {
        let of = |cluster: &Cluster| *cluster.pipeline_link(0, 1, ranks);
        ("--link", of(&setup.cluster), of(&own))
    });
    let both = [collective, pipeline].into_iter().flatten();
    let differ = both.filter(|(_, a, b)| (a.gb_s, a.latency) != (b.gb_s, b.latency));
    let note = |(option, planned, _): (_, Link, _)| {
        let (speed, latency) = (planned.gb_s, planned.latency);
        format!("note      the plan counts on links of {speed} GB/s and {latency}: see {option}")
    };
    differ.map(note).collect()
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
