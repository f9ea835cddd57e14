//! One of the user's own streams, written to in the background.
//!
//! The user's descriptors are shared with other processes, so they must not be made non-blocking; a
//! thread blocks instead. Nothing is dropped: when the queue is full the source is no longer read,
//! and the trainer feels the same back-pressure as without oomph. If the reader is gone
//! (`oomph … | head -1`), the rest is discarded.

use super::descriptor::{self, Put};
use crate::background::{BackgroundWriter, Destination, OverflowPolicy, WriteFailure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most that waits to be written.
const CAPACITY: usize = 128 << 10;

/// `wake` is notified when there is room again, or when everything is written.
pub(super) fn start(to: BorrowedFd<'static>, wake: OwnedFd) -> io::Result<BackgroundWriter> {
    BackgroundWriter::start(
        "oomph-writer",
        CAPACITY,
        OverflowPolicy::Block { wake },
        StreamDestination(to),
    )
}

struct StreamDestination(BorrowedFd<'static>);

impl Destination for StreamDestination {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        write_until(self.0, bytes, None).map_err(|error| WriteFailure {
            written: 0,
            error,
            for_good: true,
        })
    }
}

/// Writes what a terminal takes within `limit`.
pub(super) fn write_within(to: BorrowedFd<'_>, bytes: &[u8], limit: Duration) {
    let _ = write_until(to, bytes, Some(Instant::now() + limit));
}

/// Writes everything, however long that takes where there is no deadline.
fn write_until(to: BorrowedFd<'_>, mut bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
    while !bytes.is_empty() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        match descriptor::write(to, bytes) {
            Put::Bytes(n) => bytes = bytes.get(n..).unwrap_or_default(),
            // Another process made the user's stream non-blocking, so wait in poll; its limit is for
            // a poll that never returns.
            Put::Full => {
                let mut wait = [PollFd::new(to, PollFlags::POLLOUT)];
                let _ = poll(&mut wait, PollTimeout::from(50u16));
            }
            Put::Broken(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
