//! Finds the file that a command's first word names, as `execvp` would, or the reason why there is
//! none.
//!
//! The front asks before it draws anything. The keeper asks again when it starts the program, and
//! [`Missing::explain`] puts `exec`'s own error into words.

use super::missing::{Missing, MissingReason};
use crate::command::CommandLine;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::{AccessFlags, faccessat};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
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
    let not_found = |here| Missing::of(Path::new(name), MissingReason::NotFound { here });
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
    let missing = |reason| Err(Missing::of(path, reason));
    match std::fs::metadata(&real) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) | None => missing(MissingReason::NoSuchFile),
            Some(libc::EACCES) => missing(MissingReason::NotPermitted),
            Some(errno) => missing(MissingReason::Errno(errno)),
        },
        Ok(about) if about.is_dir() => missing(MissingReason::Directory),
        Ok(_) => match faccessat(AT_FDCWD, &real, AccessFlags::X_OK, AtFlags::AT_EACCESS) {
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
        Missing::of(path, reason)
    }
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
}
