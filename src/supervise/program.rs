//! What is executed for a command: the file that its first word names, as `execvp` would find it, and the
//! environment. Or, in words, why it can't be: exit code, message and suggestion.
//!
//! The front asks before it draws anything. The keeper asks again when it starts the program, and
//! [`Missing::explain`] puts `exec`'s own error into words. The environment is the user's without what is
//! wrong on our screen. Nothing is added that changes how a program buffers: a variable is inherited by
//! everything below, and an unbuffered Python loses output (its raw writes may be cut short) and tears the
//! lines of ranks that share a pipe.

use crate::command::{CommandLine, EnvChange};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::{AccessFlags, access, faccessat};
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where `execvp` searches if the environment has no PATH (`confstr(_CS_PATH)` of glibc).
const USUAL_PATH: &str = "/bin:/usr/bin";

/// How many bytes of a file the kernel reads to identify it (`BINPRM_BUF_SIZE`).
const HEAD: usize = 256;

/// The file that `command` would run. `inherited_path` is oomph's own PATH; the command may set
/// another. Relative directories start at the command's working directory, as they will for the
/// kernel.
pub fn resolve(command: &CommandLine, inherited_path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    let name = command
        .argv
        .first()
        .map_or(OsStr::new(""), |word| word.0.as_os_str());
    let cwd = command.cwd.as_path();
    let not_found = |here| Missing::new(Path::new(name), MissingReason::NotFound { here });
    if name.is_empty() {
        return Err(not_found(false));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return check(cwd, &path).map(|()| path);
    }
    let set = command.env.iter().rev().find(|c| c.name == *"PATH");
    let search = match set {
        Some(change) => change.value.as_ref().map(|value| value.0.as_os_str()),
        None => inherited_path,
    }
    .unwrap_or(OsStr::new(USUAL_PATH));
    // As execvp: the search continues after a file that may not be executed.
    let mut refused = None;
    for directory in search.as_bytes().split(|byte| *byte == b':') {
        let directory = match directory {
            b"" => OsStr::new("."),
            some => OsStr::from_bytes(some),
        };
        let path = Path::new(directory).join(name);
        match check(cwd, &path) {
            Ok(()) => return Ok(path),
            // A directory with that name isn't a program: shells skip it.
            Err(why)
                if matches!(
                    why.reason,
                    MissingReason::NoSuchFile | MissingReason::Directory
                ) => {}
            Err(why) if why.reason == MissingReason::NotPermitted => {
                refused = refused.or(Some(why))
            }
            // A script without its interpreter is found, and fails, as with execvp.
            Err(why) => return Err(why),
        }
    }
    Err(refused.unwrap_or_else(|| not_found(cwd.join(name).is_file())))
}

fn check(cwd: &Path, path: &Path) -> Result<(), Missing> {
    let real = cwd.join(path);
    let missing = |reason| Err(Missing::new(path, reason));
    match std::fs::metadata(&real) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) | None => missing(MissingReason::NoSuchFile),
            Some(libc::EACCES) => missing(MissingReason::NotPermitted),
            Some(errno) => missing(MissingReason::Errno(errno)),
        },
        Ok(about) if about.is_dir() => missing(MissingReason::Directory),
        Ok(_) => match may_be_run(&real) {
            Ok(()) => match interpreter(&real) {
                Some(program) if !cwd.join(&program).exists() => {
                    missing(MissingReason::NoInterpreter(Some(program)))
                }
                Some(_) | None => Ok(()),
            },
            Err(Errno::EACCES | Errno::EPERM) => missing(MissingReason::NotPermitted),
            Err(errno) => missing(MissingReason::Errno(errno as i32)),
        },
    }
}

/// Whether this user may execute a file. A sandbox that is older than the system call refuses it (faccessat2 in Docker before
/// 20.10), which says nothing of the file.
fn may_be_run(file: &Path) -> nix::Result<()> {
    match faccessat(AT_FDCWD, file, AccessFlags::X_OK, AtFlags::AT_EACCESS) {
        Err(Errno::EPERM | Errno::ENOSYS) => access(file, AccessFlags::X_OK),
        answer => answer,
    }
}

fn head(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Opening a FIFO would wait for its writer.
    if path.is_file()
        && let Ok(file) = std::fs::File::open(path)
    {
        let _ = file.take(HEAD as u64).read_to_end(&mut bytes);
    }
    bytes
}

