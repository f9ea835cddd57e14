//! What the command line asks for, as plain values.

use super::shell::Shell;
use crate::app::{ExportOptions, FitOptions, ReportOptions, RunOptions, Scheme, Source};
use crate::command::CommandLine;
use crate::units::Moment;
use clap::ValueEnum;
use std::ffi::OsString;

#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// Print a page of `oomph help`.
    Help(HelpTopic),
    /// Check the machine, and the Python of a command.
    Doctor {
        command: Option<CommandLine>,
        json: bool,
    },
    /// Print a shell's completion script.
    Completions(Shell),
    Run(RunOptions),
    Replay(ReplayInvocation),
    /// Write a report about a session.
    Report(ReportOptions),
    /// Compare two runs.
    Diff {
        /// By default the latest session.
        before: Option<OsString>,
        /// By default the last run of the first.
        after: Option<OsString>,
        json: bool,
    },
    /// Write a session for other programs.
    Export(ExportOptions),
    /// Show recognised settings and remedies, without running anything.
    Plan(PlanInvocation),
    /// Name the causes of the OOMs in a log.
    Explain(ExplainInvocation),
    /// Find the largest batch that fits.
    Fit(Box<FitOptions>),
    /// List the sessions.
    List {
        json: bool,
        /// Also those that have ended.
        all: bool,
    },
    /// Attach a screen to a running session.
    Attach {
        /// By default the only one.
        session: Option<String>,
        /// Whether to use NVML.
        nvml: bool,
    },
    Stop {
        /// By default the only one.
        session: Option<String>,
        /// With SIGKILL, at once.
        kill: bool,
    },
    /// Show a session's output.
    Logs {
        /// By default the only running one, or the latest.
        session: Option<String>,
        /// Continue as it grows.
        follow: bool,
    },
}

/// A recording to play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayInvocation {
    /// A file or the beginning of a session's name; by default the latest.
    pub session: Option<OsString>,
    /// Where to begin; by default at the beginning.
    pub at: Option<Moment>,
    /// Print the diagnosis instead of playing it on the screen.
    pub headless: bool,
    /// The screen's theme, if given.
    pub theme: Option<Scheme>,
}

/// A command to examine.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanInvocation {
    pub command: CommandLine,
    /// JSON instead of text.
    pub json: bool,
    /// The factor for the batch.
    pub batch_scale: f64,
    /// Recordings to predict from; by default the latest.
    pub recordings: Vec<OsString>,
    /// Batch sizes to predict.
    pub predict: Vec<u64>,
}

/// A log or a recording to explain.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainInvocation {
    pub source: Source,
    /// JSON instead of text.
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
    /// Batch scripts for SLURM, several nodes, login nodes
    Clusters,
    /// The man page, for man -l -
    Man,
    Ls,
    Attach,
    Stop,
    Logs,
    Replay,
    Report,
    Diff,
    Export,
    Plan,
    Explain,
    Fit,
    Doctor,
    Completions,
}
