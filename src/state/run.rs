//! A run: a command, its processes, how it ended, the epochs that its output names, and what the program's lines say that
//! hold memory.

use crate::command::{Change, CommandLine};
use crate::event::{
    Consequence, Exit, GivenSize, HostMemory, Knobs, LineText, LoaderSettings, Numerics, Patch,
    PatchOutcome, Patched, Prediction, PredictionOutcome, PrintedLoss, SourceEdit, SourceLine,
    displayed,
};
use crate::state::{Indexed, OomIncident, RankState};
use crate::units::{Bytes, Moment, Pid, RunNumber};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// OOMs of several processes within this time are one failure. Ranks wait for each other in every
/// step, so that they fail within seconds.
const BURST: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
pub struct Run {
    pub number: RunNumber,
    pub command: CommandLine,
    /// The command for display; kept, since every frame has it.
    pub shown: String,
    /// Changes since the run before.
    pub changes: Vec<Change>,
    /// The remedies that made the changes, in words.
    pub remedies: Vec<String>,
    /// Of the direct child.
    pub pid: Pid,
    pub started: Moment,
    /// When and how it ended.
    pub ended: Option<(Moment, Exit)>,
    /// Its end is not in the recording, and is known to have come: see [`State::breaks_off`](crate::state::State::breaks_off).
    pub broke_off: bool,
    /// Why the step that ran out of memory could not be rehearsed.
    pub not_rehearsed: Option<String>,
    /// Processes of its tree that outlived it.
    pub survivors: Vec<Pid>,
    /// Processes that initialised CUDA, in order of their hello.
    pub ranks: Indexed<RankState>,
    /// Its OOMs in order; bounded: the first and the latest.
    pub ooms: Vec<OomIncident>,
    /// The number of OOMs, kept or not.
    pub oom_count: u64,
    /// What the output said to follow from a rank's failure; bounded.
    pub consequences: Vec<(Moment, Consequence)>,
    /// The last error in its output is none of memory, though an out-of-memory message is there too.
    pub has_another_error: bool,
    /// When the output said that the scheduler ends the allocation.
    pub allocation_ended: Option<Moment>,
    /// When its output last said that no space is left on a file system.
    pub no_space: Option<Moment>,
    pub epochs: Epochs,
    /// What the lines of the program say that hold memory.
    pub source: SourceTexts,
    /// When the user, or a signal, asked it to stop.
    pub stop_requested: Option<Moment>,
    /// When it had shown enough to `oomph fit`, which then ended it.
    pub measured: Option<Moment>,
    /// The predicted peak.
    pub predicted_peak: Option<Bytes>,
    /// Everything that was predicted of it, and what came of it once it has ended.
    pub prediction: Option<Prediction>,
    pub prediction_outcome: Option<PredictionOutcome>,
    /// What its remedies do to the training's numbers.
    pub numerics: Option<Numerics>,
    /// The losses that it has printed for its first steps.
    pub printed_losses: Vec<PrintedLoss>,
    /// What earlier runs of the session had come to.
    pub before: EarlierRuns,
    /// What its model was given first, in a run after the first.
    pub called: Option<Vec<GivenSize>>,
    /// The same as it was told last, with the least and the most of each size.
    pub inputs: Vec<GivenSize>,
    /// What it told of its numbers at its out-of-memory: another run of the session has others.
    pub knobs: Option<Box<Knobs>>,
    /// Whether its probe would tell that.
    pub tells_calls: bool,
    /// The most that counted against the limit of the host's memory.
    pub host_peak: Option<Bytes>,
    /// The most of it that its own processes had; `None` where that was not told apart.
    pub own_host_peak: Option<Bytes>,
    /// The reading of that, and when it was.
    pub host_at_peak: Option<Box<(Moment, HostMemory)>>,
    /// DataLoaders of processes that have not initialised CUDA.
    pub early_loaders: Vec<(Pid, Vec<LoaderSettings>)>,
}

/// How far any earlier run of a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum EarlierRuns {
    /// There was none, or none used a GPU.
    #[default]
    Nothing,
    /// Memory ran out before the first step.
    Tried,
    /// At least one optimizer step was made.
    Trained,
}

