//! The scanner: bytes in, OOM reports out, for live output and for `oomph explain`.
//!
//! It reads lines by the table, joins messages that were wrapped over several lines, and drops repetitions: programs print
//! a message several times (a logger, the traceback, the traceback of a consequence, the launcher).

use crate::oom::lines::{LineReader, LineSplitter, RawLine, WORDS};
use crate::oom::lines::{behind_shared_prefix, pieces, readable, strip_escapes};
use crate::oom::report::{OomKind, OomOutcome, OomReport, OomSign};
use crate::oom::table::{StreamContext, WordingTable};
use crate::oom::tracebacks::{self, Tracebacks};
use crate::oom::wording::PHRASES;
use crate::oom::wording::{CompactLine, Continuation, MessageForm, OomReading, find};
use crate::oom::{allocator, bars, other_libraries};
use crate::units::{Bytes, Rank};
use std::collections::VecDeque;

/// Finds OOM messages in a byte stream, however it is cut into chunks.
///
/// A message is reported when its last line has ended. Memory is bounded: a line, the end of the
/// one before, a few unfinished messages. The outcome is only what the message's line says; whether
/// the program continued shows later.
#[derive(Debug)]
pub struct Scanner {
    lines: LineSplitter,
    messages: MessageAssembler,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    pub fn new() -> Scanner {
        Scanner {
            lines: LineSplitter::new(&WORDS),
            messages: MessageAssembler::default(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8], found: &mut dyn FnMut(OomReport)) {
        self.feed_into(bytes, &mut ReportSink(found));
    }

    /// The stream has ended: reports unfinished messages too.
    pub fn finish(&mut self, found: &mut dyn FnMut(OomReport)) {
        self.finish_into(&mut ReportSink(found));
    }

    /// Reports unfinished messages as they are, for a program that prints a part of a message and
    /// hangs. If the rest comes after all, it is not joined.
    pub fn pause(&mut self, found: &mut dyn FnMut(OomReport)) {
        self.messages.finish(&mut ReportSink(found));
    }

    pub(super) fn feed_into(&mut self, bytes: &[u8], sink: &mut dyn MessageSink) {
        let Scanner { lines, messages } = self;
        lines.feed(bytes, &mut Joined { messages, sink });
    }

    pub(super) fn finish_into(&mut self, sink: &mut dyn MessageSink) {
        let Scanner { lines, messages } = self;
        lines.finish(&mut Joined { messages, sink });
        self.messages.finish(sink);
    }
}

struct Joined<'a> {
    messages: &'a mut MessageAssembler,
    sink: &'a mut dyn MessageSink,
}

impl LineReader for Joined<'_> {
    fn wants_every_line(&self) -> bool {
        self.messages.are_unfinished() || self.sink.wants_lines()
    }

    fn read(&mut self, line: RawLine<'_>) {
        self.messages.read(line, self.sink);
    }
}

struct ReportSink<'a>(&'a mut dyn FnMut(OomReport));

impl MessageSink for ReportSink<'_> {
    fn wants_lines(&self) -> bool {
        false
    }

    fn message(&mut self, message: OomMessage<'_>) {
        (self.0)(message.report);
    }

    fn repeated(&mut self, _message: OomMessage<'_>) {}

    fn line(&mut self, _rank: Option<Rank>, _number: u64, _text: &CompactLine) {}
}

/// Unfinished messages at a time: one for each rank of a large node.
const MOST_UNFINISHED: usize = 64;

/// Lines between a traceback's head and its message, at most.
const LONGEST_TRACEBACK_LINES: u64 = 2_000;

/// Lines between NCCL's reason and the allocation that it refused, at most.
const NCCL_REASON_LINES: u64 = 20;

/// What pins memory in a traceback's line of source.
const PINS: [&str; 2] = [".pin_memory(", "pin_memory=True"];

/// Lines from one that pins memory to its error: marks below the call may stand between.
const PINNING_LINES: u64 = 2;

