//! Which recording is meant: a file, a session's directory, the beginning of a session's name, its job,
//! or the latest. Sessions that still run are among them.

use super::sessions::{Meant, meant_here};
use crate::command::{CommandLine, quoted};
use crate::event::Job;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::recording::{self, BaseDirs};
use crate::state::State;
use anyhow::{Context, bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A session's recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSession {
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// When it was last written to.
    written: SystemTime,
    /// Whether it is meant where none is named: another one is of another environment of this user.
    is_asked: bool,
}

impl RecordedSession {
    /// The job that it was part of.
    fn job(&self) -> Option<Job> {
        recording::header(&self.path)?.job
    }
}

/// How many names are listed where several fit.
const LISTED: usize = 4;

/// How many sessions' first lines are read to find those of a command, and how many of these are read whole.
const LOOKED_AT: usize = 64;
const READ: usize = 6;

/// The recorded sessions of this user's environment, the one written to last first.
pub fn all() -> Vec<RecordedSession> {
    let all = everywhere().into_iter();
    all.filter(|session| session.is_asked).collect()
}

/// The recorded sessions of this user, also of other environments, the one written to last first: also those that run now and
/// are recorded elsewhere (`--record`), on this machine or another.
pub fn everywhere() -> Vec<RecordedSession> {
    let places = BaseDirs::of_this_user();
    let stored = recording::list(&places)
        .into_iter()
        .map(|stored| RecordedSession {
            path: stored.directory.join(recording::RECORDING),
            id: stored.id,
            written: stored.written,
            is_asked: stored.is_asked,
        });
    let elsewhere = recording::find(&places).into_iter().filter_map(|found| {
        let is_asked = found.is_asked(&places);
        let path = PathBuf::from(found.file?.recording?.0);
        let written = path.metadata().and_then(|about| about.modified()).ok()?;
        Some(RecordedSession {
            id: found.id,
            path,
            written,
            is_asked,
        })
    });
    let remote = recording::elsewhere(&places, &[])
        .into_iter()
        .filter_map(|session| {
            let path = session.recording()?;
            let written = path.metadata().and_then(|about| about.modified()).ok()?;
            Some(RecordedSession {
                id: session.id,
                path,
                written,
                is_asked: true,
            })
        });
    let mut all: Vec<RecordedSession> = stored.collect();
    for session in elsewhere.chain(remote) {
        if all.iter().all(|known| known.id != session.id) {
            all.push(session);
        }
    }
    all.sort_by_key(|session| std::cmp::Reverse(session.written));
    all
}

/// The recording that `name` means: an existing file or directory, the beginning of a session's
/// name, or the latest one where there is no name.
///
/// # Errors
/// There is none, or there are several; with what to do.
pub fn find(name: Option<&OsStr>) -> anyhow::Result<PathBuf> {
    let path = find_among(name, everywhere)?;
    match name.is_some_and(|name| Path::new(name) == path) {
        true => Ok(path),
        false => readable(path),
    }
}

/// Recordings of a command like this one, the latest first, and how many there are of any.
pub fn like(command: &CommandLine) -> (Vec<PathBuf>, usize) {
    let mut asked = all();
    asked.truncate(LOOKED_AT);
    like_among(command, asked)
}

fn like_among(command: &CommandLine, asked: Vec<RecordedSession>) -> (Vec<PathBuf>, usize) {
    let launch = LaunchEnvironment::default();
    let reading = WorkloadKey::new(&command.without_secrets(), &launch);
    let is_like = |path: &PathBuf| {
        recording::header(path).is_some_and(|header| {
            header.command.cwd == command.cwd
                && WorkloadKey::new(&header.command, &launch).likeness == reading.likeness
        })
    };
    let all = asked.len();
    let paths = asked.into_iter().map(|session| session.path);
    (paths.filter(is_like).take(READ).collect(), all)
}

