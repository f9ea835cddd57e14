//! The runs of `oomph fit`: each is stopped once it has shown enough, and the search chooses the next.

mod answer;
mod look_back;
pub(crate) mod search;
mod seen_inputs;

use super::{FollowUp, OnStep, Policy, RunSummary};
use crate::calibration::NON_TORCH_USUAL;
use crate::command::CommandLine;
use crate::diagnosis::{self, Cause};
use crate::event::{Exit, GivenChange, GivenSize, Knobs, Patch};
use crate::forecast::{Allocator, Observation, Rehearsed};
use crate::live::Ending;
use crate::live::policy::fit::seen_inputs::SeenInputs;
use crate::live::session::changes::NextRun;
use crate::probe::RehearsedStep;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::remedy::{FileCopy, Setting, Which, with_argument};
use crate::state::{Run, RunOutcome, State};
use crate::units::{Bytes, RunNumber, Uuid};
use search::{SearchAnswer, SearchStep, SizeSearch, Trial};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What `oomph fit` was asked to do.
#[derive(Debug, Clone, PartialEq, clap::Args)]
#[command(
    override_usage = "oomph fit [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]",
    after_help = "The program really runs, each time until N optimizer steps were seen, and may write files as it always \
                  does. Its output goes to stderr, the answer to stdout.\nExit status: 0 if a value was found, 1 if none fits."
)]
pub struct FitOptions {
    /// Optimizer steps of each run; up to four times as many while memory still grows
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    pub steps: u64,
    /// Memory to leave free, in percent of what the run needs
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    pub margin: f64,
    /// Fit another integer argument than the batch: seq_len
    #[arg(long, value_name = "NAME")]
    pub arg: Option<String>,
    /// Replace an argument in these runs only: output_dir=/tmp/fit
    #[arg(long, value_name = "NAME=VALUE", value_parser = replacement)]
    pub replace: Vec<(String, String)>,
    /// Measure these patches at runtime in place of a batch, a run each beside the command as it is: budget=50,budget=25,dynamic=on
    #[arg(long, value_name = "PATCHES", value_delimiter = ',', value_parser = patch, conflicts_with_all = ["arg", "room"])]
    pub patch: Vec<Patch>,
    /// Answer for GPUs with this much memory, from one run on this one: 24GiB,40GiB,80GiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub room: Vec<Bytes>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Do not ask before the first run
    #[arg(long, short)]
    pub yes: bool,
    /// Run without NVML
    #[arg(long)]
    pub no_nvml: bool,
    /// Record the session to this file
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,
}

impl FitOptions {
    /// The argument that is fitted.
    pub(crate) fn which(&self) -> Which {
        self.arg.clone().map_or(Which::Batch, Which::Named)
    }

    /// The share of its need that is left free.
    fn margin(&self) -> f64 {
        self.margin / 100.0
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(percent),
        Ok(_) | Err(_) => Err("choose a share between 0 and 50 percent".into()),
    }
}

fn patch(text: &str) -> Result<Patch, String> {
    let names = "write them as OOMPH_PATCHES has them, such as budget=50 or dynamic=on";
    Patch::parse(text.trim()).ok_or_else(|| names.into())
}

fn size(text: &str) -> Result<Bytes, String> {
    Bytes::parse_size(text).ok_or_else(|| "write a size with its unit, such as 24GiB".into())
}

fn replacement(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        Some(_) | None => Err("write NAME=VALUE, such as output_dir=/tmp/fit".into()),
    }
}

pub(crate) struct Fit {
    pub options: FitOptions,
    /// The user's command.
    typed: CommandLine,
    /// What is fitted, in the typed command.
    setting: Setting,
    /// The same in the tried command.
    tried: Setting,
    /// What may be meant, in the typed and in the tried command, until the first run has told which it is. That run's
    /// command is not changed.
    rivals: Vec<(Setting, Setting)>,
    /// The tried command.
    command: CommandLine,
    search: SizeSearch,
    /// The current run's value.
    value: u64,
    /// What the model was given first, with the value of that run.
    given: Option<(u64, Vec<GivenSize>)>,
    /// Whether the words or the text alone leave no doubt of what is fitted.
    is_sure: bool,
    /// Whether a run has shown that it sets the batch.
    is_confirmed: bool,
    /// What that run has shown so far.
    shown: RunShown,
    /// The run that has shown enough and is being stopped.
    stopped: Option<RunNumber>,
    /// What the run's process may reserve in total, once known.
    room: Option<Bytes>,
    answer: Option<SearchAnswer>,
    pub standard_output: Option<OwnedFd>,
    given_up: Option<GivenUp>,
    /// The run that ended the search without saying anything about its value.
    unanswered: Option<Unanswered>,
    /// The smallest value that ran out of memory in an earlier session of this command.
    failed_before: Option<FailedBefore>,
    /// By how much what is allocated between steps grows with each, here or in an earlier session.
    grows_by: Option<Bytes>,
    /// The smallest value that ran out while what was free lay in pieces that were too small, here or in an earlier session.
    fragmented: Option<u64>,
}

