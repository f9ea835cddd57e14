//! A message that may go on in the next line: its lines so far, and what may join them.

use crate::oom::compact::find;
use crate::oom::prefix::behind_shared_prefix;
use crate::oom::table::WordingTable;
use crate::oom::wording::{CompactLine, Continuation, OomReading};
use crate::oom::{allocator, mps, nccl, tensor};
use crate::units::Rank;

/// Lines that a wrapped message of an allocator can have; narrower than 40 columns nobody wraps.
const MOST_LINES: u32 = 24;

/// NCCL's two warnings stand side by side, with a blank or an INFO line between them.
const MOST_LINES_NCCL: u32 = 6;

/// Lines that any other message can be wrapped to.
pub(super) const MOST_LINES_OTHER: u32 = 4;

/// Lines of others that may stand between two lines of a message.
const MOST_BETWEEN: u32 = 8;

/// Bytes of a message that is being joined.
const LONGEST_JOINED: usize = 8 * 1024;

/// Lines that are read as one.
#[derive(Debug)]
pub(super) struct JoinedLines {
    pub rank: Option<Rank>,
    /// The first one's number.
    pub number: u64,
    plain: String,
    previous: String,
    count: u32,
}

impl JoinedLines {
    pub(super) fn of(rank: Option<Rank>, number: u64, first: &CompactLine) -> JoinedLines {
        JoinedLines {
            rank,
            number,
            plain: first.plain.clone(),
            previous: first.previous.clone(),
            count: 1,
        }
    }

    /// The line without the prefix that it shares with these.
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

/// A message whose end has not come.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub lines: JoinedLines,
    pub found: OomReading,
    pub more: Continuation,
    /// Lines of others since its last one.
    pub between: u32,
    pub after_traceback: bool,
}

impl Unfinished {
    /// Takes the message's next line; says whether more can come.
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

    /// Whether its next line may still come behind one more line, of this rank, that is none of it.
    pub(super) fn waits_behind(&mut self, rank: Option<Rank>) -> bool {
        self.between += 1;
        match self.more {
            Continuation::Allocator => self.lines.rank != rank && self.between <= MOST_BETWEEN,
            // NCCL prefixes its lines itself; the next one is there or there is none.
            Continuation::Nccl | Continuation::Tensor => false,
        }
    }
}

fn read_allocator(text: &CompactLine) -> Option<OomReading> {
    allocator::read_any(text, WordingTable::get().allocator_heads())
}

/// The line, joined to the end of the one before where the message's head itself was wrapped:
/// `… CUDA out` / `of memory. Tried to allocate …`.
pub(super) fn with_wrapped_head(text: CompactLine) -> CompactLine {
    let goes_on =
        find(&text.compact, "Triedtoallocate").is_some_and(|at| at < "CUDAoutofmemory.".len());
    if goes_on && !text.previous.is_empty() && read_allocator(&text).is_none() {
        CompactLine::new(format!("{}{}", text.previous, text.plain), "")
    } else {
        text
    }
}
