//! The subcommands: a file each, with its arguments and the function that runs it.
//!
//! What one types is split before clap sees it: the first word that is neither an option of oomph's
//! nor a subcommand starts the command, and clap never sees a word of that.

mod again;
mod attach;
mod check;
mod completions;
mod diff;
mod doctor;
mod explain;
mod export;
mod fit;
pub mod help;
mod logs;
mod ls;
mod mcp;
mod picker;
mod plan;
mod predict;
mod replay;
mod report;
mod run;
mod stop;

use crate::cli;
use crate::command::CommandLine;
use crate::config;
use crate::live::display::mode;
use crate::live::signals::HeldResizes;
use crate::live::{Ending, FitOptions, SessionConfig, named_in, print};
use crate::query::sessions::session_names;
use crate::query::{planned, recordings};
use crate::supervise;
use crate::ui::Preferences;
use crate::ui::theme::Scheme;
use again::AgainCommand;
use anyhow::{Context, bail};
use attach::AttachCommand;
use check::CheckCommand;
use clap::{CommandFactory, FromArgMatches, Parser};
use completions::CompletionsCommand;
use diff::DiffCommand;
use doctor::DoctorCommand;
use explain::ExplainCommand;
use export::ExportCommand;
use help::HelpCommand;
use logs::LogsCommand;
use ls::LsCommand;
use mcp::McpCommand;
use plan::PlanCommand;
use replay::ReplayCommand;
use report::ReportCommand;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use stop::StopCommand;

/// Prefix a GPU training command: see PyTorch's memory live, learn why it ran out, relaunch on one
/// key.
#[derive(Debug, Parser)]
#[command(
    name = "oomph",
    version = env!("OOMPH_VERSION"),
    override_usage = "oomph [OPTIONS] [--] [NAME=VALUE...] COMMAND [ARG...]\n       oomph run [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]\n       oomph <SUBCOMMAND>",
    after_help = "The first argument that isn't an oomph option starts the command; everything after it is the command's.\n\
                  `oomph` alone lists the sessions on a terminal, to open one.\n\
                  Exit status: the command's own; 125 oomph's own failure, 126 not executable, 127 not found.",
    args_override_self = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    run: SessionConfig,
    #[command(subcommand)]
    subcommand: Option<Subcommand>,
}

#[derive(Debug, PartialEq, clap::Subcommand)]
enum Subcommand {
    /// List the sessions of this machine: those that are running, or all that are recorded.
    Ls(LsCommand),
    /// Attach a screen to a running session.
    Attach(AttachCommand),
    /// End a session: SIGTERM, to the process tree in 45 s, SIGKILL 5 s later.
    Stop(StopCommand),
    /// Print a session's output as the training wrote it.
    Logs(LogsCommand),
    /// Play a recorded session on the screen.
    Replay(ReplayCommand),
    /// Write a report about a session: one HTML file, or Markdown for an issue.
    Report(ReportCommand),
    /// Compare two sessions, or two runs of one.
    Diff(DiffCommand),
    /// Write a session as CSV, for TensorBoard, or as a trace for Perfetto.
    Export(ExportCommand),
    /// Show what oomph recognizes in a command and how each remedy would change it. Runs nothing.
    Plan(PlanCommand),
    /// Name the cause of every OOM in a log or a recording. Needs no GPU.
    Explain(ExplainCommand),
    /// Start a recorded session's command again, with the remedy that is expected to fit.
    Again(AgainCommand),
    /// Say whether a training stays below a limit of memory, or needs more than before: for CI.
    Check(CheckCommand),
    /// Find the largest batch that fits, in at most three short runs of the real program.
    Fit(FitOptions),
    /// Check the driver, the GPUs, the command's Python and torch, and what oomph needs. Runs nothing
    /// of yours.
    Doctor(DoctorCommand),
    /// Serve coding agents over the Model Context Protocol: sessions, causes, predictions.
    Mcp(McpCommand),
    /// Explain options, keys, oomph.toml or a subcommand: oomph help run, oomph help keys, ….
    Help(HelpCommand),
    /// Print a shell's completion: eval "$(oomph completions bash)".
    Completions(CompletionsCommand),
}

/// Nothing to run: help was requested, or the command line is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyExit {
    /// `--help` or `--version`: text for standard output.
    Help(String),
    /// A mistake of the user's, in one line.
    Mistake(String),
}

/// A mistake of the user's that no single option shows.
#[derive(Debug)]
struct Mistake(String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (see `oomph --help`)", self.0)
    }
}

impl std::error::Error for Mistake {}

impl From<Mistake> for EarlyExit {
    fn from(mistake: Mistake) -> EarlyExit {
        EarlyExit::Mistake(mistake.to_string())
    }
}

