//! Expandable segments: one long stretch of addresses for each pool and stream, mapped a granule at
//! a time (2 MiB in the small pool, 20 MiB in the large one). Which blocks lie on it is the
//! allocator's business.

use std::collections::BTreeSet;

/// A segment's place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentId(pub usize);

/// Addresses, and which granules of them are mapped.
#[derive(Debug)]
pub(super) struct ExpandableSegment {
    pub address: u64,
    granule: u64,
    mapped: BTreeSet<u64>,
}

impl ExpandableSegment {
    pub(super) fn new(address: u64, granule: u64) -> ExpandableSegment {
        ExpandableSegment {
            address,
            granule,
            mapped: BTreeSet::new(),
        }
    }

    /// What mapping `size` bytes from `address` on would take: the bytes, and where they end.
    pub(super) fn to_map(&self, address: u64, size: u64) -> (u64, u64) {
        let granules = self.touched(address, size);
        let new = granules.clone().filter(|g| !self.mapped.contains(g));
        (
            new.count() as u64 * self.granule,
            self.address + granules.end * self.granule,
        )
    }

    /// Maps them.
    pub(super) fn map(&mut self, address: u64, size: u64) {
        let granules = self.touched(address, size);
        self.mapped.extend(granules);
    }

    /// Unmaps the granules that lie wholly within a stretch: from where, and how many bytes.
    pub(super) fn unmap(&mut self, address: u64, size: u64) -> (u64, u64) {
        let first = (address - self.address).div_ceil(self.granule);
        let end = (address + size - self.address) / self.granule;
        if first >= end {
            return (address, 0);
        }
        for granule in first..end {
            self.mapped.remove(&granule);
        }
        (
            self.address + first * self.granule,
            (end - first) * self.granule,
        )
    }

    /// The granules that a stretch touches.
    fn touched(&self, address: u64, size: u64) -> std::ops::Range<u64> {
        let first = (address - self.address) / self.granule;
        first..(address + size - self.address).div_ceil(self.granule)
    }
}
