//! Sessions that have ended or run elsewhere, as their recordings tell them.

use super::{PredictedRun, Row};
use crate::commands::recordings::{self, RecordedSession};
use crate::commands::sessions::remote;
use crate::forecast::score::Score;
use crate::live::print;
use crate::live::session::summary::Activity;
use crate::session::{self, RemoteSession};
use crate::state::{RunOutcome, State};
use jiff::Timestamp;
use std::path::Path;

/// A row for each recorded session that isn't among `living`, and how its predictions came out.
pub(super) fn rows(living: &[Row]) -> Vec<(Row, Vec<Score>)> {
    recordings::all()
        .into_iter()
        .filter(|session| living.iter().all(|row| row.id != session.id))
        .map(|session| row(&session))
        .collect()
}

/// A row for a session that runs elsewhere.
pub(super) fn of_elsewhere(session: &RemoteSession) -> Row {
    let recording = session.recording();
    // Where there is none, or it can't be read, there are no figures.
    let recorded = recording.filter(|path| session::open_own(path).is_ok());
    let state = outlined(recorded.as_deref());
    let path = recorded.unwrap_or_default();
    let (row, _) = row_of(&session.id, &path, &state);
    Row {
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
            remote::heard(session)
        )),
        host: Some(session.file.host().to_string()),
        heard: Some(session.heard.as_secs_f64()),
        job: session.file.job.as_ref().map(ToString::to_string),
        keeper: Some(session.file.keeper.0),
        recording: session.recording().map(|path| path.display().to_string()),
        log: session.log().map(|path| path.display().to_string()),
        ooms: None,
        predictions: Vec::new(),
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

/// What can't be read is listed without its figures: its files are there.
fn outlined(path: Option<&Path>) -> State {
    let mut state = State::default();
    if let Some(path) = path {
        let _ = session::outline(path, |event| state.apply(event));
    }
    state
}

fn row(session: &RecordedSession) -> (Row, Vec<Score>) {
    let state = outlined(Some(&session.path));
    row_of(&session.id, &session.path, &state)
}

fn row_of(id: &str, path: &Path, state: &State) -> (Row, Vec<Score>) {
    let run = state.run();
    let header = state.session.as_ref();
    let log = session::log_beside(path);
    let scores: Vec<Score> = state.runs.iter().filter_map(Score::of).collect();
    let row = Row {
        id: id.to_string(),
        state: outcome(state),
        attached: false,
        since: header
            .and_then(|header| Timestamp::from_second(header.wall as i64).ok())
            .map(|since| since.to_string()),
        seconds: header.map(|_| state.now.as_secs_f64()),
        run: run.map(|run| run.number.0),
        pid: None,
        keeper: None,
        devices: devices(state),
        peak: run.and_then(|run| run.peak()).map(|peak| peak.0),
        steps: run.map(|run| run.steps()),
        host: header.and_then(|header| header.host.clone()),
        heard: None,
        job: header
            .and_then(|header| header.job.as_ref())
            .map(ToString::to_string),
        elsewhere: None,
        ooms: Some(state.runs.iter().map(|run| run.oom_count).sum()),
        predictions: scores.iter().cloned().map(predicted).collect(),
        command: run
            .map(|run| &run.command)
            .or(header.map(|header| &header.command))
            .map(|command| command.shown()),
        recording: Some(path.display().to_string()),
        log: log.exists().then(|| log.display().to_string()),
    };
    (row, scores)
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
    use std::time::SystemTime;

    fn of(recording: &str) -> Row {
        let path = format!(
            "{}/tests/replay/{recording}.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        row(&RecordedSession::new(
            "x",
            path.into(),
            SystemTime::UNIX_EPOCH,
        ))
        .0
    }

    #[test]
    fn a_recording_says_how_its_session_went() {
        let capacity = of("capacity");
        assert_eq!(
            (capacity.state.as_str(), capacity.ooms),
            ("out of memory", Some(1))
        );
        assert_eq!(capacity.devices, ["NVIDIA H200"]);
        assert!(capacity.peak > Some(100 << 30), "{capacity:?}");
        let caught = of("caught");
        assert_eq!((caught.state.as_str(), caught.ooms), ("finished", Some(1)));
        assert!(of("leak").steps >= Some(17));
    }

    #[test]
    fn one_that_cannot_be_read_is_listed_all_the_same() {
        let (row, _) = row(&RecordedSession::new(
            "x",
            "/none".into(),
            SystemTime::UNIX_EPOCH,
        ));
        assert_eq!((row.state.as_str(), row.peak), ("interrupted", None));
    }
}
