//! What is decided in each situation, and what is said where nothing is relaunched.

use super::*;
use crate::event::{Basis, Exit};
use crate::forecast::{Estimate, Need};
use crate::units::Bytes;

fn candidate(remedies: &[RemedyId], fits: Option<bool>, alters: &[Alteration]) -> Candidate {
    Candidate {
        remedies: remedies.to_vec(),
        command: CommandLine::typed(&format!("python t.py {remedies:?}")),
        expectation: Expectation {
            fits,
            ..Expectation::default()
        },
        alters: alters.to_vec(),
        files: Vec::new(),
        resumes: false,
        applied: Vec::new(),
    }
}

use RemedyId::{Amp, Batch, ExpandableSegments as Segments};

/// Segments that do not fit, a batch that does, both, and precision.
fn usual() -> Vec<Candidate> {
    vec![
        candidate(&[Batch], Some(true), &[]),
        candidate(&[Segments], Some(false), &[]),
        candidate(&[Batch, Segments], Some(true), &[]),
        candidate(&[Amp], Some(true), &[Alteration::Precision]),
    ]
}

fn situation(candidates: &[Candidate]) -> AutoSituation<'_> {
    AutoSituation {
        outcome: RunOutcome::OutOfMemory,
        stop_requested: false,
        is_only_said: false,
        cause: Some(Cause::Capacity),
        wsl: false,
        part_of_a_job: None,
        relaunches: 0,
        ran_for: Duration::from_secs(60),
        time_left: None,
        requeued: 0,
        checkpoint: WrittenCheckpoint::No,
        candidates,
        tried: &[],
        too_large: None,
    }
}

/// What waits in RAM makes each step slower: it has to be permitted, and comes after what is only likely to fit.
#[test]
fn activations_go_to_ram_only_where_nothing_cheaper_fits() {
    let offload = |fits| candidate(&[RemedyId::Offload], fits, &[Alteration::Offloading]);
    let figure = Some(Bytes::gib(1));
    let mut likely = candidate(&[Batch], None, &[]);
    likely.expectation.need = figure.map(|bytes| Need::of(Estimate::exact(bytes)));
    likely.expectation.room = figure;
    let both = [offload(Some(true)), likely];
    let may = allowing(&[Permission::Offload]);
    assert_eq!(decide(&situation(&both), &may), AutoDecision::Relaunch(1));
    let alone = &both[..1];
    assert_eq!(decide(&situation(alone), &may), AutoDecision::Relaunch(0));
    assert_eq!(
        decide(&situation(alone), &AutoOptions::default()),
        AutoDecision::Refuse(AutoVeto::Permission(Permission::Offload))
    );
    let unsure = [candidate(&[Segments], None, &[]), offload(Some(true))];
    assert_eq!(decide(&situation(&unsure), &may), AutoDecision::Relaunch(1));
}

fn allowing(permissions: &[Permission]) -> AutoOptions {
    AutoOptions {
        allow: permissions.to_vec(),
        ..AutoOptions::default()
    }
}

/// The remedies that are chosen.
fn chosen<'a>(
    situation: &AutoSituation<'a>,
    options: &AutoOptions,
) -> Result<&'a [RemedyId], AutoVeto> {
    match decide(situation, options) {
        AutoDecision::Relaunch(index) | AutoDecision::Requeue(index, _) => {
            Ok(&situation.candidates[index].remedies)
        }
        AutoDecision::Refuse(refusal) => Err(refusal),
    }
}

#[test]
fn the_least_invasive_that_fits_is_taken() {
    let all = usual();
    assert_eq!(chosen(&situation(&all), &allowing(&[])), Ok(&[Batch][..]));
    let mut with_segments = usual();
    with_segments[1].expectation.fits = Some(true);
    let situation = situation(&with_segments);
    assert_eq!(chosen(&situation, &allowing(&[])), Ok(&[Segments][..]));
    let batch_first = AutoOptions {
        order: vec![RemedyKind::Batch, RemedyKind::Segments],
        ..AutoOptions::default()
    };
    assert_eq!(chosen(&situation, &batch_first), Ok(&[Batch][..]));
}

