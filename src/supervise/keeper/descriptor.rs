//! File descriptors: reading, writing and querying them, with enums instead of error numbers; and what the
//! user's stdin, stdout and stderr are, and what the trainer gets in their place.
//!
//! As in sudo's `exec_pty.c` each stream is decided by itself: a terminal becomes a terminal, a pipe a pipe,
//! and a file is inherited, so that a full disk hits the trainer exactly as it would without oomph.

use crate::supervise::{Io, OutputStream, Size};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::libc;
use nix::sys::stat::{Mode, SFlag, fstat};
use std::ffi::CString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What a read has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The end, or (EIO, from a terminal) nobody on the other side.
    End,
}

pub(super) fn read(fd: impl AsFd, buffer: &mut [u8]) -> Got {
    match nix::unistd::read(fd, buffer) {
        Ok(0) => Got::End,
        Ok(n) => Got::Bytes(n),
        Err(Errno::EAGAIN | Errno::EINTR) => Got::Nothing,
        Err(_) => Got::End,
    }
}

/// What a write has achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Bytes(usize),
    /// Nothing for now.
    Full,
    /// Nothing ever again.
    Broken(Errno),
}

pub(super) fn write(fd: impl AsFd, bytes: &[u8]) -> Put {
    match nix::unistd::write(fd, bytes) {
        Ok(n) => Put::Bytes(n),
        Err(Errno::EAGAIN | Errno::EINTR) => Put::Full,
        Err(errno) => Put::Broken(errno),
    }
}

/// One of the three standard streams, which this process never closes.
pub(super) fn standard(number: i32) -> BorrowedFd<'static> {
    users(number.clamp(0, 2))
}

/// One of the three standard streams, or the user's controlling terminal.
pub(super) fn users(number: i32) -> BorrowedFd<'static> {
    // SAFETY: 0, 1 and 2 are open from the start (Rust's runtime sees to it) to the end, and so is the
    // terminal, if the front has given one.
    unsafe { BorrowedFd::borrow_raw(number.max(0)) }
}

/// Makes a descriptor of our own (never one shared with the user's processes) non-blocking.
pub(super) fn set_nonblocking(fd: impl AsFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

/// How many bytes can be read now.
pub(super) fn waiting(fd: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD fills an int that lives on this stack.
    let asked = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::FIONREAD, &mut bytes) };
    match asked {
        0 => usize::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

/// Keeps the trainer from inheriting a descriptor.
pub(super) fn set_cloexec(fd: impl AsFd) -> nix::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map(drop)
}

/// Reopens what `fd` refers to. The new open file description has flags and a position of its own, so
/// that we don't change those of the user's processes.
pub(super) fn reopen(fd: impl AsFd, flags: OFlag) -> nix::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    open(
        path.as_str(),
        flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY,
        Mode::empty(),
    )
}

/// A pipe, reading end first. The trainer inherits neither end.
pub(super) fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC)
}

/// What is ready of `events`, with what poll always tells: errors, a hang-up.
pub(super) fn ready(fd: impl AsFd, events: libc::c_short) -> libc::c_short {
    let mut entry = libc::pollfd {
        fd: fd.as_fd().as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: one entry, which lives on this stack; it doesn't wait.
    match unsafe { libc::poll(&mut entry, 1, 0) } {
        1.. => entry.revents,
        _ => 0,
    }
}

/// Becomes readable when one of `events` (inotify's) happens to what `fd` refers to.
pub(super) fn watch(fd: impl AsFd, events: u32) -> io::Result<OwnedFd> {
    let path = CString::new(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))?;
    // SAFETY: a new descriptor, and a path that outlives the call.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let watch = OwnedFd::from_raw_fd(fd);
        if libc::inotify_add_watch(fd, path.as_ptr(), events) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(watch)
    }
}

/// Whether the kernel tells that a pipe was read: tried on one of ours.
pub(super) fn tells_of_reads() -> bool {
    let Ok((reading, writing)) = pipe() else {
        return false;
    };
    let Ok(watch) = watch(&reading, libc::IN_ACCESS) else {
        return false;
    };
    let was_read =
        write(&writing, b"x") == Put::Bytes(1) && read(&reading, &mut [0; 1]) == Got::Bytes(1);
    was_read && ready(&watch, libc::POLLIN) & libc::POLLIN != 0
}

