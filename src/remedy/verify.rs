//! What became of a remedy in the run that it was applied to: it did not take effect, as far as the run
//! reports that after its start, or the program rejected it.
//!
//! A program or a library may configure the allocator in its own code, overriding the environment,
//! or choose its device itself. This is reported at once, not after the next OOM. A rejected edit is
//! reverted: the program's last lines say so, or it ends at once in a way that only the change explains.
//! The messages are those of argparse, transformers' parser, click, absl, Hydra and OmegaConf,
//! jsonargparse, fire, tyro, yacs, nanoGPT, and of PyTorch's allocator (2.4 to 2.15).

use super::plan::{Availability, Edit, Expectation, Remedy};
use super::{NeedFrom, RemedyAction, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::Phrase;
use crate::event::{Exit, Hello, LoaderSettings};
use crate::units::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// Undoing a rejected change: [`without_rejected`] makes it, so nothing proposes it.
pub(super) const REMEDY: RemedySpec = RemedySpec {
    action: RemedyAction::Act,
    ..RemedySpec::new(
        'u',
        "undo the change",
        RemedyEffect::None,
        NeedFrom::Forecast(Remedy::change_batch),
        |_| None,
    )
};

/// What did not take effect, for display; `failed` is the device that ran out of memory before.
pub fn not_in_force(applied: &[Remedy], hello: &Hello, failed: Option<&Uuid>) -> Vec<String> {
    let verify = |remedy: &Remedy| remedy.id.spec().verify?(hello, failed);
    applied.iter().filter_map(verify).collect()
}

/// What the DataLoaders of the current run show of the remedies: in force, or an error that says what is not.
pub fn in_loaders(
    applied: &[Remedy],
    before: &[LoaderSettings],
    now: &[LoaderSettings],
) -> Vec<Result<String, String>> {
    let check = |remedy: &Remedy| remedy.id.spec().of_loader?(before, now);
    applied.iter().filter_map(check).collect()
}

/// How a relaunched run ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The last lines of its output.
    pub output: &'a str,
    pub exit: Exit,
    pub lasted: Duration,
    /// Completed optimizer steps.
    pub steps: u64,
}

/// A remedy that was undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneRemedy {
    pub id: RemedyId,
    pub title: String,
    pub why: WhyUndone,
}

