//! Constructed OOMs and their findings: the causes in tables, the sentences as a snapshot.

mod attention;
mod beside;
mod climbs;
mod evaluations;
mod forecasts;
mod host;
mod leaks;
mod limits;
mod messages;
mod pools;
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
                .chain(attention::scenes())
                .map(|(what, scene, ..)| (format!("probe: {what}"), diagnose(&scene.state))),
        )
        .chain(
            host::scenes()
                .into_iter()
                .map(|(what, scene, _)| (what, scene))
                .chain(
                    host::further()
                        .into_iter()
                        .map(|(what, scene, ..)| (what, scene)),
                )
                .map(|(what, scene)| (format!("host: {what}"), diagnose(&scene.state))),
        );
    for (what, findings) in cases {
        let _ = writeln!(words, "# {what}");
        for finding in findings {
            let (certainty, cause) = (finding.certainty, finding.cause);
            let _ = writeln!(words, "{certainty:?} ({cause:?}) {}", finding.headline);
            let _ = writeln!(words, "    {}", finding.explanation);
            for advice in finding.advice {
                let _ = writeln!(words, "    > {advice}");
            }
        }
        words.push('\n');
    }
    insta::assert_snapshot!(words);
}

/// What recordings and JSON call the causes stays.
#[test]
fn the_published_names_of_causes_stay() {
    let names: Vec<_> = Cause::ALL
        .iter()
        .map(|cause| serde_json::to_value(cause).unwrap())
        .collect();
    for name in [
        "host_memory",
        "shared_memory",
        "pinned_memory",
        "host_workers",
        "host_process",
        "host_leak",
        "open_files",
        "prefetch_queue",
        "worker_copies",
        "checkpoint_in_ram",
        "evaluation_in_ram",
        "slurm_limit",
        "device_fault",
        "limit",
        "foreign_process",
        "leak",
        "evaluation_graph",
        "optimizer_state",
        "odd_batch",
        "fragmentation",
        "non_pytorch",
        "capacity",
        "thrashing",
        "own_ranks",
        "leftover_process",
        "gpu_in_workers",
        "inference_engine",
        "model_placement",
        "held_by_exception",
        "evaluation_outputs",
        "checkpoint_loading",
        "checkpoint_saving",
        "compilation",
        "large_logits",
        "attention_scores",
        "wrong_size",
        "driver_refused",
        "unused_block",
        "library_memory",
    ] {
        assert!(names.contains(&name.into()), "{name}");
    }
}
