//! Remedies, the edits they are made of, and several of them chosen together.

use super::model::Estimate;
use crate::command::{CommandLine, Word};
use crate::event::{PATCHES, Patch};
use crate::units::Bytes;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
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

/// One edit of a command. Places count in the command as the user gave it, so that edits of
/// several remedies can be applied together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// The word at this place becomes another.
    Replace {
        /// Its place.
        at: usize,
        /// The new word.
        with: Word,
    },
    /// Some bytes of the word at this place become others; nothing becomes something where `from`
    /// is `to`.
    Splice {
        /// The word's place.
        at: usize,
        /// The first byte that goes.
        from: usize,
        /// The byte after the last that goes.
        to: usize,
        /// What stands there instead.
        with: Word,
    },
    /// Words put in before the word at this place (at the end where it is the length).
    Insert {
        /// The place.
        at: usize,
        /// The words.
        words: Vec<Word>,
    },
    /// Words taken out.
    Remove {
        /// The place of the first.
        at: usize,
        /// How many.
        count: usize,
    },
    /// A variable of the environment set or removed.
    Env {
        /// Its name.
        name: String,
        /// Its value, or `None` where it is removed.
        value: Option<Word>,
    },
    /// Something that the probe does inside the process: one word more in the variable that tells
    /// it, in the place of another of this name.
    Patch(Patch),
}

/// One edit of the copy of a file that the command names. The file itself is never touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEdit {
    /// Where the copy goes.
    pub copy: PathBuf,
    /// What the file says.
    #[serde(skip)]
    pub original: String,
    /// The first byte that goes.
    pub from: usize,
    /// The byte after the last that goes.
    pub to: usize,
    /// What stands there instead.
    pub with: String,
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
    /// The arithmetic's precision.
    Precision,
    /// Activations are computed again in backward.
    Recomputation,
}

/// What a remedy makes of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Taken {
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
    pub takes: Option<Taken>,
    /// What it alters in the training.
    pub alters: Option<Alteration>,
    /// What it costs: "same batch of 64", "numerics change".
    pub cost: String,
}

impl Remedy {
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

/// The command with the edits made. Words that no edit names come out as they went in.
pub(super) fn edited(command: &CommandLine, edits: &[&Edit]) -> CommandLine {
    let mut argv = Vec::with_capacity(command.argv.len() + 4);
    for at in 0..=command.argv.len() {
        for edit in edits {
            if let Edit::Insert { at: place, words } = edit
                && (*place).min(command.argv.len()) == at
            {
                argv.extend(words.iter().cloned());
            }
        }
        let removed = edits.iter().any(|edit| {
            matches!(edit, Edit::Remove { at: first, count } if (*first..first + count).contains(&at))
        });
        if let Some(word) = command.argv.get(at)
            && !removed
        {
            argv.push(edited_word(word, at, edits));
        }
    }
    let mut new = CommandLine {
        argv,
        env: command.env.clone(),
        cwd: command.cwd.clone(),
    };
    for edit in edits {
        if let Edit::Env { name, value } = edit {
            replace_env(&mut new, name, value.clone());
        }
    }
    add_patches(&mut new, edits);
    new
}

/// The patches that the command has already, those of the edits in the place of theirs.
fn add_patches(command: &mut CommandLine, edits: &[&Edit]) {
    let mut patches = Patch::of(command);
    let before = patches.clone();
    for edit in edits {
        if let Edit::Patch(patch) = edit {
            patches.retain(|other| other.name() != patch.name());
            patches.push(*patch);
        }
    }
    if patches != before {
        let value = Word::from(Patch::value(&patches));
        replace_env(command, PATCHES, Some(value));
    }
}

/// Sets a variable where the command already sets it, so that the order that was typed stays.
fn replace_env(command: &mut CommandLine, name: &str, value: Option<Word>) {
    match command
        .env
        .iter_mut()
        .rev()
        .find(|change| change.name == *name)
    {
        Some(change) => change.value = value,
        None => command.set_env(name, value),
    }
}

fn edited_word(word: &Word, at: usize, edits: &[&Edit]) -> Word {
    let mut word = word.clone();
    for edit in edits {
        if let Edit::Replace { at: place, with } = edit
            && *place == at
        {
            word = with.clone();
        }
    }
    let mut splices: Vec<(usize, usize, &Word)> = edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::Splice {
                at: place,
                from,
                to,
                with,
            } if *place == at => Some((*from, *to, with)),
            Edit::Splice { .. }
            | Edit::Replace { .. }
            | Edit::Insert { .. }
            | Edit::Remove { .. }
            | Edit::Env { .. }
            | Edit::Patch(_) => None,
        })
        .collect();
    if splices.is_empty() {
        return word;
    }
    // From the back, so that a place still is what it was; of two at one place the first stays first.
    splices.sort_by_key(|(from, to, _)| (*from, *to));
    let mut bytes = word.as_bytes().to_vec();
    for (from, to, with) in splices.into_iter().rev() {
        if from <= to && to <= bytes.len() {
            bytes.splice(from..to, with.as_bytes().iter().copied());
        }
    }
    Word(OsString::from_vec(bytes))
}
