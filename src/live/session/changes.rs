//! The run that was chosen to be next, and what came of it: whether the remedies of a run took effect, and whether its program rejected them. A rejected edit
//! is taken back; the dialog then offers to continue without it.

use crate::command::{CommandLine, Word};
use crate::event::{
    Exit, GivenChange, Hello, Knobs, LoaderSettings, Prediction, SourceEdit, crc32,
};
use crate::live::StartAgain;
use crate::live::session::undone::UndoneChanges;
use crate::recognize::{KnobEffect, KnobPlace};
use crate::remedy::{self, Ended, FileCopy, Leftover, Remedy, RemedyId, UndoneRemedy, WhyUndone};
use crate::state::{Run, RunOutcome};
use crate::units::{Moment, Pid, RunNumber, Uuid};
use crate::whole_file::{self, Readers};
use std::collections::BTreeSet;
use std::time::Duration;

/// More of a run's output than a traceback and a usage text.
const KEPT: usize = 16 << 10;

/// A program that fails within this, and before a step, failed by what was typed: a word that it does not know, a file that is not there.
const AT_ONCE: Duration = Duration::from_secs(120);

/// Columns of what a program said last.
const LAST_WORDS: usize = 200;

/// The next run, and what must happen before.
#[derive(Debug, Clone)]
pub(crate) struct NextRun {
    pub command: CommandLine,
    pub author: CommandAuthor,
    /// Its remedies, in words.
    pub remedies: Vec<String>,
    pub prediction: Option<Prediction>,
    pub applied: Vec<Remedy>,
    /// Edited copies of files, to be written first.
    pub files: Vec<FileCopy>,
    /// Processes that must have left the device.
    pub awaited: Vec<Pid>,
    /// Those that were sent SIGTERM, and are killed after this instant.
    pub ending: Option<(Vec<Leftover>, Moment)>,
}

/// Who made the words of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CommandAuthor {
    /// It is the command before, or what remedies make of it.
    #[default]
    Oomph,
    /// A person has typed in the editor.
    Person,
}

impl NextRun {
    pub(crate) fn plain(command: CommandLine, remedies: Vec<String>) -> NextRun {
        NextRun {
            command,
            author: CommandAuthor::Oomph,
            remedies,
            prediction: None,
            applied: Vec::new(),
            files: Vec::new(),
            awaited: Vec::new(),
            ending: None,
        }
    }
}

/// Writes the edited copies of files, and looks whether the sources whose numbers are changed are still those that were
/// read.
pub(crate) fn write_copies(files: &[FileCopy], edits: &[SourceEdit]) -> Result<(), String> {
    for edit in edits {
        let file = &edit.file;
        match std::fs::read(file) {
            Ok(bytes) if crc32(&bytes) == edit.crc => {}
            Ok(_) => {
                return Err(format!(
                    "{file} has changed since it ran, so line {} is not edited; not relaunched",
                    edit.line
                ));
            }
            Err(error) => return Err(format!("cannot read {file} ({error}); not relaunched")),
        }
    }
    for copy in files {
        let written = whole_file::replace(&copy.path, Readers::Owner, copy.text.as_bytes());
        written.map_err(|error| {
            let path = copy.path.display();
            format!("cannot write the edited copy {path} ({error}); not relaunched")
        })?;
    }
    Ok(())
}

/// The remedies of this session's runs.
#[derive(Default)]
pub(crate) struct Changes {
    applied: Option<AppliedRemedies>,
    /// Who made the current run's command.
    author: CommandAuthor,
    /// Those that the first run was started with, of a recorded command. Nothing of them is taken back here: the session has
    /// no run without them.
    started_with: Option<AppliedRemedies>,
    /// The DataLoaders of the recorded run.
    loaders_then: Vec<LoaderSettings>,
    /// The end of the current run's output, with the program's error message.
    tail: OutputTail,
    rejected: Vec<UndoneRemedy>,
    /// What was undone of the latest run; `None` once another run has started.
    undone: Option<UndoneRemedy>,
    /// What was chosen besides the edit that the latest run rejected; `None` once another run has started.
    others: Option<ChosenBeside>,
    /// Why the current run is ended: what was changed is not in force.
    without_effect: Option<String>,
    /// The number whose change had no effect in the current run, where its model's sizes have shown that.
    ineffective: Option<KnobPlace>,
    is_batch_judged: bool,
}

/// What was chosen besides an edit that was rejected.
enum ChosenBeside {
    Here(Vec<Remedy>),
    /// By a front before this one: their edits are found among what is offered now.
    Earlier(Vec<RemedyId>),
}

impl ChosenBeside {
    fn ids(&self) -> Vec<RemedyId> {
        match self {
            ChosenBeside::Here(remedies) => remedies.iter().map(|remedy| remedy.id).collect(),
            ChosenBeside::Earlier(ids) => ids.clone(),
        }
    }

