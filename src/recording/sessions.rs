//! The sessions of this machine: those that run, found by a file in each session's private directory, and
//! those that are recorded.
//!
//! A session is dead only if that is proven: the keeper's process is gone, its PID belongs to a
//! process with another start time, or the machine was rebooted. A session that can't be judged
//! from here (in a container with its own PID namespace, on another machine that shares the
//! directory) is left alone.

use super::base_dirs::{BaseDirs, is_own_directory, own_entries};
use super::directories::{MEANT_FOR, first_usable};
use super::read::open_stored;
use super::{KEEPER_SOCKET, RECORDING};
use crate::command::Word;
use crate::event::Job;
use crate::units::Pid;
use crate::whole_file::{self, Readers};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The name of the file by which a running session is found.
pub(super) const SESSION_FILE: &str = "session.json";

/// What a session says about itself. Without its command, which may contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFile {
    pub id: String,
    pub keeper: Pid,
    /// The keeper's start time, in clock ticks since boot.
    pub start_time: u64,
    /// Where PID and start time are valid.
    pub world: PidScope,
    /// The output log, if there is one.
    pub log: Option<Word>,
    /// The recording, if there is one.
    pub recording: Option<Word>,
    /// The scheduler's job that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// A PID namespace of one boot of one machine, in which PIDs are unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidScope {
    host: String,
    boot: String,
    pids: String,
}

impl PidScope {
    /// The boot of the machine.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// The machine's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether both are of machines with the same name.
    pub(super) fn is_same_host(&self, other: &PidScope) -> bool {
        self.host == other.host
    }

    /// The one of this process.
    pub fn here() -> PidScope {
        let kernel_value = |name| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
            text.unwrap_or_default().trim().to_string()
        };
        let pids = fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string());
        PidScope {
            host: kernel_value("hostname"),
            boot: kernel_value("random/boot_id"),
            pids: pids.unwrap_or_default(),
        }
    }
}

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    pub id: String,
    pub directory: PathBuf,
    /// The contents of its file; `None` if that can't be read.
    pub file: Option<SessionFile>,
    pub life: Life,
}

/// Whether a session is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its keeper is running.
    Alive,
    /// Proven dead.
    Dead,
    /// Can't be judged from here.
    Unknown,
}

impl FoundSession {
    /// The keeper's socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(KEEPER_SOCKET)
    }

    /// Whether its keeper runs now.
    pub fn is_alive(&self) -> bool {
        let life = |file: &SessionFile| file.life(&PidScope::here());
        self.file.as_ref().map(life) == Some(Life::Alive)
    }

    /// Whether it is one of those directories in which a session that is started now would have its own: its private directory, or
    /// its files. One of another environment of this user is not meant where none is named.
    pub fn is_asked(&self, places: &BaseDirs) -> bool {
        let private = first_usable(&places.runtime, true);
        let is_beside = private.is_some() && self.directory.parent() == private.as_deref();
        let recorded = first_usable(&places.state, false).map(|oomph| oomph.join("sessions"));
        let files = self
            .file
            .iter()
            .flat_map(|file| [&file.recording, &file.log]);
        let mut files = files.flatten().map(|word| Path::new(&word.0));
        is_beside || recorded.is_some_and(|recorded| files.any(|file| file.starts_with(&recorded)))
    }

    /// The state directory that it is recorded in, where that is none of this environment's: a list is to say so.
    pub fn other_state_directory(&self, places: &BaseDirs) -> Option<PathBuf> {
        let own = first_usable(&places.state, false)?;
        let recording = Path::new(&self.file.as_ref()?.recording.as_ref()?.0);
        // `STATE/oomph/sessions/ID/events.jsonl`; a file that was named is in none.
        let sessions = recording.parent()?.parent()?;
        let other = sessions.parent()?;
        let is_one = sessions.ends_with("oomph/sessions");
        (is_one && other != own).then(|| other.to_path_buf())
    }

    /// The keeper, if it runs.
    pub fn keeper(&self) -> Option<Pid> {
        let file = self.file.as_ref().filter(|_| self.is_alive());
        file.map(|file| file.keeper)
    }
}

