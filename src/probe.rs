//! The Python that runs inside the training process: embedded in the binary, written to disk for a
//! session, and loaded into the command through its environment.
//!
//! The Python files in `probe/python/` explain how the probe works: a loader that every interpreter of
//! the program runs, and the probe itself, which waits for `import torch`. This module knows where the
//! files go and how Python finds them; [`crate::event`] defines what they report, and `collect`
//! listens.

mod files;

use crate::command::{EnvChange, Word};
use crate::units::RunNumber;
use files::{files, folders};
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the directory for PyTorch's own snapshots; without it none is saved.
pub const SNAPSHOT_VARIABLE: &str = "OOMPH_PROBE_SNAPSHOT";

/// The probe's directory in a spool, where processes of other nodes find it.
const IN_SPOOL: &str = "probe";

/// As many copies are made of one content where earlier ones were changed.
const COPIES: u32 = 8;

/// The ways by which a probe reaches the front.
#[derive(Debug, Clone, Copy)]
pub struct ProbeWays<'a> {
    /// For processes of this machine.
    pub socket: &'a Path,
    /// The directory of the modules for commands that may run on other nodes, where the session's own
    /// directory has a name that is free for anybody to take; and this machine's boot ID.
    pub modules: Option<(&'a Path, &'a str)>,
    /// The directory for those of other nodes.
    pub spool: Option<&'a Path>,
}

/// What the probe of a run does.
#[derive(Debug, Clone, Copy)]
pub struct ProbeOptions {
    /// Between two samples.
    pub interval: Duration,
    /// Records which lines allocate.
    pub lines: bool,
    /// Which step it rehearses.
    pub rehearses: RehearsedStep,
}

/// Which step is rehearsed, which takes up to seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RehearsedStep {
    /// None: nobody waits for what it says.
    No,
    /// The one that memory runs out in.
    OutOfMemory,
    /// The second one as well: by then the optimizer has its state.
    Second,
}

impl RehearsedStep {
    fn word(self) -> &'static str {
        match self {
            RehearsedStep::No => "0",
            RehearsedStep::OutOfMemory => "1",
            RehearsedStep::Second => "2",
        }
    }
}

/// The probe's files on disk, for one session.
#[derive(Debug, Clone)]
pub struct Installed {
    directory: PathBuf,
}

/// Writes the probe for the processes of other nodes, which see the session's `spool`.
///
/// # Errors
/// As [`install`].
pub fn install_in_spool(spool: &Path) -> io::Result<()> {
    install(&in_spool(spool)).map(drop)
}

/// Where the probe's files for other nodes are.
pub fn in_spool(spool: &Path) -> PathBuf {
    spool.join(IN_SPOOL)
}

/// Writes the probe into `directory`, creating that one if needed but none above it, which may just have been removed
/// (with the user's last logout): directories 0700, files 0600. The path is made absolute, since the training may change
/// its working directory.
///
/// # Errors
/// An I/O error names its path; a path with a colon is `InvalidInput`, since PYTHONPATH cannot
/// contain one.
pub fn install(directory: &Path) -> io::Result<Installed> {
    let directory = std::path::absolute(directory)?;
    if directory.as_os_str().as_bytes().contains(&b':') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{}: PYTHONPATH cannot contain a path with a colon; set XDG_RUNTIME_DIR or TMPDIR to a path without one",
                directory.display()
            ),
        ));
    }
    make_private(&directory)?;
    for folder in folders() {
        make_private(&directory.join(folder))?;
    }
    for (name, text) in files() {
        let path = directory.join(name);
        write_private(&path, text).map_err(|error| with_path(&path, error))?;
    }
    Ok(Installed { directory })
}

impl Installed {
    /// The probe that an earlier front of the session wrote to `directory`.
    pub fn found(directory: &Path) -> Installed {
        Installed {
            directory: directory.to_path_buf(),
        }
    }

