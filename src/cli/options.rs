//! The definition of the command line (clap derive).

use super::Conversion;
use super::common::Common;
use super::fit::FitArguments;
use super::invocation::{ExplainInvocation, HelpTopic, ReplayInvocation};
use super::records::{DiffArguments, ExportArguments, ReportArguments};
use super::sessions::{AttachArguments, LogsArguments, LsArguments, StopArguments};
use super::shell::Shell;
use crate::app::{Scheme, Source};
use crate::command::CommandLine;
use crate::units::Moment;
use clap::{Args, Parser};
use std::ffi::OsString;

/// Prefix a GPU training command: see PyTorch's memory live, learn why it ran out, relaunch on one
/// key.
#[derive(Debug, Parser)]
#[command(
    name = "oomph",
    version = env!("OOMPH_VERSION"),
    override_usage = "oomph [OPTIONS] [--] [NAME=VALUE...] COMMAND [ARG...]\n       oomph run [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]\n       oomph <SUBCOMMAND>",
    after_help = "The first argument that isn't an oomph option starts the command; everything after it is the command's.\n\
                  Exit status: the command's own; 125 oomph's own failure, 126 not executable, 127 not found.",
    args_override_self = true,
    disable_help_subcommand = true
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) subcommand: Option<Subcommand>,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Subcommand {
    /// List the sessions of this machine: those that are running, or all that are recorded.
    Ls(LsArguments),
    /// Attach a screen to a running session.
    Attach(AttachArguments),
    /// End a session: SIGTERM, to the process tree in 45 s, SIGKILL 5 s later.
    Stop(StopArguments),
    /// Print a session's output as the training wrote it.
    Logs(LogsArguments),
    /// Play a recorded session on the screen.
    Replay(ReplayArguments),
    /// Write a report about a session: one HTML file, or Markdown for an issue.
    Report(ReportArguments),
    /// Compare two sessions, or two runs of one.
    Diff(DiffArguments),
    /// Write a session as CSV, for TensorBoard, or as a trace for Perfetto.
    Export(ExportArguments),
    /// Show what oomph recognizes in a command and how each remedy would change it. Runs nothing.
    Plan(PlanArguments),
    /// Name the cause of every OOM in a log or a recording. Needs no GPU.
    Explain(ExplainArguments),
    /// Find the largest batch that fits, in at most three short runs of the real program.
    Fit(FitArguments),
    /// Check the driver, the GPUs, the command's Python and torch, and what oomph needs. Runs nothing
    /// of yours.
    Doctor(DoctorArguments),
    /// Explain options, keys, oomph.toml or a subcommand: oomph help run, oomph help keys, ….
    Help(HelpArguments),
    /// Print a shell's completion: eval "$(oomph completions bash)".
    Completions(CompletionsArguments),
}

#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    pub(super) session: Option<OsString>,
    /// Begin at this time of the session, as the header shows it: 90, 1:30, 2:05:00
    #[arg(long, value_name = "TIME", value_parser = clock_time, conflicts_with = "headless")]
    pub(super) at: Option<Moment>,
    /// Print the diagnosis instead of playing it
    #[arg(long)]
    pub(super) headless: bool,
    /// Colours of the screen
    #[arg(long, value_name = "NAME", value_enum)]
    pub(super) theme: Option<Scheme>,
}

impl From<ReplayArguments> for ReplayInvocation {
    fn from(arguments: ReplayArguments) -> ReplayInvocation {
        ReplayInvocation {
            session: arguments.session,
            at: arguments.at,
            headless: arguments.headless,
            theme: arguments.theme,
        }
    }
}

#[derive(Debug, Args)]
#[command(override_usage = "oomph plan [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]")]
pub(super) struct PlanArguments {
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Scale the batch by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 0.5, value_parser = batch_scale)]
    pub(super) batch_scale: f64,
    /// Predict the memory at these batch sizes from recordings of the command: one JSON line each
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub(super) predict: Vec<u64>,
    /// A session or recording to predict from; may be repeated [default: the latest]
    #[arg(long, value_name = "ID|FILE", requires = "predict")]
    pub(super) recording: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "oomph explain [OPTIONS] [ID|FILE|-] [-- [NAME=VALUE...] COMMAND [ARG...]]",
    after_help = "Add `-- COMMAND` to see its remedies as well; nothing is run."
)]
pub(super) struct ExplainArguments {
    /// A log, a recording, or the start of a session's name [default: standard input, or the latest
    /// session]
    #[arg(value_name = "ID|FILE|-")]
    pub(super) source: Option<OsString>,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl ExplainArguments {
    pub(super) fn into_invocation(self, command: Option<CommandLine>) -> ExplainInvocation {
        let source = match self.source {
            Some(name) if name != "-" => Source::Named(name),
            Some(_) => Source::StandardInput,
            None => Source::Default,
        };
        ExplainInvocation {
            source,
            json: self.json,
            command,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct HelpArguments {
    /// run, keys, toml, man, or a subcommand
    #[arg(value_name = "TOPIC")]
    pub(super) topic: Option<HelpTopic>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "oomph doctor [OPTIONS] [-- [NAME=VALUE...] COMMAND [ARG...]]",
    after_help = "With a command its own Python and environment are checked, without one those of python in PATH.\n\
                  Exit status: 0 if nothing is broken (there may be warnings), 1 otherwise."
)]
pub(super) struct DoctorArguments {
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "bash: add eval \"$(oomph completions bash)\" to ~/.bashrc\n\
                  zsh:  add source <(oomph completions zsh) to ~/.zshrc, after compinit\n\
                  fish: oomph completions fish > ~/.config/fish/completions/oomph.fish"
)]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(super) shell: Shell,
}

/// Hours, minutes and seconds, of which the last are enough.
fn clock_time(text: &str) -> Conversion<Moment> {
    let wrong = || "choose a time such as 90, 1:30 or 2:05:00".to_string();
    let mut seconds: u64 = 0;
    for (place, part) in text.split(':').enumerate() {
        let number: u32 = part.parse().map_err(|_| wrong())?;
        if place > 2 || (place > 0 && number >= 60) {
            return Err(wrong());
        }
        seconds = seconds * 60 + u64::from(number);
    }
    Ok(Moment(seconds * 1_000_000))
}

fn batch_scale(text: &str) -> Conversion<f64> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 64.0 => Ok(scale),
        Ok(_) | Err(_) => Err("choose a factor above 0, such as 0.5".into()),
    }
}
