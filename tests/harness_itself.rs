//! The tests' own terminal and eyes (`harness`), tried on programs whose behaviour is known: `sh -c`.

use crate::harness::{Key, Marker, PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal;
use oomph::event::Exit;
use oomph::units::Bytes;
use std::time::{Duration, Instant};

fn sh(script: &str) -> Terminal {
    Terminal::spawn(&["sh", "-c", script], &[], 24, 80)
}

#[test]
fn text_after_a_key_is_seen() {
    let mut terminal = sh("printf 'name? '; read name; echo \"hello, $name\"; exit 3");
    terminal.wait_for("name?", PATIENCE);
    terminal.press("Ada");
    terminal.press(Key::Enter);
    terminal.wait_for("hello, Ada", PATIENCE);
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(3));
    assert_eq!(terminal.left_behind(), [""; 0]);
}

#[test]
fn the_last_words_of_a_program_are_on_the_screen_when_it_has_ended() {
    for i in 0..20 {
        let mut terminal = sh(&format!("seq 1 {}; printf last-{i}", 2_000 + i));
        terminal.exit(PATIENCE);
        assert!(terminal.screen().ends_with(&format!("last-{i}")));
    }
}

#[test]
fn a_closure_sees_the_whole_screen() {
    let mut terminal = sh("echo one; echo two; sleep 100");
    let screen = terminal.wait_for(|screen: &str| screen.lines().count() == 2, PATIENCE);
    assert_eq!(screen, "one\ntwo");
}

#[test]
fn a_frame_is_seen_whole_or_not_at_all() {
    let mut terminal = sh(
        "printf 'old'; printf '\\033[?2026h\\r'; printf new; read go; printf er; \\
         printf '\\033[?2026l'; read go; printf '\\033[?2026h!'",
    );
    terminal.wait_for("old", PATIENCE);
    wait_until("half a frame", PATIENCE, || {
        terminal.raw().ends_with(b"new")
    });
    assert_eq!(terminal.screen(), "old");
    terminal.press(Key::Enter);
    terminal.wait_for("new\ner", PATIENCE);
    terminal.press(Key::Enter);
    // Nothing more comes, so the rest is shown.
    terminal.exit(PATIENCE);
    assert!(terminal.screen().contains('!'), "{}", terminal.screen());
}

#[test]
fn a_frame_may_be_cut_anywhere() {
    let bytes = b"a\x1b[?2026hb\x1b[?2026lc\x1b[?2026hd\x1b[?2026le\x1b[1m\x1b";
    for cut in 0..bytes.len() {
        let mut frames = crate::harness::frames::Frames::default();
        let mut shown = frames.whole(&bytes[..cut]);
        let halves = shown.iter().filter(|byte| b"bd".contains(byte)).count();
        let ends = shown.windows(8).filter(|at| at == b"\x1b[?2026l").count();
        assert_eq!(halves, ends, "cut at {cut}: {}", shown.escape_ascii());
        shown.extend(frames.whole(&bytes[cut..]));
        shown.extend(frames.rest());
        assert_eq!(shown, bytes);
    }
}

#[test]
fn what_does_not_come_fails_with_a_post_mortem() {
    let fails = |script: &str, patience: Duration| {
        let mut terminal = sh(script);
        let wait = std::panic::AssertUnwindSafe(|| terminal.wait_for("treasure", patience));
        let panic = std::panic::catch_unwind(wait).unwrap_err();
        *panic.downcast::<String>().unwrap()
    };
    let message = fails("echo only this; exit 4", PATIENCE);
    assert!(
        message.contains("\"treasure\" did not come; the program: exit 4"),
        "{message}"
    );
    assert!(
        message.contains("only this") && message.contains("bytes: only this"),
        "{message}"
    );
    let message = fails("sleep 100", Duration::from_millis(50));
    assert!(message.contains("the program: runs"), "{message}");
}

#[test]
fn the_terminal_is_the_programs_own_and_has_a_size() {
    let mut terminal = sh("tty; stty size; echo $TERM; ps -o tpgid= -p $$ >/dev/null; sleep 100");
    terminal.wait_for("/dev/pts/", PATIENCE);
    terminal.wait_for("24 80\nxterm-256color", PATIENCE);
}

#[test]
fn a_resize_reaches_program_and_emulator() {
    let mut terminal = sh("trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done");
    terminal.wait_for("ready", PATIENCE);
    terminal.resize(45, 140);
    terminal.wait_for("45 140", PATIENCE);
    let (rows, cols) = terminal.with_screen(vt100::Screen::size);
    assert_eq!((rows.get(), cols.get()), (45, 140));
}

