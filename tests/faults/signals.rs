//! B: signals from the keyboard, from outside, from the training itself.

use crate::faults::staging::{Scene, Training, under_a_shell, wait_for_beats};
use crate::harness::{Key, PATIENCE, processes, wait_until};
use nix::sys::signal::Signal::{self, *};
use oomph::event::Exit;

const SUCCESS: Exit = Exit::Code(0);

/// Lets the training end, and sees that it caught no more than it should have.
#[track_caller]
fn finish_with_count(training: &mut Training, signal: Signal, wanted: u32) {
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.count(signal), wanted, "{signal}");
}

#[test]
fn fault_19_one_ctrl_c_is_one_interrupt() {
    // On the screen, its terminal as it was and raw.
    for first in ["turns:1", "raw"] {
        let steps = ["catch:INT:count", first, "shout", "until:go"];
        let mut training = Scene::new().screen(&steps);
        training.terminal().wait_for("<<HERE>>", PATIENCE);
        training.terminal().press(Key::Ctrl('c'));
        training.wait_count(SIGINT, 1);
        finish_with_count(&mut training, SIGINT, 1);
    }
    // The keyboard given to it, then passed through.
    let steps = ["catch:INT:count", "shout", "until:go"];
    let mut training = Scene::new().screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press('i');
    training.terminal().press(Key::Ctrl('c'));
    training.wait_count(SIGINT, 1);
    finish_with_count(&mut training, SIGINT, 1);

    let mut training = Scene::new().option("--headless").screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.wait_count(SIGINT, 1);
    finish_with_count(&mut training, SIGINT, 1);
}

#[test]
fn fault_20_an_interrupt_from_another_shell_is_one() {
    let steps = ["catch:INT:count", "shout", "touch:ready", "until:go"];
    for training in [Scene::new().headless(&steps), Scene::new().screen(&steps)] {
        let mut training = training;
        training.file("ready");
        training.signal_front(SIGINT);
        training.wait_count(SIGINT, 1);
        finish_with_count(&mut training, SIGINT, 1);
    }
}

#[test]
fn fault_21_each_signal_goes_to_the_direct_child_and_to_nobody_else() {
    let child = "setsid:as:child,catch:TERM:count,catch:QUIT:count,catch:USR1:count,\
                 catch:USR2:count,catch:HUP:count,touch:child,until:go";
    let caught = [SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2];
    let mut steps: Vec<String> = caught.iter().map(|s| format!("catch:{s}:count")).collect();
    let rest = [
        "catch:HUP:count",
        child,
        "until:child",
        "touch:ready",
        "until:go",
    ];
    steps.extend(rest.map(String::from));
    let steps = crate::faults::staging::words_of(&steps);
    // Without a terminal a hang-up is the training's (passed_on.rs), and the tests may have one or none.
    for mut training in [
        Scene::new().headless(&steps),
        Scene::new().option("--headless").screen(&steps),
        Scene::new().screen(&steps),
    ] {
        let is_on_terminal = training.is_on_terminal();
        training.file("ready");
        // Orders are carried out in turn, so this one is over when the last one is.
        if is_on_terminal {
            training.signal_front(SIGHUP);
        }
        for signal in caught {
            training.signal_front(signal);
            training.wait_count(signal, 1);
        }
        finish_with_count(&mut training, SIGHUP, 0);
        for signal in caught {
            assert_eq!(training.count(signal), 1, "{signal}");
            let child = training.file(&format!("child-count-{}", signal as i32));
            assert_eq!(child, "0\n", "{signal}");
        }
    }
}

/// Without a screen a hang-up changes nothing of what is shown, least of all by showing it twice.
#[test]
fn fault_21_a_hangup_is_no_reason_to_say_everything_twice() {
    let steps = ["touch:ready", "until:said", "shout", "until:go"];
    let mut training = Scene::new().option("--headless").screen(&steps);
    training.file("ready");
    training.signal_front(SIGHUP);
    training.wait_note("the terminal hung up");
    training.make("said");
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.go();
    training.finish(SUCCESS);
    let raw = training.terminal().raw();
    assert_eq!(String::from_utf8_lossy(&raw).matches("<<HERE>>").count(), 1);
}

