//! `oomph doctor` as a program: on a machine without a GPU, on made-up ones, and with a command's
//! Python broken in several ways.

use crate::fake_nvml::Fake;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// oomph with directories of its own, and nothing of this machine's settings.
fn oomph(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    for name in [
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_HIP_ALLOC_CONF",
        "CUDA_VISIBLE_DEVICES",
        "SLURM_JOB_ID",
        "PYTHONPATH",
    ] {
        command.env_remove(name);
    }
    command
        .env("OOMPH_STATE_DIR", home.join("state"))
        .env("OOMPH_RUNTIME_DIR", home.join("run"))
        .env("OOMPH_NVML_LIBRARY", home.join("no-such-library.so"))
        .stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("oomph runs")
}

/// The check of `subject`: verdict, finding and advice.
fn check(done: &Output, subject: &str) -> (String, String) {
    let whole: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let checks = whole["checks"].as_array().expect("checks");
    let one = checks.iter().find(|check| check["subject"] == subject);
    let one = one.unwrap_or_else(|| panic!("no {subject} in {whole:#}"));
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_string();
    (
        text("verdict"),
        format!("{} {}", text("finding"), text("advice")),
    )
}

/// A virtual environment, as far as Python looks at it, with a torch that is only its version.
fn environment(root: &Path, version: &str) {
    let python = Command::new("python3")
        .args([
            "-c",
            "import sys; print(sys.base_prefix, *sys.version_info[:2])",
        ])
        .output()
        .expect("python3");
    let said = String::from_utf8(python.stdout).expect("text");
    let words: Vec<&str> = said.split_whitespace().collect();
    let [base, major, minor] = words[..] else {
        panic!("{said}")
    };
    let packages = root.join(format!("lib/python{major}.{minor}/site-packages/torch"));
    fs::create_dir_all(&packages).expect("packages");
    fs::create_dir_all(root.join("bin")).expect("bin");
    fs::write(root.join("pyvenv.cfg"), format!("home = {base}/bin\n")).expect("pyvenv.cfg");
    symlink(format!("{base}/bin/python3"), root.join("bin/python")).expect("python");
    // Importing it would be noticed.
    fs::write(packages.join("__init__.py"), "raise SystemExit('imported')").expect("torch");
    fs::write(packages.join("version.py"), version).expect("its version");
}

#[test]
fn without_a_gpu_it_says_what_to_do_and_changes_nothing() {
    let home = TempDir::new().expect("a directory");
    let done = output(oomph(home.path()).arg("doctor"));
    let text = String::from_utf8(done.stdout).expect("text");
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(text.contains("ERROR     driver"), "{text}");
    assert!(text.contains("-> install the NVIDIA driver"), "{text}");
    assert!(text.lines().count() <= 40, "one screen: {text}");
    assert_eq!(fs::read_dir(home.path()).expect("the directory").count(), 0);
}

