//! Where this user's files may lie on this machine: the candidates for a session's directories, directories
//! that only this user can enter, and by whose clock the ages of files are told. The only file in this
//! module that reads the environment.
//!
//! Directories (0700) are created and checked without following links: in `/tmp` anybody may have created
//! something with our name.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use nix::libc;
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Candidates, best first. Tests use their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseDirs {
    /// For recordings and logs, in an `oomph` directory.
    pub state: Vec<BaseDir>,
    /// For the session's private directory with sockets and the probe.
    pub runtime: Vec<BaseDir>,
    /// Other places in which sessions of this user may have theirs: started in another environment
    /// (a login, cron, `su -`), or moved.
    pub elsewhere: Vec<BaseDir>,
}

/// A directory in which oomph's own may lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseDir {
    /// The user's own directory, created (0700) if missing: `~/.local/state`. Its contents and
    /// permissions are the user's business.
    Own(PathBuf),
    /// Created by the system for this user only: `/run/user/1000`.
    Given(PathBuf),
    /// A directory for all users, which must exist: `/tmp`. Ours has the user's id in its name, so
    /// that users don't take each other's.
    Shared(PathBuf),
}

impl BaseDir {
    /// oomph's directory in it.
    pub(super) fn oomph(&self) -> PathBuf {
        match self {
            BaseDir::Own(base) | BaseDir::Given(base) => base.join("oomph"),
            BaseDir::Shared(base) => base.join(format!("oomph-{}", geteuid())),
        }
    }
}

impl BaseDirs {
    /// The directories in which this user's recorded sessions may be.
    pub fn recorded(&self) -> impl Iterator<Item = PathBuf> {
        self.state
            .iter()
            .map(|place| place.oomph().join("sessions"))
    }

    /// The first directory that holds this user's recorded sessions, if it is this user's alone: what is known beyond one
    /// session is kept there.
    pub fn beside_recordings(&self) -> Option<PathBuf> {
        let mut places = self.state.iter().map(BaseDir::oomph);
        places.find(|place| {
            fs::metadata(place).is_ok_and(|about| is_own_directory(&about) && is_ours_alone(&about))
        })
    }

    /// The directories in which this user's sessions may have their private ones.
    pub(super) fn private(&self) -> impl Iterator<Item = PathBuf> {
        let places = self.runtime.iter().chain(&self.elsewhere);
        places.map(BaseDir::oomph)
    }

    /// Whether some session has this name.
    pub(super) fn has(&self, id: &str) -> bool {
        let mut places = self.recorded().chain(self.private());
        places.any(|place| place.join(id).exists())
    }

    /// `$OOMPH_STATE_DIR` and `$OOMPH_RUNTIME_DIR` only, if they are set (a relative path is one of the
    /// working directory); else `$XDG_STATE_HOME` or `~/.local/state`, then `/var/tmp`, which survives a
    /// reboot; `$XDG_RUNTIME_DIR`, then `/tmp`, then `$TMPDIR`, then beside the recordings.
    pub fn of_this_user() -> BaseDirs {
        // Without a home directory only the shared ones remain.
        let xdg = Xdg::new().ok();
        let state_home = xdg.as_ref().and_then(Xdg::state_dir).and_then(users_own);
        let runtime_dir = xdg.as_ref().and_then(Xdg::runtime_dir);
        let set = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| !path.as_os_str().is_empty())
        };
        let given = |name| {
            // In a deleted working directory nothing can be made by a relative path: its error says so.
            set(name).map(|path| std::path::absolute(&path).unwrap_or(path))
        };
        let elsewhere = match given("OOMPH_RUNTIME_DIR") {
            Some(_) => Vec::new(),
            None => vec![
                BaseDir::Given(format!("/run/user/{}", geteuid()).into()),
                BaseDir::Shared("/tmp".into()),
            ],
        };
        // If no other can be trusted.
        let at_home = (state_home.as_ref()).map(|home| BaseDir::Own(home.join("oomph/run")));
        let alone = |name| given(name).map(|path| vec![BaseDir::Own(path)]);
        BaseDirs {
            elsewhere,
            state: alone("OOMPH_STATE_DIR").unwrap_or_else(|| {
                state_home
                    .map(BaseDir::Own)
                    .into_iter()
                    .chain([BaseDir::Shared("/var/tmp".into())])
                    .collect()
            }),
            runtime: alone("OOMPH_RUNTIME_DIR").unwrap_or_else(|| {
                runtime_dir
                    .map(BaseDir::Given)
                    .into_iter()
                    .chain([BaseDir::Shared("/tmp".into())])
                    .chain(
                        set("TMPDIR")
                            .filter(|path| path.is_absolute())
                            .map(BaseDir::Shared),
                    )
                    .chain(at_home)
                    .collect()
            }),
        }
    }
}

