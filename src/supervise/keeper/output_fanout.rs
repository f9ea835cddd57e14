//! Where output goes: the log, the user's own streams, the front.

use super::callers::Followers;
use super::log::{self, PART};
use super::recent::Recent;
use super::sink::Sink;
use super::stdio::{Route, StdioPlan};
use super::users_pipe::Passed;
use super::viewer::Viewer;
use crate::background::BackgroundWriter;
use crate::supervise::wire::FirstMessage;
use crate::supervise::{Io, KeeperReport, OutputStream};
use crate::units::Bytes;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often lost bytes of the log are reported.
const LOSSES: Duration = Duration::from_secs(1);

/// So much output makes it worth while to give memory back after it, …
const FLOOD: usize = 1 << 20;

/// … once it has been quiet for so long.
const QUIET: Duration = Duration::from_secs(1);

/// All the places that a byte of output goes to.
pub(super) struct OutputFanout {
    /// What goes to the front; kept as long as there is one.
    pub viewer: Option<Viewer>,
    /// The last of the present run's output.
    pub recent: Recent,
    /// Those who only listen.
    pub followers: Followers,
    log: Option<BackgroundWriter>,
    terminal: Option<Sink>,
    out: Option<Sink>,
    err: Option<Sink>,
    asked: Instant,
    unasked: bool,
    /// Output since memory was last given back.
    flood: usize,
    /// When it is given back, if it stays quiet until then.
    quiet: Option<Instant>,
}

impl OutputFanout {
    /// Opens what the plan needs. A thread that the system does not give is a failure for the
    /// user's own streams, and a note for the log.
    pub(super) fn open(
        hello: &FirstMessage,
        plan: &StdioPlan,
        wake: &OwnedFd,
    ) -> io::Result<OutputFanout> {
        let mut viewer = Viewer::new();
        let log = hello.log.as_ref().and_then(|path| {
            let path = PathBuf::from(&path.0);
            match log::start(path, PART, hello.timing.log_retry) {
                Ok(log) => Some(log),
                Err(error) => {
                    viewer.report(KeeperReport::Note(format!(
                        "the output is not logged: {error}"
                    )));
                    None
                }
            }
        });
        let sink = |number: i32| Sink::open(number, wake);
        let passes = |way, stream| way == Route::Pipe(stream);
        Ok(OutputFanout {
            viewer: Some(viewer),
            recent: Recent::default(),
            followers: Followers::default(),
            log,
            terminal: match (hello.io, plan.terminal) {
                (Io::PassThrough, Some(number)) => Some(sink(number)?),
                (Io::Screen, _) | (Io::PassThrough, None) => None,
            },
            out: if passes(plan.out, OutputStream::Out) {
                Some(sink(1)?)
            } else if passes(plan.err, OutputStream::Out) {
                Some(sink(2)?)
            } else {
                None
            },
            err: passes(plan.err, OutputStream::Err)
                .then(|| sink(2))
                .transpose()?,
            asked: Instant::now(),
            // Whether its file could be made is asked once in any case.
            unasked: hello.log.is_some(),
            flood: 0,
            quiet: None,
        })
    }

    fn streams(&self) -> impl Iterator<Item = &Sink> {
        [&self.terminal, &self.out, &self.err].into_iter().flatten()
    }

    fn writers(&self) -> impl Iterator<Item = &BackgroundWriter> {
        self.streams().filter_map(Sink::writer).chain(&self.log)
    }

    fn sink(&self, stream: OutputStream) -> Option<&Sink> {
        match stream {
            OutputStream::Terminal => self.terminal.as_ref(),
            OutputStream::Out => self.out.as_ref(),
            OutputStream::Err => self.err.as_ref(),
        }
    }

    fn sink_mut(&mut self, stream: OutputStream) -> Option<&mut Sink> {
        match stream {
            OutputStream::Terminal => self.terminal.as_mut(),
            OutputStream::Out => self.out.as_mut(),
            OutputStream::Err => self.err.as_mut(),
        }
    }

    /// Pipes of the user's that are full, to be polled for room.
    pub(super) fn full_pipes(&self) -> impl Iterator<Item = (OutputStream, RawFd)> {
        let streams = [OutputStream::Terminal, OutputStream::Out, OutputStream::Err];
        let waits = |stream| Some((stream, self.sink(stream)?.waits()?));
        streams.into_iter().filter_map(waits)
    }

    /// A pipe of the user's may have room again.
    pub(super) fn flush(&mut self, stream: OutputStream) {
        if let Some(Sink::Pipe(pipe)) = self.sink_mut(stream) {
            pipe.flush();
        }
    }

