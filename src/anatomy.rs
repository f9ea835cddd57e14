//! What one step is made of: at each of its events the bytes allocated, and which blocks hold them, by
//! the line that allocated them, by the model's module and by what they are.
//!
//! Read from a traced step (`event::StepTrace`); pure.

mod carried;
mod category;
mod excess;
mod growth;
mod holdings;

pub use category::{Category, KEPT, KEPT_BRIEF};
pub use excess::{ExcessOf, RankExcess};
pub use growth::{GrownLine, GrownModule, StepGrowth};
pub use holdings::{
    FlameNode, Holding, WithoutLine, by_category, by_line, categories_over_time, flame,
    not_in_a_module,
};

use crate::event::{BlockOrigin, Phase, PhaseStart, StepTrace};
use crate::forecast::replay::handed_out;
use crate::forecast::trace::places_of;
use crate::forecast::trace::{BadTrace, BlockLayout, Trace, TraceEvent};
use crate::state::StepTraces;
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

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
    pub fn new(step: &StepTrace) -> Result<StepAnatomy, BadTrace> {
        let mut trace: Trace = step.trace.parse()?;
        trace.layout = BlockLayout::read(&step.layout, &trace.carried);
        let handed_out = handed_out(&trace);
        let origins = places_of(&step.blocks, step.origins.len())?;
        let modules = places_of(&step.block_modules, step.modules.len())?;
        let mut blocks: Vec<StepBlock> = trace
            .allocations()
            .enumerate()
            .map(|(number, block)| StepBlock {
                bytes: Bytes(match &handed_out {
                    Some(sizes) => sizes[number],
                    None => block.size.div_ceil(ROUNDING).saturating_mul(ROUNDING),
                }),
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
                TraceEvent::Alloc(_) | TraceEvent::Workspace(_) => {
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
        if let Some(first) = category::first_of_a_module(&anatomy, &blocks) {
            anatomy.begin_with_loading(first);
        }
        for (block, origin) in blocks.iter_mut().zip(origins) {
            block.origin = origin;
        }
        let again = category::recomputations(&mut anatomy, &blocks);
        for block in &mut blocks {
            block.category = category::category_of(&anatomy, block, &again);
        }
        anatomy.blocks = blocks;
        // One that ended early has not called all of them.
        if !anatomy.failed {
            carried::take_modules(&mut anatomy, None);
        }
        Ok(anatomy)
    }

    /// The same of one of these traced steps: which modules made what a step that ran out of memory began with is told by the latest
    /// whole one.
    ///
    /// # Errors
    ///
    /// As [`StepAnatomy::new`].
    pub fn among(step: &StepTrace, traces: &StepTraces) -> Result<StepAnatomy, BadTrace> {
        let mut anatomy = StepAnatomy::new(step)?;
        let whole = traces.all().rfind(|trace| !trace.failed);
        let whole = whole.filter(|_| step.failed);
        if let Some(whole) = whole.and_then(|trace| StepAnatomy::new(trace).ok()) {
            carried::take_modules(&mut anatomy, Some(&whole));
        }
        Ok(anatomy)
    }

    /// What the traced step of a process is made of that says most of an OOM of it: the step that
    /// ran out of memory, or else the latest.
    pub fn of_oom(traces: &StepTraces) -> Option<StepAnatomy> {
        let trace = traces.failed().or_else(|| traces.last())?;
        StepAnatomy::among(trace, traces).ok()
    }

    /// The trace of the first step begins with the process: until the model is called it has loaded its weights and data, which
    /// the probe counts with the forward pass.
    fn begin_with_loading(&mut self, first_call: usize) {
        let Some(start) = self.phases.first_mut() else {
            return;
        };
        if start.phase == Phase::Forward && start.from < first_call {
            let forward = PhaseStart {
                from: first_call,
                ..*start
            };
            start.phase = Phase::Load;
            self.phases.insert(1, forward);
        }
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

    /// The position that memory of a process that ran out in this phase is like, as far as its gradients go: the end of the step
    /// that failed, or the beginning of one like it. In later forward passes of a step the gradients of earlier ones are there.
    pub fn like_oom_in(&self, phase: Phase) -> Option<usize> {
        let is_forward = |start: &&PhaseStart| start.phase == Phase::Forward;
        let passes = self.phases.iter().filter(is_forward).count();
        match (self.failed, phase) {
            (true, _) => Some(self.end()),
            (false, Phase::Forward) => (passes == 1).then_some(0),
            (
                false,
                Phase::Evaluation
                | Phase::Backward
                | Phase::Optimizer
                | Phase::Load
                | Phase::Unknown,
            ) => None,
        }
    }

    /// The gradients there were when memory ran out in this phase, if a step says so.
    pub fn gradients_at_oom(&self, phase: Phase) -> Option<Bytes> {
        let held = by_category(self, self.like_oom_in(phase)?).into_iter();
        Some(
            held.filter(|(of, _)| *of == Category::Gradients)
                .map(|(_, bytes)| bytes)
                .sum(),
        )
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
        let number = self.phase_number(position);
        number.map_or(Phase::Unknown, |number| self.phases[number].phase)
    }

    /// Its place in [`StepAnatomy::phases`].
    fn phase_number(&self, position: usize) -> Option<usize> {
        // Asked of every block: with gradient accumulation there are many phases.
        let begun = (self.phases).partition_point(|start| start.from <= position);
        begun.checked_sub(1)
    }
}

/// What one module, or several alike, hold of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleHolding {
    /// `transformer.h.0–11.mlp`; `None` for what no module allocated.
    pub module: Option<String>,
    /// How many modules that are.
    pub alike: usize,
    pub category: Category,
    pub bytes: Bytes,
    /// The part of it that was there when the step began: of which modules that is was not seen.
    pub from_before: Bytes,
    pub blocks: usize,
}

/// The numbers in the names of modules that differ in these alone.
type Numbers = BTreeSet<Vec<u64>>;

/// What modules that differ in their numbers alone hold of one category.
#[derive(Default)]
struct ModuleSum {
    bytes: Bytes,
    from_before: Bytes,
    blocks: usize,
    numbers: Numbers,
}

/// The modules that hold memory at a position, the largest first; empty if no module is known.
pub fn by_module(anatomy: &StepAnatomy, position: usize) -> Vec<ModuleHolding> {
    if anatomy.modules.is_empty() {
        return Vec::new();
    }
    let names: Vec<(String, Vec<u64>)> = anatomy.modules.iter().map(|n| pattern(n)).collect();
    // Sums by pattern and category: modules are few, blocks are many.
    let mut found: BTreeMap<(Option<&str>, Category), ModuleSum> = BTreeMap::new();
    for block in anatomy.blocks.iter().filter(|b| b.is_alive(position)) {
        let name = block.module.map(|module| &names[module]);
        let key = (name.map(|(pattern, _)| pattern.as_str()), block.category);
        let sum = found.entry(key).or_default();
        sum.bytes += block.bytes;
        if block.from == 0 {
            sum.from_before += block.bytes;
        }
        sum.blocks += 1;
        if let Some((_, of)) = name
            && !sum.numbers.contains(of)
        {
            sum.numbers.insert(of.clone());
        }
    }
    let each = found.into_iter();
    let mut holdings: Vec<ModuleHolding> = each
        .map(|((pattern, category), sum)| ModuleHolding {
            module: pattern.map(|pattern| spelled(pattern, &sum.numbers)),
            alike: sum.numbers.len(),
            category,
            bytes: sum.bytes,
            from_before: sum.from_before,
            blocks: sum.blocks,
        })
        .collect();
    holdings.sort_by_key(|holding| Reverse(holding.bytes));
    holdings
}

/// `h.3.mlp` as `h.#.mlp` and its numbers.
fn pattern(name: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let parts = name.split('.').map(|part| match part.parse() {
        Ok(number) => {
            numbers.push(number);
            "#"
        }
        Err(_) => part,
    });
    let parts: Vec<&str> = parts.collect();
    (parts.join("."), numbers)
}

/// `h.#.mlp` with the numbers of several as `h.0–11.mlp`.
fn spelled(pattern: &str, numbers: &Numbers) -> String {
    let mut place = 0;
    let parts = pattern.split('.').map(|part| {
        if part != "#" {
            return part.to_string();
        }
        let here = numbers.iter().filter_map(|of| of.get(place));
        let (least, most) = (here.clone().min(), here.max());
        place += 1;
        match (least, most) {
            (Some(least), Some(most)) if least != most => format!("{least}–{most}"),
            (Some(number), _) => number.to_string(),
            (None, _) => part.to_string(),
        }
    });
    let parts: Vec<String> = parts.collect();
    parts.join(".")
}

/// The parts of a name, from the outside in; a number belongs to what it numbers.
fn path(module: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in module.split('.') {
        let numbers = part.starts_with(|c: char| c.is_ascii_digit());
        match parts.last_mut() {
            Some(last) if numbers => {
                last.push('.');
                last.push_str(part);
            }
            Some(_) | None => parts.push(part.to_string()),
        }
    }
    parts
}

#[cfg(test)]
mod tests;
