//! Each row has an example in `tests/messages`; and what depends on other lines.

use super::*;
use crate::oom::tests::reports;
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
    let lines: Vec<CompactLine> = corpus()
        .iter()
        .flat_map(|record| [vec![record.as_str()], record.lines().collect()].concat())
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
fn a_killed_process_is_no_oom_of_the_host_if_a_gpu_ran_out() {
    for killed in [
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 811) of binary: /usr/bin/python",
        "  exitcode  : -9 (pid: 811)",
        "trainer-1 exited with code 137",
    ] {
        let after = format!("RuntimeError: CUDA error: out of memory\n{killed}");
        assert_eq!(reports(&after).len(), 1, "{killed}");
    }
}

#[test]
fn each_rank_has_its_own() {
    let text = "[rank0]: RuntimeError: CUDA error: out of memory\n[rank1]: RuntimeError: CUDA error: out of memory\n[rank1]: RuntimeError: CUDA error: out of memory\n";
    assert_eq!(reports(text).len(), 2);
}

/// The allocator waits and tries again: the program may go on, or the exception follows.
#[test]
fn a_wait_of_the_allocator_hides_neither_exception_nor_a_killed_process() {
    let notice = "2026-01-02 10:00:00.1: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 300.00GiB (rounded to 322122547200)requested by op";
    let exception = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 300.00GiB with allocator GPU_0_bfc on device 0.";
    let both = format!("{notice}\n{notice}\n{exception}\n{exception}\n");
    let outcomes: Vec<OomOutcome> = reports(&both).iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [OomOutcome::Caught, OomOutcome::Unknown]);
    let killed = format!("{notice}\ntrainer-1 exited with code 137\n");
    assert_eq!(reports(&killed).len(), 2);
}
