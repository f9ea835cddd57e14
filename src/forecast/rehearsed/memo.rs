//! Answers of trainings that were played before. Each remedy asks about much the same trainings, and to put one together and play it
//! takes tenths of a second where a step has tens of thousands of allocations. What comes of it follows from its key alone, so it is
//! the same whoever asked first.

use super::training::{Reading, WholeStep};
use crate::forecast::workspaces::Workspaces;
use crate::units::Bytes;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// What a training is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TrainingKey {
    /// A hash of what was said of the rehearsal.
    pub said: u64,
    /// Which of its variants.
    pub variant: usize,
    /// Samples of a call of the model.
    pub batch: u64,
    pub workspaces: Workspaces,
    pub evaluated: bool,
    pub reading: Reading,
    pub keeps_gradients: bool,
    pub one_by_one: bool,
    /// The allocator's, spelled out.
    pub settings: String,
}

/// What became of a training where there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlayedTraining {
    pub allocated_peak: Bytes,
    /// Whether there is but one way to read what was rehearsed.
    pub is_sure: bool,
}

/// What becomes of it where there is so much and no more. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlayedInRoom {
    pub allocated_peak: u64,
    pub retries: u64,
    pub reserved_peak: u64,
    /// What it reserves where there is more room.
    pub free_peak: u64,
    /// What was reserved more in its last step.
    pub grown: u64,
}

/// What is known of a training; rooms are in bytes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub played: Option<PlayedTraining>,
    pub smallest_room: Option<Bytes>,
    pub at_its_peak: Option<WholeStep>,
    /// The most that there is beside activations.
    pub beside_activations: Option<Bytes>,
    /// `None` within where memory runs out.
    pub in_room: HashMap<u64, Option<Option<PlayedInRoom>>>,
    pub runs_in: HashMap<u64, Option<bool>>,
}

/// So many trainings are remembered: a session asks about some dozens.
const MOST: usize = 1024;

static KNOWN: LazyLock<Mutex<HashMap<TrainingKey, Answers>>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, HashMap<TrainingKey, Answers>> {
    // Answers are put in whole.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer in a place of the training's answers, found out if nobody has asked before. Others may ask meanwhile.
pub(super) fn known<T: Copy>(
    key: &TrainingKey,
    place: impl Fn(&mut Answers) -> &mut Option<T>,
    find_out: impl FnOnce() -> T,
) -> T {
    let before = lock().get_mut(key).and_then(|answers| *place(answers));
    before.unwrap_or_else(|| {
        let found = find_out();
        note(key, place, found);
        found
    })
}

/// Remembers an answer that was found beside another.
pub(super) fn note<T>(key: &TrainingKey, place: impl Fn(&mut Answers) -> &mut Option<T>, found: T) {
    let mut known = lock();
    if known.len() >= MOST {
        known.clear();
    }
    *place(known.entry(key.clone()).or_default()) = Some(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_was_found_out_once_is_not_found_out_again() {
        let key = |batch| TrainingKey {
            // No rehearsal's.
            said: 1,
            variant: 0,
            batch,
            workspaces: Workspaces::NONE,
            evaluated: false,
            reading: Reading::Likely,
            keeps_gradients: false,
            one_by_one: false,
            settings: "of this test".into(),
        };
        let times = Cell::new(0);
        let asked = |batch, room| {
            known(
                &key(batch),
                |answers| answers.runs_in.entry(room).or_default(),
                || {
                    times.set(times.get() + 1);
                    room > 10
                },
            )
        };
        assert!(asked(4, 11) && asked(4, 11));
        assert_eq!(times.get(), 1);
        assert!(!asked(4, 9), "another room");
        assert!(asked(2, 11), "another batch");
        assert_eq!(times.get(), 3);
    }
}
