//! The allocator settings that change where a block goes, as `PYTORCH_CUDA_ALLOC_CONF` gives them.
//! Keys that change nothing here (pinned memory, locks) are passed over; what cannot be read keeps
//! its default, as the text was checked before torch ever saw it.

use super::blocks::{LARGE_SEGMENT, MIN_BLOCK, next_division};

const MIB: u64 = 1 << 20;
/// Sizes from 1 MiB to 64 GiB, one entry for each power of two (`kRoundUpPowerOfTwoIntervals`).
const INTERVALS: usize = 16;

/// Settings of one allocator.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocatorSettings {
    /// `expandable_segments`.
    pub expandable_segments: bool,
    /// `max_split_size_mb` in bytes; `u64::MAX` where blocks of any size may be split.
    pub max_split_size: u64,
    /// `garbage_collection_threshold`, a share of the cap; 0 where it is off.
    pub garbage_collection_threshold: f64,
    /// `max_non_split_rounding_mb` in bytes (torch 2.7 and later; 20 MiB before).
    pub max_non_split_rounding: u64,
    /// `large_segment_size_mb` in bytes (torch 2.12 and later; 20 MiB before).
    pub large_segment: u64,
    /// `roundup_power2_divisions` for sizes from 1 MiB on by powers of two; 0 where it is off.
    pub roundup_divisions: [u64; INTERVALS],
}

impl Default for AllocatorSettings {
    fn default() -> Self {
        AllocatorSettings {
            expandable_segments: false,
            max_split_size: u64::MAX,
            garbage_collection_threshold: 0.0,
            max_non_split_rounding: LARGE_SEGMENT,
            large_segment: LARGE_SEGMENT,
            roundup_divisions: [0; INTERVALS],
        }
    }
}

impl AllocatorSettings {
    /// Settings from the variable's text: `max_split_size_mb:128,expandable_segments:True`.
    pub fn parse(text: &str) -> AllocatorSettings {
        let mut settings = AllocatorSettings::default();
        for (key, value) in pairs(text) {
            let mebibytes = value.parse::<u64>().ok().and_then(|n| n.checked_mul(MIB));
            match key {
                "expandable_segments" => settings.expandable_segments = value == "True",
                "max_split_size_mb" => settings.max_split_size = mebibytes.unwrap_or(u64::MAX),
                "garbage_collection_threshold" => {
                    settings.garbage_collection_threshold = value.parse().unwrap_or(0.0);
                }
                "max_non_split_rounding_mb" => {
                    settings.max_non_split_rounding = mebibytes.unwrap_or(LARGE_SEGMENT);
                }
                "large_segment_size_mb" => {
                    settings.large_segment = mebibytes.unwrap_or(LARGE_SEGMENT);
                }
                "roundup_power2_divisions" => settings.roundup_divisions = divisions(value),
                _ => {}
            }
        }
        settings
    }

    /// What a request takes (`round_size`).
    pub(super) fn round(&self, size: u64) -> u64 {
        if size < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let divisions = self.roundup_divisions[interval(size)];
        if divisions > 1 && size > MIN_BLOCK * divisions {
            next_division(size, divisions)
        } else {
            size.next_multiple_of(MIN_BLOCK)
        }
    }
}

/// Which entry of [`AllocatorSettings::roundup_divisions`] a size falls under.
fn interval(size: u64) -> usize {
    (size.max(MIB).ilog2() - MIB.ilog2()).min(INTERVALS as u32 - 1) as usize
}

/// `KEY:VALUE` with commas between them; a value in brackets holds commas of its own.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut depth = 0;
    text.split(move |c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .filter_map(|pair| pair.split_once(':'))
    .map(|(key, value)| (key.trim(), value.trim()))
}

/// `4`, or `[256:1,512:2,>:8]`: sizes below the first have its value, those after the last that of `>`.
fn divisions(value: &str) -> [u64; INTERVALS] {
    let mut all = [0; INTERVALS];
    let Some(list) = value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) else {
        all.fill(value.parse().unwrap_or(0));
        return all;
    };
    let mut last = None;
    for (size, parts) in list.split(',').filter_map(|pair| pair.split_once(':')) {
        let parts = parts.trim().parse().unwrap_or(0);
        match size.trim().parse::<u64>() {
            Ok(mebibytes) => {
                let at = interval(mebibytes.saturating_mul(MIB));
                if last.is_none() {
                    all[..at].fill(parts);
                }
                all[at] = parts;
                last = Some(at);
            }
            Err(_) => all[last.unwrap_or(0)..].fill(parts),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_from_the_variable() {
        let settings = AllocatorSettings::parse(
            "max_split_size_mb:128, expandable_segments:True,garbage_collection_threshold:0.8,\
             roundup_power2_divisions:[256:1,512:2,1024:4,>:8],pinned_num_register_threads:2",
        );
        assert!(settings.expandable_segments);
        assert_eq!(settings.max_split_size, 128 * MIB);
        assert_eq!(settings.garbage_collection_threshold, 0.8);
        assert_eq!(
            settings.roundup_divisions[..10],
            [1; 9].map(|_| 1)[..]
                .iter()
                .copied()
                .chain([2])
                .collect::<Vec<_>>()
        );
        assert_eq!(settings.roundup_divisions[10..], [8; 6]);
    }

    #[test]
    fn rounding() {
        let plain = AllocatorSettings::default();
        assert_eq!(plain.round(0), 512);
        assert_eq!(plain.round(1), 512);
        assert_eq!(plain.round(513), 1024);
        let divided = AllocatorSettings::parse("roundup_power2_divisions:4");
        assert_eq!(
            divided.round(1200),
            1536,
            "below 512 bytes a part the plain rule holds"
        );
        assert_eq!(divided.round(5 * MIB + 1), 6 * MIB);
    }
}
