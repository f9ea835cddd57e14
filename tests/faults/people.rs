//! What people do to a session that they do not mean to touch.

use crate::faults::staging::{OOMPH, Scene};
use crate::harness::{Key, PATIENCE, processes, wait_until};
use nix::sys::signal::Signal::{SIGINT, SIGKILL, SIGSTOP};
use oomph::event::Exit;
use std::os::unix::fs::MetadataExt;

/// Lines that were meant for a shell, an editor or a colleague.
const LINES: [&str; 12] = [
    "squeue",
    ":wq",
    "r",
    "quota -s",
    "Keep going",
    "watch -n1 nvidia-smi",
    "qlogin",
    "K",
    "sq -k",
    "pip install -e .",
    "rsync -a runs/ host:",
    "cd src\rls -lk\rqstat",
];

#[test]
fn fault_83_a_line_for_another_window_ends_nothing() {
    let steps = ["catch:INT:count", "shout", "until:go"];
    let mut training = Scene::new().size(30, 120).screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    for line in LINES {
        training.terminal().press(format!("{line}\r").as_str());
        // Out of whatever it has opened; a line is never the rest of the one before.
        for _ in 0..2 {
            // Two in one write: read together with the next key, a single one would be Alt and that key.
            training.terminal().press("\x1b\x1b");
            training.terminal().wait_for("q quit", PATIENCE);
        }
    }
    training.terminal().press("squeue");
    training.terminal().wait_for("type i to send it", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.terminal().wait_for("Ctrl-C not sent", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.wait_count(SIGINT, 1);
    training.make("go");
    training.finish(Exit::Code(0));
    assert_eq!(training.runs(), 1);
}

/// The user's last logout removes the directory of the sockets; another login has no variable that
/// says where it was.
#[test]
fn fault_86_a_session_whose_directory_is_removed_is_found_from_anywhere() {
    let scene = Scene::new();
    let runtime = scene.path("run");
    std::fs::create_dir(&runtime).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&runtime, mode).expect("a mode");
    let scene = scene.env("XDG_RUNTIME_DIR", runtime.display().to_string());
    let mut training = scene.headless(&["touch:ready", "until:go"]);
    training.file("ready");
    // While it is removed, somebody may still write a file into it.
    wait_until("it is removed", PATIENCE, || {
        std::fs::remove_dir_all(&runtime).is_ok()
    });
    let keeper = i64::from(training.keeper().as_raw());
    training.wait_note("was removed; using");
    wait_until("it is listed again, and answers", PATIENCE, || {
        let listed = std::process::Command::new(OOMPH)
            .args(["ls", "--json"])
            .env_clear()
            .env("HOME", training.place.path())
            .output()
            .expect("oomph runs");
        let sessions: Vec<serde_json::Value> =
            serde_json::from_slice(&listed.stdout).expect("a list");
        let mut sessions = sessions.iter();
        sessions.any(|session| session["keeper"] == keeper && session["state"] == "running")
    });
    training.go();
    training.finish(Exit::Code(0));
    assert!(!runtime.exists(), "what was removed stays removed");
}

/// No probe, no NVML: nothing comes in, and nothing is asked for it again and again.
#[test]
fn fault_87_a_front_without_any_source_rests() {
    let blind = || Scene::new().option("--no-probe");
    let mut training = blind().headless(&["touch:ready", "until:go"]);
    training.file("ready");
    training.go();
    training.finish(Exit::Code(0));
    let mut training = blind().screen(&["shout", "until:go", "touch:ended"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.rests(training.front());
    training.signal_front(SIGKILL);
    let headless = training.find("another front", |pid| {
        processes::command_line(pid).starts_with("oomph __headless")
    });
    training.wait_note("continues without a screen");
    training.rests(headless);
    training.make("go");
    training.file("ended");
    training.marker().wait_gone(PATIENCE);
}

/// `setpriv`, `gosu`, `sudo -u`: the training, or a part of it, is another user's by then. Needs root, to become one.
#[test]
fn fault_116_a_training_that_became_another_user_is_ended() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("this is not root, who can become another user: not tried");
        return;
    }
    const OTHER: u32 = 65533;
    let other = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
    let works = "sh -c 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done'";
    let itself = format!("exec {other} {works}");
    let worker = format!("trap 'exit 5' TERM; {other} setsid {works} & while :; do wait; done");
    for (script, words, exit) in [
        (&itself, &["stop"][..], Exit::Signal(9)),
        (&itself, &["stop", "--kill"], Exit::Signal(9)),
        (&worker, &["stop"], Exit::Code(5)),
        (&worker, &["stop", "--kill"], Exit::Signal(9)),
    ] {
        let scene = Scene::new();
        let runtime = scene.path("run").display().to_string();
        let mut training = scene
            .env("OOMPH_RUNTIME_DIR", runtime.clone())
            .run_headless(&["sh", "-c", script]);
        wait_until("it is another user", PATIENCE, || {
            training.log().starts_with(b"ready\n")
        });
        let oomph = |words: &[&str]| {
            let mut command = std::process::Command::new(OOMPH);
            command.args(words).env_clear();
            command.env("OOMPH_RUNTIME_DIR", &runtime);
            // Whatever else runs on this machine is not meant.
            command.env("HOME", training.place.path());
            command.output().expect("oomph runs")
        };
        wait_until("it is listed", PATIENCE, || {
            oomph(&["ls", "--json"]).stdout.starts_with(b"[\n")
        });
        let stopped = oomph(words);
        let said = String::from_utf8_lossy(&stopped.stdout).into_owned();
        assert!(stopped.status.success(), "{stopped:?}");
        assert!(said.contains("has ended"), "{said}");
        let is_theirs = |pid: &nix::unistd::Pid| {
            std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == OTHER)
        };
        let mut left = training.marker().processes().into_iter();
        assert_eq!(left.find(is_theirs), None, "{script}: {said}");
        training.finish(exit);
    }
}