/// The state of the patches that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patching {
    /// No process has reported yet.
    Asked,
    /// At least one is active.
    Applied,
    /// None is active.
    Declined,
    /// It runs with a number of its own text changed.
    Edited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    Running,
    /// With exit code 0.
    Finished,
    /// With exit code 0, but without a step where an earlier run had made one, or had tried to.
    TrainedNothing,
    /// Ended by an OOM.
    OutOfMemory,
    /// Stopped on request.
    Stopped,
    /// Ended otherwise.
    Failed(Exit),
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunOutcome::Running => f.write_str("running"),
            RunOutcome::Finished => f.write_str("finished"),
            RunOutcome::TrainedNothing => f.write_str("trained nothing, exit 0"),
            RunOutcome::OutOfMemory => f.write_str("out of memory"),
            RunOutcome::Stopped => f.write_str("stopped"),
            RunOutcome::Failed(exit) => exit.fmt(f),
        }
    }
}

impl Run {
    /// The most that a process of it had reserved on a device, or asked for when memory ran out: a run that needs less has room
    /// where this much is free.
    pub fn most_wanted(&self) -> Option<Bytes> {
        let had = self.ranks.iter().map(|rank| rank.reserved_peak);
        let asked = self
            .ooms
            .iter()
            .filter_map(|oom| Some(oom.reserved()? + oom.requested()?));
        had.chain(asked).max().filter(|most| *most > Bytes::ZERO)
    }

    pub(super) fn new(number: RunNumber, command: CommandLine, started: Moment) -> Run {
        Run {
            number,
            shown: displayed(&command),
            command,
            started,
            ..Run::default()
        }
    }

    /// The largest `allocated` of any process.
    pub fn peak(&self) -> Option<Bytes> {
        self.ranks
            .iter()
            .map(|rank| rank.allocated_peak)
            .filter(|peak| *peak > Bytes::ZERO)
            .max()
    }

    /// `None` if its command asks for no patches.
    pub fn patching(&self) -> Option<Patching> {
        let is_edited = !SourceEdit::of(&self.command).is_empty();
        if Patch::of(&self.command).is_empty() {
            return is_edited.then(|| match self.unmade_edit() {
                Some(_) => Patching::Declined,
                None => Patching::Edited,
            });
        }
        let mut said = self.ranks.iter().flat_map(|rank| &rank.patches).peekable();
        if said.peek().is_none() {
            return Some(Patching::Asked);
        }
        Some(
            match said.any(|said| said.outcome == PatchOutcome::Applied) {
                true => Patching::Applied,
                false => Patching::Declined,
            },
        )
    }

    /// What a process says that trains without the changed text of the program.
    pub fn unmade_edit(&self) -> Option<&Patched> {
        let mut said = self.ranks.iter().flat_map(|rank| &rank.patches);
        said.find(|said| said.is_edit() && said.outcome == PatchOutcome::Declined)
    }

