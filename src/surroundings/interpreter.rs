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
    /// The words before it: `uv run` and `conda run -n NAME` choose another environment.
    pub before: &'a [Word],
    /// The command's working directory.
    pub cwd: &'a Path,
    /// `PATH` as the command will have it.
    pub path: Option<&'a OsStr>,
    /// `CONDA_EXE`'s or `CONDA_PREFIX`'s root, for `conda run -n NAME`.
    pub conda_root: Option<&'a Path>,
}

/// The path of the interpreter, without resolving symbolic links: a virtual environment is found
/// beside it.
pub fn interpreter(starter: Starter<'_>) -> Option<PathBuf> {
    if let Some(prefix) = prefix_of_runner(starter) {
        return existing(prefix.join("bin").join("python"));
    }
    let program = find(starter.word.0.as_os_str(), starter)?;
    if is_python(&program) {
        Some(program)
    } else {
        from_first_line(&program, starter)
    }
}

/// The environment that `uv run` and `conda run` use regardless of `PATH`. `None` if the words
/// before the interpreter are neither.
fn prefix_of_runner(starter: Starter<'_>) -> Option<PathBuf> {
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
        return starter
            .cwd
            .ancestors()
            .map(|directory| directory.join(".venv"))
            .find(|venv| venv.join("bin").join("python").exists());
    }
    if ["conda", "mamba", "micromamba"].into_iter().any(called) {
        if let Some(prefix) = value_of(["-p", "--prefix"]) {
            return Some(starter.cwd.join(prefix));
        }
        let name = value_of(["-n", "--name"])?;
        return Some(starter.conda_root?.join("envs").join(name));
    }
    None
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
            conda_root: Some(&root.join("conda")),
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
    }
}