/// A message and its surroundings.
#[derive(Debug)]
pub(super) struct OomMessage<'a> {
    pub report: OomReport,
    pub form: MessageForm,
    /// An allocator's notice that it will retry; the exception may still follow.
    pub is_notice: bool,
    pub after_traceback: bool,
    /// The line in which it ended.
    pub text: &'a str,
}

pub(super) trait MessageSink {
    /// Whether it wants other lines too.
    fn wants_lines(&self) -> bool;
    fn message(&mut self, message: OomMessage<'_>);
    /// Takes a message that was there before, with the same figures.
    fn repeated(&mut self, message: OomMessage<'_>);
    /// Takes a line, or a rank's part of one, that belongs to no message.
    fn line(&mut self, rank: Option<Rank>, number: u64, text: &CompactLine);
}

#[derive(Debug, Default)]
struct MessageAssembler {
    unfinished: Vec<Unfinished>,
    /// A line with one of the words that is no message yet: the message may be wrapped.
    beginning: Option<JoinedLines>,
    seen: RecentReports,
    notices: RecentReports,
    traceback: Option<u64>,
    tracebacks: Tracebacks,
    /// The line above that traceback is an evaluation's bar.
    evaluates: bool,
    /// Of the last OOM: its rank, and what was allocated; to know what was held while it was handled.
    last_oom: Option<(Option<Rank>, Bytes)>,
    /// Python has said that the next error came while that one was handled.
    is_chained: bool,
    device_ran_out: bool,
    nccl_failed_otherwise: Option<u64>,
    /// A traceback's line that pins memory.
    pinned: Option<u64>,
}

impl MessageAssembler {
    /// Whether a message or a traceback waits for its next line.
    fn are_unfinished(&self) -> bool {
        !self.unfinished.is_empty() || self.beginning.is_some() || self.tracebacks.are_open()
    }

    pub fn read(&mut self, line: RawLine<'_>, sink: &mut dyn MessageSink) {
        let plain = readable(line.bytes);
        let before = if line.promising {
            let mut before = Vec::with_capacity(line.previous.len());
            strip_escapes(line.previous, &mut before);
            readable(&before)
        } else {
            String::new()
        };
        let mut previous = pieces(&before).last().map_or("", |piece| piece.text);
        for piece in pieces(&plain) {
            if !piece.text.trim().is_empty() {
                let text = CompactLine::new(piece.text.to_owned(), previous);
                self.read_piece(piece.rank, line.number, text, line.promising, sink);
            }
            previous = "";
        }
    }

    /// Reports unfinished messages as they are.
    pub fn finish(&mut self, sink: &mut dyn MessageSink) {
        for unfinished in std::mem::take(&mut self.unfinished) {
            self.close(unfinished, sink);
        }
    }

    fn read_piece(
        &mut self,
        rank: Option<Rank>,
        number: u64,
        text: CompactLine,
        promising: bool,
        sink: &mut dyn MessageSink,
    ) {
        if self.join(rank, &text, sink) {
            return;
        }
        self.tracebacks.read(rank, number, &text.plain);
        let is_call = promising && tracebacks::is_call(&text.plain);
        if is_call && !self.tracebacks.is_open(rank) {
            // What people show of a log often begins in the middle of a traceback.
            self.tracebacks.begin(rank);
            self.tracebacks.read(rank, number, &text.plain);
        }
        if !promising || is_call && !WordingTable::get().may_match(&text) {
            if !self.complete(rank, number, &text, sink) {
                sink.line(rank, number, &text);
            }
            return;
        }
        if text.compact.contains(tracebacks::HEAD) {
            self.traceback = Some(number);
            self.tracebacks.begin(rank);
            self.is_chained = tracebacks::is_chained(&text.previous);
            // An error while another one is handled is of the same place.
            self.evaluates =
                self.is_chained && self.evaluates || bars::shows_an_evaluation(&text.previous);
        }
        if PINS.iter().any(|call| text.compact.contains(call)) {
            self.pinned = Some(number);
        }
        if other_libraries::failed_otherwise(&text) {
            self.nccl_failed_otherwise = Some(number);
        }
        let text = with_wrapped_head(text);
        let mut found = self.read_alone(&text, number);
        let last = found.pop();
        if last.is_none() && !self.complete(rank, number, &text, sink) {
            sink.line(rank, number, &text);
            let is_head_of_traceback = self.traceback == Some(number);
            if self.beginning.is_none() && !is_head_of_traceback {
                self.beginning = Some(JoinedLines::new(rank, number, &text));
            }
        }
        let after_traceback = self.is_after_traceback(number);
        for message in found {
            self.report(rank, number, message, after_traceback, &text, sink);
        }
        if let Some(message) = last {
            self.take(rank, number, message, text, sink);
        }
    }

    /// Reports a message, or waits for its continuation.
    fn take(
        &mut self,
        rank: Option<Rank>,
        number: u64,
        message: OomReading,
        text: CompactLine,
        sink: &mut dyn MessageSink,
    ) {
        let after_traceback = self.is_after_traceback(number);
        let Some(more) = message.more else {
            return self.report(rank, number, message, after_traceback, &text, sink);
        };
        if self.unfinished.len() == MOST_UNFINISHED {
            let oldest = self.unfinished.remove(0);
            self.close(oldest, sink);
        }
        self.unfinished.push(Unfinished {
            lines: JoinedLines::new(rank, number, &text),
            found: message,
            more,
            between: 0,
            after_traceback,
        });
    }

    /// Whether a traceback's head was shortly above a line.
    fn is_after_traceback(&self, number: u64) -> bool {
        self.traceback
            .and_then(|head| number.checked_sub(head))
            .is_some_and(|lines| lines <= LONGEST_TRACEBACK_LINES)
    }

    /// Joins a line that is no message to a beginning before it, and reports the message if that
    /// makes one.
    fn complete(
        &mut self,
        rank: Option<Rank>,
        number: u64,
        text: &CompactLine,
        sink: &mut dyn MessageSink,
    ) -> bool {
        let Some(mut beginning) = self.beginning.take() else {
            return false;
        };
        // A line with a message's words that was rejected is an echo of source code; joined to
        // other lines it would no longer look like one.
        let is_refused = WordingTable::get().has_words(text);
        if is_refused || beginning.rank != rank && rank.is_some() {
            return false;
        }
        beginning.append(text);
        let joined = beginning.joined();
        let Some(message) = self.read_alone(&joined, number).pop() else {
            self.beginning = Some(beginning).filter(|start| start.may_grow(MOST_LINES_OTHER));
            return false;
        };
        let (rank, number) = (beginning.rank, beginning.number);
        self.take(rank, number, message, joined, sink);
        true
    }

    fn read_alone(&self, text: &CompactLine, number: u64) -> Vec<OomReading> {
        let earlier = StreamContext {
            gpu_ran_out: self.device_ran_out,
            nccl_failed_otherwise: self
                .nccl_failed_otherwise
                .is_some_and(|line| number - line <= NCCL_REASON_LINES),
        };
        WordingTable::get().read(text, earlier)
    }

    /// Joins `text` to the unfinished message that it continues, if any; ends those that cannot
    /// continue any more.
    fn join(&mut self, rank: Option<Rank>, text: &CompactLine, sink: &mut dyn MessageSink) -> bool {
        if self.unfinished.is_empty() {
            return false;
        }
        // Only a prefix: an empty line within the message.
        let blank = self
            .unfinished
            .iter()
            .any(|unfinished| unfinished.lines.behind_prefix(text).is_empty());
        if blank {
            return true;
        }
        let next = self.unfinished.iter().position(|unfinished| {
            (unfinished.lines.rank == rank || rank.is_none()) && unfinished.more.takes(text)
        });
        if let Some(at) = next {
            let mut unfinished = self.unfinished.remove(at);
            if !unfinished.append(text) {
                self.close(unfinished, sink);
            } else {
                self.unfinished.insert(at, unfinished);
            }
            return true;
        }
        for mut unfinished in std::mem::take(&mut self.unfinished) {
            match unfinished.waits_behind(rank) {
                true => self.unfinished.push(unfinished),
                false => self.close(unfinished, sink),
            }
        }
        false
    }

    fn close(&mut self, unfinished: Unfinished, sink: &mut dyn MessageSink) {
        let Unfinished {
            lines,
            found,
            more,
            after_traceback,
            ..
        } = unfinished;
        if more != Continuation::Allocator || allocator::stands_alone(&found) {
            let text = lines.joined();
            self.report(
                lines.rank,
                lines.number,
                found,
                after_traceback,
                &text,
                sink,
            );
        }
    }

    fn report(
        &mut self,
        rank: Option<Rank>,
        number: u64,
        found: OomReading,
        after_traceback: bool,
        text: &CompactLine,
        sink: &mut dyn MessageSink,
    ) {
        let mut report = OomReport {
            rank,
            line: number,
            stack: self.tracebacks.end(rank, number),
            evaluates: after_traceback && self.evaluates,
            while_handling: self
                .last_oom
                .filter(|(of, _)| self.is_chained && *of == rank)
                .map(|(_, bytes)| bytes),
            ..found.report
        };
        let is_notice = report.outcome == OomOutcome::Caught;
        // The driver refuses to pin with the words that it has for the GPU's memory.
        let is_pinning = |line: u64| (1..=PINNING_LINES).contains(&number.saturating_sub(line));
        let pins =
            self.pinned.is_some_and(is_pinning) || tracebacks::copies_to_pinned(&report.stack);
        if report.kind == OomKind::CudaErrorOom && report.sign.is_none() && pins {
            (report.kind, report.sign) = (OomKind::HostOom, Some(OomSign::Pinned));
        }
        // SGLang's words around the message of its own exception.
        if text.compact.contains("Capturecudagraphfailed") {
            report.sign = Some(OomSign::EngineGraphs);
        }
        // Inductor's autotuning logs `Runtime error during autotuning:`, then the error, and tries
        // another choice.
        let is_trial = text.previous.ends_with("duringautotuning:");
        if is_trial || PHRASES.aftermath.handled.is_in(&text.compact) {
            report.outcome = OomOutcome::Caught;
        }
        self.device_ran_out |= report.kind != OomKind::HostOom && !is_notice;
        let seen = match is_notice {
            true => &mut self.notices,
            false => &mut self.seen,
        };
        self.last_oom = report.allocated.map(|bytes| (rank, bytes));
        let is_repeated = seen.repeats(&report);
        let message = OomMessage {
            report,
            form: found.form,
            is_notice,
            after_traceback,
            text: &text.plain,
        };
        match is_repeated {
            true => sink.repeated(message),
            false => sink.message(message),
        }
    }
}

/// Lines of an allocator's wrapped message; nobody wraps at less than 40 columns.
const MOST_LINES: u32 = 24;

/// NCCL prints two warnings, with at most an empty or an INFO line between them.
const MOST_LINES_NCCL: u32 = 6;

/// Lines of any other message.
const MOST_LINES_OTHER: u32 = 4;

/// Other lines between two lines of a message.
const MOST_BETWEEN: u32 = 8;

/// Bytes of a joined message.
const LONGEST_JOINED: usize = 8 * 1024;

#[derive(Debug)]
struct JoinedLines {
    pub rank: Option<Rank>,
    /// Of the first line.
    pub number: u64,
    plain: String,
    previous: String,
    count: u32,
}

impl JoinedLines {
    pub fn new(rank: Option<Rank>, number: u64, first: &CompactLine) -> JoinedLines {
        JoinedLines {
            rank,
            number,
            plain: first.plain.clone(),
            previous: first.previous.clone(),
            count: 1,
        }
    }

    /// The line without a prefix that it shares with these.
    fn behind_prefix<'l>(&self, line: &'l CompactLine) -> &'l str {
        behind_shared_prefix(&self.plain, &line.plain)
    }

