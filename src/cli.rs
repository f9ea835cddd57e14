//! What a person types, turned into plain option structs.
//!
//! The rule that everything here serves: the first word that is no option of ours and no
//! subcommand starts the command, and all after it is the command's, untouched. So the words are
//! split before clap sees them, and clap never looks at a word of the command.

mod options;
mod sessions;
mod split;

pub use options::{Conversion, ExplainOrder, Order, PlanOrder, ReplayOrder};
pub use split::SplitError;

use crate::app::RunOptions;
use crate::command::{CommandLine, Word};
use clap::{CommandFactory, FromArgMatches};
use options::{Cli, Common, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Why the words were not taken: one line that says the mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// `--help` or `--version`: not a mistake; the text is for standard output.
    Shown(String),
    /// A mistake of the user's, in one line.
    Mistake(String),
}

/// Reads the words after the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>, cwd: PathBuf) -> Result<Order, Refusal> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut definition = Cli::command();
    definition.build();
    let parts = split::split(&definition, &words).map_err(|error| mistake(&error.to_string()))?;
    let ours = std::iter::once(OsString::from("oomph")).chain(parts.ours);
    let matches = definition
        .try_get_matches_from(ours)
        .map_err(|error| refusal(&error))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| refusal(&error))?;
    match cli.subcommand {
        None => Ok(Order::Run(run_options(cli.common, parts.command, cwd)?)),
        Some(Subcommand::Run(run)) => Ok(Order::Run(run_options(
            cli.common.or(run.common),
            parts.command,
            cwd,
        )?)),
        Some(Subcommand::Replay(replay)) => Ok(Order::Replay(replay.into())),
        Some(Subcommand::Ls(ls)) => Ok(Order::List { json: ls.json }),
        Some(Subcommand::Attach(attach)) => Ok(Order::Attach {
            session: attach.session,
            nvml: !(attach.no_nvml | cli.common.no_nvml),
        }),
        Some(Subcommand::Stop(stop)) => Ok(Order::Stop {
            session: stop.session,
            kill: stop.kill,
        }),
        Some(Subcommand::Logs(logs)) => Ok(Order::Logs {
            session: logs.session,
            follow: logs.follow,
        }),
        Some(Subcommand::Plan(plan)) => Ok(Order::Plan(PlanOrder {
            command: command_line(parts.command, cwd)?,
            json: plan.json,
            batch_scale: plan.batch_scale,
        })),
        Some(Subcommand::Explain(explain)) => {
            let command = match parts.command.is_empty() {
                true => None,
                false => Some(command_line(parts.command, cwd)?),
            };
            Ok(Order::Explain(explain.into_order(command)))
        }
    }
}

fn run_options(common: Common, words: Vec<OsString>, cwd: PathBuf) -> Result<RunOptions, Refusal> {
    common
        .into_options(command_line(words, cwd)?)
        .map_err(|text| mistake(&text))
}

/// The command, `NAME=VALUE` words in front of it taken as environment, as `env` does.
fn command_line(words: Vec<OsString>, cwd: PathBuf) -> Result<CommandLine, Refusal> {
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

fn mistake(text: &str) -> Refusal {
    Refusal::Mistake(format!("{text} (see `oomph --help`)"))
}

/// clap's message of several lines as one line with the mend.
fn refusal(error: &clap::Error) -> Refusal {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Refusal::Shown(error.render().to_string())
        }
        kind => {
            let text = error.render().to_string();
            let said: Vec<&str> = text
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage:"))
                .filter(|line| !line.is_empty())
                .map(|line| {
                    line.trim_start_matches("error: ")
                        .trim_start_matches("tip: ")
                })
                .collect();
            let mut said = said.join("; ").replace(":; ", ": ");
            if kind == ErrorKind::UnknownArgument {
                said.push_str("; options of the command go after it");
            }
            mistake(&said)
        }
    }
}

#[cfg(test)]
mod tests;
