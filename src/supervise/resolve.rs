//! Which file a command's first word names, found the way `execvp` finds it, and why none does.
//!
//! The front asks before it draws anything; the keeper asks again when it starts the program, and
//! has [`Missing::explain`] put `exec`'s own error into words. Looking is all that happens here.

use super::missing::Missing;
use crate::command::CommandLine;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::{AccessFlags, faccessat};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where `execvp` looks when the environment has no PATH (`confstr(_CS_PATH)` of glibc).
const USUAL_PATH: &str = "/bin:/usr/bin";

/// How much of a file the kernel reads to find out what it is (`BINPRM_BUF_SIZE`).
const HEAD: usize = 256;

/// The file that `command` would run, given the PATH that oomph itself got (the command may set
/// its own). Relative directories are taken from the command's working directory, as the kernel
/// will take them.
pub fn resolve(command: &CommandLine, inherited_path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    let name = command
        .argv
        .first()
        .map_or(OsStr::new(""), |word| word.0.as_os_str());
    let cwd = command.cwd.as_path();
    if name.is_empty() {
        return Err(Missing::NotFound {
            name: OsString::new(),
            here: false,
        });
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
    // As execvp: a file that may not be run is remembered, and the search goes on.
    let mut refused = None;
    for directory in search.as_bytes().split(|byte| *byte == b':') {
        let directory = match directory {
            b"" => OsStr::new("."),
            some => OsStr::from_bytes(some),
        };
        let path = Path::new(directory).join(name);
        match check(cwd, &path) {
            Ok(()) => return Ok(path),
            Err(Missing::NoSuchFile { .. }) => {}
            // A directory of that name is no program: shells pass over it.
            Err(Missing::Directory { .. }) => {}
            Err(why @ Missing::NotPermitted { .. }) => refused = refused.or(Some(why)),
            // A script without its interpreter is found, and fails, as with execvp.
            Err(why) => return Err(why),
        }
    }
    Err(refused.unwrap_or_else(|| Missing::NotFound {
        name: name.to_os_string(),
        here: seen_from(cwd, Path::new(name)).is_file(),
    }))
}

fn seen_from(cwd: &Path, path: &Path) -> PathBuf {
    // join keeps an absolute path as it is, and an empty directory means where we are.
    cwd.join(path)
}

fn check(cwd: &Path, path: &Path) -> Result<(), Missing> {
    let real = seen_from(cwd, path);
    let path = path.to_path_buf();
    match std::fs::metadata(&real) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) | None => Err(Missing::NoSuchFile { path }),
            Some(libc::EACCES) => Err(Missing::NotPermitted { path }),
            Some(errno) => Err(Missing::Other { path, errno }),
        },
        Ok(about) if about.is_dir() => Err(Missing::Directory { path }),
        Ok(_) => match faccessat(AT_FDCWD, &real, AccessFlags::X_OK, AtFlags::AT_EACCESS) {
            Ok(()) => match interpreter(&real) {
                Some(program) if !seen_from(cwd, Path::new(&program)).exists() => {
                    Err(Missing::NoInterpreter {
                        path,
                        interpreter: Some(program),
                    })
                }
                Some(_) | None => Ok(()),
            },
            Err(Errno::EACCES | Errno::EPERM) => Err(Missing::NotPermitted { path }),
            Err(errno) => Err(Missing::Other {
                path,
                errno: errno as i32,
            }),
        },
    }
}

fn head(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Only of regular files: opening a FIFO would wait for its writer.
    if path.is_file()
        && let Ok(file) = std::fs::File::open(path)
    {
        let _ = file.take(HEAD as u64).read_to_end(&mut bytes);
    }
    bytes
}

/// The interpreter that a script's first line names, as the kernel reads it.
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

/// Whether `/bin/sh` should try a file that the kernel would not run: `execvp` hands it every
/// such file, but one with a NUL in its head is a program for another machine and no script.
pub(super) fn is_for_a_shell(path: &Path) -> bool {
    !head(path).contains(&0)
}

impl Missing {
    /// What an error of `exec` (or of a step before it) on `path` means.
    pub fn explain(cwd: &Path, path: &Path, errno: i32) -> Missing {
        let known = check(cwd, path).err();
        let path = path.to_path_buf();
        match (errno, known) {
            (libc::ENOENT | libc::EACCES, Some(why)) => why,
            (libc::ENOENT, None) => Missing::NoInterpreter {
                interpreter: interpreter(&seen_from(cwd, &path)),
                path,
            },
            (libc::ENOTDIR, _) => Missing::NoSuchFile { path },
            (libc::EACCES, None) => Missing::NotPermitted { path },
            (libc::ENOEXEC | libc::ELIBBAD, _) => Missing::NotRunnable { path },
            (errno, _) => Missing::Other { path, errno },
        }
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
        assert!(matches!(
            resolve(&tool, None),
            Err(Missing::NotPermitted { .. })
        ));
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