/// The same after `oomph plan` or `oomph fit`, which do something else with it.
fn no_command_after(subcommand: &str) -> Mistake {
    Mistake(format!(
        "no command given; put one behind --: oomph {subcommand} -- python train.py --batch-size 64"
    ))
}

fn no_command() -> Mistake {
    Mistake(
        "no command given; put one after the options: oomph python train.py --batch-size 64".into(),
    )
}

/// What one typed: oomph's own words, parsed, and the command behind them.
#[derive(Debug, PartialEq)]
pub struct Invocation {
    run: SessionConfig,
    subcommand: Option<Subcommand>,
    command: Option<CommandLine>,
}

/// Parses the words after the program's name.
///
/// # Errors
/// There is nothing to run: help was requested, or the words are wrong.
pub fn parse(
    words: impl IntoIterator<Item = OsString>,
    cwd: PathBuf,
) -> Result<Invocation, EarlyExit> {
    let words: Vec<OsString> = words.into_iter().collect();
    let definition = definition();
    let parts = cli::split(&definition, &words).map_err(|error| Mistake(error.to_string()))?;
    let subcommand = parts.subcommand.as_deref();
    let ours = std::iter::once(OsString::from("oomph")).chain(parts.ours);
    let matches = definition
        .try_get_matches_from(ours)
        .map_err(|error| early_exit(&error, subcommand))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| early_exit(&error, subcommand))?;
    let needs_command = match cli.subcommand {
        // `oomph` alone is the list of sessions.
        None => !words.is_empty(),
        Some(Subcommand::Plan(_) | Subcommand::Fit(_)) => true,
        Some(_) => false,
    };
    let command = match parts.command.is_empty() && !needs_command {
        true => None,
        false => {
            let none = || match cli.subcommand {
                Some(Subcommand::Plan(_)) => no_command_after("plan"),
                Some(Subcommand::Fit(_)) => no_command_after("fit"),
                Some(_) | None => no_command(),
            };
            Some(planned::command_line(parts.command, cwd).ok_or_else(none)?)
        }
    };
    Ok(Invocation {
        run: cli.run,
        subcommand: cli.subcommand,
        command,
    })
}

impl Invocation {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What kept oomph from doing it, in one line.
    pub fn run(self) -> anyhow::Result<Ending> {
        let (subcommand, command) = match (self.subcommand, self.command) {
            (None, Some(command)) => return run::run(self.run, command),
            (None, None) => return picker::run(),
            (Some(subcommand), command) => (subcommand, command),
        };
        match subcommand {
            Subcommand::Ls(ls) => ls::run(&ls),
            Subcommand::Attach(attach) => attach::run(&attach, self.run.nvml),
            Subcommand::Stop(stop) => stop::run(&stop),
            Subcommand::Logs(logs) => logs::run(&logs),
            Subcommand::Replay(replay) => replay::run(&replay),
            Subcommand::Report(report) => report::run(&report),
            Subcommand::Diff(diff) => diff::run(&diff),
            Subcommand::Export(export) => export::run(&export),
            Subcommand::Plan(plan) => plan::run(&plan, &command.ok_or_else(no_command)?),
            Subcommand::Explain(explain) => explain::run(&explain, command.as_ref()),
            Subcommand::Again(asked) => again::run(&asked, self.run),
            Subcommand::Check(asked) => check::run(asked, command),
            Subcommand::Fit(fit) => fit::run(fit, command.ok_or_else(no_command)?),
            Subcommand::Doctor(doctor) => doctor::run(&doctor, command),
            Subcommand::Mcp(asked) => mcp::run(&asked),
            Subcommand::Help(help) => help::run(&help),
            Subcommand::Completions(completions) => completions::run(&completions),
        }
    }
}

/// Refuses the name of a recorded session in a command's place, if there is no program of that name.
///
/// # Errors
/// It is such a name; with what to type.
fn refuse_session(subcommand: &str, command: &CommandLine) -> anyhow::Result<()> {
    let [word] = &command.argv[..] else {
        return Ok(());
    };
    let path = std::env::var_os("PATH");
    let name = word.to_string_lossy();
    let (id, what) = match supervise::resolve(command, path.as_deref()) {
        Ok(_) => return Ok(()),
        Err(missing) if missing.unknown_name().is_some() => {
            match recordings::named(&name).as_slice() {
                [] => return Ok(()),
                [only] => (only.clone(), "is a recorded session"),
                // A year or a date is the beginning of many.
                [latest, ..] => (
                    latest.clone(),
                    "is a recorded session, as others that begin so are",
                ),
            }
        }
        Err(_) if recordings::is_recording(Path::new(&word.0)) => (name, "is a recording"),
        Err(_) => return Ok(()),
    };
    bail!(
        "{id} {what}, and {subcommand} takes a command: oomph {subcommand} -- python train.py; oomph explain {id} says why it ran out of memory"
    )
}

