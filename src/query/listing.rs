//! The sessions as rows: those that are running, on this machine and as far as their files tell on others, and those that
//! have ended, as their recordings tell them. `oomph ls` and the server of MCP show them.

use super::sessions::{self, Living};
use super::{broken_off, recordings};
use crate::diagnosis;
use crate::event::{Note, NoteSubject, Prediction, PredictionOutcome, displayed};
use crate::forecast::score::Score;
use crate::live::print;
use crate::live::session::summary::{Activity, Summary};
use crate::recording::{self, BaseDirs, FoundSession, Life, RemoteSession};
use crate::report;
use crate::state::{Run, RunOutcome, State};
use crate::supervise::{RunStage, SessionStatus};
use crate::units::{Moment, RunNumber, clock_face};
use jiff::Timestamp;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One session, as a program reads it.
#[derive(Debug, Default, Serialize)]
pub struct SessionRow {
    pub id: String,
    /// `starting`, `running`, `stopping`, `waiting at OOM`, `ended, held open`, `relaunching`, `ending`, `not answering`;
    /// of one that has ended the outcome of its last run: `finished`, `out of memory`, `stopped`, `measured` (by `oomph fit`),
    /// `exit 1`, `SIGKILL`, `not started`, or `interrupted` if the recording doesn't have its end;
    /// of one elsewhere also `silent`, if it was not heard for some time.
    pub state: String,
    /// Whether somebody sees its screen.
    pub attached: bool,
    /// RFC 3339.
    pub since: Option<String>,
    /// Where it runs and when it was heard, in words, if that is not here.
    #[serde(skip)]
    pub elsewhere: Option<String>,
    /// The state directory of another environment of this user, where it is none of this one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_directory: Option<String>,
    /// Why its recording could not be read.
    #[serde(skip)]
    pub problem: Option<String>,
    /// How long its runs took, without the time in which somebody was asked between them.
    pub seconds: Option<f64>,
    /// How long somebody has been asked what to do, while it waits for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// Why memory ran out, if its last run ended with that: `memory leak`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// How far its batch could have gone, if its last run went well: `a batch of 48 would fit (32 ran)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// What is to be said of it beside its state, a line each: the cause as a sentence, and what helps.
    #[serde(skip)]
    pub told: Vec<String>,
    /// Whether a run before the last one ran out of memory, and what the last one ended with hides that.
    #[serde(skip)]
    pub ran_out_before: bool,
    pub run: Option<u32>,
    /// The training's direct child, while a run goes on.
    pub pid: Option<i32>,
    pub keeper: Option<i32>,
    pub devices: Vec<String>,
    /// Bytes.
    pub peak: Option<u64>,
    /// What counts against the limit of the host's memory, in bytes: as it is now, or of one that has ended at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<u64>,
    /// That limit: of a control group, or all RAM of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_limit: Option<u64>,
    pub steps: Option<u64>,
    /// The machine, if it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How many seconds ago a session that runs elsewhere was heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<f64>,
    /// The scheduler's job: `1234`, `1230_7`, with `-r2` after its second requeue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// OOMs of all runs; `None` for a running session.
    pub ooms: Option<u64>,
    /// What was predicted of its relaunches, and what came of it; for one that has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<PredictedRun>,
    /// Secrets masked.
    pub command: Option<String>,
    pub recording: Option<String>,
    pub log: Option<String>,
}

/// A relaunch that was predicted.
#[derive(Debug, Serialize)]
pub struct PredictedRun {
    pub run: u32,
    #[serde(flatten)]
    pub prediction: Prediction,
    pub came_of_it: PredictionOutcome,
    /// The peak's share above the predicted one: 0.01 is 1 % more.
    pub off: Option<f64>,
    /// Whether it was right about fitting.
    pub held: Option<bool>,
}

impl SessionRow {
    /// The state; if there were several runs, also which one it is about; why memory ran out, how far the batch could have gone, and
    /// how long it has waited.
    pub fn state_words(&self) -> String {
        let room = self.room.as_ref().filter(|_| self.cause.is_none());
        let room = room.map_or(String::new(), |room| format!(": {room}"));
        let place = self.elsewhere.as_deref().unwrap_or_default();
        format!("{}{room}{place}", self.brief_words())
    }

