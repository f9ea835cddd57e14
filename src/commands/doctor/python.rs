//! Facts of the Python that would run the command: found as the command would find it, and asked
//! about itself. It is started with its own options and a few lines of ours instead of the program;
//! torch is not imported. One that the project brings is not started: a repository that somebody has
//! just cloned may bring anything. Its files say most of it.

use crate::command::{CommandLine, Word};
use crate::doctor::{AskedPython, Keeps, PythonFacts, TorchFacts};
use crate::live::torch;
use crate::project_files;
use crate::recognize::{CommandLayout, EnvPropagation, ProgramKind};
use nix::unistd::geteuid;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long an interpreter may take to start: one on a cold network share takes seconds.
const PATIENCE: Duration = Duration::from_secs(8);

/// Launchers that choose an environment, whatever is in `PATH`.
const CHOOSES: [&str; 4] = ["uv run", "conda run", "mamba run", "micromamba run"];

/// A directory that does not exist, to see whether PYTHONPATH is read.
const MARK: &str = "/nonexistent/oomph-doctor";

/// Answers as one line of JSON. `-c` puts the working directory on sys.path, which a script would not.
const QUESTION: &str = r#"
import sys
marked = "/nonexistent/oomph-doctor" in sys.path
sys.path[:] = [entry for entry in sys.path if entry]
torch = None
try:
    import importlib.util
    found = importlib.util.find_spec("torch")
    if found is not None and found.submodule_search_locations:
        torch = list(found.submodule_search_locations)[0]
except Exception:
    pass
import json
print(json.dumps({"version": list(sys.version_info[:3]), "marked": marked, "site": "site" in sys.modules, "torch": torch}))
"#;

#[derive(Deserialize)]
struct Answer {
    version: (u32, u32, u32),
    marked: bool,
    site: bool,
    torch: Option<PathBuf>,
}

/// The Python of `command`, or the one that `python` or `python3` would be.
pub(super) fn of(command: Option<&CommandLine>) -> PythonFacts {
    let Some(command) = command else {
        let plain = |name: &str| CommandLine {
            argv: vec![Word::from(name), Word::from("train.py")],
            env: Vec::new(),
            cwd: std::env::current_dir().unwrap_or_default(),
        };
        let python = ask(&plain("python"));
        return match python {
            PythonFacts::NotFound(_) => ask(&plain("python3")),
            PythonFacts::Found { .. } | PythonFacts::OutOfSight { .. } => python,
        };
    };
    ask(command)
}

fn ask(command: &CommandLine) -> PythonFacts {
    let layout = CommandLayout::new(command);
    if let Some((by, keeps)) = out_of_sight(&layout, command) {
        return PythonFacts::OutOfSight { by, keeps };
    }
    let mut launchers = layout.launchers.iter();
    let chooses = launchers.find(|one| CHOOSES.contains(&one.name.as_str()));
    let word = layout.python_word();
    let named = match chooses {
        Some(launcher) => launcher.name.clone(),
        None => word
            .and_then(|at| command.argv.get(at))
            .map_or("the command".into(), |word| word.to_string_lossy()),
    };
    let Some(path) = torch::interpreter_of(command) else {
        return PythonFacts::NotFound(named);
    };
    let asked = match not_to_be_run(&path, &command.cwd) {
        Some(why) => read(command, &layout, &path, why),
        None => question(command, &layout, &path),
    };
    PythonFacts::Found { asked, path }
}

/// By what the program's Python is started, if that cannot be seen from here.
fn out_of_sight(layout: &CommandLayout, command: &CommandLine) -> Option<(String, Keeps)> {
    let launchers = || layout.launchers.iter();
    if let Some(cuts) = launchers().find(|one| one.environment != EnvPropagation::Inherited) {
        return Some((cuts.name.clone(), Keeps::Nothing));
    }
    if let Some(container) = launchers().find(|one| one.is_container) {
        return Some((container.name.clone(), Keeps::Environment));
    }
    let program = command.argv.get(layout.program);
    let program = program.map_or("the command".into(), |word| word.to_string_lossy());
    let by = |words: String, keeps| Some((words, keeps));
    match layout.kind {
        ProgramKind::ShellScript => by(format!("{program} is a shell script"), Keeps::Both),
        ProgramKind::ShellString => by("the command is a string for a shell".into(), Keeps::Both),
        ProgramKind::Image => by(
            format!("{program} is a container image"),
            Keeps::Environment,
        ),
        ProgramKind::Remote => by(
            format!("{program} runs it on another machine"),
            Keeps::Nothing,
        ),
        ProgramKind::Script
        | ProgramKind::Module
        | ProgramKind::Code
        | ProgramKind::Executable
        | ProgramKind::Missing => None,
    }
}

/// What makes a directory a project, whose files all belong to it.
const PROJECT: [&str; 7] = [
    ".git",
    ".hg",
    "pyproject.toml",
    "setup.py",
    "uv.lock",
    "environment.yml",
    ".venv",
];

