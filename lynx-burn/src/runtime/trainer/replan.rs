//! Changing what is recomputed, and where, between two steps.
//!
//! The partition stays: parameters and their optimizer's state do not move. Gradients do not depend
//! on what is recomputed, so nothing of the training changes but time and memory.

use super::build::refuse_unrepeatable;
use super::{Overlap, ReplanError, Trainer};
use crate::plan::advance::Advance;
use crate::plan::policy::Policy;
use crate::runtime::chain::Chain;
use crate::runtime::exec::error::Cause;
use crate::runtime::stage::Stage;

impl<C: Chain> Trainer<C> {
    /// From here on, recomputes what `policy` says, and ahead of its backward what `overlap` and
    /// `ahead` allow, as [`TrainerBuilder::ahead`](super::TrainerBuilder::ahead) explains. Memory
    /// budgets stay as they are.
    ///
    /// # Errors
    ///
    /// If the decisions do not fit the model: then nothing has changed. If the trainer is over.
    pub fn replan(
        &mut self,
        policy: &Policy,
        overlap: Overlap,
        ahead: Option<Vec<Vec<Advance>>>,
    ) -> Result<(), ReplanError> {
        let policies = policy.resolve(&self.layout, &self.partition);
        let policies = policies.map_err(super::BuildError::from)?;
        let told = super::Told {
            overlap,
            ahead,
            budgets: self.told.budgets.clone(),
        };
        let allowed = told.by_stage(&self.partition)?;
        let modules = self.first_replica(|stage| stage.module().clone())?;
        for (policy, module) in policies.iter().zip(modules.iter().step_by(self.grid.ranks)) {
            refuse_unrepeatable(&self.layout, policy, module)?;
        }
        let jobs = self.grid.seats().map(|(_, seat)| {
            let policy = policies[seat.stage.0].clone();
            let allowed = allowed[seat.stage.0].clone();
            let layout = self.layout.clone();
            move |stage: &mut Stage<C>| {
                stage.obey(&policy, allowed, &layout);
                Ok::<(), Cause>(())
            }
        });
        let jobs = jobs.collect();
        self.crew.run(jobs).map_err(super::TrainError::from)?;
        self.told = told;
        Ok(())
    }
}