    /// The same without what is as long as a sentence.
    pub fn brief_words(&self) -> String {
        let run = match self.run {
            Some(run) if run > 1 => format!(", run {run}"),
            Some(_) | None => String::new(),
        };
        let cause = self.cause.as_ref();
        let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
        let waited = self.waiting.map_or(String::new(), |seconds| {
            let waited = Duration::from_secs_f64(seconds.max(0.0));
            format!(" for {}", clock_face(waited))
        });
        let before = match self.ran_out_before {
            true => "out of memory, then ",
            false => "",
        };
        let other = match self.state_directory {
            Some(_) => "elsewhere: ",
            None => "",
        };
        format!("{other}{before}{}{run}{waited}{cause}", self.state)
    }

    /// `NVIDIA H200`, `8 × NVIDIA H200`, `NVIDIA L4 + NVIDIA T4`.
    pub fn device_words(&self) -> Option<String> {
        let mut kinds: Vec<(&String, usize)> = Vec::new();
        for name in &self.devices {
            match kinds.iter_mut().find(|(kind, _)| *kind == name) {
                Some((_, count)) => *count += 1,
                None => kinds.push((name, 1)),
            }
        }
        let words: Vec<String> = (kinds.iter())
            .map(|(kind, count)| match count {
                1 => kind.to_string(),
                n => format!("{n} × {kind}"),
            })
            .collect();
        (!words.is_empty()).then(|| words.join(" + "))
    }
}

/// What [`SessionRow::state`] is while a person is asked.
pub const WAITING_AT_OOM: &str = Activity::Waiting.word();

/// The sessions that run or wait, on this machine and elsewhere, latest last.
pub fn current() -> Vec<SessionRow> {
    let mut rows: Vec<SessionRow> = sessions::living().iter().map(living_row).collect();
    let here: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    rows.extend(sessions::elsewhere(&here).iter().map(row_elsewhere));
    rows
}

/// So many of those that have ended, the latest first.
pub fn ended(current: &[SessionRow], most: usize) -> impl Iterator<Item = SessionRow> + use<> {
    ended_rows(current, most).map(|(row, _)| row)
}

/// The running sessions, latest last, and behind them so many of those that are over, the latest first; and how the
/// predictions of those came out.
pub fn rows(ended: usize) -> (Vec<SessionRow>, Vec<Score>) {
    let mut rows = current();
    let mut scores = Vec::new();
    for (row, of_session) in ended_rows(&rows, ended) {
        rows.push(row);
        scores.extend(of_session);
    }
    // As their recordings are found it is by when they were last written to.
    let running = rows.iter().take_while(|row| row.ooms.is_none()).count();
    rows[running..].sort_by(|one, other| other.since.cmp(&one.since));
    for row in &rows {
        if let Some(problem) = &row.problem {
            print::complain(problem);
        }
    }
    (rows, scores)
}

/// Whether a session runs on this machine.
pub fn is_living(id: &str) -> bool {
    let mut living = sessions::living().into_iter();
    living.any(|living| living.found.id == id)
}

/// The row of one session, by its name and recording.
pub fn row(id: &str, path: &Path) -> SessionRow {
    let living = sessions::living().into_iter();
    let mut living = living.filter(|living| living.found.id == id);
    match living.next() {
        Some(living) => living_row(&living),
        None => recorded_row(id, path).0,
    }
}