#[test]
fn what_is_only_estimated_to_fit_is_tried_behind_what_is_known_to() {
    let estimated = |remedies: &[RemedyId], most: u64| {
        let mut candidate = candidate(remedies, None, &[]);
        candidate.expectation = Expectation {
            need: Some(Need::of(Estimate::new(
                Bytes::gib(6),
                Bytes::gib(8),
                Bytes::gib(most),
            ))),
            room: Some(Bytes::gib(10)),
            basis: Some(Basis::Estimated),
            ..Expectation::default()
        };
        candidate
    };
    let all = [estimated(&[Segments], 12), estimated(&[Batch], 9)];
    assert_eq!(chosen(&situation(&all), &allowing(&[])), Ok(&[Batch][..]));
    let known = candidate(&[Batch, Segments], Some(true), &[]);
    let all = [estimated(&[Batch], 9), known];
    let both = chosen(&situation(&all), &allowing(&[]));
    assert_eq!(both, Ok(&[Batch, Segments][..]));
}

#[test]
fn what_is_predicted_goes_before_what_is_guessed() {
    let all = [
        candidate(&[Batch], None, &[]),
        candidate(&[Batch, Segments], Some(true), &[]),
    ];
    let both = chosen(&situation(&all), &allowing(&[]));
    assert_eq!(both, Ok(&[Batch, Segments][..]));
    // A guess is better than nothing, where it lessens what is allocated.
    let guess = [
        candidate(&[Batch], None, &[]),
        candidate(&[Segments], None, &[]),
    ];
    assert_eq!(chosen(&situation(&guess), &allowing(&[])), Ok(&[Batch][..]));
    let only_segments = &guess[1..];
    assert_eq!(
        chosen(&situation(only_segments), &allowing(&[])),
        Err(AutoVeto::NothingFits)
    );
    let in_pieces = AutoSituation {
        cause: Some(Cause::Fragmentation),
        ..situation(only_segments)
    };
    assert_eq!(chosen(&in_pieces, &allowing(&[])), Ok(&[Segments][..]));
}

#[test]
fn a_run_that_cannot_end_is_not_begun_but_requeued_where_that_is_allowed() {
    let all = usual();
    let with = |left: u64, requeued: u32| AutoSituation {
        time_left: Some(Duration::from_secs(left)),
        requeued,
        ..situation(&all)
    };
    let options = |requeue, min_time: Option<u64>| AutoOptions {
        requeue,
        min_time: min_time.map(Duration::from_secs),
        ..AutoOptions::default()
    };
    let is = |left, requeued, requeue, min_time| match decide(
        &with(left, requeued),
        &options(requeue, min_time),
    ) {
        AutoDecision::Relaunch(_) => "relaunch",
        AutoDecision::Requeue(..) => "requeue",
        AutoDecision::Refuse(AutoVeto::NoTime(..)) => "no time",
        AutoDecision::Refuse(_) => "no",
    };
    // The last run took 60 s.
    assert_eq!(is(60, 0, true, None), "relaunch");
    assert_eq!(is(59, 0, false, None), "no time");
    assert_eq!(is(59, 1, true, None), "requeue");
    assert_eq!(is(59, 2, true, None), "no time");
    assert_eq!(is(1_000, 0, true, Some(1_800)), "requeue");
    assert_eq!(is(10, 0, true, Some(5)), "relaunch");
    assert_eq!(duration("30m"), Ok(Duration::from_secs(1_800)));
    assert!(duration("30").is_err() && duration("h").is_err());
}

