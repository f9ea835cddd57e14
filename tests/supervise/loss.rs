//! Slow and broken places: the drain waits for none of them, and what they miss is counted.

use crate::supervise::stage::*;
use oomph::event::Exit;
use oomph::supervise::{Io, KeeperOrder, KeeperReport};
use std::io::Read;

/// Ten megabytes in lines, then a file that says so.
fn much(mark: &std::path::Path) -> String {
    format!(
        "import os\nfor n in range(2000): os.write(1, b'%049d\\n' % n * 100)\nos.write(1, b'the last words')\nopen('{}', 'w').write('done\\n')",
        mark.display()
    )
}

const MUCH: usize = 2000 * 51 * 100 + 14;

/// 2, in part
#[test]
fn a_front_that_does_not_read_slows_nothing_and_gets_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (mark, log) = (directory.path().join("mark"), directory.path().join("log"));
    let terminal = UsersTerminal::open();
    let mut casting = Casting::on(&terminal, Io::Screen);
    casting.log = Some(log.clone());
    let mut stage = casting.start();
    stage.launch(&["python3", "-c", &much(&mark)]);
    // Nobody reads a report until all of it is written.
    assert_eq!(content_of(&mark), "done\n");
    let outcome = stage.outcome();
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    assert!(outcome.missed > 0);
    assert_eq!(outcome.terminal.len() + outcome.missed as usize, MUCH);
    assert!(outcome.terminal.ends_with(b"the last words"));
    stage.finish();
    // As it was written, without what the terminal made of each newline.
    let logged = std::fs::read_to_string(&log).unwrap();
    assert_eq!(
        logged_or_missing(&logged),
        MUCH - 2000 * 100,
        "the log has all, or says what is missing"
    );
}

/// The bytes of output that a log has, and those that it says are missing, because the disk was too slow.
fn logged_or_missing(log: &str) -> usize {
    const BEGIN: &str = "\r\n[oomph: ";
    const END: &str = " bytes of output are missing here]\r\n";
    let mut parts = log.split(BEGIN);
    let before = parts.next().map_or(0, str::len);
    parts.fold(before, |sum, part| {
        let (missing, rest) = part.split_once(END).expect("a whole note of a gap");
        sum + missing.parse::<usize>().expect("a number") + rest.len()
    })
}

/// 51, 52
#[test]
fn a_full_disk_costs_the_log_only() {
    let terminal = UsersTerminal::open();
    let mut casting = Casting::on(&terminal, Io::Screen);
    let directory = tempfile::tempdir().unwrap();
    casting.log = Some(directory.path().join("log"));
    // No byte fits into any file, as on a full disk.
    casting.before = Some("ulimit -f 0".into());
    let mut stage = casting.start();
    stage.launch(&["sh", "-c", "echo one; sleep 0.2; echo two"]);
    let (mut unlogged, mut seen, mut noted) = (0, Vec::new(), false);
    let exit = stage.until(|report| match report {
        KeeperReport::Unlogged { bytes } => {
            unlogged += bytes.0;
            None
        }
        KeeperReport::Output { bytes, .. } => {
            seen.extend_from_slice(bytes);
            None
        }
        KeeperReport::Note(text) => {
            noted |= text.contains("File too large");
            None
        }
        KeeperReport::Exited { exit, .. } => Some(*exit),
        _ => None,
    });
    assert_eq!((exit, &seen[..]), (Exit::Code(0), &b"one\r\ntwo\r\n"[..]));
    // The thread that writes may not have come to the last bytes by the time of the end.
    stage.order(KeeperOrder::Finish);
    stage.until(|report| match report {
        KeeperReport::Unlogged { bytes } => {
            unlogged += bytes.0;
            None
        }
        KeeperReport::Note(text) => {
            noted |= text.contains("File too large");
            None
        }
        KeeperReport::Finished => Some(()),
        _ => None,
    });
    assert!(
        unlogged >= 5 && noted,
        "{unlogged} bytes told, noted: {noted}"
    );
    wait_until_gone(stage.keeper.pid());
}

