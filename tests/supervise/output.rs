//! What the trainer writes, and where it arrives: unchanged, in order, to the last byte.

use crate::supervise::stage::*;
use oomph::event::Exit;
use oomph::supervise::{Io, KeeperOrder, KeeperReport};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of every kind: control characters, no UTF-8, NUL, lines.
const EVERY_BYTE: &str = "import os\nos.write(1, bytes(range(256)) * 5)\n";

fn every_byte() -> Vec<u8> {
    (0..=255u8).collect::<Vec<u8>>().repeat(5)
}

fn collected_pipe() -> (Collected, OwnedFd) {
    let (reading, writing) = pipe();
    (Collected::from(reading), writing)
}

#[test]
fn a_terminal_on_our_screen() {
    let terminal = UsersTerminal::open();
    let seen = Collected::from(terminal.master.try_clone().unwrap());
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    let outcome = stage.run(&[
        "sh",
        "-c",
        "test -t 0 -a -t 1 -a -t 2 && stty size && echo err >&2",
    ]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    assert_eq!(outcome.terminal, b"24 80\r\nerr\r\n");
    stage.finish();
    assert_eq!(seen.so_far(), b"", "nothing on the user's own terminal");
}

#[test]
fn a_terminal_passed_through_shows_what_it_would_show_without_us() {
    let without = UsersTerminal::open();
    let expected = Collected::from(without.master);
    let mut bare = Command::new("python3");
    bare.args(["-c", EVERY_BYTE]);
    bare.stdout(without.slave.try_clone().unwrap());
    assert!(bare.status().unwrap().success());
    drop((bare, without.slave));

    let terminal = UsersTerminal::open();
    let seen = Collected::from(terminal.master.try_clone().unwrap());
    let mut stage = Casting::on(&terminal, Io::PassThrough).start();
    let outcome = stage.run(&["python3", "-c", EVERY_BYTE]);
    assert_eq!(outcome.terminal, every_byte(), "the front's copy");
    stage.finish();
    drop(terminal);
    assert_eq!(seen.to_the_end(), expected.to_the_end());
}

#[test]
fn a_pipe_gets_every_byte_unchanged() {
    let (seen, writing) = collected_pipe();
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    let outcome = stage.run(&["python3", "-c", EVERY_BYTE]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    assert_eq!(outcome.out, every_byte());
    stage.finish();
    assert_eq!(seen.to_the_end(), every_byte());
}

#[test]
fn one_pipe_for_both_streams_keeps_their_order() {
    let (seen, writing) = collected_pipe();
    let mut casting = Casting::silent();
    casting.stdout = writing.try_clone().unwrap().into();
    casting.stderr = writing.into();
    let mut stage = casting.start();
    let outcome = stage.run(&[
        "python3",
        "-c",
        "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)",
    ]);
    let expected: String = (0..2000).map(|n| format!("{n}\n")).collect();
    assert_eq!(String::from_utf8(outcome.out).unwrap(), expected);
    stage.finish();
    assert_eq!(seen.to_the_end(), expected.as_bytes());
}

#[test]
fn a_terminal_and_a_pipe_stay_apart() {
    let terminal = UsersTerminal::open();
    let (seen, writing) = collected_pipe();
    let mut casting = Casting::on(&terminal, Io::Screen);
    casting.stderr = writing.into();
    let mut stage = casting.start();
    let outcome = stage.run(&["sh", "-c", "echo out; echo err >&2; test ! -t 2"]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    assert_eq!(outcome.terminal, b"out\r\n");
    assert_eq!(outcome.err, b"err\n");
    stage.finish();
    assert_eq!(seen.to_the_end(), b"err\n");
}

#[test]
fn a_file_is_handed_down_and_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.txt");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"before\n").unwrap();
    let mut casting = Casting::silent();
    casting.stdout = file.try_clone().unwrap().into();
    casting.stderr = file.into();
    casting.log = Some(directory.path().join("output.log"));
    let mut stage = casting.start();
    // What /proc says of stdout is the file itself, not something of ours.
    let outcome = stage.run(&["sh", "-c", "readlink /proc/self/fd/1; echo err >&2"]);
    let written = format!("{}\nerr\n", path.display());
    assert_eq!(String::from_utf8(outcome.out).unwrap(), written);
    stage.finish();
    let log = std::fs::read_to_string(directory.path().join("output.log")).unwrap();
    assert_eq!(log, written);
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole, format!("before\n{written}"));
}

#[test]
fn a_file_is_followed_while_the_program_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.txt");
    let mut casting = Casting::silent();
    casting.stdout = File::create(&path).unwrap().into();
    let mut stage = casting.start();
    stage.launch(&["sh", "-c", "echo step 1; exec sleep 600"]);
    let seen = stage.until(|report| match report {
        KeeperReport::Output { bytes, .. } => Some(bytes.clone()),
        _ => None,
    });
    assert_eq!(seen, b"step 1\n");
    stage.order(KeeperOrder::Kill);
    stage.finish();
}

#[test]
fn dev_null_is_handed_down() {
    let mut stage = Casting::silent().start();
    let outcome = stage.run(&["sh", "-c", "test /proc/$$/fd/1 -ef /dev/null"]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    stage.finish();
}

/// 14: the test that found a race in `script`.
#[test]
fn a_thousand_bingos() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    for _ in 0..1000 {
        assert_eq!(stage.run(&["printf", "Bingo"]).terminal, b"Bingo");
    }
    stage.finish();
}