    /// The remedies themselves; `None` where one of them is not offered any more.
    fn among(&self, offered: &[Remedy]) -> Option<Vec<Remedy>> {
        match self {
            ChosenBeside::Here(remedies) => Some(remedies.clone()),
            ChosenBeside::Earlier(ids) => {
                let find = |id: &RemedyId| {
                    let is_it = |remedy: &&Remedy| remedy.id == *id && remedy.is_offered();
                    offered.iter().find(is_it).cloned()
                };
                ids.iter().map(find).collect()
            }
        }
    }
}

/// What became of the change that made a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ChangeFate {
    #[default]
    Kept,
    /// The program, or a process of it, did not take it.
    Rejected,
    /// It took it, and trained as before: another number sets the batch.
    WithoutEffect,
    /// What was typed failed at once: the editor opens again, with the reason.
    FailedAtOnce,
}

/// What the first sizes of a run say of its changed batch.
pub(crate) struct BatchVerdict {
    /// Why the run is ended, if the change had no effect.
    pub ended: Option<String>,
    /// What was learned of the number that was changed.
    pub learned: Option<(KnobPlace, KnobEffect)>,
}

/// The remedies that made the current run.
struct AppliedRemedies {
    before: RunBefore,
    remedies: Vec<Remedy>,
    is_verified: bool,
    /// What its DataLoaders have shown of them.
    told: Vec<Result<String, String>>,
}

impl AppliedRemedies {
    /// What made the run go on from a checkpoint, if a remedy did.
    fn resumes(&self) -> Option<&Remedy> {
        self.remedies
            .iter()
            .find(|remedy| remedy.id == RemedyId::Resume)
    }

    /// Whether the run goes on from a checkpoint, by a remedy or by a word of its own that says so.
    fn is_resumed(&self) -> bool {
        let says = |word: &Word| word.to_string_lossy().to_lowercase().contains("resume");
        self.resumes().is_some() || self.before.command.argv.iter().any(says)
    }
}

/// The run that a remedy changes.
#[derive(Debug)]
pub(crate) struct RunBefore {
    pub command: CommandLine,
    /// The device that ran out of memory.
    pub failed: Option<Uuid>,
    /// What its model was given. The next run may tell of its own before it is judged by these.
    pub knobs: Option<Knobs>,
}

/// What the program did not take.
pub(crate) struct TakenBack {
    /// The command before the change.
    pub command: CommandLine,
    /// What was undone, and why.
    pub words: String,
    pub fate: ChangeFate,
}

impl Changes {
    /// The remedies without those that the program has rejected, and with the option to continue without
    /// them.
    pub(crate) fn without_rejected(&self, remedies: Vec<Remedy>) -> Vec<Remedy> {
        let others = self.others.as_ref();
        let others = others.and_then(|others| others.among(&remedies));
        remedy::without_rejected(remedies, &self.rejected, others.as_deref())
    }

    /// What was undone of the latest run.
    pub(crate) fn undone(&self) -> Option<&UndoneRemedy> {
        self.undone.as_ref()
    }

    /// For the front that comes next.
    pub(crate) fn undone_changes(&self, ineffective: &BTreeSet<RunNumber>) -> UndoneChanges {
        UndoneChanges {
            rejected: self.rejected.clone(),
            latest: self.undone.clone(),
            others: self.others.as_ref().map(ChosenBeside::ids),
            ineffective: ineffective.clone(),
        }
    }

    /// Goes on from what the front before has undone.
    pub(crate) fn resume(&mut self, undone: &UndoneChanges) {
        self.rejected.clone_from(&undone.rejected);
        self.undone.clone_from(&undone.latest);
        self.others = undone.others.clone().map(ChosenBeside::Earlier);
    }

    /// What became of the latest run's change, where a front before this one has undone it.
    pub(crate) fn fate_told(&self) -> ChangeFate {
        match (&self.undone, &self.others) {
            (None, _) => ChangeFate::Kept,
            (Some(_), Some(_)) => ChangeFate::Rejected,
            (Some(_), None) => ChangeFate::WithoutEffect,
        }
    }

    /// For a session's first run, which may be that of a recorded command.
    pub(crate) fn at_start(again: Option<&StartAgain>) -> Changes {
        let applied = again.filter(|again| !again.applied.is_empty());
        Changes {
            loaders_then: again.map_or_else(Vec::new, |again| again.loaders.clone()),
            started_with: applied.map(|again| AppliedRemedies {
                before: RunBefore {
                    command: CommandLine::default(),
                    failed: again.failed.clone(),
                    knobs: None,
                },
                remedies: again.applied.clone(),
                is_verified: false,
                told: Vec::new(),
            }),
            ..Changes::default()
        }
    }