/// Without a terminal it isn't about one.
#[test]
fn fault_118_a_winch_from_others_reaches_a_training_without_a_terminal() {
    let steps = ["catch:WINCH:count", "touch:ready", "until:go"];
    let mut training = Scene::new().headless(&steps);
    training.file("ready");
    training.signal_front(SIGWINCH);
    training.wait_count(SIGWINCH, 1);
    finish_with_count(&mut training, SIGWINCH, 1);
}

#[test]
fn fault_22_usr1_spares_who_would_die_of_it() {
    let rank = "setsid:as:rank,catch:USR1:count,touch:rank,until:go";
    let mut training = Scene::new().headless(&[rank, "until:rank", "touch:ready", "until:go"]);
    training.file("ready");
    training.signal_front(SIGUSR1);
    wait_until("the rank has it", PATIENCE, || {
        training.file("rank-count-10") == "1\n"
    });
    training.wait_note("child processes (1)");
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.file("rank-count-10"), "1\n");
}

#[test]
fn fault_23_what_slurm_has_signalled_is_not_signalled_again() {
    let steps = [
        "catch:TERM:count",
        "catch:USR1:count",
        "touch:ready",
        "until:go",
    ];
    let mut training = Scene::new().env("SLURM_STEP_ID", "0").headless(&steps);
    training.file("ready");
    for signal in [SIGTERM, SIGUSR1] {
        for pid in training.marker().processes() {
            processes::signal(pid, signal);
        }
        training.wait_count(signal, 1);
        training.wait_note(&format!("{signal} was not passed on"));
    }
    finish_with_count(&mut training, SIGTERM, 1);
    assert_eq!(training.count(SIGUSR1), 1);
}

/// The user may know better than the rule.
#[test]
fn fault_23_forwarding_can_be_asked_for_and_forbidden() {
    let steps = ["catch:TERM:count", "touch:ready", "until:go"];
    for (step, option, wanted) in [
        (Some("0"), "--forward=always", 1),
        (None, "--forward=never", 0),
        (Some("4294967291"), "--forward=auto", 1),
    ] {
        let mut scene = Scene::new().option(option);
        if let Some(step) = step {
            scene = scene.env("SLURM_STEP_ID", step);
        }
        let mut training = scene.headless(&steps);
        training.file("ready");
        training.signal_front(SIGTERM);
        match wanted {
            0 => training.wait_note("was not passed on"),
            _ => training.wait_count(SIGTERM, wanted),
        }
        finish_with_count(&mut training, SIGTERM, wanted);
    }
}

#[test]
fn fault_24_what_the_training_sends_is_not_sent_back() {
    // To its parent, to its group, and from a rank to the front itself.
    let rank = "setsid:kill:TERM:front,touch:sent,until:go";
    let steps = [
        "catch:TERM:count",
        "parent:TERM",
        "group:TERM",
        rank,
        "until:go",
    ];
    let mut training = Scene::new().headless(&steps);
    let front = training.front().to_string();
    training.wait_count(SIGTERM, 1);
    training.put("front", &front);
    training.wait_note("SIGTERM was not passed on");
    finish_with_count(&mut training, SIGTERM, 1);
}

/// An orphan is of the training too: it was given to the keeper.
#[test]
fn fault_24_an_orphan_of_the_training_is_of_the_training() {
    let script = "(setsid sh -c 'until [ -e front ]; do sleep 0.01; done; kill -TERM $(cat front); sleep 1000' &)";
    let script = format!("{script}; trap 'echo caught' TERM; until [ -e go ]; do sleep 0.01; done");
    let mut training = Scene::new().run_headless(&["sh", "-c", &script]);
    let orphan = training.find("the orphan", |pid| {
        processes::command_line(pid).contains("sleep 1000")
            && processes::parent(pid) == Some(training.keeper())
    });
    let front = training.front().to_string();
    training.put("front", &front);
    training.wait_note("SIGTERM was not passed on");
    training.go();
    assert_eq!(training.exit(), SUCCESS);
    training.marker().kill_all();
    assert!(!processes::is_alive(orphan));
    training.check();
    assert_eq!(training.output().0, b"");
}