/// A value that ran out of memory in an earlier session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FailedBefore {
    value: u64,
    /// The step that failed, counted from 1.
    step: u64,
    /// What there was then.
    room: Option<Bytes>,
}

/// No run is made longer than this to get past a step that failed.
const FARTHEST: u64 = 200;

/// Why the search ended before it was done.
enum GivenUp {
    /// Somebody stopped it.
    Stopped,
    Because(String),
}

/// A run that is no answer: its program refused the value, or did nothing with the GPU.
struct Unanswered {
    value: u64,
    exit: Exit,
}

impl Fit {
    /// `launch` has what the program's own text and its config files say, where they were read.
    pub(crate) fn new(
        options: FitOptions,
        typed: CommandLine,
        launch: &LaunchEnvironment<'_>,
    ) -> Result<Fit, String> {
        let which = options.which();
        let settings = Setting::find_all(&typed, &which, launch)?;
        let command = options
            .replace
            .iter()
            .fold(typed.clone(), |command, (name, value)| {
                with_argument(&command, name, value)
            });
        let tried = Setting::find_all(&command, &which, launch)?;
        let is_sure = settings.is_sure;
        let mut rivals: Vec<(Setting, Setting)> = settings.all.into_iter().zip(tried.all).collect();
        let (setting, tried) = rivals.first().cloned().ok_or("nothing to fit was found")?;
        if rivals.len() == 1 {
            rivals.clear();
        }
        let search = SizeSearch {
            start: setting.value,
            margin: options.margin(),
            rounds: which == Which::Batch,
            room: None,
            bound: None,
            foreseen: None,
            allocator: Allocator::Fixed,
            keeps_gradients: WorkloadKey::new(&typed, &LaunchEnvironment::default())
                .keeps_gradients(),
            trials: Vec::new(),
        };
        Ok(Fit {
            value: match search.next() {
                SearchStep::Run(value) if rivals.is_empty() => value,
                SearchStep::Run(_) | SearchStep::Done(_) => setting.value,
            },
            search,
            shown: RunShown::default(),
            stopped: None,
            room: None,
            answer: None,
            given: None,
            is_sure,
            is_confirmed: which != Which::Batch,
            given_up: None,
            unanswered: None,
            failed_before: None,
            grows_by: None,
            fragmented: None,
            standard_output: None,
            options,
            typed,
            setting,
            tried,
            rivals,
            command,
        })
    }

    /// Which of several numbers is the batch, by the sizes that the first run's model was given. The error names those that
    /// remain.
    fn settle(&mut self, run: &Run) -> Result<(), String> {
        let rivals = std::mem::take(&mut self.rivals);
        if rivals.is_empty() {
            return Ok(());
        }
        let given = run.called.as_deref().unwrap_or_default();
        let sizes = given
            .iter()
            .flat_map(|one| one.shape.iter().take(2).copied().chain(one.length));
        let sizes: Vec<u64> = sizes.collect();
        let is_given = |(setting, _): &&(Setting, Setting)| sizes.contains(&setting.value);
        let found: Vec<&(Setting, Setting)> = rivals.iter().filter(is_given).collect();
        match found.as_slice() {
            [(setting, tried)] => {
                (self.setting, self.tried) = (setting.clone(), tried.clone());
                (self.value, self.search.start) = (setting.value, setting.value);
                self.is_confirmed = true;
                Ok(())
            }
            others => {
                let left = if others.is_empty() {
                    rivals.iter().collect()
                } else {
                    others.to_vec()
                };
                let names: Vec<String> = left
                    .iter()
                    .map(|(setting, _)| format!("{} {}", setting.name, setting.value))
                    .collect();
                Err(format!(
                    "the first run does not tell {} apart; name one with --arg",
                    names.join(" and ")
                ))
            }
        }
    }