/// The names and paths in a directory of this user's; none where another user has created something with
/// our name in a shared directory. `about` says whether a link counts as what it leads to.
pub(super) fn own_entries(
    directory: PathBuf,
    about: impl Fn(&Path) -> io::Result<Metadata>,
) -> impl Iterator<Item = (String, PathBuf)> {
    let ours = about(&directory).is_ok_and(|about| is_own_directory(&about));
    let entries = ours.then(|| fs::read_dir(&directory).ok()).flatten();
    entries.into_iter().flatten().flatten().map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.path())
    })
}

const GROUP_AND_OTHERS: u32 = 0o077;
const WRITE_FOR_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Creates the directory `path` and its missing parents, with mode 0700.
pub(super) fn make_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates the directory `path` in the user's own directory, or takes away the permissions of
/// others if it exists. Follows links: the user may have moved oomph's directory to another disk.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    make_all(path)?;
    if fs::metadata(path)?.mode() & GROUP_AND_OTHERS != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Creates the directory `path`, mode 0700; an error if it exists.
pub(super) fn make_new(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates the directory `path`, or uses an existing one that is only ours.
///
/// Once it is known to be our directory in a place where nobody else may rename it (our own
/// directory, or a sticky one), nobody can replace it.
pub(super) fn make_or_take(path: &Path) -> Result<(), String> {
    if let Some(risk) = path.parent().and_then(rename_risk) {
        return Err(risk);
    }
    match make_new(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.to_string()),
    }
    refusal(path).map_or(Ok(()), Err)
}

/// Why a directory in `parent` could be replaced by another user, or that `parent` cannot be looked at.
pub(super) fn rename_risk(parent: &Path) -> Option<String> {
    let meta = match fs::metadata(parent) {
        Ok(meta) => meta,
        Err(error) => return Some(error.to_string()),
    };
    let others_may_rename = meta.mode() & WRITE_FOR_OTHERS != 0 && meta.mode() & STICKY == 0;
    let foreign = meta.uid() != geteuid().as_raw() && meta.uid() != 0;
    (others_may_rename || foreign).then(|| format!("other users can write to {}", parent.display()))
}

/// Why what is at `path` is not a directory of ours alone.
pub(super) fn refusal(path: &Path) -> Option<String> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) => return Some(error.to_string()),
    };
    if !meta.is_dir() {
        return Some("it exists and is not a directory".into());
    }
    if meta.uid() != geteuid().as_raw() {
        return Some(format!("it belongs to user {}", meta.uid()));
    }
    (meta.mode() & GROUP_AND_OTHERS != 0).then(|| {
        format!(
            "other users can enter it (mode {:o}, should be 700)",
            meta.mode() & 0o777
        )
    })
}

/// Whether something is a directory of this user's.
pub(super) fn is_own_directory(about: &Metadata) -> bool {
    about.is_dir() && about.uid() == geteuid().as_raw()
}

/// Whether something is this user's, and no other user may write to it.
pub(super) fn is_ours_alone(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw() && about.mode() & WRITE_FOR_OTHERS == 0
}

/// The parts of the file tree that every node has, and that anybody may make something in.
const ANYBODYS: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// The directory for what processes of other nodes load, below the home that they share: not made yet.
///
/// # Errors
/// Why there is none, or why it cannot be trusted.
pub fn place_below_home() -> Result<PathBuf, String> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.ok_or("there is no home directory")?;
    is_safe_to_load(&home)?;
    let place = home.join(".cache/oomph/probe");
    // A link on the way would lead elsewhere.
    make_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    is_safe_to_load(&place)?;
    Ok(place)
}

