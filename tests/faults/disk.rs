//! D: the disk, limits, descriptors, time.

use crate::faults::staging::{Scene, View, trainer};
use crate::harness::{Key, PATIENCE, wait_until};
use oomph::event::{Event, EventKind, Exit};
use std::process::Command;

const SUCCESS: Exit = Exit::Code(0);

/// Changes the limit on the size of files that a process has; the keeper's stands in for a disk
/// that is full, or is no more.
fn limit_files(pid: nix::unistd::Pid, most: u64) {
    let limit = nix::libc::rlimit {
        rlim_cur: most,
        rlim_max: nix::libc::RLIM_INFINITY,
    };
    // SAFETY: sets a limit of a process of this test's.
    let set = unsafe {
        nix::libc::prlimit(
            pid.as_raw(),
            nix::libc::RLIMIT_FSIZE,
            &limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(set, 0);
}

#[test]
fn fault_51_a_disk_that_is_full_and_then_is_not() {
    let steps = [
        "until:one",
        "lines:1000",
        "touch:1",
        "chatter:two",
        "lines:1000",
        "until:go",
    ];
    let mut training = Scene::new().headless(&steps);
    training.trainer();
    // Full from the middle of the first thousand lines on.
    limit_files(training.keeper(), 30_000);
    training.make("one");
    training.wait_note("cannot write the output log");
    training.wait_note("unlogged: Bytes(");
    training.file("1");
    limit_files(training.keeper(), nix::libc::RLIM_INFINITY);
    wait_until("the next attempt to write succeeds", PATIENCE, || {
        training.log().len() > 30_000
    });
    training.make("two");
    training.go();
    training.finish(SUCCESS);
    let log = String::from_utf8(training.log()).expect("text");
    assert!(
        log.contains("bytes of output are missing here]"),
        "the gap is told"
    );
    let output = training.output().0;
    let last = &output[output.len() - 80..];
    assert!(log.as_bytes().ends_with(last), "and the rest is there");
    let lines = output.chunks(80).enumerate();
    for (number, line) in lines {
        assert_eq!(line, format!("{number:079}\n").as_bytes());
    }
}

#[test]
fn fault_52_a_limit_on_files_is_the_trainings_own() {
    let script = "head -c 100000 /dev/zero > large";
    let mut training = Scene::new()
        .before("ulimit -c 0; ulimit -f 20")
        .run_headless(&["sh", "-c", &format!("exec {script}")]);
    training.finish(Exit::Signal(nix::libc::SIGXFSZ));
    // Nor is one that only the log meets.
    let mut training = Scene::new().before("ulimit -f 20").headless(&[
        "lines:2000",
        "touch:written",
        "until:go",
        "exit:3",
    ]);
    training.file("written");
    training.go();
    training.finish(Exit::Code(3));
    assert_eq!(training.output().0.len(), 160_000);
    assert!(training.log().len() < 160_000);
}

/// Neither the probe nor the recording can be written: both are said, and nothing is called recorded.
#[test]
fn fault_52_what_cannot_be_written_is_not_called_recorded() {
    let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.";
    let mut training = Scene::new().before("ulimit -f 0").run_headless(&[
        "sh",
        "-c",
        &format!("echo {text} >&2; exit 1"),
    ]);
    let exit = training.exit();
    let said = String::from_utf8_lossy(&training.output().1).into_owned();
    assert_eq!(exit, Exit::Code(1), "{said}");
    assert!(said.contains("the probe could not be written to"), "{said}");
    assert!(said.contains("this session is not recorded"), "{said}");
    assert!(!said.contains("recorded in"), "{said}");
}

#[test]
fn fault_54_a_recording_that_breaks_off_anywhere() {
    let mut training = Scene::new().headless(&["lines:10", "oom:python", "until:go", "exit:1"]);
    training.go();
    training.finish(Exit::Code(1));
    let whole = std::fs::read(training.path("rec.jsonl")).expect("a recording");
    // Readings stand in the file after what happened later.
    let is_exact = |event: &Event| {
        !matches!(
            event.what,
            EventKind::Logged(_) | EventKind::HostMemory(_) | EventKind::LaunchFacts(_)
        )
    };
    let all: Vec<_> = training.events().into_iter().filter(is_exact).collect();
    assert!(all.len() >= 5);
    let cut = training.path("cut.jsonl");
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&cut, &whole[..length]).expect("a file");
        let Ok(read) = oomph::recording::read(&cut) else {
            continue;
        };
        let read: Vec<_> = read.filter_map(Result::ok).filter(is_exact).collect();
        assert!(all.starts_with(&read), "cut at {length}");
    }
    let replayed = Command::new(crate::faults::staging::OOMPH)
        .args(["replay", "--headless"])
        .arg(&cut)
        .output();
    assert!(
        replayed.expect("oomph runs").status.code().is_some(),
        "no crash"
    );
}

