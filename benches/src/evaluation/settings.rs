//! Which models are trained on which machines, and how.

use lynx_burn::plan::cluster::Cluster;
use lynx_burn::plan::planner::Setup;
use lynx_burn::plan::profile::{Attention, Gpt};
use lynx_burn::units::Bytes;

/// The models, by name.
pub const MODELS: [&str; 6] = ["1.3b", "4.7b", "7b", "13b", "20b", "23b"];
/// The machines, by name.
pub const CLUSTERS: [&str; 4] = [
    "a100-40-nvlink",
    "a100-40-pcie",
    "h100-nvlink",
    "ascend-910b",
];
/// Ranks that share a stage, at most a node of eight, and stages.
const SHAPES: [(u64, usize); 8] = [
    (1, 8),
    (2, 1),
    (2, 4),
    (4, 1),
    (4, 2),
    (4, 8),
    (8, 1),
    (8, 4),
];
/// Samples of 2048 tokens.
const SAMPLES: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Micro-batches of a step.
pub const MICRO_BATCHES: u64 = 16;
/// Kept free on every device: the framework's own memory, fragmentation and communication buffers.
/// CUDA's context and NCCL alone take 1 to 2 GiB.
const RESERVED: Bytes = Bytes(2 << 30);

/// One way to train one model on one kind of machine.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The model's name.
    pub model: &'static str,
    /// The cluster's name.
    pub cluster: &'static str,
    /// Whether the scores of attention are stored.
    pub attention: Attention,
    /// Samples of a micro-batch.
    pub micro_batch: u64,
    /// Whether weights' gradients are computed beside collectives.
    pub beside: bool,
    /// What planners are told.
    pub setup: Setup,
}

impl Setting {
    /// The ranks that share a stage.
    pub fn ranks(&self) -> usize {
        self.setup.profile.tensor_parallel
    }
}

/// Every combination in which memory binds, as `binds` tells; of all micro-batches that do so, the
/// smallest and the largest.
pub fn all(binds: impl Fn(&Setting) -> bool) -> Vec<Setting> {
    let mut all = Vec::new();
    for model in MODELS {
        for cluster in CLUSTERS {
            for attention in [Attention::Stored, Attention::Flash] {
                for shape in SHAPES {
                    for beside in [false, true] {
                        let of =
                            |samples| setting((model, cluster), attention, shape, samples, beside);
                        let bound = SAMPLES.into_iter().filter_map(of).filter(&binds);
                        let mut bound: Vec<_> = bound.collect();
                        let largest = if bound.len() > 1 { bound.pop() } else { None };
                        bound.truncate(1);
                        all.extend(bound.into_iter().chain(largest));
                    }
                }
            }
        }
    }
    all
}

fn setting(
    (model, name): (&'static str, &'static str),
    attention: Attention,
    (ranks, stages): (u64, usize),
    micro_batch: u64,
    beside: bool,
) -> Option<Setting> {
    // Without collectives there is nothing to compute beside them.
    if beside && ranks == 1 {
        return None;
    }
    let cluster: Cluster = name.parse().ok()?;
    let mut gpt = Gpt::new(model.parse().ok()?);
    gpt.attention = attention;
    gpt.tensor_parallel = ranks;
    gpt.micro_batch = micro_batch;
    let profile = gpt.profile(&cluster.device).ok()?;
    let mut setup = Setup::new(&profile, &cluster, stages, MICRO_BATCHES);
    setup.budget = Bytes(cluster.device.memory.0.saturating_sub(RESERVED.0));
    setup.overlap_weight_gradients = beside;
    setup.validate().ok()?;
    Some(Setting {
        model,
        cluster: name,
        attention,
        micro_batch,
        beside,
        setup,
    })
}
