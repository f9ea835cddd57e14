//! Remedies that depend on what a session has shown: another device, waiting for another process,
//! stopping a leftover, fewer DataLoader workers. (For the others see `tests/commands`.)

mod bounds;
mod combined;
mod early_release;
mod edited;
mod host_limit;
mod loading;
mod no_limit;
mod of_cause;
mod of_host;
mod offload;
mod optimizers;
mod outputs;
mod patched;
mod ranks;
mod samples;
mod sharding;

use super::{
    Availability, BatchChange, Leftover, Plan, Remedy, RemedyEffect, RemedyId, RemedyInputs,
    recommended, remedies,
};
use crate::command::{CommandLine, EnvChange, Word};
use crate::diagnosis::{Cause, Certainty, Finding, Phrase, diagnose};
use crate::event::EventKind;
use crate::forecast::{ActivationReduction, Allocator, ForecastInputs, Target};
use crate::recognize::LaunchEnvironment;
use crate::state::tests::staged::{StagedSession, gib, reading, record, uuid};
use crate::units::{Bytes, Pid};

/// A command as typed; a leading word `NAME=VALUE` is a variable.
fn command(line: &str) -> CommandLine {
    let typed = line.split_once(' ').filter(|(word, _)| word.contains('='));
    let (set, rest) = typed.map_or((None, line), |(set, rest)| (set.split_once('='), rest));
    CommandLine {
        argv: rest.split(' ').map(Word::from).collect(),
        env: set
            .into_iter()
            .map(|(name, value)| EnvChange {
                name: Word::from(name),
                value: Some(Word::from(value)),
            })
            .collect(),
        cwd: "/work".into(),
    }
}

/// The edited command, or `!` and why there is none.
fn outcome(line: &str, id: RemedyId, inputs: &RemedyInputs<'_>) -> String {
    let before = command(line);
    let all = remedies(&before, inputs);
    let remedy = all.iter().find(|remedy| remedy.id == id).unwrap();
    match &remedy.availability {
        Availability::NotOffered(reason) => format!("!{reason}"),
        Availability::Offered => {
            let after = Plan::new(&before, &[remedy]).command;
            let set = after.env.iter().map(|change| {
                let value = change.value.as_ref().unwrap().to_string_lossy();
                format!("{}={value}", change.name.to_string_lossy())
            });
            let words = after.argv.iter().map(Word::to_string_lossy);
            set.chain(words).collect::<Vec<_>>().join(" ")
        }
    }
}

fn finding(cause: Cause, other_process: Option<i32>) -> Finding {
    Finding {
        cause,
        certainty: Certainty::Likely,
        headline: Phrase::default(),
        explanation: String::new(),
        evidence: Vec::new(),
        place: None,
        line: None,
        retainer: None,
        kept_earlier: None,
        request: None,
        advice: Vec::new(),
        device: None,
        rank: None,
        ranks: None,
        other_process: other_process.map(Pid),
        too_large_by: None,
        leaked: None,
    }
}

/// What a staged session says by itself.
fn known_of<'a>(scene: &'a StagedSession, findings: &'a [Finding]) -> RemedyInputs<'a> {
    RemedyInputs {
        forecast: ForecastInputs {
            oom: scene.state.oom(),
            state: Some(&scene.state),
            ..ForecastInputs::default()
        },
        findings,
        ..RemedyInputs::default()
    }
}

/// The same under a recent torch, where the largest batch that fits is looked for.
fn of_staged<'a>(scene: &'a StagedSession, findings: &'a [Finding]) -> RemedyInputs<'a> {
    RemedyInputs {
        launch: LaunchEnvironment {
            torch: Some("2.11.0"),
            ..LaunchEnvironment::default()
        },
        batch_fits: true,
        ..known_of(scene, findings)
    }
}

/// The remedy, and whether Enter stands on it. `None` where the session has none of that kind.
fn remedy_of(scene: &StagedSession, id: RemedyId) -> Option<(Remedy, bool)> {
    let findings = diagnose(&scene.state);
    let all = remedies(
        &scene.state.run().unwrap().command,
        &known_of(scene, &findings),
    );
    let enter = recommended(&all, findings.first().map(|found| found.cause));
    let at = all.iter().position(|remedy| remedy.id == id)?;
    Some((all[at].clone(), enter == Some(at)))
}

/// A process on `aaaa-0` that ran out of memory with 12 GiB allocated, and 20 GiB free on `aaaa-1`.
fn out_on_the_first() -> StagedSession {
    out_on_the_first_under(None)
}