/// 52: a log over RLIMIT_FSIZE is an error for us and no signal, and the trainer's own is default.
#[test]
fn a_log_over_the_file_size_limit_is_cut_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (reading, writing) = pipe();
    let seen = Collected::from(reading);
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    casting.log = Some(log.clone());
    casting.before = Some("ulimit -f 8".into());
    let mut stage = casting.start();
    let script = "import os, signal\nassert signal.getsignal(signal.SIGXFSZ) != None\nfor n in range(1000): os.write(1, b'%049d\\n' % n)";
    let outcome = stage.run(&["python3", "-c", script]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    stage.finish();
    let all = seen.to_the_end();
    assert_eq!(all.len(), 50_000);
    let logged = std::fs::read(&log).unwrap();
    assert!(logged.len() <= 8 * 1024 && !logged.is_empty());
    assert!(all.starts_with(&logged), "a prefix, to the byte");
}

/// The log's name is taken by the very file that the program writes to: it is not written there,
/// or it would grow without end.
#[test]
fn a_log_is_never_the_programs_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("loop.output.log");
    let mut casting = Casting::silent();
    casting.stdout = std::fs::File::create(&path).unwrap().into();
    casting.log = Some(path.clone());
    let mut stage = casting.start();
    let script = "echo start; while ! test -e go; do sleep 0.02; done; exit 3";
    let mut command = command(&["sh", "-c", script]);
    command.cwd = directory.path().into();
    stage.launch_command(command, None);
    let note = stage.until(|report| match report {
        KeeperReport::Note(text) => Some(text.clone()),
        _ => None,
    });
    assert!(
        note.contains("not logged") && note.contains("loop.output.log already exists"),
        "{note}"
    );
    std::fs::write(directory.path().join("go"), "").unwrap();
    assert_eq!(stage.outcome().exit, Some(Exit::Code(3)));
    stage.finish();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "start\n");
}

#[test]
fn the_users_own_pipe_holds_the_program_up_while_signals_go_on() {
    let (reading, writing) = pipe();
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    stage.launch_and_see(&["python3", "-c", &much(&mark)]);
    // Nobody reads: it must come to a halt, as it would without us. It has when two looks at what
    // it wrote are the same while there is more to write.
    let keeper = stage.keeper.pid();
    let mut before = 0;
    wait_for("the program to be held up", || {
        let read = std::fs::read_to_string(format!("/proc/{keeper}/io")).unwrap();
        let now = read
            .lines()
            .find_map(|l| l.strip_prefix("rchar: ")?.parse::<u64>().ok())?;
        std::thread::sleep(std::time::Duration::from_millis(50));
        // The keeper has read what the user's pipe holds.
        let same = now == before && now > 60_000;
        before = now;
        same.then_some(())
    });
    assert!(!mark.exists());
    stage.order(KeeperOrder::Forward(nix::libc::SIGTERM.into()));
    let mut file = std::fs::File::from(reading);
    // Its end is told although its output cannot be passed on yet; the output is not lost.
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        file.read_to_end(&mut all).map(|_| all)
    });
    let outcome = stage.outcome();
    assert_eq!(outcome.exit, Some(Exit::Signal(15)));
    stage.finish();
    let all = reader.join().unwrap().unwrap();
    assert_eq!(outcome.out.len() + outcome.missed as usize, all.len());
    assert!(all.len() < 2000 * 5000);
}

/// 49
#[test]
fn a_reader_that_goes_away_is_not_the_programs_end() {
    let (reading, writing) = pipe();
    drop(reading);
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    let directory = tempfile::tempdir().unwrap();
    let outcome = stage.run(&["python3", "-c", &much(&directory.path().join("mark"))]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    stage.finish();
}