/// A counter that wakes a `poll`.
pub(super) fn event() -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor that nobody else owns.
    unsafe {
        match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Resets the counter.
pub(super) fn calm(event: impl AsFd) {
    let _ = nix::unistd::read(event, &mut [0; 8]);
}

/// What one of the user's standard streams is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserStream {
    /// A terminal, by its device number.
    Terminal(u64),
    /// A regular file.
    File {
        /// Device and inode.
        id: (u64, u64),
        /// Whether we can open it for reading.
        readable: bool,
    },
    /// A pipe or socket, by device and inode.
    Pipe((u64, u64)),
    /// `/dev/null` and everything else.
    Other,
}

/// What stream `number` (0, 1, 2) is.
pub(super) fn look(number: i32) -> UserStream {
    let fd = standard(number);
    let Ok(about) = fstat(fd) else {
        return UserStream::Other;
    };
    let id = (about.st_dev, about.st_ino);
    match SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFCHR if fd.is_terminal() => UserStream::Terminal(about.st_rdev),
        SFlag::S_IFREG => UserStream::File {
            id,
            readable: reopen(fd, OFlag::O_RDONLY).is_ok(),
        },
        SFlag::S_IFIFO | SFlag::S_IFSOCK => UserStream::Pipe(id),
        _ => UserStream::Other,
    }
}

/// What the trainer gets as one of its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// The user's own descriptor.
    Inherit,
    /// The user's own descriptor: a file that we follow.
    Follow(OutputStream),
    /// The pseudo-terminal.
    Terminal,
    /// A pipe that we copy to the user's descriptor. Both streams share one if the user's do
    /// (`2>&1 | tee`), to keep their order.
    Pipe(OutputStream),
}

/// What the trainer gets as its three streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StdioPlan {
    /// Inherited, or the pseudo-terminal.
    pub input: Route,
    pub out: Route,
    pub err: Route,
    /// The number of the user's stream that is a terminal, or else of the descriptor of the controlling
    /// terminal, where programs may ask something though no stream leads there.
    pub terminal: Option<i32>,
}

impl StdioPlan {
    /// Whether the trainer's own streams are on the pseudo-terminal, so that it can't do without.
    pub fn is_on_terminal(&self) -> bool {
        [self.input, self.out, self.err].contains(&Route::Terminal)
    }

    /// The plan if the system gives no pseudo-terminal. On our screen the trainer gets one pipe for both
    /// streams, to keep their order. Passed through it gets the user's own terminal, where its output
    /// belongs, although we don't see it then.
    pub fn without_terminal(self, io: Io) -> StdioPlan {
        let other = |way| match (way, io) {
            (Route::Terminal, Io::Screen) => Route::Pipe(OutputStream::Terminal),
            (Route::Terminal, Io::PassThrough) => Route::Inherit,
            (Route::Inherit | Route::Follow(_) | Route::Pipe(_), _) => way,
        };
        StdioPlan {
            input: Route::Inherit,
            out: other(self.out),
            err: other(self.err),
            terminal: None,
        }
    }
}

/// One pseudo-terminal serves every stream that is the user's terminal, or the `controlling` terminal if
/// none is; a second terminal (`2>/dev/pts/7`) is inherited.
pub(super) fn plan(
    input: UserStream,
    out: UserStream,
    err: UserStream,
    controlling: Option<i32>,
) -> StdioPlan {
    let numbered = [(1, out), (2, err), (0, input)];
    let main = numbered.iter().find_map(|(number, place)| match place {
        UserStream::Terminal(device) => Some((*number, *device)),
        UserStream::File { .. } | UserStream::Pipe(_) | UserStream::Other => None,
    });
    let terminal_or_inherit = |device| match main {
        Some((_, chosen)) if chosen == device => Route::Terminal,
        Some(_) | None => Route::Inherit,
    };
    let same = out == err;
    let way = |place, stream| match place {
        UserStream::Terminal(device) => terminal_or_inherit(device),
        UserStream::File { readable: true, .. } => Route::Follow(stream),
        UserStream::File {
            readable: false, ..
        }
        | UserStream::Pipe(_) => Route::Pipe(stream),
        UserStream::Other => Route::Inherit,
    };
    StdioPlan {
        input: match input {
            UserStream::Terminal(device) => terminal_or_inherit(device),
            UserStream::File { .. } | UserStream::Pipe(_) | UserStream::Other => Route::Inherit,
        },
        out: way(out, OutputStream::Out),
        err: way(
            err,
            if same {
                OutputStream::Out
            } else {
                OutputStream::Err
            },
        ),
        terminal: main.map(|(number, _)| number).or(controlling),
    }
}