fn living_row(living: &Living) -> SessionRow {
    let file = living.found.file.as_ref();
    let summary = living.summary.as_ref();
    let run = (living.status.as_ref()).and_then(|status| status.run.as_ref());
    let ram = summary.and_then(|summary| summary.ram);
    // Its front has said nothing yet.
    let recording = file.and_then(|file| file.recording.as_ref());
    let header = recording.filter(|_| summary.is_none());
    let header = header.and_then(|path| recording::header(Path::new(&path.0)));
    let since =
        (summary.map(|summary| summary.since)).or(header.as_ref().map(|header| header.wall));
    let now = Timestamp::now().as_millisecond() as f64 / 1e3;
    let other_state = other_state(&living.found);
    SessionRow {
        id: living.found.id.clone(),
        state: state(living).into(),
        attached: living.status.as_ref().is_some_and(|status| status.front)
            && summary.is_some_and(|summary| summary.attached),
        since: since
            .and_then(|since| Timestamp::from_second(since as i64).ok())
            .map(|since| since.to_string()),
        seconds: summary.map(|summary| took(summary, now)),
        waiting: summary
            .and_then(|summary| summary.waiting_since)
            .map(|since| now - since),
        cause: summary.and_then(|summary| summary.cause.clone()),
        told: (summary.and_then(|summary| summary.told.clone()))
            .into_iter()
            .chain(other_state.as_ref().map(|directory| {
                format!("elsewhere: its files are in {directory}, not in this terminal's state directory")
            }))
            .collect(),
        run: run.map(|run| run.run.0),
        pid: run.and_then(|run| match run.stage {
            RunStage::Running { pid, .. } => Some(pid.0),
            RunStage::Starting | RunStage::Ended { .. } | RunStage::Failed { .. } => None,
        }),
        keeper: file.map(|file| file.keeper.0),
        devices: summary
            .map(|summary| summary.devices.clone())
            .unwrap_or_default(),
        peak: summary.and_then(|summary| summary.peak).map(|peak| peak.0),
        ram: ram.map(|(used, _)| used.0),
        ram_limit: ram.map(|(_, limit)| limit.0),
        steps: summary.map(|summary| summary.steps),
        job: (file.and_then(|file| file.job.as_ref())).map(ToString::to_string),
        state_directory: other_state,
        command: summary
            .map(|summary| summary.command.clone())
            .or(header.map(|header| displayed(&header.command))),
        recording: recording.map(|word| word.to_string_lossy()),
        log: file
            .and_then(|file| file.log.as_ref())
            .map(|word| word.to_string_lossy()),
        ..SessionRow::default()
    }
}

/// Where a session of another environment of this user keeps its files.
fn other_state(found: &FoundSession) -> Option<String> {
    let other = found.other_state_directory(&BaseDirs::of_this_user())?;
    Some(other.display().to_string())
}

/// What its runs have taken so far. A front of an earlier version says when the session began.
fn took(summary: &Summary, now: f64) -> f64 {
    match (summary.ran, summary.running_since) {
        (Some(ran), Some(since)) => ran + (now - since),
        (Some(ran), None) => ran,
        (None, _) => now - summary.since,
    }
}

/// The front knows best while it is there; without one the keeper knows whether anything runs.
fn state(living: &Living) -> &'static str {
    let Some(status) = &living.status else {
        return "not answering";
    };
    let said = living.summary.as_ref().map(|summary| summary.activity);
    match (status.front, said) {
        (_, Some(Activity::Running)) if status.stopping => "stopping",
        (true, Some(said)) => said.word(),
        (false, _) | (true, None) => without_front(status),
    }
}

fn without_front(status: &SessionStatus) -> &'static str {
    match status.run.as_ref().map(|run| &run.stage) {
        Some(RunStage::Running { .. }) if status.stopping => "stopping",
        Some(RunStage::Running { .. }) => "running",
        None | Some(RunStage::Starting) => "starting",
        Some(RunStage::Ended { .. } | RunStage::Failed { .. }) => "ending",
    }
}

/// A row for each recorded session that isn't among `living`, and how its predictions came out.
fn ended_rows(
    living: &[SessionRow],
    most: usize,
) -> impl Iterator<Item = (SessionRow, Vec<Score>)> + use<> {
    let mut ended = recordings::all();
    ended.retain(|session| living.iter().all(|row| row.id != session.id));
    let latest = ended.into_iter().take(most);
    latest.map(|session| recorded_row(&session.id, &session.path))
}

/// The recordings that are looked at for one that ran out.
const RECENT: usize = 50;

/// The recording that `name` means. Without a name, the latest in which memory ran out, which is what one asks about; where there
/// is none, the latest.
///
/// # Errors
/// There is none, or there are several; with what to do.
pub fn find_that_ran_out(name: Option<&OsStr>) -> anyhow::Result<PathBuf> {
    let found = latest(name, &[has_run_out]);
    found.map_or_else(|| recordings::find(name), Ok)
}

