//! Sessions that run on another machine, or out of reach on this one.
//!
//! Each session tells in its state directory where it runs ([`Presence`]), for machines that share that
//! directory: the file says on which machine, its time when it was heard last. Nothing is believed that
//! another user could have written. What sessions left that are over is removed here; recordings and logs
//! are kept.

use super::RECORDING;
use super::base_dirs::{BaseDirs, is_ours_alone, open_own, own_entries, server_time};
use super::sessions::{Life, PidScope, SessionFile, find};
use nix::libc;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime};

/// How often a session tells that it runs.
const BEAT: Duration = Duration::from_secs(10);

/// How long the end waits for a mount that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A session that was not heard for longer is called silent: some beats, and a minute for which a
/// client of NFS may keep a file's time.
const SILENT_AFTER: Duration = Duration::from_secs(60 + 3 * BEAT.as_secs());

/// A session that was not heard for longer is over: its machine died, or it would have removed its file.
const OVER_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// A larger file is none of ours.
const LARGEST: u64 = 64 << 10;

/// A session that can be looked at from here, and no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteSession {
    pub id: String,
    /// Its directory in the state directory.
    pub directory: PathBuf,
    pub file: SessionFile,
    /// How long ago it was heard, by the file server's clock.
    pub heard: Duration,
    /// Whether it runs on this machine all the same.
    pub is_here: bool,
}

impl RemoteSession {
    /// Whether it was heard as lately as one that runs is.
    pub fn is_silent(&self) -> bool {
        self.heard > SILENT_AFTER
    }

    /// Its recording, if it keeps one.
    pub fn recording(&self) -> Option<PathBuf> {
        let path = self.file.recording.as_ref()?;
        Some(PathBuf::from(&path.0))
    }

    /// Its output log, if it keeps one.
    pub fn log(&self) -> Option<PathBuf> {
        let path = self.file.log.as_ref()?;
        Some(PathBuf::from(&path.0))
    }

    /// How long ago it was heard, now; `None` if it has ended.
    pub fn listen(&self) -> Option<Duration> {
        believed(&self.directory)?;
        Some(heard(&self.directory, &self.file, now(&self.directory)))
    }
}

