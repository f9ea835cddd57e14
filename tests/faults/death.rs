//! C: the terminal goes, or a process of oomph's does.

use crate::fake_nvml::Fake;
use crate::faults::staging::{Scene, Training, own_memory, wait_for_beats};
use crate::harness::{Key, PATIENCE, processes, wait_until};
use nix::sys::signal::Signal::{self, *};
use oomph::event::Exit;
use oomph::units::Bytes;

const SUCCESS: Exit = Exit::Code(0);

/// A training on the screen that waits.
fn shown(scene: Scene, more: &[&str]) -> Training {
    let steps = [&["shout"], more, &["until:go", "touch:ended"]].concat();
    let mut training = scene.screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training
}

#[test]
fn fault_38_a_terminal_that_is_gone_costs_nothing() {
    for before in ["", "trap '' HUP"] {
        let mut training = shown(Scene::new().before(before), &["until:more", "lines:3"]);
        let front = training.front();
        training.terminal().close();
        training.wait_note("continuing without a screen");
        training.rests(front);
        training.make("more");
        wait_until("the log goes on", PATIENCE, || {
            String::from_utf8_lossy(&training.log()).contains("0000002")
        });
        training.go();
        training.finish(SUCCESS);
        assert!(training.path("ended").exists());
    }
}

/// The front leads no session: a shell does, which goes with its terminal.
#[test]
fn fault_38_a_shell_that_is_gone_costs_nothing() {
    let steps = ["shout", "until:go", "touch:ended"];
    let mut training = crate::faults::staging::under_a_shell(Scene::new(), "fg", &steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    let job: i32 = training.file("job").trim().parse().expect("a pid");
    training.terminal().close();
    training.wait_note("continuing without a screen");
    training.rests(nix::unistd::Pid::from_raw(job));
    wait_for_beats(&training, 100_000);
    training.make("go");
    training.file("ended");
    training.exit();
    training.check();
}

/// Who wants the old way gets it.
#[test]
fn fault_38_a_training_can_be_made_to_go_with_its_terminal() {
    let rank = "setsid:catch:HUP:ignore,catch:TERM:ignore,until:never";
    let mut training = shown(Scene::new().option("--on-hup=stop"), &[rank]);
    training.terminal().close();
    training.finish(Exit::Signal(15));
    // A signal says the same, and nohup the opposite.
    let mut training = shown(Scene::new().option("--on-hup=stop"), &[]);
    training.signal_front(SIGHUP);
    training.finish(Exit::Signal(15));
    let scene = Scene::new().option("--on-hup=stop").before("trap '' HUP");
    let mut training = shown(scene, &[]);
    training.terminal().close();
    training.wait_note("continuing without a screen");
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_40_a_killed_front_leaves_training_and_terminal_as_they_should_be() {
    let mut training = shown(Scene::new(), &[]);
    let keeper = training.keeper();
    training.signal_front(SIGKILL);
    assert_eq!(training.exit(), Exit::Signal(9));
    wait_until("the terminal is as it was", PATIENCE, || {
        training.terminal().left_behind().is_empty()
    });
    wait_for_beats(&training, 200_000);
    training.rests(keeper);
    training.make("go");
    training.file("ended");
    training.check();
}

#[test]
fn fault_41_a_killed_keeper_leaves_nobody_behind() {
    let rank = "setsid:catch:HUP:ignore,catch:TERM:ignore,touch:rank,until:never";
    let steps = [rank, "until:rank", "shout", "until:never"];
    let mut training = Scene::new().screen(&steps);
    training.file("rank");
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    processes::signal(training.keeper(), SIGKILL);
    training.finish(Exit::Code(125));
    let said = String::from_utf8_lossy(&training.output().0).into_owned();
    assert!(said.contains("the keeper process is gone"), "{said}");
}

/// Without a terminal nothing hangs up: output, status and signals are the training's own.
#[test]
fn fault_84_a_training_without_a_terminal_outlives_its_keeper() {
    let steps = [
        "catch:USR1:count",
        "say:before",
        "touch:ready",
        "until:go",
        "say:after",
        "exit:7",
    ];
    let mut training = Scene::new().headless(&steps);
    training.file("ready");
    // What the front has not heard of it cannot hold.
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    processes::signal(training.keeper(), SIGKILL);
    training.wait_note("the training continues");
    training.rests(training.front());
    training.signal_front(SIGUSR1);
    training.wait_count(SIGUSR1, 1);
    // Nor does it once it would have looked whether others can still reach the session.
    wait_for_beats(&training, 700_000);
    training.rests(training.front());
    training.make("go");
    assert_eq!(training.exit(), Exit::Code(7));
    let (out, err) = training.output();
    assert_eq!(out, b"before\nafter\n");
    let said = String::from_utf8_lossy(&err).into_owned();
    assert!(said.contains("the keeper process is gone"), "{said}");
    training.marker().wait_gone(PATIENCE);
}

/// Whether or not the front has heard of the start by then.
#[test]
fn fault_84_a_training_that_has_just_begun_outlives_its_keeper() {
    for _ in 0..6 {
        let steps = [
            "say:before",
            "touch:ready",
            "until:go",
            "say:after",
            "exit:7",
        ];
        let mut training = Scene::new().headless(&steps);
        let keeper = training.keeper();
        training.find("the holder of its session", |pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "oomph-session")
        });
        processes::signal(keeper, SIGKILL);
        training.file("ready");
        training.wait_note("the training continues");
        training.make("go");
        let exit = training.exit();
        let said = training.output();
        assert_eq!(exit, Exit::Code(7), "{}", String::from_utf8_lossy(&said.1));
        assert_eq!(said.0, b"before\nafter\n");
        assert_eq!(training.runs(), 1);
        training.marker().wait_gone(PATIENCE);
    }
}