#[test]
fn fault_55_no_home_and_no_place_for_anything() {
    let nothing = [("HOME", "/nonexistent"), ("XDG_STATE_HOME", "/proc/none")];
    for (name, value) in nothing {
        let mut scene = Scene::new()
            .options(&["--scaled=100", "--no-nvml"])
            .env(name, value)
            .env("TMPDIR", "/nonexistent");
        scene = scene.before("unset XDG_STATE_HOME XDG_RUNTIME_DIR");
        let mut training = scene.headless(&["shout", "touch:ready", "until:go", "exit:4"]);
        training.file("ready");
        training.go();
        training.finish(Exit::Code(4));
        let (out, err) = training.output();
        assert_eq!(
            (out.as_slice(), err.as_slice()),
            (&b"\r\n<<HERE>>\r\n"[..], &b""[..])
        );
    }
    let scene = Scene::new()
        .options(&["--no-nvml"])
        .before("unset HOME XDG_STATE_HOME");
    let mut training = scene.headless(&["exit:4"]);
    training.finish(Exit::Code(4));
}

/// However few descriptors or however little memory there is: the training runs, or 125 and why.
#[test]
fn fault_56_too_few_descriptors_and_too_little_memory() {
    // Below this the loader itself cannot open the libraries.
    for n in (5..40).step_by(3) {
        let limit = format!("ulimit -n {n}");
        let mut training = Scene::new().before(&limit).headless(&["shout", "exit:6"]);
        let exit = training.exit();
        let said = String::from_utf8_lossy(&training.output().1).into_owned();
        assert_eq!(exit, Exit::Code(6), "{limit}: {said}");
        assert_eq!(training.output().0, b"\r\n<<HERE>>\r\n", "{limit}: {said}");
        training.check();
    }
    let limits = (1..14).step_by(2);
    let limits = limits.map(|n| format!("ulimit -v {}", n * 20_000));
    // Of `ulimit -d` nothing counts that the loader maps.
    for limit in (2..8).map(|n| format!("ulimit -d {}", n * 3_000)) {
        let mut training = Scene::new().before(&limit).headless(&["shout", "exit:6"]);
        assert_eq!(training.exit(), Exit::Code(6), "{limit}");
        assert_eq!(training.output().0, b"\r\n<<HERE>>\r\n", "{limit}");
        training.check();
    }
    let mut ran = 0;
    for limit in limits {
        let scene = Scene::new().before(&limit);
        let mut training = scene.headless(&["shout", "exit:6"]);
        let exit = training.exit();
        let (out, err) = training.output();
        let said = String::from_utf8_lossy(&err).into_owned();
        match exit {
            Exit::Code(6) => {
                assert_eq!(out, b"\r\n<<HERE>>\r\n", "{limit}: {said}");
                ran += 1;
            }
            Exit::Code(125) => assert!(said.contains("oomph: "), "{limit}: {said}"),
            // The loader or Rust's own beginning, before a line of ours: nothing was started.
            other => assert!(
                out.is_empty() && !training.path("beat").exists(),
                "{limit}: {other:?} {said}"
            ),
        }
        training.check();
    }
    assert!(ran > 3, "{ran}");
}

/// A job that is queued again is started with the same words.
#[test]
fn fault_88_a_recording_that_is_there_holds_nobody_up() {
    let scene = Scene::new();
    std::fs::write(scene.path("rec.jsonl"), "of the first time\n").expect("a file");
    std::fs::write(scene.path("rec-2.jsonl"), "of the second\n").expect("a file");
    let mut training = scene.headless(&["say:trained", "exit:6"]);
    training.finish(Exit::Code(6));
    let said = String::from_utf8_lossy(&training.output().1).into_owned();
    assert!(said.contains("rec-3.jsonl"), "{said}");
    let kept = std::fs::read_to_string(training.path("rec.jsonl")).expect("a file");
    assert_eq!(kept, "of the first time\n");
    let third = std::fs::read_to_string(training.path("rec-3.jsonl")).expect("a recording");
    assert!(third.contains("session_started"), "{third}");
}

#[test]
fn fault_58_a_clock_on_the_wall_that_jumps() {
    let clock =
        crate::faults::staging::built("wall_clock.rs", include_str!("wall_clock.rs"), "cdylib");
    let scene = Scene::new();
    let offset = scene.path("offset");
    std::fs::write(&offset, "0").expect("a file");
    let scene = scene
        .scaled(20)
        .env("LD_PRELOAD", clock.display().to_string())
        .env("WALL_CLOCK_OFFSET", offset.display().to_string());
    let steps = ["catch:TERM:ignore", "shout", "until:never"];
    let mut training = scene.screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    for jump in ["86400", "-86400", "-1000000000", "0"] {
        training.put("offset", jump);
        crate::faults::staging::wait_for_beats(&training, 60_000);
    }
    // In the middle of a grace of 45 s / 20 too: it is neither cut short nor stretched.
    training.terminal().press('K');
    training.terminal().wait_for("kill now", PATIENCE);
    let began = std::time::Instant::now();
    training.terminal().press(Key::Ctrl('x'));
    training.terminal().wait_for("stopping", PATIENCE);
    training.put("offset", "86400");
    training.finish(Exit::Signal(9));
    let taken = began.elapsed();
    assert!(taken.as_millis() > 2250, "cut short: {taken:?}");
    let at: Vec<_> = training.events().iter().map(|event| event.at).collect();
    assert!(at.is_sorted(), "the recording's clock never goes back");
}

