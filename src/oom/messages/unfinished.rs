//! A message that may continue in the next line.

use crate::oom::compact::find;
use crate::oom::prefix::behind_shared_prefix;
use crate::oom::table::WordingTable;
use crate::oom::wording::{CompactLine, Continuation, OomReading};
use crate::oom::{allocator, mps, nccl, tensor};
use crate::units::Rank;

/// Lines of an allocator's wrapped message; nobody wraps at less than 40 columns.
const MOST_LINES: u32 = 24;

/// NCCL prints two warnings, with at most an empty or an INFO line between them.
const MOST_LINES_NCCL: u32 = 6;

/// Lines of any other message.
pub(super) const MOST_LINES_OTHER: u32 = 4;

/// Other lines between two lines of a message.
const MOST_BETWEEN: u32 = 8;

/// Bytes of a joined message.
const LONGEST_JOINED: usize = 8 * 1024;

#[derive(Debug)]
pub(super) struct JoinedLines {
    pub rank: Option<Rank>,
    /// Of the first line.
    pub number: u64,
    plain: String,
    previous: String,
    count: u32,
}

impl JoinedLines {
    pub(super) fn new(rank: Option<Rank>, number: u64, first: &CompactLine) -> JoinedLines {
        JoinedLines {
            rank,
            number,
            plain: first.plain.clone(),
            previous: first.previous.clone(),
            count: 1,
        }
    }

    /// The line without a prefix that it shares with these.
    pub(super) fn behind_prefix<'l>(&self, line: &'l CompactLine) -> &'l str {
        behind_shared_prefix(&self.plain, &line.plain)
    }

    pub(super) fn append(&mut self, line: &CompactLine) {
        let line = self.behind_prefix(line);
        self.plain.push('\n');
        self.plain.push_str(line);
        self.count += 1;
    }

    pub(super) fn joined(&self) -> CompactLine {
        CompactLine::new(self.plain.clone(), &self.previous)
    }

    pub(super) fn may_grow(&self, most: u32) -> bool {
        self.count < most && self.plain.len() < LONGEST_JOINED
    }
}

/// A message that may continue.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub lines: JoinedLines,
    pub found: OomReading,
    pub more: Continuation,
    /// Other lines since its last one.
    pub between: u32,
    pub after_traceback: bool,
}

impl Unfinished {
    /// Takes the next line; returns whether more can follow.
    pub(super) fn append(&mut self, text: &CompactLine) -> bool {
        self.lines.append(text);
        let joined = self.lines.joined();
        let (read, most) = match self.more {
            Continuation::Allocator => {
                let read = read_allocator(&joined).or_else(|| mps::read(&joined));
                (read, MOST_LINES)
            }
            Continuation::Nccl => (nccl::read(&joined), MOST_LINES_NCCL),
            Continuation::Tensor => (tensor::read(&joined), MOST_LINES_OTHER),
        };
        if let Some(read) = read {
            self.found = read;
        }
        self.found.more.is_some() && self.lines.may_grow(most)
    }

    /// Whether it may still continue after another line, of this rank.
    pub(super) fn waits_behind(&mut self, rank: Option<Rank>) -> bool {
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
pub(super) fn with_wrapped_head(text: CompactLine) -> CompactLine {
    let goes_on =
        find(&text.compact, "Triedtoallocate").is_some_and(|at| at < "CUDAoutofmemory.".len());
    if goes_on && !text.previous.is_empty() && read_allocator(&text).is_none() {
        CompactLine::new(format!("{}{}", text.previous, text.plain), "")
    } else {
        text
    }
}