/// The size of the terminal behind a stream; `None` if it is 0×0 or unknown.
pub(super) fn window_size(number: i32) -> Option<Size> {
    // SAFETY: TIOCGWINSZ fills a winsize that lives on this stack.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        if libc::ioctl(number, libc::TIOCGWINSZ, &mut size) != 0 {
            return None;
        }
        size
    };
    (size.ws_row > 0 && size.ws_col > 0).then(|| {
        Size {
            rows: size.ws_row,
            cols: size.ws_col,
            xpixel: size.ws_xpixel,
            ypixel: size.ws_ypixel,
        }
        .clamped()
    })
}

/// Gives up the user's descriptors except the standard streams in `kept`: the `inherited` ones beyond
/// those three are closed, the others and the `controlling` terminal become `/dev/null`.
pub(super) fn let_go(kept: &[i32], controlling: Option<i32>, inherited: &mut Vec<OwnedFd>) {
    inherited.clear();
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty());
    if let Ok(null) = null {
        let all = (0..3).chain(controlling);
        for number in all.filter(|number| !kept.contains(number)) {
            // SAFETY: both are open, and each of these stays open throughout.
            unsafe {
                libc::dup3(
                    null.as_raw_fd(),
                    number,
                    if number > 2 { libc::O_CLOEXEC } else { 0 },
                );
            }
        }
    }
}

/// The inherited descriptors beyond the three standard streams: all that are open before we open any,
/// except those that the front has given us.
pub(super) fn inherited(ours: &[RawFd]) -> Vec<OwnedFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers: Vec<RawFd> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2 && !ours.contains(number))
        .collect();
    numbers
        .into_iter()
        // SAFETY: checks that it is open (the directory's own isn't any more). Nothing else in this
        // process uses these descriptors.
        .filter(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } == 0)
        .map(|number| unsafe { OwnedFd::from_raw_fd(number) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTY: UserStream = UserStream::Terminal(1);
    const OTHER_TTY: UserStream = UserStream::Terminal(2);
    const PIPE: UserStream = UserStream::Pipe((1, 1));
    const PIPE2: UserStream = UserStream::Pipe((1, 2));
    const FILE: UserStream = UserStream::File {
        id: (1, 3),
        readable: true,
    };
    const BLIND: UserStream = UserStream::File {
        id: (1, 4),
        readable: false,
    };

    #[test]
    fn each_stream_gets_what_it_was() {
        use OutputStream::{Err, Out};
        use Route::{Follow, Inherit, Pipe, Terminal};
        for (input, out, err, ways, terminal) in [
            (TTY, TTY, TTY, (Terminal, Terminal, Terminal), Some(1)),
            (
                UserStream::Other,
                TTY,
                TTY,
                (Inherit, Terminal, Terminal),
                Some(1),
            ),
            (PIPE, TTY, PIPE2, (Inherit, Terminal, Pipe(Err)), Some(1)),
            (TTY, PIPE, TTY, (Terminal, Pipe(Out), Terminal), Some(2)),
            (TTY, PIPE, PIPE, (Terminal, Pipe(Out), Pipe(Out)), Some(0)),
            (PIPE, PIPE, PIPE2, (Inherit, Pipe(Out), Pipe(Err)), None),
            (PIPE, FILE, FILE, (Inherit, Follow(Out), Follow(Out)), None),
            (PIPE, FILE, BLIND, (Inherit, Follow(Out), Pipe(Err)), None),
            (
                FILE,
                UserStream::Other,
                PIPE,
                (Inherit, Inherit, Pipe(Err)),
                None,
            ),
            (TTY, TTY, OTHER_TTY, (Terminal, Terminal, Inherit), Some(1)),
        ] {
            let plan = super::plan(input, out, err, None);
            assert_eq!((plan.input, plan.out, plan.err), ways, "{out:?} {err:?}");
            assert_eq!(plan.terminal, terminal);
            let with = super::plan(input, out, err, Some(7));
            assert_eq!((with.input, with.out, with.err), ways);
            assert_eq!(with.terminal, terminal.or(Some(7)));
            assert_eq!(with.is_on_terminal(), terminal.is_some());
        }
    }

    #[test]
    fn without_a_terminal_nothing_is_lost_and_the_order_is_kept() {
        let screen = plan(TTY, TTY, TTY, None).without_terminal(Io::Screen);
        assert_eq!(screen.out, Route::Pipe(OutputStream::Terminal));
        assert_eq!(screen.err, Route::Pipe(OutputStream::Terminal));
        assert!(screen.terminal.is_none());
        let through = plan(TTY, TTY, PIPE, None).without_terminal(Io::PassThrough);
        assert_eq!(through.out, Route::Inherit);
        assert_eq!(through.err, Route::Pipe(OutputStream::Err));
    }
}
