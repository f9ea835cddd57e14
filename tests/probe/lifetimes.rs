//! Ends and separations: forks, fronts that are not there, vanish, come back or do not read, and
//! the program's own end, which must not wait for us.

use crate::probe::front::{Front, Place};
use crate::probe::program::{Program, Running, TRAINING};
use oomph::event::EventKind;
use oomph::units::Bytes;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Goes on until it reads a line, then out of memory, then to its end.
const UNTIL_TOLD: &str = "\
import sys, torch
keep = torch.empty(1 << 20)
optimizer = torch.optim.Adam([keep])
print('ready', flush=True)
import threading
told = threading.Event()
def listen():
    sys.stdin.readline()
    told.set()
threading.Thread(target=listen).start()
while not told.wait(0.005):
    optimizer.step()
try:
    torch.empty(1 << 40)
except torch.OutOfMemoryError:
    print('caught')
";

/// A delay of ours that nobody would forgive at a program's end.
const NOTICEABLE: Duration = Duration::from_millis(300);

/// How long tries go on.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asserts that a program with the probe takes no noticeably longer to end than without it. Both are tried in
/// turn for as long as it takes: the machine may be slow for a while, a delay of ours would be there each time.
#[track_caller]
fn assert_no_later_end(mut with_probe: impl FnMut() -> Duration, bare: &Program) {
    let began = Instant::now();
    loop {
        let (ours, theirs) = (with_probe(), end_of(bare.start_bare()));
        if ours < theirs + NOTICEABLE {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{ours:?}, bare {theirs:?}");
    }
}

/// How long a program goes on after it was told to end.
fn end_of(mut program: Running) -> Duration {
    program.wait_until_printed("ready");
    program.tell("end");
    let began = Instant::now();
    program.end().expect("ready\ncaught");
    began.elapsed()
}

#[test]
fn a_front_that_vanishes_leaves_the_program_unharmed() {
    let place = Place::new();
    // A program may have given SIGPIPE back its deadly default.
    for deadly in [
        "",
        "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n",
    ] {
        let text = format!("{deadly}{UNTIL_TOLD}");
        let program = Program::new(["-c", &text]).timed();
        let with_probe = || {
            let mut front = Front::listen(&place);
            let running = program.start(&place);
            front.wait_until(|seen| seen.iter().any(|what| matches!(what, EventKind::Step(_))));
            drop(front);
            end_of(running)
        };
        assert_no_later_end(with_probe, &program);
    }
}

/// The thread of ours is none that the kernel could give them to.
#[test]
fn signals_that_the_program_blocks_stay_blocked() {
    const BLOCKS: &str = "\
import os, signal, sys, torch
optimizer = torch.optim.Adam([torch.empty(1 << 20)])
optimizer.step()
print('ready', flush=True)
sys.stdin.readline()
taken = {signal.SIGUSR1, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, taken)
for each in taken:
    os.kill(os.getpid(), each)
print(sorted(int(signal.sigwait(taken)) for _ in taken))
";
    let place = Place::new();
    let mut front = Front::listen(&place);
    let mut program = Program::new(["-c", BLOCKS]).start(&place);
    front.wait_until(|seen| seen.iter().any(|what| matches!(what, EventKind::Hello(_))));
    program.tell("go");
    program.end().expect("ready\n[2, 10]");
    front.wait_for_end_of(1);
}

#[test]
fn a_front_that_comes_back_is_found_again() {
    let place = Place::new();
    let mut first = Front::listen(&place);
    let mut program = Program::new(["-c", UNTIL_TOLD]).start(&place);
    first.wait_until(|seen| {
        seen.iter()
            .any(|what| matches!(what, EventKind::Structure(_)))
    });
    drop(first);
    let mut second = Front::listen(&place);
    // Everything is said again: who it is, what it holds, what it is made of.
    second.wait_until(|seen| {
        seen.iter().any(|what| matches!(what, EventKind::Hello(_)))
            && seen.iter().any(|what| matches!(what, EventKind::Sample(_)))
            && seen
                .iter()
                .any(|what| matches!(what, EventKind::Structure(_)))
    });
    program.tell("end");
    program.end().expect("ready\ncaught");
    second.wait_for_end_of(1);
    assert_eq!(second.ooms().len(), 1);
    second.expect_nothing_lost();
}

#[test]
fn without_a_front_the_program_runs_and_ends_as_ever() {
    let place = Place::new();
    let program = Program::new(["-c", UNTIL_TOLD]).timed();
    assert_no_later_end(|| end_of(program.start(&place)), &program);
}

#[test]
fn a_socket_that_is_deleted_or_too_long_is_a_front_that_is_not_there() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    std::fs::remove_file(place.socket()).unwrap();
    Program::new(["-c", TRAINING]).run(&place).expect("done");
    drop(listener);
    let absurd = place.path().join("s".repeat(200));
    Program::new(["-c", TRAINING])
        .start_with_socket(&place, &absurd)
        .end()
        .expect("done");
}