#[test]
fn the_commands_own_python_is_asked_and_its_torch_read() {
    let home = TempDir::new().expect("a directory");
    let fake = Fake::new();
    environment(
        &home.path().join("venv"),
        "__version__ = '2.8.0+cu128'\ncuda: str = '12.8'\nhip = None\n",
    );
    let python = home.path().join("venv/bin/python");
    let python = python.to_str().expect("text");
    let with = |words: &[&str]| {
        let mut command = oomph(home.path());
        command.env("OOMPH_NVML_LIBRARY", fake.library());
        output(command.args(["doctor", "--json", "--"]).args(words))
    };
    let done = with(&[python, "train.py"]);
    assert_eq!(check(&done, "driver").0, "ok");
    assert_eq!(check(&done, "GPU 0").0, "ok");
    let (verdict, words) = check(&done, "torch");
    assert_eq!(verdict, "ok", "{words}");
    assert!(
        words.contains("2.8.0+cu128, built for CUDA 12.8"),
        "{words}"
    );
    assert_eq!(check(&done, "probe").0, "ok");
    assert_eq!(done.status.code(), Some(0));

    for (option, said) in [("-I", "-I, -E"), ("-E", "-I, -E"), ("-S", "(-S)")] {
        let (verdict, words) = check(&with(&[python, option, "train.py"]), "probe");
        assert_eq!(verdict, "warning", "{option}: {words}");
        assert!(words.contains(said), "{option}: {words}");
    }
    let done = with(&[
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segment:True",
        python,
        "train.py",
    ]);
    let (verdict, words) = check(&done, "allocator");
    assert!(
        words.contains("did you mean expandable_segments?"),
        "{words}"
    );
    assert_eq!((verdict.as_str(), done.status.code()), ("error", Some(1)));
    for (line, verdict, said) in [
        (
            "docker run image python train.py",
            "warning",
            "not be loaded: docker run",
        ),
        (
            "apptainer exec a.sif python train.py",
            "warning",
            "if the container has",
        ),
        ("bash train.sh", "ok", "if it keeps PYTHONPATH"),
    ] {
        let done = with(&line.split(' ').collect::<Vec<_>>());
        let found = check(&done, "probe");
        assert_eq!(found.0, verdict, "{line}: {}", found.1);
        assert!(found.1.contains(said), "{line}: {}", found.1);
        let python = check(&done, "python").1;
        assert!(
            python.contains("cannot be seen from here"),
            "{line}: {python}"
        );
    }
}

#[test]
fn uv_and_conda_choose_the_python_whatever_is_in_path() {
    let home = TempDir::new().expect("a directory");
    let project = home.path().join("project");
    fs::create_dir(&project).expect("a project");
    fs::write(project.join("pyproject.toml"), "").expect("its file");
    let of = |line: &str| {
        let mut command = oomph(home.path());
        command.current_dir(&project).env_remove("CONDA_EXE");
        command
            .env("HOME", home.path())
            .args(["doctor", "--json", "--"]);
        check(&output(command.args(line.split(' '))), "python").1
    };
    let lines = [
        "uv run train.py",
        "uv run python train.py",
        "uv run -m train",
    ];
    for line in lines {
        let said = of(line);
        assert!(said.contains("uv sync"), "{line}: {said}");
    }
    environment(&project.join(".venv"), "");
    for line in lines {
        let said = of(line);
        assert!(said.contains("project/.venv/bin/python"), "{line}: {said}");
    }
    let line = "conda run -n ml python train.py";
    let said = of(line);
    assert!(said.contains("conda env list"), "{said}");
    environment(&home.path().join(".conda/envs/ml"), "");
    let said = of(line);
    assert!(said.contains(".conda/envs/ml/bin/python"), "{said}");
}

#[test]
fn a_broken_python_is_named_with_its_own_words() {
    let home = TempDir::new().expect("a directory");
    let broken = home.path().join("python3");
    fs::write(
        &broken,
        "#!/bin/sh\necho 'No module named encodings' >&2\nexit 1\n",
    )
    .expect("a script");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).expect("its mode");
    let done = output(
        oomph(home.path())
            .args(["doctor", "--json", "--"])
            .arg(&broken)
            .arg("t.py"),
    );
    let (verdict, words) = check(&done, "python");
    assert_eq!(verdict, "error");
    assert!(words.contains("No module named encodings"), "{words}");
}

#[test]
fn drivers_that_are_broken_say_how() {
    let home = TempDir::new().expect("a directory");
    let fake = Fake::new();
    let with = |lines: &str| {
        fake.say(lines);
        let mut command = oomph(home.path());
        output(
            command
                .env("OOMPH_NVML_LIBRARY", fake.library())
                .args(["doctor", "--json"]),
        )
    };
    for (lines, subject, said) in [
        ("error init 18", "driver", "reboot"),
        ("error init 4", "driver", "/dev/nvidia"),
        ("devices 0", "GPU", "has no GPU"),
        ("lost 0", "GPU 0", "lost"),
        ("hang init", "driver", "did not answer"),
    ] {
        let (verdict, words) = check(&with(lines), subject);
        assert_eq!(verdict, "error", "{lines}: {words}");
        assert!(words.contains(said), "{lines}: {words}");
    }
    let (verdict, words) = check(&with("process 0 999999 9000000000"), "GPU 0");
    assert_eq!(verdict, "warning", "{words}");
    assert!(words.contains("pid 999999"), "{words}");
}

