//! The schedules of a trainer, made when they are needed and kept.

use std::sync::Arc;

use super::{ScheduleSource, TrainError, Trainer};
use crate::plan::schedule::{
    InFlight, Rules, Schedule, ScheduleError, executable, forward_only, reduce_gradients,
    transfers, validate,
};
use crate::runtime::chain::Chain;

impl<C: Chain> Trainer<C> {
    /// The schedule of a replica with so many micro-batches.
    pub(super) fn schedule(
        &mut self,
        micro_batches: usize,
        training: bool,
    ) -> Result<Arc<Schedule>, TrainError> {
        if let Some(known) = self.schedules.get(&(micro_batches, training)) {
            return Ok(known.clone());
        }
        let stages = self.partition.stages();
        let (capacity, replicas) = (self.mailbox_capacity, self.grid.replicas);
        let made = match (&self.schedule, training) {
            (ScheduleSource::Given(given), true) => {
                if given.stages.len() != stages || given.micro_batches != micro_batches {
                    return Err(TrainError::ScheduleSize {
                        stages: given.stages.len(),
                        micro_batches: given.micro_batches,
                        wanted_stages: stages,
                        wanted_micro_batches: micro_batches,
                    });
                }
                given.clone()
            }
            (ScheduleSource::Kind(kind), true) => {
                let mut complete =
                    with_transfers(&kind.generate(stages, micro_batches)?, capacity)?;
                if replicas > 1 {
                    complete = reduce_gradients(&complete);
                }
                let rules = Rules {
                    replicas,
                    ..kind.rules(capacity)
                };
                validate(&complete, &rules)?;
                executable(&complete)?;
                Arc::new(complete)
            }
            (_, false) => {
                let complete = with_transfers(&forward_only(stages, micro_batches)?, capacity)?;
                let rules = Rules {
                    mailbox_capacity: capacity,
                    in_flight: InFlight::Unlimited,
                    backward: false,
                    replicas,
                };
                validate(&complete, &rules)?;
                Arc::new(complete)
            }
        };
        self.schedules
            .insert((micro_batches, training), made.clone());
        Ok(made)
    }
}

/// Adds transfers such that mailboxes of `capacity` suffice.
fn with_transfers(compute: &Schedule, capacity: usize) -> Result<Schedule, ScheduleError> {
    if capacity == 0 {
        transfers::rendezvous(compute)
    } else {
        Ok(transfers::eager(compute))
    }
}
