//! Options of `gpt tokenizer`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::vocabulary;

/// What is done about tokenizers.
#[derive(Clone, Debug, Args)]
#[command(arg_required_else_help = false)]
pub struct TokenizerArgs {
    /// What.
    #[command(subcommand)]
    pub command: TokenizerCommand,
}

/// What is done about tokenizers.
#[derive(Clone, Debug, Subcommand)]
pub enum TokenizerCommand {
    /// Learn byte pairs from a text, as GPT-2's tokenizer did.
    #[command(args_override_self = true)]
    Train(TokenizerTrainArgs),
}

/// How a tokenizer is learnt.
#[derive(Clone, Debug, Args)]
pub struct TokenizerTrainArgs {
    /// Text to learn from: a file, or a folder with .txt, .md and .rs files [default: Cicero]
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Tokens, the 256 bytes among them; a short text may give fewer
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = vocabulary())]
    pub vocab: usize,
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "tokenizer.json")]
    pub out: PathBuf,
}
