//! Writes a trainer's state to disk, and goes on from it.

use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;

use super::{TrainError, Trainer};
use crate::runtime::chain::Chain;
use crate::runtime::exec::error::Cause;
use crate::runtime::save::{LoadError, Save, SaveError, Saves, states, weights};
use crate::runtime::stage::Stage;

/// Saves that [`Trainer::save_to`] keeps: one to go on from, and one in case the disk loses that.
const KEPT: usize = 2;

impl<C: Chain> Trainer<C> {
    /// Writes everything that the run needs to go on into the folder at `path`, which is created if it
    /// is missing: parameters, optimizer state, step and seed. The two newest saves stay.
    ///
    /// Whatever ends the program, at whatever instant, the folder holds the last save that was whole.
    /// To remember more than the trainer's state, or to keep more saves, use [`save`](Self::save).
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save).
    pub fn save_to(&mut self, path: impl AsRef<Path>) -> Result<Save, SaveError> {
        self.save(&Saves::new(path.as_ref()).keep(KEPT), &())
    }

    /// Goes on from the newest save in the folder at `path`, and returns it; nothing if there is no
    /// save yet, so that a program can begin with this call, whether it runs for the first time or
    /// was killed. [`steps`](Self::steps) tells how far the run has come.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume); a save that is damaged is an error, not a run begun anew.
    pub fn resume_from(&mut self, path: impl AsRef<Path>) -> Result<Option<Save>, LoadError> {
        let path = path.as_ref();
        let save = match Saves::new(path).latest() {
            Ok(save) => save,
            Err(LoadError::Nothing(_)) => return Ok(None),
            // The folder itself. A save that lacks a file is damaged.
            Err(LoadError::Read {
                path: missing,
                source,
            }) if missing == path && source.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        self.resume(&save)?;
        Ok(Some(save))
    }

    /// Writes parameters, optimizer state, step and seed as the newest of `saves`, together with
    /// `about`: whatever the program needs to make this trainer again. Then removes the oldest beyond
    /// those to keep.
    ///
    /// What is written does not depend on replicas, stages, ranks, schedule or policy. Gradients that have not been
    /// [applied](Self::update) are not part of it.
    ///
    /// # Errors
    ///
    /// If the disk is full, for example: then no earlier save has changed. Or if the trainer is over.
    pub fn save(&mut self, saves: &Saves, about: &impl Serialize) -> Result<Save, SaveError> {
        let seed = self.first_replica(|stage| stage.seed())?.first().copied();
        let draft = saves.begin(self.step)?;
        let about = serde_json::to_vec_pretty(about);
        draft.about(&about.map_err(SaveError::encode(saves.path()))?)?;
        let ranks = self.ranks();
        let modules = self.first_replica(|stage| stage.module().clone())?;
        weights::write(&modules, ranks, &draft.weights())?;
        let states = self
            .first_replica(|stage| stage.states())?
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(SaveError::encode(&draft.states()))?;
        states::write(states, ranks, &draft.states())?;
        let save = draft.finish(self.step, seed.unwrap_or_default())?;
        tracing::debug!(path = %save.path().display(), "saved");
        saves.prune()?;
        Ok(save)
    }

    /// Takes parameters, optimizer state, step and seed from a save: the next step is the one that
    /// would have followed it.
    ///
    /// On `flex` that step has the same bits, whatever stages, schedule and policy the trainer has,
    /// except where a parameter is tied across stages (see [`Chain`]) or the number of ranks or
    /// replicas is another.
    ///
    /// # Errors
    ///
    /// If the save is damaged, or of another model or optimizer: then the trainer is what it was.
    pub fn resume(&mut self, save: &Save) -> Result<(), LoadError> {
        self.take(save, true)?;
        self.step = save.step();
        Ok(())
    }

    /// Takes the parameters alone from a save, to use the model, or to train it anew.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume).
    pub fn load_weights(&mut self, save: &Save) -> Result<(), LoadError> {
        self.take(save, false)
    }

    fn take(&mut self, save: &Save, training: bool) -> Result<(), LoadError> {
        let forms = self.first_replica(|stage| stage.forms())?;
        let forms = forms.into_iter().flatten().collect();
        weights::compare(&save.checked(save.weights())?, &forms)?;
        if training {
            states::compare(&save.checked(save.states())?, &forms)?;
        }
        let wanted = save.clone();
        let restored = self
            .each(move |stage| stage.read(&wanted, training))?
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let jobs = restored
            .into_iter()
            .map(|restored| {
                move |stage: &mut Stage<C>| {
                    stage.restore(restored);
                    Ok::<(), Cause>(())
                }
            })
            .collect();
        self.crew.run(jobs).map_err(TrainError::from)?;
        self.loss_is_finite = true;
        Ok(())
    }
}
