//! Each row has an example, and is read as what it says; then the families, one by one.

mod cublas_cudnn;
mod cuda_runtime;
mod host;
mod jax_tf;
mod libraries;
mod nvml_assert;

use super::*;
use crate::oom::fixture::reports;
use std::fs;
use std::path::Path;

/// The records of `tests/messages` without their heads, wrapped lines joined.
fn corpus() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let files = fs::read_dir(directory).expect("the corpus");
    files
        .flat_map(|file| {
            let text = fs::read_to_string(file.expect("a file").path()).expect("text");
            let records = text.split("\n=== ").map(|record| {
                record
                    .split_once('\n')
                    .map_or("", |(_, text)| text)
                    .to_string()
            });
            records.collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_wording_has_an_example() {
    let table = WordingTable::get();
    let examples = table.wordings.iter().flat_map(|row| row.example.lines());
    let lines: Vec<CompactLine> = corpus()
        .iter()
        .flat_map(|record| [vec![record.as_str()], record.lines().collect()].concat())
        .chain(examples)
        .map(|text| CompactLine::new(text.to_owned(), ""))
        .collect();
    let has = |text: &Template| {
        let mut lines = lines.iter();
        lines.any(|line| {
            text.find(&line.compact, &line.compact.to_ascii_lowercase())
                .is_some()
        })
    };
    let without: Vec<&Template> = table.texts().filter(|text| !has(text)).collect();
    assert!(without.is_empty(), "in no example: {without:#?}");
}

#[test]
fn every_example_is_read_as_its_row_says() {
    for row in &WordingTable::get().wordings {
        for example in row.example.lines().filter(|line| !line.is_empty()) {
            let found = reports(example);
            assert_eq!(found.len(), 1, "{example}");
            assert_eq!(found[0].kind, row.kind, "{example}");
        }
    }
}

/// More than 64 literals are searched for at a fraction of the speed.
#[test]
fn the_raw_output_is_searched_for_few_words() {
    let words = crate::oom::prefilter::words();
    assert!(words.len() <= 64, "{} words", words.len());
}