    fn append(&mut self, line: &CompactLine) {
        let line = self.behind_prefix(line);
        self.plain.push('\n');
        self.plain.push_str(line);
        self.count += 1;
    }

    fn joined(&self) -> CompactLine {
        CompactLine::new(self.plain.clone(), &self.previous)
    }

    fn may_grow(&self, most: u32) -> bool {
        self.count < most && self.plain.len() < LONGEST_JOINED
    }
}

/// A message that may continue.
#[derive(Debug)]
struct Unfinished {
    pub lines: JoinedLines,
    pub found: OomReading,
    pub more: Continuation,
    /// Other lines since its last one.
    pub between: u32,
    pub after_traceback: bool,
}

impl Unfinished {
    /// Takes the next line; returns whether more can follow.
    fn append(&mut self, text: &CompactLine) -> bool {
        self.lines.append(text);
        let joined = self.lines.joined();
        let (read, most) = match self.more {
            Continuation::Allocator => {
                let read = read_allocator(&joined).or_else(|| other_libraries::read_mps(&joined));
                (read, MOST_LINES)
            }
            Continuation::Nccl => (other_libraries::read_nccl(&joined), MOST_LINES_NCCL),
            Continuation::Tensor => (other_libraries::read_tensor(&joined), MOST_LINES_OTHER),
        };
        if let Some(read) = read {
            self.found = read;
        }
        self.found.more.is_some() && self.lines.may_grow(most)
    }

