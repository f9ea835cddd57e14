//! Constructed OOMs and their findings: the causes in tables, the sentences as a snapshot.

mod climbs;
mod forecasts;
mod leaks;
mod messages;
mod ranks;
mod rehearsals;
mod trainings;

use super::*;
use messages::{explained, messages};
use std::fmt::Write;
use trainings::scenes;

#[test]
fn the_words() {
    let mut words = String::new();
    let cases = messages()
        .into_iter()
        .map(|(what, report, ..)| (format!("text: {what}"), explained(&report)))
        .chain(
            scenes()
                .into_iter()
                .map(|(what, scene, ..)| (format!("probe: {what}"), diagnose(&scene.state))),
        );
    for (what, findings) in cases {
        let _ = writeln!(words, "# {what}");
        for finding in findings {
            let (certainty, cause) = (finding.certainty, finding.cause);
            let _ = writeln!(words, "{certainty:?} {cause:?}: {}", finding.headline);
            let _ = writeln!(words, "    {}", finding.explanation);
            for advice in finding.advice {
                let _ = writeln!(words, "    > {advice}");
            }
        }
        words.push('\n');
    }
    insta::assert_snapshot!(words);
}

#[test]
fn every_cause_finds_its_own_row() {
    for spec in CAUSES {
        assert_eq!(spec.cause.spec().title, spec.title);
    }
}