/// `sudo -u somebody` in a directory that is its owner's alone: one may be there without being able to go there.
#[test]
fn fault_135_a_directory_that_the_user_could_not_enter() {
    let other = |words: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]);
        command.args(words).env_clear().env("PATH", "/usr/bin:/bin");
        command
    };
    let private = tempfile::tempdir().unwrap();
    let is_possible = other(&[OOMPH, "--version"]).output();
    if !is_possible.is_ok_and(|made| made.status.success()) {
        eprintln!(
            "this is not root, who can become another user, or that one cannot run oomph: not tried"
        );
        return;
    }
    let script = "pwd -P; echo here; exit 3";
    let ran = |words: &[&str]| other(words).current_dir(private.path()).output().unwrap();
    let bare = ran(&["sh", "-c", script]);
    let ours = ran(&[
        OOMPH,
        "--headless",
        "--no-nvml",
        "--no-record",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(ours.status.code(), Some(3), "{ours:?}");
    assert_eq!((ours.stdout, ours.stderr), (bare.stdout, bare.stderr));
}

#[test]
fn fault_89_a_stopped_keeper_is_resumed_to_end_the_session() {
    for (words, exit) in [
        (&["stop"][..], Exit::Signal(15)),
        (&["stop", "--kill"], Exit::Signal(9)),
    ] {
        let scene = Scene::new();
        let runtime = scene.path("run").display().to_string();
        let mut training = scene
            .env("OOMPH_RUNTIME_DIR", runtime.clone())
            .headless(&["touch:ready", "until:never"])
            .held_up();
        training.file("ready");
        let oomph = |words: &[&str]| {
            let mut command = std::process::Command::new(OOMPH);
            command.args(words).env_clear();
            command.env("HOME", training.place.path());
            command.env("OOMPH_RUNTIME_DIR", &runtime);
            command.output().expect("oomph runs")
        };
        wait_until("it is listed", PATIENCE, || {
            oomph(&["ls", "--json"]).stdout.starts_with(b"[\n")
        });
        let keeper = training.keeper();
        processes::signal(keeper, SIGSTOP);
        wait_until("it is stopped", PATIENCE, || {
            processes::state(keeper) == Some('T')
        });
        let stopped = oomph(words);
        let said = String::from_utf8_lossy(&stopped.stdout).into_owned();
        assert!(said.contains("was stopped; resumed it"), "{stopped:?}");
        assert!(said.contains("has ended"), "{stopped:?}");
        training.finish(exit);
    }
}

/// No word of a stranger's is a command to the terminal, or a line of its own.
#[test]
fn fault_90_what_others_wrote_is_printed_as_text() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name);
    let hostile = "x\u{1b}]0;stolen\u{7}\r\nEVIL\u{9b}2J";
    let spelled = serde_json::to_string(hostile).expect("a string");
    let spelled = spelled.trim_matches('"');
    let recording = include_str!("../replay/capacity.jsonl")
        .replace("train.py", &format!("train.py{spelled}"))
        .replace("forward", &format!("forward{spelled}"));
    assert!(recording.contains("EVIL"));
    std::fs::write(path("rec.jsonl"), recording).expect("a recording");
    let toml = format!("\"{}\" = 1\n", spelled.replace('\u{9b}', "\\u009b"));
    std::fs::write(path("oomph.toml"), toml).expect("settings");
    let script = format!("train.py{hostile}");
    let recorded = path("rec.jsonl").display().to_string();
    for words in [
        &[
            "plan",
            "--",
            "python",
            &script,
            "--batch-size",
            "8",
            hostile,
        ][..],
        &[
            "plan",
            "--json",
            "--",
            "python",
            &script,
            "--batch-size",
            "8",
        ],
        &["explain", &recorded],
        &[
            "explain",
            &recorded,
            "--",
            "python",
            &script,
            "--batch-size",
            "8",
        ],
        &["replay", "--headless", &recorded],
        &["replay", hostile],
        &["attach", hostile],
        &["logs", hostile],
        &[hostile],
        &["--no-nvml", "--no-record", "sh", "-c", "exit 3", hostile],
    ] {
        let done = std::process::Command::new(OOMPH)
            .args(words)
            .current_dir(place.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.path())
            .env("OOMPH_RUNTIME_DIR", path("run"))
            .stdin(std::process::Stdio::null())
            .output()
            .expect("oomph runs");
        for said in [done.stdout, done.stderr] {
            let said = String::from_utf8(said).expect("text");
            let is_command = |c: char| c.is_control() && c != '\n';
            assert!(!said.contains(is_command), "{words:?}: {said:?}");
            let forged = said.lines().any(|line| line.starts_with("EVIL"));
            assert!(!forged, "{words:?}: {said}");
        }
    }
}
