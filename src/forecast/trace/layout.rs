//! Where the blocks that a traced step found alive lay in the allocator's segments: a replay that begins with them as they
//! lay reserves what the run reserved.
//!
//! As text: each segment, by address, as `+SIZE` (with `@STREAM` where it is not the first stream), then its blocks by
//! address: `.` is the next carried block at its rounded size, a number the next one at another size, a number with a minus a free
//! stretch. All sizes are bytes.

use super::TraceBlock;

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
    /// The next carried block, with the bytes it takes.
    Carried(u64),
    /// So many free bytes.
    Free(u64),
}

impl BlockLayout {
    /// The layout of these blocks; `None` where the text is none, or one of other blocks.
    pub fn read(text: &str, carried: &[TraceBlock]) -> Option<BlockLayout> {
        let mut requests = carried.iter();
        let mut segments: Vec<LaidSegment> = Vec::new();
        for word in text.split_whitespace() {
            if let Some(segment) = word.strip_prefix('+') {
                let (size, stream) = segment.split_once('@').unwrap_or((segment, "0"));
                segments.push(LaidSegment {
                    size: size.parse().ok()?,
                    stream: stream.parse().ok()?,
                    blocks: Vec::new(),
                });
                continue;
            }
            let block = match word.strip_prefix('-') {
                Some(free) => LaidBlock::Free(free.parse().ok()?),
                None => {
                    let request = requests.next()?.size.max(1);
                    LaidBlock::Carried(match word {
                        "." => request.checked_next_multiple_of(ROUNDED_TO)?,
                        taken => taken.parse().ok()?,
                    })
                }
            };
            segments.last_mut()?.blocks.push(block);
        }
        let all = (segments.iter()).try_fold(0, |sum: u64, segment| sum.checked_add(segment.size));
        let is_whole = all? <= MOST && segments.iter().all(LaidSegment::is_filled);
        let holds_all = requests.next().is_none() && !segments.is_empty();
        (is_whole && holds_all).then_some(BlockLayout { segments })
    }
}

impl LaidSegment {
    fn is_filled(&self) -> bool {
        let sizes = self.blocks.iter().map(|block| block.size());
        let taken = sizes
            .map(|size| Some(size).filter(|size| *size > 0))
            .try_fold(0, |sum: u64, size| sum.checked_add(size?));
        taken == Some(self.size)
    }
}

impl LaidBlock {
    /// Bytes.
    pub fn size(self) -> u64 {
        match self {
            LaidBlock::Carried(size) | LaidBlock::Free(size) => size,
        }
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
        BlockLayout::read(text, &carried(sizes))
    }

    #[test]
    fn a_segment_is_filled_by_its_blocks() {
        let layout = read("+2048 . -512 1024 +512@1 .", &[100, 700, 512]).unwrap();
        assert_eq!(
            layout.segments[0].blocks,
            [
                LaidBlock::Carried(512),
                LaidBlock::Free(512),
                LaidBlock::Carried(1024)
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
        for bad in ["", ".", "+", "1+1", "+1 y", "+1@ .", "-"] {
            assert_eq!(read(bad, &[1]), None, "{bad}");
            assert_eq!(read(bad, &[]), None, "{bad}");
        }
    }
}
