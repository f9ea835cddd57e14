//! What comes of a program's output on its way to a reader: every byte, in the order and in the pieces
//! in which the program wrote it.

use crate::faults::staging::{OOMPH, Scene, Training, trainer};
use crate::harness::{PATIENCE, processes, wait_until};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use oomph::event::Exit;
use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

const SUCCESS: Exit = Exit::Code(0);

/// A training whose stdout is a named pipe, which this process reads as slowly as it likes.
fn into_a_slow_reader(scene: Scene, command: &[&str]) -> (Training, File) {
    let pipe = scene.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let training = scene
        .before("exec >pipe")
        .run_headless(command)
        .elsewhere()
        .held_up();
    let reader = File::open(pipe).expect("the pipe");
    (training, reader)
}

/// The Python below the keeper.
fn python(training: &Training) -> Pid {
    let keeper = training.keeper();
    training.find("python", |pid| {
        processes::parent(pid) == Some(keeper)
            && std::fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe.to_string_lossy().contains("python"))
    })
}

/// Waits until a program that does nothing but write waits for its reader.
#[track_caller]
fn wait_until_full(pid: Pid) {
    let mut asleep = 0;
    wait_until("python to wait for its reader", PATIENCE, || {
        asleep = match processes::state(pid) {
            Some('S') => asleep + 1,
            _ => 0,
        };
        asleep == 20
    });
}

#[test]
fn fault_95_a_reader_that_is_slow_gets_every_byte() {
    const MUCH: usize = 8_000_000;
    let script = format!("print('x' * {MUCH})");
    let (mut training, mut reader) = into_a_slow_reader(Scene::new(), &["python3", "-c", &script]);
    let pid = python(&training);
    let mut got = Vec::new();
    for _ in 0..5 {
        wait_until_full(pid);
        processes::signal(pid, Signal::SIGSTOP);
        wait_until("python to stand still", PATIENCE, || {
            processes::state(pid) == Some('T')
        });
        processes::signal(pid, Signal::SIGCONT);
        let mut piece = vec![0; 300_000];
        reader.read_exact(&mut piece).expect("output");
        got.extend(piece);
    }
    reader.read_to_end(&mut got).expect("the rest");
    assert_eq!(got.len(), MUCH + 1);
    training.finish(SUCCESS);

    // A timer of the program's own interrupts its writes.
    let script = format!(
        "import signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
sys.stdout.write('x' * {MUCH})
sys.stdout.flush()
signal.setitimer(signal.ITIMER_REAL, 0)"
    );
    let (mut training, mut reader) = into_a_slow_reader(Scene::new(), &["python3", "-c", &script]);
    let (mut got, mut piece) = (0, vec![0; 64 << 10]);
    while let Ok(n @ 1..) = reader.read(&mut piece) {
        got += n;
        // Slower than python, so that it is interrupted while it waits.
        std::thread::sleep(Duration::from_millis(3));
    }
    assert_eq!(got, MUCH);
    training.finish(SUCCESS);
}

#[test]
fn fault_95_nothing_says_how_to_buffer() {
    let script = "import os, sys
print(sorted(n for n in os.environ if 'BUFFER' in n), type(sys.stdout.buffer).__name__)";
    let mut training = Scene::new().run_headless(&["python3", "-c", script]);
    training.finish(SUCCESS);
    assert_eq!(training.output().0, b"[] BufferedWriter\n");
}

#[test]
fn fault_96_the_lines_of_ranks_stay_whole() {
    let script = "import os, sys
rank = 0
for n in (1, 2, 3):
    if os.fork() == 0:
        rank = n
        break
for n in range(1000):
    print('rank', rank, 'step', n, 'loss', 0.5, flush=True)
if rank == 0:
    for n in (1, 2, 3): os.wait()";
    let mut training = Scene::new().run_headless(&["python3", "-c", script]);
    training.finish(SUCCESS);
    let out = String::from_utf8(training.output().0).expect("text");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..4)
        .flat_map(|rank| (0..1000).map(move |n| format!("rank {rank} step {n} loss 0.5")))
        .collect();
    expected.sort_unstable();
    assert!(lines == expected, "lines were torn");
}

