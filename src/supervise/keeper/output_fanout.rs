//! Where output goes: the log, the user's own streams, the front; and how far the files of the user's that
//! the trainer itself writes to were read.

use super::connections::{Followers, Recent, Viewer};
use super::descriptor::{self, Route, StdioPlan};
use super::log::{self, LineEnds, LogMarks, PART};
use super::user_stream::{Passed, Sink};
use crate::background::BackgroundWriter;
use crate::supervise::wire::FirstMessage;
use crate::supervise::{Io, KeeperReport, OutputStream};
use crate::units::Bytes;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::fstat;
use nix::sys::uio::pread;
use nix::unistd::{Whence, lseek};
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
    pub fn open(
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
    pub fn full_pipes(&self) -> impl Iterator<Item = (OutputStream, RawFd)> {
        let waits = |stream| Some((stream, self.sink(stream)?.waits()?));
        OutputStream::ALL.into_iter().filter_map(waits)
    }

    /// Writes to a pipe that may have room again.
    pub fn flush(&mut self, stream: OutputStream) {
        if let Some(Sink::Pipe(pipe)) = self.sink_mut(stream) {
            pipe.flush();
        }
    }

    /// Passes on what waits in one of our pipes without reading it, if possible; the caller then reads
    /// and records it.
    pub fn pass(&mut self, stream: OutputStream, from: &OwnedFd, most: usize) -> Passed {
        match self.sink_mut(stream) {
            Some(Sink::Pipe(pipe)) => pipe.pass(from, most),
            Some(Sink::Writer(_) | Sink::GivenUp(_)) | None => Passed::Nothing,
        }
    }

    /// Closes our own descriptor of one of the user's streams, if we have one.
    pub fn let_go(&mut self, stream: OutputStream) {
        if let Some(Sink::Pipe(pipe)) = self.sink_mut(stream) {
            pipe.let_go();
        }
    }

    /// Whether nobody reads a stream of the user's any more.
    pub fn has_no_reader(&self, stream: OutputStream) -> bool {
        self.sink(stream).is_some_and(Sink::has_no_reader)
    }

    /// How many bytes of a stream can be written now. At 0 its source must not be read; the loop is
    /// woken when there is room.
    pub fn room(&self, stream: OutputStream) -> usize {
        self.sink(stream).map_or(usize::MAX, Sink::room)
    }

    /// Sends bytes everywhere; to the front only those of the current run.
    pub fn deliver(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        if let Some(sink) = self.sink_mut(stream) {
            sink.push(bytes);
        }
        self.record(stream, bytes, to_front);
    }

    /// Sends bytes that the user's stream already has to the log and the front.
    pub fn record(&mut self, stream: OutputStream, bytes: &[u8], to_front: bool) {
        self.log(bytes);
        self.show(stream, bytes, to_front);
    }

    /// Sends a terminal's bytes everywhere. The log, and a terminal of the user's, which adds carriage returns by itself, get
    /// them as the program wrote them.
    pub fn deliver_terminal(&mut self, bytes: &[u8], adds_returns: bool, to_front: bool) {
        let written = self.line_ends.undo(bytes, adds_returns);
        match self.sink_mut(OutputStream::Terminal) {
            Some(_) => self.deliver(OutputStream::Terminal, &written, to_front),
            None => {
                self.log(&written);
                self.show(OutputStream::Terminal, bytes, to_front);
            }
        }
    }

    /// All of a terminal's output was read for now: a return at its end is the program's own.
    pub fn end_of_terminal(&mut self, to_front: bool) {
        if self.sink(OutputStream::Terminal).is_some() {
            let rest = self.line_ends.end();
            if !rest.is_empty() {
                self.deliver(OutputStream::Terminal, rest, to_front);
            }
        }
    }

    /// The terminal's output is over.
    pub fn end_line(&mut self) {
        self.end_of_terminal(true);
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
    pub fn nudge(&self) {
        self.writers().for_each(BackgroundWriter::nudge);
    }

    /// Tells the front, if there is one, and the followers.
    pub fn report(&mut self, report: KeeperReport) {
        self.followers.hear(&report);
        if let Some(viewer) = &mut self.viewer {
            viewer.report(report);
        }
    }

    pub fn note(&mut self, text: String) {
        self.report(KeeperReport::Note(text));
    }

    /// When to report on the log, or to free memory.
    pub fn due(&self) -> Option<Instant> {
        let due = [self.losses_due(), self.quiet, self.marks.due()];
        due.into_iter().flatten().min()
    }

    fn losses_due(&self) -> Option<Instant> {
        self.unasked.then(|| self.asked + LOSSES)
    }

    /// Frees the memory that only a flood of output needed, once it is quiet.
    pub fn tidy(&mut self, now: Instant) {
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
    pub fn report_log(&mut self, now: Instant) {
        if self.marks.due().is_some_and(|due| due <= now) {
            self.mark_log(now);
        }
        if self.losses_due().is_some_and(|due| due <= now) {
            self.report_losses(now);
        }
    }

    /// Reports what the log got and what it lost, now.
    pub fn report_log_now(&mut self, now: Instant) {
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
    pub fn all_written(&self) -> bool {
        // Ask all of them, so that each will wake us.
        let sinks = self.sinks.iter().flatten();
        sinks.filter(|sink| !sink.is_idle()).count() == 0
    }

    /// Whether everything of this stream was written to the user's own.
    pub fn has_written(&self, stream: OutputStream) -> bool {
        self.sink(stream).is_none_or(Sink::is_idle)
    }

    /// No longer waits for readers that read nothing; the log still gets what comes.
    pub fn give_up_readers(&mut self) {
        self.sinks.iter_mut().flatten().for_each(Sink::give_up);
    }

    /// Reports what readers that were given up did not get.
    pub fn report_undelivered(&mut self) {
        let sinks = self.sinks.iter_mut().flatten();
        let bytes = sinks.map(Sink::take_undelivered).sum();
        if bytes > 0 {
            self.report(KeeperReport::Undelivered {
                bytes: Bytes(bytes),
            });
        }
    }

    /// Whether `stream` is copied to one of the user's streams.
    pub fn writes(&self, stream: OutputStream) -> bool {
        self.sink(stream).is_some()
    }

    /// Waits up to `limit` for the log to be written and closed: nothing more will come.
    pub fn end_log(&self, limit: Duration) {
        if let Some(log) = &self.log {
            log.close(limit);
        }
    }
}

/// Between two reads of a growing file.
pub(super) const GROWTH_PAUSE: Duration = Duration::from_millis(50);

/// How far we may fall behind before the middle is skipped.
const FARTHEST: u64 = 64 << 20;

/// A file of the user's that the trainer itself writes to.
///
/// It is reopened for reading, with a position of our own. inotify reports that it grows; it is then read
/// after a pause, so that a program that writes line by line doesn't wake us for each.
#[derive(Debug)]
pub(super) struct FollowedFile {
    pub stream: OutputStream,
    file: OwnedFd,
    /// Becomes readable when the file has grown. `None` if the system gives no watch: the file is then
    /// read every second.
    pub watch: Option<OwnedFd>,
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TailRead {
    Bytes(usize),
    /// This many bytes were skipped.
    Skipped(u64),
    /// The file was truncated, and is followed from its start.
    CutOff,
    Nothing,
}

impl FollowedFile {
    /// Follows the file of the user's stream `number` from where that will write next.
    pub fn follow(number: i32, stream: OutputStream) -> nix::Result<FollowedFile> {
        let user = descriptor::standard(number);
        let file = descriptor::reopen(user, OFlag::O_RDONLY)?;
        let flags = nix::fcntl::fcntl(user, nix::fcntl::FcntlArg::F_GETFL)?;
        let appends = OFlag::from_bits_truncate(flags).contains(OFlag::O_APPEND);
        let offset = if appends {
            fstat(&file)?.st_size
        } else {
            lseek(user, 0, Whence::SeekCur)?
        };
        let watch = descriptor::watch(&file, libc::IN_MODIFY).ok();
        Ok(FollowedFile {
            stream,
            file,
            watch,
            offset: u64::try_from(offset).unwrap_or(0),
        })
    }

    /// Reads up to a buffer of what is new.
    pub fn read(&mut self, buffer: &mut [u8]) -> TailRead {
        let size = fstat(&self.file).map_or(0, |about| about.st_size);
        let size = u64::try_from(size).unwrap_or(0);
        if size < self.offset {
            self.offset = 0;
            return TailRead::CutOff;
        }
        let behind = size - self.offset;
        if behind > FARTHEST {
            let skipped = behind - FARTHEST / 2;
            self.offset += skipped;
            return TailRead::Skipped(skipped);
        }
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        match pread(&self.file, buffer, offset) {
            Ok(0) | Err(_) => TailRead::Nothing,
            Ok(n) => {
                self.offset += n as u64;
                TailRead::Bytes(n)
            }
        }
    }

    /// Discards the watch's events.
    pub fn calm(&self) {
        if let Some(watch) = &self.watch {
            let mut events = [0; 4096];
            while let descriptor::Got::Bytes(_) = descriptor::read(watch, &mut events) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn growth_and_a_cut_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut writer = File::create(&path).unwrap();
        let mut tail = FollowedFile {
            stream: OutputStream::Out,
            file: File::open(&path).unwrap().into(),
            watch: descriptor::watch(&writer, libc::IN_MODIFY).ok(),
            offset: 0,
        };
        let mut buffer = [0; 64];
        assert_eq!(tail.read(&mut buffer), TailRead::Nothing);
        writer.write_all(b"hello").unwrap();
        assert_eq!(tail.read(&mut buffer), TailRead::Bytes(5));
        assert_eq!(tail.read(&mut buffer), TailRead::Nothing);
        writer.set_len(0).unwrap();
        assert_eq!(tail.read(&mut buffer), TailRead::CutOff);
        writer.set_len(FARTHEST * 3).unwrap();
        assert_eq!(
            tail.read(&mut buffer),
            TailRead::Skipped(FARTHEST * 3 - FARTHEST / 2)
        );
        assert_eq!(tail.read(&mut buffer), TailRead::Bytes(64));
    }
}
