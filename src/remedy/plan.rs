//! Remedies as they are shown and chosen: their edits of the command, what is expected of them, and
//! several chosen together as the command that they make.

use super::RemedyId;
use crate::command::{CommandLine, Word};
use crate::diagnosis::{LittleUse, Phrase};
use crate::event::{
    EDITS, PATCHES, Patch, Prediction, RamPrediction, Relief, SourceEdit, likely_fits,
};
use crate::forecast::{Basis, Estimate, Need, Target};
use crate::recognize::KnobPlace;
use crate::units::Bytes;
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// By these edits.
    Offered,
    /// The reason why not. With edits it is a command to copy: this run is part of a job, and its
    /// parts must agree.
    NotOffered(Phrase),
}

/// A file to write before the command is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileCopy {
    pub path: PathBuf,
    pub text: String,
}

/// What a remedy is expected to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Expectation {
    /// Peak of allocated memory, to compare with the next run.
    pub peak: Option<Estimate>,
    /// What it needs on the device, if known: what is allocated and cannot be given back.
    #[serde(skip)]
    pub need: Option<Need>,
    /// What the run will have reserved: also what it could give back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Estimate>,
    /// The memory available to the run.
    pub room: Option<Bytes>,
    /// A lower bound of the need, if no more is known.
    pub at_least: Option<Bytes>,
    /// The need of the host's memory, of a remedy for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<RamPrediction>,
    /// What the moment comes to that memory ran out at, of a remedy that takes away what it ran out for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relief: Option<Relief>,
    /// `None` if unknown.
    pub fits: Option<bool>,
    /// Set where it leaves the cause in place. The words begin with it.
    #[serde(skip)]
    pub futile: Option<LittleUse>,
    /// What the figures rest on.
    pub basis: Option<Basis>,
    /// The earlier session in which the same command ran, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_before: Option<RanBefore>,
    /// For display: "needs 14.6 GiB, fits with 9.0 to spare", "unknown: …". Clauses behind the first can be
    /// left out.
    pub words: Phrase,
}

/// A run of the same command in an earlier session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RanBefore {
    pub session: String,
    /// When it began: `16:46`, of another day with the date.
    pub at: String,
    /// Steps that ended.
    pub steps: u64,
    /// Whether it ran out of memory.
    pub ran_out: bool,
    /// The most that was allocated; of one that did not run out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// Whether a file of the program has changed since: then it decides nothing.
    pub program_changed: bool,
}

impl RanBefore {
    /// `ran with 15.1 GiB at 16:46, before the program was changed`.
    pub fn words(&self) -> String {
        let when = self.when();
        let changed = match self.program_changed {
            true => ", before the program was changed",
            false => "",
        };
        match self.peak {
            Some(peak) => format!("ran with {peak} {when}{changed}"),
            None => format!("ran out of memory {when}{changed}"),
        }
    }

    /// `at 16:46`, `on 28 Nov 16:46`.
    pub fn when(&self) -> String {
        match self.at.contains(' ') {
            true => format!("on {}", self.at),
            false => format!("at {}", self.at),
        }
    }

    /// `at 16:46`, `on 28 Nov`.
    fn day(&self) -> String {
        match self.at.rsplit_once(' ') {
            Some((day, _)) => format!("on {day}"),
            None => self.when(),
        }
    }
}

/// Whether a run with a remedy is expected to fit, or what else the remedy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitVerdict {
    Fits,
    /// All of the interval would, but it is only estimated, or what follows the step was not seen.
    LikelyFits,
    WontFit,
    /// The likely need is more than there is, its lower end is not.
    LikelyWontFit,
    /// The need is known, but not well enough.
    MayNotFit,
    /// It leaves the cause in place.
    OfLittleUse(LittleUse),
    Unknown,
}

