//! What a block is for, as its origin and its life tell.

use super::{StepAnatomy, StepBlock};
use crate::event::{MemoryKind, Phase, SourceLine};
use std::collections::{BTreeSet, HashSet};

/// Of torch: where `Module.to` and `Module.cuda` move what a module has.
const MODULE_FILE: &str = "torch/nn/modules/module.py";

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    Parameters,
    Gradients,
    OptimizerState,
    /// Parameters that are not trained: the base model under LoRA, a teacher.
    Frozen,
    /// Made before this step, and no part of the model: what leaks, what lists keep, the last batch's outputs.
    Kept,
    /// Made in the forward pass and kept for the backward pass.
    Activations,
    /// The same, made again within the backward pass: activation checkpointing.
    Recomputed,
    /// Made in this step and still there when it ended, as outputs that a variable has, and what leaks.
    Left,
    /// Made and freed within one phase.
    Temporaries,
    /// The rest: inputs, buffers, and what nobody knows.
    Other,
}

impl Category {
    /// In the order in which they are drawn, what stays first.
    pub const ALL: [Category; 10] = [
        Category::Parameters,
        Category::Frozen,
        Category::OptimizerState,
        Category::Gradients,
        Category::Kept,
        Category::Left,
        Category::Activations,
        Category::Recomputed,
        Category::Temporaries,
        Category::Other,
    ];

    /// Its place in [`Category::ALL`].
    pub fn place(self) -> usize {
        let at = Category::ALL.iter().position(|other| *other == self);
        at.unwrap_or(Category::ALL.len() - 1)
    }

    /// Its title where there is less room.
    pub fn brief(self) -> &'static str {
        match self {
            Category::Kept => KEPT_BRIEF,
            Category::Left => "left at the end",
            Category::Recomputed => "recomputed",
            Category::Parameters
            | Category::Gradients
            | Category::OptimizerState
            | Category::Frozen
            | Category::Activations
            | Category::Temporaries
            | Category::Other => self.title(),
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Category::Parameters => "parameters",
            Category::Gradients => "gradients",
            Category::OptimizerState => "optimizer state",
            Category::Frozen => "frozen weights",
            Category::Kept => KEPT,
            Category::Activations => "activations",
            Category::Recomputed => "recomputed activations",
            Category::Left => "left at the step's end",
            Category::Temporaries => "temporaries",
            Category::Other => "other",
        }
    }
}

/// What stays of earlier steps beside the model, and what leaks of it, has this one name everywhere.
pub const KEPT: &str = "kept from earlier steps";

/// The same where there is less room.
pub const KEPT_BRIEF: &str = "kept from earlier";

/// Where the first step first allocated in a module of the model; `None` for later steps, and where modules are not known.
pub(super) fn first_of_a_module(anatomy: &StepAnatomy, blocks: &[StepBlock]) -> Option<usize> {
    let of_modules = blocks.iter().filter(|block| block.module.is_some());
    let first = of_modules.map(|block| block.from).min();
    first.filter(|_| anatomy.step == 1)
}

/// Whether a module itself allocated it, as it does in `.to(device)`: parameters and buffers.
fn is_of_moved_module(anatomy: &StepAnatomy, block: &StepBlock) -> bool {
    let origin = block.origin.map(|origin| &anatomy.origins[origin]);
    let inside = origin.and_then(|origin| origin.inside.as_ref());
    inside.is_some_and(|line| line.file.ends_with(MODULE_FILE))
}

/// Which of the step's phases are forward passes of a part of the model within a backward pass, as activation checkpointing makes
/// them. Where modules are not known, none is.
///
/// With gradient accumulation forward and backward passes follow each other, too: each of those goes through the modules that the
/// first one went through, or begins where that one began.
///
/// What runs lines of Python in the backward pass that no forward pass has run is a hook, such as one that computes gradients of
/// each sample: that is a part of the backward pass, and becomes one here.
pub(super) fn recomputations(anatomy: &mut StepAnatomy, blocks: &[StepBlock]) -> Vec<bool> {
    let mut again = vec![false; anatomy.phases.len()];
    let mut called: Vec<Vec<usize>> = vec![Vec::new(); anatomy.phases.len()];
    let mut ran: Vec<HashSet<&SourceLine>> = vec![HashSet::new(); anatomy.phases.len()];
    for block in blocks.iter().filter(|block| block.from > 0) {
        let Some(phase) = anatomy.phase_number(block.from) else {
            continue;
        };
        called[phase].extend(block.module);
        let origin = block.origin.map(|origin| &anatomy.origins[origin]);
        ran[phase].extend(origin.and_then(|origin| origin.line.as_ref()));
    }
    let mut of_forward: HashSet<&SourceLine> = HashSet::new();
    let mut hooks = Vec::new();
    let mut whole: Option<(usize, BTreeSet<usize>)> = None;
    let mut is_after_backward = false;
    for (number, start) in anatomy.phases.iter().enumerate() {
        let modules = &called[number];
        match (start.phase, modules.first(), &whole) {
            (Phase::Backward, _, _) => is_after_backward = true,
            (Phase::Optimizer, _, _) => is_after_backward = false,
            (Phase::Forward, Some(first), None) => {
                whole = Some((*first, modules.iter().copied().collect()));
                of_forward.clone_from(&ran[number]);
            }
            (Phase::Forward, Some(first), Some((begin, all))) if is_after_backward => {
                let of_this: BTreeSet<usize> = modules.iter().copied().collect();
                let is_part = first != begin && !all.is_subset(&of_this);
                let is_hook = !ran[number].is_empty() && ran[number].is_disjoint(&of_forward);
                again[number] = is_part && !is_hook;
                hooks.extend((is_part && is_hook).then_some(number));
            }
            (_, _, _) => {}
        }
    }
    for number in hooks {
        anatomy.phases[number].phase = Phase::Backward;
    }
    again
}

/// The category of a block whose origin is known already; `again` says which phases recompute.
pub(super) fn category_of(anatomy: &StepAnatomy, block: &StepBlock, again: &[bool]) -> Category {
    let kind = block.origin.and_then(|origin| anatomy.origins[origin].kind);
    match kind {
        Some(MemoryKind::Parameters) => return Category::Parameters,
        Some(MemoryKind::Gradients) => return Category::Gradients,
        Some(MemoryKind::OptimizerState) => return Category::OptimizerState,
        Some(MemoryKind::Frozen) => return Category::Frozen,
        Some(MemoryKind::Unknown) | None => {}
    }
    if block.from == 0 {
        return match anatomy.step {
            // Before it there was none.
            0 | 1 => Category::Other,
            _ => Category::Kept,
        };
    }
    let (born, freed) = (
        anatomy.phase(block.from),
        block.until.map(|until| anatomy.phase(until)),
    );
    let is_again = anatomy
        .phase_number(block.from)
        .is_some_and(|phase| again[phase]);
    let for_backward = match is_again {
        true => Category::Recomputed,
        false => Category::Activations,
    };
    match (born, freed) {
        (Phase::Load, None) if is_of_moved_module(anatomy, block) => Category::Parameters,
        (Phase::Load, Some(Phase::Load)) => Category::Temporaries,
        (Phase::Load, _) => Category::Other,
        (Phase::Forward, Some(freed)) if freed != Phase::Forward => for_backward,
        // The step ended early: what the forward pass still holds is for the backward pass.
        (Phase::Forward, None) if anatomy.failed => for_backward,
        (_, Some(_)) => Category::Temporaries,
        // An error is raised in the middle of an operation.
        (_, None) if anatomy.failed => Category::Temporaries,
        (_, None) => Category::Left,
    }
}
