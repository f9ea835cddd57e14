//! What each remedy's own file is given, and what it returns: a draft of edits, or why there are none.
//!
//! For programs without an argument for it a remedy may have a patch, made by the probe at runtime: the
//! probe finds what can be patched when memory runs out, and only that is offered. A patch is an
//! edit of one variable of the command, so it stays from run to run and is visible with the command.

use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::plan::{Alteration, BatchChange, Edit, Expectation, FileEdit};
use crate::command::{CommandLine, Word};
use crate::diagnosis::Phrase;
use crate::event::{Patch, PatchOutcome, Patchable, SourceEdit};
use crate::recognize::argument::{ArgumentForm, Arguments, Hit, InsertPoint, Value};
use crate::recognize::batch::{Knob, Place};
use crate::recognize::config_file::FoundValue;
use crate::recognize::layout::Variable;
use crate::recognize::{ConfigFile, KnobPlace, Recognized};
use crate::units::Bytes;
use std::path::Path;

/// A command to find remedies for.
pub(super) struct Offering<'a> {
    pub command: &'a CommandLine,
    pub recognized: &'a Recognized<'a>,
    pub inputs: &'a RemedyInputs<'a>,
    /// What its runs are expected to need.
    pub predictor: &'a RemedyPredictor<'a>,
}

/// A remedy's changes of a command.
pub(super) struct Proposal {
    /// The edits, or why there are none. A remedy that acts shows what it does and edits nothing.
    pub draft: Result<Draft, String>,
    /// For display, if not as its `REMEDY` says.
    pub title: Option<String>,
    pub cost: Phrase,
    /// What it is expected to do, if [`NeedFrom`](super::NeedFrom) leaves that to the remedy.
    pub expectation: Expectation,
    pub takes: Option<BatchChange>,
    /// The number that is changed for that.
    pub set_by: Option<KnobPlace>,
    /// What it changes in the training beyond what its `REMEDY` says.
    pub alters: Option<Alteration>,
}

impl Proposal {
    pub fn new(draft: Result<Draft, String>, cost: impl Into<Phrase>) -> Proposal {
        Proposal {
            draft,
            title: None,
            cost: cost.into(),
            expectation: Expectation::default(),
            takes: None,
            set_by: None,
            alters: None,
        }
    }

    /// Something done before the next run.
    pub fn act(shown: String, cost: impl Into<Phrase>) -> Proposal {
        let shown = vec![shown];
        let draft = Draft {
            shown,
            ..Draft::default()
        };
        Proposal::new(Ok(draft), cost)
    }

    pub fn expecting(self, expectation: Expectation) -> Proposal {
        Proposal {
            expectation,
            ..self
        }
    }
}

impl Offering<'_> {
    /// The argument's edits; without an argument, the patch's if a run has shown what can be patched;
    /// without either, both reasons.
    pub fn or_patched<T>(
        &self,
        by_argument: Result<T, String>,
        patched: impl FnOnce(&Patchable) -> Result<T, String>,
    ) -> Result<T, String> {
        match (by_argument, self.inputs.patchable()) {
            (Err(reason), Some(found)) => {
                patched(found).map_err(|inside| format!("{reason}; no runtime patch: {inside}"))
            }
            (by_argument, _) => by_argument,
        }
    }

    /// RAM that the program could still have, by the latest reading.
    pub fn available_ram(&self) -> Option<Bytes> {
        let (_, host) = self.inputs.forecast.state?.host.latest()?;
        Some(host.limit - host.used)
    }

    /// Why this number can't be changed: it stands in the program's text, which only the probe changes.
    pub fn check_reach(&self, knob: &Knob<'_>) -> Result<(), String> {
        let Place::Literal(edit) = &knob.place else {
            return Ok(());
        };
        let layout = &self.recognized.layout;
        layout.keeps_probe_out(self.command).map_or(Ok(()), |option| {
            Err(format!(
                "{} stands in {}, and `python {option}` keeps out what would change it there: change it by hand, or leave {option} out",
                knob.name,
                edit.place(),
            ))
        })
    }

    /// Why this patch can't be added: it is in force, or it was declined in this run.
    pub fn check_patch(&self, patch: Patch) -> Result<(), String> {
        let patched = self.inputs.patchable_rank().and_then(|rank| {
            let mut patched = rank.patches.iter();
            patched.find(|patched| patched.patch == patch.name())
        });
        if let Some(patched) = patched.filter(|patched| patched.outcome == PatchOutcome::Declined) {
            return Err(format!(
                "the patch was not applied in this run: {}",
                patched.words
            ));
        }
        if Patch::of(self.command).contains(&patch) {
            return Err("already patched at runtime".into());
        }
        Ok(())
    }
}