impl FitVerdict {
    /// Whether it is expected to fit: what is started without being asked for by its name.
    pub fn is_expected(self) -> bool {
        match self {
            FitVerdict::Fits | FitVerdict::LikelyFits => true,
            FitVerdict::WontFit
            | FitVerdict::LikelyWontFit
            | FitVerdict::MayNotFit
            | FitVerdict::OfLittleUse(_)
            | FitVerdict::Unknown => false,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            FitVerdict::Fits => "fits",
            FitVerdict::LikelyFits => "likely fits",
            FitVerdict::WontFit => "won't fit",
            FitVerdict::LikelyWontFit => "likely won't fit",
            FitVerdict::MayNotFit => "may not fit",
            FitVerdict::OfLittleUse(what) => what.words(),
            FitVerdict::Unknown => "unknown",
        }
    }

    /// In at most eleven columns, in the same words.
    pub fn short(self) -> &'static str {
        match self {
            FitVerdict::OfLittleUse(LittleUse::OnlyDelays) => "only delays",
            FitVerdict::OfLittleUse(LittleUse::UnlikelyToHelp) => "little help",
            FitVerdict::LikelyWontFit => "likely not",
            FitVerdict::Fits
            | FitVerdict::LikelyFits
            | FitVerdict::WontFit
            | FitVerdict::MayNotFit
            | FitVerdict::Unknown => self.words(),
        }
    }

    /// In at most seven columns, beside a title that leaves no more.
    pub fn shortest(self) -> &'static str {
        match self {
            FitVerdict::Fits => "fits",
            FitVerdict::LikelyFits => "fits?",
            FitVerdict::WontFit => "too big",
            FitVerdict::LikelyWontFit => "no?",
            FitVerdict::MayNotFit => "unsure",
            FitVerdict::OfLittleUse(LittleUse::OnlyDelays) => "delays",
            FitVerdict::OfLittleUse(LittleUse::UnlikelyToHelp) => "no help",
            FitVerdict::Unknown => "unknown",
        }
    }
}

impl Expectation {
    pub(super) fn unknown(why: impl Into<Phrase>) -> Expectation {
        Expectation {
            words: why.into().behind("unknown: "),
            ..Expectation::default()
        }
    }

    /// The likely figure of its need.
    pub fn needs(&self) -> Option<Bytes> {
        self.need.map(Need::likely)
    }

    /// The interval that its need is in.
    pub fn within(&self) -> Option<(Bytes, Bytes)> {
        self.need.map(Need::within)
    }

    pub fn verdict(&self) -> FitVerdict {
        match (self.fits, self.futile) {
            (Some(true), _) => FitVerdict::Fits,
            (Some(false), _) if self.could_fit() => FitVerdict::LikelyWontFit,
            (Some(false), _) => FitVerdict::WontFit,
            (None, Some(what)) => FitVerdict::OfLittleUse(what),
            (None, None) if likely_fits(self.within(), self.room) => FitVerdict::LikelyFits,
            (None, None) if self.ram.is_some_and(RamPrediction::likely_fits) => {
                FitVerdict::LikelyFits
            }
            (None, None) if self.need.is_some() || self.ram.is_some() => FitVerdict::MayNotFit,
            (None, None) => FitVerdict::Unknown,
        }
    }

    /// What the table says of it: that its command ran before, and when, where that settles it; else the verdict.
    pub fn verdict_words(&self) -> Cow<'static, str> {
        let verdict = self.verdict();
        let ran = self.ran_before.as_ref().filter(|ran| !ran.program_changed);
        match (ran, verdict) {
            (Some(ran), FitVerdict::Fits) if !ran.ran_out => format!("ran {}", ran.day()).into(),
            (Some(ran), FitVerdict::WontFit) if ran.ran_out => {
                format!("ran out {}", ran.day()).into()
            }
            (_, _) => verdict.words().into(),
        }
    }

    /// Whether the least that it needs is there.
    fn could_fit(&self) -> bool {
        let figures = self.within().zip(self.room);
        figures.is_some_and(|((least, _), room)| least <= room)
    }

    /// What is recorded of it with the run that it is about; `None` if it says nothing.
    pub fn prediction(&self) -> Option<Prediction> {
        let says = self.peak.is_some()
            || self.need.is_some()
            || self.ram.is_some()
            || self.relief.is_some()
            || self.fits.is_some();
        says.then(|| Prediction {
            basis: self.basis,
            peak: self.peak.map(|peak| peak.likely),
            needs: self.needs(),
            within: self.within(),
            reserved: self.reserved.map(|reserved| reserved.likely),
            reserved_within: self.reserved.map(|reserved| (reserved.low, reserved.high)),
            room: self.room,
            fits: self.fits,
            ram: self.ram,
            relief: self.relief,
        })
    }
}