    /// Whether it may still continue after another line, of this rank.
    fn waits_behind(&mut self, rank: Option<Rank>) -> bool {
        self.between += 1;
        match self.more {
            Continuation::Allocator => self.lines.rank != rank && self.between <= MOST_BETWEEN,
            // NCCL's warnings follow each other.
            Continuation::Nccl | Continuation::Tensor => false,
        }
    }
}

fn read_allocator(text: &CompactLine) -> Option<OomReading> {
    allocator::read_any(text, WordingTable::get().allocator_heads())
}

/// Joins the line to the end of the one before if the message's head was wrapped: `… CUDA out` /
/// `of memory. Tried to allocate …`.
fn with_wrapped_head(text: CompactLine) -> CompactLine {
    let goes_on =
        find(&text.compact, "Triedtoallocate").is_some_and(|at| at < "CUDAoutofmemory.".len());
    if goes_on && !text.previous.is_empty() && read_allocator(&text).is_none() {
        CompactLine::new(format!("{}{}", text.previous, text.plain), "")
    } else {
        text
    }
}

// Drops repetitions: programs print a message several times (a logger, the traceback, the
// traceback of a consequence, the launcher).

/// Further apart, the same figures are another OOM: a program may catch one in every epoch.
const WINDOW_LINES: u64 = 1_000;