/// 15
#[test]
fn what_was_written_before_a_sudden_end_is_all_there() {
    let directory = tempfile::tempdir().unwrap();
    for (name, end) in [("exit", "os._exit(3)"), ("kill", "os.kill(os.getpid(), 9)")] {
        let script =
            format!("import os\nfor n in range(1000): os.write(1, b'%099d\\n' % n)\n{end}");
        let lines: Vec<u8> = (0..1000)
            .flat_map(|n| format!("{n:099}\n").into_bytes())
            .collect();
        let on_a_terminal: Vec<u8> = (0..1000)
            .flat_map(|n| format!("{n:099}\r\n").into_bytes())
            .collect();
        let log = directory.path().join(name);
        let terminal = UsersTerminal::open();
        let mut casting = Casting::on(&terminal, Io::Screen);
        casting.log = Some(log.clone());
        let mut stage = casting.start();
        let outcome = stage.run(&["python3", "-c", &script]);
        assert!(outcome.terminal == on_a_terminal, "{name}, on a terminal");
        stage.finish();
        assert!(std::fs::read(&log).unwrap() == lines, "{name}, in the log");

        let (seen, writing) = collected_pipe();
        let mut casting = Casting::silent();
        casting.stdout = writing.into();
        let mut stage = casting.start();
        let outcome = stage.run(&["python3", "-c", &script]);
        assert!(outcome.out == lines, "{name}, through a pipe");
        stage.finish();
        assert!(seen.to_the_end() == lines, "{name}, at the user's");
    }
}

/// 16
#[test]
fn python_does_not_keep_its_last_words_from_a_pipe() {
    let (_seen, writing) = collected_pipe();
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    let outcome = stage.run(&[
        "python3",
        "-c",
        "import os\nprint('last words')\nos.kill(os.getpid(), 9)",
    ]);
    assert_eq!(outcome.exit, Some(Exit::Signal(9)));
    assert_eq!(outcome.out, b"last words\n");
    stage.finish();
}

/// 12
#[test]
fn a_program_that_closes_its_streams_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    let script = format!(
        "echo first; exec >&- 2>&- <&-; sleep 0.3; exec >/dev/tty; echo second; echo done > {}; exit 5",
        mark.display()
    );
    let outcome = stage.run(&["sh", "-c", &script]);
    assert_eq!(outcome.exit, Some(Exit::Code(5)));
    assert_eq!(outcome.terminal, b"first\r\nsecond\r\n");
    assert_eq!(content_of(&mark), "done\n");
    stage.finish();
}

/// 13
#[test]
fn who_still_holds_the_terminal_is_named_and_served_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (log, go) = (directory.path().join("log"), directory.path().join("go"));
    let terminal = UsersTerminal::open();
    let mut casting = Casting::on(&terminal, Io::Screen);
    casting.log = Some(log.clone());
    let mut stage = casting.start();
    let script = format!(
        "(while ! test -e {}; do sleep 0.05; done; echo late) & echo early",
        go.display()
    );
    let began = Instant::now();
    let outcome = stage.run(&["sh", "-c", &script]);
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(5),
        "the end was told after {took:?}"
    );
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    assert_eq!(outcome.terminal, b"early\r\n");
    // The subshell, and the sleep below it at most times.
    assert!(!outcome.left.is_empty(), "the holder is named");
    stage.order(KeeperOrder::Finish);
    stage.until(|report| matches!(report, KeeperReport::Finished).then_some(()));
    assert_eq!(stage.next(), None, "the front is let go at once");
    let keeper = stage.keeper.pid();
    assert!(lives(keeper.0), "the keeper stays for who is left");
    assert!(
        outcome.left.iter().any(|pid| lives(pid.0)),
        "nobody was hung up"
    );
    File::create(go).unwrap();
    wait_until_gone(keeper);
    assert_eq!(std::fs::read(&log).unwrap(), b"early\nlate\n");
}

#[test]
fn the_users_pipe_ends_with_the_program_and_not_with_us() {
    let (seen, writing) = collected_pipe();
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    // A daemon that left all streams alone must not keep the reader of the pipe waiting.
    stage.run(&[
        "sh",
        "-c",
        "echo x; sleep 600 >/dev/null 2>&1 & echo $! >&2",
    ]);
    stage.order(KeeperOrder::Stop);
    assert_eq!(stage.swept(), []);
    stage.finish();
    assert_eq!(seen.to_the_end(), b"x\n");
}

/// 62, in part
#[test]
fn the_trainer_gets_the_users_descriptors_and_none_of_ours() {
    let directory = tempfile::tempdir().unwrap();
    let (seen, writing) = collected_pipe();
    let path = directory.path().join("seven");
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    casting.log = Some(directory.path().join("log"));
    casting.before = Some(format!("exec 7>{}", path.display()));
    let mut stage = casting.start();
    let list = "import os\nos.write(7, b'seven')\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd')))";
    let outcome = stage.run(&["python3", "-c", list]);
    // The tests' own caller may have left some open; without us there would be the same.
    let mut bare = Command::new("sh");
    bare.args(["-c", "exec 7>/dev/null; exec python3 -c \"$0\"", list]);
    let expected = bare.stdin(std::process::Stdio::null()).output().unwrap();
    assert!(expected.stdout.starts_with(b"[0, 1, 2, "));
    assert_eq!(
        String::from_utf8(outcome.out),
        String::from_utf8(expected.stdout)
    );
    stage.finish();
    drop(seen);
    assert_eq!(std::fs::read(path).unwrap(), b"seven");
}
