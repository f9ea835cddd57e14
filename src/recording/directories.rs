//! The name and the directories of one session: made, or only examined for whether they could be.
//!
//! A session has a name even without a directory: a home directory that is missing, read-only or
//! full costs the recording, never the training. Notes say which place was chosen and why not a
//! better one.

use super::base_dirs::{
    BaseDir, BaseDirs, make_all, make_new, make_or_take, make_private, refusal, rename_risk,
};
use super::{KEEPER_SOCKET, OUTPUT_LOG, PROBE_SOCKET, RECORDING};
use crate::command::Word;
use crate::units::Bytes;
use jiff::civil::DateTime;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `sun_path` has 108 bytes, the last of them a NUL (`unix(7)`).
const LONGEST_SOCKET_PATH: usize = 107;

/// The maximum length of the program's name in the session's name.
const PROGRAM_SHOWN: usize = 24;

/// The maximum number of sessions that a program can start in one second on one machine.
const SAME_SECOND: u32 = 1_000;

/// In the directory of a session that is kept in the place of another one: the directory in which it should have been.
pub(super) const MEANT_FOR: &str = "meant-for";

/// Where a session keeps its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// The start time and the program: unique, and usable as a file name.
    pub id: String,
    /// The directory of its recording and log (0700), or `None` if none could be created.
    pub state: Option<PathBuf>,
    /// Its private directory (0700) for sockets and the probe, or `None`.
    pub runtime: Option<PathBuf>,
    /// What could not be created where it should be and what follows, one line each.
    pub notes: Vec<String>,
}

impl Directories {
    /// For a session of `program` (the command's first word) that starts at `now`, local time.
    pub fn create(program: &Word, now: DateTime, places: &BaseDirs) -> Directories {
        let mut notes = Vec::new();
        let sessions = sessions(&places.state, &mut notes);
        let stem = format!("{}-{}", now.strftime("%Y%m%d-%H%M%S"), shown_name(program));
        // A name with the largest suffix and the longer of the two sockets must fit too.
        let longest = format!("/{stem}-{SAME_SECOND}/{KEEPER_SOCKET}");
        let runtime_base = base(&places.runtime, Some(&longest), &mut notes);
        if sessions.is_none() {
            notes.push("this session is not recorded".into());
        }
        if runtime_base.is_none() {
            notes.push("the probe is off: there is no directory for its socket".into());
        }
        let parents: Vec<&Path> = [&sessions, &runtime_base]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
        match make_in_all(&stem, &parents, |id| places.has(id)) {
            Ok(id) => {
                let state = sessions.map(|base| base.join(&id));
                if let Some(state) = &state {
                    say_what_it_was_meant_for(state, places);
                }
                Directories {
                    state,
                    runtime: runtime_base.map(|base| base.join(&id)),
                    id,
                    notes,
                }
            }
            Err(reason) => {
                notes.push(format!(
                    "{reason}: this session is not recorded, and the probe is off"
                ));
                Directories {
                    id: format!("{stem}-{}", std::process::id()),
                    state: None,
                    runtime: None,
                    notes,
                }
            }
        }
    }