    /// Whether the sizes that the model was given agree with what is fitted. Where they do not, what the text only guessed is
    /// not searched for, and what is spelled like a batch must have changed them from the first run to the second.
    fn confirm(&mut self, run: &Run) -> Result<(), String> {
        let Some(called) = run.called.as_ref().filter(|given| !given.is_empty()) else {
            return Ok(());
        };
        if self.is_confirmed || agrees(self.value, called) {
            self.is_confirmed = true;
            return Ok(());
        }
        let (name, value) = (&self.setting.name, self.value);
        let shapes = |given: &[GivenSize]| {
            let told = Knobs {
                given: given.to_vec(),
                ..Knobs::default()
            };
            told.shapes()
        };
        if !self.is_sure {
            return Err(format!(
                "{name} {value} is all that the program's text has, and it is not the batch: the model was given {}; name what sets it with --arg",
                shapes(called)
            ));
        }
        let Some((first, given)) = self.given.as_ref().filter(|(first, _)| *first != value) else {
            return Ok(());
        };
        // A change is read from the larger one to the smaller one.
        let (large, small, from, to) = match *first > value {
            true => (given, called, *first, value),
            false => (called, given, value, *first),
        };
        let told = Knobs {
            given: large.clone(),
            ..Knobs::default()
        };
        match told.changed_to(small, from, to) {
            GivenChange::Taken => {
                self.is_confirmed = true;
                Ok(())
            }
            GivenChange::None | GivenChange::Unclear => Err(format!(
                "{name} does not show in what the model was given: {} with {first}, {} with {value}; name what sets the batch with --arg",
                shapes(given),
                shapes(called)
            )),
        }
    }

    /// Whether the batch had no effect: the model was given the same with two values.
    fn had_no_effect(&mut self, run: &Run) -> Option<String> {
        let called = run.called.as_ref().filter(|given| !given.is_empty())?;
        let Some((value, given)) = &self.given else {
            self.given = Some((self.value, called.clone()));
            return None;
        };
        let is_batch = self.options.which() == Which::Batch;
        (is_batch && *value != self.value && given == called).then(|| {
            format!(
                "{} {} has no effect: the model was given the same as with {value}; name what sets the batch with --arg",
                self.setting.name, self.value
            )
        })
    }

    /// What is fitted, for display before anything ran.
    pub(crate) fn from(&self) -> String {
        match self.rivals.as_slice() {
            [] => format!("{} {}", self.setting.name, self.value),
            several => {
                let names: Vec<&str> = several.iter().map(|(one, _)| one.name.as_str()).collect();
                format!(
                    "the unchanged command, which tells which of {} is the batch",
                    names.join(", ")
                )
            }
        }
    }

    /// How many steps each run makes at the least: past the one that failed earlier, as far as that is near.
    pub(crate) fn least_steps(&self) -> u64 {
        let failed = self.failed_before.map_or(0, |failed| failed.step);
        match failed < FARTHEST {
            true => self.options.steps.max(failed + 1),
            false => self.options.steps,
        }
    }

    /// The command to try next.
    pub(crate) fn trial(&self) -> CommandLine {
        if !self.rivals.is_empty() {
            return self.command.clone();
        }
        self.tried.to(&self.command, self.value)
    }

    /// Whether a trial may need an edited copy of a config file.
    pub(crate) fn uses_copies(&self) -> bool {
        let rivals = self.rivals.iter().map(|(_, tried)| tried);
        let mut all = rivals.chain([&self.tried]);
        all.any(|tried| tried.config_line().is_some())
    }

    /// The copies of files that it reads.
    pub(crate) fn trial_files(&self) -> Vec<FileCopy> {
        match self.rivals.is_empty() {
            true => self.tried.files(self.value),
            false => Vec::new(),
        }
    }

    /// The user's command with a value; as it is where that stands in a file of theirs, which is theirs to change.
    fn fitted(&self, value: u64) -> CommandLine {
        match self.setting.config_line() {
            Some(_) => self.typed.clone(),
            None => self.setting.to(&self.typed, value),
        }
    }

    /// The largest value for each requested GPU, by the rehearsal of the run here; `None` without one.
    fn rooms(&self) -> Option<Vec<(Bytes, Option<u64>)>> {
        let rooms = self.options.room.iter();
        rooms
            .map(|room| Some((*room, self.search.on(*room - NON_TORCH_USUAL)?)))
            .collect()
    }

    fn give_up(&mut self, why: impl Into<String>) -> FollowUp {
        self.given_up = Some(GivenUp::Because(why.into()));
        FollowUp::Leave(None)
    }

