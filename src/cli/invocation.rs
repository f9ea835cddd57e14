//! What the command line asks for, as plain values.

use crate::app::{FitOptions, RunOptions, Scheme, Source};
use crate::command::CommandLine;
use clap::ValueEnum;
use std::path::PathBuf;

/// What the command line asks for, free of clap.
#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// Print a page of `oomph help`.
    Help(HelpTopic),
    /// Run a command.
    Run(RunOptions),
    /// Play a recording.
    Replay(ReplayInvocation),
    /// Show what would be changed, without running anything.
    Plan(PlanInvocation),
    /// Name the causes of the OOMs in a log.
    Explain(ExplainInvocation),
    /// Find the largest batch that fits.
    Fit(Box<FitOptions>),
    /// List the sessions that are alive.
    List {
        /// As JSON.
        json: bool,
    },
    /// Attach a screen to a running session.
    Attach {
        /// Which; the only one without.
        session: Option<String>,
        /// Whether to ask NVML.
        nvml: bool,
    },
    /// End a session.
    Stop {
        /// Which; the only one without.
        session: Option<String>,
        /// By SIGKILL, at once.
        kill: bool,
    },
    /// Show a session's output.
    Logs {
        /// Which; the only one, or the latest, without.
        session: Option<String>,
        /// Go on as it grows.
        follow: bool,
    },
}

/// A recording to play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayInvocation {
    /// The recording.
    pub file: PathBuf,
    /// Print what it says instead of playing it on the screen.
    pub headless: bool,
    /// The screen's theme, where it was said.
    pub theme: Option<Scheme>,
}

/// A command to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanInvocation {
    /// The command.
    pub command: CommandLine,
    /// JSON instead of words.
    pub json: bool,
    /// The factor for the batch.
    pub batch_scale: f64,
    /// Recordings that predictions rest on.
    pub recordings: Vec<PathBuf>,
    /// Batches to predict.
    pub predict: Vec<u64>,
}

/// A log or a recording to explain.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainInvocation {
    /// What to read.
    pub source: Source,
    /// JSON instead of words.
    pub json: bool,
    /// The command that ran out of memory, for remedies.
    pub command: Option<CommandLine>,
}

/// What `oomph help` explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum HelpTopic {
    /// What oomph does, its subcommands, and what else can be asked
    #[default]
    Overview,
    /// The options of a run
    Run,
    /// The keys of the screen
    Keys,
    /// What oomph.toml can set
    Toml,
    Ls,
    Attach,
    Stop,
    Logs,
    Replay,
    Plan,
    Explain,
    Fit,
}
