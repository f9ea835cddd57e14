//! One probe's connection, from its hello to its end.

use super::request::RequestReceiver;
use crate::collect::line;
use crate::event::{Clock, Dropped, Event, EventKind, ProbeGone};
use crate::units::Pid;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

/// The maximum length of a line. The longest of the probe is an OOM record with stacks: tens of
/// kilobytes.
pub(super) const LONGEST_LINE: usize = 1 << 20;

/// The size of a read. A second of samples and steps is about ten kilobytes.
const READ: usize = 16 << 10;

/// How long a request may wait for a probe to read the ones before.
const WRITE: Duration = Duration::from_millis(200);

/// Why a connection is no longer read.
enum ConnectionEnd {
    /// The probe closed it, or its process ended.
    Closed,
    /// It broke, with the system's message.
    Broken(String),
    /// It sent something other than an event, and what was wrong with that.
    Malformed(&'static str),
    /// The receiver of events is gone.
    NobodyListens,
}

/// Reads a connection to its end. `peer_pid` is 0 if the kernel has no PID for the peer here.
pub(super) async fn follow(
    mut stream: UnixStream,
    peer_pid: i32,
    clock: Clock,
    requests: RequestReceiver,
    sender: Sender<Event>,
    hello_within: Duration,
) {
    let mut connection = Connection {
        peer: (peer_pid > 0).then_some(Pid(peer_pid)),
        greeted: None,
        lost_samples: 0,
        clock,
        requests,
        sender,
    };
    let end = connection.read_to_end(&mut stream, hello_within).await;
    // Closed first, so that a peer that never stops sending notices.
    drop(stream);
    connection.finish(end).await;
}

/// What a connection waits for.
enum Arrived {
    Bytes(std::io::Result<usize>),
    /// No hello in time.
    Nothing,
    /// A line that the probe is to get.
    Request(Vec<u8>),
}

struct Connection {
    /// The process as reported by the kernel.
    peer: Option<Pid>,
    /// The process that said hello.
    greeted: Option<Pid>,
    /// Dropped samples that have not been reported yet.
    lost_samples: u64,
    clock: Clock,
    requests: RequestReceiver,
    sender: Sender<Event>,
}

impl Connection {
    async fn read_to_end(
        &mut self,
        stream: &mut UnixStream,
        hello_within: Duration,
    ) -> ConnectionEnd {
        let mut unread = Vec::new();
        let mut searched = 0;
        let hello_until = Instant::now() + hello_within;
        loop {
            unread.reserve(READ);
            let greeted = self.greeted;
            let arrived = tokio::select! {
                read = stream.read_buf(&mut unread) => Arrived::Bytes(read),
                () = tokio::time::sleep_until(hello_until), if greeted.is_none() => Arrived::Nothing,
                request = self.requests.next(greeted), if greeted.is_some() => Arrived::Request(request),
            };
            let read = match arrived {
                Arrived::Bytes(read) => read,
                Arrived::Nothing => return ConnectionEnd::Malformed("did not say hello"),
                Arrived::Request(line) => {
                    // A probe that does not read has nothing to answer; its lines still count.
                    let _ = tokio::time::timeout(WRITE, stream.write_all(&line)).await;
                    continue;
                }
            };
            match read {
                Ok(0) if unread.is_empty() => return ConnectionEnd::Closed,
                Ok(0) => return ConnectionEnd::Malformed("stopped in the middle of a line"),
                Ok(_) => {}
                Err(error) => return ConnectionEnd::Broken(error.to_string()),
            }
            let mut start = 0;
            while let Some(found) = memchr::memchr(b'\n', &unread[searched..]) {
                let end = searched + found;
                if let Err(end) = self.take(&unread[start..end]).await {
                    return end;
                }
                (start, searched) = (end + 1, end + 1);
            }
            unread.drain(..start);
            searched = unread.len();
            if searched > LONGEST_LINE {
                return ConnectionEnd::Malformed("sent a line that is too long");
            }
        }
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        let Some(event) = line::read(bytes, self.peer, |ns| self.clock.at_monotonic_ns(ns)) else {
            return Err(ConnectionEnd::Malformed("sent a line that is not an event"));
        };
        match (&event.what, self.greeted) {
            (EventKind::Hello(hello), None) => self.greeted = Some(hello.pid),
            (EventKind::Hello(_), Some(_)) => {
                return Err(ConnectionEnd::Malformed("said hello twice"));
            }
            (_, None) => return Err(ConnectionEnd::Malformed("did not say hello")),
            (_, Some(_)) => {}
        }
        match event.what {
            EventKind::Sample(_) => self.send_or_drop(event),
            _ => self.send(event).await,
        }
    }

    /// A sample isn't worth waiting for; the next one follows soon.
    fn send_or_drop(&mut self, event: Event) -> Result<(), ConnectionEnd> {
        match self.sender.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.lost_samples += 1,
            Err(TrySendError::Closed(_)) => return Err(ConnectionEnd::NobodyListens),
        }
        if self.lost_samples > 0 && self.sender.capacity() > 0 {
            let lost = self.lost();
            match self.sender.try_send(self.now(lost)) {
                Ok(()) => self.lost_samples = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return Err(ConnectionEnd::NobodyListens),
            }
        }
        Ok(())
    }

    async fn send(&mut self, event: Event) -> Result<(), ConnectionEnd> {
        let sent = self.sender.send(event).await;
        sent.map_err(|_| ConnectionEnd::NobodyListens)
    }

    fn lost(&self) -> EventKind {
        EventKind::Dropped(Dropped {
            samples: self.lost_samples,
            ..Dropped::default()
        })
    }

    fn now(&self, what: EventKind) -> Event {
        Event {
            at: self.clock.now(),
            what,
        }
    }

    async fn finish(mut self, end: ConnectionEnd) {
        let (malformed, reason) = match end {
            ConnectionEnd::NobodyListens => return,
            ConnectionEnd::Closed => (0, None),
            ConnectionEnd::Broken(reason) => (0, Some(format!("its connection broke: {reason}"))),
            ConnectionEnd::Malformed(what) => (1, Some(format!("it {what}"))),
        };
        if malformed > 0 || self.lost_samples > 0 {
            let dropped = EventKind::Dropped(Dropped {
                samples: self.lost_samples,
                malformed,
                ..Dropped::default()
            });
            if self.send(self.now(dropped)).await.is_err() {
                return;
            }
        }
        if let Some(pid) = self.greeted {
            let gone = self.now(EventKind::ProbeGone(ProbeGone {
                pid,
                reason,
                said_end: false,
            }));
            // The connection has ended, whether or not anybody receives that.
            let _ = self.send(gone).await;
        }
    }
}