    pub fn recording(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|dir| dir.join(RECORDING))
    }

    pub fn output_log(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|dir| dir.join(OUTPUT_LOG))
    }

    /// The probe's socket, with a path short enough for one.
    pub fn probe_socket(&self) -> Option<PathBuf> {
        self.runtime.as_ref().map(|dir| dir.join(PROBE_SOCKET))
    }

    /// The keeper's socket, with a path short enough for one.
    pub fn keeper_socket(&self) -> Option<PathBuf> {
        self.runtime.as_ref().map(|dir| dir.join(KEEPER_SOCKET))
    }

    /// Recreates the private directory after it was removed, at the same place or else in the first
    /// usable one of `places`. Returns where it is now.
    ///
    /// # Errors
    /// Why no place can be used.
    pub fn make_runtime_again(&self, places: &BaseDirs) -> Result<PathBuf, String> {
        if let Some((dir, base)) = self
            .runtime
            .as_deref()
            .and_then(|dir| Some((dir, dir.parent()?)))
            && make_or_take(base).and_then(|()| make_or_take(dir)).is_ok()
        {
            return Ok(dir.to_path_buf());
        }
        let longest = format!("/{}/{KEEPER_SOCKET}", self.id);
        let mut refused = Vec::new();
        let Some(base) = base(&places.runtime, Some(&longest), &mut refused) else {
            return Err(refused.join("; "));
        };
        let dir = base.join(&self.id);
        make_or_take(&dir).map(|()| dir)
    }

    /// Removes the private directory and its contents at the end of a session. Not on drop, because
    /// the training of a front that dies still uses it.
    pub fn remove_runtime(&self) -> io::Result<()> {
        match &self.runtime {
            Some(dir) => match fs::remove_dir_all(dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }
}

/// Whoever looks for the sessions of the place that could not be used is to find it.
fn say_what_it_was_meant_for(state: &Path, places: &BaseDirs) {
    let first = places.recorded().next();
    if let Some(first) = first.filter(|first| state.parent() != Some(first)) {
        // Without it the session is found by its name.
        let _ = fs::write(state.join(MEANT_FOR), first.as_os_str().as_bytes());
    }
}

/// oomph's directory in the first of `places` that can be used now.
pub(super) fn first_usable(places: &[BaseDir], sockets: bool) -> Option<PathBuf> {
    let mut looked = places.iter().map(|place| examined(place, sockets));
    let usable = looked.find(|place| place.problem.is_none())?;
    Some(usable.path)
}

/// The directory of all sessions' directories.
fn sessions(places: &[BaseDir], notes: &mut Vec<String>) -> Option<PathBuf> {
    let sessions = base(places, None, notes)?.join("sessions");
    match make_all(&sessions) {
        Ok(()) => Some(sessions),
        Err(error) => {
            notes.push(format!("cannot create {}: {error}", sessions.display()));
            None
        }
    }
}

/// The first of `places` in which oomph's directory can be used; `below` is the longest path in it
/// that must fit a socket. Why earlier ones can't be used goes to `notes`.
fn base(places: &[BaseDir], below: Option<&str>, notes: &mut Vec<String>) -> Option<PathBuf> {
    let mut refused = Vec::new();
    // One that the probe cannot be loaded from still serves for the keeper's socket, if there is no other.
    let (loadable, rest): (Vec<_>, Vec<_>) = places
        .iter()
        .partition(|place| below.is_none() || is_loadable(&place.oomph()));
    if let (Some(place), false) = (rest.first(), loadable.is_empty()) {
        refused.push(format!(
            "{} cannot be used: PYTHONPATH, by which the probe is found, cannot contain a colon",
            place.oomph().display()
        ));
    }
    let had = loadable.into_iter().chain(rest).find_map(|place| {
        let base = place.oomph();
        match take(place, &base, below) {
            Ok(()) => Some(base),
            Err(reason) => {
                refused.push(format!("{} cannot be used: {reason}", base.display()));
                None
            }
        }
    });
    if let (Some(base), Some(last)) = (&had, refused.last_mut()) {
        last.push_str(&format!("; using {} instead", base.display()));
    }
    notes.append(&mut refused);
    had
}

/// Whether Python can find modules below `base`: a colon separates the entries of PYTHONPATH.
fn is_loadable(base: &Path) -> bool {
    !base.as_os_str().as_bytes().contains(&b':')
}

fn take(place: &BaseDir, base: &Path, below: Option<&str>) -> Result<(), String> {
    let length = base.as_os_str().len() + below.map_or(0, str::len);
    if below.is_some() && length > LONGEST_SOCKET_PATH {
        return Err("its path is too long for a socket".into());
    }
    match place {
        BaseDir::Own(_) => make_private(base).map_err(|error| error.to_string()),
        BaseDir::Given(_) | BaseDir::Shared(_) => make_or_take(base),
    }
}

/// Creates a directory with a new name in each of `parents`, and returns the name: one that isn't
/// `taken` by a session of another environment.
fn make_in_all(
    stem: &str,
    parents: &[&Path],
    taken: impl Fn(&str) -> bool,
) -> Result<String, String> {
    for attempt in 1..=SAME_SECOND {
        let id = match attempt {
            1 => stem.to_string(),
            n => format!("{stem}-{n}"),
        };
        if taken(&id) {
            continue;
        }
        let mut made: Vec<PathBuf> = Vec::new();
        let result = parents.iter().try_for_each(|parent| {
            let dir = parent.join(&id);
            make_new(&dir)
                .map(|()| made.push(dir.clone()))
                .map_err(|error| (dir, error))
        });
        let Err((dir, error)) = result else {
            return Ok(id);
        };
        for dir in made {
            // It is empty and ours; if it stays, it is merely superfluous.
            let _ = fs::remove_dir(dir);
        }
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(format!("cannot create {}: {error}", dir.display()));
        }
    }
    Err(format!(
        "there are already {SAME_SECOND} sessions named {stem}"
    ))
}

/// The program's name as part of a file name: `python3`, `train.py`, `torchrun`.
fn shown_name(program: &Word) -> String {
    let text = program.to_string_lossy();
    let name = text.rsplit('/').next().unwrap_or_default();
    let safe: String = name
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => c,
            _ => '_',
        })
        .take(PROGRAM_SHOWN)
        .collect();
    match safe.trim_start_matches(['.', '-']) {
        "" => "command".into(),
        name => name.into(),
    }
}

