//! Recordings of real trainings, replayed to what they are found to have died of.
//!
//! They were recorded on an NVIDIA H200 (139.8 GiB that processes can have) with torch 2.11, by
//! `tests/gpu/run.py`; `demo/train.py` is the training where nothing else is said. Their figures are
//! the recorded ones. To keep them small, readings far from the out-of-memory were thinned; paths,
//! the user's name and the device's id are not those of the machine.

mod traced;

use oomph::diagnosis::{
    Cause, Finding, FittedGrowth, LeakForecast, diagnose, diagnose_incident, leak_forecast,
    warnings,
};
use oomph::event::{Event, EventKind};
use oomph::forecast::ForecastInputs;
use oomph::recognize::LaunchEnvironment;
use oomph::recording;
use oomph::remedy::{Remedy, RemedyId, RemedyInputs, remedies};
use oomph::state::{Breakdown, DeviceState, ProbeState, RunOutcome, State};
use oomph::units::Bytes;
use std::fmt::Write;
use std::path::PathBuf;

/// More than a context and the libraries of these trainings hold: 0.5 to 0.8 GiB were seen.
const OUTSIDE_AT_MOST: Bytes = Bytes::gib(1);

fn events(name: &str) -> Vec<Event> {
    let file = format!("tests/replay/{name}.jsonl");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let events = recording::read(&path).expect("the recording is there");
    events.map(|event| event.expect("a line")).collect()
}

/// What a replay shows.
struct Replayed {
    state: State,
    findings: Vec<Finding>,
    remedies: Vec<Remedy>,
    /// The smallest and the largest that lay outside PyTorch, at any moment.
    outside: Option<(Bytes, Bytes)>,
    /// The most that other processes were said to hold, at any moment of the run.
    foreign: Bytes,
}

/// Replays a recording, and looks at what the device is made of after every event.
fn replay(name: &str) -> Replayed {
    let mut state = State::default();
    let mut outside: Option<(Bytes, Bytes)> = None;
    let mut foreign = Bytes::ZERO;
    for event in events(name) {
        state.apply(&event);
        for device in &state.devices {
            let parts = device.breakdown(&state);
            never_more_than_the_card(name, device, &parts);
            if let Some(bytes) = parts.non_pytorch {
                let (least, most) = outside.unwrap_or((bytes, bytes));
                outside = Some((least.min(bytes), most.max(bytes)));
                foreign = foreign.max(parts.other_processes.unwrap_or_default());
            }
        }
    }
    let findings = diagnose(&state);
    let command = state.run().expect("a run").command.clone();
    let torch = state.run().and_then(|run| run.ranks.first());
    let torch = torch.map(|rank| rank.hello.torch.clone());
    let remedies = remedies(
        &command,
        &RemedyInputs {
            launch: LaunchEnvironment {
                torch: torch.as_deref(),
                ..LaunchEnvironment::default()
            },
            forecast: ForecastInputs {
                oom: state.oom(),
                state: Some(&state),
                ..ForecastInputs::default()
            },
            findings: &findings,
            ..RemedyInputs::default()
        },
    );
    Replayed {
        state,
        findings,
        remedies,
        outside,
        foreign,
    }
}

fn never_more_than_the_card(name: &str, device: &DeviceState, parts: &Breakdown) {
    let sum: Bytes = list(parts).into_iter().filter_map(|(_, bytes)| bytes).sum();
    let capacity = device.capacity.expect("NVML says it first");
    assert!(sum <= capacity, "{name}: {sum} of {capacity}: {parts:?}");
}

