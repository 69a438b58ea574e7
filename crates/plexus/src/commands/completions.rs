//! `plexus completions`: prints a shell completion script.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Exit;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
mkdir -p ~/.local/share/bash-completion/completions\n  \
plexus completions bash > ~/.local/share/bash-completion/completions/plexus\n  \
plexus completions zsh > \"${fpath[1]}/_plexus\"   # in zsh, before compinit\n  \
plexus completions fish > ~/.config/fish/completions/plexus.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell that loads the script
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "plexus", &mut script);
    output::write_bytes(&script)?;
    Ok(Exit::Ok.into())
}