/// A name as long as a session's, with a socket in it.
const SOCKET_BELOW: &str = "/20261231-235959-0123456789abcdef01234567/keeper.sock";

/// A candidate for a session's files, looked at without making anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// oomph's directory in it, which need not exist.
    pub path: PathBuf,
    /// Why it can't be used.
    pub problem: Option<String>,
    pub free: Option<Bytes>,
}

/// Looks at each of `places`; `sockets` need short paths.
pub fn examine(places: &[BaseDir], sockets: bool) -> Vec<Examined> {
    places
        .iter()
        .map(|place| examined(place, sockets))
        .collect()
}

fn examined(place: &BaseDir, sockets: bool) -> Examined {
    let path = place.oomph();
    let free = existing(&path)
        .and_then(|there| statvfs(there).ok())
        .map(|about| Bytes(about.blocks_available() * about.fragment_size()));
    Examined {
        problem: problem(place, &path, sockets),
        path,
        free,
    }
}

fn problem(place: &BaseDir, path: &Path, sockets: bool) -> Option<String> {
    if sockets && path.as_os_str().len() + SOCKET_BELOW.len() > LONGEST_SOCKET_PATH {
        return Some("its path is too long for a socket".into());
    }
    // Only a directory of the user's own is created with those above it.
    match place {
        BaseDir::Own(_) => {}
        BaseDir::Given(base) | BaseDir::Shared(base) => {
            if !base.is_dir() {
                return Some(format!("there is no {}", base.display()));
            }
            if let Some(risk) = rename_risk(base) {
                return Some(risk);
            }
            if path.symlink_metadata().is_ok()
                && let Some(reason) = refusal(path)
            {
                return Some(reason);
            }
        }
    }
    let Some(there) = existing(path) else {
        return Some("nothing above it exists".into());
    };
    if !there.is_dir() {
        return Some(format!("{} is not a directory", there.display()));
    }
    let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
    let denied = access(there, wanted).err()?;
    Some(format!(
        "cannot write to {}: {}",
        there.display(),
        denied.desc()
    ))
}

