//! A training's allocations put together from a rehearsed step, and what they are of.

use crate::forecast::trace::{Trace, TraceBlock, TraceEvent, TraceTemplate};
use crate::units::Bytes;

/// A trace while it is put together.
#[derive(Default)]
pub(super) struct Made {
    pub(super) trace: Trace,
    /// What each allocation is of, by its number.
    kinds: Vec<Part>,
}

impl Made {
    pub(super) fn allocate(&mut self, size: u64, of: Part) -> usize {
        let block = TraceBlock { size, stream: 0 };
        self.trace.events.push(TraceEvent::Alloc(block));
        self.kinds.push(of);
        self.kinds.len() - 1
    }

    pub(super) fn free(&mut self, allocation: usize) {
        self.trace.events.push(TraceEvent::Free(allocation));
    }

    /// Forward and backward: what is not freed by then are gradients, which are returned. Where
    /// gradients are there already, new ones are added to them and freed at once.
    pub(super) fn step(
        &mut self,
        step: &TraceTemplate,
        batch: u64,
        arguments: u64,
        adds: bool,
    ) -> Vec<usize> {
        let given = (arguments > 0).then(|| self.allocate(arguments, Part::Activations));
        let first = self.kinds.len();
        let events = step.events(batch, first);
        let count = events
            .iter()
            .filter(|e| matches!(e, TraceEvent::Alloc(_)))
            .count();
        let mut alive = vec![true; count];
        for event in &events {
            if let TraceEvent::Free(allocation) = event {
                alive[allocation - first] = false;
            }
        }
        let mut pending = None;
        for event in events {
            self.trace.events.push(event);
            if let TraceEvent::Alloc(_) = event {
                let number = self.kinds.len();
                self.kinds.push(match alive[number - first] {
                    true => Part::Gradients,
                    false => Part::Activations,
                });
                if let Some(gradient) = pending.take() {
                    self.free(gradient);
                }
                if adds && alive[number - first] {
                    pending = Some(number);
                }
            }
        }
        if let Some(gradient) = pending {
            self.free(gradient);
        }
        if let Some(given) = given {
            self.free(given);
        }
        let gradients = (0..count).filter(|at| alive[*at] && !adds);
        gradients.map(|at| first + at).collect()
    }

    /// What is alive when the most is.
    pub(super) fn at_its_peak(&self) -> WholeStep {
        let (mut now, mut most) = (WholeStep::default(), WholeStep::default());
        let mut sizes = Vec::with_capacity(self.kinds.len());
        for event in &self.trace.events {
            match *event {
                TraceEvent::Alloc(block) => {
                    let size = Bytes(block.size);
                    *now.part(self.kinds[sizes.len()]) += size;
                    sizes.push(size);
                    if now.total() > most.total() {
                        most = now;
                    }
                }
                TraceEvent::Free(number) => {
                    let part = now.part(self.kinds[number]);
                    *part = *part - sizes[number];
                }
                TraceEvent::EmptyCache => {}
            }
        }
        most
    }
}

/// What a piece of memory is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Parameters,
    Gradients,
    /// The state, and what its step makes for itself.
    Optimizer,
    Activations,
    Other,
}

/// What a whole training step holds at its peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WholeStep {
    /// Parameters and buffers of the model.
    pub parameters: Bytes,
    /// The gradients that are there by then.
    pub gradients: Bytes,
    /// The optimizer's.
    pub optimizer: Bytes,
    /// What forward keeps for backward, the batch itself, and temporaries.
    pub activations: Bytes,
    /// What the program had allocated beside its model.
    pub other: Bytes,
}

impl WholeStep {
    /// All of it.
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer + self.activations + self.other
    }

    fn part(&mut self, part: Part) -> &mut Bytes {
        match part {
            Part::Parameters => &mut self.parameters,
            Part::Gradients => &mut self.gradients,
            Part::Optimizer => &mut self.optimizer,
            Part::Activations => &mut self.activations,
            Part::Other => &mut self.other,
        }
    }
}
