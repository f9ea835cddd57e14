//! The Python interpreter that a command would run, and the torch that is installed for it.

use crate::command::Word;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
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
    /// `uv run` or `conda run`, and the environment isn't there, or not yet.
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

/// torch's version as installed: `2.11.0+cu130`.
///
/// The interpreter is not run: an environment is a directory with `lib/pythonX.Y/site-packages`
/// (Debian: `dist-packages`), beside the interpreter or, if that is a link from outside of an
/// environment, beside its target.
pub fn torch_version(interpreter: &Path) -> Option<String> {
    version_in(&packages_with_torch(interpreter)?)
}

/// The directory of the torch that an interpreter would import, by the same files.
pub fn torch_directory(interpreter: &Path) -> Option<PathBuf> {
    Some(packages_with_torch(interpreter)?.join("torch"))
}

/// Python's version by the files of an environment: what `pyvenv.cfg` says, or the name of the
/// interpreter or of its library.
pub fn python_version(interpreter: &Path) -> Option<(u32, u32, Option<u32>)> {
    let parse = |text: &str| {
        let mut numbers = text.trim().split('.').map(|word| word.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next().flatten()))
    };
    let prefix = interpreter.parent()?.parent()?;
    let config = fs::read_to_string(prefix.join("pyvenv.cfg")).unwrap_or_default();
    let said = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        matches!(key.trim(), "version" | "version_info").then(|| parse(value))?
    });
    let named = || parse(minor_of(interpreter)?.strip_prefix("python")?);
    let library = || {
        let entries = fs::read_dir(prefix.join("lib")).ok()?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter_map(|name| parse(name.strip_prefix("python")?))
            .max()
    };
    said.or_else(named).or_else(library)
}

/// The directory of packages that an interpreter's torch is in.
fn packages_with_torch(interpreter: &Path) -> Option<PathBuf> {
    let prefix = interpreter.parent()?.parent()?;
    let mut prefixes = vec![prefix.to_path_buf()];
    match base_of(prefix) {
        // A virtual environment sees its base's packages only if it was created that way.
        Some(base) => prefixes.extend(base),
        None => prefixes.extend(linked(interpreter)),
    }
    prefixes
        .iter()
        .find_map(|prefix| in_prefix(prefix, interpreter))
}

/// The prefix that a virtual environment sees as well, if any; `None` for other directories.
fn base_of(prefix: &Path) -> Option<Option<PathBuf>> {
    let config = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let value = |wanted: &str| {
        config.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == wanted).then(|| value.trim().to_string())
        })
    };
    let sees_base =
        value("include-system-site-packages").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    Some(
        value("home")
            .filter(|_| sees_base)
            .and_then(|home| Path::new(&home).parent().map(Path::to_path_buf)),
    )
}

fn linked(interpreter: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(interpreter).ok()?;
    Some(real.parent()?.parent()?.to_path_buf())
}

fn in_prefix(prefix: &Path, interpreter: &Path) -> Option<PathBuf> {
    // Debian's own interpreter looks in /usr/local first.
    let mut roots = Vec::new();
    if prefix == Path::new("/usr") {
        roots.push(PathBuf::from("/usr/local/lib"));
    }
    roots.extend([prefix.join("lib"), prefix.join("lib64")]);
    let wanted = minor_of(interpreter);
    let mut libraries: Vec<PathBuf> = roots
        .iter()
        .filter_map(|root| fs::read_dir(root).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "python3"
                || wanted
                    .as_deref()
                    .map_or(name.starts_with("python3."), |w| name == w)
        })
        .collect();
    libraries.sort();
    // Two versions of Python in one prefix, and it is unknown which one is used: better no answer.
    let versions: Vec<(PathBuf, String)> = libraries
        .iter()
        .flat_map(|library| ["site-packages", "dist-packages"].map(|name| library.join(name)))
        .filter_map(|packages| version_in(&packages).map(|version| (packages, version)))
        .collect();
    let (packages, first) = versions.first()?;
    let is_one = versions.iter().all(|(_, version)| version == first);
    is_one.then(|| packages.clone())
}

/// `python3.12` for an interpreter of that name, or a link to one.
fn minor_of(interpreter: &Path) -> Option<String> {
    let called = |path: &Path| {
        let name = path.file_name()?.to_str()?.to_string();
        let minor = name.strip_prefix("python3.")?;
        minor.bytes().all(|b| b.is_ascii_digit()).then_some(name)
    };
    called(interpreter).or_else(|| called(&fs::canonicalize(interpreter).ok()?))
}

fn version_in(packages: &Path) -> Option<String> {
    let module = packages.join("torch");
    // A removed installation may leave its metadata behind.
    if !module.is_dir() {
        return None;
    }
    from_version_file(&module.join("version.py")).or_else(|| from_metadata(packages))
}

/// `__version__ = '2.11.0+cu130'`.
fn from_version_file(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let value = line.strip_prefix("__version__")?.trim_start();
        let value = value.split('=').nth(1)?.trim();
        plausible(value.trim_matches(['\'', '"']))
    })
}

