//! Files that are written for the user, where others have put something, take it away, or write to it
//! at the same time.

use crate::faults::staging::{Collected, OOMPH};
use crate::harness::{PATIENCE, wait_until};
use oomph::event::{Event, EventKind};
use std::fs;
use std::os::unix::fs::{FileTypeExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Waits for a file named `go`.
const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

fn oomph(place: &Path, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(OOMPH);
    command
        .current_dir(place)
        .env("HOME", place)
        .env("OOMPH_STATE_DIR", place.join("state"))
        .env("OOMPH_RUNTIME_DIR", place.join("run"))
        .env_remove("PYTHONPATH")
        .env_remove("SLURM_JOB_NUM_NODES")
        .env_remove("SLURM_NNODES")
        .arg("--no-nvml")
        .args(options)
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The files of this name in the sessions' directories.
fn in_sessions(place: &Path, name: &str) -> Vec<PathBuf> {
    let sessions = fs::read_dir(place.join("state/oomph/sessions"));
    let files = sessions.into_iter().flatten().flatten();
    let files = files.map(|session| session.path().join(name));
    files.filter(|file| file.exists()).collect()
}

fn events(path: &Path) -> Vec<Event> {
    let read = oomph::recording::read(path).expect("a recording");
    read.filter_map(Result::ok).collect()
}

fn sessions_in(path: &Path) -> usize {
    let began = |event: &&Event| matches!(event.what, EventKind::SessionStarted(_));
    events(path).iter().filter(began).count()
}

fn has_ended(path: &Path) -> bool {
    let ended = |event: &Event| matches!(event.what, EventKind::Exited(_));
    events(path).iter().any(ended)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn fault_98_what_others_have_put_where_a_file_is_written() {
    let place = TempDir::new().expect("a directory");
    let path = |name: &str| place.path().join(name);
    let precious = path("precious");
    let metrics = |file: &str| {
        fs::write(&precious, "precious").expect("a file");
        let option = format!("--metrics={file}");
        let done = oomph(place.path(), &[&option], "echo trained; exit 3").output();
        let done = done.expect("oomph runs");
        assert_eq!(done.status.code(), Some(3));
        assert_eq!(text(&done.stdout), "trained\n");
        assert_eq!(fs::read(&precious).expect("a file"), b"precious");
        text(&done.stderr)
    };
    // A link under the name that could be guessed.
    symlink(&precious, path("a.prom.new")).expect("a link");
    metrics("a.prom");
    let written = fs::read_to_string(path("a.prom")).expect("the metrics");
    assert!(written.contains("oomph_"), "{written}");
    assert!(path("a.prom.new").is_symlink());

    // A FIFO stays one, and whoever reads it gets the metrics.
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let held = fs::File::options()
        .read(true)
        .write(true)
        .open(path("fifo"))
        .expect("the FIFO");
    let read = Collected::from(held);
    metrics("fifo");
    let about = path("fifo").symlink_metadata().expect("the FIFO");
    assert!(about.file_type().is_fifo());
    wait_until("metrics", PATIENCE, || {
        text(&read.so_far()).contains("oomph_")
    });

    // Our own link is followed, and stays.
    symlink("real.prom", path("link.prom")).expect("a link");
    metrics("link.prom");
    assert!(path("link.prom").is_symlink());
    assert!(path("real.prom").is_file());

    // Somebody else's link, and somebody else's file: only root can make them.
    symlink(&precious, path("theirs.prom")).expect("a link");
    if lchown(path("theirs.prom"), Some(65_534), None).is_ok() {
        let said = metrics("theirs.prom");
        assert!(said.contains("a link of user 65534"), "{said}");
        fs::write(path("file.prom"), "theirs").expect("a file");
        lchown(path("file.prom"), Some(65_534), None).expect("given away");
        let said = metrics("file.prom");
        assert!(said.contains("a file of user 65534"), "{said}");
        assert_eq!(fs::read(path("file.prom")).expect("a file"), b"theirs");
        // Nor is a session recorded there.
        let option = "--record=theirs.prom";
        let done = oomph(place.path(), &[option], "exit 3").output();
        let done = done.expect("oomph runs");
        assert_eq!(done.status.code(), Some(3));
        assert!(text(&done.stderr).contains("a link of user 65534"));
        assert_eq!(fs::read(&precious).expect("a file"), b"precious");
    }
}

#[test]
fn fault_99_six_sessions_are_given_one_file_to_record_to() {
    let place = TempDir::new().expect("a directory");
    let file = place.path().join("all.jsonl");
    let start = |n: usize| -> Child {
        let script = format!("echo OUTPUT-{n}; touch began-{n}; {WAIT}");
        let mut command = oomph(place.path(), &["--record=all.jsonl"], &script);
        command.spawn().expect("oomph runs")
    };
    let all: Vec<Child> = (0..6).map(start).collect();
    for n in 0..6 {
        let began = place.path().join(format!("began-{n}"));
        wait_until("a session", PATIENCE, || began.exists());
    }
    fs::write(place.path().join("go"), "").expect("a file");
    let mut moved = 0;
    for (n, session) in all.into_iter().enumerate() {
        let done = session.wait_with_output().expect("it ends");
        assert_eq!(done.status.code(), Some(0));
        assert_eq!(text(&done.stdout), format!("OUTPUT-{n}\n"));
        moved += usize::from(text(&done.stderr).contains("another session records to it"));
    }
    assert_eq!(moved, 5);
    let recordings = in_sessions(place.path(), "events.jsonl");
    assert_eq!(recordings.len(), 5, "{recordings:?}");
    let mut logs = in_sessions(place.path(), "output.log");
    logs.push(place.path().join("all.output.log"));
    for recording in recordings.iter().chain([&file]) {
        assert_eq!(sessions_in(recording), 1, "{}", recording.display());
        assert!(has_ended(recording), "{}", recording.display());
    }
    // oomph's own words on the same stream are in the log too.
    let output = |log: &PathBuf| {
        let text = fs::read_to_string(log).expect("a log");
        let lines: Vec<&str> = (text.lines())
            .filter(|line| line.starts_with("OUTPUT"))
            .collect();
        lines.join(" and ")
    };
    let mut said: Vec<String> = logs.iter().map(output).collect();
    said.sort();
    let each: Vec<String> = (0..6).map(|n| format!("OUTPUT-{n}")).collect();
    assert_eq!(said, each);
}

/// A session whose recording has begun, with what it says.
fn begun(place: &Path) -> (Child, Collected, PathBuf) {
    let script = format!("echo before; {WAIT}; echo after; exit 5");
    let mut session = oomph(place, &[], &script).spawn().expect("oomph runs");
    let said = Collected::from(session.stderr.take().expect("stderr"));
    let mut recording = None;
    wait_until("a recording", PATIENCE, || {
        recording = in_sessions(place, "events.jsonl").pop();
        let log = in_sessions(place, "output.log").pop();
        recording
            .as_deref()
            .is_some_and(|path| sessions_in(path) == 1)
            && log.is_some_and(|log| fs::read(log).is_ok_and(|text| text == b"before\n"))
    });
    (session, said, recording.expect("a recording"))
}

/// Removes `state` at once: a directory that the session writes into while it is being emptied
/// cannot be removed, so it is moved first.
fn take_away(place: &Path) {
    let (state, aside) = (place.join("state"), place.join("aside"));
    fs::rename(state, &aside).expect("moved");
    fs::remove_dir_all(aside).expect("removed");
}

#[test]
fn fault_100_the_sessions_directory_is_removed() {
    let place = TempDir::new().expect("a directory");
    let (mut session, said, recording) = begun(place.path());
    take_away(place.path());
    wait_until("words", PATIENCE, || {
        text(&said.so_far()).contains("was removed; it was made again")
    });
    assert_eq!(sessions_in(&recording), 1);
    fs::write(place.path().join("go"), "").expect("a file");
    assert_eq!(session.wait().expect("it ends").code(), Some(5));
    assert!(has_ended(&recording));
    let log = fs::read_to_string(recording.with_file_name("output.log")).expect("the log");
    assert!(
        log.starts_with("before\n") && log.ends_with("after\n"),
        "{log}"
    );

    // Where it cannot be made again, nothing is claimed.
    let place = TempDir::new().expect("a directory");
    let (mut session, said, recording) = begun(place.path());
    let (state, aside) = (place.path().join("state"), place.path().join("aside"));
    fs::rename(&state, &aside).expect("moved");
    fs::write(&state, "no directory").expect("a file");
    fs::remove_dir_all(&aside).expect("removed");
    wait_until("words", PATIENCE, || {
        text(&said.so_far()).contains("was removed and cannot be made again")
    });
    fs::write(place.path().join("go"), "").expect("a file");
    assert_eq!(session.wait().expect("it ends").code(), Some(5));
    let said = text(&said.to_the_end());
    let gone = format!("{} is not there any more", recording.display());
    assert!(said.contains(&gone), "{said}");
    assert!(!said.contains("recorded in"), "{said}");
}

#[test]
fn fault_111_other_nodes_are_given_no_directory_that_a_stranger_could_make() {
    use std::os::unix::fs::PermissionsExt;
    let place = TempDir::new().expect("a directory");
    let srun = place.path().join("srun");
    fs::write(&srun, "#!/bin/sh\necho \"[$PYTHONPATH]\"\n").expect("a launcher");
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).expect("its mode");
    let launched = |home: &Path| {
        let mut command = oomph(place.path(), &[], "");
        let path = std::env::var("PATH").expect("PATH");
        let path = format!("{}:{path}", place.path().display());
        command.env("PATH", path).env("HOME", home);
        // In place of the shell.
        let mut own = Command::new(OOMPH);
        own.current_dir(place.path()).arg("--no-nvml");
        own.args(["srun", "-N2", "python", "train.py"]);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => own.env(name, value),
                None => own.env_remove(name),
            };
        }
        let done = own.stdin(Stdio::null()).output().expect("oomph runs");
        (text(&done.stdout), text(&done.stderr))
    };
    let (given, said) = launched(place.path());
    assert_eq!(given, "[]\n", "{said}");
    assert!(said.contains("may run on other nodes"), "{said}");

    // A home that is the user's or root's up to the root of the file tree.
    let home = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (given, said) = launched(home.path());
    match oomph::recording::is_safe_to_load(home.path()) {
        Ok(()) => {
            let named = given.trim().trim_matches(['[', ']']);
            assert!(Path::new(named).starts_with(home.path()), "{given} {said}");
            assert!(Path::new(named).join("sitecustomize.py").is_file());
        }
        Err(why) => assert!(given == "[]\n" && said.contains(&why), "{given} {said}"),
    }
}
