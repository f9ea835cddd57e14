//! What is expected of each remedy after runs that showed much or little.

use crate::command::CommandLine;
use crate::diagnosis::{Cause, Certainty, Finding, Phrase};
use crate::event::{
    Hello, InputSizes, ModelBytes, OomRecord, Phase, Rehearsal, RehearsedVariant, Sample, Step,
    StepReading, Structure,
};
use crate::forecast::ForecastInputs;
use crate::recognize::LaunchEnvironment;
use crate::remedy::{FitVerdict, Remedy, RemedyId, RemedyInputs, remedies};
use crate::state::{OomIncident, RankState, Run, State, StepTrack};
use crate::units::{Bytes, Moment, Pid, RunNumber};

fn command() -> CommandLine {
    CommandLine::typed("python a.py --batch-size 8 --amp False")
}

fn hello() -> Hello {
    Hello {
        pid: Pid(7),
        run: RunNumber::FIRST,
        rank: None,
        local_rank: None,
        world_size: None,
        nodes: None,
        node: None,
        slurm_step: None,
        python: "3.12.3".into(),
        torch: "2.11.0".into(),
        devices: Vec::new(),
        backend: Some("native".into()),
        alloc_conf: None,
        expandable_segments: Some(false),
        resting: None,
        wsl: false,
        rocm: false,
    }
}

/// A run of one process: its peak and floor in GiB after so many steps.
fn state(steps: u64, floor: u64, peak: u64) -> State {
    let rank = RankState {
        hello: hello(),
        allocated_peak: Bytes::gib(peak),
        reserved_peak: Bytes::gib(peak),
        steps: StepTrack {
            count: steps,
            baselines: (0..steps).map(|step| (step, Bytes::gib(floor))).collect(),
            peak: (steps > 0).then_some(Bytes::gib(peak)),
            ..StepTrack::default()
        },
        ..RankState::default()
    };
    State {
        runs: vec![Run {
            number: RunNumber::FIRST,
            command: command(),
            pid: Pid(7),
            ranks: [rank].into_iter().collect(),
            ..Run::default()
        }],
        ..State::default()
    }
}

/// An OOM: allocated, reserved, requested and free, in GiB.
fn oom(allocated: u64, reserved: u64, requested: u64, free: u64) -> OomIncident {
    OomIncident {
        at: Moment::ZERO,
        record: Some(OomRecord {
            zero: None,
            lines_known: None,
            lines_alike: None,
            limit_line: None,
            pid: Pid(7),
            device: 0,
            requested: Bytes::gib(requested),
            total: Bytes::gib(24),
            free: Bytes::gib(free),
            sample: Sample {
                pid: Pid(7),
                allocated: Bytes::gib(allocated),
                reserved: Bytes::gib(reserved),
                ..Sample::default()
            },
            limit: None,
            largest_free: None,
            free_blocks: Vec::new(),
            private_pools: Vec::new(),
            lines: Vec::new(),
            growing: Vec::new(),
            stack: Vec::new(),
            phase: Phase::Forward,
            grad_enabled: None,
            progress: None,
            operands: None,
            before: None,
            gathering: None,
            loading: None,
            model: None,
            step: 0,
            gradients: None,
            structure: None,
            optimizer: None,
        }),
        report: None,
        pid: None,
        nvml_at_oom: Default::default(),
        host: None,
        rank: None,
        device: None,
        caught: false,
    }
}

fn finding(cause: Cause) -> Finding {
    Finding {
        cause,
        certainty: Certainty::Certain,
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
        other_process: None,
        too_large_by: None,
        leaked: None,
    }
}

fn all(state: &State, oom: &OomIncident, cause: Cause) -> Vec<Remedy> {
    let findings = [finding(cause)];
    remedies(
        &command(),
        &RemedyInputs {
            launch: LaunchEnvironment {
                torch: Some("2.11.0"),
                ..LaunchEnvironment::default()
            },
            forecast: ForecastInputs {
                oom: Some(oom),
                state: Some(state),
                ..ForecastInputs::default()
            },
            findings: &findings,
            batch_scale: 0.5,
            ..RemedyInputs::default()
        },
    )
}

