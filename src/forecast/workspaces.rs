//! What cuBLAS takes for itself: a workspace for each thread that multiplies matrices, kept for good. It lies where the
//! allocator has room at that moment, often in what a large tensor has left, which then no tensor of that size gets back.

use super::trace::{Trace, TraceEvent};
use crate::event::StepTrace;
use crate::units::Bytes;

/// Its sizes (`:4096:8` on Hopper and later, `:4096:2:16:8` before).
const SIZES: [Bytes; 2] = [Bytes::mib(32), Bytes(8320 << 10)];
/// The forward pass and the backward pass run on a thread each.
const THREADS: u32 = 2;

/// The workspaces of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Workspaces {
    /// Of one.
    pub size: Bytes,
    /// How many there were before the step.
    pub before: u32,
}

impl Workspaces {
    /// Where no real step was traced.
    pub const UNSEEN: Workspaces = Workspaces {
        size: SIZES[0],
        before: 0,
    };

    /// Where no matrices are multiplied.
    pub const NONE: Workspaces = Workspaces {
        size: Bytes::ZERO,
        before: THREADS,
    };

    /// The same where the model was called before, so that the forward pass has its own already.
    pub fn before(evaluated: bool) -> Workspaces {
        Workspaces {
            before: u32::from(evaluated),
            ..Workspaces::UNSEEN
        }
    }

    /// By the real allocations of a step: those of a workspace's size that were not freed. `None` where there is none.
    pub fn seen_in(step: &StepTrace) -> Option<Workspaces> {
        let trace: Trace = step.trace.parse().ok()?;
        let mut sizes: Vec<Option<u64>> =
            trace.allocations().map(|block| Some(block.size)).collect();
        for event in &trace.events {
            if let TraceEvent::Free(number) = event
                && let Some(size) = sizes.get_mut(*number)
            {
                *size = None;
            }
        }
        let count = |sizes: &[Option<u64>], of: Bytes| {
            sizes.iter().filter(|size| **size == Some(of.0)).count() as u32
        };
        let size = SIZES.into_iter().find(|size| count(&sizes, *size) > 0)?;
        let carried = trace.carried.len();
        Some(Workspaces {
            size,
            before: count(&sizes[..carried], size).min(THREADS),
        })
    }

    /// What is still to come of them when a step begins, or when a call without a backward pass does.
    pub fn to_come(self, evaluates: bool) -> Bytes {
        let threads = match evaluates {
            true => 1,
            false => THREADS,
        };
        Bytes(self.size.0 * u64::from(threads - self.before.min(threads)))
    }
}