impl SessionFile {
    /// For a session whose keeper is `keeper`.
    pub fn new(id: &str, keeper: Pid, log: Option<&Path>, recording: Option<&Path>) -> SessionFile {
        SessionFile {
            id: id.to_string(),
            keeper,
            start_time: start_time(keeper).unwrap_or(0),
            world: PidScope::here(),
            log: log.map(Word::from),
            recording: recording.map(Word::from),
            job: None,
        }
    }

    /// The machine's name.
    pub fn host(&self) -> &str {
        &self.world.host
    }

    /// Whether its keeper is proven gone: it was a process of this boot. A machine of the same name may
    /// be another one.
    pub(super) fn is_gone(&self, here: &PidScope) -> bool {
        self.world == *here && self.life(here) == Life::Dead
    }

    /// Writes the file atomically.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let content = serde_json::to_vec(self)?;
        whole_file::replace(&directory.join(SESSION_FILE), Readers::Owner, &content)
    }

    /// Whether the session is running, as seen from `here`.
    pub fn life(&self, here: &PidScope) -> Life {
        if self.world.host != here.host || here.boot.is_empty() || self.world.boot.is_empty() {
            return Life::Unknown;
        }
        if self.world.boot != here.boot {
            return Life::Dead;
        }
        if self.world.pids != here.pids {
            return Life::Unknown;
        }
        match start_time(self.keeper) {
            Some(start) if start == self.start_time => Life::Alive,
            Some(_) | None => Life::Dead,
        }
    }
}

/// The start time of a process, in clock ticks since boot; `None` if it isn't alive.
fn start_time(pid: Pid) -> Option<u64> {
    let stat = procfs::process::Process::new(pid.0).and_then(|process| process.stat());
    let stat = stat.ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

/// The sessions with a private directory here, by name.
pub fn find(places: &BaseDirs) -> Vec<FoundSession> {
    let here = PidScope::here();
    let entries =
        (places.private()).flat_map(|place| own_entries(place, |path| fs::symlink_metadata(path)));
    let mut found: Vec<FoundSession> = entries
        .filter_map(|(id, directory)| {
            let is_ours = is_own_directory(&fs::symlink_metadata(&directory).ok()?);
            let file = || read_stored(&directory.join(SESSION_FILE)).ok();
            let file: Option<SessionFile> =
                (is_ours.then(file)?).and_then(|text| serde_json::from_slice(&text).ok());
            Some(FoundSession {
                life: file.as_ref().map_or(Life::Unknown, |file| file.life(&here)),
                id,
                directory,
                file,
            })
        })
        .collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|a, b| a.directory == b.directory);
    found
}

fn read_stored(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_stored(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// A session with a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub id: String,
    pub directory: PathBuf,
    /// When its recording was last modified.
    pub written: SystemTime,
    /// Whether it is in the directory in which one that is started now would be, or was meant for that. Another one is meant only
    /// where it is named.
    pub is_asked: bool,
}

/// The recorded sessions, most recently modified first. An unreadable directory counts as empty.
pub fn list(places: &BaseDirs) -> Vec<Stored> {
    let first = places.recorded().next();
    let now = first_usable(&places.state, false).map(|oomph| oomph.join("sessions"));
    let mut sessions: Vec<Stored> = Vec::new();
    for place in places.recorded() {
        let is_now = Some(&place) == now.as_ref();
        let is_meant = |directory: &Path| {
            let meant = read_stored(&directory.join(MEANT_FOR)).ok();
            let first = first.as_ref().map(|first| first.as_os_str().as_bytes());
            meant.is_some() && meant.as_deref() == first
        };
        // The user may have moved oomph's directory to another disk: links count.
        let entries = own_entries(place, |path| fs::metadata(path)).filter_map(stored);
        sessions.extend(entries.map(|found| Stored {
            is_asked: is_now || is_meant(&found.directory),
            ..found
        }));
    }
    sessions.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| b.id.cmp(&a.id)));
    sessions
}

/// The most recently modified session of those that are asked for.
pub fn latest(places: &BaseDirs) -> Option<Stored> {
    list(places).into_iter().find(|stored| stored.is_asked)
}

