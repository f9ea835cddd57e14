//! F: memory runs out, and another run follows or does not.

use crate::faults::staging::{Scene, Training, trainer};
use crate::harness::{Key, PATIENCE, processes, wait_until};
use nix::sys::signal::Signal::*;
use oomph::event::{Event, EventKind, Exit};

const SUCCESS: Exit = Exit::Code(0);

/// The dialog's footer: nothing else on the screen says this.
pub const DIALOG: &str = "Space combine";

/// A training that runs out of memory at a batch of 64, and does not below.
fn too_large(scene: Scene, before: &[&str], after: &[&str]) -> Training {
    let scene = scene.size(40, 120).words(&["--batch-size", "64"]);
    scene.screen(&[before, &["oom-from:64"], after].concat())
}

/// At its dialog, when everything there was shown long enough to be meant.
fn at_dialog(before: &[&str], after: &[&str]) -> Training {
    let mut training = too_large(Scene::new(), before, after);
    training.terminal().wait_for(DIALOG, PATIENCE);
    training
}

/// Presses a key at the dialog. One that comes with others, or as soon as the dialog does, may have
/// been meant for something else and is passed over; so it is pressed as a person does, until it
/// counts.
pub fn answer(training: &mut Training, key: char, mut counted: impl FnMut(&mut Training) -> bool) {
    let began = std::time::Instant::now();
    let mut pressed = began;
    training.terminal().press(key);
    while !counted(training) {
        if pressed.elapsed().as_secs() >= 2 {
            training.terminal().press(key);
            pressed = std::time::Instant::now();
        }
        let notes = training.notes();
        assert!(
            began.elapsed() < PATIENCE,
            "{key:?} does not count; notes:\n{notes}\n{}",
            training.terminal().post_mortem()
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Halves the batch.
fn relaunch(training: &mut Training) {
    let runs = training.runs();
    // The dialog's own title: its keys make way for a message.
    answer(training, 'b', |training| {
        let screen = training.terminal().screen();
        !screen.contains("out of memory · run") || training.runs() > runs
    });
}

/// Leaves.
pub fn quit(training: &mut Training) {
    answer(training, 'q', |training| {
        !processes::is_alive(training.front())
    });
}

#[test]
fn fault_69_a_traceback_in_pieces_is_recognized() {
    let mut training = Scene::new().headless(&["oom:pieces", "exit:1"]);
    training.finish(Exit::Code(1));
    let said = String::from_utf8(training.output().1).expect("text");
    assert!(said.contains("\noomph: "), "{said}");
    let mut training = Scene::new().size(40, 120).screen(&["oom:pieces", "exit:1"]);
    training.terminal().wait_for("d details", PATIENCE);
    quit(&mut training);
    training.finish(Exit::Code(1));
}

#[test]
fn fault_70_a_caught_out_of_memory_is_no_end() {
    let mut training = Scene::new().headless(&["oom:python", "say:went on", "exit:0"]);
    training.finish(SUCCESS);
    let said = String::from_utf8(training.output().1).expect("text");
    assert!(!said.contains("oomph: "), "{said}");
    let mut training = Scene::new().size(40, 120).screen(&["oom:python", "exit:0"]);
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 1);
}

/// The kernel's own doing has another name and another remedy.
#[test]
fn fault_71_the_hosts_memory_is_not_the_gpus() {
    let mut training = Scene::new().headless(&["oom:host", "die:KILL"]);
    training.finish(Exit::Signal(9));
    let said = String::from_utf8(training.output().1).expect("text");
    assert!(!said.contains("--batch-size"), "{said}");
    let mut training = too_large(Scene::new(), &["oom:host", "die:KILL"], &[]);
    training
        .terminal()
        .wait_for("The host ran out of memory, not the GPU", PATIENCE);
    quit(&mut training);
    training.finish(Exit::Signal(9));
    assert_eq!(training.runs(), 1, "no relaunch of its own accord");
}

#[test]
fn fault_72_who_was_asked_to_end_is_not_relaunched() {
    // Asked first, out of memory on the way out.
    let steps = ["catch:INT:count", "catch:TERM:count", "shout"];
    for from_keyboard in [true, false] {
        let end = if from_keyboard {
            "await:INT"
        } else {
            "await:TERM"
        };
        let steps = [&steps[..], &[end]].concat();
        let mut training = too_large(Scene::new(), &steps, &[]);
        training.terminal().wait_for("<<HERE>>", PATIENCE);
        match from_keyboard {
            true => training.terminal().press(Key::Ctrl('c')),
            false => training.signal_front(SIGTERM),
        }
        training.finish(Exit::Code(1));
        assert_eq!(training.runs(), 1);
    }
}

#[test]
fn fault_73_a_program_that_is_gone_at_the_relaunch() {
    for what in ["removed", "forbidden", "script"] {
        let scene = Scene::new().size(40, 120);
        let program = scene.path("program");
        std::fs::copy(trainer(), &program).expect("a copy");
        let word = program.display().to_string();
        let command = [
            word.as_str(),
            "--batch-size",
            "64",
            "oom-from:64",
            "touch:second",
        ];
        let mut training = scene.run_at_terminal(&command);
        training.terminal().wait_for(DIALOG, PATIENCE);
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        match what {
            "removed" => std::fs::remove_file(&program).expect("removed"),
            "forbidden" => std::fs::set_permissions(&program, mode(0o644)).expect("a mode"),
            _ => {
                std::fs::write(&program, "#!/no/such/interpreter\n").expect("a script");
                std::fs::set_permissions(&program, mode(0o755)).expect("a mode");
            }
        }
        relaunch(&mut training);
        // Nothing is lost by it: the command can be mended.
        let editor = training
            .terminal()
            .wait_for("Relaunch with this command", PATIENCE);
        assert!(editor.replace('\n', "").contains("program: "), "{editor}");
        answer(&mut training, '\u{1b}', |training| {
            let screen = training.terminal().screen();
            !screen.contains("Relaunch with this command")
        });
        quit(&mut training);
        // That of the run that there was.
        training.finish(Exit::Code(1));
        assert_eq!(training.runs(), 1);
        let screen = training.terminal().screen();
        let said = screen.replace('\n', "");
        assert!(
            said.contains("program") && said.contains("oomph: "),
            "{screen}"
        );
    }
}

#[test]
fn fault_74_ranks_that_survive_their_agent_make_room() {
    let polite = "setsid:touch:polite,until:never";
    let stubborn = "setsid:catch:TERM:ignore,touch:stubborn,until:never";
    let family = "setsid:touch:family,breed:never";
    let waits = ["until:polite", "until:stubborn", "until:family"];
    let before = [&[polite, stubborn, family][..], &waits].concat();
    let mut training = at_dialog(&before, &["args:second", "until:go"]);
    let old: Vec<_> = ["polite", "stubborn"]
        .map(|name| nix::unistd::Pid::from_raw(training.file(name).trim().parse().expect("a pid")))
        .into();
    assert!(
        old.iter().all(|pid| processes::is_alive(*pid)),
        "let alone until then"
    );
    for name in ["polite", "stubborn", "family"] {
        std::fs::remove_file(training.path(name)).expect("removed");
    }
    relaunch(&mut training);
    wait_until("they are gone", PATIENCE, || {
        !old.iter().any(|pid| processes::is_alive(*pid))
    });
    let second = training.file("second");
    assert!(second.contains("\"--batch-size\", \"32\""), "{second}");
    assert_eq!(training.runs(), 2);
    // The second run's own ranks and family are left alone by its end; they are this test's.
    training.go();
    assert_eq!(training.exit(), SUCCESS);
    training.marker().kill_all();
    training.check();
}

#[test]
fn fault_75_a_worker_that_sits_in_a_write_makes_room() {
    let before = ["fork:as:worker,clog", "until:clogged"];
    let mut training = at_dialog(&before, &["touch:second"]);
    let pid: i32 = training.file("clogged").trim().parse().expect("a pid");
    let worker = nix::unistd::Pid::from_raw(pid);
    assert!(processes::is_alive(worker));
    relaunch(&mut training);
    wait_until("it is gone", PATIENCE, || !processes::is_alive(worker));
    training.file("second");
    assert_eq!(training.exit(), SUCCESS);
    training.marker().kill_all();
    training.check();
}

#[test]
fn fault_77_without_nvml_time_decides_and_it_is_said() {
    let mut training = too_large(Scene::new().scaled(5), &[], &["touch:second"]);
    training.terminal().wait_for(DIALOG, PATIENCE);
    answer(&mut training, 'b', |training| {
        let screen = training.terminal().screen();
        screen.contains("without NVML: waiting")
    });
    training.file("second");
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 2);
}

/// Nothing is relaunched that nobody asked for: the dialog comes back each time.
#[test]
fn fault_78_out_of_memory_each_time_asks_each_time() {
    let mut training = too_large(Scene::new(), &["oom:python", "exit:1"], &[]);
    for run in 1..=3 {
        let title = format!("CUDA out of memory · run {run}");
        training.terminal().wait_for(title.as_str(), PATIENCE);
        assert_eq!(training.runs(), run, "as many runs as keys");
        if run < 3 {
            relaunch(&mut training);
        }
    }
    quit(&mut training);
    training.finish(Exit::Code(1));
    assert_eq!(training.runs(), 3);
}

#[test]
fn fault_79_a_front_that_dies_between_two_runs_starts_no_second() {
    // Five seconds of the gate, or a fifth of them.
    let mut training = too_large(Scene::new().scaled(5), &[], &["touch:second"]);
    training.terminal().wait_for(DIALOG, PATIENCE);
    answer(&mut training, 'b', |training| {
        let screen = training.terminal().screen();
        screen.contains("without NVML: waiting")
    });
    training.signal_front(SIGKILL);
    assert_eq!(training.exit(), Exit::Signal(9));
    // The session is back at its dialog, with nobody before it, until somebody comes or ends it.
    let header = |event: Event| match event.what {
        EventKind::SessionStarted(header) => Some(header.id),
        _ => None,
    };
    let id = training.events().into_iter().find_map(header);
    let stopped = std::process::Command::new(crate::faults::staging::OOMPH)
        .args(["stop", &id.expect("a header")])
        .env_clear()
        .output()
        .expect("oomph runs");
    assert!(stopped.status.success(), "{stopped:?}");
    training.check();
    assert!(!training.path("second").exists() && training.runs() == 1);
}

#[test]
fn fault_80_every_word_of_a_command_survives_its_edit() {
    for (words, edited) in [
        (&["--batch-size", "64"][..], &["--batch-size", "32"][..]),
        (
            &["a b", "it's", "\"", "--batch-size", "64", "--", "-x", ""],
            &["a b", "it's", "\"", "--batch-size", "32", "--", "-x", ""],
        ),
        (
            &["--name=a b; rm -rf $HOME", "--batch-size", "64", "é\t*"],
            &["--name=a b; rm -rf $HOME", "--batch-size", "32", "é\t*"],
        ),
    ] {
        let scene = Scene::new().size(40, 120).words(words);
        let mut training = scene.screen(&["oom-from:64", "args:second"]);
        training.terminal().wait_for(DIALOG, PATIENCE);
        relaunch(&mut training);
        let second = training.file("second");
        let expected = [edited, &["beat", "oom-from:64", "args:second"]].concat();
        assert_eq!(second, format!("{expected:?}\n"));
        training.finish(SUCCESS);
        let commands: Vec<_> = training
            .events()
            .into_iter()
            .filter_map(|event| match event.what {
                EventKind::Started(started) => Some(started.command.argv.len()),
                _ => None,
            })
            .collect();
        assert_eq!(commands, [expected.len() + 1; 2], "both are in the record");
    }
}

/// A port that an orphaned rank holds is free when the next run wants it.
#[test]
fn fault_82_a_port_that_an_orphan_holds() {
    let rank = "setsid:listen:port,touch:rank,until:never";
    let scene = Scene::new().size(40, 120).words(&["--batch-size", "64"]);
    let mut training = scene.screen(&[rank, "until:port", "until:rank", "oom-from:64", "exit:0"]);
    training.terminal().wait_for(DIALOG, PATIENCE);
    let old: i32 = training.file("rank").trim().parse().expect("a pid");
    std::fs::remove_file(training.path("rank")).expect("removed");
    relaunch(&mut training);
    // Its rank listens at the port of the first, which would end with 98 otherwise.
    let new: i32 = training.file("rank").trim().parse().expect("a pid");
    assert_ne!(old, new);
    assert_eq!(training.exit(), SUCCESS);
    training.marker().kill_all();
    training.check();
}
