//! The second half of a step: from sums of gradients to new parameters, across stages.

use std::collections::BTreeMap;

use super::{NonFinite, TrainError, Trainer, UpdateReport};
use crate::runtime::chain::Chain;
use crate::runtime::exec::error::Cause;
use crate::runtime::gradient::Gradient;
use crate::runtime::stage::Stage;

impl<C: Chain> Trainer<C> {
    /// Clips the summed gradients and lets every stage's optimizer use them.
    ///
    /// # Errors
    ///
    /// If the loss or the gradients' norm is not finite (unless told to skip the update then), or
    /// a stage fails.
    pub fn update(&mut self, learning_rate: f64) -> Result<UpdateReport, TrainError> {
        if !std::mem::replace(&mut self.loss_is_finite, true) {
            return self.refuse(TrainError::NonFiniteLoss { step: self.step }, None);
        }
        self.tie_gradients()?;
        let mut scale = None;
        let mut gradient_norm = None;
        if let Some(limit) = self.clip_norm {
            let norm = self.gradient_norm()?;
            gradient_norm = Some(norm);
            if !norm.is_finite() {
                let step = self.step;
                return self.refuse(TrainError::NonFiniteGradient { step, norm }, gradient_norm);
            }
            if norm > limit {
                scale = Some(limit / norm);
            }
        }
        let positions: Vec<_> = (0..self.grid.workers())
            .map(|worker| self.crew.position(worker))
            .collect();
        let jobs = positions
            .into_iter()
            .map(|position| {
                move |stage: &mut Stage<C>| {
                    position.updating();
                    stage.apply(learning_rate, scale);
                    Ok::<(), Cause>(())
                }
            })
            .collect();
        self.crew.run(jobs)?;
        self.step += 1;
        Ok(UpdateReport {
            gradient_norm,
            applied: true,
        })
    }

    /// Drops the gradients; fails or goes on, as told.
    fn refuse(
        &mut self,
        error: TrainError,
        gradient_norm: Option<f64>,
    ) -> Result<UpdateReport, TrainError> {
        self.each(|stage| stage.discard())?;
        match self.non_finite {
            NonFinite::Error => Err(error),
            NonFinite::SkipUpdate => {
                tracing::warn!(%error, "update left out");
                self.step += 1;
                Ok(UpdateReport {
                    gradient_norm,
                    applied: false,
                })
            }
        }
    }

    /// Gives every worker of a replica that holds the same piece of a parameter the sum of all their
    /// gradients, so that equal optimizers make equal updates.
    fn tie_gradients(&mut self) -> Result<(), TrainError> {
        let paths = self.held.shared();
        if paths.is_empty() {
            return Ok(());
        }
        let mut found = self.each(move |stage| stage.take_gradients(&paths))?;
        let mut sums = Vec::with_capacity(self.grid.replicas);
        while !found.is_empty() {
            let rest = found.split_off(self.grid.pipeline());
            sums.push(self.held.sum(found));
            found = rest;
        }
        let jobs = (0..self.grid.workers())
            .map(|worker| {
                let own = sums[worker / self.grid.pipeline()]
                    .iter()
                    .filter(|((path, rank), _)| self.held.piece(path.clone(), worker).1 == *rank);
                let own: BTreeMap<String, Gradient> = own
                    .map(|((path, _), gradient)| (path.clone(), gradient.clone()))
                    .collect();
                move |stage: &mut Stage<C>| {
                    stage.put_gradients(own);
                    Ok::<(), Cause>(())
                }
            })
            .collect();
        self.crew.run(jobs)?;
        Ok(())
    }

    /// The norm over all parameters, each counted once.
    ///
    /// Squares are added in the order of the parameters' paths, so the norm does not depend on
    /// the number of stages; all replicas have the same. (With several ranks, a square is that of a slice.)
    fn gradient_norm(&mut self) -> Result<f64, TrainError> {
        let found = self.first_replica(|stage| stage.square_sums())?;
        let found = found.into_iter().enumerate().flat_map(|(worker, found)| {
            let found = found.into_iter();
            found.map(move |(path, square)| (worker, path, square))
        });
        let squares: BTreeMap<_, f64> = found
            .map(|(worker, path, square)| (self.held.piece(path, worker), square))
            .collect();
        Ok(squares.values().sum::<f64>().sqrt())
    }
}