/// The holder of its session lets go of its pipes some time after the keeper: a full one would stop it for ever.
#[test]
fn fault_84_a_training_that_nobody_reads_is_not_held_up() {
    let training = Scene::new().run_headless(&["sh", "-c", "echo > ready; exec yes"]);
    training.file("ready");
    let keeper = training.keeper();
    for pid in [training.front(), keeper] {
        processes::signal(pid, SIGSTOP);
    }
    for pid in [training.front(), keeper] {
        processes::signal(pid, SIGKILL);
    }
    training.marker().wait_gone(PATIENCE);
}

#[test]
fn fault_84_a_request_to_end_reaches_it_still() {
    let steps = ["shout", "touch:ready", "chatter:never"];
    let mut training = Scene::new().headless(&steps);
    training.file("ready");
    // What the front has not heard of it cannot hold.
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    processes::signal(training.keeper(), SIGKILL);
    training.wait_note("the training continues");
    training.signal_front(SIGTERM);
    assert_eq!(training.exit(), Exit::Signal(15));
    training.marker().wait_gone(PATIENCE);
}

/// A front that is not the trainer's parent follows it too, and does not make its status up.
#[test]
fn fault_84_whoever_cannot_know_the_status_says_so() {
    let training = Scene::new().headless(&["touch:ready", "until:go", "touch:end", "exit:7"]);
    training.file("ready");
    // What the front has not heard of it cannot hold.
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    let keeper = training.keeper();
    training.signal_front(SIGKILL);
    training.wait_note("continues without a screen");
    processes::signal(keeper, SIGKILL);
    training.wait_note("the training continues");
    wait_for_beats(&training, 100_000);
    training.make("go");
    training.file("end");
    training.wait_note("its exit status is not known");
    training.marker().wait_gone(PATIENCE);
}

/// Whoever wants to end such a session may signal either of its processes, or both, and means one signal.
#[test]
fn fault_40_a_request_to_end_reaches_a_training_without_its_front_once() {
    let steps = ["catch:TERM:count", "touch:ready", "until:go", "touch:end"];
    let training = Scene::new().headless(&steps);
    training.file("ready");
    // Before, nobody could take its place.
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    let keeper = training.keeper();
    training.signal_front(SIGKILL);
    training.wait_note("continues without a screen");
    let headless = training.find("the front that follows", |pid| {
        processes::command_line(pid).starts_with("oomph __headless")
    });
    processes::signal(keeper, SIGTERM);
    training.wait_count(SIGTERM, 1);
    processes::signal(headless, SIGTERM);
    training.wait_note("the program already has it");
    training.make("go");
    training.file("end");
    training.marker().wait_gone(PATIENCE);
    assert_eq!(training.count(SIGTERM), 1);
}

#[test]
fn fault_42_nvml_that_never_returns() {
    let nvml = Fake::new();
    let library = nvml.library().display().to_string();
    let mut scene = Scene::new().env("OOMPH_NVML_LIBRARY", library);
    scene = scene.without("--no-nvml");
    let mut training = shown(scene, &[]);
    training.terminal().wait_for("Fake GPU", PATIENCE);
    nvml.say("hang memory");
    training
        .terminal()
        .wait_for(|screen: &str| !screen.contains("● NVML"), PATIENCE);
    training.go();
    training.finish(SUCCESS);
}