/// What a remedy changes in the training itself.
// What changes the training more comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alteration {
    /// Activations are recomputed in the backward pass.
    Recomputation,
    /// Activations wait for the backward pass in RAM.
    Offloading,
    /// The samples that batch normalization computes its statistics over.
    BatchStatistics,
    /// Samples per optimizer step.
    EffectiveBatch,
    /// Numerical precision.
    Precision,
    /// How the parameters are changed in a step.
    Optimizer,
    /// The samples themselves: their length, or their resolution.
    Samples,
}

/// A remedy's change of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BatchChange {
    /// Samples per device and forward pass before.
    pub from: u64,
    /// Samples per device and forward pass with the remedy.
    pub at_once: u64,
    /// Whether gradients are then kept from one micro-batch to the next.
    pub accumulates: bool,
}

/// One remedy for one command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    pub id: RemedyId,
    /// Its key in the dialog.
    pub key: char,
    /// For display: "smaller batch".
    pub title: String,
    pub availability: Availability,
    /// Empty if there is nothing to change.
    pub edits: Vec<Edit>,
    /// Edits of copies of config files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEdit>,
    /// What changes, for display: "--batch-size 64→32  +--grad-accum 2".
    pub changes: String,
    pub expectation: Expectation,
    /// The change of the batch, if any.
    pub takes: Option<BatchChange>,
    /// The number that it changes for that.
    #[serde(skip)]
    pub set_by: Option<KnobPlace>,
    /// What it changes in the training.
    pub alters: Option<Alteration>,
    /// For display: "effective batch 64 (32 × 2)". Clauses behind the first can be left out.
    pub cost: Phrase,
    /// The remedies that it consists of, if it is several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Remedy>,
}

impl Remedy {
    /// An offered remedy without any edits or words.
    pub(super) fn new(id: RemedyId) -> Remedy {
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
            set_by: None,
            alters: id.spec().alters,
            cost: Phrase::default(),
            parts: Vec::new(),
        }
    }

    /// The remedies that are applied: its parts, or itself.
    pub fn each(&self) -> &[Remedy] {
        match self.parts.as_slice() {
            [] => std::slice::from_ref(self),
            parts => parts,
        }
    }

    /// All that it changes in the training.
    pub fn all_altered(&self) -> impl Iterator<Item = Alteration> {
        self.each().iter().filter_map(|part| part.alters)
    }

    /// Changes the batch of the run that is predicted, if the remedy does.
    pub(super) fn change_batch(&self, target: &mut Target) {
        if let Some(takes) = self.takes {
            target.batch = takes.at_once;
            target.keeps_gradients |= takes.accumulates;
        }
    }

    /// What it does to the training's numbers, in few words.
    pub fn numerics(&self) -> String {
        let draws_anew = matches!(
            self.id,
            RemedyId::DataloaderWorkers | RemedyId::PersistentWorkers
        );
        match (self.alters, self.takes) {
            (None, _) if draws_anew => "other random numbers".into(),
            (None, _) if self.id.is_equal_to_rounding() => "equal to rounding".into(),
            (None, _) => "same numerics".into(),
            (Some(Alteration::EffectiveBatch), Some(BatchChange { at_once, .. })) => {
                format!("trains with batch {at_once}")
            }
            (Some(Alteration::EffectiveBatch), None) => "another effective batch".into(),
            (Some(Alteration::BatchStatistics), _) => "BatchNorm over fewer samples".into(),
            (Some(Alteration::Precision), _) => "lower precision".into(),
            (Some(Alteration::Optimizer), _) => "another optimizer".into(),
            (Some(Alteration::Samples), _) => "changes the training".into(),
            (Some(Alteration::Recomputation | Alteration::Offloading), _) => {
                "same numerics, slower".into()
            }
        }
    }

    pub(super) fn is_last_resort(&self) -> bool {
        self.each().iter().any(|part| part.id.is_last_resort())
    }

    pub fn is_offered(&self) -> bool {
        self.availability == Availability::Offered
    }
}

