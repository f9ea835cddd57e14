//! Why a command cannot be run: its exit status, and what to say and suggest.

use nix::errno::Errno;
use nix::libc;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a command cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A name without a slash that is in no directory of PATH.
    NotFound {
        /// The name.
        name: OsString,
        /// The same name in the working directory, where there is one.
        here: bool,
    },
    /// A path at which there is nothing.
    NoSuchFile {
        /// The path.
        path: PathBuf,
    },
    /// A directory.
    Directory {
        /// Its path.
        path: PathBuf,
    },
    /// A file that may not be executed.
    NotPermitted {
        /// Its path.
        path: PathBuf,
    },
    /// A script whose interpreter is missing.
    NoInterpreter {
        /// The script.
        path: PathBuf,
        /// What its first line asks for, or `None` for a program without its loader.
        interpreter: Option<OsString>,
    },
    /// A file that no part of the system can run.
    NotRunnable {
        /// Its path.
        path: PathBuf,
    },
    /// Anything else that `exec` or the steps before it may say.
    Other {
        /// The path that was tried.
        path: PathBuf,
        /// The system's error number.
        errno: i32,
    },
}

impl Missing {
    /// What to exit with: 127 where something is not there, 126 where it cannot be executed.
    pub fn status(&self) -> i32 {
        match self {
            Missing::NotFound { .. }
            | Missing::NoSuchFile { .. }
            | Missing::NoInterpreter { .. } => 127,
            Missing::Directory { .. }
            | Missing::NotPermitted { .. }
            | Missing::NotRunnable { .. }
            | Missing::Other { .. } => 126,
        }
    }

    /// The system's number for it.
    pub fn errno(&self) -> i32 {
        match self {
            Missing::NotFound { .. }
            | Missing::NoSuchFile { .. }
            | Missing::NoInterpreter { .. } => libc::ENOENT,
            Missing::Directory { .. } | Missing::NotPermitted { .. } => libc::EACCES,
            Missing::NotRunnable { .. } => libc::ENOEXEC,
            Missing::Other { errno, .. } => *errno,
        }
    }

    /// The path or name that was tried.
    pub fn path(&self) -> &Path {
        match self {
            Missing::NotFound { name, .. } => Path::new(name),
            Missing::NoSuchFile { path }
            | Missing::Directory { path }
            | Missing::NotPermitted { path }
            | Missing::NoInterpreter { path, .. }
            | Missing::NotRunnable { path }
            | Missing::Other { path, .. } => path,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path().display();
        match self {
            Missing::NotFound { name, .. } if name.is_empty() => {
                write!(f, "the command's first word is empty; name a program")
            }
            Missing::NotFound { name, .. } if name.as_bytes().ends_with(b".py") => {
                write!(f, "{path}: not found in PATH; did you mean: python {path}?")
            }
            Missing::NotFound { here: true, .. } => {
                write!(
                    f,
                    "{path}: not found in PATH; to run the one in this directory, type ./{path}"
                )
            }
            Missing::NotFound { here: false, .. } => write!(
                f,
                "{path}: not found in PATH; is it installed, and its environment active?"
            ),
            Missing::NoSuchFile { .. } => {
                write!(f, "{path}: no such file; check the path")
            }
            Missing::Directory { .. } => {
                write!(f, "{path}: is a directory; name a program in it")
            }
            Missing::NotPermitted { path: file } => {
                write!(f, "{path}: permission denied; ")?;
                match file.extension().and_then(OsStr::to_str) {
                    Some("py") => write!(f, "put python before it, or chmod +x {path}"),
                    Some("sh") => write!(f, "put sh before it, or chmod +x {path}"),
                    Some(_) | None => write!(f, "chmod +x {path}, if it is a program"),
                }
            }
            Missing::NoInterpreter {
                interpreter: Some(program),
                ..
            } if program.as_bytes().ends_with(b"\r") => write!(
                f,
                "{path}: its first line has a Windows line ending, so its interpreter is not found; run dos2unix {path}"
            ),
            Missing::NoInterpreter {
                interpreter: Some(program),
                ..
            } => write!(
                f,
                "{path}: its interpreter {} is missing; fix the first line or install the interpreter (was a virtual environment moved?)",
                program.display()
            ),
            Missing::NoInterpreter {
                interpreter: None, ..
            } => write!(
                f,
                "{path}: exists, but the loader it was built for does not: it was built for another system"
            ),
            Missing::NotRunnable { .. } => write!(
                f,
                "{path}: not a program that this machine can run; was it built for another, or is it truncated?"
            ),
            Missing::Other {
                errno: libc::E2BIG, ..
            } => write!(
                f,
                "{path}: its arguments and environment are too long; pass long lists in a file"
            ),
            Missing::Other { errno, .. } => {
                write!(f, "{path}: {}", Errno::from_raw(*errno).desc())
            }
        }
    }
}

impl std::error::Error for Missing {}
