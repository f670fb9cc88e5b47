//! A strategy at work: its plan, and a trainer that obeys it.

use std::sync::Arc;
use std::time::Duration;

use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::prelude::*;
use lynx_burn::plan::layout::ChainLayout;
use lynx_burn::plan::planner::{Plan, PlanError, Setup, StageProblem, Strategy};
use lynx_burn::units::Bytes;
use lynx_burn::{Observer, Overlap, Split, Trainer, TrainerBuilder};

use super::ground::SEED;
use super::{BenchError, Ground};
use crate::model::Gpt;

/// What a planner that solves programs may take for a stage.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// What nothing is recomputed by: the yardstick, which needs no budget.
pub(super) const NONE: &str = "none";

/// The same with windows that find nothing to recompute.
pub(super) const IDLE: &str = "none, windows open";

/// A way to recompute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// What it is called in results.
    pub(super) name: &'static str,
    /// The strategy that plans it.
    strategy: &'static str,
    /// What of the plan is done while waiting.
    overlap: Overlap,
}

impl Way {
    const fn new(name: &'static str, strategy: &'static str, overlap: Overlap) -> Self {
        Self {
            name,
            strategy,
            overlap,
        }
    }

    /// Whether nothing is done while waiting.
    pub(super) fn overlaps_nothing(&self) -> bool {
        self.overlap == Overlap::Never
    }

    /// The way of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        WAYS.into_iter().find(|way| way.name == name)
    }

    /// Its plan.
    pub(super) fn plan(&self, ground: &Ground) -> Result<Plan, PlanError> {
        let strategy = Strategy::named(self.strategy, LIMIT);
        let Ok(strategy) = strategy else {
            unreachable!("{} is a strategy", self.strategy);
        };
        if self.strategy != "none" {
            return strategy.plan(&ground.setup);
        }
        strategy.plan(&Setup {
            budget: Bytes(1 << 40),
            ..ground.setup.clone()
        })
    }

    /// A trainer that obeys this plan.
    pub(super) fn trainer(
        &self,
        ground: &Ground,
        plan: &Plan,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Trainer<Gpt>, BenchError> {
        let setting = &ground.setting;
        let segments = Gpt::segments_of(setting.config.layers);
        let layout = ChainLayout::new(segments.clone())?;
        let forecast = plan.forecast()?;
        let mut builder = TrainerBuilder::new()
            .split(Split::Layers(plan.layers()?))
            .ranks(setting.ranks)
            .policy(plan.policy(&layout)?)
            .devices([Device::flex()])
            .seed(SEED)
            .single_threaded(true)
            .overlap(self.overlap)
            // What is sent is out of the way, as planners take it to be.
            .mailbox_capacity(setting.micro_batches)
            .schedule_given(forecast.schedule);
        if let Some(speed) = ground.speed {
            builder = builder.link(speed).collective_link(speed);
        }
        if let Some(observer) = observer {
            builder = builder.observer(observer);
        }
        match self.overlap {
            Overlap::Never => {}
            Overlap::Planned => builder = builder.ahead(plan.ahead(&layout)?),
            Overlap::Opportunistic => {
                let problems = plan.problems()?;
                builder = builder.memory_budgets(problems.iter().map(StageProblem::room));
            }
        }
        builder.train_parts(segments, optimizer(), |range, device| {
            Ok(lynx_burn::Chain::keep(
                Gpt::new(&setting.config, SEED, device)?.with_modules(setting.modules),
                range,
            ))
        })
    }
}

/// Every way that is compared.
pub(super) const WAYS: [Way; 12] = [
    Way::new(NONE, "none", Overlap::Never),
    // What looking for work costs where there is none.
    Way::new(IDLE, "none", Overlap::Opportunistic),
    Way::new("full", "full", Overlap::Never),
    Way::new("full as Megatron-LM", "full-uniform", Overlap::Never),
    Way::new("selective", "selective", Overlap::Never),
    Way::new("block", "block", Overlap::Never),
    Way::new("block as Megatron-LM", "full-block", Overlap::Never),
    Way::new("checkmate", "checkmate", Overlap::Never),
    Way::new("adapipe-like", "adapipe", Overlap::Never),
    Way::new("heu", "heu", Overlap::Planned),
    Way::new("heu, opportunistic", "heu", Overlap::Opportunistic),
    Way::new("opt", "opt", Overlap::Planned),
];

/// One that keeps nothing beside the weights: what is compared are activations.
pub(super) fn optimizer() -> ModuleOptimizer {
    SgdConfig::new().init()
}
