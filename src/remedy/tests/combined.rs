//! Which remedy comes first and which one Enter stands on: the first that fits, several together where none does by itself, none
//! where nothing fits, and never one that has failed.

use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::event::{
    Blocks, EventKind, Exit, GivenSize, Knobs, OomRecord, ParsedNumber, Patchable, Phase,
    Rehearsal, RehearsedVariant,
};
use crate::remedy::{
    Alteration, FitVerdict, Plan, Remedy, RemedyId, RemedyInputs, combination, recommended,
    remedies,
};
use crate::state::tests::staged::{StagedSession, exited, gib, hello, record, started};
use crate::units::{Bytes, Pid};

const MIB: u64 = 1 << 20;
const TRAIN: &str = "python train.py --batch-size 8";

/// What the step keeps for each sample in MiB: as it is, with checkpointing, in bf16, with both.
pub(super) type EachSample = [u64; 4];

/// A model of 1 GiB, called with `batch` samples.
pub(super) fn rehearsal(pid: i32, batch: u64, each: EachSample) -> Rehearsal {
    let variant = |(at, each): (usize, &u64)| RehearsedVariant {
        checkpointing: at % 2 == 1,
        amp: at > 1,
        trace: Some(format!("x{} {} -2", each * MIB, 1024 * MIB)),
        ..RehearsedVariant::default()
    };
    Rehearsal {
        pid: Pid(pid),
        phase: Phase::Forward,
        batch,
        before: Bytes::gib(1),
        weights: vec![1024 * MIB],
        trained: vec![1024 * MIB],
        own_loss: true,
        variants: each.iter().enumerate().map(variant).collect(),
        ..Rehearsal::default()
    }
}

fn patchable(pid: i32) -> Patchable {
    Patchable {
        pid: Pid(pid),
        models: vec!["Net".into()],
        blocks: vec![Blocks {
            class: "Block".into(),
            count: 12,
            held: Some(gib(9.0)),
            left: None,
            idle: None,
        }],
        bf16: true,
        ..Patchable::default()
    }
}

/// 22 GiB could be had.
fn out(pid: i32) -> OomRecord {
    OomRecord {
        phase: Phase::Forward,
        ..record(pid, gib(20.0), gib(21.0), gib(4.0), gib(1.0))
    }
}

/// A run that ran out of memory in its first forward and ended.
pub(super) fn run_out(
    scene: &mut StagedSession,
    number: u32,
    words: &str,
    said: Option<Rehearsal>,
) {
    let pid = 100 * i32::try_from(number).unwrap();
    let at = f64::from(number) * 10.0;
    scene
        .add(at, started(number, pid, words))
        .add(at + 1.0, hello(number, pid, None))
        .add(at + 2.0, EventKind::Oom(out(pid)))
        .add(at + 2.1, EventKind::Patchable(patchable(pid)));
    if let Some(said) = said {
        scene.add(at + 2.2, EventKind::Rehearsal(Box::new(said)));
    }
    scene.add(at + 3.0, exited(number, Exit::Code(1)));
}

