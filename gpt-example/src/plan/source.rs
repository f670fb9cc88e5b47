//! What is planned: a profile and the machines, from formulas, a file, or this machine itself.

use std::path::PathBuf;

use lynx_burn::measure::{MeasureOptions, Measured, measure};
use lynx_burn::plan::cluster::{Cluster, Precision, UnknownCluster};
use lynx_burn::plan::planner::Setup;
use lynx_burn::plan::profile::{
    Attention, Gpt as Formulas, GptSize, ModelProfile, StatePerParameter,
};

use super::error::PlanningError;
use crate::cli::{AttentionKind, GptArgs, MaskKind, PlanArgs};
use crate::config::GptConfig;
use crate::data::micro_batches;
use crate::model::Gpt;

/// Where the figures come from.
pub(super) struct Source {
    /// What the model costs.
    pub(super) profile: ModelProfile,
    /// What the machines can do.
    pub(super) cluster: Cluster,
    /// The formulas, if the profile is made by them: they make others too.
    pub(super) formulas: Option<Formulas>,
    /// What was measured, if it was.
    pub(super) measured: Option<Measured>,
}

impl Source {
    /// As the options say.
    pub(super) fn new(args: &PlanArgs) -> Result<Self, PlanningError> {
        let named = args.source.cluster.as_deref();
        let cluster = cluster(named.unwrap_or("cpu-2-core"))?;
        let (mut formulas, mut measured) = (None, None);
        let profile = match (&args.source.model, &args.source.profile) {
            (Some(name), _) => {
                let gpt = gpt(args, name.parse()?);
                let profile = gpt.profile(&cluster.device)?;
                formulas = Some(gpt);
                profile
            }
            (None, Some(path)) => ModelProfile::read(path)?,
            (None, None) => {
                let found = measured_gpt(args)?;
                let profile = found.profile.clone();
                measured = Some(found);
                profile
            }
        };
        Ok(Self {
            profile,
            cluster,
            formulas,
            measured,
        })
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

/// The model of `gpt train`, run here.
fn measured_gpt(args: &PlanArgs) -> Result<Measured, PlanningError> {
    if let Some(ranks) = args.source.tp.filter(|&ranks| ranks != 1) {
        return Err(PlanningError::MeasuredRanks(ranks));
    }
    let config = args.model.sizes.config();
    config.validate()?;
    let device = args.model.device.open()?;
    let windows = args.source.micro_batch.unwrap_or(1);
    let options = MeasureOptions {
        name: Some(name(&config)),
        tokens: Some((windows * config.context) as u64),
        ..MeasureOptions::default()
    };
    // What the text says does not matter, only its length does.
    let text = lipsum::LIBER_PRIMUS.bytes().cycle();
    let text: Vec<u8> = text.take(windows + config.context).collect();
    let starts: Vec<usize> = (0..windows).collect();
    let mut parts = micro_batches(&text, &starts, config.context, 1, (&device, &device));
    let model = Gpt::new(&config, 0, &device)?.with_modules(args.model.sizes.modules);
    let part = parts.remove(0);
    Ok(measure(model, part.input, part.target, &device, &options)?)
}

fn name(config: &GptConfig) -> String {
    format!("gpt-{}x{}", config.layers, config.d_model)
}
