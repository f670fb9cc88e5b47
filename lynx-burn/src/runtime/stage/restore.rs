//! A stage's part of a save.

use std::collections::BTreeMap;

use burn::optim::ModuleOptimizer;
use burn::store::RecordError;

use super::Stage;
use crate::runtime::chain::Chain;
use crate::runtime::parameters;
use crate::runtime::save::states::{self, StageStates};
use crate::runtime::save::{LoadError, Save, weights};

/// What a stage read and has not taken yet: nothing changes until every stage has read its part.
pub(crate) struct Restored<C> {
    module: C,
    /// With the optimizer's state, the seed.
    training: Option<(ModuleOptimizer, u64)>,
}

impl<C: Chain> Stage<C> {
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The optimizer's state.
    pub(crate) fn states(&self) -> Result<StageStates, RecordError> {
        let mut paths = BTreeMap::new();
        for parameter in parameters::list(&self.module) {
            // A parameter that two modules of the stage share has one state.
            paths.entry(parameter.id.val()).or_insert(parameter.path);
        }
        Ok(StageStates {
            record: self.optimizer.into_bytes()?,
            paths,
        })
    }

    /// Reads the stage's part of a save: its parameters, and if it is to go on training, its
    /// optimizer's state and the seed.
    pub(crate) fn read(&self, save: &Save, training: bool) -> Result<Restored<C>, LoadError> {
        let module = weights::load(&save.weights(), &self.module)?;
        let training = if training {
            let parameters = parameters::list(&self.module);
            let optimizer = states::load(&save.states(), &self.optimizer, &parameters)?;
            Some((optimizer, save.seed()))
        } else {
            None
        };
        Ok(Restored { module, training })
    }

    /// Takes what it read. Summed gradients, of the parameters before, are dropped.
    pub(crate) fn restore(&mut self, restored: Restored<C>) {
        self.discard();
        self.module = restored.module;
        self.cut_again();
        if let Some((optimizer, seed)) = restored.training {
            self.optimizer = optimizer;
            self.seed = seed;
        }
    }
}
