//! The shells that have a completion script, and the scripts.

use clap::ValueEnum;

/// Shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// What the shell is to read.
    pub fn script(self) -> &'static str {
        match self {
            Shell::Bash => include_str!("completion/oomph.bash"),
            Shell::Zsh => include_str!("completion/oomph.zsh"),
            Shell::Fish => include_str!("completion/oomph.fish"),
        }
    }
}