/// Messages remembered: enough for all ranks of a node.
const MOST: usize = 128;

#[derive(Debug, Default)]
struct RecentReports {
    reports: VecDeque<OomReport>,
}

impl RecentReports {
    /// Whether `report` repeats a message; it is remembered in any case.
    fn repeats(&mut self, report: &OomReport) -> bool {
        let known = self.reports.iter_mut().find(|known| {
            report.line.saturating_sub(known.line) <= WINDOW_LINES && is_part_of(report, known)
        });
        if let Some(known) = known {
            known.line = report.line;
            return true;
        }
        if self.reports.len() == MOST {
            self.reports.pop_front();
        }
        self.reports.push_back(report.clone());
        false
    }
}

/// Whether `known` says all that `report` says.
fn is_part_of(report: &OomReport, known: &OomReport) -> bool {
    fn within<T: PartialEq>(part: &Option<T>, whole: &Option<T>) -> bool {
        part.is_none() || part == whole
    }
    let mut sizes = report.sizes().into_iter().zip(known.sizes());
    report.kind == known.kind
        && (within(&report.rank, &known.rank) || known.rank.is_none())
        && within(&report.device, &known.device)
        && sizes.all(|(part, whole)| within(&part, &whole))
        && (report.others.is_empty() || report.others == known.others)
}

#[cfg(test)]
mod tests;