/// That every directory of a path, as it is named and as it is, belongs to this user or root, and nobody
/// else may write to it: then it is the same for every process that sees this file system, and nobody
/// can make it on a node that does not.
///
/// # Errors
/// Which one does not.
pub fn is_safe_to_load(path: &Path) -> Result<(), String> {
    let real = fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for place in path.ancestors().chain(real.ancestors()) {
        let name = place.display();
        if ANYBODYS.iter().any(|known| place == Path::new(known)) {
            return Err(format!("{} is below {name}", path.display()));
        }
        let about = fs::symlink_metadata(place).map_err(|error| format!("{name}: {error}"))?;
        if about.uid() != geteuid().as_raw() && about.uid() != 0 {
            return Err(format!("{name} belongs to user {}", about.uid()));
        }
        // A link's own mode says nothing.
        if !about.is_symlink() && about.mode() & WRITE_FOR_OTHERS != 0 {
            return Err(format!("other users can write to {name}"));
        }
    }
    Ok(())
}

/// Opens a file for reading that only this user can have written. Follows no link, and a FIFO does not
/// block.
///
/// # Errors
/// It is not such a file, or cannot be opened.
pub fn open_own(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let about = file.metadata()?;
    match about.is_file() && is_ours_alone(&about) {
        true => Ok(file),
        false => Err(io::Error::other("other users can write to it")),
    }
}

/// Threads of one process make files of different names.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The time now by the clock of the file server that `directory` is on, which may differ from this
/// machine's: of a file that is made for it. `None` where none can be made: a full disk.
pub(super) fn server_time(directory: &Path) -> Option<SystemTime> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".now-{}-{number}", std::process::id()));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|file| file.metadata()?.modified());
    let _ = fs::remove_file(&path);
    made.ok()
}

/// The place below the user's home directory, unless that is a relative path: then it would be one below the program's
/// working directory, where nothing of ours belongs.
fn users_own(place: PathBuf) -> Option<PathBuf> {
    place.is_absolute().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_relative_home_is_no_place_for_recordings() {
        assert_eq!(users_own("home/.local/state".into()), None);
        let usual = PathBuf::from("/home/u/.local/state");
        assert_eq!(users_own(usual.clone()), Some(usual));
    }

    #[test]
    fn a_directory_of_ours_is_made_and_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own");
        make_or_take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        make_or_take(&path).unwrap();
    }

    #[test]
    fn what_other_nodes_load_lies_where_nobody_else_can_make_anything() {
        let dir = tempfile::tempdir().unwrap();
        let said = is_safe_to_load(dir.path()).unwrap_err();
        assert!(said.contains("is below /"), "{said}");
        assert_eq!(is_safe_to_load(Path::new("/usr")), Ok(()));
        let link = dir.path().join("link");
        symlink("/usr", &link).unwrap();
        assert!(is_safe_to_load(&link).is_err());
        assert!(is_safe_to_load(Path::new("/run")).is_err());
        assert!(is_safe_to_load(Path::new("/no/such/place")).is_err());
    }

    #[test]
    fn what_others_could_have_put_there_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        make_new(&target).unwrap();

        let link = dir.path().join("link");
        symlink(&target, &link).unwrap();
        assert!(make_or_take(&link).unwrap_err().contains("not a directory"));

        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(make_or_take(&file).unwrap_err().contains("not a directory"));

        let open = dir.path().join("open");
        make_new(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make_or_take(&open).unwrap_err().contains("mode 755"));

        let anybodys = dir.path().join("anybodys");
        make_new(&anybodys).unwrap();
        fs::set_permissions(&anybodys, fs::Permissions::from_mode(0o777)).unwrap();
        let inside = anybodys.join("oomph");
        assert!(
            make_or_take(&inside)
                .unwrap_err()
                .contains("other users can write")
        );
        fs::set_permissions(&anybodys, fs::Permissions::from_mode(0o1777)).unwrap();
        make_or_take(&inside).unwrap();
    }
}
