//! That `TABLE.md` says of every fault what becomes of it, and says it truly.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The first ones, of which none is left out.
const FAULTS: u32 = 93;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).into()
}

/// The numbers of the tests here, with how many there are of each.
fn tests() -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root().join("tests/faults"))
        .expect("the tests")
        .flatten()
    {
        if entry.path().extension().is_none_or(|ext| ext != "rs") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("a source");
        for rest in text.split("\nfn fault_").skip(1) {
            let number = rest
                .split('_')
                .next()
                .and_then(|digits| digits.parse().ok());
            *found.entry(number.expect("a number")).or_insert(0) += 1;
        }
    }
    found
}

/// The rows: number, outcome, where.
fn rows() -> Vec<(u32, String, String)> {
    let text = fs::read_to_string(root().join("tests/faults/TABLE.md")).expect("the table");
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line
                .split(" | ")
                .map(|cell| cell.trim_matches([' ', '|']))
                .collect();
            let number = cells.first()?.parse().ok()?;
            let cell = |n: usize| cells.get(n).map_or(String::new(), |text| text.to_string());
            Some((number, cell(2), cell(3)))
        })
        .collect()
}

/// Every fault has one row, and what the row names is there: tests by their number, a unit test by
/// its file and name, a script by its file, or a reason.
#[test]
fn every_fault_has_an_outcome_that_is_there() {
    let rows = rows();
    let numbers: Vec<u32> = rows.iter().map(|(number, ..)| *number).collect();
    let first: Vec<u32> = numbers.iter().copied().take(FAULTS as usize).collect();
    assert_eq!(first, (1..=FAULTS).collect::<Vec<u32>>());
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let tests = tests();
    let mut listed = BTreeSet::new();
    for (number, outcome, place) in &rows {
        let mut known = false;
        for kind in outcome.split(", ") {
            known = true;
            match kind {
                "test" => {
                    assert!(
                        tests.contains_key(number),
                        "{number}: there is no test of it"
                    );
                    listed.insert(*number);
                }
                "unit test" => {
                    let (file, name) = place
                        .split_once(": ")
                        .unwrap_or_else(|| panic!("{number}: {place}"));
                    let text =
                        fs::read_to_string(root().join(file.trim_matches('`'))).expect("a source");
                    let name = name.trim_matches('`');
                    assert!(
                        text.contains(&format!("fn {name}(")),
                        "{number}: no {name} in {file}"
                    );
                }
                "script" => {
                    let file = place.split('`').nth(1).unwrap_or_default();
                    assert!(
                        root().join("tests/faults").join(file).exists(),
                        "{number}: no {file}"
                    );
                }
                "judged" => assert!(place.len() > 20, "{number}: why?"),
                other => panic!("{number}: {other:?} is no outcome"),
            }
        }
        assert!(known, "{number}: no outcome");
    }
    assert_eq!(
        listed,
        tests.keys().copied().collect(),
        "tests that the table does not know"
    );
}
