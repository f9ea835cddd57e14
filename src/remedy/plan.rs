//! Remedies, the edits they are made of, and several of them chosen together.

use super::edit::{Edit, FileEdit, edited};
use crate::command::CommandLine;
use crate::forecast::Estimate;
use crate::units::Bytes;
use serde::Serialize;
use std::path::PathBuf;

/// Which remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyId {
    /// A smaller batch, the effective batch kept where the program can accumulate.
    Batch,
    /// `expandable_segments:True`.
    ExpandableSegments,
    /// Automatic mixed precision.
    Amp,
    /// Activation checkpointing.
    Recompute,
    /// Another GPU of this machine.
    Device,
    /// From a checkpoint of the run that ended.
    Resume,
    /// `max_split_size_mb`, for versions of PyTorch without expandable segments.
    MaxSplitSize,
    /// Fewer processes that load data, where the host's memory ran out.
    DataloaderWorkers,
    /// The same command, once the process of somebody else has left the device.
    Wait,
    /// The same command, once what is left of an earlier session was stopped.
    StopLeftover,
    /// What was chosen before, less the edit that the program refused.
    Without,
}

/// Whether a remedy is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It is, by these edits.
    Offered,
    /// It is not, and this is why. Where there are edits all the same, the edited command is one to
    /// copy: this run is a part of a job, and its parts must agree.
    NotOffered(String),
}

/// A file to be written before the command is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileCopy {
    /// Its path.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// What a remedy is expected to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Expectation {
    /// The peak of what is allocated, to be held against what the run then shows.
    pub peak: Option<Estimate>,
    /// What the run is expected to need on the device, if that can be said.
    pub needs: Option<Bytes>,
    /// Between what that lies.
    pub within: Option<(Bytes, Bytes)>,
    /// The room that it is held against.
    pub room: Option<Bytes>,
    /// What it needs at the least, where no more than that can be said.
    pub at_least: Option<Bytes>,
    /// Whether that fits; `None` where it is not known.
    pub fits: Option<bool>,
    /// The expectation in words: "needs 14.6 GiB, fits with 9.0 to spare", "unknown: …".
    pub words: String,
}

/// What a remedy changes in the training itself, beside where its memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alteration {
    /// Samples of an optimizer step.
    EffectiveBatch,
    /// What batch normalization computes its statistics over.
    BatchStatistics,
    /// The arithmetic's precision.
    Precision,
    /// Activations are computed again in backward.
    Recomputation,
}

/// What a remedy makes of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BatchChange {
    /// Samples that a device took at once.
    pub from: u64,
    /// Samples that a device takes at once from then on.
    pub at_once: u64,
    /// Whether gradients are then kept from one micro-batch to the next.
    pub accumulates: bool,
}

/// One remedy for one command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// Which.
    pub id: RemedyId,
    /// Its key in the dialog.
    pub key: char,
    /// Its name for the eye: "smaller batch".
    pub title: String,
    /// Whether it is offered.
    pub availability: Availability,
    /// The edits; empty where there is nothing to change.
    pub edits: Vec<Edit>,
    /// Edits of copies of files that the command names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEdit>,
    /// What changes, in few words: "--batch-size 64→32  +--grad-accum 2".
    pub changes: String,
    /// What it is expected to do.
    pub expectation: Expectation,
    /// What it makes of the batch, where it changes that.
    pub takes: Option<BatchChange>,
    /// What it alters in the training.
    pub alters: Option<Alteration>,
    /// What it costs: "effective batch 64 (32 × 2)".
    pub cost: String,
}

impl Remedy {
    /// One that is offered, with nothing said of it yet.
    pub(super) fn of(id: RemedyId) -> Remedy {
        Remedy {
            id,
            key: id.spec().key,
            title: id.spec().title.into(),
            availability: Availability::Offered,
            edits: Vec::new(),
            files: Vec::new(),
            changes: String::new(),
            expectation: Expectation::default(),
            takes: None,
            alters: id.spec().alters,
            cost: String::new(),
        }
    }

    /// Whether it is offered.
    pub fn is_offered(&self) -> bool {
        self.availability == Availability::Offered
    }
}

/// Remedies chosen together, and the command they make.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The remedies.
    pub remedies: Vec<RemedyId>,
    /// The command that they make.
    pub command: CommandLine,
    /// The files that it names and that are to be written first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileCopy>,
}

impl Plan {
    /// What the chosen remedies make of a command, in whatever order they were chosen. The edits
    /// of a remedy are of this very command.
    pub fn of(command: &CommandLine, chosen: &[&Remedy]) -> Plan {
        let mut chosen = chosen.to_vec();
        chosen.sort_by_key(|remedy| remedy.id);
        chosen.dedup_by_key(|remedy| remedy.id);
        let mut edits: Vec<&Edit> = Vec::new();
        for edit in chosen.iter().flat_map(|remedy| &remedy.edits) {
            // Two remedies that edit one file point the command at the same copy of it.
            if !(matches!(edit, Edit::Splice { .. }) && edits.contains(&edit)) {
                edits.push(edit);
            }
        }
        Plan {
            remedies: chosen.iter().map(|remedy| remedy.id).collect(),
            command: edited(command, &edits),
            files: copies(chosen.iter().flat_map(|remedy| &remedy.files)),
        }
    }
}

/// The copies that edits of files make, each file once with all its edits.
fn copies<'a>(edits: impl Iterator<Item = &'a FileEdit>) -> Vec<FileCopy> {
    let mut by_file: Vec<(&FileEdit, Vec<&FileEdit>)> = Vec::new();
    for edit in edits {
        match by_file
            .iter_mut()
            .find(|(first, _)| first.copy == edit.copy)
        {
            Some((_, all)) if all.contains(&edit) => {}
            Some((_, all)) => all.push(edit),
            None => by_file.push((edit, vec![edit])),
        }
    }
    by_file
        .into_iter()
        .map(|(first, mut all)| {
            let mut text = first.original.clone();
            // From the back, so that a place still is what it was.
            all.sort_by_key(|edit| std::cmp::Reverse((edit.from, edit.to)));
            for edit in all {
                if text.get(edit.from..edit.to).is_some() {
                    text.replace_range(edit.from..edit.to, &edit.with);
                }
            }
            FileCopy {
                path: first.copy.clone(),
                text,
            }
        })
        .collect()
}