    /// The most optimizer steps of any process.
    pub fn steps(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.steps.count)
            .max()
            .unwrap_or(0)
    }

    /// Steps per second over the whole run, from its first step to its last, of the slowest rank: at its pace a distributed
    /// training runs.
    pub fn steps_per_second(&self) -> Option<f64> {
        let rates = self.ranks.iter().filter_map(|rank| rank.steps.mean_rate());
        rates.min_by(f64::total_cmp)
    }

    /// The latest step whose own figures are known, of the rank that is furthest.
    pub fn steps_read(&self) -> u64 {
        let read = self.ranks.iter().map(|rank| rank.steps.read);
        read.max().unwrap_or(0)
    }

    /// What it ran out of, in words: "memory".
    pub fn what_ran_out(&self) -> &'static str {
        self.oom().map_or("memory", OomIncident::what)
    }

    /// The decisive OOM: the first of several processes that fail together, the last of one that
    /// tried again and again. Where the command ended with success, only one that has ended its process;
    /// else one that can have ended it.
    pub fn oom(&self) -> Option<&OomIncident> {
        let exit = self.ended.map(|(_, exit)| exit);
        let is_uncaught = |oom: &&OomIncident| {
            !oom.caught
                && match exit {
                    None => true,
                    Some(exit) if exit.is_success() => self.is_end_of_process(oom),
                    Some(_) => self.doubt(oom).is_none(),
                }
        };
        let uncaught = || self.ooms.iter().rev().filter(is_uncaught);
        let end = uncaught().next()?.at;
        let mut burst = uncaught().filter(|oom| end.since(oom.at) <= BURST);
        // An OOM without figures after it is a consequence: a library without memory while the
        // exception is handled.
        let last = burst
            .clone()
            .find(|oom| oom.requested().is_some())
            .or(burst.next())?;
        let mut decisive = last;
        let mut seen = vec![last.who()];
        for earlier in burst.filter(|oom| oom.at <= last.at) {
            // It may be the same process trying again.
            if seen.contains(&earlier.who()) || seen.contains(&(None, None)) {
                continue;
            }
            seen.push(earlier.who());
            if earlier.who() != (None, None) {
                decisive = earlier;
            }
        }
        Some(decisive)
    }

    /// Processes with a connected probe.
    pub fn alive(&self) -> impl Iterator<Item = &RankState> {
        self.ranks.iter().filter(|rank| rank.disconnected.is_none())
    }

    /// Whether a process is known to belong to the run.
    pub fn owns(&self, pid: Pid) -> bool {
        self.pid == pid || self.survivors.contains(&pid) || self.rank_with(pid).is_some()
    }

    pub fn rank_with(&self, pid: Pid) -> Option<&RankState> {
        self.ranks.with(&pid)
    }

    /// The OOM that is explained: the decisive one, else the last that the program has survived.
    pub fn explained_oom(&self) -> Option<&OomIncident> {
        self.oom().or(self.ooms.last())
    }

    pub(super) fn rank_mut(&mut self, pid: Pid) -> Option<&mut RankState> {
        self.ranks.with_mut(&pid)
    }

    /// The process of an OOM.
    pub fn rank_of(&self, oom: &OomIncident) -> Option<&RankState> {
        match oom.pid {
            Some(pid) => self.rank_with(pid),
            None => self
                .ranks
                .iter()
                .find(|rank| rank.hello.rank.is_some() && rank.hello.rank == oom.rank),
        }
    }

    /// A process ended an optimizer step: it has survived its earlier OOMs.
    pub(super) fn survived(&mut self, pid: Pid, at: Moment) {
        for oom in &mut self.ooms {
            if oom.pid == Some(pid) && oom.at < at {
                oom.caught = true;
            }
        }
    }

    /// Drops what only the screen and the diagnosis of a recent run need. The command, the outcome,
    /// the peaks and everything that predictions use stay.
    pub(super) fn condense(&mut self) {
        self.knobs = None;
        // What a doubt rests on goes.
        let last = self.ooms.last();
        let last = last.filter(|oom| oom.caught || self.doubt(oom).is_none());
        let oom = self.oom().or(last).cloned();
        self.ooms = oom.into_iter().collect();
        self.consequences = Vec::new();
        self.epochs.condense();
        for rank in &mut self.ranks {
            rank.condense();
        }
    }

    /// When it was first asked to stop: by the user, a signal, or the scheduler that ends the allocation.
    pub fn stopped(&self) -> Option<Moment> {
        let asked = [self.stop_requested, self.allocation_ended];
        asked.into_iter().flatten().min()
    }

    fn stopped_before(&self, at: Moment) -> bool {
        self.stopped().is_some_and(|stopped| stopped < at)
    }

    /// How far it came, for the runs after it.
    pub(super) fn came_to(&self) -> EarlierRuns {
        match (self.steps(), self.ranks.is_empty()) {
            (1.., _) => EarlierRuns::Trained,
            (0, false) if self.oom_count > 0 => EarlierRuns::Tried,
            (0, _) => EarlierRuns::Nothing,
        }
    }

    /// Whether it did less than an earlier run, by the probe's word: without its input, say, a program
    /// may have nothing to do.
    fn lacks_training(&self) -> bool {
        if self.steps() > 0 || self.oom_count > 0 || self.epochs.latest().is_some() {
            return false;
        }
        match self.before {
            EarlierRuns::Nothing => false,
            EarlierRuns::Tried => {
                self.peak().is_none() || self.tells_calls && self.called.is_none()
            }
            EarlierRuns::Trained => true,
        }
    }

    /// Whether it ended as it was to, without an OOM: by itself, or because it had shown what was to be measured.
    pub fn went_well(&self) -> bool {
        let ended_well = match self.outcome() {
            RunOutcome::Finished => true,
            RunOutcome::Stopped | RunOutcome::Failed(_) => self.measured.is_some(),
            RunOutcome::Running | RunOutcome::TrainedNothing | RunOutcome::OutOfMemory => false,
        };
        ended_well && self.oom_count == 0
    }

    /// Whether it trained, to its end or until it was stopped, and did not run out of memory.
    pub fn trained_well(&self) -> bool {
        let ended_well = match self.outcome() {
            RunOutcome::Finished | RunOutcome::Stopped => true,
            RunOutcome::Failed(_) => self.measured.is_some(),
            RunOutcome::Running | RunOutcome::TrainedNothing | RunOutcome::OutOfMemory => false,
        };
        ended_well && self.oom_count == 0 && self.steps() > 0
    }

    pub fn outcome(&self) -> RunOutcome {
        match self.ended {
            None if self.broke_off => RunOutcome::OutOfMemory,
            None => RunOutcome::Running,
            Some((_, exit)) if exit.is_success() => match self.lacks_training() {
                true => RunOutcome::TrainedNothing,
                false => RunOutcome::Finished,
            },
            // Stopping a training after an OOM (its other ranks may hang for minutes) did not end
            // it.
            Some(_) if self.oom().is_some_and(|oom| !self.stopped_before(oom.at)) => {
                RunOutcome::OutOfMemory
            }
            Some(_) if self.stopped().is_some() => RunOutcome::Stopped,
            Some((_, exit)) => RunOutcome::Failed(exit),
        }
    }
}

