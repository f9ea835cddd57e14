//! `oomph fit`: the largest batch that fits, in at most three short runs of the real program.
//!
//! A session like any other, whose runs are chosen by a search instead of a person: each is stopped
//! after so many optimizer steps. The program's output goes to standard error; standard output
//! holds the answer.

mod answer;
mod search;
mod shown;

pub use answer::say;
pub use search::{Answer, Next, Search, Trial};
pub use shown::Shown;

use super::{Ending, OWN_FAILURE, RunOptions, front};
use crate::command::CommandLine;
use crate::forecast::{Allocator, Observation};
use crate::recognize::{LaunchEnvironment, Reading};
use crate::remedy::{Setting, Which, places_written, with_argument};
use crate::supervise;
use crate::units::{Bytes, RunNumber};
use anyhow::Context;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// How the program is run.
    pub run: RunOptions,
    /// Optimizer steps of each run, more while memory still grows.
    pub steps: u64,
    /// The share of its need that is left free.
    pub margin: f64,
    /// Which argument is fitted.
    pub which: Which,
    /// Arguments that are replaced for these runs alone, as name and value.
    pub replaced: Vec<(String, String)>,
    /// JSON instead of words.
    pub json: bool,
    /// Do not ask before the first run.
    pub yes: bool,
}

/// A search that is under way.
#[derive(Debug, Clone)]
pub struct Fitting {
    /// What is asked.
    pub options: FitOptions,
    /// The argument, in the command as it was typed.
    pub setting: Setting,
    /// The argument, in the command as it is tried.
    tried: Setting,
    /// The command as it is tried.
    command: CommandLine,
    /// The search.
    pub search: Search,
    /// The value of the run that goes on.
    pub value: u64,
    /// What that run has shown so far.
    pub shown: Shown,
    /// The run whose steps were all seen and that was told to stop.
    pub stopped: Option<RunNumber>,
    /// The room that the run had, once it was seen.
    pub room: Option<Bytes>,
    /// What was found, in the end.
    pub answer: Option<Answer>,
    /// Where the answer goes.
    pub standard_output: Option<Arc<OwnedFd>>,
    /// Why the search was given up.
    pub given_up: Option<String>,
    /// The smallest value with which an earlier session of this command ran out of memory.
    pub failed_before: Option<u64>,
}

impl Fitting {
    fn new(options: FitOptions) -> Result<Fitting, String> {
        let typed = &options.run.command;
        let setting = Setting::find(typed, &options.which)?;
        let command = options
            .replaced
            .iter()
            .fold(typed.clone(), |command, (name, value)| {
                with_argument(&command, name, value)
            });
        let tried = Setting::find(&command, &options.which)?;
        let mut fitting = Fitting {
            search: Search {
                start: setting.value,
                margin: options.margin,
                rounds: options.which == Which::Batch,
                room: None,
                allocator: Allocator::Fixed,
                keeps_gradients: Reading::of(typed, &LaunchEnvironment::default())
                    .keeps_gradients(),
                trials: Vec::new(),
            },
            value: setting.value,
            shown: Shown::default(),
            stopped: None,
            room: None,
            answer: None,
            given_up: None,
            failed_before: None,
            standard_output: None,
            options,
            setting,
            tried,
            command,
        };
        if let Next::Run(value) = fitting.search.next() {
            fitting.value = value;
        }
        Ok(fitting)
    }

    /// Looks for earlier sessions of the user's command that ran out of memory.
    fn look_back(&mut self) {
        if self.options.which != Which::Batch {
            return;
        }
        let command = self.options.run.command.without_secrets();
        let at_once = Reading::of(&command, &LaunchEnvironment::default()).at_once;
        let seen = super::earlier::read(&command, "");
        // Whatever ran out says what was left then.
        let failed = seen.iter().filter(|seen| seen.left_over.is_some());
        let value = |seen: &Observation| seen.batch.saturating_mul(self.setting.value);
        let values = failed.map(|seen| value(seen) / at_once.max(1));
        self.failed_before = values.min();
    }

    /// The command that is tried with a value.
    pub fn trial(&self, value: u64) -> CommandLine {
        self.tried.to(&self.command, value)
    }

    /// The user's own command with a value.
    pub fn fitted(&self, value: u64) -> CommandLine {
        self.setting.to(&self.options.run.command, value)
    }
}

/// Finds the largest value that fits and prints it.
///
/// # Errors
/// What kept oomph itself from starting the command.
pub fn fit(options: FitOptions) -> anyhow::Result<Ending> {
    let path = std::env::var_os("PATH");
    if let Err(missing) = supervise::resolve(&options.run.command, path.as_deref()) {
        eprintln!("oomph: {missing}");
        return Ok(Ending::Code(missing.status()));
    }
    let mut fitting = match Fitting::new(options) {
        Ok(fitting) => fitting,
        Err(reason) => {
            eprintln!("oomph: fit: {reason}");
            return Ok(Ending::Code(OWN_FAILURE));
        }
    };
    fitting.look_back();
    if !warn(&fitting) {
        return Ok(Ending::Code(OWN_FAILURE));
    }
    // The program's standard output becomes our standard error before the keeper is started.
    let answer = nix::unistd::dup(io::stdout()).context("standard output cannot be kept")?;
    nix::unistd::dup2_stdout(io::stderr()).context("standard output cannot be turned")?;
    fitting.standard_output = Some(Arc::new(answer));
    let mut run = fitting.options.run.clone();
    run.headless = true;
    run.command = fitting.trial(fitting.value);
    front::run_to_end(run, Some(fitting))
}

/// Says what will happen before it does; asks where somebody is there to answer. Whether to go on.
fn warn(fitting: &Fitting) -> bool {
    let (options, mut text) = (&fitting.options, String::new());
    text.push_str(&format!(
        "oomph: fit really runs the program, at most {} times for {} optimizer steps each (up to {} while memory still grows), \
         from {} {}.\n",
        search::RUNS,
        options.steps,
        options.steps.saturating_mul(shown::AT_MOST),
        fitting.setting.name,
        fitting.value
    ));
    text.push_str("oomph: it may write files (checkpoints, logs) where it always does");
    let places = places_written(&fitting.command);
    if let Some((name, value)) = places.first() {
        text.push_str(&format!(", here {name} {value}"));
    }
    let name = places
        .first()
        .map_or("output_dir", |(name, _)| name.as_str());
    let name = name.trim_start_matches('-');
    text.push_str(&format!(
        "; --replace {name}=/tmp/fit points it elsewhere for these runs.\n"
    ));
    eprint!("{text}");
    if options.yes || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return true;
    }
    eprint!("oomph: Enter goes on, n or Ctrl-C leaves it: ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    let answered = matches!(io::stdin().lock().read_line(&mut line), Ok(read) if read > 0);
    // Whoever types a word of refusal, or any other, has not said yes.
    answered && matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")
}