/// The path, or the nearest one above it that exists.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|path| path.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixListener;

    fn places(dir: &Path) -> BaseDirs {
        BaseDirs {
            elsewhere: Vec::new(),
            state: vec![
                BaseDir::Own(dir.join("home/.local/state")),
                BaseDir::Shared(dir.to_owned()),
            ],
            runtime: vec![
                BaseDir::Given(dir.join("run")),
                BaseDir::Shared(dir.to_owned()),
            ],
        }
    }

    fn create(dir: &Path) -> Directories {
        let now = jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0);
        Directories::create(&Word::from("/usr/bin/python3"), now, &places(dir))
    }

    #[test]
    fn two_sessions_of_one_second_have_directories_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        let (first, second) = (create(dir.path()), create(dir.path()));
        assert_eq!(first.id, "20260304-050607-python3");
        assert_eq!(second.id, "20260304-050607-python3-2");
        for session in [&first, &second] {
            assert_eq!(session.notes, [] as [String; 0]);
            for made in [&session.state, &session.runtime] {
                let made = made.as_ref().unwrap();
                assert!(made.ends_with(&session.id));
                assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
            }
            UnixListener::bind(session.probe_socket().unwrap()).unwrap();
        }
        first.remove_runtime().unwrap();
        assert!(!first.runtime.as_ref().unwrap().exists());
        assert!(second.runtime.as_ref().unwrap().exists());
        first.remove_runtime().unwrap();
    }

    #[test]
    fn a_name_taken_in_one_place_is_taken_in_neither() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("run/oomph/20260304-050607-python3");
        make_all(&taken).unwrap();
        let session = create(dir.path());
        assert_eq!(session.id, "20260304-050607-python3-2");
        let sessions = dir.path().join("home/.local/state/oomph/sessions");
        assert_eq!(fs::read_dir(sessions).unwrap().count(), 1);
    }

    #[test]
    fn a_name_of_another_environment_is_not_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut login = places(dir.path());
        login.elsewhere = vec![BaseDir::Given(dir.path().join("cron"))];
        make_all(&dir.path().join("cron/oomph/20260304-050607-python3")).unwrap();
        let now = jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0);
        let session = Directories::create(&Word::from("python3"), now, &login);
        assert_eq!(session.id, "20260304-050607-python3-2");
    }

    #[test]
    fn a_place_that_cannot_be_used_is_passed_over_in_words() {
        let dir = tempfile::tempdir().unwrap();
        // A file where the home directory should be: permission bits don't stop root.
        fs::write(dir.path().join("home"), "").unwrap();
        fs::write(dir.path().join("run"), "").unwrap();
        let session = create(dir.path());
        assert_eq!(session.notes.len(), 2, "{:?}", session.notes);
        assert!(session.notes[0].contains("home/.local/state/oomph cannot be used: "));
        assert!(session.notes[0].contains("; using "));
        assert!(session.state.unwrap().is_dir());
        assert!(session.runtime.unwrap().is_dir());
    }

    #[test]
    fn without_any_place_there_is_still_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = BaseDirs {
            elsewhere: Vec::new(),
            state: vec![BaseDir::Shared(dir.path().join("missing"))],
            runtime: Vec::new(),
        };
        let now = jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0);
        let session = Directories::create(&Word::from("x"), now, &nowhere);
        assert_eq!((&session.state, &session.runtime), (&None, &None));
        assert!(session.id.starts_with("20260304-050607-x"));
        assert!(session.recording().is_none() && session.probe_socket().is_none());
        assert!(
            session
                .notes
                .iter()
                .any(|note| note.contains("not recorded"))
        );
        assert!(session.notes.iter().any(|note| note.contains("probe")));
        session.remove_runtime().unwrap();
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("l".repeat(90));
        make_all(&long).unwrap();
        let mut places = places(dir.path());
        places.runtime = vec![BaseDir::Given(long), BaseDir::Shared(dir.path().to_owned())];
        let now = jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0);
        let session = Directories::create(&Word::from("x"), now, &places);
        assert!(session.notes[0].contains("too long"), "{:?}", session.notes);
        assert!(session.runtime.unwrap().starts_with(dir.path()));
    }

    #[test]
    fn a_path_that_pythonpath_cannot_contain_is_the_last_resort() {
        let dir = tempfile::tempdir().unwrap();
        let colon = dir.path().join("run:1");
        make_all(&colon).unwrap();
        let mut places = places(dir.path());
        let now = jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0);
        places.runtime = vec![
            BaseDir::Given(colon.clone()),
            BaseDir::Shared(dir.path().to_owned()),
        ];
        let session = Directories::create(&Word::from("x"), now, &places);
        assert!(session.notes[0].contains("colon"), "{:?}", session.notes);
        assert!(session.notes[0].contains("; using "), "{:?}", session.notes);
        let runtime = session.runtime.unwrap();
        assert!(is_loadable(&runtime), "{}", runtime.display());
        places.runtime.pop();
        let session = Directories::create(&Word::from("x"), now, &places);
        assert!(session.runtime.unwrap().starts_with(&colon));
    }

    #[test]
    fn a_home_that_others_may_read_is_the_users_business() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("home/.local/state/oomph");
        make_all(&ours).unwrap();
        for path in [ours.parent().unwrap(), &ours] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o775)).unwrap();
        }
        let session = create(dir.path());
        assert!(session.state.unwrap().starts_with(&ours));
        assert_eq!(fs::metadata(&ours).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn names_are_fit_for_files() {
        for (program, name) in [
            ("/usr/bin/python3", "python3"),
            ("./train.sh", "train.sh"),
            ("..", "command"),
            ("", "command"),
            ("a b/ü;rm -rf", "__rm_-rf"),
            (&"x".repeat(99), &"x".repeat(PROGRAM_SHOWN)),
        ] {
            assert_eq!(shown_name(&Word::from(program)), name);
        }
    }

    #[test]
    fn what_would_be_refused_is_refused_and_nothing_is_made() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let file = root.join("file");
        fs::write(&file, "").unwrap();
        let open = root.join("open");
        fs::create_dir(&open).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&open, mode).unwrap();
        for (place, sockets, problem) in [
            (BaseDir::Own(root.join("new/deep")), false, None),
            (BaseDir::Own(root.into()), true, None),
            (BaseDir::Own(file.join("x")), false, Some("not a directory")),
            (
                BaseDir::Given(root.join("none")),
                false,
                Some("there is no"),
            ),
            (BaseDir::Shared(open), false, Some("other users can write")),
            (
                BaseDir::Own(root.join("x".repeat(99))),
                true,
                Some("too long"),
            ),
        ] {
            let examined = examine(std::slice::from_ref(&place), sockets);
            let found = examined[0].problem.as_deref();
            match problem {
                None => assert_eq!(found, None, "{place:?}"),
                Some(words) => assert!(
                    found.is_some_and(|found| found.contains(words)),
                    "{found:?}"
                ),
            }
            assert!(examined[0].free.is_some() || problem.is_some(), "{place:?}");
            assert!(!root.join("new").exists());
        }
    }
}