/// Marks kept, more than a wide screen has columns; beyond that every second one is dropped.
const MOST: usize = 512;

/// The first mention of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochMark {
    pub at: Moment,
    /// Its number, as the program counts.
    pub number: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Epochs {
    marks: Vec<EpochMark>,
}

impl Epochs {
    /// Takes a mention.
    pub(super) fn told(&mut self, at: Moment, number: u64) {
        let place = self.marks.partition_point(|mark| mark.at <= at);
        // A later front may have read it again.
        if place > 0 && self.marks[place - 1].number == number {
            return;
        }
        self.marks.insert(place, EpochMark { at, number });
        if self.marks.len() > MOST {
            let last = self.marks.len() - 1;
            let mut place = 0..;
            (self.marks).retain(|_| place.next().is_some_and(|n| n % 2 == 0 || n == last));
        }
    }

    /// Keeps the first and the last.
    pub(super) fn condense(&mut self) {
        if let [first, .., last] = self.marks[..] {
            self.marks = vec![first, last];
        }
    }

    /// In order of time.
    pub fn marks(&self) -> &[EpochMark] {
        &self.marks
    }

    /// Every `step`th epoch, or the first known one after it.
    pub fn every(&self, step: u64) -> impl Iterator<Item = &EpochMark> {
        let step = step.max(1);
        let mut before = None;
        self.marks.iter().filter(move |mark| {
            let part = mark.number / step;
            match before.replace(part) {
                Some(before) => part != before,
                None => mark.number % step == 0,
            }
        })
    }

    /// The latest epoch.
    pub fn latest(&self) -> Option<u64> {
        self.marks.last().map(|mark| mark.number)
    }

    /// The epochs in a stretch of time; if marks were dropped there, all that it may have been.
    pub fn between(&self, from: Moment, to: Moment) -> Option<RangeInclusive<u64>> {
        let begun = self.marks.partition_point(|mark| mark.at <= from);
        let ended = self.marks.partition_point(|mark| mark.at < to).max(begun);
        let first = match begun {
            0 => self.marks[..ended].first()?,
            n => &self.marks[n - 1],
        };
        let last = self.marks[ended - 1];
        let next = self.marks.get(ended).map_or(0, |next| next.number);
        Some(first.number..=last.number.max(next.saturating_sub(1)))
    }
}

/// Lines kept of a run.
pub const MOST_TEXTS: usize = 256;

/// The texts of one run's lines.
#[derive(Debug, Clone, Default)]
pub struct SourceTexts(Vec<LineText>);