#[test]
fn what_changes_the_training_needs_a_word() {
    for (candidate, permission) in [
        (
            candidate(&[Batch], Some(true), &[Alteration::EffectiveBatch]),
            Permission::EffectiveBatch,
        ),
        (
            candidate(&[Batch], Some(true), &[Alteration::BatchStatistics]),
            Permission::EffectiveBatch,
        ),
        (
            candidate(&[Amp], Some(true), &[Alteration::Precision]),
            Permission::Amp,
        ),
    ] {
        let all = [candidate];
        let situation = situation(&all);
        assert_eq!(
            decide(&situation, &allowing(&[Permission::Restart])),
            AutoDecision::Refuse(AutoVeto::Permission(permission))
        );
        assert_eq!(
            decide(&situation, &allowing(&[permission])),
            AutoDecision::Relaunch(0)
        );
    }
    // Even where it is allowed, what changes nothing goes first.
    assert_eq!(
        chosen(&situation(&usual()), &allowing(&[Permission::Amp])),
        Ok(&[Batch][..])
    );
}

#[test]
fn what_had_come_far_goes_on_or_stays() {
    let all = [candidate(&[Batch], Some(true), &[])];
    let mut resuming = all.clone();
    resuming[0].resumes = true;
    use WrittenCheckpoint::{No, Unknown, Yes};
    for (ran_for, checkpoint, veto) in [
        (Duration::from_secs(599), No, None),
        (FAR, No, Some(AutoVeto::StartsOver)),
        (FAR, Unknown, Some(AutoVeto::StartsOver)),
        (Duration::from_secs(9), Yes, Some(AutoVeto::StartsOver)),
        (
            Duration::from_secs(9),
            Unknown,
            Some(AutoVeto::MayStartOver),
        ),
    ] {
        let at = |candidates| AutoSituation {
            ran_for,
            checkpoint,
            ..situation(candidates)
        };
        let relaunched = AutoDecision::Relaunch(0);
        let expected = veto.map_or(relaunched.clone(), AutoDecision::Refuse);
        assert_eq!(decide(&at(&all), &allowing(&[])), expected);
        let permitted = allowing(&[Permission::Restart]);
        assert_eq!(decide(&at(&all), &permitted), relaunched);
        assert_eq!(decide(&at(&resuming), &allowing(&[])), relaunched);
    }
}

/// Only what the cause names, and nothing that changes a number.
#[test]
fn for_lack_of_host_memory_what_keeps_the_numbers_is_tried() {
    let all = [
        candidate(&[RemedyId::DataloaderWorkers], None, &[]),
        candidate(&[RemedyId::Batch], None, &[]),
        candidate(&[RemedyId::PrefetchFactor], None, &[]),
        candidate(&[RemedyId::SharingStrategy], None, &[]),
        candidate(&[RemedyId::PinMemory], None, &[]),
    ];
    for (cause, expected) in [
        (Cause::PrefetchQueue, AutoDecision::Relaunch(2)),
        (Cause::SharedMemory, AutoDecision::Relaunch(2)),
        (Cause::OpenFiles, AutoDecision::Relaunch(3)),
        (Cause::PinnedMemory, AutoDecision::Relaunch(4)),
        (
            Cause::HostWorkers,
            AutoDecision::Refuse(AutoVeto::Cause(Cause::HostWorkers)),
        ),
    ] {
        let situation = AutoSituation {
            cause: Some(cause),
            ..situation(&all)
        };
        assert_eq!(decide(&situation, &allowing(&[])), expected, "{cause:?}");
    }
}