#[test]
fn a_front_that_never_reads_holds_nothing_up() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    // Far more than the socket's buffer takes: big records, and steps by the thousand.
    let text = "\
import time, torch
keep = torch.empty(1 << 20)
optimizer = torch.optim.Adam([keep])
began = time.monotonic()
for _ in range(2000):
    optimizer.step()
    try:
        torch.empty(1 << 40)
    except torch.OutOfMemoryError:
        pass
took = time.monotonic() - began
# A wait at each of them would take four hundred seconds.
assert took < 30, took
print('done')
";
    Program::new(["-c", text]).run(&place).expect("done");
    drop(listener);
}

#[test]
fn a_fork_in_the_middle_leaves_the_parent_with_its_connection_and_the_child_with_none() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import os, sys, torch, time
keep = torch.empty(1 << 20)
optimizer = torch.optim.Adam([keep])
optimizer.step()
time.sleep(0.05)
child = os.fork()
if child == 0:
    # Steps and an OOM in a process that was forked: nothing of it is the parent's.
    optimizer.step()
    try:
        torch.empty(1 << 40)
    except torch.OutOfMemoryError:
        pass
    sys.stdin.readline()
    os._exit(0)
optimizer.step()
time.sleep(0.05)
";
    // 3.12 and later warn of a fork beside any thread; beside CUDA's own they always do.
    let quiet = ["-W", "ignore::DeprecationWarning", "-c", text];
    let mut program = Program::new(quiet).start(&place);
    program.wait();
    // The child lives and holds nothing of the connection open.
    front.wait_for_end_of(1);
    program.tell("end");
    program.end().expect_silent();
    assert_eq!(front.steps().last().unwrap().count, 2);
    assert!(front.ooms().is_empty());
    front.expect_nothing_lost();
}

#[test]
fn forked_workers_say_nothing_and_end_well() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import multiprocessing, torch
def work(n):
    return n * n
keep = torch.empty(1 << 20)
if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(4) as pool:
        print(sum(pool.map(work, range(100))))
";
    let ended = Program::script(&place, "pool.py", text).run(&place);
    ended.expect("328350");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
}

#[test]
fn the_last_lines_are_out_before_the_program_ends() {
    let place = Place::new();
    for end in ["", "sys.exit(3)", "raise RuntimeError('of the training')"] {
        let mut front = Front::listen(&place);
        let text = format!(
            "\
import sys, time, torch
optimizer = torch.optim.Adam([torch.empty(1 << 20)])
optimizer.step()
time.sleep(0.1)
for _ in range(9):
    optimizer.step()
{end}
"
        );
        let program = Program::script(&place, "train.py", &text);
        assert_eq!(program.run(&place), program.run_bare());
        front.wait_for_end_of(1);
        assert_eq!(front.steps().last().unwrap().count, 10, "{end:?}");
    }
}

/// A card that is filled and given back within the second after the sampler found it empty.
#[test]
fn what_is_allocated_after_the_first_look_is_in_the_last_one() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import sys, torch
torch.cuda._lazy_init()
readings = sys.modules['_oomph_probe'].here.attached.readings
while not readings.looked:
    pass
keep = torch.empty(300 << 20)
print('done')
";
    Program::script(&place, "train.py", text)
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
    let most = front.samples().iter().map(|sample| sample.allocated).max();
    assert!(most >= Some(Bytes::mib(300)), "{most:?}");
}