    /// Ends the search with a run that says nothing about its value.
    fn no_answer(&mut self, run: &RunSummary<'_>, how: &str) -> FollowUp {
        self.unanswered = Some(Unanswered {
            value: self.value,
            exit: run.exit,
        });
        let (number, name, value) = (run.run.number, &self.setting.name, self.value);
        self.give_up(format!(
            "run {number} ({name} {value}) {how}; see its output above"
        ))
    }

    fn learn(&mut self, run: &RunSummary<'_>, fits: bool) {
        let ranks = &run.run.ranks;
        if let Some(room) = run.run.oom().and_then(|oom| oom.room()) {
            self.room = Some(room);
        }
        // It ended before the first sample.
        let devices = ranks.iter().flat_map(|rank| &rank.hello.devices);
        let whole = devices.map(|device| device.total - NON_TORCH_USUAL).min();
        let own = ranks.iter().map(|rank| rank.reserved_peak);
        let before = self.search.trials.iter().filter(|trial| trial.fits);
        let reserved = own.chain(before.filter_map(|trial| trial.reserved)).max();
        let room = self.room.or(self.search.room).or(whole);
        // What was reserved was there.
        self.search.room = room.max(reserved.filter(|_| room.is_some()));
        self.forget_what_had_other_room();
        let is_expandable = ranks
            .iter()
            .any(|rank| rank.hello.expandable_segments == Some(true));
        self.search.allocator = match is_expandable {
            true => Allocator::Expandable,
            false => Allocator::Fixed,
        };
        let is_fragmented =
            (run.findings.first()).is_some_and(|first| first.cause == Cause::Fragmentation);
        if is_fragmented && !fits {
            let least = self.fragmented.unwrap_or(u64::MAX);
            self.fragmented = Some(least.min(self.value));
        }
        self.grows_by = self.grows_by.max(diagnosis::grows_by(run.run));
        let value = self.value;
        self.search.trials.push(Trial {
            ended: run.run.outcome() == RunOutcome::Finished,
            // Of several ranks what the fullest needs counts.
            rehearsed: (ranks.iter().filter(|rank| rank.rehearsal.is_some()))
                .max_by_key(|rank| rank.reserved_peak)
                .and_then(|rank| rank.rehearsal.as_ref())
                .filter(|_| self.options.which() == Which::Batch)
                .and_then(|said| Rehearsed::new(said, value)),
            ..trial_of(run.run, &run.inputs.launch, value, fits)
        });
        self.search.margin = self.options.margin() + self.inputs_beyond();
    }

    /// The share by which later inputs may be larger than the largest that were seen. A run that ended by itself has seen them all.
    fn inputs_beyond(&self) -> f64 {
        let with_inputs = self.search.trials.iter();
        let seen: Vec<(&Trial, &SeenInputs)> = with_inputs
            .filter_map(|trial| Some((trial, trial.inputs.as_ref()?)))
            .collect();
        let ended = self
            .search
            .trials
            .iter()
            .filter(|trial| trial.ended && trial.fits);
        let ended = ended.max_by_key(|trial| trial.value);
        let running = seen.iter().filter(|(trial, _)| !trial.ended);
        let beyond = running.map(|(trial, inputs)| match ended {
            Some(ended) => match (&ended.inputs, needs_as_much(trial, ended)) {
                (Some(all), _) => all.for_each(ended.value) / inputs.for_each(trial.value) - 1.0,
                (None, true) => 0.0,
                (None, false) => inputs.beyond(),
            },
            None => inputs.beyond(),
        });
        beyond.fold(0.0, f64::max)
    }
}

/// Whether a run needed as much for each sample as one whose inputs are not known: its own were as large.
fn needs_as_much(trial: &Trial, ended: &Trial) -> bool {
    let for_each = |trial: &Trial| Some(trial.peak?.0 as f64 / trial.value.max(1) as f64);
    let (own, other) = (for_each(trial), for_each(ended));
    own.zip(other)
        .is_some_and(|(own, other)| own >= other * AS_MUCH)
}

/// Of what the other one needed.
const AS_MUCH: f64 = 0.98;

/// What a run with this value showed.
fn trial_of(run: &Run, launch: &LaunchEnvironment<'_>, value: u64, fits: bool) -> Trial {
    Trial {
        value,
        seen: Observation::of_run(run, launch).map(|seen| Observation {
            batch: value,
            ..seen
        }),
        peak: run.peak(),
        reserved: run.ranks.iter().map(|rank| rank.reserved_peak).max(),
        fits,
        ended: fits,
        began: None,
        steps: run.steps(),
        inputs: SeenInputs::new(&run.inputs, value, run.steps()),
        rehearsed: None,
    }
}