/// What a training has of its caller's: with oomph what it has without.
#[test]
fn fault_62_everything_inherited_is_inherited() {
    const OF_INTEREST: [&str; 12] = [
        "open:",
        "nice:",
        "umask:",
        "Max ",
        "Cpus_allowed:",
        "Uid:",
        "Groups:",
        "NoNewPrivs:",
        "Cap",
        "Seccomp:",
        "THP_enabled:",
        "Sig",
    ];
    let of_interest = |text: &str| -> Vec<String> {
        let wanted = |line: &&str| OF_INTEREST.iter().any(|prefix| line.starts_with(prefix));
        let of_signals = |line: &&str| {
            line.starts_with("SigQ") || line.starts_with("SigCgt") || line.starts_with("SigIgn")
        };
        let lines = text.lines().filter(wanted).filter(|line| !of_signals(line));
        lines.map(String::from).collect()
    };
    for before in [
        "umask 077; exec 3< /dev/null 9> /dev/null",
        "ulimit -n 99; ulimit -s 4096; ulimit -c 0",
        "echo 500 > /proc/self/oom_score_adj; set -- nice -n 5 \"$@\"",
        "exec < /dev/null 2> /dev/null; umask 002",
    ] {
        let bare = tempfile::tempdir().expect("a directory");
        let done = Command::new("sh")
            .args(["-c", &format!("{before}\nexec \"$@\""), "sh"])
            .arg(trainer())
            .arg("status:found")
            .current_dir(bare.path())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .status();
        assert!(done.expect("sh runs").success());
        let expected = std::fs::read_to_string(bare.path().join("found")).expect("a file");
        let command = [&trainer().display().to_string(), "status:found", "until:go"];
        let mut training = Scene::new().before(before).run_headless(&command);
        let (found, expected) = (of_interest(&training.file("found")), of_interest(&expected));
        let differing: Vec<_> = found
            .iter()
            .zip(&expected)
            .filter(|(a, b)| a != b)
            .collect();
        assert!(
            differing.is_empty() && found.len() == expected.len(),
            "{before}: {differing:?}"
        );
        training.go();
        training.finish(SUCCESS);
    }
    // A directory that is gone is not left.
    let gone = "mkdir gone; cd gone; rmdir ../gone";
    let scene = Scene::new().before(gone);
    let mut training = scene.run_headless(&["readlink", "/proc/self/cwd"]);
    training.finish(SUCCESS);
    assert!(training.output().0.ends_with(b"/gone (deleted)\n"));
}

/// Two trainings at once are legitimate; each has a place of its own.
#[test]
fn fault_81_two_sessions_never_share_a_file() {
    let place = tempfile::tempdir().expect("a directory");
    let state = place.path().display().to_string();
    let mut both: Vec<_> = (0..2)
        .map(|n| {
            let scene = Scene::new().options(&["--scaled=100", "--no-nvml"]);
            let scene = scene.env("XDG_STATE_HOME", state.clone());
            scene.headless(&["lines:5", "touch:ready", "until:go", &format!("exit:{n}")])
        })
        .collect();
    for training in &both {
        training.file("ready");
    }
    let sessions =
        || std::fs::read_dir(place.path().join("oomph/sessions")).map_or(0, Iterator::count);
    wait_until("two directories", PATIENCE, || sessions() == 2);
    for (n, training) in both.iter_mut().enumerate() {
        training.go();
        training.finish(Exit::Code(n as i32));
        assert!(matches!(training.view, View::Pipes { .. }));
    }
    for session in std::fs::read_dir(place.path().join("oomph/sessions"))
        .expect("sessions")
        .flatten()
    {
        let log = std::fs::read(session.path().join("output.log")).expect("a log");
        assert_eq!(log.len(), 400, "of one training each");
    }
}

/// The screen's code would need more than such a stack holds: decided before the program starts.
#[test]
fn fault_106_a_small_stack_is_no_reason_not_to_run() {
    for limit in ["ulimit -s 128", "ulimit -s 256", "ulimit -s 512"] {
        let mut training = Scene::new().before(limit).headless(&["shout", "exit:6"]);
        let exit = training.exit();
        let (out, err) = training.output();
        let said = String::from_utf8_lossy(&err).into_owned();
        assert_eq!(exit, Exit::Code(6), "{limit}: {said}");
        assert_eq!(out, b"\r\n<<HERE>>\r\n", "{limit}: {said}");
        assert!(said.contains("running the command without oomph"), "{said}");
        training.check();
        // A trial without oomph would be no trial.
        let mut training = Scene::new().options(&["fit"]).before(limit).run_headless(&[
            "--",
            "python3",
            "-c",
            "open('ran', 'w')",
            "--batch-size",
            "8",
        ]);
        let exit = training.exit();
        let said = String::from_utf8_lossy(&training.output().1).into_owned();
        assert_eq!(exit, Exit::Code(125), "{limit}: {said}");
        assert!(said.contains("nothing was run"), "{limit}: {said}");
        assert!(!training.path("ran").exists());
    }
}
