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
    /// How many there will be: one where backward multiplies nothing.
    pub threads: u32,
}

impl Workspaces {
    /// Where no real step was traced.
    pub const UNSEEN: Workspaces = Workspaces {
        size: SIZES[0],
        before: 0,
        threads: THREADS,
    };

    /// Where no matrices are multiplied.
    pub const NONE: Workspaces = Workspaces {
        size: Bytes::ZERO,
        before: THREADS,
        threads: THREADS,
    };

    /// The same where the model was called before, so that the forward pass has its own already.
    pub fn before(evaluated: bool) -> Workspaces {
        Workspaces {
            before: u32::from(evaluated),
            ..Workspaces::UNSEEN
        }
    }

    /// By the real allocations of a step in which a call began with so much allocated: those of a workspace's size that were not
    /// freed. `None` where there is none. A process's first step begins with the process, so it has what an evaluation before
    /// it took, or a first model's step, as well.
    pub fn seen_in(step: &StepTrace, at_call: Bytes) -> Option<Workspaces> {
        let trace: Trace = step.trace.parse().ok()?;
        let mut alive: Vec<Option<Bytes>> = (trace.carried.iter())
            .map(|block| Some(Bytes(block.size)))
            .collect();
        let mut total: Bytes = alive.iter().flatten().copied().map(rounded).sum();
        let mut before_call = alive.len();
        for event in &trace.events {
            match event {
                TraceEvent::Alloc(block) | TraceEvent::Workspace(block) => {
                    alive.push(Some(Bytes(block.size)));
                    total += rounded(Bytes(block.size));
                }
                TraceEvent::Free(number) => {
                    if let Some(size) = alive.get_mut(*number).and_then(Option::take) {
                        total = total - rounded(size);
                    }
                }
                TraceEvent::EmptyCache => {}
            }
            if total <= at_call {
                before_call = alive.len();
            }
        }
        let count = |blocks: &[Option<Bytes>], of: Bytes| {
            blocks.iter().filter(|size| **size == Some(of)).count() as u32
        };
        let size = SIZES.into_iter().find(|size| count(&alive, *size) > 0)?;
        Some(Workspaces {
            size,
            before: count(&alive[..before_call], size).min(THREADS),
            threads: THREADS,
        })
    }

    /// What is still to come of them when a step begins, or when a call without a backward pass does.
    pub fn to_come(self, evaluates: bool) -> Bytes {
        let threads = match evaluates {
            true => 1,
            false => self.threads,
        };
        Bytes(self.size.0 * u64::from(threads - self.before.min(threads)))
    }
}

/// What the allocator counts for a block.
fn rounded(size: Bytes) -> Bytes {
    Bytes(size.0.next_multiple_of(512))
}
