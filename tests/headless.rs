//! Without a screen: bytes, exit status and silence, and what is said when memory runs out.

use crate::harness::{PATIENCE, at_home, wait_until};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// oomph with a state directory of its own and nothing of this machine's settings.
fn oomph(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    at_home(&mut command, state).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    let state = TempDir::new().expect("a directory");
    oomph(state.path())
        .args(arguments)
        .output()
        .expect("oomph runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn bytes_pass_unchanged_and_nothing_is_added() {
    let script = r"import os; os.write(1, bytes(range(256)) * 300); os.write(2, b'\xff\x00err')";
    let done = run(&["--no-nvml", "python3", "-c", script]);
    let sent: Vec<u8> = (0..=255).cycle().take(256 * 300).collect();
    assert_eq!(done.stdout, sent);
    assert_eq!(done.stderr, b"\xff\x00err");
    assert!(done.status.success());
}

/// As under `timeout`, which signals its group: a shell without a trap dies at once, and leaves what it waits for behind.
#[test]
fn a_signal_that_ends_a_shell_reaches_what_it_waits_for() {
    let state = TempDir::new().expect("a directory");
    let path = |name: &str| state.path().join(name);
    let script = "sh -c 'trap \"echo saved; exit 0\" TERM; touch ready; for i in $(seq 1000); do sleep 0.02; done; echo to the end'; echo after";
    fs::write(path("run.sh"), format!("#!/bin/sh\n{script}\n")).expect("a script");
    let named = vec!["sh".to_string(), "run.sh".to_string()];
    for words in [named, vec!["sh".into(), "-c".into(), script.into()]] {
        let _ = fs::remove_file(path("ready"));
        let mut child = oomph(state.path())
            .arg("--no-nvml")
            .args(&words)
            .current_dir(state.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("oomph runs");
        wait_until("the program runs", PATIENCE, || path("ready").exists());
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).expect("it is there");
        let mut said = String::new();
        let mut stdout = child.stdout.take().expect("a pipe");
        std::io::Read::read_to_string(&mut stdout, &mut said).expect("text");
        let status = child.wait().expect("it ends");
        assert_eq!(
            (said.as_str(), status.signal()),
            ("saved\n", Some(15)),
            "{words:?}"
        );
    }
}

/// The program says its epoch until it is recorded: nothing here depends on how fast that is.
#[test]
fn epochs_that_the_output_names_are_recorded() {
    let state = TempDir::new().expect("a directory");
    let recording = state.path().join("events.jsonl");
    let script = r#"
        echo '[rank0]: Epoch 1/3'
        for again in $(seq 600); do
            echo '[rank1]: Epoch 3/3'
            printf '\r[rank0]: Epoch 2/3: 10%%|#  |\n'
            grep -q '"epoch","number":2' "$0" && exit 0
            sleep 0.1
        done
        exit 1"#;
    let done = oomph(state.path())
        .arg(format!("--record={}", recording.display()))
        .args(["--no-nvml", "sh", "-c", script])
        .arg(&recording)
        .output()
        .expect("oomph runs");
    assert!(done.status.success(), "{}", text(&done.stderr));
    let recorded: Vec<u64> = oomph::recording::read(&recording)
        .expect("a recording")
        .filter_map(|event| match event.expect("an event").what {
            oomph::event::EventKind::Epoch(epoch) => Some(epoch.number),
            _ => None,
        })
        .collect();
    assert_eq!(recorded, [1, 2]);
}

/// A rehearsal delays the error: nobody waits for one where nothing follows.
#[test]
fn only_where_a_relaunch_may_follow_is_the_failed_step_rehearsed() {
    for (on_oom, rehearses) in [("exit", "0"), ("auto", "1"), ("ask", "1")] {
        let script = "printf %s \"$OOMPH_PROBE_REHEARSE\"";
        let done = run(&["--no-nvml", "--on-oom", on_oom, "sh", "-c", script]);
        assert_eq!(text(&done.stdout), rehearses, "{on_oom}");
    }
}

/// No rehearsal is no reason to count nothing: the calls of the model are noted all the same.
#[test]
fn backward_counts_as_a_step_without_an_optimizer_and_without_rehearsals() {
    let state = TempDir::new().expect("a directory");
    let (program, recording) = (state.path().join("train.py"), state.path().join("it.jsonl"));
    let text = "import torch\nfrom torch import nn\nmodel = nn.Linear(64, 64).to('cuda')\n\
        for step in range(7):\n    model(torch.randn(8, 64, device='cuda')).sum().backward()\n    \
        for parameter in model.parameters():\n        parameter.grad = None\n";
    fs::write(&program, text).expect("a file");
    let done = oomph(state.path())
        .env(
            "PYTHONPATH",
            concat!(env!("CARGO_MANIFEST_DIR"), "/demo/simulated"),
        )
        .args(["--no-nvml", "--on-oom", "exit", "--record"])
        .arg(&recording)
        .arg("python3")
        .arg(&program)
        .output()
        .expect("oomph runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let counted = oomph::recording::read(&recording)
        .expect("a recording")
        .filter_map(|event| match event.expect("an event").what {
            oomph::event::EventKind::Step(step) => Some(step.count),
            _ => None,
        })
        .max();
    assert_eq!(counted, Some(7));
}

/// The status is tee's, and stays so; what happened is told.
#[test]
fn an_oom_that_a_pipe_hides_is_told_at_the_end() {
    let state = TempDir::new().expect("a directory");
    let log = state.path().join("log");
    let script = format!(
        "python3 {DEMO} --simulated --batch-size 64 2>&1 | tee {}",
        log.display()
    );
    let done = oomph(state.path())
        .env("OOMPH_SIMULATED_SPEED", "4")
        .args(["--no-nvml", "sh", "-c", &script])
        .output()
        .expect("oomph runs");
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(done.stdout, fs::read(log).expect("tee's file"));
    let said = text(&done.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].contains("though the command ended with exit 0"),
        "{said}"
    );
    assert!(lines[0].contains("in the forward pass of step"), "{said}");
    assert!(
        lines[1].contains("oomph: out of memory: It does not fit"),
        "{said}"
    );
}

/// A program that catches it needs no word, one behind a shell may have failed.
#[test]
fn an_oom_that_the_program_caught_is_told_only_where_that_is_not_known() {
    let program = "import torch\ntry:\n    torch.empty(1 << 36, device='cuda')\nexcept torch.OutOfMemoryError:\n    pass";
    let simulated = concat!("PYTHONPATH=", env!("CARGO_MANIFEST_DIR"), "/demo/simulated");
    let done = run(&["--no-nvml", simulated, "python3", "-c", program]);
    assert!(
        done.status.success() && done.stderr.is_empty(),
        "{}",
        text(&done.stderr)
    );
    let done = run(&[
        "--no-nvml",
        simulated,
        "sh",
        "-c",
        "python3 -c \"$0\"; true",
        program,
    ]);
    assert!(done.status.success());
    let said = text(&done.stderr);
    assert!(
        said.contains("the program caught it, or a pipe or a script hid"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn exit_statuses_are_the_commands() {
    for code in [0, 1, 3, 125, 126, 127, 255] {
        let done = run(&["--no-nvml", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(done.status.code(), Some(code));
        assert!(done.stderr.is_empty(), "{}", text(&done.stderr));
    }
    for signal in [9, 15, 6] {
        let done = run(&["--no-nvml", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(done.status.signal(), Some(signal));
    }
}

#[test]
fn a_command_that_cannot_run_says_why_and_what_to_do() {
    let place = TempDir::new().expect("a directory");
    let file = place.path().join("plain");
    fs::write(&file, "#!/bin/sh\n").expect("a file");
    let script = place.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).expect("permissions");
    for (word, code, said) in [
        ("no-such-command-here", 127, "no-such-command-here"),
        ("/no/such/path", 127, "/no/such/path"),
        (place.path().to_str().expect("text"), 126, "directory"),
        (file.to_str().expect("text"), 126, "plain"),
        (script.to_str().expect("text"), 127, "/no/such/interpreter"),
    ] {
        let done = run(&["--no-nvml", word]);
        assert_eq!(
            done.status.code(),
            Some(code),
            "{word}: {}",
            text(&done.stderr)
        );
        let line = text(&done.stderr);
        assert!(line.contains(said), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn a_mistake_in_our_own_options_is_125_and_one_line() {
    for arguments in [
        &["--headles", "true"][..],
        &[],
        &["--interval", "never", "true"],
    ] {
        let done = run(arguments);
        assert_eq!(done.status.code(), Some(125));
        assert_eq!(
            text(&done.stderr).lines().count(),
            1,
            "{}",
            text(&done.stderr)
        );
    }
}

#[test]
fn words_before_the_command_are_its_environment() {
    let done = run(&["--no-nvml", "A=b c", "sh", "-c", "printf %s \"$A\""]);
    assert_eq!(text(&done.stdout), "b c");
}

#[test]
fn standard_input_is_the_commands() {
    let state = TempDir::new().expect("a directory");
    let mut child = oomph(state.path())
        .args(["--no-nvml", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"through and through")
        .expect("written");
    let done = child.wait_with_output().expect("an end");
    assert_eq!(text(&done.stdout), "through and through");
}

#[test]
fn an_out_of_memory_is_diagnosed_with_commands_to_copy() {
    let state = TempDir::new().expect("a directory");
    let done = oomph(state.path())
        .args([
            "--no-nvml",
            "python3",
            DEMO,
            "--simulated",
            "--batch-size",
            "64",
            "--grad-accum",
            "1",
        ])
        .env("OOMPH_SIMULATED_SPEED", "0")
        .output()
        .expect("oomph runs");
    assert_eq!(done.status.code(), Some(1));
    let said = text(&done.stderr);
    assert!(
        said.contains("torch.OutOfMemoryError"),
        "the program's own words: {said}"
    );
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("oomph: "))
        .collect();
    let all = ours.join("\n");
    assert!(all.contains("does not fit"), "{all}");
    assert!(all.contains("--batch-size 32 --grad-accum 2"), "{all}");
    assert!(all.contains("recorded in"), "{all}");
}

#[test]
fn a_run_that_survives_its_out_of_memory_is_not_spoken_of() {
    let script = "import sys\n\
        print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a \
        total capacity of 8.00 GiB of which 1.00 GiB is free.', file=sys.stderr)\n\
        print('went on')\n";
    let done = run(&["--no-nvml", "python3", "-c", script]);
    assert!(done.status.success());
    assert!(
        !text(&done.stderr).contains("oomph:"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn no_place_for_state_costs_nothing_but_the_recording() {
    let read_only = TempDir::new().expect("a directory");
    for (name, value) in [("HOME", "/nonexistent"), ("XDG_STATE_HOME", "/proc/no")] {
        let done = oomph(read_only.path())
            .args(["--no-nvml", "sh", "-c", "echo ran; exit 4"])
            .env_remove("HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("OOMPH_RUNTIME_DIR")
            .env(name, value)
            .current_dir(read_only.path())
            .stdin(Stdio::null())
            .output()
            .expect("oomph runs");
        assert_eq!(
            text(&done.stdout),
            "ran\n",
            "{name}: {}",
            text(&done.stderr)
        );
        assert_eq!(done.status.code(), Some(4));
        assert!(done.stderr.is_empty(), "{}", text(&done.stderr));
    }
}

#[test]
fn a_full_disk_costs_nothing_but_the_recording() {
    let done = run(&[
        "--no-nvml",
        "--record=/dev/full",
        "sh",
        "-c",
        "echo ran; exit 4",
    ]);
    assert_eq!(text(&done.stdout), "ran\n");
    assert_eq!(done.status.code(), Some(4));
}

/// What the recording goes to may be no file at all; nothing is made beside it then.
#[test]
fn beside_a_device_no_log_is_made() {
    let place = TempDir::new().expect("a directory");
    let link = place.path().join("rec.jsonl");
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    let record = format!("--record={}", link.display());
    let done = run(&["--no-nvml", &record, "sh", "-c", "echo ran; exit 4"]);
    assert_eq!(text(&done.stdout), "ran\n");
    assert_eq!(done.status.code(), Some(4));
    let there = fs::read_dir(place.path()).expect("a directory").count();
    assert_eq!(there, 1, "the link alone");
}

/// The log of a program that writes nothing to oomph says nothing.
#[test]
fn no_log_is_left_that_says_nothing() {
    let state = TempDir::new().expect("a directory");
    for script in [
        "exec \"$@\" > /dev/null 2>&1",
        "exec \"$@\" > own.log 2>&1",
        "exec \"$@\"",
    ] {
        let speaks = if script.contains('>') {
            "echo ran"
        } else {
            "true"
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .args([env!("CARGO_BIN_EXE_oomph"), "--no-nvml", "sh", "-c", speaks])
            .current_dir(state.path())
            .stdin(Stdio::null());
        let done = at_home(&mut command, state.path()).output();
        assert!(done.expect("sh runs").status.success());
    }
    let logs = || {
        let sessions = fs::read_dir(state.path().join("oomph/sessions")).expect("the sessions");
        let mut seen = Vec::new();
        for session in sessions.flatten() {
            assert!(session.path().join("events.jsonl").exists());
            seen.extend(fs::read_to_string(session.path().join("output.log")).ok());
        }
        seen
    };
    // What goes to a file is followed. The end waits a second for a keeper that gets no turn, and the
    // keeper a minute for a disk that is busy with other files.
    let deadline = Instant::now() + Duration::from_secs(90);
    while logs() != ["ran\n"] {
        assert!(Instant::now() < deadline, "{:?}", logs());
        std::thread::sleep(Duration::from_millis(5));
    }
    let sessions = fs::read_dir(state.path().join("oomph/sessions")).expect("the sessions");
    let silent = sessions
        .flatten()
        .find(|session| !session.path().join("output.log").exists());
    let done = oomph(state.path())
        .arg("logs")
        .arg(silent.expect("a session without a log").file_name())
        .output()
        .expect("oomph runs");
    assert!(
        text(&done.stderr).contains("wrote nothing"),
        "{}",
        text(&done.stderr)
    );
}

/// A log that is there already belongs to somebody.
#[test]
fn a_log_of_the_same_name_is_not_appended_to() {
    let place = TempDir::new().expect("a directory");
    let log = place.path().join("rec.output.log");
    fs::write(&log, "precious\n").expect("a file");
    let record = format!("--record={}", place.path().join("rec.jsonl").display());
    let done = run(&["--no-nvml", &record, "sh", "-c", "echo ran; exit 4"]);
    assert_eq!(text(&done.stdout), "ran\n");
    assert_eq!(done.status.code(), Some(4));
    assert_eq!(fs::read_to_string(&log).expect("the log"), "precious\n");
}

#[test]
fn a_torch_that_fails_to_import_fails_as_without_us() {
    let place = TempDir::new().expect("a directory");
    let package = place.path().join("torch");
    fs::create_dir(&package).expect("a package");
    fs::write(
        package.join("__init__.py"),
        "raise OSError('libcudart.so.13: cannot open')\n",
    )
    .expect("a file");
    let script = ["python3", "-c", "import torch"];
    let bare = Command::new(script[0])
        .args(&script[1..])
        .env("PYTHONPATH", place.path())
        .output()
        .expect("python3 runs");
    let state = TempDir::new().expect("a directory");
    let done = oomph(state.path())
        .arg("--no-nvml")
        .args(script)
        .env("PYTHONPATH", place.path())
        .output()
        .expect("oomph runs");
    assert_eq!(text(&done.stderr), text(&bare.stderr));
    assert_eq!(done.status.code(), bare.status.code());
}

#[test]
fn the_recording_keeps_no_secret() {
    let state = TempDir::new().expect("a directory");
    let done = oomph(state.path())
        .args([
            "--no-nvml",
            "WANDB_API_KEY=s3cr3t",
            "sh",
            "-c",
            "true",
            "--hf_token",
            "hush",
        ])
        .env("MY_PASSWORD", "inherited")
        .output()
        .expect("oomph runs");
    assert!(done.status.success());
    let mut seen = 0;
    for session in fs::read_dir(state.path().join("oomph/sessions")).expect("sessions") {
        let session = session.expect("a session").path();
        for file in fs::read_dir(&session).expect("files") {
            let path = file.expect("a file").path();
            let content = text(&fs::read(&path).expect("read"));
            for secret in ["s3cr3t", "hush", "inherited"] {
                assert!(!content.contains(secret), "{}: {content}", path.display());
            }
            let mode = std::os::unix::fs::PermissionsExt::mode(
                &fs::metadata(&path).expect("there").permissions(),
            );
            assert_eq!(mode & 0o077, 0, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 1);
}

/// 62: a directory that was deleted has no name; the command stays in it all the same.
#[test]
fn a_deleted_directory_is_not_left() {
    let state = TempDir::new().expect("a directory");
    let gone = state.path().join("gone");
    fs::create_dir(&gone).expect("a directory");
    let script = "rmdir ../gone; exec \"$@\"";
    let inner = "readlink /proc/self/cwd; echo x > relfile";
    let start = |with_us: bool| {
        fs::create_dir_all(&gone).expect("a directory");
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        if with_us {
            command.args([env!("CARGO_BIN_EXE_oomph"), "--no-nvml"]);
        }
        command.args(["sh", "-c", inner]).current_dir(&gone);
        at_home(&mut command, state.path());
        command.stdin(Stdio::null()).output().expect("sh runs")
    };
    let (bare, ours) = (start(false), start(true));
    assert!(text(&bare.stdout).ends_with("/gone (deleted)\n"));
    assert_eq!(text(&ours.stdout), text(&bare.stdout));
    assert_eq!(text(&ours.stderr), text(&bare.stderr));
    assert_eq!(ours.status.code(), bare.status.code());
}

/// 62: what was closed is closed for the command too, and what was open is not.
#[test]
fn closed_streams_stay_closed() {
    let state = TempDir::new().expect("a directory");
    let seen = state.path().join("seen");
    let inner = format!(
        "for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && echo $n >> {0}; done; echo end >> {0}; exit 5",
        seen.display()
    );
    for closing in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-", ""] {
        let start = |with_us: bool| {
            let _ = fs::remove_file(&seen);
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec \"$@\" {closing}"), "sh"]);
            if with_us {
                command.args([env!("CARGO_BIN_EXE_oomph"), "--no-nvml"]);
            }
            command.args(["sh", "-c", &inner]).stdin(Stdio::null());
            let done = at_home(&mut command, state.path())
                .output()
                .expect("sh runs");
            assert_eq!(done.status.code(), Some(5), "{}", text(&done.stderr));
            fs::read_to_string(&seen).expect("what the command saw")
        };
        assert_eq!(start(true), start(false), "{closing}");
    }
}

/// 52: a limit on the size of files costs the recording and nothing else; the command is still
/// ended by it.
#[test]
fn a_file_size_limit_is_the_commands_own() {
    let state = TempDir::new().expect("a directory");
    let limited = |inner: &str| {
        at_home(&mut Command::new("sh"), state.path())
            .args(["-c", "ulimit -c 0; ulimit -f 1; exec \"$@\"", "sh"])
            .args([env!("CARGO_BIN_EXE_oomph"), "--no-nvml", "sh", "-c", inner])
            .current_dir(state.path())
            .stdin(Stdio::null())
            .output()
            .expect("sh runs")
    };
    let done = limited("yes | head -c 100000; exit 3");
    assert_eq!(done.status.code(), Some(3), "{}", text(&done.stderr));
    assert_eq!(done.stdout.len(), 100_000);
    let done = limited("exec head -c 100000 /dev/zero > large");
    assert_eq!(done.status.signal(), Some(nix::libc::SIGXFSZ));
}

/// The answer to a leak: not who allocated it, but the name of what keeps it.
#[test]
fn what_a_demo_keeps_is_named_with_its_line() {
    for (scenario, line, name) in [
        ("leak", "self.history.append(states)", "Leak.history"),
        ("eval", "losses.append(loss)", "losses"),
    ] {
        let done = run(&[
            "--no-nvml",
            "python3",
            DEMO,
            "--simulated",
            "--card",
            "8",
            "--scenario",
            scenario,
        ]);
        let said = text(&done.stderr);
        let files = ["train.py", "training/scenarios.py"];
        let place = files.iter().find_map(|file| {
            let path = Path::new(DEMO).with_file_name(file);
            let text = fs::read_to_string(&path).expect("the demo");
            let at = text.lines().position(|each| each.trim() == line)? + 1;
            Some(format!("{}:{at}", path.file_name()?.display()))
        });
        let place = place.expect("the line is there");
        let wanted = format!("{place} {name}: list of ");
        assert!(said.contains(&wanted), "{wanted} in {said}");
    }
}

/// A control group's files, made up: a limit of 4 GiB, and nothing killed yet.
const HOST_FILES: [(&str, &str); 7] = [
    (
        "proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    ),
    ("proc/self/cgroup", "0::/job\n"),
    (
        "proc/meminfo",
        "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
    ),
    ("sys/fs/cgroup/job/memory.max", "4294967296\n"),
    ("sys/fs/cgroup/job/memory.current", "4187593113\n"),
    (
        "sys/fs/cgroup/job/memory.stat",
        "shmem 0\ninactive_file 0\nactive_file 0\n",
    ),
    ("sys/fs/cgroup/job/memory.events", "oom 0\noom_kill 0\n"),
];

fn host_files(state: &TempDir) -> PathBuf {
    let files = state.path().join("files");
    for (path, text) in HOST_FILES {
        let path = files.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    files
}

/// The kernel kills the front as well: what it had killed before is in the recording, so that the next front knows what is new.
#[test]
fn a_front_that_is_killed_with_the_program_leaves_the_count_to_the_next() {
    let state = TempDir::new().expect("a directory");
    let files = host_files(&state);
    let events = files.join("sys/fs/cgroup/job/memory.events");
    fs::write(&events, "oom 1\noom_kill 3\n").expect("a file");
    let recording = state.path().join("events.jsonl");
    let front = state.path().join("front");
    let script = r#"
        for again in $(seq 600); do
            grep -q '"roles":' "$0" && test -s "$2" && break
            sleep 0.1
        done
        # The front goes first: a look of its between the count and the end would tell of a kill without its process.
        kill -KILL $(cat "$2")
        printf 'oom 1\noom_kill 5\n' > "$1/sys/fs/cgroup/job/memory.events"
        kill -KILL $$"#;
    let mut started = oomph(state.path())
        .env("OOMPH_HOST_FILES", &files)
        .arg(format!("--record={}", recording.display()))
        .args(["--no-nvml", "--on-oom=exit", "sh", "-c", script])
        .args([&recording, &files, &front])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("oomph runs");
    fs::write(&front, started.id().to_string()).expect("a file");
    let status = started.wait().expect("its status");
    assert_eq!(status.signal(), Some(9));
    // Either may be told first.
    wait_until(
        "the next front has told the end, and who was killed",
        PATIENCE,
        || {
            let text = fs::read_to_string(&recording).unwrap_or_default();
            let mut kills = text
                .lines()
                .filter(|line| line.contains(r#""event":"host_kill""#));
            kills.any(|line| line.contains(r#""role":"main""#))
                && text.contains(r#""event":"exited""#)
        },
    );
    let said = fs::read_to_string(&recording).expect("a recording");
    // A look between the count and the end tells of it, and it is told again with who has ended.
    let kill = said
        .lines()
        .rfind(|line| line.contains(r#""event":"host_kill""#));
    let kill = kill.unwrap_or_else(|| panic!("no kill in {said}"));
    assert!(kill.contains(r#""count":2,"total":5"#), "{kill}");
    assert!(kill.contains(r#""role":"main""#), "{kill}");
    let explained = oomph(state.path())
        .args(["explain", "--json"])
        .arg(&recording)
        .output()
        .expect("oomph runs");
    let explained = text(&explained.stdout);
    assert!(explained.contains("\"host_memory\""), "{explained}");
}

/// The kernel kills the program without a word: only its count says so, and the status is the program's.
#[test]
fn a_silent_kill_for_memory_is_told_and_the_status_stays() {
    let state = TempDir::new().expect("a directory");
    let files = host_files(&state);
    let recording = state.path().join("events.jsonl");
    // It goes on until it was looked at.
    let script = r#"
        for again in $(seq 600); do
            grep -q '"processes":' "$0" && break
            sleep 0.1
        done
        printf 'oom 1\noom_kill 1\n' > "$1/sys/fs/cgroup/job/memory.events"
        kill -KILL $$"#;
    let done = oomph(state.path())
        .env("OOMPH_HOST_FILES", &files)
        .arg(format!("--record={}", recording.display()))
        .args(["--no-nvml", "--on-oom=exit", "sh", "-c", script])
        .args([&recording, &files])
        .output()
        .expect("oomph runs");
    assert_eq!(done.status.signal(), Some(9), "{}", text(&done.stderr));
    let said = text(&done.stderr);
    assert!(
        said.contains("The host ran out of memory, not the GPU: RAM 3.90 GiB of 4.00 GiB"),
        "{said}"
    );
    assert!(said.contains("The kernel killed process"), "{said}");
    let explained = oomph(state.path())
        .args(["explain", "--json"])
        .arg(&recording)
        .output()
        .expect("oomph runs");
    assert!(
        text(&explained.stdout).contains("\"host_memory\""),
        "{}",
        text(&explained.stdout)
    );
}
