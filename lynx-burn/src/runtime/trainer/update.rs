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
        let positions: Vec<_> = (0..self.partition.stages())
            .map(|stage| self.crew.position(stage))
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

    /// Gives every stage that holds a tied parameter the sum of all their gradients, so that equal
    /// optimizers make equal updates.
    fn tie_gradients(&mut self) -> Result<(), TrainError> {
        if self.tied.is_empty() {
            return Ok(());
        }
        let paths: Vec<String> = self.tied.iter().cloned().collect();
        let sums = sum_by_path(self.each(move |stage| stage.take_gradients(&paths))?);
        let jobs = (0..self.partition.stages())
            .map(|_| {
                let sums = sums.clone();
                move |stage: &mut Stage<C>| {
                    stage.put_gradients(sums);
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
    /// the number of stages.
    fn gradient_norm(&mut self) -> Result<f64, TrainError> {
        let squares: BTreeMap<String, f64> = self
            .each(|stage| stage.square_sums())?
            .into_iter()
            .flatten()
            .collect();
        Ok(squares.values().sum::<f64>().sqrt())
    }
}

/// The stages' gradients by path; where several hold one, their sum from the first stage to the
/// last.
pub(super) fn sum_by_path(stages: Vec<BTreeMap<String, Gradient>>) -> BTreeMap<String, Gradient> {
    let mut sums: BTreeMap<String, Gradient> = BTreeMap::new();
    for (path, gradient) in stages.into_iter().flatten() {
        let sum = match sums.remove(&path) {
            Some(sum) => sum.plus(gradient),
            None => gradient,
        };
        sums.insert(path, sum);
    }
    sums
}
