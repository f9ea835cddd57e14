//! Which Python would run a command: its interpreter, or the one in the first line of a console
//! script.

use crate::command::Word;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a command starts its Python with, and the environment that decides which one that is.
#[derive(Debug, Clone, Copy)]
pub struct Starter<'a> {
    /// The word: `python3`, `/opt/venv/bin/python`, `torchrun`, `yolo`.
    pub word: &'a Word,
    /// The words before the program: `uv run` and `conda run -n NAME` choose another environment.
    pub before: &'a [Word],
    /// The command's working directory.
    pub cwd: &'a Path,
    /// `PATH` as the command will have it.
    pub path: Option<&'a OsStr>,
    /// Where conda keeps environments by name, for `conda run -n NAME`: in `envs` below each.
    pub conda_roots: &'a [PathBuf],
}

/// The path of the interpreter, without resolving symbolic links: a virtual environment is found
/// beside it.
pub fn interpreter(starter: Starter<'_>) -> Option<PathBuf> {
    match runner(starter) {
        Runner::Path => {}
        Runner::Unknown => return None,
        Runner::Environment(prefix) => return existing(prefix.join("bin").join("python")),
    }
    let program = find(starter.word.0.as_os_str(), starter)?;
    if is_python(&program) {
        Some(program)
    } else {
        from_first_line(&program, starter)
    }
}

/// What decides which environment is used.
enum Runner {
    /// `PATH`.
    Path,
    /// `uv run` or `conda run`, regardless of `PATH`.
    Environment(PathBuf),
    /// One of them, and the environment isn't there, or not yet.
    Unknown,
}

fn runner(starter: Starter<'_>) -> Runner {
    let words: Vec<&OsStr> = starter
        .before
        .iter()
        .map(|word| word.0.as_os_str())
        .collect();
    let value_of = |names: [&str; 2]| {
        let at = words
            .iter()
            .position(|word| names.iter().any(|name| word == name))?;
        words.get(at + 1).copied()
    };
    let called = |name: &str| {
        words.windows(2).any(|pair| {
            Path::new(pair[0]).file_name() == Some(OsStr::new(name)) && pair[1] == "run"
        })
    };
    if called("uv") {
        let mut above = starter.cwd.ancestors();
        let venv = |directory: &Path| directory.join(".venv");
        let made = |directory: &&Path| venv(directory).join("bin").join("python").exists();
        if let Some(directory) = above.clone().find(made) {
            return Runner::Environment(venv(directory));
        }
        // uv makes a project's environment at the first start; without a project it takes PATH's.
        let is_project = above.any(|directory| directory.join("pyproject.toml").exists());
        return if is_project {
            Runner::Unknown
        } else {
            Runner::Path
        };
    }
    if ["conda", "mamba", "micromamba"].into_iter().any(called) {
        if let Some(prefix) = value_of(["-p", "--prefix"]) {
            return Runner::Environment(starter.cwd.join(prefix));
        }
        // Without a name it is the active one, which is in PATH.
        return value_of(["-n", "--name"]).map_or(Runner::Path, |name| named(name, starter));
    }
    Runner::Path
}

/// conda's environment of this name.
fn named(name: &OsStr, starter: Starter<'_>) -> Runner {
    let mut below = starter.conda_roots.iter().map(|root| match name == "base" {
        true => root.clone(),
        false => root.join("envs").join(name),
    });
    let found = below.find(|prefix| prefix.join("bin").join("python").exists());
    found.map_or(Runner::Unknown, Runner::Environment)
}

/// A program as found by `execvp`.
fn find(word: &OsStr, starter: Starter<'_>) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return existing(starter.cwd.join(word));
    }
    std::env::split_paths(starter.path?)
        .map(|directory| starter.cwd.join(directory).join(word))
        .find(|candidate| is_executable(candidate))
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.exists().then_some(path)
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn is_python(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(b"python"))
}

