//! The one scanner: bytes in, out-of-memory reports out. The live output and `oomph explain` use
//! the same.

use super::lines::{LineReader, LineSplitter, RawLine};
use super::messages::{MessageAssembler, MessageSink, OomMessage};
use super::prefilter::WORDS;
use super::report::OomReport;
use super::wording::CompactLine;
use crate::units::Rank;

/// Finds out-of-memory messages in a byte stream, however it is cut into chunks.
///
/// A message is reported when its line has ended, or, where the line stops within the message
/// and the next may go on with it, with the line that ends it. Memory is bounded: a line, the end
/// of the one before, a few unfinished messages. Outcomes are as far as the message's own line
/// says; whether a program went on is only known later, to those who see its exit status, or to
/// [`explain`](super::explain).
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
    /// A scanner at the start of a stream.
    pub fn new() -> Scanner {
        Scanner {
            lines: LineSplitter::of(&WORDS),
            messages: MessageAssembler::default(),
        }
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8], found: &mut dyn FnMut(OomReport)) {
        self.feed_into(bytes, &mut ReportSink(found));
    }

    /// The stream has ended: what has begun is all there is of it.
    pub fn finish(&mut self, found: &mut dyn FnMut(OomReport)) {
        self.finish_into(&mut ReportSink(found));
    }

    /// The stream is quiet: reports a message that waits for a next line, as it stands.
    ///
    /// For a program that prints an unfinished message and then hangs. If the rest comes after
    /// all, it is no longer joined.
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

/// Lines read by the messages on behalf of a sink.
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

/// The sink of a live stream.
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