fn of(all: &[Remedy], id: RemedyId) -> &Remedy {
    all.iter().find(|remedy| remedy.id == id).unwrap()
}

#[test]
fn a_smaller_batch_is_predicted_from_floor_and_peak() {
    // The step that failed needed no more than the completed ones.
    let all = all(&state(5, 4, 22), &oom(20, 21, 2, 1), Cause::Capacity);
    let batch = of(&all, RemedyId::Batch);
    let peak = batch.expectation.peak.unwrap();
    assert_eq!(peak.likely, Bytes::gib(13));
    assert!(peak.low < peak.likely && peak.likely < peak.high);
    assert_eq!(batch.expectation.at_least, None);
    assert_eq!(batch.expectation.fits, Some(true));
    assert_eq!(
        batch.expectation.words,
        "needs 13.7 GiB (12.2–15.4), fits with at least 6.60 GiB to spare; likely 13.0 GiB of it allocated; measured in run 1 at batch 8"
    );
    assert_eq!(all[0].id, RemedyId::Batch);
}

#[test]
fn of_a_step_that_was_never_seen_whole_a_bound_is_known() {
    // More was needed when memory ran out than in any step. A third of the floor of 4 may be
    // gradients, which are not kept: 2.64 + (22 − 2.64) / 2.
    let mut oom = oom(20, 21, 2, 1);
    let mut expectation = |phase, structure: Option<Structure>| {
        let record = oom.record.as_mut().unwrap();
        (record.phase, record.structure) = (phase, structure.map(Box::new));
        let all = all(&state(5, 4, 20), &oom, Cause::Capacity);
        let expectation = of(&all, RemedyId::Batch).expectation.clone();
        assert_eq!((expectation.needs(), expectation.fits), (None, None));
        (expectation.at_least, expectation.words)
    };
    assert_eq!(
        expectation(Phase::Forward, None),
        (
            Some(Bytes(13_228_499_272)),
            "needs at least 12.3 GiB (22.0 GiB available): memory ran out before the step's peak"
                .into()
        )
    );
    // Of the floor only parameters and optimizer state are surely kept: 2 + (22 − 2) / 2.
    let structure = Structure {
        pid: Pid(7),
        device: 0,
        parameters: Bytes::gib(1),
        gradients: Bytes::gib(1),
        optimizer_state: Bytes::gib(1),
        whole: None,
    };
    assert_eq!(
        expectation(Phase::Forward, Some(structure)).0,
        Some(Bytes::gib(12))
    );
    assert_eq!(
        expectation(Phase::Evaluation, None),
        (
            None,
            "unknown: memory ran out during evaluation, whose batch size may differ".into()
        )
    );
}

#[test]
fn what_goes_on_growing_is_only_delayed() {
    for (cause, words) in [
        (Cause::Leak, "only delays the OOM: it still leaks"),
        (
            Cause::EvaluationGraph,
            "unlikely to help: every evaluation batch keeps its activations",
        ),
    ] {
        let all = all(&state(50, 14, 20), &oom(20, 21, 2, 1), cause);
        for id in [RemedyId::Batch, RemedyId::Amp] {
            let expectation = &of(&all, id).expectation;
            assert_eq!((expectation.at_least, expectation.fits), (None, None));
            assert_eq!(expectation.words, words);
        }
        assert_eq!(all[0].id, RemedyId::Batch);
    }
}

#[test]
fn segments_are_not_said_to_fit_where_the_memory_goes_on_growing() {
    let seen = state(50, 14, 20);
    let leak = all(&seen, &oom(20, 21, 2, 1), Cause::Leak);
    let segments = &of(&leak, RemedyId::ExpandableSegments).expectation;
    assert_eq!(segments.words, "only delays the OOM: it still leaks");
    assert_eq!((segments.at_least, segments.fits), (None, None));
    let without = all(&seen, &oom(20, 21, 2, 1), Cause::Fragmentation);
    let segments = &of(&without, RemedyId::ExpandableSegments).expectation;
    assert!(segments.at_least.is_some(), "{}", segments.words);
}

