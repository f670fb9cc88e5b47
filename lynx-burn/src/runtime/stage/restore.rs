//! A stage's part of a save.

use std::collections::BTreeMap;
#[cfg(feature = "train")]
use std::path::Path;

use burn::optim::ModuleOptimizer;
use burn::store::RecordError;
#[cfg(feature = "train")]
use burn_store::burn_pack::Reader;

use super::Stage;
use crate::ids::RankId;
use crate::runtime::chain::Chain;
use crate::runtime::parameters;
use crate::runtime::save::states::{self, Owner, WorkerStates};
use crate::runtime::save::weights::{self, Forms};
use crate::runtime::save::{LoadError, Save};
use crate::runtime::shard;

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
    pub(crate) fn states(&self) -> Result<WorkerStates, RecordError> {
        let mut parameters = BTreeMap::new();
        for owner in self.owners() {
            // A parameter that two modules of the stage share has one state.
            parameters.entry(owner.id).or_insert(owner);
        }
        Ok(WorkerStates {
            record: self.optimizer.into_bytes()?,
            parameters,
        })
    }

    fn owners(&self) -> impl Iterator<Item = Owner> {
        owners(&self.module, self.share.1)
    }

    /// Reads the states of the stage's own parameters out of `states`; nothing changes yet.
    #[cfg(feature = "train")]
    pub(crate) fn read_states(
        &self,
        states: Reader,
        place: &Path,
    ) -> Result<ModuleOptimizer, LoadError> {
        let owners: Vec<Owner> = self.owners().collect();
        states::dealt(states, place, &self.optimizer, &owners, self.share)
    }

    /// Goes on with an optimizer that knows the stage's parameters.
    #[cfg(feature = "train")]
    pub(crate) fn put_optimizer(&mut self, optimizer: ModuleOptimizer) {
        self.optimizer = optimizer;
    }

    /// Type and whole shape of all that the stage holds, for the first of its ranks to tell.
    pub(crate) fn forms(&self) -> Forms {
        match self.share {
            (RankId(0), ranks) => weights::forms(&self.module, ranks),
            _ => Forms::new(),
        }
    }

    /// Reads the stage's part of a save: its parameters, and if it is to go on training, its
    /// optimizer's state and the seed.
    pub(crate) fn read(&self, save: &Save, training: bool) -> Result<Restored<C>, LoadError> {
        let module = weights::load(&save.weights(), &self.module, self.share)?;
        let training = if training {
            let owners: Vec<Owner> = self.owners().collect();
            let optimizer = states::load(&save.states(), &self.optimizer, &owners, self.share)?;
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

/// The float parameters of what one of so many ranks holds.
pub(crate) fn owners<C: Chain>(module: &C, ranks: usize) -> impl Iterator<Item = Owner> {
    let all = parameters::list(module).into_iter();
    all.map(move |parameter| Owner {
        id: parameter.id.val(),
        sharding: shard::of(module, &parameter.path, ranks),
        path: parameter.path,
        dims: parameter.dims,
    })
}
