//! `oomph completions`: a shell's completion script.

use crate::live::{Ending, print};
use clap::{Args, ValueEnum};

#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "bash: add eval \"$(oomph completions bash)\" to ~/.bashrc\n\
                  zsh:  add source <(oomph completions zsh) to ~/.zshrc, after compinit\n\
                  fish: oomph completions fish > ~/.config/fish/completions/oomph.fish"
)]
pub(super) struct CompletionsCommand {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// What the shell is to read.
    fn script(self) -> &'static str {
        match self {
            Shell::Bash => include_str!("../cli/completion/oomph.bash"),
            Shell::Zsh => include_str!("../cli/completion/oomph.zsh"),
            Shell::Fish => include_str!("../cli/completion/oomph.fish"),
        }
    }
}

/// Prints the script.
///
/// # Errors
/// Standard output could not be written.
pub(super) fn run(completions: &CompletionsCommand) -> anyhow::Result<Ending> {
    print::page(completions.shell.script())
}

#[cfg(test)]
mod tests;