/// The recording that `name` means. Without a name, the latest whose last run ran out of memory, so that there is something to
/// remedy; then as [`find_that_ran_out`].
///
/// # Errors
/// There is none, or there are several; with what to do.
pub fn find_to_remedy(name: Option<&OsStr>) -> anyhow::Result<PathBuf> {
    let found = latest(name, &[ended_so, has_run_out]);
    found.map_or_else(|| recordings::find(name), Ok)
}

type IsMeant = fn(&State) -> bool;

fn has_run_out(state: &State) -> bool {
    state.runs.iter().any(|run| run.oom_count > 0)
}

fn ended_so(state: &State) -> bool {
    state.run().map(|run| run.outcome()) == Some(RunOutcome::OutOfMemory)
}

/// Where none is named: the latest that is meant in the first way, or else in the next.
fn latest(name: Option<&OsStr>, ways: &[IsMeant]) -> Option<PathBuf> {
    let recent = || recordings::all().into_iter().take(RECENT);
    let paths: Vec<PathBuf> = match name {
        Some(_) => Vec::new(),
        None => recent().map(|session| session.path).collect(),
    };
    first_meant(&paths, ways)
}

fn first_meant(paths: &[PathBuf], ways: &[IsMeant]) -> Option<PathBuf> {
    let mut in_ways = ways.iter().filter_map(|is_meant| {
        let mut paths = paths.iter();
        paths.find(|path| is_meant(&outlined(path).0))
    });
    in_ways.next().cloned()
}

/// A row for a session that runs elsewhere.
fn row_elsewhere(session: &RemoteSession) -> SessionRow {
    let recording = session.recording();
    // Where there is none, or it can't be read, there are no figures.
    let recorded = recording.filter(|path| recording::open_own(path).is_ok());
    let (state, problem) = recorded.as_deref().map(outlined).unwrap_or_default();
    let path = recorded.unwrap_or_default();
    let (row, _) = recorded_row_of(&session.id, &path, &state);
    SessionRow {
        state: match session.is_silent() {
            true => "silent".into(),
            false => activity(&state).word().into(),
        },
        elsewhere: Some(format!(
            " on {}, {}",
            match session.is_here {
                true => "this machine, out of reach".into(),
                false => print::line(session.file.host()),
            },
            sessions::heard_words(session)
        )),
        host: Some(session.file.host().to_string()),
        heard: Some(session.heard.as_secs_f64()),
        job: session.file.job.as_ref().map(ToString::to_string),
        keeper: Some(session.file.keeper.0),
        recording: session.recording().map(|path| path.display().to_string()),
        log: session.log().map(|path| path.display().to_string()),
        ooms: None,
        predictions: Vec::new(),
        problem,
        ..row
    }
}

fn activity(state: &State) -> Activity {
    match state.run().map(|run| run.outcome()) {
        None => Activity::Starting,
        Some(RunOutcome::Running) => Activity::Running,
        Some(RunOutcome::OutOfMemory) => Activity::Waiting,
        Some(
            RunOutcome::Finished
            | RunOutcome::TrainedNothing
            | RunOutcome::Stopped
            | RunOutcome::Failed(_),
        ) => Activity::Ending,
    }
}

/// What can't be read is listed without its figures: its files are there. Why it can't be, if so.
fn outlined(path: &Path) -> (State, Option<String>) {
    let mut state = State::default();
    let read = recording::outline(path, |event| state.apply(event));
    broken_off::settle(&mut state);
    let problem = read.err();
    (
        state,
        problem.map(|error| format!("cannot read {}: {error}", path.display())),
    )
}

/// A row for a recorded session, and how its predictions came out.
pub fn recorded_row(id: &str, path: &Path) -> (SessionRow, Vec<Score>) {
    let (state, problem) = outlined(path);
    let (row, scores) = recorded_row_of(id, path, &state);
    let cause = cause(path, &state);
    let row = match cause {
        Some(ListedCause { title, told }) => SessionRow {
            cause: Some(title),
            told,
            ..row
        },
        None => row,
    };
    let row = SessionRow { problem, ..row };
    match is_open(&state) && goes_on(id, path, &state) {
        true => (just_started(row, path, &state), Vec::new()),
        false => (row, scores),
    }
}