    /// The directory to put first in PYTHONPATH.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The variables by which the command's processes find the probe, and the probe finds the front.
    /// `inherited` is the PYTHONPATH that the command would have without us.
    pub fn environment(
        &self,
        ways: ProbeWays<'_>,
        run: RunNumber,
        options: ProbeOptions,
        inherited: Option<&OsStr>,
    ) -> Vec<EnvChange> {
        let modules = ways.modules.map(|(modules, _)| modules);
        let mut python_path = OsString::from(modules.unwrap_or(&self.directory));
        // An empty PYTHONPATH counts as unset, but an empty entry in one is the working directory.
        if let Some(inherited) = inherited.filter(|path| !path.is_empty()) {
            python_path.push(":");
            python_path.push(inherited);
        }
        let switch = |is_on| Word::from(if is_on { "1" } else { "0" });
        [
            ("PYTHONPATH", Word::from(python_path)),
            ("OOMPH_PROBE_SOCKET", Word::from(ways.socket)),
            ("OOMPH_PROBE_RUN", Word::from(run.to_string())),
            (
                "OOMPH_PROBE_INTERVAL_MS",
                Word::from(options.interval.as_millis().to_string()),
            ),
            ("OOMPH_PROBE_LINES", switch(options.lines)),
            ("OOMPH_PROBE_REHEARSE", Word::from(options.rehearses.word())),
        ]
        .into_iter()
        .chain(
            ways.spool
                .map(|spool| ("OOMPH_PROBE_SPOOL", Word::from(spool))),
        )
        // The socket's name is as free on other nodes.
        .chain(
            ways.modules
                .map(|(_, boot)| ("OOMPH_PROBE_BOOT", Word::from(boot))),
        )
        .map(|(name, value)| EnvChange {
            name: Word::from(name),
            value: Some(value),
        })
        .collect()
    }
}

/// Creates the directory, whose parent exists.
fn make_private(directory: &Path) -> io::Result<()> {
    let made = match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    made.and_then(|()| make_ours_alone(directory))
        .map_err(|error| with_path(directory, error))
}

/// Creates the directory and those above it.
fn make_all_private(directory: &Path) -> io::Result<()> {
    (DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory))
    .and_then(|()| make_ours_alone(directory))
    .map_err(|error| with_path(directory, error))
}

// An existing directory keeps its mode, and the umask reduces the mode of a new one.
fn make_ours_alone(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Writes the probe into a directory of `parent` that later sessions find again: its name says what is in it, and
/// what is in it is looked at.
///
/// # Errors
/// As [`install`], or something else is there under each name.
pub fn install_by_content(parent: &Path) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    files().for_each(|file| file.hash(&mut hasher));
    let name = format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish());
    make_all_private(parent)?;
    for attempt in 0..COPIES {
        let directory = parent.join(format!("{name}-{attempt}"));
        if !directory.exists() {
            // Complete before it has its name: another session may be looking for it.
            let random = RandomState::new().build_hasher().finish();
            let unfinished = parent.join(format!(".{random:016x}"));
            install(&unfinished)?;
            if fs::rename(&unfinished, &directory).is_err() {
                let _ = fs::remove_dir_all(&unfinished);
            }
        }
        if is_as_installed(&directory) {
            return Ok(directory);
        }
    }
    Err(io::Error::other(format!(
        "{}: what is there is not the probe; remove it",
        parent.display()
    )))
}

/// Whether a directory has the probe's files as they are here, and no other module.
fn is_as_installed(directory: &Path) -> bool {
    let is_file = |path: &Path, text: &str| {
        fs::symlink_metadata(path)
            .is_ok_and(|about| about.is_file() && about.uid() == geteuid().as_raw())
            && fs::read(path).is_ok_and(|found| found == text.as_bytes())
    };
    files().all(|(name, text)| is_file(&directory.join(name), text))
        && !directory.join("__pycache__").exists()
        && files_below(directory) == files().count()
}

