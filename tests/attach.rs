//! A session outlives its screen: fronts are killed, terminals closed, and the training goes on; who
//! comes later finds all of it, and one front at a time has it.

use crate::harness::{Key, Marker, PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use oomph::event::{Event, EventKind, Exit};
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// A training of some seconds on a machine with other things to do.
const A_RUN: Duration = Duration::from_secs(120);

/// The dialog's footer: nothing else on the screen says this.
const DIALOG: &str = "Space combine";

/// A user with a home of his own: state and runtime directories that no other test sees.
struct User {
    home: TempDir,
    marker: Marker,
}

impl User {
    fn new() -> User {
        let home = TempDir::new().expect("a directory");
        for name in ["state", "run"] {
            let path = home.path().join(name);
            std::fs::create_dir(&path).expect("a directory");
        }
        User {
            home,
            marker: Marker::unique(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name| self.path(name).display().to_string();
        vec![
            ("OOMPH_STATE_DIR", path("state")),
            ("OOMPH_RUNTIME_DIR", path("run")),
            ("HOME", path("")),
            // Twice as fast, and still slow enough for the sampler to see the memory grow.
            ("OOMPH_SIMULATED_SPEED", "2".into()),
            (processes::VARIABLE, self.marker.value().into()),
        ]
    }

    /// oomph in a terminal of its own.
    fn terminal(&self, words: &[&str]) -> Terminal {
        let environment = self.environment();
        let environment: Vec<(&str, &str)> = (environment.iter())
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let argv: Vec<&str> = std::iter::once(OOMPH)
            .chain(words.iter().copied())
            .collect();
        Terminal::spawn(&argv, &environment, 45, 140)
    }

    fn start(&self, demo: &[&str]) -> Terminal {
        let mut words = vec!["--no-nvml", "python3", DEMO, "--simulated"];
        words.extend_from_slice(demo);
        self.terminal(&words)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(OOMPH);
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment())
            .stdin(Stdio::null());
        command
    }

    /// oomph to its end, without a terminal.
    fn ask(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("oomph runs")
    }

    fn ls(&self) -> Vec<Value> {
        let output = self.ask(&["ls", "--json"]);
        serde_json::from_slice(&output.stdout).expect("a list")
    }

    fn only(&self) -> Value {
        let sessions = self.ls();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0].clone()
    }

    /// Waits until the only session is so.
    fn wait_for(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut found = Value::Null;
        wait_until(what, A_RUN, || {
            let sessions = self.ls();
            match &sessions[..] {
                [session] if condition(session) => {
                    found = session.clone();
                    true
                }
                _ => false,
            }
        });
        found
    }

    fn wait_for_none(&self) {
        wait_until("no session is left", A_RUN, || self.ls().is_empty());
    }

    fn events(&self, session: &Value) -> Vec<Event> {
        let path = session["recording"].as_str().expect("a recording");
        oomph::recording::read(Path::new(path))
            .expect("a recording")
            .flatten()
            .collect()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.marker.kill_all();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn steps(session: &Value) -> u64 {
    session["steps"].as_u64().unwrap_or(0)
}

/// A training that goes on until it is ended.
const ENDLESS: [&str; 4] = ["--scenario", "none", "--steps", "1000000"];

#[test]
fn a_killed_front_costs_nothing_but_the_screen() {
    let user = User::new();
    let mut first = user.start(&ENDLESS);
    first.wait_for("allocated", A_RUN);
    let before = user.wait_for("steps", |session| steps(session) > 0);
    assert_eq!(before["attached"], true);
    // What a killed front has not written yet is lost.
    wait_until("the probe's hello is recorded", A_RUN, || {
        let events = user.events(&before);
        events
            .iter()
            .any(|event| matches!(event.what, EventKind::Hello(_)))
    });
    processes::signal(first.pid(), Signal::SIGKILL);
    assert_eq!(first.exit(PATIENCE), Exit::Signal(9));
    wait_until("the keeper restores the terminal", PATIENCE, || {
        first.left_behind().is_empty()
    });

    // The training goes on, and so does the recording.
    let seen = steps(&before);
    let after = user.wait_for("more steps without a screen", |session| {
        session["attached"] == false && session["state"] == "running" && steps(session) > seen + 5
    });
    assert_eq!(after["pid"], before["pid"]);
    let last = user.events(&after).last().expect("events").at;
    wait_until("the recording goes on", A_RUN, || {
        user.events(&after)
            .last()
            .is_some_and(|event| event.at > last)
    });

    // Who attaches has the history and the output.
    let mut second = user.terminal(&["attach"]);
    let screen = second.wait_for("allocated", A_RUN);
    assert!(screen.contains("run 1"), "{screen}");
    second.wait_for("step ", A_RUN);
    second.press('4');
    second.wait_for("the front was lost", A_RUN);
    user.wait_for("a screen", |session| session["attached"] == true);
    // The screen shows history before the probe has found its new front.
    let hello = |event: &&Event| matches!(event.what, EventKind::Hello(_));
    wait_until("the probe greets each of three fronts", A_RUN, || {
        user.events(&after).iter().filter(hello).count() >= 3
    });

    let stopped = user.ask(&["stop"]);
    let said = text(&stopped.stdout);
    assert!(stopped.status.success(), "{said} {}", text(&stopped.stderr));
    assert!(said.contains("the training ended: SIGTERM"), "{said}");
    assert!(said.contains("has ended"), "{said}");
    assert_eq!(
        second.exit(A_RUN),
        Exit::Signal(15),
        "as the training ended"
    );
    assert_eq!(second.left_behind(), [""; 0]);
    user.wait_for_none();
    user.marker.wait_gone(A_RUN);

    let events = user.events(&after);
    let started = |event: &&Event| matches!(event.what, EventKind::Started(_));
    let ended = |event: &&Event| matches!(event.what, EventKind::Exited(_));
    let headers = |event: &&Event| matches!(event.what, EventKind::SessionStarted(_));
    assert_eq!(events.iter().filter(headers).count(), 1);
    assert_eq!(events.iter().filter(started).count(), 1);
    assert_eq!(events.iter().filter(ended).count(), 1);
    assert_eq!(events.iter().filter(hello).count(), 3, "one for each front");
}

/// Only the list of events says `epoch 1` with a small letter.
#[test]
fn the_next_front_goes_on_counting_epochs() {
    let user = User::new();
    let number = user.path("number");
    // Put in its place whole: the script must never find it empty.
    let say = |n: u64| {
        let fresh = user.path("fresh");
        std::fs::write(&fresh, format!("{n}\n")).expect("a file");
        std::fs::rename(&fresh, &number).expect("a file");
    };
    say(1);
    let path = number.display().to_string();
    let script = r#"while read n <"$0"; do echo "Epoch $n/3"; sleep 0.1; done"#;
    let mut first = user.terminal(&["--no-nvml", "sh", "-c", script, &path]);
    first.wait_for("Epoch 1/3", A_RUN);
    first.press('4');
    first.wait_for("epoch 1", A_RUN);
    let session = user.only();
    let epochs = || -> Vec<u64> {
        let events = user.events(&session).into_iter();
        let epochs = events.filter_map(|event| match event.what {
            EventKind::Epoch(epoch) => Some(epoch.number),
            _ => None,
        });
        epochs.collect()
    };
    wait_until("the first epoch is recorded", A_RUN, || epochs() == [1]);

    let mut second = user.terminal(&["attach"]);
    second.wait_for("Epoch 1/3", A_RUN);
    second.press('4');
    second.wait_for("epoch 1", A_RUN);
    first.wait_for("has taken over", A_RUN);
    say(2);
    second.wait_for("epoch 2", A_RUN);
    wait_until("the second is recorded", A_RUN, || epochs() == [1, 2]);
    assert!(user.ask(&["stop"]).status.success());
    second.exit(A_RUN);
    user.wait_for_none();
    assert_eq!(epochs(), [1, 2], "each once");
}

/// The front that goes on without its terminal stays behind another one, for whoever waits for it; the probe must leave it.
#[test]
fn the_probe_finds_whoever_attaches_after_a_terminal_has_closed() {
    let user = User::new();
    let mut first = user.start(&ENDLESS);
    first.wait_for("allocated", A_RUN);
    let session = user.wait_for("steps", |session| steps(session) > 0);
    first.close();
    user.wait_for("no screen", |session| session["attached"] == false);
    let greetings = |fronts: usize| {
        wait_until("the probe greets each front", A_RUN, || {
            let hello = |event: &&Event| matches!(event.what, EventKind::Hello(_));
            user.events(&session).iter().filter(hello).count() == fronts
        });
    };
    greetings(1);
    let mut second = user.terminal(&["attach"]);
    greetings(2);
    second.wait_for("● probe", A_RUN);
    let mut third = user.terminal(&["attach"]);
    greetings(3);
    third.wait_for("● probe", A_RUN);
    assert_eq!(second.exit(A_RUN), Exit::Code(0));
    let seen = steps(&user.only());
    user.wait_for("more steps", |session| steps(session) > seen + 5);
    assert!(user.ask(&["stop"]).status.success());
    third.exit(A_RUN);
    user.wait_for_none();
}

#[test]
fn a_terminal_that_closes_at_the_dialog_leaves_it_waiting() {
    let user = User::new();
    let mut first = user.start(&["--batch-size", "64", "--grad-accum", "1", "--steps", "6"]);
    first.wait_for(DIALOG, A_RUN);
    first.close();
    user.wait_for("waiting without a screen", |session| {
        session["state"] == "waiting at OOM" && session["attached"] == false
    });
    // The one that went on without its terminal dies as well: the dialog still waits.
    let fronts = user.marker.find("--simulated");
    let front = fronts.expect("the first front");
    processes::signal(front, Signal::SIGKILL);
    user.wait_for("waiting without the first front", |session| {
        session["state"] == "waiting at OOM" && user.marker.find("__headless").is_some()
    });

    let mut second = user.terminal(&["attach"]);
    let dialog = second.wait_for(DIALOG, A_RUN);
    assert!(dialog.contains("does not fit"), "{dialog}");
    second.press("b");
    second.wait_for("run 2", A_RUN);
    let session = user.only();
    assert_eq!(
        second.exit(A_RUN),
        Exit::Code(0),
        "{}",
        second.post_mortem()
    );
    let screen = second.screen();
    assert!(screen.contains("finished after"), "{screen}");
    user.wait_for_none();
    let commands: Vec<String> = (user.events(&session).iter())
        .filter_map(|event| match &event.what {
            EventKind::Started(started) => Some(started.command.shown()),
            _ => None,
        })
        .collect();
    assert_eq!(commands.len(), 2, "never two trainings: {commands:?}");
    assert!(commands[1].contains("--batch-size 32 --grad-accum 2"));
    user.marker.wait_gone(A_RUN);
}

/// Runs out of memory, and takes no `--gradient_accumulation_steps`.
const TAKES_NO_PARTS: &str = "\
import sys
if '--gradient_accumulation_steps' in sys.argv:
    sys.exit('run_clm.py: error: unrecognized arguments: --gradient_accumulation_steps 2')
sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total '
    'capacity of 23.60 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process '
    'has 22.30 GiB memory in use. Of the allocated memory 20.10 GiB is allocated by PyTorch, and '
    '1.40 GiB is reserved by PyTorch but unallocated.')
";

#[test]
fn what_a_run_rejected_is_told_to_whoever_attaches() {
    let user = User::new();
    let program = user.path("run_clm.py");
    std::fs::write(&program, TAKES_NO_PARTS).expect("a program");
    let program = program.display().to_string();
    let batch = ["--per_device_train_batch_size", "8"];
    let mut words = vec!["--no-nvml", "--no-probe", "python3", &program];
    words.extend(batch);
    let mut first = user.terminal(&words);
    first.wait_for(DIALOG, A_RUN);
    first.press("b");
    first.wait_for("rejected the change", A_RUN);
    processes::signal(first.pid(), Signal::SIGKILL);
    user.wait_for("waiting without the first front", |session| {
        session["attached"] == false && user.marker.find("__headless").is_some()
    });
    let mut second = user.terminal(&["attach"]);
    second.wait_for("rejected the change", A_RUN);
    let dialog = second.wait_for("undo the change", A_RUN);
    assert!(dialog.contains("unrecognized arguments"), "{dialog}");
    second.press("u");
    second.wait_for("run 3", A_RUN);
    second.wait_for(DIALOG, A_RUN);
    let commands: Vec<String> = (user.events(&user.only()).iter())
        .filter_map(|event| match &event.what {
            EventKind::Started(started) => Some(started.command.shown()),
            _ => None,
        })
        .collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert!(commands[1].contains("--gradient_accumulation_steps 2"));
    assert_eq!(commands[0], commands[2]);
}

/// The keeper is the only process that has the session's words where its first front was killed.
#[test]
fn a_dialog_that_waits_without_its_front_is_ended_by_a_request_to_the_keeper() {
    let user = User::new();
    let mut first = user.start(&["--batch-size", "64", "--grad-accum", "1", "--steps", "6"]);
    first.wait_for(DIALOG, A_RUN);
    processes::signal(first.pid(), Signal::SIGKILL);
    user.wait_for("waiting without the first front", |session| {
        session["state"] == "waiting at OOM" && user.marker.find("__headless").is_some()
    });
    let keeper = user.only()["keeper"].as_i64().expect("a process");
    let keeper = Pid::from_raw(i32::try_from(keeper).expect("a PID"));
    processes::signal(keeper, Signal::SIGTERM);
    user.wait_for_none();
    user.marker.wait_gone(A_RUN);
}

#[test]
fn a_run_that_ends_without_a_screen_waits_at_the_dialog() {
    let user = User::new();
    let mut first = user.start(&["--batch-size", "64"]);
    first.wait_for("allocated", A_RUN);
    first.close();
    user.wait_for("waiting", |session| session["state"] == "waiting at OOM");
    assert!(
        user.marker.find("demo/train.py --simulated").is_some(),
        "the front lives on"
    );
    let stopped = user.ask(&["stop"]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    user.wait_for_none();
    user.marker.wait_gone(A_RUN);
}

#[test]
fn leaving_and_coming_back_one_after_another() {
    let user = User::new();
    let mut first = user.start(&ENDLESS);
    first.wait_for("allocated", A_RUN);
    let session = user.wait_for("a run", |session| session["state"] == "running");
    let id = session["id"].as_str().expect("a name").to_string();
    first.press("q");
    first.wait_for("quit and leave", A_RUN);
    first.press("l");
    assert_eq!(first.exit(A_RUN), Exit::Code(0));
    assert_eq!(first.left_behind(), [""; 0]);
    let words = first.screen();
    assert!(words.contains(&format!("oomph attach {id}")), "{words}");
    user.wait_for("no screen", |session| session["attached"] == false);

    let mut second = user.terminal(&["attach", &id[..id.len() - 2]]);
    second.wait_for("allocated", A_RUN);
    // The second of two takes over, and the first says so.
    let mut third = user.terminal(&["attach", &id]);
    assert_eq!(
        second.exit(A_RUN),
        Exit::Code(0),
        "{}",
        second.post_mortem()
    );
    assert_eq!(second.left_behind(), [""; 0]);
    let words = second.screen();
    assert!(words.contains("has taken over"), "{words}");
    third.wait_for("allocated", A_RUN);

    // Whoever ends what was attached ends that alone.
    processes::signal(third.pid(), Signal::SIGTERM);
    assert_eq!(third.exit(A_RUN), Exit::Code(0));
    let still = user.wait_for("no screen", |session| session["attached"] == false);
    assert_eq!(still["pid"], session["pid"]);
    let stopped = user.ask(&["stop", "--kill", &id]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    user.wait_for_none();
}

/// Whoever looks after several sessions goes from one to the next, as in other programs with a list.
#[test]
fn a_session_that_was_chosen_from_the_list_leads_back_to_it() {
    let user = User::new();
    let started: Vec<Terminal> = (0..2)
        .map(|_| {
            let mut terminal = user.start(&ENDLESS);
            terminal.wait_for("NVML", A_RUN);
            terminal.press("q");
            terminal.wait_for("leave it running", PATIENCE);
            terminal.press("l");
            assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
            terminal
        })
        .collect();
    drop(started);
    wait_until("both are there", A_RUN, || user.ls().len() == 2);
    let mut list = user.terminal(&["attach"]);
    list.wait_for("2 running", PATIENCE);
    list.press(Key::Enter);
    list.wait_for("run 1", PATIENCE);
    list.press("q");
    list.wait_for("leave it running", PATIENCE);
    list.press("l");
    list.wait_for("2 running", PATIENCE);
    list.press("q");
    assert_eq!(list.exit(PATIENCE), Exit::Code(0));
}

#[test]
fn a_front_that_is_stopped_makes_way() {
    let user = User::new();
    let mut first = user.start(&ENDLESS);
    first.wait_for("allocated", A_RUN);
    user.wait_for("a run", |session| session["state"] == "running");
    processes::signal(first.pid(), Signal::SIGSTOP);
    wait_until("it is stopped", PATIENCE, || {
        processes::state(first.pid()) == Some('T')
    });
    let mut second = user.terminal(&["attach"]);
    second.wait_for("allocated", A_RUN);
    first.wait_for("ends when the training does", A_RUN);
    assert_eq!(first.left_behind(), [""; 0]);
    second.press("q");
    second.wait_for("quit and stop", A_RUN);
    second.press(Key::Ctrl('x'));
    let exit = second.exit(A_RUN);
    assert!(!exit.is_success());
    assert_eq!(first.exit(A_RUN), exit, "{}", first.post_mortem());
    user.wait_for_none();
}

/// A script waits for the front that it started: that one stays when another takes over, and ends as
/// the training does.
#[test]
fn a_script_gets_the_trainings_status_whoever_attaches() {
    let user = User::new();
    let go = user.path("go");
    let script = format!(
        "echo ready; trap 'echo caught; exit 7' TERM; while [ ! -e {} ]; do sleep 0.05; done; exit 3",
        go.display()
    );
    let words = ["--headless", "--no-nvml", "sh", "-c", &script];
    for by_signal in [false, true] {
        let mut waited_for = user
            .command(&words)
            .stdout(Stdio::null())
            .spawn()
            .expect("oomph runs");
        user.wait_for("a run", |session| session["state"] == "running");
        let mut attached = user.terminal(&["attach"]);
        attached.wait_for("ready", A_RUN);
        user.wait_for("a screen", |session| session["attached"] == true);
        assert_eq!(waited_for.try_wait().expect("a status"), None, "it waits");
        let code = if by_signal {
            let front = nix::unistd::Pid::from_raw(waited_for.id() as i32);
            processes::signal(front, Signal::SIGTERM);
            7
        } else {
            std::fs::write(&go, "").expect("a file");
            3
        };
        let status = waited_for.wait().expect("a status");
        assert_eq!(
            status.code(),
            Some(code),
            "{status:?} {:?}",
            status.signal()
        );
        assert_eq!(attached.exit(A_RUN), Exit::Code(code));
        let _ = std::fs::remove_file(&go);
        user.wait_for_none();
    }
}

/// Two turns of a loop on a terminal: the second begins when the training of the first has ended,
/// whether somebody attaches elsewhere or leaves the screen.
#[test]
fn a_loop_on_a_terminal_goes_on_when_the_training_has_ended() {
    let user = User::new();
    // A file for each turn: the second would see the first's before it is removed.
    let go = |turn: u32| user.path(&format!("go-{turn}"));
    let training = format!(
        "echo ready; while [ ! -e {}$turn ]; do sleep 0.05; done; exit 3",
        user.path("go-").display()
    );
    let script = format!(
        "for turn in 1 2; do export turn; {OOMPH} --no-nvml sh -c '{training}'; echo turn $turn gave $?; done"
    );
    let environment = user.environment();
    let environment: Vec<(&str, &str)> = (environment.iter())
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut looping = Terminal::spawn(&["sh", "-c", &script], &environment, 30, 120);
    looping.wait_for("ready", A_RUN);
    looping.press("q");
    looping.wait_for("quit and leave", A_RUN);
    looping.press("l");
    looping.wait_for("ends when the training does", A_RUN);
    user.wait_for("no screen", |session| session["attached"] == false);
    let mut attached = user.terminal(&["attach"]);
    attached.wait_for("ready", A_RUN);
    assert!(!looping.screen().contains("gave"), "{}", looping.screen());
    std::fs::write(go(1), "").expect("a file");
    looping.wait_for("turn 1 gave 3", A_RUN);
    attached.exit(A_RUN);
    looping.wait_for(
        |screen: &str| screen.contains("ready") && !screen.contains("gave"),
        A_RUN,
    );
    user.wait_for("a run", |session| session["state"] == "running");
    let mut attached = user.terminal(&["attach"]);
    attached.wait_for("ready", A_RUN);
    looping.wait_for("has taken over", A_RUN);
    // Ctrl-C ends the waiting, and with it the loop; not the training.
    looping.press(Key::Ctrl('c'));
    assert_eq!(
        looping.exit(A_RUN),
        Exit::Signal(2),
        "{}",
        looping.post_mortem()
    );
    user.wait_for("the training", |session| session["state"] == "running");
    std::fs::write(go(2), "").expect("a file");
    assert_eq!(attached.exit(A_RUN), Exit::Code(3));
    user.wait_for_none();
}

#[test]
fn the_log_is_followed_to_its_last_byte() {
    let user = User::new();
    let go = user.path("go");
    let script = format!(
        "printf 'one\\377\\n'; while [ ! -e {} ]; do sleep 0.05; done; printf two",
        go.display()
    );
    let mut first = user.terminal(&["--no-nvml", "sh", "-c", &script]);
    let session = user.wait_for("a run", |session| session["state"] == "running");
    let log = PathBuf::from(session["log"].as_str().expect("a log"));
    wait_until("the first line is logged", PATIENCE, || {
        std::fs::read(&log).is_ok_and(|bytes| bytes == b"one\xff\n")
    });
    assert_eq!(user.ask(&["logs"]).stdout, b"one\xff\n");
    let mut following = user
        .command(&["logs", "-f"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    let mut followed = following.stdout.take().expect("a pipe");
    let mut first_line = [0; 5];
    followed.read_exact(&mut first_line).expect("a line");
    assert_eq!(&first_line, b"one\xff\n");
    std::fs::write(go, "").expect("a file");
    let mut rest = String::new();
    followed.read_to_string(&mut rest).expect("the rest");
    assert_eq!(rest, "two", "it ends with the session");
    assert!(following.wait().expect("a status").success());
    assert_eq!(first.exit(A_RUN), Exit::Code(0));
    user.wait_for_none();
    // Of one that has ended, and of the latest.
    let id = session["id"].as_str().expect("a name");
    assert_eq!(user.ask(&["logs", id]).stdout, b"one\xff\ntwo");
    assert_eq!(user.ask(&["logs"]).stdout, b"one\xff\ntwo");
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_do() {
    let user = User::new();
    let refused = |words: &[&str], what: &str| {
        let output = user.ask(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(what), "{what:?} in {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    assert!(text(&user.ask(&["ls"]).stdout).contains("no running session"));
    refused(&["stop"], "you have no running session");
    refused(&["stop", "2026"], "`oomph ls --all` lists");
    refused(&["logs"], "no running session");

    let words = ["--headless", "--no-nvml", "sleep", "1000"];
    let quiet = |words: &[&str]| {
        let mut command = user.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("oomph runs")
    };
    let mut sessions = [quiet(&words), quiet(&words)];
    wait_until("two sessions", PATIENCE, || {
        let ls = user.ls();
        ls.len() == 2 && ls.iter().all(|session| session["state"] == "running")
    });
    refused(
        &["stop"],
        "several sessions are running; choose one: `oomph stop ",
    );
    refused(&["stop", "20"], "matches several");
    let id = |at: usize| user.ls()[at]["id"].as_str().expect("a name").to_string();
    let (one, other) = (id(0), id(1));
    refused(&["attach", &one], "needs a terminal");

    // Of a session whose keeper was killed nothing is left but its recording.
    let keeper = user.ls()[0]["keeper"].as_i64().expect("a keeper");
    processes::signal(nix::unistd::Pid::from_raw(keeper as i32), Signal::SIGKILL);
    wait_until("it is dead", PATIENCE, || {
        processes::state(nix::unistd::Pid::from_raw(keeper as i32)).is_none_or(|s| s == 'Z')
    });
    refused(&["stop", &one], &format!("session {one} is dead"));
    wait_until("it is cleared away", PATIENCE, || user.ls().len() == 1);
    refused(&["stop", &one], "oomph replay");
    assert!(!user.path("run/oomph").join(&one).exists());
    // One runs, and one has ended that begins so as well.
    let several = "matches several sessions; type more of the ID: `oomph logs ";
    refused(&["logs", "20"], several);
    assert!(user.ask(&["stop", &other]).status.success());
    user.wait_for_none();
    for session in &mut sessions {
        // The one without its keeper waits for what that left, and would for 45 s.
        session.kill().expect("a signal");
        session.wait().expect("a status");
    }
}

/// What a keeper left that was killed before it had told of itself.
#[test]
fn a_socket_that_nobody_listens_on_is_no_session_to_any_subcommand() {
    let user = User::new();
    let left = user.path("run/oomph/20260304-050607-sh");
    std::fs::create_dir_all(&left).expect("a directory");
    drop(std::os::unix::net::UnixListener::bind(left.join("keeper.sock")).expect("a socket"));
    assert_eq!(user.ls(), [Value::Null; 0]);
    for words in [
        &["stop"][..],
        &["stop", "--kill"],
        &["logs"],
        &["stop", "2026"],
    ] {
        let output = user.ask(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {said}");
        let expected = match words {
            [_, "2026"] => "no session of yours begins with 2026",
            _ => "you have no running session on this machine",
        };
        assert!(said.contains(expected), "{words:?}: {said}");
    }

    // Beside one that runs, that one is meant.
    let mut session = user
        .command(&["--headless", "--no-nvml", "sleep", "1000"])
        .spawn()
        .expect("oomph runs");
    user.wait_for("a run", |session| session["state"] == "running");
    assert!(user.ask(&["stop"]).status.success());
    session.wait().expect("a status");
}

#[test]
fn the_list_hides_secrets() {
    let user = User::new();
    let mut session = user
        .command(&[
            "--headless",
            "--no-nvml",
            "sh",
            "-c",
            "sleep 1000",
            "--api-key",
            "hush",
        ])
        .stdout(Stdio::null())
        .spawn()
        .expect("oomph runs");
    user.wait_for("a run", |session| session["state"] == "running");
    let table = text(&user.ask(&["ls"]).stdout);
    assert!(
        table.contains("--api-key") && !table.contains("hush"),
        "{table}"
    );
    assert!(!text(&user.ask(&["ls", "--json"]).stdout).contains("hush"));
    let run = user.path("run/oomph");
    let mut looked = 0;
    for session in std::fs::read_dir(run).expect("sessions").flatten() {
        let card = std::fs::read_to_string(session.path().join("session.json")).expect("a card");
        assert!(!card.contains("hush"), "{card}");
        looked += 1;
    }
    assert_eq!(looked, 1);
    assert!(user.ask(&["stop"]).status.success());
    session.wait().expect("a status");
}