/// The recording of the session of this name, or that alone begins so; a file's path names none.
///
/// # Errors
/// There is none, or there are several.
pub fn find_session(name: &str) -> anyhow::Result<PathBuf> {
    readable(by_name(name, everywhere())?)
}

/// The names of the sessions that a word is, or is the beginning of; the latest first.
pub fn named(word: &str) -> Vec<String> {
    let begin = all()
        .into_iter()
        .filter(|session| !word.is_empty() && session.id.starts_with(word));
    let (whole, others): (Vec<String>, Vec<String>) =
        begin.map(|session| session.id).partition(|id| id == word);
    match whole.is_empty() {
        true => others,
        false => whole,
    }
}

/// Whether a file is a recording.
pub fn is_recording(path: &Path) -> bool {
    path.is_file() && recording::header(path).is_some()
}

/// What to type after `oomph again` for a recording: the session's name, where it is stored under that, or else the file.
pub fn again_name(path: &Path, state: Option<&State>) -> Option<String> {
    let id = &state?.session.as_ref()?.id;
    let path = recording_of(path);
    match is_stored_as(&path, id) {
        true => Some(id.clone()),
        false => Some(quoted(&path.to_string_lossy())),
    }
}

/// The name of the session that a file is of, where it is stored under that.
pub fn stored_name(path: &Path) -> Option<String> {
    let path = recording_of(path);
    let id = recording::header(&path)?.id;
    is_stored_as(&path, &id).then_some(id)
}

/// The recording of a session, by its directory, its log or itself.
fn recording_of(path: &Path) -> PathBuf {
    let is_log = path.file_name() == Some(OsStr::new(recording::OUTPUT_LOG));
    match (path.is_dir(), is_log) {
        (true, _) => path.join(recording::RECORDING),
        (false, true) => path.with_file_name(recording::RECORDING),
        (false, false) => path.to_path_buf(),
    }
}

fn is_stored_as(recording: &Path, id: &str) -> bool {
    let directory = recording.parent().and_then(Path::file_name);
    directory.is_some_and(|name| name == OsStr::new(id))
}

fn find_among(
    name: Option<&OsStr>,
    all: impl FnOnce() -> Vec<RecordedSession>,
) -> anyhow::Result<PathBuf> {
    let Some(name) = name else {
        let Some(latest) = all().into_iter().find(|session| session.is_asked) else {
            bail!("there is no recorded session yet; pass a recording (an events.jsonl)");
        };
        return Ok(latest.path);
    };
    let path = Path::new(name);
    if path.exists() {
        return Ok(path.to_owned());
    }
    let text = name.to_string_lossy();
    ensure!(
        !text.is_empty(),
        "the name is empty; pass an existing file, or the start of a session's ID (`oomph ls --all`)"
    );
    ensure!(
        !is_path(&text),
        "{} does not exist; pass an existing file, or the start of a session's ID (`oomph ls --all`)",
        path.display()
    );
    by_name(&text, all())
}

fn by_name(text: &str, all: Vec<RecordedSession>) -> anyhow::Result<PathBuf> {
    let is_asked = |session: &RecordedSession| session.is_asked;
    match meant_here(
        text,
        all,
        |session| &session.id,
        RecordedSession::job,
        is_asked,
    ) {
        Meant::One(session) => Ok(session.path),
        Meant::None => {
            bail!(
                "there is no file {text}, and no session or job of that name; `oomph ls --all` lists the sessions"
            )
        }
        Meant::Several(sessions) => {
            let names: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
            let more = match names.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            bail!(
                "{text} matches several sessions; type more of the ID: {}{more}",
                names[..names.len().min(LISTED)].join(", ")
            )
        }
    }
}

