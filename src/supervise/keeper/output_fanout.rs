//! Where output goes: the log, the user's own streams, the front.

use super::callers::Followers;
use super::line_ends::LineEnds;
use super::log::{self, PART};
use super::log_marks::LogMarks;
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

/// How often bytes that the log has lost are reported.
const LOSSES: Duration = Duration::from_secs(1);

/// After this much output memory is freed, …
const FLOOD: usize = 1 << 20;

/// … once it has been quiet for this long.
const QUIET: Duration = Duration::from_secs(1);

pub(super) struct OutputFanout {
    /// The queue to the front; `None` without one.
    pub viewer: Option<Viewer>,
    pub recent: Recent,
    pub followers: Followers,
    log: Option<BackgroundWriter>,
    marks: LogMarks,
    line_ends: LineEnds,
    /// The user's own streams, by [`OutputStream`].
    sinks: [Option<Sink>; 3],
    asked: Instant,
    unasked: bool,
    /// Output since memory was last freed.
    flood: usize,
    /// When it is freed, if it stays quiet until then.
    quiet: Option<Instant>,
}

impl OutputFanout {
    /// Opens what the plan needs. If a thread can't be created, that is an error for the user's own
    /// streams, and a note for the log.
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
        let number = |stream| match stream {
            OutputStream::Terminal => plan.terminal.filter(|_| hello.io == Io::PassThrough),
            _ if plan.out == Route::Pipe(stream) => Some(1),
            _ if plan.err == Route::Pipe(stream) => Some(2),
            _ => None,
        };
        let mut sinks = [None, None, None];
        for (sink, stream) in sinks.iter_mut().zip(OutputStream::ALL) {
            let opened = number(stream).map(|number| Sink::open(number, wake));
            *sink = opened.transpose()?;
        }
        Ok(OutputFanout {
            viewer: Some(viewer),
            recent: Recent::default(),
            followers: Followers::default(),
            log,
            marks: LogMarks::default(),
            line_ends: LineEnds::default(),
            sinks,
            asked: Instant::now(),
            // Ask at least once whether its file could be created.
            unasked: hello.log.is_some(),
            flood: 0,
            quiet: None,
        })
    }

    fn writers(&self) -> impl Iterator<Item = &BackgroundWriter> {
        let sinks = self.sinks.iter().flatten();
        sinks.filter_map(Sink::writer).chain(&self.log)
    }

    fn sink(&self, stream: OutputStream) -> Option<&Sink> {
        self.sinks.get(stream as usize)?.as_ref()
    }

    fn sink_mut(&mut self, stream: OutputStream) -> Option<&mut Sink> {
        self.sinks.get_mut(stream as usize)?.as_mut()
    }

    /// Full pipes of the user's, to be polled for room.
    pub(super) fn full_pipes(&self) -> impl Iterator<Item = (OutputStream, RawFd)> {
        let waits = |stream| Some((stream, self.sink(stream)?.waits()?));
        OutputStream::ALL.into_iter().filter_map(waits)
    }

    /// Writes to a pipe that may have room again.
    pub(super) fn flush(&mut self, stream: OutputStream) {
        if let Some(Sink::Pipe(pipe)) = self.sink_mut(stream) {
            pipe.flush();
        }
    }

    /// Passes on what waits in one of our pipes without reading it, if possible; the caller then reads
    /// and records it.
    pub(super) fn pass(&mut self, stream: OutputStream, from: &OwnedFd, most: usize) -> Passed {
        match self.sink_mut(stream) {
            Some(Sink::Pipe(pipe)) => pipe.pass(from, most),
            Some(Sink::Writer(_) | Sink::GivenUp(_)) | None => Passed::Nothing,
        }
    }

    /// Closes our own descriptor of one of the user's streams, if we have one.
    pub(super) fn let_go(&mut self, stream: OutputStream) {
        if let Some(Sink::Pipe(pipe)) = self.sink_mut(stream) {
            pipe.let_go();
        }
    }

    /// How many bytes of a stream can be written now. At 0 its source must not be read; the loop is
    /// woken when there is room.
    pub(super) fn room(&self, stream: OutputStream) -> usize {
        self.sink(stream).map_or(usize::MAX, Sink::room)
    }

    /// Sends bytes everywhere; to the front only those of the current run.
    pub(super) fn deliver(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        if let Some(sink) = self.sink_mut(stream) {
            sink.push(bytes);
        }
        self.record(stream, bytes, to_front);
    }

    /// The same for bytes that the user's stream already has.
    pub(super) fn record(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        self.log(bytes);
        self.show(stream, bytes, to_front);
    }

    /// Sends a terminal's bytes everywhere, to the log as the program wrote them.
    pub(super) fn deliver_terminal(&mut self, bytes: &[u8], adds_returns: bool, to_front: bool) {
        if let Some(sink) = self.sink_mut(OutputStream::Terminal) {
            sink.push(bytes);
        }
        let written = self.line_ends.undo(bytes, adds_returns);
        self.log(&written);
        self.show(OutputStream::Terminal, bytes, to_front);
    }

    /// The terminal's output is over.
    pub(super) fn end_line(&mut self) {
        let rest = self.line_ends.end();
        if !rest.is_empty() {
            self.log(rest);
        }
    }

    fn log(&mut self, bytes: &[u8]) {
        if let Some(log) = &self.log {
            log.push(bytes);
            self.unasked = true;
            if let (Some(mark), Some(viewer)) = (
                self.marks.given(bytes.len(), Instant::now()),
                &mut self.viewer,
            ) {
                viewer.report(mark);
            }
        }
    }

    fn show(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        self.flood = self.flood.saturating_add(bytes.len());
        if self.flood > FLOOD {
            self.quiet = Some(Instant::now() + QUIET);
        }
        if to_front {
            self.recent.push(bytes);
            if let Some(viewer) = &mut self.viewer {
                viewer.output(stream, bytes);
            }
        }
    }

    /// Wakes the writers.
    pub(super) fn nudge(&self) {
        self.writers().for_each(BackgroundWriter::nudge);
    }

    /// Tells the front, if there is one, and the followers.
    pub(super) fn report(&mut self, report: KeeperReport) {
        self.followers.hear(&report);
        if let Some(viewer) = &mut self.viewer {
            viewer.report(report);
        }
    }

    pub(super) fn note(&mut self, text: String) {
        self.report(KeeperReport::Note(text));
    }

    /// When to report on the log, or to free memory.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = [self.losses_due(), self.quiet, self.marks.due()];
        due.into_iter().flatten().min()
    }

    fn losses_due(&self) -> Option<Instant> {
        self.unasked.then(|| self.asked + LOSSES)
    }

    /// Frees the memory that only a flood of output needed, once it is quiet.
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

    /// Reports what the log got and what it lost, if that is due.
    pub(super) fn report_log(&mut self, now: Instant) {
        if self.marks.due().is_some_and(|due| due <= now) {
            self.mark_log(now);
        }
        if self.losses_due().is_some_and(|due| due <= now) {
            self.report_losses(now);
        }
    }

    /// Reports both now.
    pub(super) fn report_log_now(&mut self, now: Instant) {
        self.mark_log(now);
        self.report_losses(now);
    }

    fn mark_log(&mut self, now: Instant) {
        if let (Some(mark), Some(viewer)) = (self.marks.rest(now), &mut self.viewer) {
            viewer.report(mark);
        }
    }

    fn report_losses(&mut self, now: Instant) {
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

    /// Whether everything was written to the user's own streams.
    pub(super) fn all_written(&self) -> bool {
        // Ask all of them, so that each will wake us.
        let sinks = self.sinks.iter().flatten();
        sinks.filter(|sink| !sink.is_idle()).count() == 0
    }

    /// No longer waits for readers that read nothing; the log still gets what comes.
    pub(super) fn give_up_readers(&mut self) {
        self.sinks.iter_mut().flatten().for_each(Sink::give_up);
    }

    /// Reports what readers that were given up did not get.
    pub(super) fn report_undelivered(&mut self) {
        let sinks = self.sinks.iter_mut().flatten();
        let bytes = sinks.map(Sink::take_undelivered).sum();
        if bytes > 0 {
            self.report(KeeperReport::Undelivered {
                bytes: Bytes(bytes),
            });
        }
    }

    /// Whether `stream` is copied to one of the user's streams.
    pub(super) fn writes(&self, stream: OutputStream) -> bool {
        self.sink(stream).is_some()
    }

    /// Closes the log, within `limit`.
    pub(super) fn close(self, limit: Duration) {
        if let Some(log) = self.log {
            log.close(limit);
        }
    }
}