#[test]
fn what_was_not_seen_is_unknown() {
    let no_step = all(&state(0, 4, 20), &oom(20, 21, 2, 1), Cause::Capacity);
    let expectation = &of(&no_step, RemedyId::Batch).expectation;
    assert_eq!((expectation.needs(), expectation.fits), (None, None));
    assert_eq!(
        expectation.words,
        "unknown: no complete step was seen; half the batch is a guess (needs at least 11.0 GiB)"
    );
    // Whose batch stays is no guess of half of it.
    let said = &of(&no_step, RemedyId::Amp).expectation.words;
    assert!(
        said.starts_with("unknown: no complete step was seen"),
        "{said}"
    );
    assert!(!said.contains("half the batch is a guess"), "{said}");
    let one_step = all(&state(1, 4, 20), &oom(20, 21, 2, 1), Cause::Capacity);
    let expectation = &of(&one_step, RemedyId::Batch).expectation;
    assert_eq!(expectation.fits, None);
    assert_eq!(
        expectation.words,
        "needs at least 12.3 GiB (22.0 GiB available): memory ran out before the step's peak"
    );
    let one_larger = all(&state(1, 4, 22), &oom(20, 21, 2, 1), Cause::Capacity);
    assert_eq!(
        of(&one_larger, RemedyId::Batch).expectation.words,
        "needs at least 12.3 GiB (22.0 GiB available): the only complete step had no optimizer state yet"
    );
    let nothing = remedies(&command(), &RemedyInputs::default());
    assert!(
        nothing
            .iter()
            .all(|remedy| remedy.expectation.words.starts_with("unknown"))
    );
}

#[test]
fn a_floor_that_does_not_fit_is_not_helped_by_a_smaller_batch() {
    let all = all(&state(3, 30, 31), &oom(22, 22, 4, 1), Cause::OptimizerState);
    let batch = of(&all, RemedyId::Batch);
    assert_eq!(batch.expectation.fits, Some(false));
    assert!(all.last().unwrap().expectation.fits == Some(false));
}

#[test]
fn segments_help_where_the_pieces_together_suffice() {
    let unseen = all(&state(5, 4, 14), &oom(14, 20, 3, 1), Cause::Fragmentation);
    let segments = of(&unseen, RemedyId::ExpandableSegments);
    assert_eq!(segments.expectation.fits, None, "its peak was to come");
    assert_eq!(
        segments.expectation.words,
        "the allocation that failed would fit, with 4.00 GiB to spare; memory ran out before the step's peak"
    );
    assert_eq!(unseen[0].id, RemedyId::ExpandableSegments);
    let state = state(5, 4, 17);
    let fragmented = all(&state, &oom(14, 20, 3, 1), Cause::Fragmentation);
    let segments = of(&fragmented, RemedyId::ExpandableSegments);
    assert_eq!(segments.expectation.fits, Some(true));
    assert_eq!(
        segments.expectation.words,
        "needs 17.2 GiB (16.9–17.7), fits with at least 3.26 GiB to spare; likely 17.0 GiB of it allocated; measured in run 1"
    );
    assert_eq!(fragmented[0].id, RemedyId::ExpandableSegments);
    let full = all(&state, &oom(20, 20, 3, 1), Cause::Fragmentation);
    let segments = of(&full, RemedyId::ExpandableSegments);
    assert_eq!(segments.expectation.fits, Some(false));
    assert_eq!(
        segments.expectation.words,
        "won't fit: needs 23.0 GiB, 21.0 GiB available"
    );
    assert_eq!(full[0].id, RemedyId::Batch, "what does not fit goes behind");
    let tight = all(&state, &oom(18, 20, 3, 1), Cause::Fragmentation);
    assert_eq!(
        of(&tight, RemedyId::ExpandableSegments).expectation.fits,
        None
    );
}