/// The interpreter in a script's first line, parsed as the kernel does.
fn interpreter(path: &Path) -> Option<OsString> {
    let bytes = head(path);
    let line = bytes
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = line.trim_ascii_start();
    let end = line
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | 0))
        .unwrap_or(line.len());
    let (program, _) = line.split_at_checked(end)?;
    (!program.is_empty()).then(|| OsStr::from_bytes(program).to_os_string())
}

/// Whether `/bin/sh` should try a file that the kernel can't run: `execvp` passes it every such file,
/// but one with a NUL in its head is a program for another machine, not a script.
pub(super) fn is_for_a_shell(path: &Path) -> bool {
    !head(path).contains(&0)
}

/// Why a command can't be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The path or name that was tried.
    pub path: PathBuf,
    reason: MissingReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MissingReason {
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
    /// What an error of `exec`, or of a step before it, on `path` means.
    pub fn explain(cwd: &Path, path: &Path, errno: i32) -> Missing {
        let reason = match (errno, check(cwd, path)) {
            (libc::ENOENT | libc::EACCES, Err(why)) => return why,
            (libc::ENOENT, Ok(())) => MissingReason::NoInterpreter(interpreter(&cwd.join(path))),
            (libc::ENOTDIR, _) => MissingReason::NoSuchFile,
            (libc::EACCES, Ok(())) => MissingReason::NotPermitted,
            (libc::ENOEXEC | libc::ELIBBAD, _) => MissingReason::NotRunnable,
            (errno, _) => MissingReason::Errno(errno),
        };
        Missing::new(path, reason)
    }

    /// The name, if no directory of `PATH` has such a program.
    pub fn unknown_name(&self) -> Option<&Path> {
        matches!(self.reason, MissingReason::NotFound { .. }).then_some(self.path.as_path())
    }

    fn new(path: &Path, reason: MissingReason) -> Missing {
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

/// Variables that describe the user's own terminal, beside all that begin with `TERM_PROGRAM`.
/// rich prefers COLUMNS to the size of the terminal, which is our screen's.
const OF_THE_TERMINAL: [&str; 4] = ["KITTY_WINDOW_ID", "VTE_VERSION", "COLUMNS", "LINES"];

/// Variables in the order in which a program finds them, one that is there twice included: `getenv` takes the first.
pub(super) type Environment = Vec<(OsString, OsString)>;

/// The trainer's environment. On our screen the trainer writes to another terminal than the user's. The
/// command's own `changes` take precedence.
pub(super) fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    changes: &[EnvChange],
    on_our_screen: bool,
) -> Environment {
    let mut env: Environment = inherited.collect();
    if on_our_screen {
        env.retain(|(name, _)| {
            !name.as_bytes().starts_with(b"TERM_PROGRAM")
                && OF_THE_TERMINAL.iter().all(|other| name != other)
        });
        set(&mut env, OsStr::new("TERM"), Some("xterm-256color".into()));
    }
    changed(env, changes)
}

/// An environment with the command's own changes.
pub(super) fn changed(mut env: Environment, changes: &[EnvChange]) -> Environment {
    for change in changes {
        let value = change.value.as_ref().map(|value| value.0.clone());
        set(&mut env, &change.name.0, value);
    }
    env
}

/// A variable has this value, at its place or behind the others, or is not there.
fn set(env: &mut Environment, name: &OsStr, mut value: Option<OsString>) {
    env.retain_mut(|(other, old)| {
        if other != name {
            return true;
        }
        // A second one of the name would be an older value.
        value.take().map(|value| *old = value).is_some()
    });
    env.extend(value.map(|value| (name.to_os_string(), value)));
}

/// In the form that `exec` takes. A variable that contains a NUL can't be passed on by anybody.
pub(super) fn for_exec(env: Environment) -> Vec<CString> {
    env.into_iter()
        .filter_map(|(mut entry, value)| {
            entry.push("=");
            entry.push(value);
            CString::new(entry.into_vec()).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;
    use std::os::unix::fs::PermissionsExt;

    fn command(cwd: &Path, first: &str) -> CommandLine {
        CommandLine {
            argv: vec![first.into()],
            env: Vec::new(),
            cwd: cwd.to_path_buf(),
        }
    }

    fn file(directory: &Path, name: &str, content: &str, mode: u32) {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn each_way_to_be_missing_has_its_status_and_its_mend() {
        let directory = tempfile::tempdir().unwrap();
        let d = directory.path();
        file(d, "plain.py", "print()\n", 0o644);
        file(d, "train", "#!/usr/bin/nopython3 -u\n", 0o755);
        file(d, "dos", "#!/bin/sh\r\necho\r\n", 0o755);
        file(d, "here", "#!/bin/sh\n", 0o755);
        std::fs::create_dir(d.join("dir")).unwrap();
        for (first, status, words) in [
            ("here", 127, "./here"),
            ("no-such-program-anywhere", 127, "not found in PATH"),
            ("./nothing", 127, "no such file"),
            ("./here/below", 127, "no such file"),
            ("./dir", 126, "is a directory"),
            ("./plain.py", 126, "put python before it"),
            ("./train", 127, "/usr/bin/nopython3"),
            ("./dos", 127, "dos2unix"),
            ("", 127, "first word is empty"),
        ] {
            let why = resolve(&command(d, first), Some(OsStr::new("/usr/bin:/bin"))).unwrap_err();
            assert_eq!(why.status(), status, "{first}: {why}");
            assert!(why.to_string().contains(words), "{first}: {why}");
        }
        assert_eq!(
            resolve(&command(d, "./here"), None),
            Ok(PathBuf::from("./here"))
        );
    }

    #[test]
    fn the_commands_own_path_is_searched_as_execvp_does() {
        let directory = tempfile::tempdir().unwrap();
        let d = directory.path();
        for part in ["a", "b", "c"] {
            std::fs::create_dir(d.join(part)).unwrap();
        }
        file(&d.join("a"), "tool", "", 0o644);
        std::fs::create_dir(d.join("b/tool")).unwrap();
        file(&d.join("c"), "tool", "#!/bin/sh\n", 0o755);
        let mut tool = command(d, "tool");
        tool.set_env("PATH", Some(Word::from("a:b:c")));
        assert_eq!(resolve(&tool, None), Ok(PathBuf::from("c/tool")));
        tool.set_env("PATH", Some(Word::from("a")));
        assert_eq!(
            resolve(&tool, None).unwrap_err().reason,
            MissingReason::NotPermitted
        );
        // An empty element is the working directory; no PATH at all is execvp's own.
        tool.cwd = d.join("c");
        tool.set_env("PATH", Some(Word::from("")));
        assert_eq!(resolve(&tool, None), Ok(PathBuf::from("./tool")));
        let mut sh = command(d, "sh");
        sh.set_env("PATH", None);
        assert_eq!(
            resolve(&sh, Some(OsStr::new("/nowhere"))),
            Ok("/bin/sh".into())
        );
    }

    #[test]
    fn scripts_without_a_first_line_are_for_a_shell_and_programs_are_not() {
        let directory = tempfile::tempdir().unwrap();
        file(directory.path(), "script", "echo hello\n", 0o755);
        file(directory.path(), "other", "\x7fELF\0\0", 0o755);
        assert!(is_for_a_shell(&directory.path().join("script")));
        assert!(!is_for_a_shell(&directory.path().join("other")));
    }

    fn given() -> impl Iterator<Item = (OsString, OsString)> {
        [
            ("TERM", "xterm-kitty"),
            ("TERM_PROGRAM", "x"),
            ("TERM_PROGRAM_VERSION", "1"),
            ("KITTY_WINDOW_ID", "3"),
            ("COLUMNS", "77"),
            ("COLORTERM", "truecolor"),
            ("NO_COLOR", "1"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into_iter()
    }

    #[test]
    fn on_our_screen_the_terminal_is_ours() {
        let env = environment(given(), &[], true);
        assert_eq!(
            for_exec(env),
            [
                c"TERM=xterm-256color",
                c"COLORTERM=truecolor",
                c"NO_COLOR=1"
            ]
            .map(CString::from)
        );
    }

    #[test]
    fn without_our_screen_the_environment_is_the_users() {
        let twice = || given().chain([("TERM".into(), "dumb".into())]);
        let users: Environment = twice().collect();
        assert_eq!(environment(twice(), &[], false), users);
    }

    #[test]
    fn the_command_has_the_last_word() {
        let changes = [
            EnvChange {
                name: "COLUMNS".into(),
                value: Some(Word::from("50")),
            },
            EnvChange {
                name: "NO_COLOR".into(),
                value: None,
            },
        ];
        let env = environment(given(), &changes, true);
        assert_eq!(
            for_exec(env),
            [
                c"TERM=xterm-256color",
                c"COLORTERM=truecolor",
                c"COLUMNS=50"
            ]
            .map(CString::from)
        );
        let twice = given().chain([("COLUMNS".into(), "90".into())]);
        let env = environment(twice, &changes, false);
        let columns: Vec<_> = env.iter().filter(|(name, _)| name == "COLUMNS").collect();
        assert_eq!(columns, [&("COLUMNS".into(), "50".into())]);
    }
}
