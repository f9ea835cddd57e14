//! A trace whose sizes are functions of the batch, as a rehearsal gives it: the words of a trace, where `x512` stands
//! for so many bytes for each sample and `xx4` for so many for each pair of them; `x3/2` are three for two samples,
//! and a sum has a plus between its parts (`xx4+x-4`). `4096@2` is on stream 2. A size that shrinks while the batch grows is a contradiction:
//! such a template is none.

use super::{BadTrace, LEFT_OUT, TraceBlock, TraceEvent};
use std::str::FromStr;

/// A trace for every batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceTemplate {
    words: Vec<TemplateWord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateWord {
    Alloc(TemplateSize, u64),
    Workspace(TemplateSize, u64),
    FreeAgo(usize),
}

/// Bytes that are there always, for each sample, and for each pair of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TemplateSize {
    fixed: ShareOfBatch,
    each: ShareOfBatch,
    pair: ShareOfBatch,
}

/// So many bytes for so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShareOfBatch {
    bytes: i64,
    of: u32,
}

impl Default for ShareOfBatch {
    fn default() -> ShareOfBatch {
        ShareOfBatch { bytes: 0, of: 1 }
    }
}

impl ShareOfBatch {
    fn times(self, count: i128) -> i128 {
        let (bytes, of) = (i128::from(self.bytes), i128::from(self.of));
        let product = bytes.saturating_mul(count);
        product.div_euclid(of) + i128::from(product.rem_euclid(of) > 0)
    }
}

impl TemplateSize {
    fn at(self, batch: u64) -> u64 {
        u64::try_from(self.sum(batch).max(0)).unwrap_or(u64::MAX)
    }

    fn block(self, batch: u64, stream: u64) -> TraceBlock {
        let size = self.at(batch);
        TraceBlock { size, stream }
    }

    fn sum(self, batch: u64) -> i128 {
        let batch = i128::from(batch);
        let pairs = batch.saturating_mul(batch);
        self.fixed.times(1) + self.each.times(batch) + self.pair.times(pairs)
    }

    /// Whether a larger batch never needs less of it.
    fn grows(self) -> bool {
        [1, 2, 3, 1 << 20]
            .windows(2)
            .all(|batches| self.sum(batches[0]) <= self.sum(batches[1]))
    }
}

impl TraceTemplate {
    /// The events for a batch. Allocations are numbered from `first` on.
    pub fn events(&self, batch: u64, first: usize) -> Vec<TraceEvent> {
        let mut allocated = first;
        let made = self.words.iter().map(|word| match *word {
            TemplateWord::FreeAgo(ago) => TraceEvent::Free(allocated - ago),
            TemplateWord::Alloc(size, stream) => {
                allocated += 1;
                TraceEvent::Alloc(size.block(batch, stream))
            }
            TemplateWord::Workspace(size, stream) => {
                allocated += 1;
                TraceEvent::Workspace(size.block(batch, stream))
            }
        });
        made.collect()
    }
}

impl FromStr for TraceTemplate {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<TraceTemplate, BadTrace> {
        let mut allocated = 0;
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let bad = || BadTrace(word.into());
            if word == LEFT_OUT {
                let taken = match words.pop() {
                    Some(TemplateWord::Alloc(size, stream)) => {
                        TemplateWord::Workspace(size, stream)
                    }
                    _ => return Err(bad()),
                };
                words.extend([taken, TemplateWord::FreeAgo(1)]);
                continue;
            }
            if let Some(ago) = word.strip_prefix('-') {
                let ago = ago.parse().ok().filter(|ago| (1..=allocated).contains(ago));
                words.push(TemplateWord::FreeAgo(ago.ok_or_else(bad)?));
                continue;
            }
            allocated += 1;
            let (size_of, stream) = word.split_once('@').unwrap_or((word, "0"));
            let size = size(size_of).filter(|size| size.grows()).ok_or_else(bad)?;
            words.push(TemplateWord::Alloc(
                size,
                stream.parse().map_err(|_| bad())?,
            ));
        }
        Ok(TraceTemplate { words })
    }
}

fn size(word: &str) -> Option<TemplateSize> {
    let mut size = TemplateSize::default();
    for term in word.split('+') {
        let (part, number) = match (term.strip_prefix("xx"), term.strip_prefix('x')) {
            (Some(number), _) => (&mut size.pair, number),
            (None, Some(number)) => (&mut size.each, number),
            (None, None) => (&mut size.fixed, term),
        };
        let (bytes, of) = number.split_once('/').unwrap_or((number, "1"));
        *part = ShareOfBatch {
            bytes: bytes.parse().ok()?,
            of: of.parse().ok().filter(|of| *of > 0)?,
        };
    }
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::trace::Trace;

    fn at(text: &str, batch: u64) -> String {
        let template: TraceTemplate = text.parse().unwrap();
        let trace = Trace {
            carried: Vec::new(),
            events: template.events(batch, 0),
            ..Trace::default()
        };
        trace.to_string()
    }

    #[test]
    fn a_template_for_a_batch() {
        assert_eq!(at("x512 4096 -2 x8 -1 xx3", 4), "| 2048 4096 -2 32 -1 48");
        // A queue beside the batch, half of it, pairs without those of one with itself.
        assert_eq!(at("x4+100 x1/2 xx4+x-4", 7), "| 128 4 168");
        assert_eq!(at("4096@2 x8@1 -2", 7), "| 4096@2 56@1 -2");
        assert_eq!(at("x8 x16 -1? -2", 2), "| 16 32 -1? -2");
        for bad in [
            "-1", "x", "xx", "xxx4", "5 -2", "x5 -0", "5x", "x1/0", "x1/", "+", "5@", "@1", "5@x",
            "-1?", "5 -1 -1?",
        ] {
            assert!(bad.parse::<TraceTemplate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_smaller_batch_that_needs_more_is_a_contradiction() {
        for bad in ["x-512+4096000", "512 x-4", "xx1+x-4000000"] {
            assert!(bad.parse::<TraceTemplate>().is_err(), "{bad}");
        }
    }
}