    /// Passes on what waits in a pipe of ours without reading it, where that can be done; what was
    /// passed on is to be read and recorded.
    pub(super) fn pass(&mut self, stream: OutputStream, from: &OwnedFd, most: usize) -> Passed {
        match self.sink_mut(stream) {
            Some(Sink::Pipe(pipe)) => pipe.pass(from, most),
            Some(Sink::Writer(_)) | None => Passed::Nothing,
        }
    }

    /// Closes our own descriptor of one of the user's streams, where there is one.
    pub(super) fn let_go(&mut self, stream: OutputStream) {
        if let Some(Sink::Pipe(pipe)) = self.sink_mut(stream) {
            pipe.let_go();
        }
    }

    /// How many bytes of a stream can be taken now. At 0 its source must rest; the loop is woken
    /// when there is room.
    pub(super) fn room(&self, stream: OutputStream) -> usize {
        self.sink(stream).map_or(usize::MAX, Sink::room)
    }

    /// Sends bytes everywhere; to the front only those of a run that it still thinks of.
    pub(super) fn deliver(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        if let Some(sink) = self.sink_mut(stream) {
            sink.push(bytes);
        }
        self.record(stream, bytes, to_front);
    }

    /// Sends bytes that the user's file has already.
    pub(super) fn record(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        self.flood = self.flood.saturating_add(bytes.len());
        if self.flood > FLOOD {
            self.quiet = Some(Instant::now() + QUIET);
        }
        if let Some(log) = &self.log {
            log.push(bytes);
            self.unasked = true;
        }
        if to_front {
            self.recent.push(bytes);
            if let Some(viewer) = &mut self.viewer {
                viewer.output(stream, bytes);
            }
        }
    }

    /// Sets the writers to work on what they were given.
    pub(super) fn nudge(&self) {
        self.writers().for_each(BackgroundWriter::nudge);
    }

    /// Tells the front something, if there is one, and those who only listen what concerns them.
    pub(super) fn report(&mut self, report: KeeperReport) {
        self.followers.hear(&report);
        if let Some(viewer) = &mut self.viewer {
            viewer.report(report);
        }
    }

    /// Tells the front a line.
    pub(super) fn note(&mut self, text: String) {
        self.report(KeeperReport::Note(text));
    }

    /// When there is something to do next: to ask the log for its losses, to give memory back.
    pub(super) fn due(&self) -> Option<Instant> {
        self.losses_due().into_iter().chain(self.quiet).min()
    }

    fn losses_due(&self) -> Option<Instant> {
        self.unasked.then(|| self.asked + LOSSES)
    }

    /// After a flood of output, once it is quiet: gives back the memory that only that needed.
    pub(super) fn tidy(&mut self, now: Instant) {
        if self.quiet.is_none_or(|quiet| quiet > now) {
            return;
        }
        self.quiet = None;
        self.flood = 0;
        if let Some(viewer) = &mut self.viewer {
            viewer.give_back();
        }
        self.writers().for_each(BackgroundWriter::give_back);
    }

    /// Reports what the log lost, if it is time.
    pub(super) fn report_losses(&mut self, now: Instant) {
        if self.losses_due().is_some_and(|due| due <= now) {
            self.report_losses_now(now);
        }
    }

    /// Reports what the log lost.
    pub(super) fn report_losses_now(&mut self, now: Instant) {
        self.asked = now;
        self.unasked = false;
        let Some(news) = self.log.as_ref().map(BackgroundWriter::news) else {
            return;
        };
        if let Some(why) = news.failed {
            self.note(match why.kind() {
                io::ErrorKind::AlreadyExists => format!("the output is not logged: {why}"),
                _ => format!(
                    "cannot write the output log ({why}); oomph will try again, the training continues"
                ),
            });
        }
        if news.dropped > 0 {
            self.report(KeeperReport::Unlogged {
                bytes: Bytes(news.dropped),
            });
        }
    }

    /// Whether the user's own streams have everything that they will get.
    pub(super) fn all_written(&self) -> bool {
        // Each is asked, so that each wakes us.
        self.streams().filter(|stream| !stream.is_idle()).count() == 0
    }

    /// Whether one of the user's streams is written to for `stream`.
    pub(super) fn writes(&self, stream: OutputStream) -> bool {
        self.sink(stream).is_some()
    }

    /// Ends the log, within `limit`.
    pub(super) fn close(self, limit: Duration) {
        if let Some(log) = self.log {
            log.close(limit);
        }
    }
}