/// What an installed torch says of itself, read from `version.py` in its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TorchBuild {
    pub version: Option<String>,
    /// The CUDA that it is built for.
    pub cuda: Option<String>,
    /// The ROCm that it is built for.
    pub rocm: Option<String>,
}

/// Reads what the torch in `directory` is built for, whether it could be imported or not.
pub fn torch_build(directory: &Path) -> TorchBuild {
    let text = fs::read_to_string(directory.join("version.py")).unwrap_or_default();
    // `cuda: Optional[str] = '13.0'`, `hip = None`.
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_name = rest.starts_with([' ', ':', '=']);
            let (_, value) = rest.split_once('=').filter(|_| is_name)?;
            let value = value.trim().trim_matches(['\'', '"']);
            (value != "None" && !value.is_empty()).then(|| value.to_string())
        })
    };
    TorchBuild {
        version: value("__version__")
            .or_else(|| from_metadata(directory.parent().unwrap_or(directory))),
        cuda: value("cuda"),
        rocm: value("hip"),
    }
}

fn from_metadata(packages: &Path) -> Option<String> {
    fs::read_dir(packages).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().to_str()?.to_string();
        let version = name.strip_prefix("torch-")?.strip_suffix(".dist-info")?;
        plausible(version)
    })
}

fn plausible(version: &str) -> Option<String> {
    let begins_so = version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.');
    begins_so.then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    fn file(path: PathBuf, text: &str) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn the_version_file_goes_before_the_metadata() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("lib/python3.12/site-packages");
        let python = file(root.path().join("bin/python"), "");
        assert_eq!(torch_version(&python), None);
        fs::create_dir_all(packages.join("torch-2.4.1.dist-info")).unwrap();
        assert_eq!(torch_version(&python), None, "only metadata is left of it");
        fs::create_dir_all(packages.join("torch")).unwrap();
        assert_eq!(torch_version(&python).as_deref(), Some("2.4.1"));
        file(
            packages.join("torch/version.py"),
            "from typing import Optional\n__version__ = '2.4.1+cu121'\ndebug = False\n",
        );
        assert_eq!(torch_version(&python).as_deref(), Some("2.4.1+cu121"));
    }

    #[test]
    fn a_build_says_what_it_is_for() {
        let root = tempfile::tempdir().unwrap();
        let torch = root.path().join("torch");
        let build = |text: &str| {
            file(torch.join("version.py"), text);
            let build = torch_build(&torch);
            (build.version, build.cuda, build.rocm)
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(
            build(
                "__all__ = ['cuda']\n__version__ = '2.11.0+cu130'\ndebug = False\n\
                 cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
            ),
            (some("2.11.0+cu130"), some("13.0"), None)
        );
        assert_eq!(
            build("__version__ = '2.8.0+rocm6.3'\ncuda = None\nhip = '6.3.42134'\n"),
            (some("2.8.0+rocm6.3"), None, some("6.3.42134"))
        );
        assert_eq!(build("cuda_home = '/x'\n"), (None, None, None));
    }

    #[test]
    fn a_virtual_environment_sees_its_base_only_where_it_says_so() {
        let root = tempfile::tempdir().unwrap();
        let (base, venv) = (root.path().join("base"), root.path().join("venv"));
        file(
            base.join("lib/python3.11/site-packages/torch/version.py"),
            "__version__ = \"2.9.1\"\n",
        );
        let real = file(base.join("bin/python3.11"), "");
        fs::create_dir_all(venv.join("bin")).unwrap();
        let python = venv.join("bin/python");
        symlink(&real, &python).unwrap();
        let config = |sees: &str| {
            let home = base.join("bin");
            let text = format!(
                "home = {}\ninclude-system-site-packages = {sees}\n",
                home.display()
            );
            file(venv.join("pyvenv.cfg"), &text);
        };
        config("false");
        assert_eq!(torch_version(&python), None);
        config("true");
        assert_eq!(torch_version(&python).as_deref(), Some("2.9.1"));
        fs::remove_file(venv.join("pyvenv.cfg")).unwrap();
        assert_eq!(
            torch_version(&python).as_deref(),
            Some("2.9.1"),
            "a link out of no environment"
        );
    }

    #[test]
    fn two_pythons_in_one_prefix_are_told_apart_or_not_answered() {
        let root = tempfile::tempdir().unwrap();
        for (minor, version) in [("10", "2.1.0"), ("12", "2.6.0")] {
            file(
                root.path().join(format!(
                    "lib/python3.{minor}/site-packages/torch/version.py"
                )),
                &format!("__version__ = '{version}'\n"),
            );
        }
        let named = file(root.path().join("bin/python3.10"), "");
        let plain = file(root.path().join("bin/python3"), "");
        assert_eq!(torch_version(&named).as_deref(), Some("2.1.0"));
        assert_eq!(torch_version(&plain), None);
    }
}
