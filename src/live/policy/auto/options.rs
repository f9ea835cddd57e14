//! What the user permits in advance, and the order of remedies.

use crate::remedy::RemedyId;
use serde::{Deserialize, Serialize};

/// Needed for what changes the training itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Mixed precision.
    Amp,
    /// Activation checkpointing.
    Recompute,
    /// Another effective batch size.
    EffectiveBatch,
    /// Starting over after ten minutes of training, or after a checkpoint was written.
    Restart,
}

impl Permission {
    pub fn word(self) -> &'static str {
        match self {
            Permission::Amp => "amp",
            Permission::Recompute => "recompute",
            Permission::EffectiveBatch => "effective-batch",
            Permission::Restart => "restart",
        }
    }
}

/// A kind of remedy, as the order names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyKind {
    /// Expandable segments.
    Segments,
    /// A smaller batch, accumulated.
    Batch,
    /// Another device.
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoOptions {
    /// Permissions beyond changes of arguments and environment that keep the numerics.
    pub allow: Vec<Permission>,
    pub order: Vec<RemedyKind>,
    pub max_relaunches: u32,
}

impl Default for AutoOptions {
    fn default() -> AutoOptions {
        AutoOptions {
            allow: Vec::new(),
            order: vec![RemedyKind::Segments, RemedyKind::Batch, RemedyKind::Device],
            max_relaunches: 3,
        }
    }
}

impl AutoOptions {
    pub(super) fn allows(&self, permission: Permission) -> bool {
        self.allow.contains(&permission)
    }

    /// The position of the last of these remedies in the order; those not in it come last.
    pub(super) fn position(&self, remedies: &[RemedyId]) -> usize {
        let position = |id: &RemedyId| {
            let kind = match id {
                RemedyId::ExpandableSegments | RemedyId::MaxSplitSize => Some(RemedyKind::Segments),
                RemedyId::Batch => Some(RemedyKind::Batch),
                RemedyId::Device => Some(RemedyKind::Device),
                // Combined with any other.
                RemedyId::Resume => return 0,
                // Not in the user's order.
                RemedyId::Amp
                | RemedyId::Recompute
                | RemedyId::DataloaderWorkers
                | RemedyId::Wait
                | RemedyId::StopLeftover
                | RemedyId::Without => None,
            };
            kind.and_then(|kind| self.order.iter().position(|known| *known == kind))
                .unwrap_or(usize::MAX)
        };
        remedies.iter().map(position).max().unwrap_or(usize::MAX)
    }
}
