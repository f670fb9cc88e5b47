//! What a run begins with: how its text becomes tokens, and weights that were learnt elsewhere.
//!
//! Both decide about the model's sizes, so they are looked at before the options are checked.

use lynx_burn::Save;

use crate::cli::TrainArgs;
use crate::error::RunError;
use crate::pretrained::Pretrained;
use crate::resume::Resumed;
use crate::tokenizer::{Tokenizer, TokenizerError};

/// What a run begins with.
pub(crate) struct Beginning {
    pub(crate) tokenizer: Tokenizer,
    /// Of a run that goes on they are in its save.
    pub(crate) weights: Option<Pretrained>,
}

impl Beginning {
    /// Reads what the options name, and makes the model's sizes what follows from it.
    pub(crate) fn new(args: &mut TrainArgs, resumed: Option<&Resumed>) -> Result<Self, RunError> {
        let beginning = match resumed {
            Some(run) => Self {
                tokenizer: run.tokenizer(args)?,
                weights: None,
            },
            None => Self::first(args)?,
        };
        let tokenizer = &beginning.tokenizer;
        let config = args.config();
        let vocabulary = config.vocabulary.saturating_sub(config.padding);
        if tokenizer.vocabulary() > vocabulary {
            let path = args.output.tokenizer.as_ref();
            return Err(RunError::from(TokenizerError::TooMany {
                tokenizer: path.map_or("a text of bytes".to_owned(), |path| {
                    path.display().to_string()
                }),
                tokens: tokenizer.vocabulary(),
                vocabulary,
            }));
        }
        Ok(beginning)
    }

    /// Of a run that does not go on.
    fn first(args: &mut TrainArgs) -> Result<Self, RunError> {
        args.model.settle(&args.given)?;
        let tokenizer = match &args.output.tokenizer {
            None => Tokenizer::bytes(),
            Some(path) => Tokenizer::read(path)?,
        };
        let weights = match &args.saving.init_from {
            None => None,
            Some(path) => Some(Pretrained::open(path)?),
        };
        let given = |name: &str| args.given.contains(name);
        if let Some(weights) = &weights {
            weights.adopt(&mut args.model, &args.given)?;
            weights.check_tokenizer(&tokenizer)?;
        } else if tokenizer.json().is_some() && !given("vocabulary") {
            // A preset's vocabulary is of its own tokenizer.
            args.model.vocabulary = Some(tokenizer.vocabulary());
        }
        Ok(Self { tokenizer, weights })
    }

    /// What to say of it.
    pub(crate) fn about(
        &self,
        args: &TrainArgs,
        resumed: Option<&Save>,
    ) -> Vec<(&'static str, String)> {
        let mut about = Vec::new();
        if let (Some(path), Some(_)) = (&args.output.tokenizer, self.tokenizer.json()) {
            let tokens = self.tokenizer.vocabulary();
            about.push(("tokenizer", format!("{}: {tokens} tokens", path.display())));
        }
        if let (Some(path), None) = (&args.saving.init_from, resumed) {
            about.push(("weights", path.display().to_string()));
        }
        about
    }
}
