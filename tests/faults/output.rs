//! A: what a training may write, and how.

use crate::faults::staging::{Scene, View};
use crate::harness::{Key, PATIENCE, wait_until};
use nix::sys::signal::Signal;
use oomph::event::{EventKind, Exit};
use std::time::Duration;

const SUCCESS: Exit = Exit::Code(0);

#[test]
fn fault_01_megabytes_without_a_newline() {
    const MUCH: usize = 32 << 20;
    let step = format!("bytes:{MUCH}");
    // A reader of a pipe may be slower than the training, with and without us.
    let mut training = Scene::new()
        .headless(&[&step, "touch:written", "until:go"])
        .held_up();
    training.file("written");
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.output().0.len(), MUCH);

    let mut training = Scene::new().screen(&[&step, "touch:written", "until:go"]);
    training.file("written");
    training.go();
    training.finish(SUCCESS);
    assert!(
        training.notes().contains("output"),
        "what the screen missed is counted"
    );
}

#[test]
fn fault_02_a_terminal_that_reads_nothing_slows_nobody() {
    let steps = [
        "lines:50",
        "until:flood",
        "lines:50000",
        "touch:written",
        "until:go",
    ];
    let mut training = Scene::new().screen(&steps);
    training.terminal().wait_for("0000049", PATIENCE);
    training.terminal().stop_reading();
    training.make("flood");
    training.file("written");
    training.terminal().read_on();
    training.terminal().wait_for("0050049", PATIENCE);
    training.go();
    training.finish(SUCCESS);
    let lines: String = (0..50_050).map(|n| format!("{n:079}\n")).collect();
    crate::faults::ledger::accounts_for(&training.log(), lines.as_bytes());
}

#[test]
fn fault_04_bytes_that_are_no_text() {
    let steps = ["soup:bytes:200", "pause:20", "soup:half", "until:go"];
    let mut sent: Vec<u8> = Vec::new();
    for _ in 0..200 {
        sent.extend((0..=255).chain([0xe2, 0x82]));
    }
    sent.extend([0xac, b'\n']);
    let mut training = Scene::new().headless(&steps);
    wait_until("all of it", PATIENCE, || match &training.view {
        View::Pipes { out, .. } => out.so_far().len() == sent.len(),
        View::Terminal(_) => false,
    });
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.output().0, sent);
    assert_eq!(training.log(), sent);

    let mut training = Scene::new().screen(&[&steps[..3], &["shout", "until:go"]].concat());
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.go();
    training.finish(SUCCESS);
    let mut expected = sent;
    expected.extend_from_slice(b"\r\n<<HERE>>\r\n");
    assert_eq!(training.log(), expected);
}

#[test]
fn fault_05_two_bars_at_full_speed_are_two_lines() {
    let mut training = Scene::new().screen(&["bars:500", "shout", "until:go"]);
    let screen = training.terminal().wait_for("<<HERE>>", PATIENCE);
    for bar in ["outer  99%", "inner  99%"] {
        assert_eq!(screen.matches(bar).count(), 1, "{screen}");
    }
    assert_eq!(screen.matches("outer").count(), 1, "{screen}");
    training.go();
    training.finish(SUCCESS);
    let log = String::from_utf8(training.log()).expect("text");
    assert_eq!(
        log.matches("outer").count(),
        500,
        "the log has every update"
    );
}

#[test]
fn fault_06_a_sequence_that_never_ends_hides_nothing_for_long() {
    for kind in ["soup:osc", "soup:dcs", "soup:apc"] {
        let steps = [kind, "bytes:1000000", "shout", "until:go"];
        let mut training = Scene::new().screen(&steps);
        training.terminal().wait_for("<<HERE>>", PATIENCE);
        training.go();
        training.finish(SUCCESS);
    }
}