#[test]
fn fault_25_ten_terms_are_one() {
    let mut training = Scene::new().headless(&["catch:TERM:count", "touch:ready", "until:go"]);
    training.file("ready");
    // Signals that come before the front takes any are one to the kernel already.
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    for _ in 0..10 {
        training.signal_front(SIGTERM);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    training.wait_count(SIGTERM, 1);
    training.wait_note("the program already has it");
    finish_with_count(&mut training, SIGTERM, 1);
}

#[test]
fn a_term_that_comes_again_later_is_another_one() {
    let mut training = Scene::new().headless(&["catch:TERM:count", "touch:ready", "until:go"]);
    training.file("ready");
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    training.signal_front(SIGTERM);
    training.wait_count(SIGTERM, 1);
    wait_until("the program has the second one", PATIENCE, || {
        training.signal_front(SIGTERM);
        training.count(SIGTERM) >= 2
    });
    training.go();
    training.finish(SUCCESS);
}

/// Asks on the screen for the end of the training.
fn stop_on_screen(training: &mut Training) {
    training.terminal().press('K');
    training.terminal().wait_for("kill now", PATIENCE);
    training.terminal().press(Key::Ctrl('x'));
}

#[test]
fn fault_26_who_ignores_every_request_is_killed_in_the_end() {
    let rank = "setsid:catch:TERM:ignore,until:never";
    let steps = ["catch:TERM:ignore", rank, "shout", "until:never"];
    let mut training = Scene::new().scaled(60).screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    stop_on_screen(&mut training);
    training.terminal().wait_for("stopping", PATIENCE);
    training.finish(Exit::Signal(9));
}

#[test]
fn fault_27_an_agent_has_the_time_that_its_ranks_need() {
    // 29 s of 45, thirty times faster.
    let steps = [
        "catch:TERM:count",
        "shout",
        "await:TERM",
        "pause:967",
        "exit:5",
    ];
    let mut training = Scene::new().scaled(30).screen(&steps).held_up();
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    stop_on_screen(&mut training);
    training.finish(Exit::Code(5));
    assert_eq!(training.count(SIGTERM), 1);
}

#[test]
fn fault_28_a_suspended_screen_comes_back() {
    let mut training = under_a_shell(Scene::new(), "fg", &["chatter:go"]);
    training.terminal().wait_for("00000", PATIENCE);
    training.terminal().press(Key::Ctrl('z'));
    training.file("stopped");
    wait_until("the prompt is a prompt", PATIENCE, || {
        training.terminal().left_behind().is_empty()
    });
    wait_for_beats(&training, 300_000);
    bring_back(&mut training);
    training.make("go");
    training.finish(SUCCESS);
    let raw = training.terminal().raw();
    assert!(
        !raw.windows(4).any(|window| window == b"\x1b[6n"),
        "the cursor was asked for"
    );
}

#[test]
fn fault_29_in_the_background_the_prompt_is_the_shells() {
    let mut training = under_a_shell(Scene::new(), "fg", &["shout", "until:go"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press(Key::Ctrl('z'));
    training.file("stopped");
    training.terminal().wait_for("prompt>", PATIENCE);
    let job: i32 = training.file("job").trim().parse().expect("a pid");
    let job = nix::unistd::Pid::from_raw(job);
    let before = training.terminal().raw().len();
    training.make("bg");
    wait_until("it goes on", PATIENCE, || {
        processes::state(job) != Some('T')
    });
    wait_for_beats(&training, 700_000);
    assert_ne!(processes::state(job), Some('T'), "stopped again");
    assert_eq!(training.terminal().left_behind(), [""; 0]);
    let written = training.terminal().raw().split_off(before);
    assert_eq!(String::from_utf8_lossy(&written), "", "over the prompt");
    bring_back(&mut training);
    training.make("go");
    training.finish(SUCCESS);
}

/// `fg` in the shell.
fn bring_back(training: &mut Training) {
    training.make("fg");
    wait_until("the screen is back", PATIENCE, || {
        training
            .terminal()
            .with_screen(vt100::Screen::alternate_screen)
    });
}

#[test]
fn fault_30_suspended_and_never_resumed() {
    let steps = ["shout", "until:go", "touch:ended"];
    let mut training = under_a_shell(Scene::new(), "fg", &steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press(Key::Ctrl('z'));
    training.file("stopped");
    training.terminal().close();
    wait_for_beats(&training, 100_000);
    training.go();
    training.file("ended");
    // The shell's own end: the line was hung up.
    training.finish(Exit::Signal(SIGHUP as i32));
}

/// 93: a shell waits for the script, and takes the terminal back only where that stops too.
#[test]
fn fault_93_a_script_around_oomph_is_suspended_with_it() {
    let script = "fg sh -c '\"$@\"; exit $?' sh";
    let mut training = under_a_shell(Scene::new(), script, &["shout", "until:go"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press(Key::Ctrl('z'));
    training.file("stopped");
    training.terminal().wait_for("prompt>", PATIENCE);
    assert_eq!(training.terminal().left_behind(), [""; 0]);
    wait_for_beats(&training, 300_000);
    bring_back(&mut training);
    training.make("go");
    training.finish(SUCCESS);
}

#[test]
fn fault_93_where_no_shell_could_resume_it_nothing_is_suspended() {
    let mut training = Scene::new().screen(&["shout", "until:go"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press(Key::Ctrl('z'));
    training.wait_note("no shell here could resume oomph");
    assert_ne!(processes::state(training.front()), Some('T'));
    let is_there = training
        .terminal()
        .with_screen(vt100::Screen::alternate_screen);
    assert!(is_there, "the screen");
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_31_a_stop_key_stops_no_training() {
    let mut training = Scene::new().screen(&["catch:INT:count", "shout", "until:go"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press('i');
    training.terminal().press(Key::Ctrl('z'));
    // The key after it is seen when that one was.
    training.terminal().press(Key::Ctrl('c'));
    training.wait_count(SIGINT, 1);
    assert_ne!(processes::state(training.trainer()), Some('T'));
    finish_with_count(&mut training, SIGINT, 1);
}

#[test]
fn fault_32_a_training_that_was_stopped_by_a_signal() {
    let mut training = Scene::new().screen(&["shout", "until:go"]).held_up();
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    let trainer = training.trainer();
    processes::signal(trainer, SIGSTOP);
    training.wait_note("was stopped by SIGSTOP");
    processes::signal(trainer, SIGCONT);
    training.wait_note("continues after a stop");
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 1);
}

#[test]
fn fault_33_a_front_that_stands_still_holds_up_nobody() {
    let mut training = Scene::new().screen(&["shout", "lines:20000", "chatter:go"]);
    training.terminal().wait_for("00000", PATIENCE);
    let front = training.front();
    processes::signal(front, SIGSTOP);
    wait_for_beats(&training, 400_000);
    processes::signal(front, SIGCONT);
    training.make("go");
    training.finish(SUCCESS);
}

#[test]
fn fault_33_a_keeper_that_stands_still_loses_nothing() {
    let steps = [
        "lines:5",
        "until:flood",
        "lines:6000",
        "touch:written",
        "until:go",
    ];
    let mut training = Scene::new().headless(&steps).held_up();
    let keeper = training.keeper();
    training.trainer();
    processes::signal(keeper, SIGSTOP);
    training.make("flood");
    wait_until("the training is held up by a full pipe", PATIENCE, || {
        processes::state(training.trainer()) == Some('S') && !training.path("written").exists()
    });
    processes::signal(keeper, SIGCONT);
    training.file("written");
    training.go();
    training.finish(SUCCESS);
    let lines: String = (0..6005).map(|n| format!("{n:079}\n")).collect();
    assert_eq!(training.output().0, lines.as_bytes());
}

#[test]
fn fault_34_a_thousand_resizes() {
    let steps = [
        "catch:WINCH:count",
        "shout",
        "until:resized",
        "size:size",
        "until:go",
    ];
    let mut training = Scene::new().screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    let began = std::time::Instant::now();
    for n in 0..1000u16 {
        training.terminal().resize(n % 60, 1000 - n);
    }
    for (rows, cols) in [(1, 1), (0, 0), (1000, 1000), (30, 90)] {
        training.terminal().resize(rows, cols);
    }
    training.terminal().wait_for("quit", PATIENCE);
    wait_until("it has another size than at first", PATIENCE, || {
        training.count(SIGWINCH) > 0
    });
    training.rests(training.front());
    training.make("resized");
    training.make("go");
    training.finish(SUCCESS);
    let most = 3 + began.elapsed().as_millis() / 100;
    assert!(
        u128::from(training.count(SIGWINCH)) <= most,
        "of at most {most}"
    );
    let size = training.file("size");
    assert!(size.contains("90"), "{size}");
}

/// What a training finds of signals: the same with and without oomph.
#[test]
fn fault_35_signals_are_found_as_oomph_found_them() {
    // The C library keeps 32 and 33 for itself and hands them to nobody.
    let sets = |text: &str| -> Vec<u64> {
        let set = |line: &str| {
            let rest = line
                .strip_prefix("SigIgn:")
                .or(line.strip_prefix("SigBlk:"))?;
            Some(u64::from_str_radix(rest.trim(), 16).expect("a set") & !(3 << 31))
        };
        text.lines().filter_map(set).collect()
    };
    for before in [
        "",
        "trap '' HUP",
        "trap '' INT QUIT",
        "trap '' PIPE XFSZ CHLD",
        "set -- env --block-signal=TERM --block-signal=USR1 \"$@\"",
        "set -- env --ignore-signal=TERM --block-signal=HUP,RTMIN \"$@\"",
    ] {
        let trainer = crate::faults::staging::trainer();
        let bare = tempfile::tempdir().expect("a directory");
        let done = std::process::Command::new("sh")
            .args(["-c", &format!("{before}\nexec \"$@\""), "sh"])
            .arg(&trainer)
            .arg("status:bare")
            .current_dir(bare.path())
            .status();
        assert!(done.expect("sh runs").success());
        let expected = sets(&std::fs::read_to_string(bare.path().join("bare")).expect("a file"));
        assert_eq!(expected.len(), 2);
        for scene in [Scene::new(), Scene::new().option("--headless")] {
            let mut training = scene.before(before).screen(&["status:with", "until:go"]);
            assert_eq!(sets(&training.file("with")), expected, "{before}");
            training.go();
            training.finish(SUCCESS);
        }
    }
}

#[test]
fn fault_36_in_the_background_from_the_start() {
    let steps = ["shout", "turns:50", "until:go", "exit:3"];
    let mut training = under_a_shell(Scene::new(), "bg", &steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    assert_eq!(training.terminal().left_behind(), [""; 0]);
    assert!(
        !training.path("stopped").exists(),
        "no call that stops who is not in front"
    );
    training.make("go");
    training.finish(Exit::Code(3));
    let raw = training.terminal().raw();
    assert!(!raw.contains(&0x1b), "no screen");
}

#[test]
fn fault_37_a_storm_of_orphans() {
    let steps = ["storm:2000", "touch:over", "until:go", "exit:9"];
    let mut training = Scene::new().headless(&steps).held_up();
    training.file("over");
    let keeper = training.keeper();
    wait_until("all orphans are reaped", PATIENCE, || {
        processes::zombies_of(keeper).is_empty()
    });
    training.go();
    training.finish(Exit::Code(9));
}

/// A training that waits for somebody to type says so on the screen, and one that works does not.
#[test]
fn a_prompt_that_waits_is_told_of() {
    const HINT: &str = "waiting for input";
    let script = "import sys; print('working'); name = input('your ' + 'name? '); print('hello', name)\n\
                  input('and ' + 'now? '); sys.exit(7)";
    let mut training = Scene::new().run_at_terminal(&["python3", "-c", script]);
    let screen = training.terminal().wait_for(HINT, PATIENCE);
    assert!(screen.contains("your name?"), "{screen}");
    training.terminal().press('i');
    training.terminal().press("Ada");
    training.terminal().press(Key::Enter);
    training.terminal().wait_for("hello Ada", PATIENCE);
    training.terminal().wait_for(HINT, PATIENCE);
    training.terminal().press(Key::Enter);
    training.finish(Exit::Code(7));

    // Neither is one that works for a while in the middle of a line.
    let script = "import time; print('step 3 of', end=' ', flush=True); time.sleep(1.5)";
    let mut training = Scene::new().run_at_terminal(&["python3", "-c", script]);
    let front = training.front();
    while processes::is_alive(front) {
        assert!(!training.terminal().screen().contains(HINT));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    training.finish(SUCCESS);
}

/// Writes each signal that it gets into a file: its number, its code, the value sent with it.
const SIGNALS_WITH_VALUES: &str = "
import ctypes, signal, struct
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
libc, wanted, info = ctypes.CDLL(None), (ctypes.c_ulong * 16)(), ctypes.create_string_buffer(128)
libc.sigfillset(wanted)
open('got', 'w').write('ready\\n')
number = 0
while number != signal.SIGTERM:
    number = libc.sigwaitinfo(wanted, info)
    code, value = struct.unpack_from('8xi12xQ', info)
    open('got', 'a').write(f'{number} {code} {value if code == -1 else 0}\\n')
";

#[test]
fn fault_102_what_others_send_reaches_the_training() {
    use nix::libc;
    let scene = Scene::new().option("--no-probe");
    let mut training = scene.run_headless(&["python3", "-c", SIGNALS_WITH_VALUES]);
    let front = training.front().as_raw();
    let mut expected = "ready\n".to_string();
    let caught_up = |training: &Training, expected: &str| {
        wait_until(expected, PATIENCE, || training.file("got") == expected);
    };
    caught_up(&training, &expected);
    let plain = [
        libc::SIGABRT,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGSYS,
        libc::SIGALRM,
        libc::SIGXCPU,
        libc::SIGPWR,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGURG,
        libc::SIGPIPE,
        libc::SIGXFSZ,
        libc::SIGSTKFLT,
        libc::SIGRTMIN(),
        libc::SIGRTMAX(),
    ];
    // To the front, and to its whole group: once either way.
    for target in [front, -front] {
        for signal in plain {
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::kill(target, signal) }, 0);
            expected += &format!("{signal} 0 0\n");
            caught_up(&training, &expected);
        }
    }
    // Each of several real-time signals, with what was sent along.
    for value in [7, usize::MAX, 9] {
        for signal in [libc::SIGRTMIN() + 5, libc::SIGALRM] {
            let value = libc::sigval {
                sival_ptr: value as *mut libc::c_void,
            };
            // SAFETY: the value is a number to everybody.
            assert_eq!(unsafe { libc::sigqueue(front, signal, value) }, 0);
            expected += &format!("{signal} -1 {}\n", value.sival_ptr as usize);
            caught_up(&training, &expected);
        }
    }
    training.signal_front(SIGTERM);
    training.finish(SUCCESS);
    assert_eq!(training.file("got"), expected + "15 0 0\n");
}

/// `alarm` and then `exec`: a time limit of old, which the program inherits.
#[test]
fn fault_102_a_timer_that_was_set_before_runs_out_in_the_training() {
    let alarm = "import os, signal, sys; signal.alarm(2); os.execvp(sys.argv[1], sys.argv[1:])";
    let scene = Scene::new().before(&format!("set -- python3 -c '{alarm}' \"$@\""));
    let mut training = scene.headless(&["catch:ALRM:count", "until:go"]);
    training.wait_count(SIGALRM, 1);
    finish_with_count(&mut training, SIGALRM, 1);
}