#[test]
fn a_cap_bounds_the_room() {
    let mut capped = oom(8, 9, 2, 12);
    capped.record.as_mut().unwrap().limit = Some(Bytes::gib(10));
    let all = all(&state(5, 2, 10), &capped, Cause::Limit);
    let batch = of(&all, RemedyId::Batch);
    assert_eq!(
        batch.expectation.words,
        "needs 6.75 GiB (5.59–7.56), fits with at least 2.44 GiB to spare; likely 6.00 GiB of it allocated; measured in run 1 at batch 8"
    );
}

#[test]
fn mixed_precision_is_an_interval_or_a_bound() {
    let amp = |peak| {
        let all = all(&state(5, 4, peak), &oom(20, 21, 2, 1), Cause::Capacity);
        let amp = of(&all, RemedyId::Amp);
        assert!(amp.is_offered());
        assert_eq!(amp.expectation.fits, None);
        amp.expectation.words.clone()
    };
    assert_eq!(
        amp(22),
        "may not fit: needs at least 12.3 GiB, 22.0 GiB available; estimated; at best halves activations"
    );
    assert_eq!(
        amp(20),
        "needs at least 12.3 GiB (22.0 GiB available): memory ran out before the step's peak; at best halves activations"
    );
}

#[test]
fn an_estimate_is_never_said_to_fit() {
    // bf16 of a step that was measured: what it saves is known of other trainings only.
    let roomy = all(&state(5, 4, 22), &oom(20, 40, 2, 1), Cause::Fragmentation);
    let (amp, batch) = (of(&roomy, RemedyId::Amp), of(&roomy, RemedyId::Batch));
    assert_eq!(
        amp.expectation.words,
        "needs up to 30.9 GiB, likely fits in 41.0 GiB; estimated; at best halves activations"
    );
    assert_eq!(amp.expectation.fits, None);
    assert_eq!(amp.expectation.verdict(), FitVerdict::LikelyFits);
    assert_eq!(batch.expectation.verdict(), FitVerdict::Fits);
    assert_eq!(amp.expectation.prediction().unwrap().fits, None);
}

/// The batch that the model chooses after an OOM at 22 GiB, and its words.
fn chosen(command: &str, state: &State) -> (String, String) {
    chosen_under(command, state, &oom(20, 21, 2, 1))
}

fn chosen_under(command: &str, state: &State, oom: &OomIncident) -> (String, String) {
    let command = CommandLine::typed(command);
    let mut state = state.clone();
    state.runs[0].command = command.clone();
    let findings = [finding(Cause::Capacity)];
    let context = RemedyInputs {
        forecast: ForecastInputs {
            oom: Some(oom),
            state: Some(&state),
            ..ForecastInputs::default()
        },
        findings: &findings,
        batch_fits: true,
        ..RemedyInputs::default()
    };
    let all = remedies(&command, &context);
    let batch = of(&all, RemedyId::Batch);
    (batch.changes.clone(), batch.expectation.words.to_string())
}

#[test]
fn the_largest_batch_that_fits_is_chosen() {
    let seen = state(5, 4, 22);
    // With accumulation 64 is divided exactly; without it the largest round number is taken.
    let (changes, words) = chosen("python a.py --batch-size 64 --grad-accum 1", &seen);
    assert_eq!(changes, "--batch-size 64→32  --grad-accum 1→2");
    assert!(words.contains("fits with"), "{words}");
    let (changes, words) = chosen("python a.py --batch-size 64", &seen);
    assert_eq!(changes, "--batch-size 64→50");
    assert!(words.contains("fits with"), "{words}");
    // Nothing is known: half.
    let unseen = state(0, 4, 20);
    let (changes, words) = chosen("python a.py --batch-size 64", &unseen);
    assert_eq!(changes, "--batch-size 64→32");
    assert!(words.contains("half the batch is a guess"), "{words}");
}