/// Files of any kind, without what Python has compiled. Folders of ours are plain ones: a link counts as a file.
fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name() != "__pycache__")
        .map(
            |entry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => files_below(&entry.path()),
                false => 1,
            },
        )
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of<'a>(changes: &'a [EnvChange], name: &str) -> &'a Word {
        let change = changes.iter().find(|change| change.name == *name);
        change.and_then(|change| change.value.as_ref()).unwrap()
    }

    #[test]
    fn files_and_directories_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("probe");
        // An existing directory that others can read is made private as well.
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        let installed = install(&directory).unwrap();
        for (name, text) in files() {
            let path = installed.directory().join(name);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&path), 0o600, "{name}");
            assert_eq!(mode(path.parent().unwrap()), 0o700, "{name}");
        }
    }

    #[test]
    fn the_probe_comes_first_in_pythonpath() {
        let directory = tempfile::tempdir().unwrap();
        let installed = install(directory.path()).unwrap();
        let ours = installed.directory().to_str().unwrap();
        for (inherited, expected) in [
            (None, ours.to_string()),
            (Some(""), ours.to_string()),
            (Some("/a:/b"), format!("{ours}:/a:/b")),
        ] {
            let changes = installed.environment(
                ProbeWays {
                    socket: Path::new("/run/s"),
                    modules: None,
                    spool: None,
                },
                RunNumber(3),
                ProbeOptions {
                    interval: Duration::from_millis(250),
                    lines: false,
                    rehearses: RehearsedStep::OutOfMemory,
                },
                inherited.map(OsStr::new),
            );
            assert_eq!(*value_of(&changes, "PYTHONPATH"), *expected);
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_SOCKET"), *"/run/s");
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_RUN"), *"3");
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_INTERVAL_MS"), *"250");
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_LINES"), *"0");
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_REHEARSE"), *"1");
        }
    }

    #[test]
    fn other_nodes_look_only_where_nobody_else_can_leave_a_module() {
        let options = ProbeOptions {
            interval: Duration::from_millis(100),
            lines: true,
            rehearses: RehearsedStep::No,
        };
        let ways = ProbeWays {
            socket: Path::new("/tmp/oomph-7/s/probe.sock"),
            modules: Some((Path::new("/home/ada/spool/probe"), "b00t")),
            spool: Some(Path::new("/home/ada/spool")),
        };
        for directory in ["/tmp/oomph-7/s", "/run/user/7/s"] {
            let installed = Installed::found(Path::new(directory));
            let inherited = Some(OsStr::new("/a"));
            let changes = installed.environment(ways, RunNumber(1), options, inherited);
            assert_eq!(
                *value_of(&changes, "PYTHONPATH"),
                *"/home/ada/spool/probe:/a"
            );
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_SPOOL"), *"/home/ada/spool");
            assert_eq!(*value_of(&changes, "OOMPH_PROBE_BOOT"), *"b00t");
        }
    }

    #[test]
    fn a_path_that_pythonpath_cannot_name_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let error = install(&parent.path().join("a:b")).unwrap_err();
        assert!(error.to_string().contains("colon"), "{error}");
        assert!(!parent.path().join("a:b").exists());
    }

    #[test]
    fn errors_name_the_path() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = install(&file.join("probe")).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }

    /// The directory of all sessions goes with the user's last logout, and may go while one is made again in it.
    #[test]
    fn a_directory_that_was_removed_is_not_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let removed = parent.path().join("run");
        install(&removed.join("session")).unwrap_err();
        assert!(!removed.exists());
    }

    #[test]
    fn a_copy_is_found_again_and_one_that_was_changed_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let first = install_by_content(home.path()).unwrap();
        assert_eq!(install_by_content(home.path()).unwrap(), first);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        // Python's own.
        fs::create_dir(first.join("oomph-probe/__pycache__")).unwrap();
        assert_eq!(install_by_content(home.path()).unwrap(), first);
        fs::write(first.join("sitecustomize.py"), "print('changed')").unwrap();
        let second = install_by_content(home.path()).unwrap();
        assert_ne!(second, first);
        fs::write(second.join("os.py"), "").unwrap();
        let third = install_by_content(home.path()).unwrap();
        assert!(third != first && third != second);
    }
}
