//! What a block is for, as far as its life in the step and the optimizer tell.

use super::{StepAnatomy, StepBlock};
use crate::event::{MemoryKind, Phase};

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    Parameters,
    Gradients,
    OptimizerState,
    /// Made in the forward pass and kept for the backward pass.
    Activations,
    /// Made and freed within one phase.
    Temporaries,
    /// The rest: inputs, buffers, and what nobody knows.
    Other,
}

impl Category {
    /// In the order in which they are drawn, what stays first.
    pub const ALL: [Category; 6] = [
        Category::Parameters,
        Category::OptimizerState,
        Category::Gradients,
        Category::Activations,
        Category::Temporaries,
        Category::Other,
    ];

    /// Its place in [`Category::ALL`].
    pub fn place(self) -> usize {
        let at = Category::ALL.iter().position(|other| *other == self);
        at.unwrap_or(Category::ALL.len() - 1)
    }

    pub fn title(self) -> &'static str {
        match self {
            Category::Parameters => "parameters",
            Category::Gradients => "gradients",
            Category::OptimizerState => "optimizer state",
            Category::Activations => "activations",
            Category::Temporaries => "temporaries",
            Category::Other => "other",
        }
    }
}

/// The category of a block whose origin is known already.
pub(super) fn of(anatomy: &StepAnatomy, block: &StepBlock) -> Category {
    let kind = block.origin.and_then(|origin| anatomy.origins[origin].kind);
    match kind {
        Some(MemoryKind::Parameters) => return Category::Parameters,
        Some(MemoryKind::Gradients) => return Category::Gradients,
        Some(MemoryKind::OptimizerState) => return Category::OptimizerState,
        Some(MemoryKind::Unknown) | None => {}
    }
    if block.from == 0 {
        return Category::Other;
    }
    let (born, freed) = (
        anatomy.phase(block.from),
        block.until.map(|until| anatomy.phase(until)),
    );
    match (born, freed) {
        (Phase::Forward, Some(freed)) if freed != Phase::Forward => Category::Activations,
        // The step ended early: what the forward pass still holds is for the backward pass.
        (Phase::Forward, None) if anatomy.failed => Category::Activations,
        (_, Some(_)) => Category::Temporaries,
        // An error is raised in the middle of an operation.
        (_, None) if anatomy.failed => Category::Temporaries,
        (_, None) => Category::Other,
    }
}
