//! Between a trainer, which is in parts, and a model in one piece with one optimizer.

use std::path::Path;

use burn::optim::ModuleOptimizer;
use burn_store::burn_pack::Reader;

use super::Trainer;
use crate::ids::RankId;
use crate::runtime::chain::Chain;
use crate::runtime::exec::error::Cause;
use crate::runtime::save::states::{self, Owner, WorkerStates};
use crate::runtime::save::{LoadError, SaveError, weights};
use crate::runtime::stage::{Stage, owners};

/// Where states are that are in no file, for errors.
const MEMORY: &str = "the optimizer";

impl<C: Chain> Trainer<C> {
    /// `model` with the trainer's parameters, on the devices where it is.
    pub(crate) fn fill(&mut self, model: C) -> Result<C, LoadError> {
        let ranks = self.ranks();
        let modules = self.first_replica(|stage| stage.module().clone())?;
        weights::fill(model, &modules, ranks)
    }

    /// `optimizer` with the states of all stages' optimizers, for `model`.
    pub(crate) fn fill_optimizer(
        &mut self,
        model: &C,
        optimizer: &ModuleOptimizer,
    ) -> Result<ModuleOptimizer, SaveError> {
        let place = Path::new(MEMORY);
        let ranks = self.ranks();
        let found = self
            .first_replica(|stage| stage.states())?
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(SaveError::encode(place))?;
        let states = states::gathered(found, ranks, place)?;
        let states = states.into_bytes().map_err(SaveError::encode(place))?;
        let states = Reader::from_bytes(states).map_err(SaveError::encode(place))?;
        let owners: Vec<Owner> = owners(model, 1).collect();
        states::dealt(states, place, optimizer, &owners, (RankId(0), 1))
            .map_err(SaveError::encode(place))
    }

    /// Goes on with the states that `optimizer` has of `model`'s parameters, as after so many steps.
    pub(crate) fn go_on(
        &mut self,
        model: &C,
        optimizer: &ModuleOptimizer,
        steps: u64,
    ) -> Result<(), LoadError> {
        let place = Path::new(MEMORY);
        let whole = WorkerStates {
            record: optimizer.into_bytes().map_err(LoadError::damaged(place))?,
            parameters: owners(model, 1).map(|owner| (owner.id, owner)).collect(),
        };
        let states = states::gathered(vec![whole], 1, place).map_err(LoadError::damaged(place))?;
        // Shared: a clone for each worker then costs nothing.
        let states = states
            .into_bytes()
            .map_err(LoadError::damaged(place))?
            .shared();
        let read = self.each(move |stage| {
            let states = Reader::from_bytes(states.clone()).map_err(LoadError::damaged(place))?;
            stage.read_states(states, place)
        })?;
        let read = read.into_iter().collect::<Result<Vec<_>, LoadError>>()?;
        let jobs = read.into_iter().map(|optimizer| {
            move |stage: &mut Stage<C>| {
                stage.put_optimizer(optimizer);
                Ok::<(), Cause>(())
            }
        });
        let jobs = jobs.collect();
        self.crew.run(jobs).map_err(super::TrainError::from)?;
        self.step = steps;
        Ok(())
    }
}