pub(super) fn with_inputs<T>(
    scene: &StagedSession,
    cause: Cause,
    look: impl FnOnce(&CommandLine, &RemedyInputs<'_>) -> T,
) -> T {
    let findings = [super::finding(cause, None)];
    let inputs = super::of_staged(scene, &findings);
    look(&scene.state.run().unwrap().command, &inputs)
}

fn offers(scene: &StagedSession) -> Vec<Remedy> {
    with_inputs(scene, Cause::Capacity, remedies)
}

fn one(remedies: &[Remedy], id: RemedyId) -> &Remedy {
    remedies.iter().find(|remedy| remedy.id == id).unwrap()
}

fn first_run(each: EachSample) -> StagedSession {
    let mut scene = StagedSession::default();
    run_out(&mut scene, 1, TRAIN, Some(rehearsal(100, 8, each)));
    scene
}

#[test]
fn where_nothing_fits_by_itself_the_first_combination_that_does_is_the_first_row() {
    // One sample alone needs 28 GiB, all eight with checkpointing 100; two with checkpointing fit.
    let scene = first_run([24 << 10, 8 << 10, 24 << 10, 8 << 10]);
    let all = offers(&scene);
    for id in [RemedyId::Batch, RemedyId::Recompute] {
        let alone = one(&all, id);
        assert!(alone.is_offered());
        assert_eq!(alone.expectation.fits, Some(false), "{id:?}");
    }
    let first = &all[0];
    assert_eq!(
        (first.id, first.title.as_str(), first.expectation.fits),
        (RemedyId::Together, "batch + checkpointing", Some(true)),
        "{first:?}"
    );
    assert_eq!(recommended(&all, Some(Cause::Capacity)), Some(0));
    let plan = Plan::new(&scene.state.run().unwrap().command, &[first]);
    assert_eq!(plan.remedies, [RemedyId::Batch, RemedyId::Recompute]);
    assert_eq!(
        plan.command.env_value("OOMPH_PATCHES").unwrap(),
        "recompute"
    );
    assert_eq!(first.takes.unwrap().at_once, 1, "{}", first.changes);
}

#[test]
fn the_batch_of_a_combination_is_the_one_found_for_it() {
    let scene = first_run([24 << 10, 3 << 10, 24 << 10, 3 << 10]);
    let all = offers(&scene);
    let (first, batch) = (&all[0], one(&all, RemedyId::Batch));
    assert_eq!(first.id, RemedyId::Together);
    let of = |remedy: &Remedy| remedy.takes.unwrap().at_once;
    assert_eq!((of(first), of(batch)), (3, 4), "{}", first.changes);
    // Chosen beside the batch by itself, it still counts.
    let command = &scene.state.run().unwrap().command;
    assert_eq!(
        Plan::new(command, &[batch, first]).command,
        Plan::new(command, &[first]).command
    );
}

#[test]
fn a_combination_is_left_out_where_something_fits_by_itself() {
    let scene = first_run([4 << 10, 2 << 10, 4 << 10, 2 << 10]);
    let all = offers(&scene);
    assert_eq!(all[0].id, RemedyId::Batch);
    assert!(all.iter().all(|remedy| remedy.id != RemedyId::Together));
    assert_eq!(recommended(&all, Some(Cause::Capacity)), Some(0));
}

#[test]
fn where_convolutions_may_fragment_the_cache_the_batch_comes_with_expandable_segments() {
    // Eight layers of half a GiB a sample each.
    let of_eight = |variant: RehearsedVariant| RehearsedVariant {
        trace: Some(format!("{}{} -4", "x536870912 ".repeat(8), 1024 * MIB)),
        ..variant
    };
    let whole = rehearsal(100, 8, [0; 4]);
    let step = Rehearsal {
        convolutions: true,
        variants: whole.variants.into_iter().map(of_eight).collect(),
        ..whole
    };
    let mut scene = StagedSession::default();
    run_out(&mut scene, 1, TRAIN, Some(step));
    let all = offers(&scene);
    let batch = one(&all, RemedyId::Batch);
    assert_eq!(batch.expectation.verdict(), FitVerdict::LikelyFits);
    let words = &batch.expectation.words;
    assert!(words.contains("may fragment the cache"), "{words}");
    let first = &all[0];
    assert_eq!(
        (first.id, first.title.as_str(), first.expectation.fits),
        (RemedyId::Together, "batch + segments", Some(true)),
        "{first:?}"
    );
    assert_eq!(recommended(&all, Some(Cause::Capacity)), Some(0));
    // Where they cannot be had, the batch alone.
    let kept: Vec<Remedy> = with_inputs(&scene, Cause::Capacity, |command, inputs| {
        let mut singles = all[1..].to_vec();
        singles.retain(|remedy| remedy.id != RemedyId::ExpandableSegments);
        let found = combination(command, inputs, &singles, &|_| true);
        singles.into_iter().chain(found).collect()
    });
    let enter = recommended(&kept, Some(Cause::Capacity)).map(|at| kept[at].id);
    assert_eq!(enter, Some(RemedyId::Batch));
}

#[test]
fn where_nothing_fits_enter_stands_on_nothing() {
    let scene = first_run([90 << 10, 60 << 10, 50 << 10, 40 << 10]);
    let all = offers(&scene);
    assert!(all.iter().all(|remedy| remedy.id != RemedyId::Together));
    for id in [RemedyId::Batch, RemedyId::Recompute, RemedyId::Amp] {
        assert_eq!(one(&all, id).expectation.fits, Some(false), "{id:?}");
    }
    assert_eq!(recommended(&all, Some(Cause::Capacity)), None);
}

#[test]
fn only_what_is_permitted_is_combined() {
    // Checkpointing is not enough beside one sample, precision is.
    let scene = first_run([24 << 10, 20 << 10, 8 << 10, 8 << 10]);
    with_inputs(&scene, Cause::Capacity, |command, inputs| {
        let all = remedies(command, inputs);
        let found = |permits: &dyn Fn(Alteration) -> bool| {
            combination(command, inputs, &all, permits).map(|found| found.title)
        };
        assert_eq!(found(&|_| true).as_deref(), Some("batch + precision"));
        // What is only estimated comes after what was rehearsed.
        let without = found(&|what| what != Alteration::Precision);
        assert_eq!(without.as_deref(), Some("batch + activations to RAM"));
    });
}

#[test]
fn nothing_is_combined_against_a_leak() {
    let scene = first_run([24 << 10, 8 << 10, 24 << 10, 8 << 10]);
    let all = with_inputs(&scene, Cause::Leak, remedies);
    assert!(all.iter().all(|remedy| remedy.id != RemedyId::Together));
}

/// What a kernel takes for itself is in no rehearsal: where more was wanted at once than the step needs by it, every batch needs
/// its share of that.
#[test]
fn what_was_wanted_at_once_counts_where_the_rehearsal_says_less() {
    let chosen = |requested: f64| {
        let mut scene = first_run([2 << 10; 4]);
        let oom = &mut scene.state.runs[0].ooms[0];
        oom.record.as_mut().unwrap().requested = gib(requested);
        let all = offers(&scene);
        one(&all, RemedyId::Batch).takes.unwrap().at_once
    };
    // 20 GiB were allocated, 22 could be had.
    assert_eq!((chosen(2.0), chosen(4.0), chosen(12.0)), (4, 3, 2));
}

#[test]
fn after_a_second_oom_both_count_and_no_number_comes_again() {
    // The rehearsal says that 2 fit; they ran out of memory.
    let each = [4 << 10, 4 << 10, 4 << 10, 4 << 10];
    let scene = first_run(each);
    let first = offers(&scene);
    let batch = one(&first, RemedyId::Batch);
    assert_eq!(
        (batch.takes.unwrap().at_once, batch.expectation.fits),
        (2, Some(true))
    );

    let mut again = first_run(each);
    let second = TRAIN.replace('8', "2");
    run_out(&mut again, 2, &second, Some(rehearsal(200, 2, each)));
    let all = offers(&again);
    let batch = one(&all, RemedyId::Batch);
    assert_eq!(batch.takes.unwrap().at_once, 1, "{}", batch.changes);

    // Back at the first number, by hand: what failed is not offered again, nor said to fit.
    run_out(&mut again, 3, TRAIN, Some(rehearsal(300, 8, each)));
    let all = offers(&again);
    let batch = one(&all, RemedyId::Batch);
    assert_eq!(batch.takes.unwrap().at_once, 1, "{}", batch.changes);
    with_inputs(&again, Cause::Capacity, |command, inputs| {
        let commands: Vec<CommandLine> = all
            .iter()
            .filter(|remedy| remedy.is_offered())
            .map(|remedy| Plan::new(command, &[remedy]).command)
            .collect();
        for run in &inputs.forecast.state.unwrap().runs {
            let is_again =
                |made: &CommandLine| made.argv == run.command.argv && made.env == run.command.env;
            assert!(!commands.iter().any(is_again), "{:?}", run.command);
        }
    });
}

/// The first run's command does not say the batch, which is a default; the second one's does. What the first one wanted was
/// of its own number.
#[test]
fn a_default_that_failed_counts_as_what_its_own_run_told() {
    let told = |pid: i32, batch: u64, typed: bool| Knobs {
        pid: Pid(pid),
        given: vec![GivenSize {
            at: "0".into(),
            shape: vec![batch, 64],
            ..GivenSize::default()
        }],
        parsed: vec![ParsedNumber {
            name: "batch_size".into(),
            options: vec!["--batch-size".into()],
            value: batch,
            default: Some(64),
            typed,
            reads_command: true,
            by: "argparse".into(),
            ..ParsedNumber::default()
        }],
        world: 1,
        ..Knobs::default()
    };
    let mut scene = StagedSession::default();
    for (number, words, batch) in [
        (1, "python train.py", 64),
        (2, "python train.py --batch-size 32", 32),
    ] {
        run_out(&mut scene, number, words, None);
        let pid = 100 * i32::try_from(number).unwrap();
        let told = told(pid, batch, number > 1);
        let at = f64::from(number) * 10.0 + 2.5;
        scene.add(at, EventKind::Knobs(Box::new(told)));
    }
    let findings = [super::finding(Cause::Capacity, None)];
    let mut inputs = super::of_staged(&scene, &findings);
    inputs.launch.told = scene.state.knobs.as_ref();
    let all = remedies(&scene.state.run().unwrap().command, &inputs);
    let batch = one(&all, RemedyId::Batch);
    // Half has failed, so a quarter is tried.
    assert_eq!(batch.takes.unwrap().at_once, 8, "{}", batch.changes);
    assert_eq!(batch.expectation.fits, None, "{}", batch.expectation.words);
    // Of what the second one wanted, at the least.
    assert!(batch.expectation.at_least < Some(gib(7.0)));
}

#[test]
fn a_number_that_failed_is_not_guessed_again_where_nothing_is_known() {
    let mut scene = StagedSession::default();
    for (number, batch) in [(1, "8"), (2, "4"), (3, "8")] {
        run_out(&mut scene, number, &TRAIN.replace('8', batch), None);
    }
    let all = offers(&scene);
    let batch = one(&all, RemedyId::Batch);
    assert_eq!(batch.takes.unwrap().at_once, 2, "{}", batch.changes);
}

#[test]
fn of_guesses_enter_stands_on_the_one_with_the_best_bound() {
    let mut scene = StagedSession::default();
    run_out(&mut scene, 1, TRAIN, None);
    let all = offers(&scene);
    let at = recommended(&all, Some(Cause::Capacity)).unwrap();
    assert_eq!(all[at].id, RemedyId::Batch, "it alone has a bound");
    assert!(all[at].expectation.at_least.is_some());
}

#[test]
fn what_is_tried_for_a_moment_is_no_part_of_the_need() {
    // cuDNN takes nearly all that is free while it tries its algorithms.
    let said = Rehearsal {
        convolutions: true,
        autotunes: true,
        ..rehearsal(100, 8, [3 << 10; 4])
    };
    let mut scene = StagedSession::default();
    run_out(&mut scene, 1, TRAIN, Some(said));
    let all = offers(&scene);
    let said = &one(&all, RemedyId::Batch).expectation;
    let (peak, needs) = (said.peak.unwrap().likely, said.needs().unwrap());
    // The least and the most are far apart, and yet the figure between them is computed.
    let (least, most) = said.within().unwrap();
    assert!(
        most > least.scale(2.0) && said.words.contains(&needs.to_string()),
        "{said:?}"
    );
    assert!(peak > needs, "{said:?}");
    assert!(!said.words.contains("of it allocated"), "{}", said.words);
    let expected = format!("a peak of {peak} where there is room");
    assert!(said.words.contains(expected.as_str()), "{}", said.words);
}
