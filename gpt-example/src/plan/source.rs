//! What is planned: a profile and the machines, from formulas, a file, or this machine itself.

use std::path::PathBuf;

use lynx_burn::measure::Measured;
use lynx_burn::plan::cluster::{Cluster, Precision, UnknownCluster};
use lynx_burn::plan::planner::Setup;
use lynx_burn::plan::profile::{
    Attention, Gpt as Formulas, GptSize, ModelProfile, StatePerParameter,
};

use super::error::PlanningError;
use super::links::Links;
use super::measured::{Subject, cores_of_each};
use crate::cli::{AttentionKind, GptArgs, MaskKind, PlanArgs};

/// Where the figures come from.
pub(crate) struct Source {
    /// What the model costs.
    pub(crate) profile: ModelProfile,
    /// What the machines can do.
    pub(crate) cluster: Cluster,
    /// The formulas, if the profile is made by them: they make others too.
    pub(super) formulas: Option<Formulas>,
    /// What was measured, if it was.
    pub(crate) measured: Option<Measured>,
}

impl Source {
    /// As the options say.
    pub(super) fn new(args: &PlanArgs) -> Result<Self, PlanningError> {
        if args.source.measure {
            return Self::measured(args);
        }
        let cluster = cluster(args.source.cluster.as_deref().unwrap_or(HERE))?;
        let mut formulas = None;
        let profile = match (&args.source.model, &args.source.profile) {
            (None, Some(path)) => ModelProfile::read(path)?,
            (name, _) => {
                let gpt = gpt(args, name.as_deref().unwrap_or_default().parse()?);
                let profile = gpt.profile(&cluster.device)?;
                formulas = Some(gpt);
                profile
            }
        };
        Ok(Self {
            profile,
            cluster,
            formulas,
            measured: None,
        })
    }

    /// The model of `gpt train` on this machine, or joined by other links.
    fn measured(args: &PlanArgs) -> Result<Self, PlanningError> {
        let (source, model) = (&args.source, &args.model);
        let ranks = source.tp.unwrap_or(1);
        let mut sizes = model.sizes.clone();
        sizes.settle(&args.given)?;
        let subject = Subject {
            config: sizes.config(),
            modules: sizes.modules,
            windows: source.micro_batch.unwrap_or(1),
            ranks,
            cores: cores_of_each(model.device, args.setup.pp * ranks, model.one_core_each),
            device: model.device,
        };
        let links = Links {
            collective: model.collective_link,
            pipeline: model.link,
        };
        let cluster = match &source.cluster {
            // Whoever names machines means their links too, unless others are named.
            Some(text) if links == Links::default() => cluster(text)?,
            Some(text) => links.join(cluster(text)?, ranks),
            None => here(links, ranks)?,
        };
        Ok(Self::of(subject.measure()?, cluster))
    }

    /// What was measured, on these machines.
    pub(crate) fn of(measured: Measured, cluster: Cluster) -> Self {
        Self {
            profile: measured.profile.clone(),
            cluster,
            formulas: None,
            measured: Some(measured),
        }
    }

    /// How it is to be trained.
    pub(super) fn setup(&self, args: &PlanArgs) -> Setup {
        let how = &args.setup;
        let micro_batches = how.micro_batches as u64;
        let mut setup = Setup::new(&self.profile, &self.cluster, how.pp, micro_batches);
        setup.schedule = how.schedule;
        setup.budget = how.budget.unwrap_or(setup.budget);
        setup.windows.clone_from(&how.windows.0);
        setup.blocking_sends = how.blocking_sends;
        setup.overlap_weight_gradients = how.overlap_weight_gradients;
        setup
    }
}

/// The machine that is measured.
const HERE: &str = "cpu-2-core";

/// This machine, all stages in one process.
pub(crate) fn here(links: Links, ranks: usize) -> Result<Cluster, PlanningError> {
    Ok(links.join(cluster(HERE)?, ranks))
}

/// Machines by name or from a file.
fn cluster(text: &str) -> Result<Cluster, PlanningError> {
    text.parse().or_else(|error: UnknownCluster| {
        let path = PathBuf::from(text);
        // What looks like a file is missed as a file.
        let is_path = path.components().count() > 1 || path.extension().is_some();
        if path.exists() || is_path {
            return Ok(Cluster::read(path)?);
        }
        Err(PlanningError::Cluster { error, path })
    })
}

fn gpt(args: &PlanArgs, size: GptSize) -> Formulas {
    let GptArgs {
        sequence,
        sequence_parallel,
        precision,
        attention,
        masks,
    } = &args.gpt;
    let defaults = Formulas::new(size);
    let count = |given: Option<usize>, default| given.map_or(default, |given| given as u64);
    let precision: Precision = precision.unwrap_or(defaults.precision);
    Formulas {
        sequence: count(*sequence, defaults.sequence),
        micro_batch: count(args.source.micro_batch, defaults.micro_batch),
        tensor_parallel: count(args.source.tp, defaults.tensor_parallel),
        sequence_parallel: *sequence_parallel,
        precision,
        attention: match attention {
            Some(AttentionKind::Flash) => Attention::Flash,
            Some(AttentionKind::Stored) | None => Attention::Stored,
        },
        stored_masks: *masks != Some(MaskKind::Counted),
        state: StatePerParameter::adam(precision),
        ..defaults
    }
}