#[test]
fn a_hangup_is_one() {
    let mut terminal = sh("echo ready; sleep 100");
    terminal.wait_for("ready", PATIENCE);
    terminal.close();
    assert_eq!(terminal.exit(PATIENCE), Exit::Signal(Signal::SIGHUP as i32));
}

#[test]
fn control_c_interrupts_once() {
    let mut terminal = sh("trap 'echo caught' INT; echo ready; while :; do sleep 0.01; done");
    terminal.wait_for("ready", PATIENCE);
    terminal.press(Key::Ctrl('c'));
    let screen = terminal.wait_for("caught", PATIENCE);
    assert_eq!(screen.matches("caught").count(), 1);
}

#[test]
fn what_a_program_leaves_behind_is_named() {
    let mut terminal = sh(
        "stty -echo; printf '\\033[?1049h\\033[?25l\\033[?1000h\\033[?2004h\\033[?2026h'; sleep 100",
    );
    wait_until("all of it", PATIENCE, || terminal.left_behind().len() == 6);
    let left = terminal.left_behind();
    for what in [
        "termios",
        "alternate",
        "cursor",
        "mouse",
        "paste",
        "synchronized",
    ] {
        assert!(
            left.iter().any(|name| name.contains(what)),
            "{what}: {left:?}"
        );
    }
    assert!(terminal.settings() != *terminal.settings_before());
    processes::signal(terminal.pid(), Signal::SIGKILL);
    assert_eq!(terminal.exit(PATIENCE), Exit::Signal(9));
    assert_eq!(
        terminal.left_behind().len(),
        6,
        "still to be seen when it is gone"
    );
}

#[test]
fn every_byte_is_kept() {
    let mut terminal = sh("printf 'a\\tb\\033[31mc\\033[0m'");
    terminal.exit(PATIENCE);
    assert_eq!(terminal.raw(), b"a\tb\x1b[31mc\x1b[0m");
    let red = terminal.with_screen(|screen| screen.cell(0, 9).map(vt100::Cell::fgcolor));
    assert_eq!(red, Some(vt100::Color::Idx(1)));
}

#[test]
fn a_program_that_writes_without_end_is_drained() {
    let mut terminal = sh("yes | head -c 500000; echo; echo done");
    terminal.wait_for("done", PATIENCE);
}

#[test]
fn descendants_in_sessions_of_their_own_are_found_and_do_not_outlive_the_test() {
    let mut terminal = sh("setsid sh -c 'sleep 1000 & sleep 1001' & echo started; sleep 1002");
    terminal.wait_for("started", PATIENCE);
    let marker = terminal.marker().clone();
    wait_until("three sleepers", PATIENCE, || {
        [1000, 1001, 1002]
            .iter()
            .all(|seconds| marker.find(&format!("sleep {seconds}")).is_some())
    });
    assert_eq!(Marker::unique().processes(), []);
    drop(terminal);
    assert_eq!(marker.processes(), []);
}

#[test]
fn the_cost_of_a_process_is_seen() {
    let mut terminal = sh("echo ready; while :; do :; done");
    terminal.wait_for("ready", PATIENCE);
    let pid = terminal.pid();
    let before = processes::cpu_ticks(pid);
    wait_until("it used the processor", PATIENCE, || {
        processes::cpu_ticks(pid) > before + 3
    });
    let resident = processes::resident(pid).unwrap();
    assert!(
        resident > Bytes(100_000) && resident < Bytes::mib(50),
        "{resident}"
    );
    assert!(processes::is_alive(pid));
    assert_eq!(
        processes::parent(pid).map(|pid| pid.as_raw()),
        Some(std::process::id() as i32)
    );
    processes::signal(pid, Signal::SIGKILL);
    wait_until("it is dead", PATIENCE, || !processes::is_alive(pid));
    assert!(processes::zombies_of(nix::unistd::getpid()).contains(&pid));
    assert_eq!(terminal.exit(PATIENCE), Exit::Signal(9));
    assert_eq!(processes::state(pid), None);
}

#[test]
fn waiting_in_vain_ends() {
    let before = Instant::now();
    let wait = || wait_until("pigs fly", Duration::from_millis(30), || false);
    let panic = std::panic::catch_unwind(wait).unwrap_err();
    assert!(panic.downcast::<String>().unwrap().contains("pigs fly"));
    assert!(before.elapsed() < PATIENCE);
}
