//! Messages and logs as they arrive, each with what must be read out of it: `tests/messages/*.txt`.
//!
//! A record begins with `=== what it is | expected`; its text goes on to the next one. Expected are
//! the first report's kind, outcome, and figures, `name=value`; a figure that is not named must not
//! be read (what is reserved and what is unallocated follow from each other). `none` stands for no
//! report at all, `caught` for none that is not caught. ␛ and ␍ in a text are the escape and the
//! carriage return. The texts are ours, after the templates of the programs that print them.
//!
//! `cause` is that of the last report's first finding, by the log alone; the figures are then that report's too. `advice` is a word
//! that is in what the finding advises.
//!
//! `causes` has logs with the stack that shows a cause. `pytorch` has PyTorch's allocators, `elsewhere` drivers, libraries and frameworks, `host` the host's
//! memory, `arrival` what stands around a message (prefixes, loggers, panels), `none` what looks like an
//! OOM and is none or was handled, `wordings` single lines, several for each row of the table, and
//! `devices` devices that are used through other interfaces than CUDA's and gradient boosting's and Dask's own words, `further` what fits
//! none of them.

use oomph::diagnosis::{Cause, diagnose_incident};
use oomph::oom::{OomOutcome, OomReport, Scanner, read};
use oomph::state::{OomIncident, State};
use oomph::units::{Bytes, Moment};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

struct Record {
    file: String,
    what: String,
    expected: String,
    text: String,
}

fn records() -> Vec<Record> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("the records")
        .map(|entry| entry.expect("a file").path())
        .collect();
    paths.sort();
    paths.iter().flat_map(|path| records_of(path)).collect()
}

fn records_of(path: &Path) -> Vec<Record> {
    let content = fs::read_to_string(path).expect("text");
    let mut records: Vec<Record> = Vec::new();
    for line in content.lines() {
        if let Some(head) = line.strip_prefix("=== ") {
            let (what, expected) = head.split_once(" | ").expect("what | expected");
            records.push(Record {
                file: path.file_name().expect("a name").to_string_lossy().into(),
                what: what.into(),
                expected: expected.into(),
                text: String::new(),
            });
        } else {
            let text = &mut records.last_mut().expect("a head first").text;
            text.push_str(&line.replace('␛', "\x1b").replace('␍', "\r"));
            text.push('\n');
        }
    }
    records
}

