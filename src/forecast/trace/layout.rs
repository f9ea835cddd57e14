//! Where the blocks that a traced step found alive lay in the allocator's segments: a replay that begins with them as they
//! lay reserves what the run reserved.
//!
//! As text: each segment, by address, as `+SIZE` (with `@STREAM` for others than the first), and behind it its blocks by address:
//! `.` is the next carried block at its rounded size, a number the next one at another size, a number with a minus a free
//! stretch. All sizes are bytes.

use super::{BadTrace, TraceBlock};
use std::str::FromStr;

/// To multiples of this a request is rounded (`kMinBlockSize`).
const ROUNDED_TO: u64 = 512;
/// More than any GPU has.
const MOST: u64 = 1 << 50;

/// The segments of a moment, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockLayout {
    pub segments: Vec<LaidSegment>,
}

/// One segment of the driver's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaidSegment {
    pub size: u64,
    pub stream: u64,
    /// By address; they fill it.
    pub blocks: Vec<LaidBlock>,
}

/// A block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaidBlock {
    /// The next carried block, with the bytes it takes; `None` is its request, rounded.
    Carried(Option<u64>),
    /// So many free bytes.
    Free(u64),
}

impl BlockLayout {
    /// Where each carried block takes its rounded request, that size is filled in; `None` where this is no layout of these
    /// blocks.
    pub fn of(self, carried: &[TraceBlock]) -> Option<BlockLayout> {
        let mut requests = carried.iter();
        let mut segments = self.segments;
        let all = (segments.iter()).try_fold(0, |sum: u64, segment| sum.checked_add(segment.size));
        all.filter(|all| *all <= MOST)?;
        for segment in &mut segments {
            let mut taken: u64 = 0;
            for block in &mut segment.blocks {
                let size = match block {
                    LaidBlock::Carried(size) => {
                        let request = requests.next()?;
                        let rounded = request.size.max(1).checked_next_multiple_of(ROUNDED_TO);
                        *size.get_or_insert(rounded?)
                    }
                    LaidBlock::Free(size) => *size,
                };
                taken = taken.checked_add(size).filter(|_| size > 0)?;
            }
            (taken == segment.size).then_some(())?;
        }
        requests
            .next()
            .is_none()
            .then_some(BlockLayout { segments })
    }
}

impl FromStr for BlockLayout {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<BlockLayout, BadTrace> {
        let mut layout = BlockLayout::default();
        for word in text.split_whitespace() {
            let bad = || BadTrace(word.into());
            let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
            if let Some(size) = word.strip_prefix('+') {
                let (size, stream) = size.split_once('@').unwrap_or((size, "0"));
                layout.segments.push(LaidSegment {
                    size: number(size)?,
                    stream: number(stream)?,
                    blocks: Vec::new(),
                });
                continue;
            }
            let block = match (word, word.strip_prefix('-')) {
                (".", _) => LaidBlock::Carried(None),
                (_, Some(free)) => LaidBlock::Free(number(free)?),
                (taken, None) => LaidBlock::Carried(Some(number(taken)?)),
            };
            let segment = layout.segments.last_mut().ok_or_else(bad)?;
            segment.blocks.push(block);
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(sizes: &[u64]) -> Vec<TraceBlock> {
        let block = |size: &u64| TraceBlock {
            size: *size,
            stream: 0,
        };
        sizes.iter().map(block).collect()
    }

    fn read(text: &str, sizes: &[u64]) -> Option<BlockLayout> {
        text.parse::<BlockLayout>().ok()?.of(&carried(sizes))
    }

    #[test]
    fn a_segment_is_filled_by_its_blocks() {
        let layout = read("+2048 . -512 1024 +512@1 .", &[100, 700, 512]).unwrap();
        assert_eq!(
            layout.segments[0].blocks,
            [
                LaidBlock::Carried(Some(512)),
                LaidBlock::Free(512),
                LaidBlock::Carried(Some(1024))
            ]
        );
        assert_eq!(layout.segments[1].stream, 1);
    }

    #[test]
    fn what_does_not_fill_its_segment_or_is_of_other_blocks_is_no_layout() {
        for (text, sizes) in [
            ("+2048 . -512", &[100][..]),
            ("+512 .", &[100, 100]),
            ("+1024 . .", &[100]),
            ("+512 -512 -0", &[]),
            ("+18446744073709551615 -18446744073709551615", &[]),
            ("+1024 18446744073709551615 -1025", &[1]),
        ] {
            assert_eq!(read(text, sizes), None, "{text}");
        }
        for bad in [".", "+", "1+1", "+1 y", "+1@ .", "-"] {
            assert!(bad.parse::<BlockLayout>().is_err(), "{bad}");
        }
    }
}
