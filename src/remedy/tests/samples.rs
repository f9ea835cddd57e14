//! Shorter sequences and smaller images: what they change, that nobody gets them unasked, and that they are never first.

use super::*;
use crate::event::{Knobs, ParsedNumber, SourceNumber};
use crate::recognize::knob::tests::{number, told as knobs};

fn told(shape: &[u64], option: &str, value: u64, choices: &[u64]) -> Knobs {
    let number = ParsedNumber {
        choices: choices.to_vec(),
        ..number(option, value, false)
    };
    knobs(&[shape], &[number])
}

fn offered(line: &str, told: &Knobs) -> Vec<Remedy> {
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            told: Some(told),
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    remedies(&command(line), &inputs)
}

fn samples(line: &str, told: &Knobs) -> Option<String> {
    let all = offered(line, told);
    let found = all
        .iter()
        .find(|remedy| remedy.id == RemedyId::SmallerSamples)?;
    Some(format!(
        "{}: {}: {}",
        found.title,
        found.changes,
        found.numerics()
    ))
}

#[test]
fn half_a_length_and_three_quarters_of_a_side() {
    for (line, shape, option, value, choices, wanted) in [
        (
            "python a.py",
            &[8, 1024][..],
            "--seq-len",
            1024,
            &[][..],
            Some("shorter sequences: +--seq-len 512: changes the training"),
        ),
        (
            "python a.py --seq-len 1024",
            &[8, 1024],
            "--seq-len",
            1024,
            &[],
            Some("shorter sequences: --seq-len 1024→512: changes the training"),
        ),
        (
            "python a.py",
            &[8, 3, 224, 224],
            "--img-size",
            224,
            &[],
            Some("smaller images: +--img-size 160: changes the training"),
        ),
        (
            "python a.py",
            &[8, 3, 299, 299],
            "--img-size",
            299,
            &[],
            Some("smaller images: +--img-size 224: changes the training"),
        ),
        (
            "python a.py",
            &[8, 3, 224, 224],
            "--img-size",
            224,
            &[128, 224, 256],
            Some("smaller images: +--img-size 128: changes the training"),
        ),
        (
            "python a.py",
            &[8, 3, 224, 224],
            "--img-size",
            224,
            &[224, 256],
            None,
        ),
        ("python a.py", &[8, 1000], "--seq-len", 1024, &[], None),
    ] {
        let told = told(shape, option, value, choices);
        assert_eq!(samples(line, &told).as_deref(), wanted, "{line} {option}");
    }
}

#[test]
fn nobody_gets_them_unasked_and_they_are_the_last_that_is_offered() {
    let told = told(&[8, 1024], "--seq-len", 1024, &[]);
    let all = offered("python a.py --batch-size 8", &told);
    let at = all
        .iter()
        .position(|remedy| remedy.id == RemedyId::SmallerSamples);
    let last = all.iter().rposition(|remedy| remedy.is_offered());
    assert!(at.is_some() && at == last, "{all:?}");
    let only: Vec<Remedy> = all
        .into_iter()
        .filter(|one| one.id == RemedyId::SmallerSamples)
        .collect();
    assert_eq!(recommended(&only, Some(Cause::Capacity)), None);
}

#[test]
fn a_constant_is_changed_in_a_copy_of_its_file() {
    let mut told = told(&[8, 1024], "--x", 3, &[]);
    told.literals.push(SourceNumber {
        file: "/p/a.py".into(),
        line: 3,
        column: 13,
        name: "block_size".into(),
        value: 1024,
        ..SourceNumber::default()
    });
    let said = samples("python a.py", &told).expect("it is offered");
    assert!(
        said.contains("block_size") && said.contains("1024→512"),
        "{said}"
    );
}
