//! What the trainer writes, and where it arrives.

use crate::stage::*;
use oomph::event::Exit;
use oomph::supervise::Io;

/// Bytes of every kind: control characters, no UTF-8, NUL, split lines.
const EVERY_BYTE: &str = "import os\nos.write(1, bytes(range(256)) * 5)\n";

fn every_byte() -> Vec<u8> {
    (0..=255u8).collect::<Vec<u8>>().repeat(5)
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
    assert_eq!(
        seen.so_far(),
        b"",
        "nothing is written to the user's terminal"
    );
}

#[test]
fn a_pipe_gets_every_byte_unchanged() {
    let (reading, writing) = nix::unistd::pipe().unwrap();
    let seen = Collected::from(reading);
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    let outcome = stage.run(&["python3", "-c", EVERY_BYTE]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    assert_eq!(outcome.out, every_byte());
    stage.finish();
    assert_eq!(seen.to_the_end(), every_byte());
}