fn out_on_the_first_under(limit: Option<Bytes>) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 12.0, 13.0);
    scene.add(
        2.5,
        EventKind::Device(reading(&[(100, gib(13.5)), (7, gib(9.0))])),
    );
    let mut other = reading(&[]);
    other.uuid = uuid(1);
    other.index = 1;
    other.free = Some(gib(20.0));
    scene.add(2.5, EventKind::Device(other));
    let mut out = record(100, gib(12.0), gib(13.0), gib(2.0), gib(1.0));
    out.limit = limit;
    scene.add(3.0, EventKind::Oom(out));
    scene
}

fn device(line: &str, scene: &StagedSession, environment: &[(&str, &str)]) -> String {
    let owned: Vec<(String, String)> = environment
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    let findings = [finding(Cause::ForeignProcess, Some(7))];
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            environment: &owned,
            ..LaunchEnvironment::default()
        },
        forecast: ForecastInputs {
            state: Some(&scene.state),
            oom: scene.state.oom(),
            ..ForecastInputs::default()
        },
        findings: &findings,
        ..RemedyInputs::default()
    };
    outcome(line, RemedyId::Device, &context)
}

#[test]
fn another_device_is_written_as_the_user_wrote_it() {
    let scene = out_on_the_first();
    for (line, environment, expected) in [
        (
            "python a.py",
            &[][..],
            "CUDA_VISIBLE_DEVICES=GPU-aaaa-1 python a.py",
        ),
        (
            "CUDA_VISIBLE_DEVICES=0,1 python a.py",
            &[],
            "CUDA_VISIBLE_DEVICES=1,0 python a.py",
        ),
        (
            "env CUDA_VISIBLE_DEVICES=GPU-aaaa-0,GPU-aaaa-1 python a.py",
            &[],
            "env CUDA_VISIBLE_DEVICES=GPU-aaaa-1,GPU-aaaa-0 python a.py",
        ),
        (
            "python a.py --lr 1",
            &[("CUDA_VISIBLE_DEVICES", "0,1")],
            "CUDA_VISIBLE_DEVICES=1,0 python a.py --lr 1",
        ),
    ] {
        assert_eq!(device(line, &scene, environment), expected, "{line}");
    }
    for (line, environment, reason) in [
        ("python a.py --gpu 0", &[][..], "--gpu chooses"),
        (
            "deepspeed --include localhost:0 a.py",
            &[],
            "--include chooses",
        ),
        ("docker run image python a.py", &[], "chooses the devices"),
        ("yolo train batch=8 device=0", &[], "device= chooses"),
        (
            "python a.py",
            &[("CUDA_VISIBLE_DEVICES", "3")],
            "does not match",
        ),
        (
            "python a.py",
            &[("CUDA_VISIBLE_DEVICES", "1,0")],
            "driver's order",
        ),
    ] {
        let got = device(line, &scene, environment);
        assert!(
            got.starts_with('!') && got.contains(reason),
            "{line}: {got}"
        );
    }
    let mut full = out_on_the_first();
    let mut other = reading(&[]);
    other.uuid = uuid(1);
    other.index = 1;
    other.free = Some(gib(10.0));
    full.add(4.0, EventKind::Device(other));
    assert!(device("python a.py", &full, &[]).contains("no other GPU"));
    // The program's own cap applies on any device.
    let capped = out_on_the_first_under(Some(gib(13.5)));
    assert!(device("python a.py", &capped, &[]).contains("applies on another GPU"));
    assert!(
        outcome("python a.py", RemedyId::Device, &RemedyInputs::default())
            .contains("once memory has run out")
    );
}

#[test]
fn who_else_holds_the_memory_is_waited_for_or_stopped() {
    let find = |findings: &[Finding], leftovers: &[Leftover]| -> Vec<Remedy> {
        let scene = out_on_the_first();
        let context = RemedyInputs {
            forecast: ForecastInputs {
                state: Some(&scene.state),
                oom: scene.state.oom(),
                ..ForecastInputs::default()
            },
            findings,
            leftovers,
            ..RemedyInputs::default()
        };
        remedies(&command("python a.py --batch-size 8"), &context)
    };
    let has = |all: &[Remedy], id| {
        all.iter()
            .any(|remedy| remedy.id == id && remedy.is_offered())
    };
    let all = find(&[finding(Cause::ForeignProcess, Some(7))], &[]);
    assert!(has(&all, RemedyId::Wait) && !has(&all, RemedyId::StopLeftover));
    let wait = all
        .iter()
        .find(|remedy| remedy.id == RemedyId::Wait)
        .unwrap();
    assert!(wait.changes.contains("process 7"), "{}", wait.changes);
    let leftover = Leftover {
        pid: Pid(7),
        started: 9,
        session: "20260101-train".into(),
        held: Some(Bytes::gib(9)),
    };
    let all = find(&[finding(Cause::ForeignProcess, Some(7))], &[leftover]);
    assert!(has(&all, RemedyId::StopLeftover) && !has(&all, RemedyId::Wait));
    assert!(
        all[0]
            .changes
            .contains("stops process 7 of 20260101-train, 9.00 GiB")
    );
    let all = find(&[finding(Cause::Capacity, None)], &[]);
    assert!(!has(&all, RemedyId::Wait));
    // Fewer workers help a host that ran out of memory, not a device.
    assert!(
        all.iter()
            .all(|remedy| remedy.id != RemedyId::DataloaderWorkers)
    );
    let all = find(&[finding(Cause::HostMemory, None)], &[]);
    assert!(
        all.iter()
            .any(|remedy| remedy.id == RemedyId::DataloaderWorkers)
    );
}

