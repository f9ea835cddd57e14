//! A trace: the allocations and frees of a stretch of a run, as torch's own history has them or as a
//! rehearsal on fake tensors gives them.
//!
//! As text, for recordings, a trace is words with spaces between them: `4096` allocates so many
//! bytes, `4096@7` does so on stream 7, `-3` frees what was allocated three allocations ago, `-1?` does so of a block that
//! is only taken where there is room for it, `!` is `torch.cuda.empty_cache()`. What was alive when the trace began stands first, up to a `|`; behind
//! a second `|` may stand where the driver put each segment.

mod layout;
mod template;

pub use layout::{BlockLayout, LaidBlock, LaidSegment};
pub use template::TraceTemplate;

use crate::event::StepTrace;
use std::fmt;
use std::str::FromStr;

/// That the block before is given back at once, and only taken where there is room for it.
const LEFT_OUT: &str = "-1?";

/// One event of the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// A block was handed out.
    Alloc(TraceBlock),
    /// A workspace of cuDNN's was handed out, which is given back before anything else happens. Where there is no memory for it,
    /// it goes on with an algorithm that needs less. It is numbered as the others.
    Workspace(TraceBlock),
    /// The block of this allocation went back to its pool (`free_completed`). Allocations are
    /// numbered from 0, those of [`Trace::carried`] first.
    Free(usize),
    /// The program called `torch.cuda.empty_cache`.
    EmptyCache,
}

/// What was asked of the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceBlock {
    /// Bytes that were requested.
    pub size: u64,
    /// The CUDA stream; 0 is the default one.
    pub stream: u64,
}

/// A stretch of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The blocks that were alive when it began, by address.
    pub carried: Vec<TraceBlock>,
    /// What happened then.
    pub events: Vec<TraceEvent>,
    /// Where the driver put each new segment, in order, where that was recorded. It matters where
    /// several free blocks have the size that is searched for: the lowest is taken.
    pub segments: Vec<u64>,
    /// How the blocks that were alive when it began lay, where that was recorded.
    pub layout: Option<BlockLayout>,
}

impl Trace {
    /// The trace of a step of a run, with the layout that it began with. `None` where it cannot be read.
    pub fn of_step(step: &StepTrace) -> Option<Trace> {
        let trace: Trace = step.trace.parse().ok()?;
        Some(Trace {
            layout: BlockLayout::read(&step.layout, &trace.carried),
            ..trace
        })
    }

    /// The same of a model with convolutions, where a block that is freed before anything else happens is a workspace.
    pub fn with_workspaces(mut self) -> Trace {
        let mut number = self.carried.len();
        for at in 0..self.events.len() {
            let is_freed_at_once = self.events.get(at + 1) == Some(&TraceEvent::Free(number));
            match self.events[at] {
                TraceEvent::Alloc(block) => {
                    if is_freed_at_once {
                        self.events[at] = TraceEvent::Workspace(block);
                    }
                    number += 1;
                }
                TraceEvent::Workspace(_) => number += 1,
                TraceEvent::Free(_) | TraceEvent::EmptyCache => {}
            }
        }
        self
    }

