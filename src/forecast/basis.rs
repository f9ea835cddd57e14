//! What a figure rests on: each one that is shown says it in one word.

/// What a figure rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Steps that were seen whole, of this batch or another.
    Measured,
    /// The failed step's allocations, computed without running it.
    Rehearsed,
    /// What a remedy did to other trainings.
    Estimated,
}

impl Basis {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Rehearsed => "rehearsed",
            Basis::Estimated => "estimated",
        }
    }
}