/// The definition of the command line, before clap has completed it.
fn command_definition() -> clap::Command {
    help::with_topics(Cli::command())
}

/// The definition of the command line, complete: the man page is written from it.
pub fn definition() -> clap::Command {
    let mut definition = command_definition();
    definition.build();
    definition
}

/// The answer to a shell's completion script for the words after `oomph` up to the cursor.
pub fn complete(words: &[OsString]) -> String {
    crate::cli::complete(command_definition(), words, session_names)
}

/// What is said where a subcommand's answer can't be written.
pub const NOT_WRITTEN: &str = "cannot write to standard output";

/// Writes a subcommand's answer to standard output. A reader that has closed the pipe has read enough.
fn answer(text: &str) -> anyhow::Result<Ending> {
    let mut out = print::out();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context(NOT_WRITTEN),
        Ok(()) | Err(_) => Ok(Ending::Code(0)),
    }
}

/// Plays something on the screen, as the user wants screens to be.
fn on_screen<T>(
    mut scheme: Option<Scheme>,
    play: impl AsyncFnOnce(Preferences) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let settings = config::read(&std::env::current_dir().unwrap_or_default());
    let problem = named_in(settings.theme.as_ref(), "theme", &mut scheme);
    let mut mouse = None;
    let of_mouse = named_in(settings.mouse.as_ref(), "mouse", &mut mouse);
    for problem in settings.problems.into_iter().chain(problem).chain(of_mouse) {
        print::complain(&problem);
    }
    let _held = HeldResizes::hold()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let played = runtime.block_on(play(mode::preferences(scheme, mouse)));
    runtime.shutdown_background();
    played
}

/// What other programs call it, and what it is called here.
const CALLED_ELSEWHERE: [(&str, &str); 9] = [
    ("status", "ls"),
    ("list", "ls"),
    ("sessions", "ls"),
    ("history", "ls --all"),
    ("kill", "stop"),
    ("show", "report"),
    ("compare", "diff"),
    ("predict", "plan --predict"),
    ("rerun", "again"),
];

/// The subcommand that `command`'s first word may mean, misspelled or by another program's name for it. It is
/// asked for only where there is no program of that name.
fn meant(command: &CommandLine) -> Option<String> {
    let typed = command.argv.first()?.to_string_lossy();
    let definition = command_definition();
    let names = definition.get_subcommands().map(|one| one.get_name());
    names
        .chain(["run"])
        .map(|name| (name, name))
        .chain(CALLED_ELSEWHERE)
        .map(|(name, meant)| (meant, likeness(name, &typed)))
        .filter(|(_, likeness)| *likeness > 0.85)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(meant, _)| meant.to_string())
}

/// How like a typed word is to a name, from 0 to 1. Of short ones two letters that have changed places leave little else alike.
fn likeness(name: &str, typed: &str) -> f64 {
    let by_letters = strsim::jaro_winkler(name, typed);
    match typed.len() > 2 && strsim::osa_distance(name, typed) == 1 {
        true => by_letters.max(0.9),
        false => by_letters,
    }
}

/// The unknown option of an error, and the subcommands that have it.
fn elsewhere(error: &clap::Error) -> Option<(String, Vec<String>)> {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let long = option.strip_prefix("--")?;
    let definition = command_definition();
    let having = definition.get_subcommands().filter(|subcommand| {
        let mut arguments = subcommand.get_arguments();
        arguments.any(|argument| argument.get_long() == Some(long))
    });
    let names: Vec<String> = having
        .map(|subcommand| format!("oomph {}", subcommand.get_name()))
        .collect();
    (!names.is_empty()).then(|| (option.clone(), names))
}

/// clap's error as one line that says how to fix it.
fn early_exit(error: &clap::Error, subcommand: Option<&str>) -> EarlyExit {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            EarlyExit::Help(error.render().to_string())
        }
        kind => {
            let text = error.render().to_string();
            let message: Vec<&str> = text
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage:"))
                .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
                .map(|line| {
                    line.trim_start_matches("error: ")
                        .trim_start_matches("tip: ")
                })
                .collect();
            let mut message = message.join("; ").replace(":; ", ": ");
            let elsewhere = match (kind, subcommand) {
                (ErrorKind::UnknownArgument, None) => elsewhere(error),
                _ => None,
            };
            if let Some((option, subcommands)) = elsewhere {
                message = format!("{option} is an option of {}", subcommands.join(" and "));
            }
            let (help, takes_command) = match subcommand {
                None => ("oomph --help".into(), true),
                Some(name) => (format!("oomph {name} --help"), cli::takes_command(name)),
            };
            if kind == ErrorKind::UnknownArgument && takes_command {
                message.push_str("; options of the command go after it");
            }
            EarlyExit::Mistake(format!("{message} (see `{help}`)"))
        }
    }
}

#[cfg(test)]
mod tests;