    /// Every allocation: those carried in, then those of the events.
    pub fn allocations(&self) -> impl Iterator<Item = TraceBlock> {
        let made = self.events.iter().filter_map(|event| match event {
            TraceEvent::Alloc(block) | TraceEvent::Workspace(block) => Some(*block),
            TraceEvent::Free(_) | TraceEvent::EmptyCache => None,
        });
        self.carried.iter().copied().chain(made)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.carried {
            write!(f, "{block} ")?;
        }
        f.write_str("|")?;
        let mut allocated = self.carried.len();
        let mut may_be_left_out = None;
        for event in &self.events {
            match event {
                TraceEvent::Alloc(block) => {
                    allocated += 1;
                    write!(f, " {block}")?;
                }
                TraceEvent::Workspace(block) => {
                    may_be_left_out = Some(allocated);
                    allocated += 1;
                    write!(f, " {block}")?;
                }
                TraceEvent::Free(allocation) if may_be_left_out == Some(*allocation) => {
                    write!(f, " {LEFT_OUT}")?;
                }
                TraceEvent::Free(allocation) => write!(f, " -{}", allocated - allocation)?,
                TraceEvent::EmptyCache => f.write_str(" !")?,
            }
        }
        if !self.segments.is_empty() {
            f.write_str(" |")?;
        }
        for address in &self.segments {
            write!(f, " {address}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TraceBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stream {
            0 => write!(f, "{}", self.size),
            stream => write!(f, "{}@{stream}", self.size),
        }
    }
}

impl FromStr for Trace {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<Trace, BadTrace> {
        let (carried, events) = text.split_once('|').unwrap_or(("", text));
        let (events, segments) = events.split_once('|').unwrap_or((events, ""));
        let address = |word: &str| word.parse().map_err(|_| BadTrace(word.into()));
        let mut trace = Trace {
            carried: carried
                .split_whitespace()
                .map(block)
                .collect::<Result<_, _>>()?,
            events: Vec::new(),
            segments: segments
                .split_whitespace()
                .map(address)
                .collect::<Result<_, _>>()?,
            layout: None,
        };
        let mut allocated = trace.carried.len();
        for word in events.split_whitespace() {
            let event = match word.strip_prefix('-') {
                _ if word == "!" => TraceEvent::EmptyCache,
                _ if word == LEFT_OUT => {
                    let taken = match trace.events.pop() {
                        Some(TraceEvent::Alloc(block)) => block,
                        _ => return Err(BadTrace(word.into())),
                    };
                    trace.events.push(TraceEvent::Workspace(taken));
                    TraceEvent::Free(allocated - 1)
                }
                Some(ago) => {
                    let ago: usize = ago.parse().map_err(|_| BadTrace(word.into()))?;
                    let allocation = allocated.checked_sub(ago).filter(|_| ago > 0);
                    TraceEvent::Free(allocation.ok_or_else(|| BadTrace(word.into()))?)
                }
                None => {
                    allocated += 1;
                    TraceEvent::Alloc(block(word)?)
                }
            };
            trace.events.push(event);
        }
        Ok(trace)
    }
}

fn block(word: &str) -> Result<TraceBlock, BadTrace> {
    let (size, stream) = word.split_once('@').unwrap_or((word, "0"));
    match (size.parse(), stream.parse()) {
        (Ok(size), Ok(stream)) => Ok(TraceBlock { size, stream }),
        _ => Err(BadTrace(word.into())),
    }
}

/// A word that is no event of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTrace(pub String);

impl fmt::Display for BadTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} isn't an event of a trace", self.0)
    }
}

impl std::error::Error for BadTrace {}

/// More than any step that is sent has; a recording may say anything.
const MOST_BLOCKS: usize = 1 << 20;

/// `2*40 0 1` as an origin for each of 42 blocks: its place in the list of `known` ones.
///
/// # Errors
///
/// Where a word is no such number.
pub fn places_of(text: &str, known: usize) -> Result<Vec<Option<usize>>, BadTrace> {
    let mut origins = Vec::new();
    for word in text.split_whitespace() {
        let bad = || BadTrace(word.into());
        let (number, times) = word.split_once('*').unwrap_or((word, "1"));
        let number: usize = number.parse().map_err(|_| bad())?;
        let times: usize = times.parse().map_err(|_| bad())?;
        if number > known || times > MOST_BLOCKS {
            return Err(bad());
        }
        origins.extend(std::iter::repeat_n(number.checked_sub(1), times));
        if origins.len() > MOST_BLOCKS {
            return Err(bad());
        }
    }
    Ok(origins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_text_and_back() {
        let text = "512 4096@7 | 1048576 -1 -3 ! 20 -1 | 33554432 0";
        let trace: Trace = text.parse().unwrap();
        assert_eq!(trace.carried.len(), 2);
        assert_eq!(trace.events[1], TraceEvent::Free(2));
        assert_eq!(trace.events[2], TraceEvent::Free(0));
        assert_eq!(trace.to_string(), text);
    }

    #[test]
    fn words_that_are_no_events() {
        for bad in [
            "| x",
            "| -1",
            "| 5 -0",
            "| 5 -9",
            "a | 5",
            "| 5@x",
            "| -",
            "| 99999999999999999999",
        ] {
            assert!(bad.parse::<Trace>().is_err(), "{bad}");
        }
    }
}
