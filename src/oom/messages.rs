//! From lines to messages: reads lines by the table, joins wrapped messages, drops repetitions.

mod unfinished;

use super::dedup::RecentReports;
use super::kind::OomKind;
use super::lines::RawLine;
use super::phrases::PHRASES;
use super::prefix::pieces;
use super::report::{OomOutcome, OomReport};
use super::sanitize::{readable, strip_escapes};
use super::table::{StreamContext, WordingTable};
use super::wording::{CompactLine, Continuation, MessageForm, OomReading};
use super::{allocator, nccl};
use crate::units::Rank;
use unfinished::{JoinedLines, MOST_LINES_OTHER, Unfinished, with_wrapped_head};

/// Unfinished messages at a time: one for each rank of a large node.
const MOST_UNFINISHED: usize = 64;

/// Lines between a traceback's head and its message, at most.
const LONGEST_TRACEBACK_LINES: u64 = 2_000;

/// Lines between NCCL's reason and the allocation that it refused, at most.
const NCCL_REASON_LINES: u64 = 20;

/// A message and its surroundings.
#[derive(Debug)]
pub(super) struct OomMessage<'a> {
    pub(super) report: OomReport,
    pub(super) form: MessageForm,
    /// An allocator's notice that it will retry; the exception may still follow.
    pub(super) is_notice: bool,
    pub(super) after_traceback: bool,
    /// The line in which it ended.
    pub(super) text: &'a str,
}

pub(super) trait MessageSink {
    /// Whether it wants other lines too.
    fn wants_lines(&self) -> bool;
    fn message(&mut self, message: OomMessage<'_>);
    /// Takes a line, or a rank's part of one, that belongs to no message.
    fn line(&mut self, rank: Option<Rank>, number: u64, text: &CompactLine);
}

#[derive(Debug, Default)]
pub(super) struct MessageAssembler {
    unfinished: Vec<Unfinished>,
    /// A line with one of the words that is no message yet: the message may be wrapped.
    beginning: Option<JoinedLines>,
    seen: RecentReports,
    notices: RecentReports,
    traceback: Option<u64>,
    device_ran_out: bool,
    nccl_failed_otherwise: Option<u64>,
}

impl MessageAssembler {
    /// Whether a message waits for its next line.
    pub(super) fn are_unfinished(&self) -> bool {
        !self.unfinished.is_empty() || self.beginning.is_some()
    }

    pub(super) fn read(&mut self, line: RawLine<'_>, sink: &mut dyn MessageSink) {
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
    pub(super) fn finish(&mut self, sink: &mut dyn MessageSink) {
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
        if !promising {
            if !self.complete(rank, number, &text, sink) {
                sink.line(rank, number, &text);
            }
            return;
        }
        if text.compact.contains("Traceback(mostrecentcalllast)") {
            self.traceback = Some(number);
        }
        if nccl::failed_otherwise(&text) {
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
        let is_refused = WordingTable::get().may_match(text);
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
            ..found.report
        };
        let is_notice = report.outcome == OomOutcome::Caught;
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
        if !seen.repeats(&report) {
            sink.message(OomMessage {
                report,
                form: found.form,
                is_notice,
                after_traceback,
                text: &text.plain,
            });
        }
    }
}

#[cfg(test)]
mod tests;