#[test]
fn nothing_is_done_against_the_user_a_leak_or_the_host() {
    let all = usual();
    let usual = situation(&all);
    let cause = |cause| AutoSituation {
        cause: Some(cause),
        ..usual.clone()
    };
    let everything = allowing(&[
        Permission::Amp,
        Permission::Recompute,
        Permission::EffectiveBatch,
        Permission::Restart,
    ]);
    for (situation, refusal) in [
        (cause(Cause::Leak), AutoVeto::Cause(Cause::Leak)),
        (
            cause(Cause::EvaluationGraph),
            AutoVeto::Cause(Cause::EvaluationGraph),
        ),
        (cause(Cause::HostMemory), AutoVeto::Cause(Cause::HostMemory)),
        (
            cause(Cause::DeviceFault),
            AutoVeto::Cause(Cause::DeviceFault),
        ),
        (
            AutoSituation {
                outcome: RunOutcome::Stopped,
                ..usual.clone()
            },
            AutoVeto::Stopped,
        ),
        (
            AutoSituation {
                stop_requested: true,
                ..usual.clone()
            },
            AutoVeto::Stopped,
        ),
        (
            AutoSituation {
                is_only_said: true,
                ..usual.clone()
            },
            AutoVeto::OnlySaid,
        ),
        (
            AutoSituation {
                outcome: RunOutcome::Failed(Exit::Code(1)),
                ..usual.clone()
            },
            AutoVeto::NotOutOfMemory,
        ),
        (
            AutoSituation {
                outcome: RunOutcome::Finished,
                ..usual.clone()
            },
            AutoVeto::NotOutOfMemory,
        ),
        (
            AutoSituation {
                part_of_a_job: Some("--nnodes 2"),
                ..usual.clone()
            },
            AutoVeto::PartOfAJob("--nnodes 2".into()),
        ),
        (
            AutoSituation {
                wsl: true,
                ..usual.clone()
            },
            AutoVeto::Wsl,
        ),
        (
            AutoSituation {
                relaunches: 3,
                ..usual.clone()
            },
            AutoVeto::Enough(3),
        ),
    ] {
        assert_eq!(
            decide(&situation, &everything),
            AutoDecision::Refuse(refusal)
        );
    }
    for helped in [
        Cause::Capacity,
        Cause::OptimizerState,
        Cause::Fragmentation,
        Cause::ForeignProcess,
        Cause::Limit,
        Cause::OddBatch,
        Cause::NonPytorch,
        Cause::Thrashing,
    ] {
        assert!(matches!(
            decide(&cause(helped), &everything),
            AutoDecision::Relaunch(_)
        ));
    }
}

#[test]
fn the_same_plan_is_never_tried_twice() {
    let all = usual();
    let mut tried = vec![CommandLine::typed("python t.py")];
    let mut taken = Vec::new();
    loop {
        let situation = AutoSituation {
            tried: &tried,
            ..situation(&all)
        };
        match decide(&situation, &allowing(&[Permission::Amp])) {
            AutoDecision::Relaunch(index) | AutoDecision::Requeue(index, _) => {
                taken.push(all[index].remedies.clone());
                tried.push(all[index].command.clone());
            }
            AutoDecision::Refuse(refusal) => {
                assert_eq!(refusal, AutoVeto::Tried);
                break;
            }
        }
    }
    assert_eq!(taken, [vec![Batch], vec![Batch, Segments], vec![Amp]]);
}

#[test]
fn a_command_without_remedies_says_so() {
    assert_eq!(
        decide(&situation(&[]), &allowing(&[])),
        AutoDecision::Refuse(AutoVeto::NoRemedy)
    );
    let too_much = [candidate(&[Batch], Some(false), &[])];
    assert_eq!(
        decide(&situation(&too_much), &allowing(&[])),
        AutoDecision::Refuse(AutoVeto::NothingFits)
    );
    // Where the model or the optimizer's step is too large by itself, by how much, and what that takes.
    let too_large = Some(TooLarge {
        by: Bytes::gib(9),
        advice: Some("at least 2 GPUs, with the model sharded over them (FSDP, ZeRO-3)".into()),
    });
    for candidates in [&[][..], &too_much] {
        let situation = AutoSituation {
            too_large: too_large.clone(),
            ..situation(candidates)
        };
        let AutoDecision::Refuse(veto) = decide(&situation, &allowing(&[])) else {
            panic!("nothing to try");
        };
        assert_eq!(
            veto.to_string(),
            "without any activations it is 9.00 GiB too large for this GPU, so no smaller batch helps; \
             what would: at least 2 GPUs, with the model sharded over them (FSDP, ZeRO-3)"
        );
    }
}
