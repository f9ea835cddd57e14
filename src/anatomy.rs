//! What one step is made of: at each of its events the bytes allocated, and which blocks hold them, by
//! the line that allocated them, by the model's module and by what they are.
//!
//! Read from a traced step (`event::StepTrace`); pure.

mod category;
mod flame;
mod growth;
mod holdings;
mod modules;

pub use category::Category;
pub use flame::{FlameNode, flame};
pub use growth::{GrownLine, GrownModule, StepGrowth};
pub use holdings::{Holding, by_category, by_line, categories_over_time};
pub use modules::{ModuleHolding, by_module};

use crate::event::{BlockOrigin, Phase, PhaseStart, StepTrace};
use crate::forecast::step_blocks::places_of;
use crate::forecast::trace::{BadTrace, Trace, TraceEvent};
use crate::state::StepTraces;
use crate::units::Bytes;

/// The allocator rounds what is asked for up to this.
const ROUNDING: u64 = 512;

/// One step. A position in it is a number of events that have happened: 0 is its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAnatomy {
    /// Which step, from 1.
    pub step: u64,
    /// Whether memory ran out at its end.
    pub failed: bool,
    /// Bytes allocated, by position; never empty.
    pub allocated: Vec<Bytes>,
    /// Where each phase begins, by position.
    pub phases: Vec<PhaseStart>,
    /// What was alive at any time, in the order in which it was allocated.
    pub blocks: Vec<StepBlock>,
    /// Where blocks come from.
    pub origins: Vec<BlockOrigin>,
    /// The names of modules.
    pub modules: Vec<String>,
}

/// A block of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBlock {
    pub bytes: Bytes,
    /// The position from which on it is alive: 0 if it was before the step.
    pub from: usize,
    /// The position from which on it is not; `None` where it outlives the step.
    pub until: Option<usize>,
    /// Its place in [`StepAnatomy::origins`].
    pub origin: Option<usize>,
    /// Its place in [`StepAnatomy::modules`].
    pub module: Option<usize>,
    pub category: Category,
}

impl StepBlock {
    /// Whether it is alive at a position.
    pub fn is_alive(&self, position: usize) -> bool {
        self.from <= position && self.until.is_none_or(|until| position < until)
    }
}

impl StepAnatomy {
    /// What a traced step is made of.
    ///
    /// # Errors
    ///
    /// Where the trace or the list of origins is no such text, or one is not as long as the other.
    pub fn of(step: &StepTrace) -> Result<StepAnatomy, BadTrace> {
        let trace: Trace = step.trace.parse()?;
        let origins = places_of(&step.blocks, step.origins.len())?;
        let modules = places_of(&step.block_modules, step.modules.len())?;
        let mut blocks: Vec<StepBlock> = trace
            .allocations()
            .map(|block| StepBlock {
                bytes: Bytes(block.size.div_ceil(ROUNDING).saturating_mul(ROUNDING)),
                from: 0,
                until: None,
                origin: None,
                module: None,
                category: Category::Other,
            })
            .collect();
        if origins.len() != blocks.len() {
            return Err(BadTrace(format!("{} origins", origins.len())));
        }
        if !modules.is_empty() && modules.len() != blocks.len() {
            return Err(BadTrace(format!("{} modules", modules.len())));
        }
        for (block, module) in blocks.iter_mut().zip(modules) {
            block.module = module;
        }
        let mut now: Bytes = blocks[..trace.carried.len()].iter().map(|b| b.bytes).sum();
        let mut allocated = vec![now];
        let mut next = trace.carried.len();
        for (number, event) in trace.events.iter().enumerate() {
            let position = number + 1;
            match event {
                TraceEvent::Alloc(_) => {
                    blocks[next].from = position;
                    now += blocks[next].bytes;
                    next += 1;
                }
                TraceEvent::Free(block) => {
                    blocks[*block].until = Some(position);
                    now = now - blocks[*block].bytes;
                }
                TraceEvent::EmptyCache => {}
            }
            allocated.push(now);
        }
        let phases = step.phases.iter().map(|start| PhaseStart {
            from: start.from.saturating_add(1),
            ..*start
        });
        let mut anatomy = StepAnatomy {
            step: step.step,
            failed: step.failed,
            allocated,
            phases: phases.collect(),
            blocks: Vec::new(),
            origins: step.origins.clone(),
            modules: step.modules.clone(),
        };
        for (block, origin) in blocks.iter_mut().zip(origins) {
            block.origin = origin;
            block.category = category::of(&anatomy, block);
        }
        anatomy.blocks = blocks;
        Ok(anatomy)
    }

    /// What the traced step of a process is made of that says most of an OOM of it: the step that
    /// ran out of memory, or else the latest.
    pub fn of_oom(traces: &StepTraces) -> Option<StepAnatomy> {
        let trace = traces.failed().or_else(|| traces.last())?;
        StepAnatomy::of(trace).ok()
    }

    /// The last position.
    pub fn end(&self) -> usize {
        self.allocated.len() - 1
    }

    /// The first position at which the most is allocated.
    pub fn peak(&self) -> usize {
        let most = self.allocated.iter().max();
        let at = self.allocated.iter().position(|bytes| Some(bytes) == most);
        at.unwrap_or(0)
    }

    /// How many blocks the step allocated.
    pub fn allocations(&self) -> usize {
        self.blocks.iter().filter(|block| block.from > 0).count()
    }

    /// The phase of a position behind a figure: `41.2 GiB in backward`.
    pub fn in_phase(&self, position: usize) -> &'static str {
        match self.phase(position) {
            Phase::Load => " before the first step",
            Phase::Forward => " in forward",
            Phase::Backward => " in backward",
            Phase::Optimizer => " in the optimizer step",
            Phase::Evaluation => " in evaluation",
            Phase::Unknown => "",
        }
    }

    /// The phase that a position belongs to; not known before the first event.
    pub fn phase(&self, position: usize) -> Phase {
        let begun = self
            .phases
            .iter()
            .take_while(|start| start.from <= position);
        begun.last().map_or(Phase::Unknown, |start| start.phase)
    }
}

#[cfg(test)]
mod tests;
