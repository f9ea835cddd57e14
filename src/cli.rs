//! Parses what the user types into plain option structs.
//!
//! The first word that is neither an oomph option nor a subcommand starts the command, and
//! everything after it belongs to the command, untouched. So the words are split before clap sees
//! them, and clap never sees a word of the command.

mod common;
mod completion;
mod fit;
pub mod help;
mod invocation;
#[cfg(test)]
mod man;
mod options;
mod records;
mod sessions;
mod shell;
mod split;

pub use completion::{COMPLETE_WORD, complete};
pub use invocation::{ExplainInvocation, Invocation, PlanInvocation, ReplayInvocation};

pub use shell::Shell;

use crate::app::RunOptions;
use crate::command::{CommandLine, Word};
use clap::{CommandFactory, FromArgMatches};
use common::Common;
use options::{Cli, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Nothing to run: help was requested, or the command line is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyExit {
    /// `--help` or `--version`: text for standard output.
    Help(String),
    /// A mistake of the user's, in one line.
    Mistake(String),
}

/// An argument's value, or what is wrong with its text.
type Conversion<T> = Result<T, String>;

/// Parses the words after the program's name.
pub fn parse(
    words: impl IntoIterator<Item = OsString>,
    cwd: PathBuf,
) -> Result<Invocation, EarlyExit> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut definition = Cli::command();
    definition.build();
    let parts = split::split(&definition, &words).map_err(|error| mistake(&error.to_string()))?;
    let subcommand = parts.subcommand.as_deref();
    let ours = std::iter::once(OsString::from("oomph")).chain(parts.ours);
    let matches = definition
        .try_get_matches_from(ours)
        .map_err(|error| early_exit(&error, subcommand))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| early_exit(&error, subcommand))?;
    match cli.subcommand {
        None => Ok(Invocation::Run(run_options(
            cli.common,
            parts.command,
            cwd,
        )?)),
        Some(Subcommand::Help(help)) => Ok(Invocation::Help(help.topic.unwrap_or_default())),
        Some(Subcommand::Completions(arguments)) => Ok(Invocation::Completions(arguments.shell)),
        Some(Subcommand::Replay(replay)) => Ok(Invocation::Replay(replay.into())),
        Some(Subcommand::Ls(ls)) => Ok(Invocation::List {
            json: ls.json,
            all: ls.all,
        }),
        Some(Subcommand::Attach(attach)) => Ok(Invocation::Attach {
            session: attach.session,
            nvml: !(attach.no_nvml | cli.common.no_nvml),
        }),
        Some(Subcommand::Stop(stop)) => Ok(Invocation::Stop {
            session: stop.session,
            kill: stop.kill,
        }),
        Some(Subcommand::Logs(logs)) => Ok(Invocation::Logs {
            session: logs.session,
            follow: logs.follow,
        }),
        Some(Subcommand::Report(report)) => Ok(Invocation::Report(report.into())),
        Some(Subcommand::Diff(diff)) => Ok(Invocation::Diff {
            before: diff.before,
            after: diff.after,
            json: diff.json,
        }),
        Some(Subcommand::Export(export)) => Ok(Invocation::Export(export.into())),
        Some(Subcommand::Plan(plan)) => Ok(Invocation::Plan(PlanInvocation {
            command: command_line(parts.command, cwd)?,
            json: plan.json,
            batch_scale: plan.batch_scale,
            recordings: plan.recording,
            predict: plan.predict,
        })),
        Some(Subcommand::Fit(fit)) => {
            let options = fit
                .into_options(command_line(parts.command, cwd)?)
                .map_err(|text| mistake(&text))?;
            Ok(Invocation::Fit(Box::new(options)))
        }
        Some(Subcommand::Explain(explain)) => {
            let command = optional_command(parts.command, cwd)?;
            Ok(Invocation::Explain(explain.into_invocation(command)))
        }
        Some(Subcommand::Doctor(doctor)) => Ok(Invocation::Doctor {
            command: optional_command(parts.command, cwd)?,
            json: doctor.json,
        }),
    }
}

fn run_options(
    common: Common,
    words: Vec<OsString>,
    cwd: PathBuf,
) -> Result<RunOptions, EarlyExit> {
    common
        .into_options(command_line(words, cwd)?)
        .map_err(|text| mistake(&text))
}

fn optional_command(words: Vec<OsString>, cwd: PathBuf) -> Result<Option<CommandLine>, EarlyExit> {
    match words.is_empty() {
        true => Ok(None),
        false => command_line(words, cwd).map(Some),
    }
}

/// The command; leading `NAME=VALUE` words are variables, as for `env`.
fn command_line(words: Vec<OsString>, cwd: PathBuf) -> Result<CommandLine, EarlyExit> {
    let mut words = words.into_iter().map(Word).peekable();
    let mut env = Vec::new();
    while let Some(change) = words.peek().and_then(split::assignment) {
        env.push(change);
        words.next();
    }
    let argv: Vec<Word> = words.collect();
    if argv.is_empty() {
        return Err(mistake(
            "no command given; put one after the options: oomph python train.py --batch-size 64",
        ));
    }
    Ok(CommandLine { argv, env, cwd })
}

fn mistake(text: &str) -> EarlyExit {
    EarlyExit::Mistake(format!("{text} (see `oomph --help`)"))
}

/// The subcommand that `command`'s first word may be a misspelling of. It is asked for only where
/// there is no program of that name.
pub fn meant(command: &CommandLine) -> Option<String> {
    let typed = command.argv.first()?.to_string_lossy();
    let definition = Cli::command();
    let names = definition.get_subcommands().map(|one| one.get_name());
    names
        .chain(["run"])
        .map(|name| (name, strsim::jaro_winkler(name, &typed)))
        .filter(|(_, likeness)| *likeness > 0.85)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(name, _)| name.to_string())
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
            let (help, takes_command) = match subcommand {
                None => ("oomph --help".into(), true),
                Some(name) => (format!("oomph {name} --help"), split::takes_command(name)),
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
