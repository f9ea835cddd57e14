//! What goes wrong in editing real commands, one table for each kind of trap. A right side with `!`
//! is a remedy that is not offered, and a part of its reason.

mod batches;
mod files;
mod launchers;
mod others;
mod precision;
mod programs;
mod vision;

use super::{Availability, Plan, Remedy, RemedyId, RemedyInputs, remedies};
use crate::command::{CommandLine, EnvChange, Word};

/// A command as a person types it; words `NAME=VALUE` in front are environment.
fn command(line: &str) -> CommandLine {
    let words = shlex::split(line).expect("a command of a test is quoted right");
    let typed = words
        .iter()
        .take_while(|word| crate::recognize::launcher::is_assignment(word))
        .count();
    CommandLine {
        argv: words[typed..].iter().map(Word::from).collect(),
        env: words[..typed]
            .iter()
            .map(|word| {
                let (name, value) = word.split_once('=').unwrap();
                EnvChange {
                    name: Word::from(name),
                    value: Some(Word::from(value)),
                }
            })
            .collect(),
        cwd: "/work".into(),
    }
}

fn remedy(command: &CommandLine, id: RemedyId, context: &RemedyInputs<'_>) -> Remedy {
    remedies(command, context)
        .into_iter()
        .find(|remedy| remedy.id == id)
        .unwrap()
}

fn outcome(line: &str, id: RemedyId, context: &RemedyInputs<'_>) -> String {
    let before = command(line);
    let remedy = remedy(&before, id, context);
    match &remedy.availability {
        Availability::NotOffered(reason) => format!("!{reason}"),
        Availability::Offered => {
            let after = Plan::of(&before, &[&remedy]).command;
            let set = after.env.iter().map(|change| {
                let value = change.value.as_ref().unwrap().to_string_lossy();
                format!("{}={value}", change.name.to_string_lossy())
            });
            let words = after.argv.iter().map(Word::to_string_lossy);
            set.chain(words).collect::<Vec<_>>().join(" ")
        }
    }
}

fn check(id: RemedyId, cases: &[(&str, &str)]) {
    check_in(id, &RemedyInputs::default(), cases);
}

fn check_in(id: RemedyId, context: &RemedyInputs<'_>, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let got = outcome(line, id, context);
        match expected.strip_prefix('!') {
            Some(reason) => assert!(
                got.starts_with('!') && got.contains(reason),
                "{line}\n  wanted no offer: {reason}\n  got {got}"
            ),
            None => assert_eq!(&got, expected, "{line}"),
        }
    }
}

const BATCH: RemedyId = RemedyId::Batch;
const AMP: RemedyId = RemedyId::Amp;
const SEGMENTS: RemedyId = RemedyId::ExpandableSegments;