#[test]
fn remedies_together_are_predicted_together() {
    let seen = state(5, 4, 22);
    let oom = oom(20, 21, 2, 1);
    let findings = [finding(Cause::Capacity)];
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            torch: Some("2.11.0"),
            ..LaunchEnvironment::default()
        },
        forecast: ForecastInputs {
            oom: Some(&oom),
            state: Some(&seen),
            ..ForecastInputs::default()
        },
        findings: &findings,
        batch_scale: 0.5,
        ..RemedyInputs::default()
    };
    let all = remedies(&command(), &context);
    let (batch, segments) = (
        of(&all, RemedyId::Batch),
        of(&all, RemedyId::ExpandableSegments),
    );
    let both = crate::remedy::expectation(&command(), &context, &[batch, segments]);
    // The batch's peak, with the overhead of the other allocator.
    assert_eq!(both.peak, batch.expectation.peak);
    assert!(both.needs() < batch.expectation.needs());
    assert_eq!(both.fits, Some(true));
}

#[test]
fn segments_in_force_are_not_offered_again() {
    let mut state = state(5, 4, 20);
    state.runs[0].ranks[0].hello.expandable_segments = Some(true);
    let all = all(&state, &oom(20, 21, 2, 1), Cause::Fragmentation);
    assert!(!of(&all, RemedyId::ExpandableSegments).is_offered());
    assert!(!all.last().unwrap().is_offered());
}

#[test]
fn torch_before_expandable_segments_gets_a_largest_split() {
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            torch: Some("1.13.1+cu117"),
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    let all = remedies(&command(), &context);
    assert!(!of(&all, RemedyId::ExpandableSegments).is_offered());
    let split = of(&all, RemedyId::MaxSplitSize);
    assert_eq!(split.changes, "max_split_size_mb:128");
}

#[test]
fn what_a_first_forward_showed_is_said_for_what_it_is() {
    let mut oom = oom(20, 21, 2, 1);
    let record = oom.record.as_mut().unwrap();
    record.progress = Some(0.5);
    record.model = Some(Box::new(ModelBytes {
        parameters: Bytes::gib(1),
        trained: Bytes::gib(1),
    }));
    let words = |oom: &OomIncident, command: &str| {
        let (changes, words) = chosen_under(command, &state(0, 4, 20), oom);
        format!("{changes}: {words}")
    };
    // 1 + (22 - 1) / 0.5 for 64, and the optimizer's state: a third fits at the upper end.
    assert_eq!(
        words(&oom, "python a.py --batch-size 64"),
        "--batch-size 64→16: needs up to 21.3 GiB, likely fits in 22.0 GiB; no closer estimate: the \
         forward pass was 50 % done"
    );
    let record = oom.record.as_mut().unwrap();
    record.phase = Phase::Backward;
    assert_eq!(
        words(&oom, "python a.py --batch-size 64"),
        "--batch-size 64→32: needs about 14.2 GiB (11.0–18.8), likely fits in 22.0 GiB; likely 13.5 GiB of it allocated; estimated: the \
         backward pass had begun"
    );
    // If nothing fits at the upper end, half is taken and not said to fit.
    let record = oom.record.as_mut().unwrap();
    (record.phase, record.progress) = (Phase::Forward, Some(0.3));
    assert_eq!(
        words(&oom, "python a.py --batch-size 2"),
        "--batch-size 2→1: may not fit, the smallest batch: needs at least 11.0 GiB, 22.0 GiB available"
    );
}

