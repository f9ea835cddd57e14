//! Real recordings in every format.

use super::*;
use crate::report::recorded;

fn exported(name: &str, export: &mut dyn Export) {
    let mut state = State::default();
    for event in recorded(name) {
        state.apply(&event);
        export.event(&state, &event).unwrap();
    }
    export.finish(&state).unwrap();
}

#[test]
fn a_table_has_a_row_for_each_sample() {
    let mut out = Vec::new();
    exported("two-ranks", &mut CsvExport::new(&mut out));
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.len() > 50, "{}", rows.len());
    assert!(rows.iter().all(|row| row.len() == columns));
    for (source, rank) in [("torch", "0"), ("torch", "1"), ("nvml", "")] {
        assert!(
            rows.iter().any(|row| row[2] == source && row[5] == rank),
            "{source} {rank}"
        );
    }
}

#[test]
fn a_trace_is_json_with_counters_and_marks() {
    let mut out = Vec::new();
    exported("capacity", &mut TraceExport::new(&mut out));
    let trace: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let has = |ph: &str, name: &str| {
        let named = |event: &&serde_json::Value| event["name"].as_str().unwrap().contains(name);
        events.iter().filter(named).any(|event| event["ph"] == ph)
    };
    assert!(has("C", "GPU 0 MiB") && has("C", "GPU 0 used MiB"));
    assert!(has("X", "run 1: out of memory") && has("i", "out of memory"));
    let mut empty = Vec::new();
    TraceExport::new(&mut empty)
        .finish(&State::default())
        .unwrap();
    serde_json::from_slice::<serde_json::Value>(&empty).unwrap();
}

#[test]
fn each_rank_has_a_file_for_tensorboard() {
    let mut names = Vec::new();
    {
        let create = |directory: &str, name: &str| {
            names.push(format!("{directory}/{name}"));
            Ok(Box::new(io::sink()) as Box<dyn io::Write>)
        };
        exported("two-ranks", &mut TensorBoardExport::new(Box::new(create)));
    }
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names[0].starts_with("run1-rank0/events.out.tfevents."),
        "{names:?}"
    );
}
