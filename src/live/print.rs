//! All that oomph itself prints goes through here: it may contain text from arguments, recordings, file
//! names and settings, which must not reach the terminal as escape sequences. The training's own bytes
//! are passed on elsewhere, unchanged.

use super::Ending;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// Controls, including C1, and marks that change the direction of text.
fn is_active(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes such characters as JSON does, so that JSON stays JSON; newlines stay.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    spelled(text, |c| is_active(c) && c != '\n')
}

/// Escapes them in a single line: newlines too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    spelled(text, is_active)
}

fn spelled(text: &str, is_spelled: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_spelled) {
        return text.into();
    }
    let mut whole = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_spelled(c) => whole.push(c),
            '\n' => whole.push_str("\\n"),
            '\r' => whole.push_str("\\r"),
            '\t' => whole.push_str("\\t"),
            c => whole.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    whole.into()
}

/// Escapes everything that is written to it.
pub(crate) struct Printer<W>(W);

impl<W: Write> Write for Printer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .write_all(text(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Standard output, for our own words. Who closes it (`| head`) has read enough: the rest is dropped
/// without a word.
pub(crate) fn out() -> Printer<impl Write> {
    Printer(UntilClosed(io::stdout().lock()))
}

/// Takes everything even after its reader is gone.
struct UntilClosed<W>(W);

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

pub(crate) fn err() -> Printer<impl Write> {
    Printer(io::stderr().lock())
}

/// Passes an alert to the terminal on standard error, if there is one that takes it at once.
pub(crate) fn alert(bytes: &[u8]) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut stderr = io::stderr().lock();
    let mut fds = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let is_ready = poll(&mut fds, PollTimeout::ZERO)
        .is_ok_and(|_| fds[0].revents() == Some(PollFlags::POLLOUT));
    if is_ready && stderr.is_terminal() {
        let _ = stderr.write_all(bytes);
    }
}

/// Where a reader reads nothing, and a write would wait for it, nothing more is printed: the session was
/// asked to end, and that time is over.
pub(super) fn give_up_stuck_readers() {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let Ok(null) = std::fs::File::options().write(true).open("/dev/null") else {
        return;
    };
    let (stdout, stderr) = (io::stdout().lock(), io::stderr().lock());
    let is_stuck = |fd| {
        let mut fds = [PollFd::new(fd, PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready == 0)
    };
    if is_stuck(stdout.as_fd()) {
        let _ = nix::unistd::dup2_stdout(&null);
    }
    if is_stuck(stderr.as_fd()) {
        let _ = nix::unistd::dup2_stderr(&null);
    }
}

/// Prints a line on standard error, marked as oomph's; errors are ignored.
pub fn complain(words: &str) {
    let _ = writeln!(err(), "oomph: {}", line(words));
}

pub(crate) fn tell(words: &str) {
    let _ = writeln!(out(), "{}", line(words));
}

/// Prints a line on standard error that another program reads there: without our name in front.
pub(crate) fn aside(words: &str) {
    let _ = writeln!(err(), "{}", line(words));
}

/// Prints a text of ours that holds nothing of others', as it is. A reader that has closed the pipe has read enough.
pub(crate) fn page(text: &str) -> anyhow::Result<Ending> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(Ending::Code(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b]52;c;eA==\x07b\rc\u{9b}31md\u{202e}e\x7f";

    #[test]
    fn nothing_reaches_the_terminal_as_a_command() {
        let mut written = Vec::new();
        writeln!(Printer(&mut written), "{HOSTILE}\nü 漢").unwrap();
        let written = String::from_utf8(written).unwrap();
        assert!(!written.contains(|c: char| is_active(c) && c != '\n'));
        assert_eq!(written.lines().count(), 2, "{written}");
        assert!(written.ends_with("\nü 漢\n"), "{written}");
        assert_eq!(line("a\nb\r\u{1b}[2J"), "a\\nb\\r\\u001b[2J");
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut out = Printer(UntilClosed(writer));
        writeln!(out, "unread").unwrap();
        out.flush().unwrap();
    }

    #[test]
    fn json_stays_json() {
        let json = serde_json::to_string(&[HOSTILE]).unwrap();
        let back: Vec<String> = serde_json::from_str(&text(&json)).unwrap();
        assert_eq!(back, [HOSTILE]);
    }
}
