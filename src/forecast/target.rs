//! What a forecast is asked for: another batch, activations treated otherwise, another allocator.

use super::treatment::Treatment;

/// What is asked: another batch, treated otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Samples that the device takes at once.
    pub batch: u64,
    /// Whether gradients are kept through the forward.
    pub keeps_gradients: bool,
    /// What is done to the activations.
    pub treatment: Treatment,
    /// How the allocator holds its memory.
    pub allocator: Allocator,
}

/// How the allocator holds its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// Segments of fixed size.
    Fixed,
    /// `expandable_segments:True`.
    Expandable,
}
