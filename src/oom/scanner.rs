//! The scanner: bytes in, OOM reports out, for live output and for `oomph explain`.

use super::lines::{LineReader, LineSplitter, RawLine};
use super::messages::{MessageAssembler, MessageSink, OomMessage};
use super::prefilter::WORDS;
use super::report::OomReport;
use super::wording::CompactLine;
use crate::units::Rank;

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

    fn line(&mut self, _rank: Option<Rank>, _number: u64, _text: &CompactLine) {}
}

#[cfg(test)]
mod tests;