#[test]
fn nothing_that_a_repository_brings_is_run() {
    let home = TempDir::new().expect("a directory");
    let project = home.path().join("project");
    let mark = home.path().join("it-ran");
    environment(
        &project.join(".venv"),
        "__version__ = '2.8.0+cu128'\ncuda: str = '12.8'\nhip = None\n",
    );
    let trap = |path: &Path| {
        let _ = fs::remove_file(path);
        fs::write(
            path,
            format!("#!/bin/sh\necho ran >>{}\nexit 1\n", mark.display()),
        )
        .expect("a trap");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    };
    let python_trap = format!("open({:?}, 'w')\n", mark.display().to_string());
    fs::create_dir_all(project.join("src/deep")).expect("sources");
    for name in [
        "sitecustomize.py",
        "usercustomize.py",
        "json.py",
        "importlib.py",
    ] {
        fs::write(project.join(name), &python_trap).expect("a trap");
        fs::write(project.join("src").join(name), &python_trap).expect("a trap");
    }
    fs::write(project.join("pyproject.toml"), "").expect("its file");
    fs::write(
        project.join(".venv/pyvenv.cfg"),
        "home = /usr/bin\nversion_info = 3.12.7\n",
    )
    .expect("its settings");
    trap(&project.join(".venv/bin/python"));
    trap(&project.join(".venv/bin/python3"));
    fs::create_dir(project.join("bin")).expect("programs");
    trap(&project.join("bin/python"));
    trap(&project.join("bin/uv"));
    for line in [
        "uv run train.py",
        ".venv/bin/python train.py",
        "./bin/python train.py",
        "PATH=bin:/usr/bin python train.py",
        "PYTHONPATH=src python3 train.py",
        "PYTHONPATH=. python3 train.py",
        "PYTHONHOME=.venv LD_PRELOAD=./bin/python python3 train.py",
        "conda run -p .venv python train.py",
    ] {
        for below in ["", "src/deep"] {
            let mut command = oomph(home.path());
            command
                .current_dir(project.join(below))
                .args(["doctor", "--json", "--"]);
            let done = output(command.args(line.split(' ')));
            assert!(!mark.exists(), "{line} in {below:?}: {done:?}");
        }
    }
    let mut command = oomph(home.path());
    command
        .current_dir(&project)
        .args(["doctor", "--json", "--"]);
    let done = output(command.args(["uv", "run", "train.py"]));
    let (verdict, words) = check(&done, "python");
    assert_eq!(verdict, "ok", "{words}");
    assert!(words.contains("3.12.7"), "{words}");
    assert!(
        words.contains("not run: it belongs to the project"),
        "{words}"
    );
    let (_, words) = check(&done, "torch");
    assert!(words.contains("2.8.0+cu128"), "{words}");
}

/// Each process counts for itself, and says again how many it has by now.
#[test]
fn errors_of_the_probes_own_are_counted_in_the_latest_recording() {
    let home = TempDir::new().expect("a directory");
    let session = home.path().join("state/oomph/sessions/20261123-040000-7");
    fs::create_dir_all(&session).expect("a session's directory");
    let lines = [(7, 1), (7, 2), (8, 1)].map(|(pid, count)| {
        format!(
            r#"{{"at":{count},"event":"probe_errors","pid":{pid},"count":{count},"latest":"take a reading: KeyError (sampler.py:131)"}}"#
        )
    });
    fs::write(session.join("events.jsonl"), lines.join("\n") + "\n").expect("a recording");
    let done = output(oomph(home.path()).args(["doctor", "--json"]));
    let (verdict, words) = check(&done, "probe errors");
    assert_eq!(verdict, "warning");
    assert!(
        words.starts_with(
            "3 internal errors in the latest session, 20261123-040000-7; the latest: take a reading"
        ),
        "{words}"
    );
}
