//! `gpt completions`.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;

/// All options of completions.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "For bash: gpt completions bash > ~/.local/share/bash-completion/completions/gpt"
)]
pub struct CompletionsArgs {
    /// The shell that is to complete
    pub shell: Shell,
}

/// Writes the script to standard output.
pub fn completions(args: &CompletionsArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gpt", &mut script);
    // Nobody may be reading; then there is nobody to tell.
    let _ = io::stdout().write_all(&script);
}