/// Makes a process fault, as a mistake of its own would: its next instruction becomes one that can't be executed.
fn crash(pid: nix::unistd::Pid, instruction: u64) {
    use nix::libc;
    let pid = pid.as_raw();
    // SAFETY: a process of this test's, whose memory nobody else needs; the numbers are no pointers of ours.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0), 0);
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL), pid);
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("its state");
        let next = call.trim_end().rsplit("0x").next().expect("its place");
        let next = u64::from_str_radix(next, 16).expect("an address");
        assert_eq!(
            libc::ptrace(libc::PTRACE_POKETEXT, pid, next, instruction),
            0
        );
        assert_eq!(libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0), 0);
    }
}

#[test]
fn fault_43_a_front_that_crashes_restores_the_terminal() {
    // `ud2`, a write to address 0, `int3`; elsewhere the instruction 0.
    let faults: &[(Signal, u64)] = match cfg!(target_arch = "x86_64") {
        true => &[(SIGILL, 0x0b0f), (SIGSEGV, 0x0025_04c6), (SIGTRAP, 0xcc)],
        false => &[(SIGILL, 0)],
    };
    for (signal, instruction) in faults {
        let mut training = shown(Scene::new().before("ulimit -c 0"), &[]);
        crash(training.front(), *instruction);
        assert_eq!(training.exit(), Exit::Signal(*signal as i32));
        wait_until("the terminal is as it was", PATIENCE, || {
            training.terminal().left_behind().is_empty()
        });
        wait_for_beats(&training, 100_000);
        training.make("go");
        training.file("ended");
        training.check();
    }
}