impl SourceTexts {
    pub(crate) fn keep(&mut self, texts: &[LineText]) {
        let room = MOST_TEXTS.saturating_sub(self.0.len());
        self.0.extend(texts.iter().take(room).cloned());
    }

    /// The text of a line, if it could be read.
    pub fn of(&self, line: &SourceLine) -> Option<&str> {
        Some(&self.text_of(line)?.text)
    }

    /// The text of a line with its place, if it could be read.
    pub fn text_of(&self, line: &SourceLine) -> Option<&LineText> {
        self.0.iter().find(|text| text.is_of(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Moment {
        Moment(n * 1_000_000)
    }

    fn told(marks: &[(u64, u64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for (at, number) in marks {
            epochs.told(secs(*at), *number);
        }
        epochs
    }

    #[test]
    fn a_repetition_is_no_epoch() {
        let epochs = told(&[(10, 1), (20, 2), (25, 2), (30, 1)]);
        let numbers: Vec<u64> = epochs.marks().iter().map(|mark| mark.number).collect();
        assert_eq!(numbers, [1, 2, 1]);
        assert_eq!(epochs.latest(), Some(1));
    }

    #[test]
    fn a_stretch_of_time_has_its_epochs() {
        let epochs = told(&[(10, 1), (20, 2), (30, 3), (40, 7)]);
        for (from, to, expected) in [
            (0, 9, None),
            (0, 11, Some(1..=1)),
            (10, 11, Some(1..=1)),
            (12, 19, Some(1..=1)),
            (12, 21, Some(1..=2)),
            (12, 99, Some(1..=7)),
            // One of those that were forgotten, and nobody knows which.
            (33, 34, Some(3..=6)),
            (50, 60, Some(7..=7)),
        ] {
            assert_eq!(
                epochs.between(secs(from), secs(to)),
                expected,
                "{from}..{to}"
            );
        }
        assert_eq!(Epochs::default().between(secs(0), secs(9)), None);
    }

    #[test]
    fn of_many_the_round_numbers_are_picked() {
        let every = |numbers: &[u64], step| -> Vec<u64> {
            let marks: Vec<(u64, u64)> = (1..).zip(numbers.iter().copied()).collect();
            let epochs = told(&marks);
            epochs.every(step).map(|mark| mark.number).collect()
        };
        assert_eq!(every(&[0, 1, 2, 3, 4], 1), [0, 1, 2, 3, 4]);
        assert_eq!(every(&[0, 1, 2, 3, 4], 2), [0, 2, 4]);
        assert_eq!(every(&[1, 3, 5, 7, 9, 11, 13], 5), [5, 11]);
        assert_eq!(every(&[1, 2, 3], 0), [1, 2, 3]);
    }

    #[test]
    fn the_list_is_bounded_and_keeps_both_ends() {
        let marks: Vec<(u64, u64)> = (1..10_000).map(|n| (n, n)).collect();
        let epochs = told(&marks);
        assert!(epochs.marks().len() <= MOST);
        assert!(epochs.marks().len() > MOST / 4);
        assert_eq!(epochs.marks()[0].number, 1);
        assert_eq!(epochs.latest(), Some(9_999));
        let at = epochs.between(secs(5_000), secs(5_001)).unwrap();
        assert!(at.contains(&5_000), "{at:?}");
    }

    #[test]
    fn a_line_has_its_text_and_there_is_a_bound() {
        let text = |line: u32| LineText {
            file: "/w/model.py".into(),
            line,
            text: format!("x = layer_{line}(x)"),
        };
        let line = |file: &str, line| SourceLine {
            file: file.into(),
            line,
            function: String::new(),
        };
        let mut texts = SourceTexts::default();
        let all: Vec<LineText> = (1..=2 * MOST_TEXTS as u32).map(text).collect();
        texts.keep(&all);
        assert_eq!(texts.of(&line("/w/model.py", 3)), Some("x = layer_3(x)"));
        assert_eq!(texts.of(&line("/w/other.py", 3)), None);
        let most = MOST_TEXTS as u32;
        assert!(texts.of(&line("/w/model.py", most)).is_some());
        assert_eq!(texts.of(&line("/w/model.py", most + 1)), None);
    }
}