/// A session begins with its recording, and only then has a keeper and a first line: for so long an empty one is of a session
/// that is starting.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Whether the recording has no end.
fn is_open(state: &State) -> bool {
    match state.run() {
        None => state.spawn_failed.is_none(),
        Some(run) => run.outcome() == RunOutcome::Running,
    }
}

/// Whether a session that was not among those that run has begun meanwhile.
fn goes_on(id: &str, path: &Path, state: &State) -> bool {
    let mut sessions = recording::find(&BaseDirs::of_this_user()).into_iter();
    let found = sessions.find(|found| found.id == id);
    match found.map(|found| found.life) {
        Some(Life::Alive) => true,
        Some(Life::Dead) => false,
        Some(Life::Unknown) | None => {
            let age = began(path).and_then(|began| began.elapsed().ok());
            state.session.is_none() && age.is_some_and(|age| age < STARTS_WITHIN)
        }
    }
}

/// When an empty recording was made.
fn began(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn just_started(row: SessionRow, path: &Path, state: &State) -> SessionRow {
    let began = || Timestamp::try_from(began(path)?).ok();
    SessionRow {
        state: activity(state).word().into(),
        since: row.since.or_else(|| Some(began()?.to_string())),
        ooms: None,
        predictions: Vec::new(),
        ..row
    }
}

fn recorded_row_of(id: &str, path: &Path, state: &State) -> (SessionRow, Vec<Score>) {
    let run = state.run();
    let header = state.session.as_ref();
    let log = recording::log_beside(path);
    let scores: Vec<Score> = state.runs.iter().filter_map(Score::new).collect();
    let row = SessionRow {
        id: id.to_string(),
        state: outcome(state),
        since: header
            .and_then(|header| Timestamp::from_second(header.wall as i64).ok())
            .map(|since| since.to_string()),
        seconds: header.map(|_| state.runs_took().as_secs_f64()),
        room: room(state),
        run: run.map(|run| run.number.0),
        devices: devices(state),
        // One that ended before it had a peak shows nothing of the session.
        peak: (state.runs.iter().rev().find_map(|run| run.peak())).map(|peak| peak.0),
        told: report::summary(state).into_iter().collect(),
        ran_out_before: hidden_by_the_last(state).is_some(),
        ram: run.and_then(|run| run.host_peak).map(|peak| peak.0),
        ram_limit: (state.host.latest()).map(|(_, memory)| memory.limit.0),
        steps: run.map(|run| run.steps()),
        host: header.and_then(|header| header.host.clone()),
        job: header
            .and_then(|header| header.job.as_ref())
            .map(ToString::to_string),
        ooms: Some(state.runs.iter().map(|run| run.oom_count).sum()),
        predictions: scores.iter().cloned().map(predicted).collect(),
        command: run
            .map(|run| &run.command)
            .or(header.map(|header| &header.command))
            .map(displayed),
        recording: Some(path.display().to_string()),
        log: log.exists().then(|| log.display().to_string()),
        ..SessionRow::default()
    };
    (row, scores)
}

/// What was recorded of a larger batch when the last run had ended, or what `oomph fit` had found.
fn room(state: &State) -> Option<String> {
    if let Some(fitted) = state.fitted() {
        return Some(fitted.to_string());
    }
    let (ended, _) = state.run().filter(|run| run.went_well())?.ended?;
    let mut notes = state.notes.iter().rev();
    let is_of_end =
        |at: &Moment, note: &Note| *at >= ended && note.about == Some(NoteSubject::Room);
    let (_, note) = notes.find(|(at, note)| is_of_end(at, note))?;
    Some(note.text.clone())
}

/// The largest recording that is read as a whole for the cause of its end.
const READ_WHOLE: u64 = 8 << 20;

/// Why memory ran out.
struct ListedCause {
    title: String,
    /// As a sentence, and what is to be changed in the code.
    told: Vec<String>,
}

/// The run that ran out of memory where what came of it failed before a step: a slip in the command, a change that the program did
/// not take.
fn hidden_by_the_last(state: &State) -> Option<RunNumber> {
    let failed = |run: &&Run| matches!(run.outcome(), RunOutcome::Failed(_)) && run.steps() == 0;
    let hides = state.runs.iter().rev().take_while(failed).count();
    let before = state.runs.iter().rev().nth(hides).filter(|_| hides > 0)?;
    (before.outcome() == RunOutcome::OutOfMemory).then_some(before.number)
}

/// Why memory ran out, if the last run that trained ended with that. An outline has not all of what that rests on.
fn cause(path: &Path, outlined: &State) -> Option<ListedCause> {
    let run = outlined.run()?;
    let hidden = hidden_by_the_last(outlined);
    if run.outcome() != RunOutcome::OutOfMemory && hidden.is_none() {
        return None;
    }
    let file = match path.is_dir() {
        true => path.join(recording::RECORDING),
        false => path.to_owned(),
    };
    let is_small = std::fs::metadata(&file).is_ok_and(|file| file.len() <= READ_WHOLE);
    let mut state = State::default();
    for event in recording::read(&file).ok().filter(|_| is_small)? {
        state.apply(&event.ok()?);
    }
    broken_off::settle(&mut state);
    if let Some(hidden) = hidden {
        state.runs.retain(|run| run.number <= hidden);
    }
    let findings = diagnosis::diagnose(&state);
    let first = findings.first()?;
    let in_code = first.in_code().filter(|_| first.place.is_some());
    let told = [
        Some(first.headline.to_string()),
        in_code.map(|words| words.to_string()),
    ];
    Some(ListedCause {
        title: first.cause.spec().title.to_string(),
        told: told.into_iter().flatten().collect(),
    })
}

fn predicted(score: Score) -> PredictedRun {
    PredictedRun {
        run: score.run.0,
        prediction: score.prediction,
        came_of_it: score.outcome,
        off: score.off,
        held: score.held,
    }
}

fn outcome(state: &State) -> String {
    match state.run() {
        None if state.spawn_failed.is_some() => "not started".into(),
        Some(run) if run.outcome() != RunOutcome::Running => run.outcome_words(),
        // The end isn't in the recording: the machine went down, or the keeper was killed.
        None | Some(_) => "interrupted".into(),
    }
}

/// The names of the devices that the last run used.
fn devices(state: &State) -> Vec<String> {
    let ranks = state.run().map(|run| &run.ranks[..]);
    let used = |uuid| {
        let ranks = ranks.unwrap_or_default();
        ranks.iter().any(|rank| rank.device.as_ref() == Some(uuid))
    };
    (state.devices.iter())
        .filter(|device| used(&device.uuid))
        .map(|device| device.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind, Exit, Level};
    use crate::state::tests::staged;

    fn of(recording: &str) -> SessionRow {
        let path = format!(
            "{}/tests/replay/{recording}.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        recorded_row("x", Path::new(&path)).0
    }

    #[test]
    fn a_recording_says_how_its_session_went() {
        let capacity = of("capacity");
        assert_eq!(
            (capacity.state.as_str(), capacity.ooms),
            ("out of memory", Some(1))
        );
        assert_eq!(capacity.cause.as_deref(), Some("capacity"));
        assert_eq!(capacity.state_words(), "out of memory: capacity");
        assert_eq!(capacity.devices, ["NVIDIA H200"]);
        assert!(capacity.peak > Some(100 << 30), "{capacity:?}");
        let caught = of("caught");
        assert_eq!((caught.state.as_str(), caught.ooms), ("finished", Some(1)));
        assert_eq!(caught.cause, None, "it went on");
        let leak = of("leak");
        assert!(leak.steps >= Some(17));
        assert_eq!(leak.cause.as_deref(), Some("memory leak"));
    }

    #[test]
    fn what_is_started_again_is_the_latest_that_ended_out_of_memory() {
        let path = |name: &str| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            root.join(format!("tests/replay/{name}.jsonl"))
        };
        // The latest ran out and went on.
        let paths = ["vit", "caught", "capacity"].map(path);
        let first = |ways: &[IsMeant]| first_meant(&paths, ways);
        assert_eq!(first(&[has_run_out]), Some(path("caught")));
        assert_eq!(first(&[ended_so, has_run_out]), Some(path("capacity")));
        let went_on = &paths[..2];
        let first = first_meant(went_on, &[ended_so, has_run_out]);
        assert_eq!(first, Some(path("caught")));
        assert_eq!(first_meant(&paths[..1], &[ended_so, has_run_out]), None);
    }

    #[test]
    fn of_a_run_that_went_well_a_list_says_how_far_the_batch_could_have_gone() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/vit.jsonl");
        let mut text = std::fs::read_to_string(path).expect("a recording");
        let row = |text: &str| {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join(recording::RECORDING);
            std::fs::write(&path, text).expect("a file");
            recorded_row("x", &path).0.state_words()
        };
        assert_eq!(row(&text), "finished");
        let note = Event {
            at: Moment::from_secs_f64(60.0),
            what: EventKind::Note(Note {
                about: Some(NoteSubject::Room),
                ..Note::new(Level::Info, "a batch of 48 would fit (16 ran)")
            }),
        };
        text.push_str(&(serde_json::to_string(&note).expect("JSON") + "\n"));
        assert_eq!(row(&text), "finished: a batch of 48 would fit (16 ran)");
    }

    /// Waiting for a decision is none of the training's time.
    #[test]
    fn a_session_that_waits_says_how_long_it_trained_and_how_long_it_waits() {
        let mut state = State::default();
        let at = |seconds: f64, what: EventKind| Event {
            at: Moment::from_secs_f64(seconds),
            what,
        };
        let started = staged::started(1, 100, "python train.py");
        state.apply(&at(2.0, started));
        let summary = |state: &State, activity| Summary::new(state, &[], activity, true);
        state.now = Moment::from_secs_f64(10.0);
        let running = summary(&state, Activity::Running);
        assert_eq!(took(&running, 22.0), 20.0);
        state.apply(&at(32.0, staged::exited(1, Exit::Code(1))));
        let waits = summary(&state, Activity::Waiting);
        assert_eq!((took(&waits, 1e4), waits.waiting_since), (30.0, Some(32.0)));
        let row = SessionRow {
            state: WAITING_AT_OOM.into(),
            waiting: Some(150.0),
            cause: Some("memory leak".into()),
            ..SessionRow::default()
        };
        assert_eq!(row.state_words(), "waiting at OOM for 2:30: memory leak");
    }

    #[test]
    fn one_whose_recording_is_still_empty_is_starting_and_not_among_those_that_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(recording::RECORDING);
        let file = std::fs::File::create(&path).expect("a file");
        let (row, _) = recorded_row("x", &path);
        assert_eq!((row.state.as_str(), row.ooms), ("starting", None));
        assert!(row.since.is_some(), "{row:?}");
        let long_ago = SystemTime::now() - 2 * STARTS_WITHIN;
        file.set_modified(long_ago).expect("another time");
        let (row, _) = recorded_row("x", &path);
        assert_eq!((row.state.as_str(), row.ooms), ("interrupted", Some(0)));
    }

    #[test]
    fn one_that_cannot_be_read_is_listed_all_the_same() {
        let (row, _) = recorded_row("x", Path::new("/none"));
        assert_eq!((row.state.as_str(), row.peak), ("interrupted", None));
    }

    #[test]
    fn what_a_slip_after_an_oom_ended_with_does_not_hide_it() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/capacity.jsonl");
        let mut text = std::fs::read_to_string(path).expect("a recording");
        let whole = of("capacity");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(recording::RECORDING);
        for (seconds, what) in [
            (9_000.0, staged::started(2, 4_000_000, "python trian.py")),
            (9_000.3, staged::exited(2, Exit::Code(2))),
        ] {
            let at = Moment::from_secs_f64(seconds);
            text.push_str(&(serde_json::to_string(&Event { at, what }).expect("JSON") + "\n"));
        }
        std::fs::write(&path, text).expect("a file");
        let (row, _) = recorded_row("x", &path);
        assert_eq!(row.state, "exit 2", "as JSON has it");
        assert_eq!(
            row.state_words(),
            "out of memory, then exit 2, run 2: capacity"
        );
        assert_eq!(row.peak, whole.peak);
        assert_eq!(row.told, whole.told);
        assert!(row.told[0].starts_with("It does not fit"), "{:?}", row.told);
    }
}