/// A report's figures by name, sizes in bytes.
fn figures(report: &OomReport) -> BTreeMap<&'static str, String> {
    let size = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0.to_string());
    let others: Vec<String> = report
        .others
        .iter()
        .map(|other| format!("{}:{}", other.pid, size(other.used).unwrap_or_default()))
        .collect();
    [
        ("rank", report.rank.map(|rank| rank.to_string())),
        ("device", report.device.map(|device| device.to_string())),
        ("requested", size(report.requested)),
        ("total", size(report.total)),
        ("free", size(report.free)),
        ("allocated", size(report.allocated)),
        ("reserved", size(report.reserved)),
        ("unallocated", size(report.unallocated)),
        ("process_used", size(report.process_used)),
        ("limit", size(report.limit)),
        ("private_pools", size(report.private_pools)),
        ("outside", size(report.outside)),
        ("others", (!others.is_empty()).then(|| others.join(","))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

/// The expected figures by name, sizes in bytes.
fn expected(words: &[&str]) -> BTreeMap<&'static str, String> {
    const NAMES: [&str; 13] = [
        "rank",
        "device",
        "requested",
        "total",
        "free",
        "allocated",
        "reserved",
        "unallocated",
        "process_used",
        "limit",
        "private_pools",
        "outside",
        "others",
    ];
    let bytes = |size: &str| Bytes::parse(size).expect("a size").0.to_string();
    words
        .iter()
        .map(|word| {
            let (name, value) = word.split_once('=').expect("name=value");
            let name = NAMES.iter().find(|known| **known == name).expect("a name");
            let value = match *name {
                "rank" | "device" => value.to_string(),
                "others" => value
                    .split(',')
                    .map(|other| {
                        let (pid, size) = other.split_once(':').expect("pid:size");
                        format!("{pid}:{}", bytes(size))
                    })
                    .collect::<Vec<_>>()
                    .join(","),
                _ => bytes(value),
            };
            (*name, value)
        })
        .collect()
}

/// What is wrong with what was read of a record, if anything.
fn objection(record: &Record) -> Option<String> {
    let reports = read(record.text.as_bytes());
    let mut words = record.expected.split(' ');
    let (kind, outcome) = match words.next()? {
        "none" => return (!reports.is_empty()).then(|| format!("{reports:#?}")),
        "caught" => {
            let all =
                !reports.is_empty() && reports.iter().all(|r| r.outcome == OomOutcome::Caught);
            return (!all).then(|| format!("{reports:#?}"));
        }
        kind => (kind, words.next()?),
    };
    let words: Vec<&str> = words.collect();
    let cause = words.iter().find_map(|word| word.strip_prefix("cause="));
    let advice = words.iter().find_map(|word| word.strip_prefix("advice="));
    let is_figure = |word: &&&str| !word.starts_with("cause=") && !word.starts_with("advice=");
    let words = words.iter().filter(is_figure);
    let decisive = match cause {
        Some(_) => reports.last(),
        None => reports.first(),
    };
    let Some(report) = decisive else {
        return Some("nothing was read".into());
    };
    if record.text.lines().count() == 1 && reports.len() > 1 {
        return Some(format!("{} reports of one line", reports.len()));
    }
    let said = serde_json::to_value(report).expect("JSON");
    let mut off = String::new();
    if said["kind"] != kind || said["outcome"] != outcome {
        let _ = write!(off, "{} {}; ", said["kind"], said["outcome"]);
    }
    let wanted = expected(&words.copied().collect::<Vec<_>>());
    let found = figures(report);
    for (name, value) in &wanted {
        if found.get(name) != Some(value) {
            let _ = write!(off, "{name} {:?} for {value}; ", found.get(name));
        }
    }
    for (name, value) in &found {
        let follows = matches!(*name, "reserved" | "unallocated");
        if !wanted.contains_key(name) && !follows {
            let _ = write!(off, "{name} made up: {value}; ");
        }
    }
    if let Some(cause) = cause {
        let incident = OomIncident::of_report(Moment::ZERO, report.clone());
        let findings = diagnose_incident(&State::default(), None, &incident);
        let named = serde_json::to_value(findings.first().map(|first| first.cause)).expect("JSON");
        if named != cause {
            let _ = write!(off, "{named} for {cause}; ");
        }
        let advised = findings.first().map_or(&[][..], |first| &first.advice);
        let has = |word: &str| advised.iter().any(|said| said.to_string().contains(word));
        if let Some(word) = advice.filter(|word| !has(word)) {
            let _ = write!(off, "nothing of {word} among {advised:?}; ");
        }
    }
    (!off.is_empty()).then_some(off)
}

#[test]
fn each_message_is_read_as_what_it_is() {
    let records = records();
    let mut wrong = String::new();
    let mut count = 0;
    for record in &records {
        if let Some(objection) = objection(record) {
            let Record { file, what, .. } = record;
            let _ = writeln!(wrong, "{file}: {what}: {objection}");
            count += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{count} of {} wrong:\n{wrong}",
        records.len()
    );
}

/// What a live scanner reads of bytes in chunks of this length.
fn scanned(bytes: &[u8], length: usize) -> Vec<OomReport> {
    let mut reports = Vec::new();
    let mut scanner = Scanner::new();
    for chunk in bytes.chunks(length) {
        scanner.feed(chunk, &mut |report| reports.push(report));
    }
    scanner.finish(&mut |report| reports.push(report));
    reports
}

#[test]
fn however_a_record_is_cut_the_answer_is_the_same() {
    for record in records() {
        let bytes = record.text.as_bytes();
        let whole = scanned(bytes, usize::MAX);
        for length in [1, 2, 7, 80, 4096] {
            assert_eq!(scanned(bytes, length), whole, "{}, {length}", record.what);
        }
    }
}

#[test]
fn a_record_is_read_the_same_within_a_log() {
    for record in records() {
        let before = "epoch 1 done, validation 0.71\nsaved to out/\n";
        let within = format!("{before}{}", record.text);
        let alone = scanned(record.text.as_bytes(), usize::MAX);
        let mut found = scanned(within.as_bytes(), usize::MAX);
        for report in &mut found {
            report.line -= 2;
        }
        assert_eq!(found, alone, "{}", record.what);
    }
}

/// Causes that no text shows, each with what tells it and a text does not have.
const BEYOND_TEXT: [(Cause, &str); 12] = [
    (Cause::PrefetchQueue, "how many batches wait in /dev/shm"),
    (
        Cause::WorkerCopies,
        "what pages workers share with their parent",
    ),
    (Cause::HostLeak, "the RAM of a process over minutes"),
    (
        Cause::HostWorkers,
        "the RAM of each worker: one that was killed need not have filled it",
    ),
    (
        Cause::HostProcess,
        "the RAM of all processes: the kernel names the one that it killed",
    ),
    (Cause::DeviceFault, "whether the GPU still answers"),
    (
        Cause::LeftoverProcess,
        "who started the other processes, of which a message has the PIDs",
    ),
    (Cause::Leak, "what is allocated after each step, over steps"),
    (Cause::EvaluationGraph, "whether gradients were enabled"),
    (Cause::OddBatch, "the peaks of the steps before"),
    (Cause::UnusedBlock, "the free blocks in the cache"),
    (
        Cause::Thrashing,
        "how often each step had to try again, and how long it took",
    ),
];

#[test]
fn each_cause_that_a_text_can_show_has_a_record() {
    let all: String = records().into_iter().map(|r| r.expected + "\n").collect();
    for cause in Cause::ALL {
        let name = serde_json::to_value(cause).expect("JSON");
        let name = name.as_str().expect("a name");
        let words = format!("cause={name}\n");
        let has = all.contains(&words);
        let why = BEYOND_TEXT.iter().find(|(beyond, _)| beyond == cause);
        assert_eq!(!has, why.is_some(), "{name}: {why:?}");
    }
}
