//! `oomph fit`: the largest batch that fits, in at most three short runs of the real program.
//!
//! A session whose runs are chosen by a search instead of a person; each is stopped after some optimizer
//! steps. The program's output goes to standard error, the answer to standard output.

use super::refuse_session;
use super::run::configure;
use crate::command::CommandLine;
use crate::config;
use crate::live::FitOptions;
use crate::live::policy::fit::{AT_MOST, Fit, search};
use crate::live::policy::measure::MeasurePatches;
use crate::live::print;
use crate::live::session::changes::write_copies;
use crate::live::session::earlier;
use crate::live::session::inputs::SessionInputs;
use crate::live::{self, Ending, OWN_FAILURE, SessionConfig};
use crate::recognize::LaunchEnvironment;
use crate::remedy::{Which, places_written, with_argument};
use crate::supervise;
use anyhow::Context;
use nix::sys::stat::SFlag;
use std::fs::DirBuilder;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Finds the largest value that fits and prints it.
///
/// # Errors
/// What kept oomph itself from starting the command.
pub(super) fn run(fit: FitOptions, command: CommandLine) -> anyhow::Result<Ending> {
    refuse_session("fit", &command)?;
    let asked = SessionConfig {
        headless: true,
        nvml: !fit.no_nvml,
        record: fit.record.clone(),
        ..SessionConfig::default()
    };
    let mut config = configure(asked, command)?;
    let path = std::env::var_os("PATH");
    if let Err(missing) = supervise::resolve(&config.command, path.as_deref()) {
        print::complain(&missing.to_string());
        return Ok(Ending::Code(missing.status()));
    }
    if let Some(lack) = supervise::lacking() {
        print::complain(&format!("fit: {lack}; nothing was run"));
        return Ok(Ending::Code(OWN_FAILURE));
    }
    if !fit.patch.is_empty() {
        return measure(&fit, config);
    }
    let (mut known, _) = SessionInputs::at_start(&config::read(&config.command.cwd));
    known.look(&config.command, None);
    known.read_text(&config.command);
    let mut copies = TrialCopies::new();
    let launch = LaunchEnvironment {
        copies: Some((&copies.path.clone(), 1)),
        ..known.launch()
    };
    let mut fit = match Fit::new(fit, config.command.clone(), &launch) {
        Ok(fit) => fit,
        Err(reason) => {
            print::complain(&format!("fit: {reason}"));
            return Ok(Ending::Code(OWN_FAILURE));
        }
    };
    if fit.options.which() == Which::Batch {
        let command = config.command.without_secrets();
        fit.look_back(&earlier::ends(&command));
    }
    if !warn(&fit) {
        return Ok(Ending::Code(OWN_FAILURE));
    }
    fit.standard_output = Some(take_standard_output()?);
    config.command = fit.trial();
    if fit.uses_copies() {
        let made = copies.make();
        let written = made.and_then(|()| write_copies(&fit.trial_files(), &[]));
        written.map_err(|why| anyhow::anyhow!("fit: {why}"))?;
    }
    live::run_to_end(config, Some(Box::new(fit)))
}

/// The program's standard output becomes our standard error, before the keeper is started; the answer goes to the one it was.
fn take_standard_output() -> anyhow::Result<OwnedFd> {
    let answer = nix::unistd::dup(io::stdout()).context("cannot duplicate standard output")?;
    nix::unistd::dup2_stdout(io::stderr()).context("cannot redirect standard output")?;
    Ok(answer)
}

/// Runs the command as it is, and with each patch.
fn measure(options: &FitOptions, mut config: SessionConfig) -> anyhow::Result<Ending> {
    let replaced = options.replace.iter();
    config.command = replaced.fold(config.command.clone(), |command, (name, value)| {
        with_argument(&command, name, value)
    });
    let with: Vec<String> = options
        .patch
        .iter()
        .map(|patch| format!("with {patch}"))
        .collect();
    let text = format!(
        "oomph: fit really runs the program, {} times for {} optimizer steps each (up to {} while memory still grows): as it is, {}.\n",
        options.patch.len() + 1,
        options.steps,
        options.steps.saturating_mul(AT_MOST),
        with.join(", "),
    );
    if !may_run(options, &config.command, text) {
        return Ok(Ending::Code(OWN_FAILURE));
    }
    let answer = take_standard_output()?;
    let policy = MeasurePatches::new(
        config.command.clone(),
        &options.patch,
        options.steps,
        options.json,
        answer,
    );
    live::run_to_end(config, Some(Box::new(policy)))
}

/// The directory for edited copies of config files, which is removed at the end.
struct TrialCopies {
    path: PathBuf,
    is_made: bool,
}

impl TrialCopies {
    fn new() -> TrialCopies {
        let name = format!("oomph-fit-{}", std::process::id());
        TrialCopies {
            path: std::env::temp_dir().join(name),
            is_made: false,
        }
    }

    /// Makes it, for this user alone. One that is there already is somebody else's.
    fn make(&mut self) -> Result<(), String> {
        let made = DirBuilder::new().mode(0o700).create(&self.path);
        self.is_made = made.is_ok();
        made.map_err(|error| format!("cannot make {} ({error})", self.path.display()))
    }
}

impl Drop for TrialCopies {
    fn drop(&mut self) {
        if self.is_made {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Says what the search will do. Whether to continue.
fn warn(fit: &Fit) -> bool {
    let (options, mut text) = (&fit.options, String::new());
    let (from, least) = (fit.from(), fit.least_steps());
    text.push_str(&format!(
        "oomph: fit really runs the program, at most {} times for {least} optimizer steps each (up to {} while memory still grows), \
         beginning with {from}.\n",
        search::RUNS,
        options.steps.saturating_mul(AT_MOST).max(least),
    ));
    let bounds = [fit.finished_before(), fit.failed_before()];
    let look = match &bounds {
        [Some(_), Some(_)] => "what lies between is looked for",
        [Some(_), None] => "more is looked for",
        [None, _] => "less is looked for",
    };
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    if !bounds.is_empty() {
        text.push_str(&format!("oomph: {}; {look}.\n", bounds.join("; ")));
    }
    may_run(options, &fit.trial(), text)
}

/// Prints what will happen, and where the program may write; asks for confirmation on a terminal. Whether to continue.
fn may_run(options: &FitOptions, trial: &CommandLine, mut text: String) -> bool {
    text.push_str("oomph: it may write files (checkpoints, logs) to its usual places");
    let places = places_written(trial);
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