/// Nothing reads the output, which is more than the pipes hold: the end that was asked for comes all the
/// same, what was not delivered is counted, and the log has it.
#[test]
fn fault_103_a_reader_that_reads_nothing_holds_up_no_end_that_was_asked_for() {
    const MUCH: usize = 20_000 * 80;
    let program = trainer().display().to_string();
    let steps = [program.as_str(), "lines:20000", "until:go"];
    for (ask, exit) in [
        (&[][..], Exit::Signal(15)),
        (&["stop"][..], Exit::Signal(15)),
        (&["stop", "--kill"], Exit::Signal(9)),
    ] {
        let scene = Scene::new();
        let runtime = scene.path("run").display().to_string();
        let scene = scene.env("OOMPH_RUNTIME_DIR", runtime.clone());
        let (mut training, mut reader) = into_a_slow_reader(scene, &steps);
        wait_until_full(training.trainer());
        match ask {
            [] => training.signal_front(Signal::SIGTERM),
            words => {
                let oomph = |words: &[&str]| {
                    let mut command = Command::new(OOMPH);
                    command.args(words).env_clear();
                    command.env("HOME", training.place.path());
                    command.env("OOMPH_RUNTIME_DIR", &runtime);
                    command.output().expect("oomph runs")
                };
                wait_until("it is listed", PATIENCE, || {
                    oomph(&["ls", "--json"]).stdout.starts_with(b"[\n")
                });
                let stopped = oomph(words);
                let said = String::from_utf8_lossy(&stopped.stdout);
                assert!(stopped.status.success(), "{stopped:?}");
                assert!(said.contains("were not delivered"), "{said}");
            }
        }
        training.finish(exit);
        let mut got = Vec::new();
        reader.read_to_end(&mut got).expect("what the pipe had");
        let said = training.notes();
        let undelivered: usize = said
            .split_once(" bytes of output were not delivered")
            .and_then(|(before, _)| before.rsplit(char::is_whitespace).next()?.parse().ok())
            .unwrap_or_else(|| panic!("{said}"));
        // The program was ended in the middle: what it wrote is what came and what is counted.
        let log = training.log();
        assert_eq!(got.len() + undelivered, log.len(), "{ask:?}");
        assert!(log.starts_with(&got) && log.len() < MUCH, "{ask:?}");
    }
}

/// Nobody asked for an end: the reader has all the time that it wants.
#[test]
fn fault_103_after_an_end_by_itself_the_reader_is_waited_for() {
    let program = trainer().display().to_string();
    let steps = [program.as_str(), "lines:2000"];
    let (mut training, mut reader) = into_a_slow_reader(Scene::new(), &steps);
    let front = training.front();
    // How much it takes depends on the pieces in which it came: each has a place of its own in a pipe.
    wait_until("the reader's pipe to be full", PATIENCE, || {
        let logged = training.log().len();
        std::thread::sleep(Duration::from_millis(200));
        logged > 0 && training.log().len() == logged
    });
    training.rests(front);
    assert!(processes::is_alive(front));
    let mut got = Vec::new();
    reader.read_to_end(&mut got).expect("output");
    assert_eq!(got.len(), 2000 * 80);
    training.finish(SUCCESS);
}

#[test]
fn fault_101_the_log_of_a_screen_is_what_the_training_wrote() {
    let steps = ["lines:1250", "say:its own\r", "say:", "say:end"];
    let mut training = Scene::new().screen(&steps);
    training.finish(SUCCESS);
    let mut written: String = (0..1250).map(|n| format!("{n:079}\n")).collect();
    written += "its own\r\n\nend\n";
    assert_eq!(String::from_utf8_lossy(&training.log()), written);
}