/// Why an interpreter is not run: it lies in the working directory or in the project around it, or
/// somebody else could have put it there.
fn not_to_be_run(path: &Path, cwd: &Path) -> Option<String> {
    let home = std::env::home_dir();
    let is_project = |directory: &&Path| PROJECT.iter().any(|name| directory.join(name).exists());
    let above = cwd.ancestors().skip(1);
    let above = above.take_while(|directory| Some(*directory) != home.as_deref());
    let mut roots: Vec<PathBuf> = above.filter(is_project).map(Path::to_path_buf).collect();
    roots.push(cwd.to_path_buf());
    roots.retain(|root| root.parent().is_some());
    roots.extend(
        roots
            .clone()
            .iter()
            .filter_map(|root| root.canonicalize().ok()),
    );

    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    // As it is named, as its directory really is (an environment of its own), and what it leads to.
    let directory = absolute
        .parent()
        .and_then(|parent| parent.canonicalize().ok());
    let file = absolute.canonicalize().ok();
    let places = [Some(normal(&absolute)), directory, file.clone()];
    if (places.iter().flatten()).any(|place| roots.iter().any(|root| place.starts_with(root))) {
        return Some("it belongs to the project".into());
    }
    for place in [file.as_deref(), absolute.parent()].into_iter().flatten() {
        let about = fs::metadata(place).ok()?;
        if about.uid() != 0 && about.uid() != geteuid().as_raw() {
            return Some(format!(
                "{} belongs to user {}",
                place.display(),
                about.uid()
            ));
        }
    }
    None
}

/// A path without `.` and `..`, as it is written.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// What the files of an interpreter say that is not run.
fn read(
    command: &CommandLine,
    layout: &CommandLayout,
    path: &Path,
    why: String,
) -> Result<AskedPython, String> {
    let version = project_files::python_version(path).ok_or(format!(
        "{why}, and its files do not say which version it is"
    ))?;
    let options = layout.python_options(command);
    let has = |names: &[&str]| {
        options
            .iter()
            .any(|option| names.contains(&option.as_str()))
    };
    let reads_pythonpath = !has(&["-I", "-E"]);
    let in_path = reads_pythonpath.then(|| torch_in_python_path(command));
    Ok(AskedPython {
        version,
        not_run: Some(why),
        reads_pythonpath,
        imports_site: !has(&["-S"]),
        torch: (in_path.flatten())
            .or_else(|| project_files::torch_directory(path))
            .map(torch_facts),
    })
}

/// torch's directory in an entry of the command's PYTHONPATH. Python is not given these entries: they
/// may have a `sitecustomize` of the project's.
fn torch_in_python_path(command: &CommandLine) -> Option<PathBuf> {
    let inherited = command.env_value("PYTHONPATH").map(|word| word.0.clone());
    let entries = inherited.or_else(|| std::env::var_os("PYTHONPATH"))?;
    std::env::split_paths(&entries)
        .map(|entry| command.cwd.join(entry).join("torch"))
        .find(|directory| directory.join("version.py").is_file())
}

fn torch_facts(directory: PathBuf) -> TorchFacts {
    let build = project_files::torch_build(&directory);
    TorchFacts {
        version: build.version,
        cuda: build.cuda,
        rocm: build.rocm,
        directory,
    }
}

fn question(
    command: &CommandLine,
    layout: &CommandLayout,
    path: &Path,
) -> Result<AskedPython, String> {
    let mut asking = Command::new(path);
    asking.args(layout.python_options(command));
    asking.args(["-c", QUESTION]).current_dir(&command.cwd);
    for change in &command.env {
        match &change.value {
            Some(value) => asking.env(&change.name.0, &value.0),
            None => asking.env_remove(&change.name.0),
        };
    }
    let inherited = command.env_value("PYTHONPATH").map(|word| word.0.clone());
    let mut python_path = std::ffi::OsString::from(MARK);
    if let Some(inherited) = inherited.or_else(|| std::env::var_os("PYTHONPATH")) {
        python_path.push(":");
        python_path.push(inherited);
    }
    asking
        .args(["-c", QUESTION])
        .current_dir("/")
        .env("PYTHONPATH", OsString::from(MARK))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let text = answer_within(asking, PATIENCE)?;
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    let answer: Answer = line
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or("its answer cannot be read")?;
    Ok(AskedPython {
        version: (answer.version.0, answer.version.1, Some(answer.version.2)),
        not_run: None,
        reads_pythonpath: answer.marked,
        imports_site: answer.site,
        torch: (answer.marked.then(|| torch_in_python_path(command)))
            .flatten()
            .or(answer.torch)
            .map(torch_facts),
    })
}

/// What a program writes, if it ends within `patience`; otherwise it is killed.
fn answer_within(mut command: Command, patience: Duration) -> Result<String, String> {
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("it has no output".into());
    };
    let (sender, written) = channel();
    std::thread::spawn(move || {
        let mut texts = (String::new(), String::new());
        let _ = stdout.read_to_string(&mut texts.0);
        let _ = stderr.read_to_string(&mut texts.1);
        let _ = sender.send(texts);
    });
    let texts = written.recv_timeout(patience);
    if texts.is_err() {
        // It is ours, and has not been waited for.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let (answer, complaint) =
        texts.map_err(|_| format!("no answer within {} s", patience.as_secs()))?;
    if status.success() {
        return Ok(answer);
    }
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or(status.to_string(), |line| {
        format!("{status}: {}", line.trim())
    }))
}