/// A recording that nobody has named as a file: a pipe in its place would be waited for.
fn readable(path: PathBuf) -> anyhow::Result<PathBuf> {
    recording::open_stored(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(path)
}

/// A name of a session has no directory in it, and a file that is missing should be called missing.
fn is_path(text: &str) -> bool {
    text.contains('/')
        || [".jsonl", ".log", ".json", ".txt"]
            .iter()
            .any(|suffix| text.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sessions() -> Vec<RecordedSession> {
        let ids = [
            "20260304-1-python3",
            "20260304-1-python3-2",
            "20260301-9-sh",
        ];
        let session = |(age, id): (u64, &&str)| RecordedSession {
            id: id.to_string(),
            path: format!("/s/{id}").into(),
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(100 - age),
            is_asked: age > 0,
        };
        (0..).zip(&ids).map(session).collect()
    }

    fn found(name: &str) -> Result<String, String> {
        find_among(Some(OsStr::new(name)), sessions)
            .map(|path| path.display().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_beginning_of_a_name_is_enough() {
        assert_eq!(found("20260301").unwrap(), "/s/20260301-9-sh");
        // A whole name is that session's.
        assert_eq!(
            found("20260304-1-python3").unwrap(),
            "/s/20260304-1-python3"
        );
        let several = found("2026").unwrap_err();
        assert!(several.contains("matches several") && several.contains("python3-2"));
        assert!(found("1999").unwrap_err().contains("`oomph ls --all`"));
        assert!(
            found("/none/a.jsonl")
                .unwrap_err()
                .contains("does not exist")
        );
        assert!(found("night.log").unwrap_err().contains("does not exist"));
    }

    /// No list shows it, so that a few letters do not mean it.
    #[test]
    fn one_of_another_environment_is_meant_by_its_whole_name_alone() {
        assert_eq!(found("20260304-1").unwrap(), "/s/20260304-1-python3-2");
    }

    #[test]
    fn recordings_of_a_command_are_those_of_its_program_with_any_batch() {
        use crate::event::{Event, EventKind, SCHEMA, SessionStarted};
        use crate::recording::{Recorder, RecorderOptions};
        use crate::units::Moment;
        let directory = tempfile::tempdir().expect("a directory");
        let recorded = |name: &str, words: &str| {
            let path = directory.path().join(name);
            let mut recorder =
                Recorder::create(&path, RecorderOptions::default()).expect("a recorder");
            let header = SessionStarted {
                id: name.into(),
                wall: 1e9,
                monotonic: 0,
                schema: SCHEMA,
                version: "0".into(),
                command: CommandLine::typed(words),
                probe: true,
                nvml: true,
                job: None,
                host: None,
                again_of: None,
            };
            recorder.write(&Event {
                at: Moment::ZERO,
                what: EventKind::SessionStarted(header),
            });
            assert_eq!(recorder.finish(Duration::from_secs(20)), Ok(()));
            RecordedSession {
                id: name.into(),
                path,
                written: SystemTime::UNIX_EPOCH,
                is_asked: true,
            }
        };
        let all = vec![
            recorded("latest.jsonl", "python other.py --batch-size 8"),
            recorded("like.jsonl", "python train.py --batch-size 8"),
            recorded("too.jsonl", "python train.py --batch-size 64"),
        ];
        let (found, looked_at) =
            like_among(&CommandLine::typed("python train.py --batch-size 16"), all);
        let names = found.iter().filter_map(|path| path.file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["like.jsonl", "too.jsonl"]);
        assert_eq!(looked_at, 3);
    }

    #[test]
    fn nothing_is_the_latest_and_a_file_is_itself() {
        // The one that was written to last is of another environment.
        assert_eq!(
            find_among(None, sessions).unwrap(),
            Path::new("/s/20260304-1-python3-2")
        );
        let none = find_among(None, Vec::new).unwrap_err().to_string();
        assert!(none.contains("no recorded session"), "{none}");
        let here = tempfile::tempdir().unwrap();
        let path = find_among(Some(here.path().as_os_str()), || panic!("not asked"));
        assert_eq!(path.unwrap(), here.path());
    }
}