/// The edits of one remedy so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    pub edits: Vec<Edit>,
    /// Edits of copies of config files.
    pub files: Vec<FileEdit>,
    /// What they change, for display.
    pub shown: Vec<String>,
}

impl Draft {
    /// The edit that adds a patch; `shown` says what it changes.
    pub fn patching(patch: Patch, shown: &str) -> Draft {
        Draft {
            edits: vec![Edit::Patch(patch)],
            shown: vec![format!("patched at runtime: {shown}")],
            ..Draft::default()
        }
    }

    /// Sets the argument `name` to `new`, in the bytes of its value.
    pub fn set(&mut self, name: &str, value: Value<'_>, new: &str) {
        self.edits.push(Edit::Splice {
            at: value.at,
            from: value.from,
            to: value.from + value.text.len(),
            with: new.into(),
        });
        self.shown.push(format!("{name} {}→{new}", value.text));
    }

    /// Sets a number to another value, wherever it is. `copies` is the directory for copies of
    /// files, and the run that they are for.
    pub fn write(
        &mut self,
        knob: &Knob<'_>,
        new: u64,
        copies: Option<(&Path, u32)>,
    ) -> Result<(), String> {
        match &knob.place {
            Place::Word(value) => self.set(&knob.name, *value, &new.to_string()),
            Place::Variable(old) => self.set_env(&knob.name, Some(old), &new.to_string()),
            Place::Added(addition) => self.insert(addition.gap, &addition.saying(new)),
            Place::Literal(edit) => {
                let edit = SourceEdit {
                    to: new,
                    ..edit.clone()
                };
                self.shown.push(
                    SourceEdit {
                        from: knob.value,
                        ..edit.clone()
                    }
                    .change(),
                );
                self.edits.push(Edit::Source(edit));
            }
            Place::File(file, found) => {
                let copies = copies.ok_or_else(|| {
                    format!(
                        "{} is {} in {}: a relaunch by key uses a copy with {new}",
                        knob.name,
                        knob.value,
                        file.shown()
                    )
                })?;
                self.set_in_copy(file, found, &new.to_string(), copies);
            }
        }
        Ok(())
    }

    pub fn insert(&mut self, gap: InsertPoint, words: &[String]) {
        self.edits.push(match gap {
            InsertPoint::Before(at) => Edit::Insert {
                at,
                words: words.iter().map(Word::from).collect(),
            },
            InsertPoint::Inside {
                at,
                from,
                separator,
            } => Edit::Splice {
                at,
                from,
                to: from,
                with: words
                    .iter()
                    .map(|word| format!("{separator}{word}"))
                    .collect::<String>()
                    .into(),
            },
        });
        self.shown.push(format!("+{}", words.join(" ")));
    }

    /// Removes an argument, with its value if `with_value`.
    pub fn remove(&mut self, arguments: &Arguments<'_>, hit: &Hit<'_>, with_value: bool) {
        let at = arguments.tokens[hit.token].at;
        let count = if with_value && hit.form == ArgumentForm::Space {
            hit.end() - hit.token
        } else {
            1
        };
        self.edits.push(Edit::Remove { at, count });
        self.shown.push(format!("−{}", hit.name));
    }

    /// Sets a value in a copy of a config file, and points the command at the copy.
    pub fn set_in_copy(
        &mut self,
        file: &ConfigFile,
        value: &FoundValue,
        new: &str,
        copies: (&Path, u32),
    ) {
        let (directory, run) = copies;
        let copy = directory.join(format!("run{run}-{}", file.shown()));
        let pointed = Edit::Splice {
            at: file.at,
            from: file.from,
            to: file.from + file.name.as_os_str().len(),
            with: Word::from(&copy),
        };
        if !self.edits.contains(&pointed) {
            self.edits.push(pointed);
        }
        self.files.push(FileEdit {
            copy,
            original: file.text.clone(),
            from: value.from,
            to: value.to,
            with: new.to_string(),
        });
        self.shown.push(format!(
            "{} {}→{new} in a copy of {}",
            value.name,
            value.text,
            file.shown()
        ));
    }

    /// Changes a variable where it is set, or sets it in front of the command.
    pub fn set_variable(&mut self, name: &str, set: Option<Variable<'_>>, new: &str) {
        match set {
            Some(Variable::Word(value)) => self.set(name, value, new),
            Some(Variable::Environment(old)) => self.set_env(name, Some(old), new),
            None => self.set_env(name, None, new),
        }
    }

    fn set_env(&mut self, name: &str, old: Option<&str>, new: &str) {
        self.edits.push(Edit::Env {
            name: name.into(),
            value: Some(Word::from(new)),
        });
        self.shown.push(match old {
            Some(old) => format!("{name} {old}→{new}"),
            None => format!("{name}={new}"),
        });
    }
}