/// `None` without a recording.
fn stored((id, directory): (String, PathBuf)) -> Option<Stored> {
    let about = fs::metadata(directory.join(RECORDING)).ok()?;
    Some(Stored {
        id,
        written: about.modified().ok()?,
        directory,
        is_asked: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{BaseDir, Directories};
    use std::time::Duration;

    fn file(keeper: Pid) -> SessionFile {
        SessionFile::new("20260304-050607-python3", keeper, None, None)
    }

    #[test]
    fn sessions_of_another_environment_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let places = BaseDirs {
            state: Vec::new(),
            runtime: vec![BaseDir::Given(directory.path().join("none"))],
            elsewhere: vec![BaseDir::Given(directory.path().into())],
        };
        let session = directory.path().join("oomph/20260304-050607-python3");
        fs::create_dir_all(&session).unwrap();
        file(Pid(std::process::id() as i32))
            .write(&session)
            .unwrap();
        let found = find(&places);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].life, Life::Alive);
    }

    /// A directory for all environments of a user has sessions of others of them: those are not the latest of this one.
    #[test]
    fn what_lies_in_another_place_is_asked_for_by_its_name_alone() {
        let directory = tempfile::tempdir().unwrap();
        let places = |home: &str| BaseDirs {
            state: vec![
                BaseDir::Own(directory.path().join(home)),
                BaseDir::Shared(directory.path().into()),
            ],
            runtime: vec![BaseDir::Shared(directory.path().into())],
            elsewhere: Vec::new(),
        };
        let begin = |home: &str| {
            let now = jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0);
            let made = Directories::create(&Word::from("python3"), now, &places(home));
            fs::write(made.recording().unwrap(), "").unwrap();
            made.id
        };
        // A file where a home should be: the session is kept in the other place.
        fs::write(directory.path().join("full"), "").unwrap();
        let kept = begin("full");
        assert_eq!(
            latest(&places("full")).map(|found| found.id).as_ref(),
            Some(&kept)
        );
        assert_eq!(latest(&places("home")), None, "of another home");
        assert_eq!(list(&places("home")).len(), 1, "by its name");
        let own = begin("home");
        assert_eq!(latest(&places("home")).map(|found| found.id), Some(own));
        // Its home is there again: it is still of that.
        fs::remove_file(directory.path().join("full")).unwrap();
        assert_eq!(latest(&places("full")).map(|found| found.id), Some(kept));
    }

    #[test]
    fn only_what_is_proven_dead_is_dead() {
        let here = PidScope::here();
        let me = Pid(std::process::id() as i32);
        assert_eq!(file(me).life(&here), Life::Alive);
        let other_start = SessionFile {
            start_time: 1,
            ..file(me)
        };
        assert_eq!(
            other_start.life(&here),
            Life::Dead,
            "the number is another's"
        );
        assert_eq!(file(Pid(i32::MAX)).life(&here), Life::Dead);
        let elsewhere = |change: fn(&mut PidScope)| {
            let mut file = file(Pid(i32::MAX));
            change(&mut file.world);
            file.life(&here)
        };
        assert_eq!(elsewhere(|world| world.boot = "before".into()), Life::Dead);
        assert_eq!(elsewhere(|world| world.boot.clear()), Life::Unknown);
        assert_eq!(elsewhere(|world| world.host.push('x')), Life::Unknown);
        assert_eq!(elsewhere(|world| world.pids.push('x')), Life::Unknown);
    }

    #[test]
    fn the_session_written_to_last_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let places = BaseDirs {
            elsewhere: Vec::new(),
            state: vec![BaseDir::Own(dir.path().to_owned())],
            runtime: Vec::new(),
        };
        assert_eq!(latest(&places), None);
        let sessions = dir.path().join("oomph/sessions");
        let now = SystemTime::now();
        for (id, age) in [("b", 5), ("a", 1), ("c", 9)] {
            fs::create_dir_all(sessions.join(id)).unwrap();
            let recording = fs::File::create(sessions.join(id).join(RECORDING)).unwrap();
            recording
                .set_modified(now - Duration::from_secs(age))
                .unwrap();
        }
        fs::create_dir(sessions.join("without a recording")).unwrap();
        let ids: Vec<String> = list(&places).into_iter().map(|stored| stored.id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(latest(&places).unwrap().directory, sessions.join("a"));
    }
}
