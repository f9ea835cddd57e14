//! Why a command can't be run: exit code, message and suggestion.

use nix::errno::Errno;
use nix::libc;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a command can't be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The path or name that was tried.
    pub path: PathBuf,
    pub(super) reason: MissingReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MissingReason {
    /// A name without a slash that is in no directory of PATH; whether the working directory has a
    /// file of that name.
    NotFound {
        here: bool,
    },
    NoSuchFile,
    Directory,
    /// A file that may not be executed.
    NotPermitted,
    /// A script whose interpreter is missing: what its first line asks for, or `None` for a program
    /// without its loader.
    NoInterpreter(Option<OsString>),
    /// A file that no part of the system can run.
    NotRunnable,
    /// Anything else that `exec` or the steps before it may say.
    Errno(i32),
}

impl Missing {
    /// The name, if no directory of `PATH` has such a program.
    pub fn unknown_name(&self) -> Option<&Path> {
        matches!(self.reason, MissingReason::NotFound { .. }).then_some(self.path.as_path())
    }

    pub(super) fn of(path: &Path, reason: MissingReason) -> Missing {
        Missing {
            path: path.to_path_buf(),
            reason,
        }
    }

    /// The exit code, 127 if something doesn't exist and 126 if it can't be executed, and the errno.
    fn codes(&self) -> (i32, i32) {
        match self.reason {
            MissingReason::NotFound { .. }
            | MissingReason::NoSuchFile
            | MissingReason::NoInterpreter(_) => (127, libc::ENOENT),
            MissingReason::Directory | MissingReason::NotPermitted => (126, libc::EACCES),
            MissingReason::NotRunnable => (126, libc::ENOEXEC),
            MissingReason::Errno(errno) => (126, errno),
        }
    }

    /// What to exit with.
    pub fn status(&self) -> i32 {
        self.codes().0
    }

    pub fn errno(&self) -> i32 {
        self.codes().1
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let name = self.path.as_os_str().as_bytes();
        let extension = self.path.extension().and_then(OsStr::to_str);
        match &self.reason {
            MissingReason::NotFound { .. } if name.is_empty() => {
                write!(f, "the command's first word is empty; name a program")
            }
            MissingReason::NotFound { .. } if name.ends_with(b".py") => {
                write!(f, "{path}: not found in PATH; did you mean: python {path}?")
            }
            MissingReason::NotFound { here: true } => write!(
                f,
                "{path}: not found in PATH; to run the one in this directory, type ./{path}"
            ),
            MissingReason::NotFound { here: false } => write!(
                f,
                "{path}: not found in PATH; is it installed, and its environment active?"
            ),
            MissingReason::NoSuchFile => write!(f, "{path}: no such file; check the path"),
            MissingReason::Directory => write!(f, "{path}: is a directory; name a program in it"),
            MissingReason::NotPermitted => {
                write!(f, "{path}: permission denied; ")?;
                match extension {
                    Some("py") => write!(f, "put python before it, or chmod +x {path}"),
                    Some("sh") => write!(f, "put sh before it, or chmod +x {path}"),
                    Some(_) | None => write!(f, "chmod +x {path}, if it is a program"),
                }
            }
            MissingReason::NoInterpreter(Some(program)) if program.as_bytes().ends_with(b"\r") => {
                write!(
                    f,
                    "{path}: its first line has a Windows line ending, so its interpreter is not found; run dos2unix {path}"
                )
            }
            MissingReason::NoInterpreter(Some(program)) => write!(
                f,
                "{path}: its interpreter {} is missing; fix the first line or install the interpreter (was a virtual environment moved?)",
                program.display()
            ),
            MissingReason::NoInterpreter(None) => write!(
                f,
                "{path}: exists, but the loader it was built for does not: it was built for another system"
            ),
            MissingReason::NotRunnable => write!(
                f,
                "{path}: not a program that this machine can run; was it built for another, or is it truncated?"
            ),
            MissingReason::Errno(libc::E2BIG) => write!(
                f,
                "{path}: its arguments and environment are too long; pass long lists in a file"
            ),
            MissingReason::Errno(errno) => write!(f, "{path}: {}", Errno::from_raw(*errno).desc()),
        }
    }
}

impl std::error::Error for Missing {}
