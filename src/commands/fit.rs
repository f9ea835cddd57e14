//! `oomph fit`: the largest batch that fits, in at most three short runs of the real program.
//!
//! A session whose runs are chosen by a search instead of a person; each is stopped after some optimizer
//! steps. The program's output goes to standard error, the answer to standard output.

use super::Mistake;
use super::run::RunArguments;
use crate::command::CommandLine;
use crate::live::FitOptions;
use crate::live::policy::fit::{AT_MOST, Fit, search};
use crate::live::print;
use crate::live::session::earlier;
use crate::live::{Ending, OWN_FAILURE, front};
use crate::remedy::{Which, places_written};
use crate::supervise;
use crate::units::Bytes;
use anyhow::Context;
use clap::Args;
use nix::sys::stat::SFlag;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

#[derive(Debug, PartialEq, Args)]
#[command(
    override_usage = "oomph fit [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]",
    after_help = "The program really runs, each time until N optimizer steps were seen, and may write files as it always \
                  does. Its output goes to stderr, the answer to stdout.\nExit status: 0 if a value was found, 1 if none fits."
)]
pub(super) struct FitCommand {
    /// Optimizer steps of each run; up to four times as many while memory still grows
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    steps: u64,
    /// Memory to leave free, in percent of what the run needs
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    margin: f64,
    /// Fit another integer argument than the batch: seq_len
    #[arg(long, value_name = "NAME")]
    arg: Option<String>,
    /// Replace an argument in these runs only: output_dir=/tmp/fit
    #[arg(long, value_name = "NAME=VALUE", value_parser = replacement)]
    replace: Vec<(String, String)>,
    /// Answer for GPUs with this much memory, from one run on this one: 24GiB,40GiB,80GiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    room: Vec<Bytes>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Do not ask before the first run
    #[arg(long, short)]
    yes: bool,
    /// Run without NVML
    #[arg(long)]
    no_nvml: bool,
    /// Record the session to this file
    #[arg(long, value_name = "PATH")]
    record: Option<PathBuf>,
}

impl FitCommand {
    fn into_options(self, command: CommandLine) -> Result<FitOptions, String> {
        let run = RunArguments {
            headless: true,
            no_nvml: self.no_nvml,
            record: self.record,
            ..RunArguments::default()
        };
        Ok(FitOptions {
            run: run.into_options(command)?,
            steps: self.steps,
            margin: self.margin / 100.0,
            which: self.arg.map_or(Which::Batch, Which::Named),
            replaced: self.replace,
            rooms: self.room,
            json: self.json,
            yes: self.yes,
        })
    }
}

/// Finds the largest value that fits and prints it.
///
/// # Errors
/// What kept oomph itself from starting the command.
pub(super) fn run(fit: FitCommand, command: CommandLine) -> anyhow::Result<Ending> {
    let options = fit.into_options(command).map_err(Mistake)?;
    let path = std::env::var_os("PATH");
    if let Err(missing) = supervise::resolve(&options.run.command, path.as_deref()) {
        print::complain(&missing.to_string());
        return Ok(Ending::Code(missing.status()));
    }
    if let Some(lack) = supervise::lacking() {
        print::complain(&format!("fit: {lack}; nothing was run"));
        return Ok(Ending::Code(OWN_FAILURE));
    }
    let mut fit = match Fit::new(options) {
        Ok(fit) => fit,
        Err(reason) => {
            print::complain(&format!("fit: {reason}"));
            return Ok(Ending::Code(OWN_FAILURE));
        }
    };
    if fit.options.which == Which::Batch {
        let command = fit.options.run.command.without_secrets();
        fit.look_back(&earlier::read(&command, ""));
    }
    if !warn(&fit) {
        return Ok(Ending::Code(OWN_FAILURE));
    }
    // The program's standard output becomes our standard error before the keeper is started.
    let answer = nix::unistd::dup(io::stdout()).context("cannot duplicate standard output")?;
    nix::unistd::dup2_stdout(io::stderr()).context("cannot redirect standard output")?;
    fit.standard_output = Some(answer);
    let mut run = fit.options.run.clone();
    run.headless = true;
    run.command = fit.trial();
    front::run_to_end(run, Some(Box::new(fit)))
}

/// Prints what will happen, and asks for confirmation on a terminal. Whether to continue.
fn warn(fit: &Fit) -> bool {
    let (options, mut text) = (&fit.options, String::new());
    let (name, value) = fit.setting();
    text.push_str(&format!(
        "oomph: fit really runs the program, at most {} times for {} optimizer steps each (up to {} while memory still grows), \
         from {name} {value}.\n",
        search::RUNS,
        options.steps,
        options.steps.saturating_mul(AT_MOST),
    ));
    text.push_str("oomph: it may write files (checkpoints, logs) to its usual places");
    let places = places_written(&fit.trial());
    if let Some((name, value)) = places.first() {
        text.push_str(&format!(", here {name} {}", print::line(value)));
    }
    let name = places
        .first()
        .map_or("output_dir", |(name, _)| name.as_str());
    let name = name.trim_start_matches('-');
    text.push_str(&format!(
        "; --replace {name}=/tmp/fit points it elsewhere for these runs.\n"
    ));
    if has_piped_input() {
        text.push_str(
            "oomph: standard input is a pipe: what the program reads of it is kept in memory, up to 1 MiB, so that each run gets the same.\n",
        );
    }
    let _ = print::err().write_all(text.as_bytes());
    // Below another oomph nobody may be there to answer: its screen has the terminal.
    let is_asked = !options.yes && !supervise::is_below_another();
    if !is_asked || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return true;
    }
    let _ = write!(print::err(), "oomph: Continue? [Y/n] ");
    let mut line = String::new();
    let answered = matches!(io::stdin().lock().read_line(&mut line), Ok(read) if read > 0);
    // Any other answer isn't a yes.
    answered && matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")
}

fn has_piped_input() -> bool {
    let about = nix::sys::stat::fstat(io::stdin());
    about.is_ok_and(|about| {
        let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
        kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK
    })
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(percent),
        Ok(_) | Err(_) => Err("choose a share between 0 and 50 percent".into()),
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    Bytes::parse(text).ok_or_else(|| "write a size with its unit, such as 24GiB".into())
}

fn replacement(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        Some(_) | None => Err("write NAME=VALUE, such as output_dir=/tmp/fit".into()),
    }
}