/// The sessions that this machine cannot reach, by name; `reachable` are the names of those that it can.
pub fn elsewhere(places: &BaseDirs, reachable: &[String]) -> Vec<RemoteSession> {
    let here = PidScope::here();
    let mut found: Vec<RemoteSession> = told(places)
        .filter(|(id, _, _)| !reachable.contains(id))
        .filter_map(|(id, directory, file)| {
            let session = RemoteSession {
                heard: heard(&directory, &file, now(&directory)),
                is_here: file.world.is_same_host(&here),
                id,
                directory,
                file,
            };
            is_running(&session, &here).then_some(session)
        })
        .collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

/// Removes what sessions told that are proven dead, or that were not heard for a day.
fn clear_over(places: &BaseDirs) {
    let here = PidScope::here();
    for (_, directory, file) in told(places) {
        let age = || Some(heard(&directory, &file, server_time(&directory)?));
        let is_dead = file.is_gone(&here);
        if is_dead || age().is_some_and(|age| age > OVER_AFTER) {
            // The next session tries again.
            let _ = fs::remove_file(session_file(&directory));
        }
    }
}

/// Machines may share a name: another boot of this one is only proven where nothing is heard.
fn is_running(session: &RemoteSession, here: &PidScope) -> bool {
    let file = &session.file;
    match file.life(here) {
        Life::Dead if file.is_gone(here) => false,
        Life::Dead => !session.is_silent(),
        Life::Alive => true,
        Life::Unknown => session.heard <= OVER_AFTER,
    }
}

/// What sessions in the state directories tell of themselves.
fn told(places: &BaseDirs) -> impl Iterator<Item = (String, PathBuf, SessionFile)> {
    let entries = places
        .recorded()
        .flat_map(|place| own_entries(place, |path| fs::metadata(path)));
    entries.filter_map(|(id, directory)| {
        let file = believed(&directory)?;
        (file.id == id).then_some((id, directory, file))
    })
}

/// A session's file, if nobody else could have written it.
fn believed(directory: &Path) -> Option<SessionFile> {
    // Most directories are of sessions that have ended.
    let path = session_file(directory);
    fs::symlink_metadata(&path).ok()?;
    if !is_ours_alone(&fs::symlink_metadata(directory).ok()?) {
        return None;
    }
    let mut text = Vec::new();
    let file = open_own(&path).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The file server's time, or this machine's where nothing can be made there.
fn now(directory: &Path) -> SystemTime {
    server_time(directory).unwrap_or_else(SystemTime::now)
}

/// How long ago any of its files was written.
fn heard(directory: &Path, file: &SessionFile, now: SystemTime) -> Duration {
    let named = [&file.recording, &file.log].into_iter().flatten();
    let named = named.map(|word| PathBuf::from(&word.0));
    let own = [session_file(directory), directory.join(RECORDING)];
    let written = own.into_iter().chain(named).filter_map(|path| {
        let about = fs::symlink_metadata(path).ok()?;
        about.modified().ok()
    });
    let latest = written.max().unwrap_or(SystemTime::UNIX_EPOCH);
    now.duration_since(latest).unwrap_or_default()
}

/// Tells in the state directory where a session runs, on a thread of its own, until it ends or is dropped.
#[derive(Debug)]
pub struct Presence {
    /// Dropping it without a word leaves the file to the next front.
    ending: Sender<()>,
    gone: Receiver<()>,
}

impl Presence {
    /// For a session with its state in `directory`. Without a thread nobody elsewhere hears of it.
    pub fn start(file: SessionFile, directory: &Path) -> Option<Presence> {
        let (ending, ends) = mpsc::channel();
        let (tells, gone) = mpsc::sync_channel(1);
        let directory = directory.to_owned();
        let thread = std::thread::Builder::new().name("presence".into());
        thread
            .spawn(move || {
                // The next beat tries again.
                let _ = file.write(&directory);
                loop {
                    match ends.recv_timeout(BEAT) {
                        Err(RecvTimeoutError::Timeout) => beat(&file, &directory),
                        Err(RecvTimeoutError::Disconnected) => return,
                        Ok(()) => break,
                    }
                }
                let _ = fs::remove_file(session_file(&directory));
                let _ = tells.send(());
            })
            .ok()?;
        Some(Presence { ending, gone })
    }

    /// The session has ended: removes the file.
    pub fn end(self) {
        if self.ending.send(()).is_ok() {
            // What stays is seen to be old, and removed by a later session.
            let _ = self.gone.recv_timeout(PATIENCE);
        }
    }
}

fn session_file(directory: &Path) -> PathBuf {
    directory.join(super::sessions::SESSION_FILE)
}

/// The file's time is the file server's, whatever this machine's clock says.
fn beat(file: &SessionFile, directory: &Path) {
    let touched = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(session_file(directory))
        .and_then(|open| Ok(futimens(&open, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?));
    match touched {
        // Cleared away while this machine slept.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ = file.write(directory);
        }
        Ok(()) | Err(_) => {}
    }
}

/// Removes the private directories of dead sessions and returns their names; and what sessions that are
/// over told of themselves in the state directory.
pub fn clear_dead(places: &BaseDirs) -> Vec<String> {
    clear_over(places);
    let dead = find(places)
        .into_iter()
        .filter(|found| found.life == Life::Dead);
    dead.filter(|found| fs::remove_dir_all(&found.directory).is_ok())
        .map(|found| found.id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::BaseDir;
    use crate::recording::sessions::{SESSION_FILE, SessionFile};
    use crate::units::Pid;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// Of a machine with this name, of another boot than this one's.
    fn another_boot(host: &str) -> PidScope {
        let scope = serde_json::json!({"host": host, "boot": "another", "pids": ""});
        serde_json::from_value(scope).unwrap()
    }

    struct StateOnDisk {
        place: tempfile::TempDir,
    }

    impl StateOnDisk {
        fn new() -> StateOnDisk {
            StateOnDisk {
                place: tempfile::tempdir().unwrap(),
            }
        }

        fn places(&self) -> BaseDirs {
            BaseDirs {
                state: vec![BaseDir::Own(self.place.path().to_owned())],
                runtime: Vec::new(),
                elsewhere: Vec::new(),
            }
        }

        /// A session of the machine `host`.
        fn session(&self, id: &str, host: &str) -> PathBuf {
            let directory = self.place.path().join("oomph/sessions").join(id);
            fs::create_dir_all(&directory).unwrap();
            let mut file = SessionFile::new(id, Pid(7), None, None);
            file.world = another_boot(host);
            file.write(&directory).unwrap();
            directory
        }

        fn ids(&self) -> Vec<String> {
            let found = elsewhere(&self.places(), &["reachable".into()]);
            found.into_iter().map(|session| session.id).collect()
        }

        fn age(&self, directory: &Path, age: Duration) {
            let file = fs::File::options()
                .write(true)
                .open(session_file(directory));
            let at = SystemTime::now() - age;
            file.unwrap().set_modified(at).unwrap();
        }
    }

    #[test]
    fn a_session_of_another_machine_is_found_while_it_is_heard() {
        let shared = StateOnDisk::new();
        let session = shared.session("a", "gpu-7");
        shared.session("reachable", "gpu-7");
        let found = elsewhere(&shared.places(), &["reachable".into()]);
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((one.file.host(), one.is_here), ("gpu-7", false));
        assert!(!one.is_silent() && one.listen().is_some());
        shared.age(&session, 2 * SILENT_AFTER);
        assert!(elsewhere(&shared.places(), &[])[0].is_silent());
        shared.age(&session, 2 * OVER_AFTER);
        assert_eq!(shared.ids(), [] as [&str; 0]);
        clear_over(&shared.places());
        assert!(!session_file(&session).exists());
        assert_eq!(one.listen(), None);
    }

    #[test]
    fn what_another_could_have_written_is_not_believed() {
        let shared = StateOnDisk::new();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(&session_file(&shared.session("writable", "x")), 0o666);
        open(&shared.session("anybodys", "x"), 0o777);
        let other = shared.session("other-name", "x");
        fs::rename(&other, other.with_file_name("renamed")).unwrap();
        let link = shared.session("link", "x");
        fs::rename(session_file(&link), link.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(link.join("elsewhere"), session_file(&link)).unwrap();
        let fifo = session_file(&shared.session("fifo", "x"));
        fs::remove_file(&fifo).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(shared.ids(), [] as [&str; 0]);
    }

    #[test]
    fn one_of_this_machine_that_is_dead_is_cleared_and_one_of_its_name_is_not() {
        let shared = StateOnDisk::new();
        let dead = shared.place.path().join("oomph/sessions/dead");
        fs::create_dir_all(&dead).unwrap();
        let file = SessionFile::new("dead", Pid(i32::MAX), None, None);
        file.write(&dead).unwrap();
        let twin = shared.place.path().join("oomph/sessions/twin");
        fs::create_dir_all(&twin).unwrap();
        let mut file = SessionFile::new("twin", Pid(7), None, None);
        file.world = another_boot(file.host());
        file.write(&twin).unwrap();
        assert_eq!(shared.ids(), ["twin"]);
        clear_over(&shared.places());
        assert!(!session_file(&dead).exists() && super::session_file(&twin).exists());
        shared.age(&twin, 2 * SILENT_AFTER);
        assert_eq!(shared.ids(), [] as [&str; 0]);
    }

    #[test]
    fn it_is_there_until_the_end_and_left_to_the_next_front() {
        let directory = tempfile::tempdir().unwrap();
        let file = || SessionFile::new("s", Pid(1), None, None);
        let first = Presence::start(file(), directory.path()).unwrap();
        let there = || session_file(directory.path()).exists();
        while !there() {
            std::thread::yield_now();
        }
        drop(first);
        let second = Presence::start(file(), directory.path()).unwrap();
        assert!(there());
        second.end();
        assert!(!there());
    }

    #[test]
    fn a_file_that_was_removed_is_written_again_and_a_link_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let file = SessionFile::new("s", Pid(1), None, None);
        beat(&file, directory.path());
        assert!(session_file(directory.path()).is_file());
        fs::remove_file(session_file(directory.path())).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, "").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(old)
            .unwrap();
        std::os::unix::fs::symlink(&other, session_file(directory.path())).unwrap();
        beat(&file, directory.path());
        assert_eq!(fs::metadata(&other).unwrap().modified().unwrap(), old);
    }

    #[test]
    fn the_dead_are_cleared_away_and_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let places = BaseDirs {
            elsewhere: Vec::new(),
            state: Vec::new(),
            runtime: vec![BaseDir::Given(directory.path().to_owned())],
        };
        let me = Pid(std::process::id() as i32);
        let write = |id: &str, keeper: Option<Pid>| {
            let path = directory.path().join("oomph").join(id);
            fs::create_dir_all(&path).unwrap();
            if let Some(keeper) = keeper {
                SessionFile::new(id, keeper, None, None)
                    .write(&path)
                    .unwrap();
            }
            path
        };
        let (alive, dead) = (write("a", Some(me)), write("b", Some(Pid(i32::MAX))));
        let unknown = write("c", None);
        let lives: Vec<Life> = find(&places).iter().map(|found| found.life).collect();
        assert_eq!(lives, [Life::Alive, Life::Dead, Life::Unknown]);
        assert_eq!(clear_dead(&places), ["b"]);
        assert!(alive.exists() && unknown.exists() && !dead.exists());
        let mode = fs::metadata(alive.join(SESSION_FILE)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
