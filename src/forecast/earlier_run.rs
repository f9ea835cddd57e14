//! A run of an earlier session: what one command took, where the same command is to be started again. The program's options may
//! stand in another order: a remedy adds its own at the end.

use crate::command::{CommandLine, Word};
use crate::recognize::CommandLayout;
use crate::units::Bytes;

/// A run of another session of the same program.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierRun {
    /// Without secrets.
    pub command: CommandLine,
    /// The session's name.
    pub session: String,
    /// When the run began, as it is said: `16:46`, of another day with the date.
    pub began: String,
    /// Whether a file of the program has changed since: it may need something else now.
    pub is_outdated: bool,
    /// Steps that ended.
    pub steps: u64,
    pub outcome: EarlierOutcome,
    /// The capacity of the GPU that it ran on.
    pub capacity: Bytes,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierOutcome {
    /// It made steps, and memory did not run out: the most that was allocated and reserved.
    Trained {
        allocated: Bytes,
        reserved: Bytes,
    },
    RanOut,
}

/// GPUs of one kind differ by what the driver keeps.
const SAME_GPU: f64 = 0.01;

impl EarlierRun {
    /// Whether it was of this command, on a GPU of this size where one is given.
    pub fn is_of(&self, command: &CommandLine, capacity: Option<Bytes>) -> bool {
        let is_as_large = |capacity: Bytes| {
            let apart = self.capacity.max(capacity) - self.capacity.min(capacity);
            apart <= capacity.scale(SAME_GPU)
        };
        capacity.is_none_or(is_as_large) && is_same(&self.command, command)
    }
}

fn is_same(one: &CommandLine, other: &CommandLine) -> bool {
    if one == other {
        return true;
    }
    let around = |command: &CommandLine| (command.env.clone(), command.cwd.clone());
    let options = options(one);
    around(one) == around(other) && options.is_some() && options == self::options(other)
}

/// The words up to the program and what stands between it and its first option, and its options with their values, sorted. `None`
/// where one is given twice, as the last or all of them may count.
fn options(command: &CommandLine) -> Option<(&[Word], Vec<&[Word]>)> {
    let program = CommandLayout::new(command).program;
    let words = &command.argv;
    let is_option = |word: &Word| word.as_str().is_some_and(|word| word.starts_with('-'));
    let starts: Vec<usize> = (program + 1..words.len())
        .filter(|at| is_option(&words[*at]))
        .collect();
    let first = starts.first().copied().unwrap_or(words.len());
    let ends = starts.iter().skip(1).copied().chain([words.len()]);
    let mut options: Vec<&[Word]> = (starts.iter().zip(ends))
        .map(|(start, end)| &words[*start..end])
        .collect();
    options.sort_by_key(|option| option.iter().map(Word::as_str).collect::<Vec<_>>());
    let name = |option: &[Word]| option.first().cloned();
    let is_twice = options.windows(2).any(|two| name(two[0]) == name(two[1]));
    (!is_twice).then_some((&words[..first], options))
}