#[test]
fn fault_07_an_emulator_at_its_limit_holds_up_no_training() {
    let steps = ["soup:counts:1500", "touch:written", "shout", "until:go"];
    let mut training = Scene::new().screen(&steps);
    training.file("written");
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_08_a_full_screen_program_is_shown_and_leaves_nothing() {
    let mut training = Scene::new().screen(&["soup:alternate", "until:go", "die:KILL"]);
    training.terminal().wait_for("full screen", PATIENCE);
    training.go();
    training.finish(Exit::Signal(9));
}

#[test]
fn fault_09_questions_without_end_from_who_never_reads() {
    let mut training = Scene::new().screen(&["raw", "nag:enough", "shout", "until:go"]);
    training.wait_note("bytes of key input were dropped");
    training.make("enough");
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.go();
    training.finish(SUCCESS);
    let said = training.notes().matches("were dropped").count();
    assert!(said < 20, "said {said} times");
}

#[test]
fn fault_10_what_a_program_asks_of_its_terminal_stays_there() {
    let mut training = Scene::new().screen(&["soup:loud", "shout", "until:go"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.go();
    training.finish(SUCCESS);
    let raw = training.terminal().raw();
    for what in ["stolen", "c3RvbGVu", "\x1b]52", "\x1bc", "\x1b[?1003h"] {
        let seen = raw
            .windows(what.len())
            .any(|window| window == what.as_bytes());
        assert!(!seen, "{what:?} reached the user's terminal");
    }
    // Without a screen it is none of our business.
    let mut training = Scene::new().headless(&["soup:loud"]);
    training.finish(SUCCESS);
    assert!(String::from_utf8_lossy(&training.output().0).contains("\x1b]52;c;c3RvbGVu\x07"));
}

#[test]
fn fault_11_wide_characters_under_a_window_that_changes() {
    let steps = [
        "soup:wide:50",
        "touch:ready",
        "until:resized",
        "soup:wide:50",
        "size:size",
        "until:go",
    ];
    let mut training = Scene::new().screen(&steps);
    training.file("ready");
    for cols in (1..300).step_by(13) {
        training.terminal().resize(1 + cols % 60, cols);
        std::thread::sleep(Duration::from_millis(3));
    }
    training.make("resized");
    let size = training.file("size");
    let numbers: Vec<u16> = size
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        numbers.len() == 2 && numbers.iter().all(|n| *n >= 2),
        "{size}"
    );
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_12_a_program_that_closes_its_streams_goes_on() {
    for closing in [&["close:2"][..], &["close:1"], &["close:1", "close:2"]] {
        let steps = [closing, &["turns:50", "until:go", "exit:7"]].concat();
        for training in [Scene::new().headless(&steps), Scene::new().screen(&steps)] {
            let mut training = training;
            training.trainer();
            training.go();
            training.finish(Exit::Code(7));
        }
    }
}

#[test]
fn fault_13_the_end_is_told_while_somebody_still_holds_the_output() {
    let script = "sleep 1000 & echo $! > holder; exit 3";
    for at_terminal in [false, true] {
        let scene = Scene::new();
        let mut training = match at_terminal {
            true => scene.run_at_terminal(&["sh", "-c", script]),
            false => scene.run_headless(&["sh", "-c", script]),
        };
        assert_eq!(training.exit(), Exit::Code(3));
        let holder: i32 = training.file("holder").trim().parse().expect("a pid");
        let left: Vec<i32> = training
            .events()
            .iter()
            .filter_map(|event| match &event.what {
                EventKind::Exited(exited) => Some(exited.left.iter().map(|pid| pid.0)),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(left, [holder], "named");
        let holder = nix::unistd::Pid::from_raw(holder);
        assert!(crate::harness::processes::is_alive(holder), "and let alone");
        // The keeper lingers for as long as it is needed.
        crate::harness::processes::signal(holder, Signal::SIGKILL);
        training.check();
    }
}

/// `tensorboard … >log 2>&1 &` in a script: it is in the program's session, and has no stream on its terminal.
#[test]
fn fault_136_a_helper_that_writes_to_a_file_outlives_the_program() {
    let helper = "(until [ -e go ]; do sleep 0.01; done; echo lives >helper) </dev/null >log 2>&1";
    let ends = format!("{helper} & exit 3");
    // Where no signal may wait, the kernel does not keep who has sent one.
    let no_signal_waits = "prlimit --sigpending=0:0 --pid $$";
    for way in [
        "on the screen",
        "without the screen",
        "redirected",
        "no signal waits",
    ] {
        let scene = match way {
            "on the screen" => Scene::new(),
            "without the screen" => Scene::new().option("--headless"),
            "no signal waits" => Scene::new().before(no_signal_waits),
            // It has a terminal for questions only.
            _ => Scene::new().before("exec </dev/null >out 2>&1"),
        };
        let mut training = scene.run_at_terminal(&["sh", "-c", &ends]);
        assert_eq!(training.exit(), Exit::Code(3), "{way}");
        wait_until("oomph is gone", PATIENCE, || {
            let left = training.marker().processes();
            let ours = |pid: &nix::unistd::Pid| {
                crate::harness::processes::command_line(*pid).contains("oomph")
            };
            !left.is_empty() && !left.iter().any(ours)
        });
        training.make("go");
        // The shell makes the file before it writes.
        wait_until("the helper has written", PATIENCE, || {
            training.file("helper") == "lives\n"
        });
        training.check();
    }
}

/// `OOMPH_FAULT_ROUNDS=1000` makes it the number of util-linux's own test.
#[test]
fn fault_14_not_one_bingo_is_missing() {
    let rounds = std::env::var("OOMPH_FAULT_ROUNDS").ok();
    let rounds: u32 = rounds.and_then(|text| text.parse().ok()).unwrap_or(24);
    for round in 0..rounds {
        let scene = Scene::new();
        let mut training = match round % 4 {
            0 => scene.screen(&["say:Bin\x07go"]),
            1 => scene.option("--headless").screen(&["say:Bin\x07go"]),
            _ => scene.headless(&["say:Bin\x07go"]),
        };
        training.finish(SUCCESS);
        let (out, _) = training.output();
        assert!(
            String::from_utf8_lossy(&out).contains("Bin\x07go") || round % 4 == 0,
            "round {round}"
        );
        let log = String::from_utf8(training.log()).expect("text");
        assert_eq!(log.trim_end(), "Bin\x07go", "round {round}");
    }
}

#[test]
fn fault_15_the_last_bytes_of_a_sudden_end() {
    let lines: String = (0..1250).map(|n| format!("{n:079}\n")).collect();
    for (end, exit) in [("exit:5", Exit::Code(5)), ("die:KILL", Exit::Signal(9))] {
        let mut training = Scene::new().headless(&["lines:1250", end]);
        training.finish(exit);
        assert_eq!(training.output().0, lines.as_bytes());
        assert_eq!(training.log(), lines.as_bytes());
        let mut training = Scene::new().screen(&["lines:1250", end]);
        training.finish(exit);
        assert_eq!(training.log(), lines.as_bytes());
    }
}

/// What it had not written is lost, as without oomph; `python -u` writes at once.
#[test]
fn fault_16_the_last_words_of_a_python_that_is_killed() {
    let script = "import os; print('last words'); os.kill(os.getpid(), 9)";
    for (command, expected) in [
        (&["python3", "-c", script][..], &b""[..]),
        (&["python3", "-u", "-c", script], b"last words\n"),
    ] {
        let mut training = Scene::new().run_headless(command);
        training.finish(Exit::Signal(9));
        assert_eq!(training.output().0, expected, "{command:?}");
    }
}

#[test]
fn fault_17_nonsense_on_the_probes_socket() {
    let script = "\
import os, socket, sys
def speak(words):
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ['OOMPH_PROBE_SOCKET'])
    try:
        for word in words: s.sendall(word)
    except OSError:
        pass
    return s
kept = [speak([b'x' * 1000] * 10000), speak([b'{\"hello\": ']), speak([b'\\xff\\n' * 100]), speak([])]
kept += [speak([b'{\"a\":' * 100000])]
open('done', 'w').write('x')
while not os.path.exists('go'): __import__('time').sleep(0.01)
sys.exit(4)
";
    let mut training = Scene::new().run_headless(&["python3", "-c", script]);
    training.file("done");
    training.wait_note("malformed: 1");
    training.go();
    training.finish(Exit::Code(4));
}

#[test]
fn fault_18_words_of_ours_in_the_programs_own_output() {
    let mut training = Scene::new().headless(&["soup:ours", "oom:python", "say:passed"]);
    training.finish(SUCCESS);
    let (out, err) = training.output();
    assert!(out.ends_with(b"passed\n"));
    let err = String::from_utf8(err).expect("text");
    assert!(!err.contains("oomph:"), "{err}");
    assert_eq!(training.runs(), 1);

    let mut training = Scene::new().screen(&["soup:ours", "oom:python", "until:go"]);
    training.terminal().wait_for("OutOfMemoryError", PATIENCE);
    training.terminal().press(Key::Esc);
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 1);
}