#[test]
fn a_step_longer_than_those_before_is_not_promised_their_peak() {
    // The first step needed 15 without the optimizer's state of 1; the one that failed was as long.
    let mut longer = state(2, 2, 15);
    let steps = &mut longer.runs[0].ranks[0].steps;
    let at = |allocated: u64, peak: u64| StepReading {
        allocated: Bytes::gib(allocated),
        reserved: Bytes::gib(peak),
        peak: Bytes::gib(peak),
    };
    steps.first_step = Some(Step {
        pid: Pid(7),
        device: 0,
        count: 1,
        figures_of: None,
        backward: None,
        micros: 0,
        before: at(1, 15),
        after: at(2, 15),
    });
    let mut failed = oom(12, 15, 2, 1);
    let segments = |failed: &OomIncident, state: &State| {
        let all = all(state, failed, Cause::Fragmentation);
        let expectation = of(&all, RemedyId::ExpandableSegments).expectation.clone();
        (expectation.fits, expectation.words.to_string())
    };
    assert_eq!(
        segments(&failed, &longer),
        (
            None,
            "may not fit: needs 15.2 GiB (14.9–17.0), 16.0 GiB available; likely 15.0 GiB of it allocated; measured in run 1".into()
        )
    );
    failed.record.as_mut().unwrap().progress = Some(0.85);
    assert_eq!(
        segments(&failed, &longer),
        (
            None,
            "may not fit: needs 15.2 GiB (14.9–22.0), 16.0 GiB available; likely 15.0 GiB of it allocated; measured in run 1".into()
        )
    );
    // Steps are alike at the same progress: their peak is what counts.
    longer.runs[0].ranks[0].steps.first_step = None;
    assert_eq!(
        segments(&failed, &longer),
        (
            Some(true),
            "needs 15.2 GiB (14.9–15.7), fits with at least 351 MiB to spare; likely 15.0 GiB of it allocated; measured in run 1".into()
        )
    );
}

const MIB: u64 = 1 << 20;

/// A model of 1 GiB that keeps 256 MiB for each of 64 samples, or a quarter of it.
fn rehearsal() -> Rehearsal {
    let variant = |checkpointing, each: u64, flops| RehearsedVariant {
        checkpointing,
        trace: Some(format!("x{} {} -2", each * MIB, 1024 * MIB)),
        flops,
        ..RehearsedVariant::default()
    };
    Rehearsal {
        batch: 64,
        before: Bytes::gib(1),
        weights: vec![1024 * MIB],
        trained: vec![1024 * MIB],
        own_loss: true,
        variants: vec![variant(false, 256, 300), variant(true, 64, 400)],
        ..Rehearsal::default()
    }
}

fn rehearsed(said: Rehearsal) -> State {
    let mut state = state(0, 1, 20);
    state.runs[0].ranks[0].rehearsal = Some(said);
    state
}

#[test]
fn beside_checkpointing_stands_what_it_computes_again() {
    let state = rehearsed(rehearsal());
    let all = all(&state, &oom(20, 21, 2, 1), Cause::Capacity);
    let words = &of(&all, RemedyId::Recompute).expectation.words;
    assert!(
        words.ends_with("; rehearsed; computes 33 % more"),
        "{words}"
    );
}

#[test]
fn a_step_with_sampling_behind_it_likely_fits() {
    let followed = rehearsed(Rehearsal {
        evaluates_next: true,
        ..rehearsal()
    });
    let all = all(&followed, &oom(20, 21, 2, 1), Cause::Capacity);
    let batch = &of(&all, RemedyId::Batch).expectation;
    assert_eq!(batch.verdict(), FitVerdict::LikelyFits);
    let words = "an evaluation or sampling that follows was not seen";
    assert!(batch.words.contains(words), "{}", batch.words);
    let seen = self::all(&rehearsed(rehearsal()), &oom(20, 21, 2, 1), Cause::Capacity);
    let verdict = of(&seen, RemedyId::Batch).expectation.verdict();
    assert_eq!(verdict, FitVerdict::Fits);
}

#[test]
fn inputs_that_differ_are_said_and_a_smaller_batch_is_proposed() {
    let oom = oom(20, 21, 2, 1);
    let (alike, words) = chosen_under("python a.py --batch-size 64", &rehearsed(rehearsal()), &oom);
    assert!(words.ends_with("; rehearsed"), "{words}");
    let inputs = Some(InputSizes {
        calls: 3,
        least: 200,
        most: 480,
        possible: None,
    });
    let differ = rehearsed(Rehearsal {
        inputs,
        ..rehearsal()
    });
    let (smaller, words) = chosen_under("python a.py --batch-size 64", &differ, &oom);
    assert_eq!(
        (&*alike, &*smaller),
        ("--batch-size 64→40", "--batch-size 64→25")
    );
    let why = "rehearsed by the largest of 3 inputs seen; they differ in size";
    assert!(words.ends_with(why), "{words}");
}