    /// The DataLoaders of the run that was recorded, for the first run of this session.
    pub(crate) fn loaders_then(&self) -> &[LoaderSettings] {
        &self.loaders_then
    }

    /// For the next run: keeps its remedies until it ends.
    pub(crate) fn begin_run(
        &mut self,
        remedies: Vec<Remedy>,
        author: CommandAuthor,
        before: RunBefore,
    ) {
        self.author = author;
        self.applied = (!remedies.is_empty()).then(|| AppliedRemedies {
            before,
            remedies,
            is_verified: false,
            told: Vec::new(),
        });
        self.started_with = None;
        self.others = None;
        self.undone = None;
        self.without_effect = None;
        self.ineffective = None;
        self.is_batch_judged = false;
        self.tail.clear();
    }

    /// Whether remedies made the current run.
    pub(crate) fn is_of_a_remedy(&self) -> bool {
        self.applied.is_some()
    }

    /// Keeps output, if the command was changed.
    pub(crate) fn heard(&mut self, bytes: &[u8]) {
        if self.applied.is_some() || self.author == CommandAuthor::Person {
            self.tail.feed(bytes);
        }
    }

    /// Checks in the first process of `run` that has connected whether the changes are in effect; what is
    /// not, in words.
    pub(crate) fn not_in_force(&mut self, run: RunNumber, hello: &Hello) -> Vec<String> {
        let Some(applied) = self.applied.as_mut().or(self.started_with.as_mut()) else {
            return Vec::new();
        };
        if hello.run != run || std::mem::replace(&mut applied.is_verified, true) {
            return Vec::new();
        }
        remedy::not_in_force(&applied.remedies, hello, applied.before.failed.as_ref())
    }

    /// What the DataLoaders of a relaunched run show of its remedies; each is told once.
    pub(crate) fn in_loaders(
        &mut self,
        before: &[LoaderSettings],
        now: &[LoaderSettings],
    ) -> Vec<Result<String, String>> {
        let Some(applied) = self.applied.as_mut().or(self.started_with.as_mut()) else {
            return Vec::new();
        };
        let mut found = remedy::in_loaders(&applied.remedies, before, now);
        found.retain(|words| !applied.told.contains(words));
        applied.told.extend(found.iter().cloned());
        found
    }

    /// Whether the current run was made by a remedy of this kind.
    pub(crate) fn has_applied(&self, is_of: impl Fn(RemedyId) -> bool) -> bool {
        let applied = self.applied.as_ref();
        applied.is_some_and(|applied| applied.remedies.iter().any(|remedy| is_of(remedy.id)))
    }

    /// What shows whether a changed batch is in force: the sizes that the model is given, or a process that trains
    /// without the changed text. Told once.
    pub(crate) fn judge_batch(&mut self, run: &Run) -> Option<BatchVerdict> {
        let applied = self.applied.as_ref()?;
        let before = applied.before.knobs.as_ref();
        let (remedy, takes) = applied
            .remedies
            .iter()
            .find_map(|remedy| Some((remedy, remedy.takes?)))?;
        if self.without_effect.is_some() {
            return None;
        }
        let sizes = run.called.as_ref().filter(|given| !given.is_empty());
        let change = before
            .zip(sizes)
            .map_or(GivenChange::Unclear, |(before, sizes)| {
                before.changed_to(sizes, takes.from, takes.at_once)
            });
        let learned = |effect| remedy.set_by.clone().map(|place| (place, effect));
        let (why, learned) = match (run.unmade_edit(), change, before) {
            // That the edit was not made says nothing of the number.
            (Some(said), _, _) => (said.words.clone(), None),
            // What a checkpoint restores says nothing of the number: an earlier Trainer's has the batch in it.
            (None, GivenChange::None, Some(before)) if applied.is_resumed() => (
                format!(
                    "the run goes on from a checkpoint, which has restored the old batch: the model is still given {}",
                    before.shapes()
                ),
                None,
            ),
            (None, GivenChange::None, Some(before)) => (
                format!("the model is still given {}", before.shapes()),
                learned(KnobEffect::Nothing),
            ),
            (None, GivenChange::Taken, _) if !self.is_batch_judged => {
                self.is_batch_judged = true;
                let learned = learned(KnobEffect::Took);
                return Some(BatchVerdict {
                    ended: None,
                    learned,
                });
            }
            (None, _, _) => return None,
        };
        let words = format!("{} had no effect: {why}", remedy.changes);
        self.without_effect = Some(words.clone());
        self.ineffective = learned.as_ref().map(|(place, _)| place.clone());
        Some(BatchVerdict {
            ended: Some(words),
            learned,
        })
    }

