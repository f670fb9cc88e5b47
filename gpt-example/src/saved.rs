//! What a run remembers in its saves, and how a model comes out of one.

use std::path::{Path, PathBuf};

use burn::prelude::*;
use lynx_burn::plan::policy::Policy;
use lynx_burn::{LoadError, Save, Saves, Trainer};
use serde::{Deserialize, Serialize};

use crate::cli::{OverlapArgs, TrainArgs};
use crate::config::GptConfig;
use crate::data::{Corpus, Mark};
use crate::error::RunError;
use crate::model::Gpt;
use crate::orders::Orders;
use crate::pipeline::build;
use crate::tokenizer::{Tokenizer, TokenizerError};

/// The folder of a run's saves within its own.
const FOLDER: &str = "saves";

/// What is needed beside the library's part of a save to go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remembered {
    /// How the run was asked for, with a plan's decisions filled in.
    pub options: TrainArgs,
    /// The model's sizes.
    pub model: GptConfig,
    /// The text it learns. Which part of it comes next follows from the step.
    pub corpus: Mark,
    /// The text of its tokenizer.json, if tokens are not bytes: a save can be used wherever it lies.
    #[serde(default)]
    pub tokenizer: Option<String>,
}

/// The saves of the run whose folder is `run`.
pub fn saves_of(run: &Path) -> Saves {
    Saves::new(run.join(FOLDER))
}

/// The save that `path` means: the last of a run or of a folder of saves, or the one that it is.
///
/// # Errors
///
/// If there is none, or it is not whole.
pub fn find(path: &Path) -> Result<Save, LoadError> {
    let saves = saves_of(path);
    if saves.path().is_dir() {
        return saves.latest();
    }
    let folder = Saves::new(path);
    match Save::open(path) {
        Err(LoadError::NotASave(_)) if path.is_dir() => folder.latest(),
        result => result,
    }
}

/// The folder of the run that wrote a save, if it lies where a run puts it.
pub fn run_of(save: &Save) -> Option<PathBuf> {
    let folder = save.path().parent()?;
    (folder.file_name()? == FOLDER)
        .then(|| folder.parent().map(Path::to_owned))
        .flatten()
}

/// A trained model on one stage, to be used and not trained, and what its run remembers.
///
/// # Errors
///
/// If there is no such save, or it is of another model.
pub fn model(path: &Path, device: &Device) -> Result<(Trainer<Gpt>, Remembered), RunError> {
    let save = find(path)?;
    let remembered: Remembered = save.about()?;
    let mut args = remembered.options.clone();
    args.overlap = OverlapArgs::default();
    args.pipeline.layers_per_stage = None;
    args.pipeline.stages = Some(1);
    args.pipeline.policy = Policy::RetainAll;
    args.config().validate()?;
    let mut trainer = build(&args, std::slice::from_ref(device), Orders::default())?;
    trainer.load_weights(&save)?;
    Ok((trainer, remembered))
}

impl Remembered {
    /// Of a run with these options on this text.
    pub fn new(options: &TrainArgs, corpus: &Corpus, tokenizer: &Tokenizer) -> Self {
        let absolute = |path: &Option<PathBuf>| {
            let path = path.as_deref();
            // Where the system cannot tell where it is, it stays what it was.
            path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
        };
        let mut options = options.clone();
        // The run may be gone on with from another folder.
        options.output.data = absolute(&options.output.data);
        options.output.tokenizer = absolute(&options.output.tokenizer);
        options.pipeline.plan = absolute(&options.pipeline.plan);
        options.saving.init_from = absolute(&options.saving.init_from);
        Self {
            model: options.config(),
            options,
            corpus: corpus.mark(),
            tokenizer: tokenizer.json().map(str::to_owned),
        }
    }

    /// How the run made its text into tokens. `path` is the save's or the run's, for errors.
    ///
    /// # Errors
    ///
    /// If what was kept is no tokenizer.
    pub fn tokenizer(&self, path: &Path) -> Result<Tokenizer, TokenizerError> {
        match &self.tokenizer {
            None => Ok(Tokenizer::bytes()),
            Some(json) => Tokenizer::from_json(json.clone(), path),
        }
    }
}