/// The interpreter of a console script: `#!/opt/venv/bin/python`, `#!/usr/bin/env python3`, or the
/// two lines with `exec` that pip writes if the path is too long for the kernel.
fn from_first_line(script: &Path, starter: Starter<'_>) -> Option<PathBuf> {
    // The kernel reads 256 bytes; pip's long form has the path in the second line.
    let mut head = Vec::new();
    File::open(script)
        .ok()?
        .take(4096)
        .read_to_end(&mut head)
        .ok()?;
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?.strip_prefix(b"#!")?;
    let mut words = first
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let program = Path::new(words.next()?);
    if program.file_name() == Some(OsStr::new("env")) {
        let named = words.find(|word| !word.as_bytes().starts_with(b"-"))?;
        return find(named, starter).filter(|path| is_python(path));
    }
    if program == Path::new("/bin/sh") {
        let rest = lines.next()?.strip_prefix(b"'''exec' ")?;
        let path = match rest.strip_prefix(b"\"") {
            Some(quoted) => quoted.split(|byte| *byte == b'"').next()?,
            None => rest.split(|byte| *byte == b' ').next()?,
        };
        return existing(PathBuf::from(OsString::from(OsStr::from_bytes(path))));
    }
    is_python(program)
        .then(|| program.to_path_buf())
        .and_then(existing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn executable(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn found(root: &Path, before: &[&str], word: &str) -> Option<PathBuf> {
        let before: Vec<Word> = before.iter().map(Word::from).collect();
        let path = OsString::from(root.join("bin"));
        interpreter(Starter {
            word: &Word::from(word),
            before: &before,
            cwd: root,
            path: Some(&path),
            conda_roots: &[root.join("conda")],
        })
    }

    #[test]
    fn words_and_first_lines_lead_to_the_interpreter() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let python = root.join("venv/bin/python3");
        executable(&python, "");
        executable(&root.join("bin/python"), "");
        executable(
            &root.join("bin/torchrun"),
            &format!("#!{}\nimport x\n", python.display()),
        );
        executable(&root.join("bin/tool"), "#!/usr/bin/env -S python -u\n");
        executable(
            &root.join("bin/long"),
            &format!(
                "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n",
                python.display()
            ),
        );
        executable(&root.join("bin/binary"), "\x7fELF");
        executable(&root.join(".venv/bin/python"), "");
        executable(&root.join("conda/envs/ml/bin/python"), "");
        assert_eq!(found(root, &[], "python"), Some(root.join("bin/python")));
        assert_eq!(
            found(root, &[], "./venv/bin/python3"),
            Some(root.join("./venv/bin/python3"))
        );
        assert_eq!(found(root, &[], "torchrun"), Some(python.clone()));
        assert_eq!(found(root, &[], "tool"), Some(root.join("bin/python")));
        assert_eq!(found(root, &[], "long"), Some(python));
        assert_eq!(found(root, &[], "binary"), None);
        assert_eq!(found(root, &[], "missing"), None);
        assert_eq!(
            found(root, &["uv", "run"], "train.py"),
            Some(root.join(".venv/bin/python"))
        );
        assert_eq!(
            found(root, &["conda", "run", "-n", "ml"], "python"),
            Some(root.join("conda/envs/ml/bin/python"))
        );
        assert_eq!(found(root, &["conda", "run", "-n", "no"], "python"), None);
        let active = found(root, &["conda", "run"], "python");
        assert_eq!(active, Some(root.join("bin/python")));
    }

    #[test]
    fn an_environment_that_is_not_there_yet_is_not_taken_for_that_in_path() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        executable(&root.join("bin/python"), "");
        let uv = || found(root, &["uv", "run"], "python");
        assert_eq!(uv(), Some(root.join("bin/python")));
        fs::write(root.join("pyproject.toml"), "").unwrap();
        assert_eq!(uv(), None);
        executable(&root.join(".venv/bin/python"), "");
        assert_eq!(uv(), Some(root.join(".venv/bin/python")));
        executable(&root.join("conda/bin/python"), "");
        let base = found(root, &["conda", "run", "-n", "base"], "python");
        assert_eq!(base, Some(root.join("conda/bin/python")));
    }
}
