//! Reads keys in a thread, and detects that the terminal is gone.
//!
//! crossterm's poll never returns once the terminal is gone, and burns a core (crossterm #793).
//! So the thread waits for the terminal itself and calls crossterm only when there is something to
//! read. A hang-up is reported to the loop and ends the thread.

use crossterm::event::Event as TerminalEvent;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;
use tokio::sync::mpsc;

#[derive(Debug)]
pub(crate) enum Typed {
    /// A key, a paste, the mouse.
    Event(TerminalEvent),
    /// The terminal is gone.
    HungUp,
}

/// The capacity of the queue; a paste is one event.
const QUEUE: usize = 256;

/// Starts two threads: one reads keys, one waits for the hang-up. They end with the terminal or the
/// process.
pub(crate) fn watch() -> io::Result<mpsc::Receiver<Typed>> {
    let terminal = terminal_fd()?;
    let watched = terminal.try_clone()?;
    let from_stdin = io::stdin().is_terminal();
    let (sender, receiver) = mpsc::channel(QUEUE);
    let told = sender.clone();
    std::thread::Builder::new()
        .name("hang-up".into())
        .spawn(move || {
            wait_for_hang_up(&watched);
            park_reader(from_stdin);
            let _ = told.blocking_send(Typed::HungUp);
        })?;
    std::thread::Builder::new()
        .name("keyboard".into())
        .spawn(move || read_keys(&terminal, &sender))?;
    Ok(receiver)
}

/// Returns when the terminal is gone: only that wakes a poll without events.
fn wait_for_hang_up(terminal: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return,
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// After half an escape sequence, crossterm polls a dead terminal for the rest forever, in a call that
/// doesn't return. Replaces the terminal by an empty pipe, where its read sleeps until the process
/// ends.
fn park_reader(from_stdin: bool) {
    let Ok((empty, writer)) = nix::unistd::pipe() else {
        return;
    };
    // Stays open: closing it would be an end of file.
    std::mem::forget(writer);
    if from_stdin {
        let _ = nix::unistd::dup2_stdin(&empty);
        return;
    }
    let opened = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    for entry in opened.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let is_terminal =
            std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "/dev/tty");
        if let (Some(number), true) = (number, is_terminal) {
            // SAFETY: the number was open a moment ago, as crossterm's or our own clone of
            // `/dev/tty`; both are of no use any more, and neither is closed while we run.
            let mut of_crossterm =
                std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            let _ = nix::unistd::dup2(&empty, &mut of_crossterm);
        }
    }
}

/// The terminal that crossterm reads: standard input if it is one, otherwise `/dev/tty`.
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
