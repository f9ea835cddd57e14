//! Keys, from a thread of their own, and the end of the terminal.
//!
//! crossterm's poll never returns once the terminal is gone, and burns a core (crossterm #793).
//! So this thread waits on the terminal itself and calls crossterm only when something is there to
//! be read; a hang-up is told to the loop and ends the thread.

use crossterm::event::Event as TerminalEvent;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::sync::mpsc;

/// What the keyboard's thread says.
#[derive(Debug)]
pub enum Typed {
    /// A key, a paste, the mouse.
    Event(TerminalEvent),
    /// The terminal is gone.
    HungUp,
}

/// Keys that wait to be handled; a person types fewer, a paste is one event.
const QUEUE: usize = 256;

/// Starts the thread. It ends with the terminal, or with the process.
pub fn watch() -> io::Result<mpsc::Receiver<Typed>> {
    let terminal = terminal_fd()?;
    let (sender, receiver) = mpsc::channel(QUEUE);
    std::thread::Builder::new()
        .name("keyboard".into())
        .spawn(move || read_keys(&terminal, &sender))?;
    Ok(receiver)
}

/// The descriptor that crossterm reads as well: standard input where it is a terminal, else
/// `/dev/tty`.
fn terminal_fd() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        stdin.as_fd().try_clone_to_owned()
    } else {
        Ok(File::open("/dev/tty")?.into())
    }
}

fn read_keys(terminal: &OwnedFd, sender: &mpsc::Sender<Typed>) {
    loop {
        let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => break,
            Ok(_) => {}
        }
        let seen = fds[0].revents().unwrap_or(PollFlags::POLLHUP);
        if seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            break;
        }
        while let Ok(true) = crossterm::event::poll(Duration::ZERO) {
            match crossterm::event::read() {
                Ok(event) => {
                    if sender.blocking_send(Typed::Event(event)).is_err() {
                        return;
                    }
                }
                Err(_) => break,
            }
        }
    }
    let _ = sender.blocking_send(Typed::HungUp);
}
