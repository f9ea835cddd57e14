//! `spellings.toml`: how programs without an entry spell their arguments.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Names by meaning.
type Meanings<M> = BTreeMap<M, Vec<String>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spellings {
    pub not_of_training: Vec<String>,
    pub accumulation: Vec<String>,
    pub dynamic_batches: Vec<String>,
    pub evaluates: Vec<String>,
    pub like_a_batch: Vec<String>,
    pub beside_a_batch: Vec<String>,
    pub with_a_batch: Vec<String>,
    pub other_sizes: Vec<String>,
    pub workers: Vec<String>,
    pub like_workers: Vec<String>,
    pub ranks: Vec<String>,
    pub prefetch: Vec<String>,
    pub pin_memory: Vec<String>,
    pub persistent_workers: Vec<String>,
    pub groups: Vec<String>,
    pub config_files: Vec<String>,
    pub places_written: Vec<String>,
    pub sizeless: Vec<String>,
    pub device_choosers: Vec<String>,
    pub includes: Vec<String>,
    pub not_training: Vec<String>,
    pub only_evaluates: Vec<String>,
    pub batch: Meanings<BatchArgument>,
    pub sample: Meanings<SampleSize>,
    pub precision: Meanings<PrecisionArgument>,
    pub checkpointing: Meanings<CheckpointingArgument>,
    values: Values,
    turned_on: BTreeMap<String, String>,
    pub library_fields: Vec<LibraryFields>,
    pub job: JobVariables,
}

/// What the fields of a library's classes begin with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LibraryFields {
    pub classes: Vec<String>,
    pub numbers: BTreeMap<String, u64>,
}

/// How to read the batch argument of an unknown program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BatchArgument {
    /// The batch of one device, by its name.
    Micro,
    /// A batch, most likely of one device.
    Plain,
    /// Like [`BatchArgument::Plain`], but some programs divide it by their accumulation steps.
    Divided,
    /// A total over devices and accumulation.
    Total,
    /// A part of the batch or the batch itself, depending on the program.
    Unsure,
}

/// A size of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SampleSize {
    /// The elements of a sequence.
    Length,
    /// The height or the width of an image.
    Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PrecisionArgument {
    Amp,
    Bf16,
    Fp16,
    Format,
    Negated,
    Valued,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckpointingArgument {
    Switch,
    Negated,
    Unclear,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    yes: Vec<String>,
    no: Vec<String>,
    nothing: Vec<String>,
    full_precision: Vec<String>,
}

/// Variables that show that a command is one part of a job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobVariables {
    pub machines: Vec<String>,
    pub machine: Vec<String>,
    pub processes: Vec<String>,
    pub others: Vec<String>,
}

pub(crate) fn spellings() -> &'static Spellings {
    static SPELLINGS: OnceLock<Spellings> = OnceLock::new();
    SPELLINGS.get_or_init(|| {
        toml::from_str(include_str!("spellings.toml"))
            .expect("spellings.toml is part of the binary and read by a test")
    })
}

pub(crate) fn is_one(list: &[String], word: &str) -> bool {
    list.iter().any(|one| one == word)
}

/// What the probe has of these names, as the text of its `knobs/names.py`.
#[cfg(test)]
fn names_of_the_probe() -> String {
    let listed = spellings();
    let set = |name: &str, comment: &str, words: Vec<&String>| {
        let words: std::collections::BTreeSet<&String> = words.into_iter().collect();
        let rows: Vec<String> = words
            .iter()
            .map(|word| format!("    \"{word}\",\n"))
            .collect();
        format!("# {comment}\n{name} = {{\n{}}}\n", rows.concat())
    };
    let other = listed.not_of_training.iter().chain(&listed.beside_a_batch);
    format!(
        "\"\"\"What names say of a batch. They are those of recognize/spellings.toml, as its test says.\n\"\"\"\n{}{}",
        set(
            "BATCH",
            "Words of a batch's name.",
            listed.like_a_batch.iter().collect()
        ),
        set(
            "OTHER",
            "Beside them these say that it is something else.",
            other.collect()
        ),
    )
}

#[cfg(test)]
#[test]
fn the_names_of_the_probe_are_these() {
    let is = include_str!("../probe/python/oomph_probe/knobs/names.py");
    let wanted = names_of_the_probe();
    assert!(is == wanted, "knobs/names.py should be:\n{wanted}");
}

/// The meaning of a name.
pub(crate) fn meaning<M: Copy>(table: &Meanings<M>, name: &str) -> Option<M> {
    let found = table.iter().find(|(_, names)| is_one(names, name));
    found.map(|(meaning, _)| *meaning)
}

/// Whether a word is a boolean value.
pub(crate) fn is_bool(word: &str) -> bool {
    let (word, values) = (word.to_ascii_lowercase(), &spellings().values);
    is_one(&values.yes, &word) || is_one(&values.no, &word)
}

pub(crate) fn is_no(value: &str) -> bool {
    let (value, values) = (value.to_ascii_lowercase(), &spellings().values);
    is_one(&values.no, &value) || is_one(&values.nothing, &value)
}

/// Values that mean "no" or full precision.
pub(crate) fn is_off(value: &str) -> bool {
    is_no(value)
        || is_one(
            &spellings().values.full_precision,
            &value.to_ascii_lowercase(),
        )
}

/// The value that turns off what this one turns on, in the same case.
pub(crate) fn turned_off(value: &str) -> Option<&'static str> {
    let mut all = spellings().turned_on.iter();
    let found = all.find(|(_, on)| on.as_str() == value);
    found.map(|(off, _)| off.as_str())
}

/// The value that turns on what this one turns off, in the same case.
pub(crate) fn turned_on(value: &str) -> Option<&'static str> {
    spellings().turned_on.get(value).map(String::as_str)
}