fn list(parts: &Breakdown) -> [(&'static str, Option<Bytes>); 8] {
    [
        ("parameters", parts.parameters),
        ("gradients", parts.gradients),
        ("optimizer state", parts.optimizer_state),
        ("activations and the rest", parts.activations_and_other),
        ("unallocated", parts.cached),
        ("non-PyTorch", parts.non_pytorch),
        ("foreign", parts.other_processes),
        ("free", parts.free),
    ]
}

/// All of it in words, for a snapshot.
fn told(replayed: &Replayed) -> String {
    let state = &replayed.state;
    let run = state.run().expect("a run");
    let mut told = String::new();
    let peak = run.peak().map_or("not known".into(), |p| p.to_string());
    let _ = writeln!(
        told,
        "{:?}: {} steps, peak {peak}",
        run.outcome(),
        run.steps()
    );
    if let Some((least, most)) = replayed.outside {
        let _ = writeln!(told, "non-PyTorch over the run: {least} to {most}");
    }
    if let Some(oom) = state.oom() {
        let device = oom.device.as_ref().and_then(|uuid| state.device(uuid));
        let parts = device.and_then(|device| device.breakdown_at(oom, None));
        let _ = writeln!(told, "\nwhen memory ran out:");
        for (name, bytes) in parts.as_ref().map(list).into_iter().flatten() {
            let bytes = bytes.map_or("not known".into(), |bytes| bytes.to_string());
            let _ = writeln!(told, "  {name}: {bytes}");
        }
    }
    for finding in &replayed.findings {
        tell(&mut told, finding);
    }
    if state.oom().is_some() {
        let _ = writeln!(told);
        for remedy in replayed.remedies.iter().filter(|r| r.is_offered()) {
            let expected = &remedy.expectation;
            let fits = match expected.fits {
                Some(true) => "yes",
                Some(false) => "no",
                None => "open",
            };
            let _ = writeln!(told, "{}: {}", remedy.title, remedy.changes);
            let _ = writeln!(told, "    {} (fits: {fits})", expected.words);
        }
    }
    told
}

fn tell(told: &mut String, finding: &Finding) {
    let (certainty, cause) = (finding.certainty, finding.cause);
    let _ = writeln!(told, "\n{certainty:?} ({cause:?}) {}", finding.headline);
    let _ = writeln!(told, "    {}", finding.explanation);
    for advice in &finding.advice {
        let _ = writeln!(told, "    > {advice}");
    }
}

fn kept(name: &str, told: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("replay/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, told));
}

/// What lies outside PyTorch is a context and its libraries, at every moment of the run.
fn outside_is_small(replayed: &Replayed) {
    let (_, most) = replayed.outside.expect("NVML was there");
    assert!(most <= OUTSIDE_AT_MOST, "{most} outside PyTorch");
    // Nobody else was on the card.
    assert_eq!(replayed.foreign, Bytes::ZERO);
}

fn first_cause(replayed: &Replayed) -> Option<Cause> {
    replayed.findings.first().map(|finding| finding.cause)
}

fn remedy(replayed: &Replayed, id: RemedyId) -> &Remedy {
    let mut all = replayed.remedies.iter();
    all.find(|remedy| remedy.id == id).expect("it is there")
}

#[test]
fn capacity() {
    let replayed = replay("capacity");
    kept("capacity", &told(&replayed));
    assert_eq!(first_cause(&replayed), Some(Cause::Capacity));
    // NVML was read between samples of 47 and of 117 GiB: 82 GiB more than the one before.
    outside_is_small(&replayed);
    // No step had needed what the one that failed wanted.
    let batch = &remedy(&replayed, RemedyId::Batch).expectation;
    assert_eq!((batch.needs(), batch.fits), (None, None));
    assert!(batch.at_least.is_some());
}

#[test]
fn an_evaluation_that_builds_the_graph() {
    let replayed = replay("evaluation");
    kept("evaluation", &told(&replayed));
    assert_eq!(first_cause(&replayed), Some(Cause::EvaluationGraph));
    outside_is_small(&replayed);
}

/// What is said of each training before it fails, the first time that it is.
fn said_before(name: &str) -> Vec<(Cause, u64, Option<LeakForecast>)> {
    let mut state = State::default();
    let mut said: Vec<(Cause, u64, Option<LeakForecast>)> = Vec::new();
    for event in events(name) {
        state.apply(&event);
        if !matches!(event.what, EventKind::Step(_)) {
            continue;
        }
        let steps = state.run().expect("a run").steps();
        for warning in warnings(&state, &FittedGrowth::default()) {
            if said.iter().all(|(cause, ..)| *cause != warning.cause) {
                said.push((
                    warning.cause,
                    steps,
                    leak_forecast(&state, &FittedGrowth::default()),
                ));
            }
        }
    }
    said
}

#[test]
fn only_the_leak_is_warned_of() {
    for name in [
        "cap",
        "capacity",
        "caught",
        "evaluation",
        "isolated",
        "two-ranks",
    ] {
        assert_eq!(said_before(name), [], "{name}");
    }
    let said = said_before("leak");
    let [(cause, step, Some(forecast))] = &said[..] else {
        panic!("{said:?}");
    };
    // Four gibibytes a step: called as soon as ten floors are there. It ended in step 18.
    assert_eq!((*cause, *step), (Cause::Leak, 13));
    let range = forecast.soonest..=forecast.latest;
    assert!(range.contains(&(18 - step)), "{forecast:?}");
}

#[test]
fn a_leak() {
    let replayed = replay("leak");
    kept("leak", &told(&replayed));
    assert_eq!(first_cause(&replayed), Some(Cause::Leak));
    outside_is_small(&replayed);
}

/// A program that allows itself 5 % of the card and fills it.
#[test]
fn a_cap() {
    let replayed = replay("cap");
    kept("cap", &told(&replayed));
    assert_eq!(first_cause(&replayed), Some(Cause::Limit));
}

/// A program that asks for a pebibyte, catches the exception and ends well.
#[test]
fn an_out_of_memory_that_was_caught() {
    let replayed = replay("caught");
    let run = replayed.state.run().expect("a run");
    assert_eq!(run.outcome(), RunOutcome::Finished);
    assert_eq!(replayed.findings, []);
    let [oom] = &run.ooms[..] else {
        panic!("two witnesses of one: {:?}", run.ooms);
    };
    assert!(run.survived_oom(oom) && oom.record.is_some() && oom.report.is_some());
    let mut told = told(&replayed);
    for finding in diagnose_incident(&replayed.state, Some(run), oom) {
        tell(&mut told, &finding);
    }
    kept("caught", &told);
}

/// `torchrun --nproc_per_node 2` on one card, over gloo.
#[test]
fn two_ranks_on_one_device() {
    let mut state = State::default();
    let mut together = None;
    for event in events("two-ranks") {
        state.apply(&event);
        if let (EventKind::Sample(_), ProbeState::Live(2)) = (&event.what, state.probe()) {
            together = Some(state.devices[0].breakdown(&state));
        }
    }
    let mut told = told(&replay("two-ranks"));
    let run = state.run().expect("a run");
    for rank in &run.ranks {
        let number = rank.hello.rank.map(|rank| rank.0);
        let (steps, peak) = (rank.steps.count, rank.allocated_peak);
        let _ = writeln!(told, "rank {number:?}: {steps} steps, peak {peak}");
    }
    let _ = writeln!(told, "while both were there:");
    for (name, bytes) in together.as_ref().map(list).into_iter().flatten() {
        let bytes = bytes.map_or("not known".into(), |bytes| bytes.to_string());
        let _ = writeln!(told, "  {name}: {bytes}");
    }
    kept("two-ranks", &told);
    assert_eq!((run.outcome(), run.ranks.len()), (RunOutcome::Finished, 2));
}

/// `python -I`, which no probe gets into: NVML alone speaks.
#[test]
fn an_isolated_python() {
    let mut state = State::default();
    for event in events("isolated") {
        if let EventKind::Exited(_) = event.what {
            assert_eq!(state.probe(), ProbeState::Waiting);
            let device = &state.devices[0];
            let parts = device.breakdown(&state);
            assert_eq!(device.allocated.current(), None);
            assert_eq!((parts.activations_and_other, parts.cached), (None, None));
            assert_eq!(parts.non_pytorch, None);
            assert_eq!(
                parts.free,
                device
                    .capacity
                    .zip(device.used.current())
                    .map(|(c, u)| c - u)
            );
        }
        state.apply(&event);
    }
    let run = state.run().expect("a run");
    assert_eq!((run.outcome(), run.peak()), (RunOutcome::Finished, None));
    let used = &state.devices[0].used;
    let most = used.max_between(run.started, state.now);
    assert!(
        most > Some(Bytes::mib(500)),
        "a context at the least: {most:?}"
    );
}
