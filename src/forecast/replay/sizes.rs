//! The sizes that the caching allocator goes by (constants and rounding of CUDACachingAllocator.cpp).

const MIB: u64 = 1 << 20;

/// Every block is a multiple of this (`kMinBlockSize`).
pub(super) const MIN_BLOCK: u64 = 512;
/// The largest request of the small pool (`kSmallSize`).
pub(super) const SMALL_REQUEST: u64 = MIB;
/// A segment of the small pool, and its granule where segments are expandable (`kSmallBuffer`).
pub(super) const SMALL_SEGMENT: u64 = 2 * MIB;
/// From here on a request gets a segment of its own (`kMinLargeAlloc`).
const MIN_OWN_SEGMENT: u64 = 10 * MIB;
/// Segments of their own are a multiple of this (`kRoundLarge`).
const SEGMENT_MULTIPLE: u64 = 2 * MIB;
/// A segment for requests between 1 and 10 MiB, and the large pool's granule where segments are
/// expandable (`kLargeBuffer`; `large_segment_size_mb` since torch 2.12).
pub(super) const LARGE_SEGMENT: u64 = 20 * MIB;

/// What the driver is asked for where no cached block fits a rounded request.
pub(super) fn segment_size(size: u64, large_segment: u64) -> u64 {
    if size <= SMALL_REQUEST {
        SMALL_SEGMENT
    } else if size < MIN_OWN_SEGMENT {
        large_segment
    } else {
        size.next_multiple_of(SEGMENT_MULTIPLE)
    }
}

/// Rounds up to the next of `divisions` equal parts between two powers of two
/// (`roundup_power2_next_division`); `divisions` is a power of two greater than 1.
pub(super) fn next_division(size: u64, divisions: u64) -> u64 {
    if size.is_power_of_two() {
        return size;
    }
    let floor = 1 << size.ilog2();
    let part = floor >> divisions.ilog2();
    if part == 0 {
        return floor << 1;
    }
    size.next_multiple_of(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_no_cached_block_fits() {
        for (size, segment) in [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
        ] {
            assert_eq!(segment_size(size, LARGE_SEGMENT), segment, "{size}");
        }
    }

    /// The example of PyTorch's documentation: with 4 divisions 1200 becomes 1280.
    #[test]
    fn parts_between_powers_of_two() {
        assert_eq!(next_division(1200, 4), 1280);
        assert_eq!(next_division(1024, 4), 1024);
        assert_eq!(next_division(1537, 2), 2048);
    }
}
