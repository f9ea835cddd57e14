//! What a training needs, as a type of its own: neither what it has allocated nor what it reserves, which are other figures of
//! the same run and stand beside it. Only here is one made of the others, so no two places can mean something else by "needs".

use super::estimate::Estimate;
use crate::units::Bytes;

/// The smallest memory that PyTorch's allocator can run a training in: what is allocated at the peak, and what lies between it
/// and cannot be given back. Where there is more, more is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need(Estimate);

impl Need {
    /// By a replay in less and less room, or by an estimate of that.
    pub const fn of(room: Estimate) -> Need {
        Need(room)
    }

    /// Of a run that was seen whole: no less than it had allocated, and no more than it had reserved.
    pub fn of_run(allocated: Bytes, reserved: Bytes) -> Need {
        let most = reserved.max(allocated);
        Need(Estimate::new(allocated, allocated, most))
    }

    pub const fn estimate(self) -> Estimate {
        self.0
    }

    pub const fn likely(self) -> Bytes {
        self.0.likely
    }

    pub const fn low(self) -> Bytes {
        self.0.low
    }

    pub const fn high(self) -> Bytes {
        self.0.high
    }

    /// The interval that it is in.
    pub const fn within(self) -> (Bytes, Bytes) {
        (self.0.low, self.0.high)
    }

    /// What is surely left of the room: by the upper end, which decides whether it fits. `None` where that is more.
    pub fn spare(self, room: Bytes) -> Option<Bytes> {
        (self.high() <= room).then(|| room - self.high())
    }

    /// The same in words, behind "fits with": "2.44 GiB to spare", "at least 2.44 GiB to spare" where it may need less than that.
    pub fn spare_words(self, room: Bytes) -> Option<String> {
        let spare = self.spare(room)?;
        let likely = room - self.likely();
        Some(match spare.to_string() == likely.to_string() {
            true => format!("{spare} to spare"),
            false => format!("at least {spare} to spare"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spare_follows_from_what_decides() {
        let need = Need::of(Estimate::new(
            Bytes::gib(19),
            Bytes::gib(20),
            Bytes::gib(22),
        ));
        assert_eq!(need.spare(Bytes::gib(23)), Some(Bytes::gib(1)));
        assert_eq!(need.spare(Bytes::gib(22)), Some(Bytes::ZERO));
        assert_eq!(need.spare(Bytes::gib(21)), None);
    }

    #[test]
    fn a_run_needs_what_it_had_allocated_and_perhaps_what_it_had_reserved() {
        let need = Need::of_run(Bytes::gib(20), Bytes::gib(22));
        assert_eq!(need.likely(), Bytes::gib(20));
        assert_eq!(need.within(), (Bytes::gib(20), Bytes::gib(22)));
        // Counters are read one after the other.
        let need = Need::of_run(Bytes::gib(20), Bytes::gib(19));
        assert_eq!(need.estimate(), Estimate::exact(Bytes::gib(20)));
    }
}
