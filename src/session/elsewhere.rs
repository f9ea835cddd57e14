//! Sessions that run on another machine, or out of reach on this one, as far as their files in a shared
//! state directory tell. Nothing is believed that another user could have written.

use super::RECORDING;
use super::alive::{Life, PidScope, SessionFile};
use super::base_dirs::{BaseDirs, own_entries};
use super::presence::{self, BEAT};
use super::private::{is_ours_alone, open_own};
use super::server_time::server_time;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A session that was not heard for longer is called silent: some beats, and a minute for which a
/// client of NFS may keep a file's time.
const SILENT_AFTER: Duration = Duration::from_secs(60 + 3 * BEAT.as_secs());

/// One that was not heard for longer is over: its machine died, or it would have removed its file.
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

/// Those that this machine cannot reach, by name; `reachable` are the names of those that it can.
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
pub(super) fn clear_over(places: &BaseDirs) {
    let here = PidScope::here();
    for (_, directory, file) in told(places) {
        let age = || Some(heard(&directory, &file, server_time(&directory)?));
        let is_dead = file.is_gone(&here);
        if is_dead || age().is_some_and(|age| age > OVER_AFTER) {
            // The next session tries again.
            let _ = fs::remove_file(presence::path(&directory));
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
    let path = presence::path(directory);
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
    let own = [presence::path(directory), directory.join(RECORDING)];
    let written = own.into_iter().chain(named).filter_map(|path| {
        let about = fs::symlink_metadata(path).ok()?;
        about.modified().ok()
    });
    let latest = written.max().unwrap_or(SystemTime::UNIX_EPOCH);
    now.duration_since(latest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::BaseDir;
    use crate::units::Pid;
    use std::os::unix::fs::PermissionsExt;

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
            file.world.move_to(host);
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
                .open(presence::path(directory));
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
        assert!(!presence::path(&session).exists());
        assert_eq!(one.listen(), None);
    }

    #[test]
    fn what_another_could_have_written_is_not_believed() {
        let shared = StateOnDisk::new();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(&presence::path(&shared.session("writable", "x")), 0o666);
        open(&shared.session("anybodys", "x"), 0o777);
        let other = shared.session("other-name", "x");
        fs::rename(&other, other.with_file_name("renamed")).unwrap();
        let link = shared.session("link", "x");
        fs::rename(presence::path(&link), link.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(link.join("elsewhere"), presence::path(&link)).unwrap();
        let fifo = presence::path(&shared.session("fifo", "x"));
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
        file.world.reboot();
        file.write(&twin).unwrap();
        assert_eq!(shared.ids(), ["twin"]);
        clear_over(&shared.places());
        assert!(!presence::path(&dead).exists() && presence::path(&twin).exists());
        shared.age(&twin, 2 * SILENT_AFTER);
        assert_eq!(shared.ids(), [] as [&str; 0]);
    }
}