impl UndoneRemedy {
    /// For display: what was undone, and why.
    pub fn words(&self) -> String {
        match &self.why {
            WhyUndone::WithoutEffect(words) => format!("undone: {words}"),
            why => format!("{} was undone; {why}", self.title),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyUndone {
    /// The program rejected it, with this message.
    Said(String),
    /// It exited at once without a word, as programs do on an unknown option.
    Exited { code: i32, lasted: Duration },
    /// Our own code of a change at runtime raised this.
    OursFailed(String),
    /// The program took it and trained as before: what shows that.
    WithoutEffect(String),
}

impl fmt::Display for WhyUndone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyUndone::Said(line) => write!(f, "the program said: {line}"),
            WhyUndone::Exited { code, lasted } => write!(
                f,
                "it exited after {:.1} s with code {code}, as programs do on an unknown option",
                lasted.as_secs_f64()
            ),
            WhyUndone::OursFailed(error) => write!(f, "oomph's own part of it failed: {error}"),
            WhyUndone::WithoutEffect(words) => f.write_str(words),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RejectedThing {
    Argument,
    Allocator,
    Precision,
    Checkpoint,
    /// Where a tensor is.
    Place,
    /// That a tensor has no memory.
    Memory,
    /// How much memory is asked for.
    Limit,
}

/// The messages of `rejections.toml`, in lower case.
fn sentences(of: RejectedThing) -> &'static [String] {
    static SENTENCES: OnceLock<BTreeMap<RejectedThing, Vec<String>>> = OnceLock::new();
    let read = || toml::from_str(include_str!("rejections.toml"));
    let all = SENTENCES
        .get_or_init(|| read().expect("rejections.toml is part of the binary and read by a test"));
    all.get(&of).map_or(&[], Vec::as_slice)
}

/// A program rejects its arguments before it loads anything large.
const AT_ONCE: Duration = Duration::from_secs(20);

/// The exit codes of argparse, click and absl.
const USAGE: [i32; 2] = [2, 64];

/// The remedy that was rejected, if one was. `applied` are the remedies in the run's command.
pub fn rejected(applied: &[Remedy], ended: &Ended<'_>) -> Option<UndoneRemedy> {
    if ended.exit.is_success() || ended.steps > 0 || applied.is_empty() {
        return None;
    }
    let lines: Vec<&str> = ended
        .output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let by = |remedy: &Remedy, why: WhyUndone| UndoneRemedy {
        id: remedy.id,
        title: remedy.title.clone(),
        why,
    };
    if let Some((remedy, error)) = failed_in_ours(applied, &lines) {
        return Some(by(remedy, WhyUndone::OursFailed(shortened(error))));
    }
    for line in lines.iter().rev() {
        let lower = line.to_lowercase();
        let says = |sentences: &[String]| sentences.iter().any(|s| lower.contains(s));
        let by_sentence = applied
            .iter()
            .find(|r| r.id.spec().rejects.is_some_and(|of| says(sentences(of))));
        let by_name = || applied.iter().find(|remedy| is_named(remedy, &lower));
        let found = by_sentence.or_else(|| {
            says(sentences(RejectedThing::Argument))
                .then(by_name)
                .flatten()
        });
        if let Some(remedy) = found {
            return Some(by(remedy, WhyUndone::Said(shortened(line))));
        }
    }
    // A usage error and nothing else: the one remedy that changed words is to blame.
    let Exit::Code(code) = ended.exit else {
        return None;
    };
    let mut with_words = applied.iter().filter(|remedy| changes_words(remedy));
    match (with_words.next(), with_words.next()) {
        (Some(only), None) if USAGE.contains(&code) && ended.lasted <= AT_ONCE => {
            let said = lines.last().map(|line| WhyUndone::Said(shortened(line)));
            let lasted = ended.lasted;
            Some(by(only, said.unwrap_or(WhyUndone::Exited { code, lasted })))
        }
        _ => None,
    }
}

/// The change at runtime whose own code raised the error that ended the program, and the error: the innermost frame of the
/// last traceback is ours.
fn failed_in_ours<'r, 'o>(
    applied: &'r [Remedy],
    lines: &[&'o str],
) -> Option<(&'r Remedy, &'o str)> {
    let frame = lines.iter().rposition(|line| line.starts_with("File \""))?;
    if !lines[frame].starts_with(OURS) {
        return None;
    }
    let is_error = |line: &&&str| {
        let kind = line.split(':').next().unwrap_or_default();
        let is_kind = kind.ends_with("Error") || kind.ends_with("Exception");
        is_kind && !kind.contains(' ') && !kind.contains("OutOfMemory")
    };
    let error = lines[frame + 1..].iter().find(is_error)?;
    let is_patch = |remedy: &&Remedy| {
        let mut edits = remedy.edits.iter();
        edits.any(|edit| matches!(edit, Edit::Patch(_)))
    };
    Some((applied.iter().find(is_patch)?, error))
}

/// How Python's tracebacks name the files of the probe.
const OURS: &str = "File \"<oomph-probe/";

fn changes_words(remedy: &Remedy) -> bool {
    remedy.edits.iter().any(|edit| match edit {
        Edit::Splice { .. } | Edit::Insert { .. } | Edit::Remove { .. } => true,
        Edit::Env { .. } | Edit::Patch(_) | Edit::Source(_) => false,
    })
}

/// Whether a line names what a remedy has added or changed.
fn is_named(remedy: &Remedy, line: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let line = plain(line);
    let names = remedy.changes.split_whitespace().filter_map(|word| {
        let word = word.trim_start_matches(['+', '−', '-']);
        let name = word.split(['=', '→']).next()?;
        let is_name = name.len() > 2 && name.contains(|c: char| c.is_ascii_alphabetic());
        is_name.then(|| plain(name))
    });
    names.into_iter().any(|name| stands_in(&line, &name))
}

/// Whether a line contains a name as a whole word.
fn stands_in(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        // Two leading dashes have become two underscores.
        let front = before.is_none_or(|c| !c.is_alphanumeric());
        front && !after.is_some_and(is_part)
    })
}

/// The longest quotation of a program in one of our lines.
const LONGEST: usize = 160;

fn shortened(line: &str) -> String {
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// Withdraws the remedies that the program rejected. If the latest run was rejected, the first
/// remedy is to continue with what was chosen beside it (`others`).
pub fn without_rejected(
    mut remedies: Vec<Remedy>,
    undone: &[UndoneRemedy],
    others: Option<&[Remedy]>,
) -> Vec<Remedy> {
    let is_rejected = |part: &Remedy| undone.iter().any(|undone| undone.id == part.id);
    remedies.retain(|remedy| !remedy.parts.iter().any(is_rejected));
    for remedy in &mut remedies {
        if let Some(undone) = undone.iter().find(|undone| undone.id == remedy.id) {
            remedy.availability =
                Availability::NotOffered(Phrase::from("undone").and(": ", undone.why.to_string()));
            remedy.edits.clear();
            remedy.files.clear();
        }
    }
    remedies.sort_by_key(|remedy| !remedy.is_offered());
    if let Some(others) = others {
        let changes: Vec<&str> = others.iter().map(|other| other.changes.as_str()).collect();
        remedies.insert(
            0,
            Remedy {
                edits: others.iter().flat_map(|o| o.edits.clone()).collect(),
                files: others.iter().flat_map(|o| o.files.clone()).collect(),
                changes: match changes.as_slice() {
                    [] => "the command as it was".into(),
                    changes => changes.join("  "),
                },
                expectation: without_change(others),
                takes: others.iter().find_map(|other| other.takes),
                alters: others.iter().find_map(|other| other.alters),
                ..Remedy::new(RemedyId::Without)
            },
        );
    }
    remedies
}

/// What is expected of the command before the change with what was chosen beside it. Alone it is the one that ran out of memory.
fn without_change(others: &[Remedy]) -> Expectation {
    match others {
        [] => Expectation {
            fits: Some(false),
            words: "this is the command that ran out of memory".into(),
            ..Expectation::default()
        },
        [other] => other.expectation.clone(),
        [_, _, ..] => Expectation::unknown("without the rejected change"),
    }
}

#[cfg(test)]
mod tests;
