//! The allocator's replay held against a corpus of traces, to the byte: real ones with torch's own
//! figures (tests/gpu/traces.py), and made-up ones with what the demo's simulated GPU makes of them (the same
//! rules in Python; tests/demo holds it to the same corpus).

use oomph::forecast::replay::{AllocatorSettings, ReplayRoom, replay};
use oomph::forecast::trace::Trace;
use std::collections::HashMap;
use std::path::Path;

#[test]
fn every_trace_of_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/allocator");
    let mut wrong = Vec::new();
    let mut cases = 0;
    for file in std::fs::read_dir(folder).expect("the corpus").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a file of the corpus");
        for paragraph in text.split("\n\n") {
            let lines: Vec<&str> = paragraph
                .lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
                .collect();
            let Some((trace, keys)) = lines.split_last() else {
                continue;
            };
            let keys: HashMap<&str, &str> =
                keys.iter().filter_map(|k| k.split_once(": ")).collect();
            let number = |key| keys.get(key).map(|n: &&str| n.parse().expect("a number"));
            let room = ReplayRoom {
                device: number("device"),
                cap: number("cap"),
            };
            let settings = AllocatorSettings::parse(keys.get("settings").unwrap_or(&""));
            let trace: Trace = trace.parse().expect("a trace");
            let done = replay(&trace, &settings, room);
            let ended = done.ran_out.map_or("-".into(), |at| at.event.to_string());
            let said = format!(
                "{} {} {} {} {ended}",
                done.allocated_peak, done.reserved_peak, done.reserved, done.retries
            );
            if said != keys["expect"] {
                wrong.push(format!("{keys:?}: {said}"));
            }
            cases += 1;
        }
    }
    assert!(cases >= 80, "{cases} cases");
    assert!(
        wrong.is_empty(),
        "{} of {cases}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