#[test]
fn each_remedy_has_a_key_of_its_own() {
    for id in RemedyId::all() {
        let same = RemedyId::all().filter(|other| other.spec().key == id.spec().key);
        assert_eq!(same.count(), 1, "{id:?}");
    }
}

/// Without a case a remedy would be said to need what the unchanged command needs.
#[test]
fn what_a_remedy_saves_is_in_the_forecast() {
    let unchanged = Target {
        batch: 64,
        keeps_gradients: false,
        treatment: ActivationReduction::default(),
        allocator: Allocator::Fixed,
    };
    for id in RemedyId::all() {
        let change = id.spec().in_forecast();
        // How much a shorter sequence saves is not predicted, nor what a compiler makes of what it is told; their rows say so.
        let is_known = id != RemedyId::SmallerSamples && !id.is_measured();
        let saves = id.spec().effect == RemedyEffect::LessAllocated && is_known;
        assert!(change.is_some() || !saves, "{id:?} has no forecast");
        let remedy = Remedy {
            takes: Some(BatchChange {
                from: 64,
                at_once: 32,
                accumulates: true,
            }),
            ..Remedy::new(id)
        };
        if let Some(change) = change {
            let mut target = unchanged;
            change(&remedy, &mut target);
            assert_ne!(target, unchanged, "{id:?} changes nothing");
        }
    }
}

#[test]
fn remedies_are_offered_in_the_order_of_their_list_but_for_what_the_cause_prefers() {
    use RemedyId::{
        Batch, DataloaderWorkers, Device, EarlyRelease, EmptyCache, ExpandableSegments, HostLimit,
        MaxSplitSize, PersistentWorkers, PinMemory, PrefetchFactor, Wait,
    };
    for (cause, preferred, next) in [
        (Cause::Capacity, &[][..], Batch),
        (
            Cause::HostMemory,
            &[
                DataloaderWorkers,
                PrefetchFactor,
                PinMemory,
                PersistentWorkers,
                HostLimit,
            ],
            Wait,
        ),
        (Cause::ForeignProcess, &[Device], Wait),
        (
            Cause::Fragmentation,
            &[ExpandableSegments, MaxSplitSize, EarlyRelease, EmptyCache],
            Batch,
        ),
    ] {
        let mut sorted: Vec<RemedyId> = RemedyId::all().collect();
        sorted.sort_by_key(|id| id.place(Some(cause)));
        let at = sorted.iter().position(|id| *id == next).unwrap();
        assert!(sorted[..at].ends_with(preferred), "{cause:?}: {sorted:?}");
        let others = |id: &RemedyId| !preferred.contains(id);
        sorted.retain(others);
        let list: Vec<RemedyId> = RemedyId::all().filter(others).collect();
        assert_eq!(sorted, list, "{cause:?}");
    }
}

/// What recordings and JSON call the remedies stays.
#[test]
fn the_published_names_of_remedies_stay() {
    let names: Vec<_> = RemedyId::all()
        .map(|id| serde_json::to_value(id).unwrap())
        .collect();
    for name in [
        "batch",
        "expandable-segments",
        "amp",
        "recompute",
        "device",
        "resume",
        "max-split-size",
        "early-release",
        "no-limit",
        "dataloader-workers",
        "prefetch-factor",
        "pin-memory",
        "persistent-workers",
        "sharing-strategy",
        "host-limit",
        "wait",
        "stop-leftover",
        "without",
        "together",
        "no-foreach",
        "fused-optimizer",
        "outputs-to-ram",
        "load-to-cpu",
        "offload",
        "optimizer",
        "record-streams",
        "chunked-loss",
        "fused-attention",
        "empty-cache",
        "first-candidate",
        "second-candidate",
        "third-candidate",
        "smaller-samples",
        "reshard",
        "gradients-in-buckets",
        "shards-in-bf16",
        "shards-to-ram",
        "compile-budget",
        "compile-dynamic",
    ] {
        assert!(names.contains(&name.into()), "{name}");
    }
}