    /// Takes back what the run that has just ended rejected, or what had no effect in it.
    pub(crate) fn take_back(&mut self, run: Option<&Run>, exit: Exit) -> Option<TakenBack> {
        let applied = self.applied.take()?;
        if let Some(words) = self.without_effect.take() {
            let is_batch = |remedy: &&Remedy| remedy.takes.is_some();
            // From its beginning the run would have the new batch.
            let resumes = applied
                .resumes()
                .filter(|_| run.is_some_and(|run| run.unmade_edit().is_none()));
            let is_next_offered = self.ineffective.take().is_some();
            let resumes = resumes.filter(|_| !is_next_offered);
            let remedy = resumes.or(applied.remedies.iter().find(is_batch))?;
            let undone = UndoneRemedy {
                id: remedy.id,
                title: remedy.title.clone(),
                why: WhyUndone::WithoutEffect(words),
            };
            let taken = |fate| TakenBack {
                command: applied.before.command.clone(),
                words: undone.words(),
                fate,
            };
            self.undone = Some(undone.clone());
            // The next number that may be the batch is offered in its place.
            if is_next_offered {
                return Some(taken(ChangeFate::WithoutEffect));
            }
            let taken = taken(ChangeFate::Rejected);
            let others = applied.remedies.into_iter().filter(|r| r.id != undone.id);
            self.others = Some(ChosenBeside::Here(others.collect()));
            self.rejected.push(undone);
            return Some(taken);
        }
        let run = run.filter(|run| matches!(run.outcome(), RunOutcome::Failed(_)))?;
        let ended = run.ended.map_or(run.started, |(at, _)| at);
        let rejected = remedy::rejected(
            &applied.remedies,
            &Ended {
                output: &self.tail.text(),
                exit,
                lasted: ended.since(run.started),
                steps: run.steps(),
            },
        )?;
        let others = applied.remedies.into_iter();
        let others = others.filter(|remedy| remedy.id != rejected.id);
        self.others = Some(ChosenBeside::Here(others.collect()));
        self.undone = Some(rejected.clone());
        let words = rejected.words();
        self.rejected.push(rejected);
        Some(TakenBack {
            command: applied.before.command,
            words,
            fate: ChangeFate::Rejected,
        })
    }

    /// What came of a command that a person typed and that failed before its first step: what it said last, to be read beside the
    /// command.
    pub(crate) fn failed_at_once(&self, run: Option<&Run>) -> Option<String> {
        let run = run.filter(|run| self.author == CommandAuthor::Person && run.steps() == 0)?;
        let (ended, exit) = run.ended?;
        let lasted = ended.since(run.started);
        if !matches!(run.outcome(), RunOutcome::Failed(_)) || lasted > AT_ONCE {
            return None;
        }
        let said = last_line(&self.tail.text());
        let said = said.map_or(String::new(), |said| format!(": {said}"));
        Some(format!(
            "run {} ended with {exit} after {:.1} s{said}",
            run.number,
            lasted.as_secs_f64()
        ))
    }
}

/// The last line that says something.
fn last_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LAST_WORDS).collect())
}

/// The end of a run's output. Bounded; escapes are removed on reading.
#[derive(Debug, Default)]
struct OutputTail {
    bytes: Vec<u8>,
}

impl OutputTail {
    fn feed(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let over = (self.bytes.len() + bytes.len()).saturating_sub(KEPT);
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// For another run.
    fn clear(&mut self) {
        self.bytes.clear();
    }

    /// As lines of text: carriage returns end lines, escapes are removed.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut plain = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\u{1b}' => match chars.next() {
                    // A control sequence ends at its final byte, a string at its terminator.
                    Some('[') => {
                        for c in chars.by_ref() {
                            if ('\u{40}'..='\u{7e}').contains(&c) {
                                break;
                            }
                        }
                    }
                    Some(']') => {
                        while let Some(c) = chars.next() {
                            if c == '\u{7}' || c == '\u{1b}' && chars.next_if_eq(&'\\').is_some() {
                                break;
                            }
                        }
                    }
                    Some(_) | None => {}
                },
                '\r' => plain.push('\n'),
                c if c.is_control() && c != '\n' => {}
                c => plain.push(c),
            }
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_reads_as_text() {
        let mut tail = OutputTail::default();
        tail.feed(b"\x1b[1;31merror:\x1b[0m one\r50%\x1b]0;title\x07 two\xff\n");
        assert_eq!(tail.text(), "error: one\n50% two\u{fffd}\n");
        tail.feed(&vec![b'x'; 3 * KEPT]);
        tail.feed(b"end");
        assert_eq!(tail.bytes.len(), KEPT);
        assert!(tail.text().ends_with("xend"));
        tail.clear();
        assert_eq!(tail.text(), "");
    }
}