/// No memory for the front: Rust ends a process that gets none.
#[test]
fn fault_43_a_front_without_memory_ends_alone() {
    let scene = Scene::new().before("ulimit -c 0");
    let mut training = shown(scene, &["until:flood", "lines:20000"]);
    let front = training.front();
    let limit = nix::libc::rlimit {
        rlim_cur: 4096,
        rlim_max: 4096,
    };
    // Data, not the address space: allocators grow into what they have reserved of that.
    // SAFETY: sets a limit of a process of this test's.
    let set = unsafe {
        nix::libc::prlimit(
            front.as_raw(),
            nix::libc::RLIMIT_DATA,
            &limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(set, 0);
    // Lines that scroll away are kept, and wider ones need larger buffers.
    training.make("flood");
    for cols in 200..480 {
        if !processes::is_alive(front) {
            break;
        }
        training.terminal().resize(cols / 4, cols);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(training.exit(), Exit::Signal(Signal::SIGABRT as i32));
    training.terminal().resize(24, 80);
    wait_until("the terminal is as it was", PATIENCE, || {
        training.terminal().left_behind().is_empty()
    });
    wait_for_beats(&training, 100_000);
    training.make("go");
    training.file("ended");
    training.check();
}

#[test]
fn fault_44_a_terminal_that_takes_nothing_for_a_while() {
    let mut training = shown(Scene::new(), &["until:flood", "lines:20000", "shout"]);
    training.terminal().stop_reading();
    training.make("flood");
    for n in 0..200u16 {
        training
            .terminal()
            .press(if n % 2 == 0 { Key::Tab } else { Key::BackTab });
    }
    wait_for_beats(&training, 300_000);
    training.terminal().read_on();
    training.terminal().wait_for("0019999", PATIENCE);
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_45_terminals_that_say_nothing_of_themselves() {
    let steps = ["size:size", "shout", "until:go", "exit:3"];
    for (scene, size) in [
        (Scene::new().size(0, 0), None),
        (Scene::new().size(1, 1), None),
        (Scene::new().env("TERM", "dumb"), Some("Some((24, 80))\n")),
        (Scene::new().env("TERM", ""), Some("Some((24, 80))\n")),
        (Scene::new().env("TERM", "no-such-terminal"), None),
    ] {
        let mut training = scene.screen(&steps);
        let found = training.file("size");
        match size {
            Some(size) => assert_eq!(found, size),
            None => assert!(!found.contains("(0") && !found.contains(" 0"), "{found}"),
        }
        wait_until("its output", PATIENCE, || !training.log().is_empty());
        training.go();
        training.finish(Exit::Code(3));
    }
}

#[test]
fn fault_47_no_place_for_the_sockets() {
    let long = "d".repeat(90);
    let scene = || Scene::new();
    let in_place = |name: &str| {
        let scene = scene();
        let path = scene.path(name).display().to_string();
        (scene, path)
    };
    let mut scenes = Vec::new();
    let (scene_long, path) = in_place(&long);
    std::fs::create_dir(&path).expect("a directory");
    scenes.push(scene_long.env("XDG_RUNTIME_DIR", path));
    let (missing, path) = in_place("missing");
    scenes.push(
        missing
            .env("XDG_RUNTIME_DIR", path.clone())
            .env("TMPDIR", path),
    );
    let (file, path) = in_place("file");
    std::fs::write(&path, "").expect("a file");
    scenes.push(
        file.env("XDG_RUNTIME_DIR", path.clone())
            .env("TMPDIR", path),
    );
    let (open, path) = in_place("open");
    std::fs::create_dir(&path).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&path, mode).expect("a mode");
    scenes.push(open.env("XDG_RUNTIME_DIR", path));
    scenes.push(
        scene()
            .env("XDG_RUNTIME_DIR", "/proc/none")
            .env("TMPDIR", "/proc/none"),
    );
    for scene in scenes {
        let mut training = scene.headless(&["shout", "touch:ready", "until:go", "exit:6"]);
        training.file("ready");
        training.go();
        training.finish(Exit::Code(6));
        assert_eq!(training.output().0, b"\r\n<<HERE>>\r\n");
    }
}

/// The sockets' directory goes away under a run.
#[test]
fn fault_47_the_sockets_are_removed() {
    let scene = Scene::new();
    let runtime = scene.path("run");
    std::fs::create_dir(&runtime).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&runtime, mode).expect("a mode");
    let mut training = shown(
        scene.env("XDG_RUNTIME_DIR", runtime.display().to_string()),
        &[],
    );
    std::fs::remove_dir_all(&runtime).expect("removed");
    wait_for_beats(&training, 50_000);
    training.go();
    training.finish(SUCCESS);
}

/// The viewer at the keeper's socket reads nothing, while much is written.
#[test]
fn fault_48_a_viewer_that_reads_nothing_is_not_waited_for() {
    let steps = ["until:flood", "lines:100000", "touch:written"];
    let mut training = shown(Scene::new(), &steps);
    let front = training.front();
    processes::signal(front, SIGSTOP);
    training.make("flood");
    training.file("written");
    let held = own_memory(training.keeper());
    assert!(held <= Bytes::mib(5), "{held}");
    processes::signal(front, SIGCONT);
    training.terminal().wait_for("0099999", PATIENCE);
    training.go();
    training.finish(SUCCESS);
    assert!(
        training.notes().contains("output: Bytes("),
        "what it missed is counted"
    );
}

/// The training goes on without a reader. What it has left behind is ended by the next write, as without oomph.
#[test]
fn fault_49_what_is_left_behind_ends_without_a_reader() {
    let script = "(while echo more; do :; done) & exit 3";
    let scene = Scene::new().before("\"$@\" | head -1 >first; exit");
    let mut training = scene.run_headless(&["sh", "-c", script]).elsewhere();
    assert_eq!(training.exit(), SUCCESS);
    assert_eq!(training.file("first"), "more\n");
    training.marker().wait_gone(PATIENCE);
}

#[test]
fn fault_49_a_reader_that_has_read_enough() {
    let before = "set -- sh -c '(\"$@\"; echo $? > status) | head -n 1 > first' sh \"$@\"";
    let steps = ["shout", "lines:2000", "touch:written", "turns:20", "exit:7"];
    let mut training = Scene::new()
        .before(before)
        .headless(&steps)
        .held_up()
        .elsewhere();
    training.file("written");
    training.finish(SUCCESS);
    assert_eq!(training.file("status"), "7\n");
    assert_eq!(training.file("first"), "\r\n");
    let log = training.log();
    assert_eq!(log.len(), 2000 * 80 + 12, "the log has all of it");
}

#[test]
fn fault_50_a_file_that_is_changed_under_the_output() {
    let steps = [
        "lines:1000",
        "touch:written",
        "until:more",
        "lines:1000",
        "until:go",
        "exit:2",
    ];
    for change in ["truncate", "rename", "remove"] {
        let scene = Scene::new().before("exec > out.txt");
        let mut training = scene.headless(&steps).elsewhere();
        training.file("written");
        let path = training.path("out.txt");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), 80_000);
        match change {
            "truncate" => {
                let file = std::fs::File::options()
                    .write(true)
                    .open(&path)
                    .expect("the file");
                file.set_len(0).expect("cut off");
            }
            "rename" => std::fs::rename(&path, training.path("moved.txt")).expect("moved"),
            _ => std::fs::remove_file(&path).expect("removed"),
        }
        training.make("more");
        training.go();
        training.finish(Exit::Code(2));
        match change {
            // Its own position is where it was: the beginning is a hole, as without us.
            "truncate" => assert_eq!(std::fs::metadata(&path).expect("the file").len(), 160_000),
            "rename" => {
                let moved = training.path("moved.txt");
                assert_eq!(std::fs::metadata(moved).expect("the file").len(), 160_000);
            }
            _ => assert!(!path.exists(), "nobody made it anew"),
        }
    }
    // A full disk under the output is the training's own business.
    let scene = Scene::new().before("exec > /dev/full");
    let mut training = scene.headless(&["lines:10", "exit:4"]).elsewhere();
    training.finish(Exit::Code(4));
}