impl Policy for Fit {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        let number = run.run.number;
        if run.run.stop_requested.is_some() {
            self.given_up = Some(GivenUp::Stopped);
            return FollowUp::Leave(None);
        }
        let fits = match run.run.outcome() {
            RunOutcome::Finished if run.run.is_hidden_failure() => false,
            RunOutcome::Finished | RunOutcome::TrainedNothing => true,
            RunOutcome::OutOfMemory => false,
            RunOutcome::Running | RunOutcome::Stopped | RunOutcome::Failed(_) => {
                if self.stopped != Some(number) {
                    return self.no_answer(run, &ended_too_soon(run.exit));
                }
                true
            }
        };
        let trained = run.run.steps() > 0 && run.run.peak().is_some();
        if fits && !trained {
            let how = format!(
                "ended with {} but without an optimizer step on a GPU that oomph saw, which is no proof that the value fits",
                run.exit
            );
            return self.no_answer(run, &how);
        }
        if let Err(why) = self.settle(run.run) {
            return self.give_up(why);
        }
        if let Err(why) = self.confirm(run.run) {
            return self.give_up(why);
        }
        if let Some(why) = self.had_no_effect(run.run) {
            return self.give_up(why);
        }
        // A batch that fits only beside the GPU is none that fits.
        let is_in_ram = run.run.ranks.iter().any(|rank| rank.spilled().is_some());
        self.learn(run, fits && !is_in_ram);
        if !self.options.room.is_empty() {
            return match self.rooms() {
                Some(_) => FollowUp::Leave(None),
                None => {
                    let why = why_not_told(run.run);
                    self.give_up(why)
                }
            };
        }
        let keeps_margin =
            (self.search.trials.last()).is_some_and(|trial| self.search.keeps_margin(trial));
        let verdict = match (fits, is_in_ram) {
            (true, true) => "does not fit: WSL2 has moved a part of it into RAM",
            (true, false) if keeps_margin => "fits",
            (true, false) => "ran, but leaves less than the margin",
            (false, _) => "runs out of memory",
        };
        let peak = (run.run.peak()).map_or(String::new(), |peak| format!(", peak {peak}"));
        let name = self.setting.name.clone();
        let said = format!("{name} {} {verdict}{peak}", self.value);
        match self.search.next() {
            SearchStep::Done(answer) => {
                self.answer = Some(answer);
                FollowUp::Leave(Some(said))
            }
            SearchStep::Run(value) => {
                self.value = value;
                self.shown = RunShown::default();
                let next = NextRun {
                    files: self.trial_files(),
                    ..NextRun::plain(self.trial(), vec![format!("fit: {name} {value}")])
                };
                FollowUp::Launch(Box::new(next), format!("{said}; next {name} {value}"))
            }
        }
    }

    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::Second
    }

    fn not_launched(&mut self, why: &str) -> FollowUp {
        self.give_up(why)
    }

    /// After the requested steps the run may have shown enough.
    fn on_step(&mut self, state: &State) -> OnStep {
        let Some(run) = state.run() else {
            return OnStep::Nothing;
        };
        let steps = run.steps();
        self.room = room_now(run, state).or(self.room);
        let past = self.least_steps();
        let is_enough =
            self.shown.by_now(run, past, self.options.steps) && !diagnosis::may_grow(run);
        if !is_enough || self.stopped == Some(run.number) {
            return OnStep::Nothing;
        }
        self.stopped = Some(run.number);
        OnStep::Stop(format!("{steps} steps seen; stopping run {}", run.number))
    }

    fn name(&self) -> Option<&'static str> {
        Some("fit")
    }

    fn expects_ooms(&self) -> bool {
        true
    }

    fn runs_again(&self) -> bool {
        true
    }

    fn result(&self) -> Option<String> {
        answer::recorded(self)
    }

    fn conclude(&self, ending: Ending) -> Option<Ending> {
        let status = answer::say(self);
        Some(match (&self.given_up, ending) {
            (Some(GivenUp::Stopped), _) => ending,
            (None, _) => Ending::Code(status),
            // We stopped the run: its status says nothing.
            (Some(GivenUp::Because(_)), _) if self.unanswered.is_none() => Ending::Code(status),
            // What did run is an answer.
            (Some(GivenUp::Because(_)), _) if status == 0 => Ending::Code(0),
            // No answer is no success, and a signal was for the program: with it a shell would say "Terminated" of oomph.
            (Some(GivenUp::Because(_)), Ending::Like(exit))
                if exit.is_success() || matches!(exit, Exit::Signal(_)) =>
            {
                Ending::Code(status)
            }
            (Some(GivenUp::Because(_)), ending) => ending,
        })
    }
}

