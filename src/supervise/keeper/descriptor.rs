//! Reading, writing and querying file descriptors, with enums instead of error numbers.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::libc;
use nix::sys::stat::Mode;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