/// Remedies chosen together, and the resulting command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub remedies: Vec<RemedyId>,
    pub command: CommandLine,
    /// Copies of config files that are written first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileCopy>,
}

impl Plan {
    /// Applies the chosen remedies, in any order; their edits must be of this very command.
    pub fn new(command: &CommandLine, chosen: &[&Remedy]) -> Plan {
        // Of a batch by itself and one beside others the latter counts: it was found for what is beside it.
        let (several, single): (Vec<&Remedy>, Vec<&Remedy>) =
            chosen.iter().partition(|remedy| !remedy.parts.is_empty());
        let each = several.iter().chain(&single);
        let mut chosen: Vec<&Remedy> = each.flat_map(|remedy| remedy.each()).collect();
        chosen.sort_by_key(|remedy| remedy.id);
        chosen.dedup_by_key(|remedy| remedy.id);
        let mut edits: Vec<&Edit> = Vec::new();
        for edit in chosen.iter().flat_map(|remedy| &remedy.edits) {
            // Two remedies that edit one file point the command at the same copy.
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

/// The copies of edited files, one for each file with all its edits.
pub(super) fn copies<'a>(edits: impl Iterator<Item = &'a FileEdit>) -> Vec<FileCopy> {
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
            // Back to front, so that indices stay valid.
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

/// One edit of a command. Indices refer to the user's original command, so that the edits of
/// several remedies can be applied together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Replaces bytes of a word; inserts if `from` equals `to`.
    Splice {
        /// The index of the word.
        at: usize,
        /// The byte range to replace.
        from: usize,
        to: usize,
        with: Word,
    },
    /// Inserts words before the word at `at`, or at the end.
    Insert { at: usize, words: Vec<Word> },
    Remove {
        /// The index of the first word.
        at: usize,
        count: usize,
    },
    /// Sets or removes an environment variable.
    Env {
        name: String,
        /// `None` to remove it.
        value: Option<Word>,
    },
    /// A change that the probe makes inside the process: an entry in the variable that the probe
    /// reads, replacing one of the same name.
    Patch(Patch),
    /// A number in the program's own text, which the probe has compiled as another.
    Source(SourceEdit),
}

/// One edit of a copy of a config file. The file itself is never touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEdit {
    /// The path of the copy.
    pub copy: PathBuf,
    /// The contents of the file.
    #[serde(skip)]
    pub original: String,
    /// The byte range to replace.
    pub from: usize,
    pub to: usize,
    pub with: String,
}

/// The command with the edits made. Words that no edit touches are unchanged, byte by byte.
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
    add_source_edits(&mut new, edits);
    new
}

/// Merges the edits of the program's text into those that the command has already: of one number, the file's own comes
/// first and the latest last.
fn add_source_edits(command: &mut CommandLine, edits: &[&Edit]) {
    let mut all = SourceEdit::of(command);
    let before = all.clone();
    for edit in edits {
        if let Edit::Source(edit) = edit {
            match all.iter_mut().find(|earlier| earlier.is_at(edit)) {
                Some(earlier) => earlier.to = edit.to,
                None => all.push(edit.clone()),
            }
        }
    }
    if all != before {
        replace_env(command, EDITS, Some(Word::from(SourceEdit::value(&all))));
    }
}

/// Merges the edits' patches into those that the command has already.
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

/// Changes a variable where the command already sets it, to keep the order as typed.
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
    let mut splices: Vec<(usize, usize, &Word)> = Vec::new();
    for edit in edits {
        if let Edit::Splice {
            at: place,
            from,
            to,
            with,
        } = edit
            && *place == at
        {
            splices.push((*from, *to, with));
        }
    }
    // Back to front, so that indices stay valid; of two at one place the first stays first.
    splices.sort_by_key(|(from, to, _)| (*from, *to));
    let mut bytes = word.as_bytes().to_vec();
    for (from, to, with) in splices.into_iter().rev() {
        if from <= to && to <= bytes.len() {
            bytes.splice(from..to, with.as_bytes().iter().copied());
        }
    }
    Word(OsString::from_vec(bytes))
}