/// Why other batches cannot be told from a run, on other GPUs.
fn why_not_told(run: &Run) -> &'static str {
    let is_rehearsed = run.ranks.iter().any(|rank| rank.rehearsal.is_some());
    let mut devices = run.ranks.iter().filter_map(|rank| rank.device.as_ref());
    match (is_rehearsed, devices.any(Uuid::is_simulated)) {
        (true, _) => "what it needs with another batch cannot be told from the step of this run",
        (false, true) => {
            "the step of this run could not be rehearsed: the simulated torch has no fake tensors"
        }
        (false, false) => {
            "the step of this run could not be rehearsed (that takes torch 2.4 or later, and a model that can be called on fake tensors)"
        }
    }
}

/// How a run ended that oomph did not stop, and that did not run out of memory.
fn ended_too_soon(exit: Exit) -> String {
    match exit {
        Exit::Signal(_) => {
            format!("was ended by {exit}, which oomph did not send, before its steps were seen")
        }
        Exit::Code(_) => {
            format!("ended by itself ({exit}) before its steps, for another reason than memory")
        }
    }
}

/// Views of a sample, or parts of one, above which a multiple is more likely chance.
const MOST_PARTS: u64 = 16;

/// Whether a batch agrees with what the model was given: it is a size, a total of several, or a part of the rows.
fn agrees(batch: u64, given: &[GivenSize]) -> bool {
    let mut rows = given
        .iter()
        .filter_map(|one| one.shape.first().copied().or(one.length));
    let mut second = given.iter().filter_map(|one| one.shape.get(1).copied());
    let is_rows = |rows: u64| {
        let is_total = rows > 1 && batch.is_multiple_of(rows);
        let is_part = batch > 1 && rows.is_multiple_of(batch) && rows / batch <= MOST_PARTS;
        rows == batch || is_total || is_part
    };
    rows.any(is_rows) || second.any(|size| size > 1 && size == batch)
}

/// What the run's largest process may reserve of its device in total.
fn room_now(run: &Run, state: &State) -> Option<Bytes> {
    let rank = run.ranks.iter().max_by_key(|rank| rank.reserved_peak)?;
    let device = state.device(rank.device.as_ref()?)?;
    let headroom = device.headroom(state)?;
    let reserved = rank.sample.as_ref().map(|(_, sample)| sample.reserved)?;
    let room = reserved + headroom.bytes;
    Some(if headroom.is_upper_bound {
        room - NON_TORCH_USUAL
    } else {
        room
    })
}

/// More than this is a new maximum.
const NEW: f64 = 1.01;

/// At most this many times the requested steps.
pub(crate) const AT_MOST: u64 = 4;

/// When a run has shown enough.
///
/// If all steps are alike, memory doesn't grow after the second step, and the requested steps are enough.
/// If lengths vary, a later step may need more, and the allocator needs even more for blocks of varying
/// sizes: then a run continues until it has made as many steps without a new maximum as before it,
/// within limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RunShown {
    most: Bytes,
    step: u64,
}

impl RunShown {
    /// Takes what the run has reserved by now; whether it has shown enough, of which at least so many steps with their figures: a
    /// step that was only counted shows nothing of what it needed.
    pub fn by_now(&mut self, run: &Run, read: u64, asked: u64) -> bool {
        let reserved = run.ranks.iter().map(|rank| rank.reserved_peak).max();
        self.take(run.steps(), reserved.unwrap_or(Bytes::ZERO));
        run.steps_read() >= read && self.is_enough(run.steps(), asked)
    }

    /// The largest reserved memory so far, and after how many steps.
    pub fn take(&mut self, step: u64, held: Bytes) {
        if held > self.most.scale(NEW) {
            *self = RunShown { most: held, step };
        }
    }

    /// Whether that is enough for this many requested steps.
    pub fn is_enough(&self, step: u64, asked: u64) -> bool {
        let quiet = step >= self.step * 2;
        step >= asked && quiet || step >= asked.saturating_mul(AT_MOST)
    }
}

#[cfg(test)]
mod tests;
