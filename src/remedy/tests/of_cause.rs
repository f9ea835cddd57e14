//! Remedies for one cause each: a cross-entropy of a large vocabulary, what training left in the cache for an evaluation, and
//! what waits for a stream of NCCL's.

use super::combined::rehearsal;
use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::event::{
    EventKind, HeadShape, Hello, OomRecord, PatchOutcome, Patchable, Patched, Phase, Rehearsal,
    RehearsedVariant, Relief,
};
use crate::recognize::{ConfigFile, LaunchEnvironment, Recognized};
use crate::remedy::{Availability, Plan, Remedy, RemedyId, recommended, remedies};
use crate::state::tests::staged::{StagedSession, gib, hello, record, started};
use crate::units::{Bytes, Pid};

const MIB: u64 = 1 << 20;
const PLAIN: &str = "python train.py --batch-size 8";
const TRAINER: &str = "python run_clm.py --per_device_train_batch_size 8 --output_dir out";

fn ran(words: &str, said_hello: EventKind, out: OomRecord, more: Vec<EventKind>) -> StagedSession {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, words))
        .add(1.0, said_hello)
        .add(2.0, EventKind::Oom(out));
    for event in more {
        scene.add(2.1, event);
    }
    scene
}

fn out(phase: Phase) -> OomRecord {
    OomRecord {
        phase,
        ..record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0))
    }
}

fn patchable(installed: &[&str]) -> EventKind {
    EventKind::Patchable(Patchable {
        pid: Pid(100),
        models: vec!["Net".into()],
        installed: Some(installed.iter().map(|name| name.to_string()).collect()),
        ..Patchable::default()
    })
}

fn offers(scene: &StagedSession, cause: Cause) -> (CommandLine, Vec<Remedy>) {
    let findings = [super::finding(cause, None)];
    let command = scene.state.run().unwrap().command.clone();
    let all = remedies(&command, &super::of_staged(scene, &findings));
    (command, all)
}

/// The command with this remedy, and the remedy; `None` where it is not in the list.
fn with(scene: &StagedSession, cause: Cause, id: RemedyId) -> Option<(String, Remedy)> {
    let (command, all) = offers(scene, cause);
    let remedy = all.into_iter().find(|remedy| remedy.id == id)?;
    Some((Plan::new(&command, &[&remedy]).command.shown(), remedy))
}

/// A step of 3 GiB a sample, or three quarters with its loss in chunks.
fn logits() -> Rehearsal {
    let mut said = rehearsal(100, 8, [3072, 3072, 3072, 3072]);
    said.variants.truncate(1);
    said.variants.push(RehearsedVariant {
        chunked: true,
        trace: Some(format!("x{} {} -2", 768 * MIB, 1024 * MIB)),
        ..RehearsedVariant::default()
    });
    said
}

#[test]
fn a_loss_in_chunks_is_offered_by_its_rehearsal_and_keeps_the_batch() {
    let said = EventKind::Rehearsal(Box::new(logits()));
    let scene = ran(
        PLAIN,
        hello(1, 100, None),
        out(Phase::Forward),
        vec![patchable(&[]), said],
    );
    let (command, remedy) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
    assert!(remedy.is_offered(), "{:?}", remedy.availability);
    assert!(
        command.contains("OOMPH_PATCHES=cross_entropy=chunked"),
        "{command}"
    );
    assert_eq!(
        (remedy.alters, remedy.numerics()),
        (None, "equal to rounding".into())
    );
    let peak = remedy.expectation.peak.unwrap().likely;
    // The weight, its gradient, and 6 GiB.
    assert!((gib(8.0)..gib(8.4)).contains(&peak), "{peak}");
    assert!(remedy.expectation.words.contains("rehearsed"));
    let relief = remedy.expectation.relief.unwrap();
    assert_eq!(relief.allocated, Some(peak));
    assert_eq!(relief.without, Some(peak + Bytes::mib(8 * (3072 - 768))));
    let (_, all) = offers(&scene, Cause::LargeLogits);
    let enter = recommended(&all, Some(Cause::LargeLogits)).unwrap();
    assert_eq!(all[enter].id, RemedyId::ChunkedLoss);
}

const HEAD: HeadShape = HeadShape {
    classes: 50257,
    width: 768,
};

/// The same with its head in chunks: an eighth of a gibibyte a sample.
fn fused(head: RehearsedVariant) -> Rehearsal {
    let mut said = logits();
    said.variants.insert(
        1,
        RehearsedVariant {
            chunked: true,
            ..head
        },
    );
    said
}

#[test]
fn head_and_loss_are_computed_in_chunks_where_the_logits_were_seen_to_go_nowhere_else() {
    let said = fused(RehearsedVariant {
        head: Some(HEAD),
        trace: Some(format!("x{} {} -2", 128 * MIB, 1024 * MIB)),
        ..RehearsedVariant::default()
    });
    let events = vec![patchable(&[]), EventKind::Rehearsal(Box::new(said))];
    let scene = ran(PLAIN, hello(1, 100, None), out(Phase::Forward), events);
    let (command, remedy) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
    assert!(
        command.contains("OOMPH_PATCHES=head=50257x768"),
        "{command}"
    );
    assert_eq!(remedy.title, "chunked loss and head");
    assert!(remedy.changes.contains("loss and head in chunks of rows"));
    assert_eq!(remedy.numerics().to_string(), "equal to rounding");
    assert!(remedy.cost.as_str().contains("the head is computed twice"));
    // The weight, its gradient, and 1 GiB.
    let peak = remedy.expectation.peak.unwrap().likely;
    assert!((gib(3.0)..gib(3.4)).contains(&peak), "{peak}");
    let relief = remedy.expectation.relief.unwrap();
    assert_eq!(relief.without, Some(peak + Bytes::mib(8 * (3072 - 128))));
}

#[test]
fn where_logits_are_used_otherwise_or_the_patch_was_declined_the_loss_alone_is_in_chunks() {
    let otherwise = fused(RehearsedVariant {
        why_not: Some("its logits are used otherwise (argmax)".into()),
        ..RehearsedVariant::default()
    });
    let events = vec![patchable(&[]), EventKind::Rehearsal(Box::new(otherwise))];
    let scene = ran(PLAIN, hello(1, 100, None), out(Phase::Forward), events);
    let (command, remedy) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
    assert!(command.contains("=cross_entropy=chunked"), "{command}");
    assert_eq!(remedy.title, "chunked cross-entropy");
    let peak = remedy.expectation.peak.unwrap().likely;
    assert!((gib(8.0)..gib(8.4)).contains(&peak), "{peak}");

    let said = fused(RehearsedVariant {
        head: Some(HEAD),
        trace: Some(format!("x{} {} -2", 128 * MIB, 1024 * MIB)),
        ..RehearsedVariant::default()
    });
    let declined = EventKind::Patch(Patched {
        pid: Pid(100),
        patch: "head".into(),
        outcome: PatchOutcome::Declined,
        words: "the model is compiled".into(),
        relief: None,
    });
    let events = vec![
        patchable(&[]),
        declined,
        EventKind::Rehearsal(Box::new(said)),
    ];
    let scene = ran(PLAIN, hello(1, 100, None), out(Phase::Forward), events);
    let (command, _) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
    assert!(command.contains("=cross_entropy=chunked"), "{command}");
}

/// A head that returns its loss alone: its logits, a copy without the last word, and the log-softmax of that, 2 GiB each of 8
/// samples, and in chunks an eighth of one. Other things lie on the GPU beside it.
fn returns_its_loss() -> Rehearsal {
    let each = 256 * MIB;
    let plain = format!("x{each} x{each} x{each} 4 4 -4 -5 x{each} x{each} -5 -2 {each} -2 -5 -4");
    let chunked = format!(
        "x{each} x{each} 4 -3 x{each} x{} -1 -4 {each} -3 -4",
        each / 8
    );
    let variant = |trace: String, chunked, loss| RehearsedVariant {
        chunked,
        trace: Some(trace),
        forward: loss,
        loss,
        ..RehearsedVariant::default()
    };
    Rehearsal {
        before: Bytes::gib(11),
        variants: vec![variant(plain, false, 7), variant(chunked, true, 4)],
        ..logits()
    }
}

#[test]
fn what_a_loss_in_chunks_saves_is_of_a_step_and_not_of_an_evaluation_that_may_have_been() {
    let relief = |said: Rehearsal| {
        let said = EventKind::Rehearsal(Box::new(said));
        let scene = ran(
            PLAIN,
            hello(1, 100, None),
            out(Phase::Forward),
            vec![patchable(&[]), said],
        );
        let (_, remedy) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
        remedy.expectation.relief.unwrap()
    };
    let saved = |relief: Relief| relief.without.unwrap() - relief.allocated.unwrap();
    // What else lies there may be of an evaluation before the first step, whose outputs would be as large without the remedy.
    let expected = Bytes::mib(8 * (256 - 32));
    let rounded = |bytes: Bytes| Bytes(bytes.0 / MIB * MIB);
    assert_eq!(rounded(saved(relief(returns_its_loss()))), expected);
    let never = Rehearsal {
        evaluated: Some(false),
        ..returns_its_loss()
    };
    assert_eq!(rounded(saved(relief(never))), expected);
}

/// An evaluation's loss is computed in chunks as well, and needs what its own trace says.
#[test]
fn an_evaluation_that_was_rehearsed_in_chunks_has_a_loss_in_chunks() {
    let said = Rehearsal {
        evaluates: true,
        phase: Phase::Evaluation,
        ..returns_its_loss()
    };
    let scene = ran(
        PLAIN,
        hello(1, 100, None),
        out(Phase::Evaluation),
        vec![patchable(&[]), EventKind::Rehearsal(Box::new(said))],
    );
    let (command, remedy) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
    assert!(remedy.is_offered(), "{:?}", remedy.availability);
    assert!(command.contains("cross_entropy=chunked"), "{command}");
    assert_eq!(remedy.cost.as_str(), "equal to rounding");
    assert_eq!(remedy.expectation.relief, None);
    // What lies beside it, and of eight samples two tensors as large as the logits and an eighth of one.
    let peak = remedy.expectation.peak.unwrap().likely;
    let least = Bytes::gib(11) + Bytes::mib(8 * (2 * 256 + 32));
    assert!((least..least + Bytes::mib(300)).contains(&peak), "{peak}");
}

#[test]
fn without_a_rehearsal_only_its_kind_of_saving_is_said() {
    let scene = ran(
        PLAIN,
        hello(1, 100, None),
        out(Phase::Forward),
        vec![patchable(&[])],
    );
    let (_, remedy) = with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap();
    let words = remedy.expectation.words.as_str();
    assert!(words.starts_with("unknown: the logits stay"), "{words}");
    assert!(with(&scene, Cause::Capacity, RemedyId::ChunkedLoss).is_none());
    let evaluation = ran(
        PLAIN,
        hello(1, 100, None),
        out(Phase::Evaluation),
        vec![patchable(&[])],
    );
    assert!(with(&evaluation, Cause::LargeLogits, RemedyId::ChunkedLoss).is_none());
}

#[test]
fn the_programs_own_switch_comes_first_where_its_package_is_installed() {
    let of = |words: &str, installed: &[&str]| {
        let scene = ran(
            words,
            hello(1, 100, None),
            out(Phase::Forward),
            vec![patchable(installed)],
        );
        with(&scene, Cause::LargeLogits, RemedyId::ChunkedLoss).unwrap()
    };
    let (command, _) = of(TRAINER, &["liger_kernel"]);
    assert_eq!(command, format!("{TRAINER} --use_liger_kernel True"));
    let (command, _) = of(TRAINER, &[]);
    assert!(command.contains("cross_entropy=chunked"), "{command}");
    let cli = "llamafactory-cli train lora.yaml";
    let (command, _) = of(cli, &["liger_kernel"]);
    assert_eq!(command, format!("{cli} enable_liger_kernel=true"));
    let (command, _) = of(
        &format!("{cli} enable_liger_kernel=false"),
        &["liger_kernel"],
    );
    assert_eq!(command, format!("{cli} enable_liger_kernel=true"));
}

#[test]
fn a_fused_loss_that_a_config_file_turns_on_is_not_added() {
    let words = "python trl/scripts/sft.py --config sft.yaml";
    let command_with = |text: &str| {
        let scene = ran(
            words,
            hello(1, 100, None),
            out(Phase::Forward),
            vec![patchable(&["liger_kernel"])],
        );
        let command = scene.state.run().unwrap().command.clone();
        let named = Recognized::new(&command, &LaunchEnvironment::default()).named_files();
        let files = named.into_iter().map(|file| ConfigFile {
            bases: Default::default(),
            at: file.at,
            from: file.from,
            name: file.name,
            text: text.into(),
        });
        let files: Vec<ConfigFile> = files.collect();
        let findings = [super::finding(Cause::LargeLogits, None)];
        let mut inputs = super::of_staged(&scene, &findings);
        inputs.launch.files = &files;
        let all = remedies(&command, &inputs);
        let remedy = all.iter().find(|remedy| remedy.id == RemedyId::ChunkedLoss);
        Plan::new(&command, &[remedy.unwrap()]).command.shown()
    };
    let on = command_with("per_device_train_batch_size: 8\nuse_liger_kernel: true\n");
    assert!(!on.contains("--use_liger_kernel"), "{on}");
    let off = command_with("per_device_train_batch_size: 8\nuse_liger_kernel: false\n");
    assert!(off.ends_with("--use_liger_kernel True"), "{off}");
}

#[test]
fn workers_that_use_the_gpu_become_fewer() {
    let scene = ran(
        "python train.py --num_workers 8",
        hello(1, 100, None),
        out(Phase::Forward),
        vec![patchable(&[])],
    );
    let (command, remedy) = with(&scene, Cause::GpuInWorkers, RemedyId::DataloaderWorkers).unwrap();
    assert_eq!(command, "python train.py --num_workers 4");
    let words = remedy.expectation.words.as_str();
    assert!(
        words.contains("half of the workers' CUDA contexts"),
        "{words}"
    );
    let (_, all) = offers(&scene, Cause::GpuInWorkers);
    let enter = recommended(&all, Some(Cause::GpuInWorkers)).map(|at| all[at].id);
    assert_eq!(enter, Some(RemedyId::DataloaderWorkers));
    assert!(with(&scene, Cause::Capacity, RemedyId::DataloaderWorkers).is_none());
}

#[test]
fn attention_that_is_asked_to_be_written_out_is_asked_to_be_fused() {
    let of = |words: &str, cause| {
        let scene = ran(
            words,
            hello(1, 100, None),
            out(Phase::Forward),
            vec![patchable(&[])],
        );
        with(&scene, cause, RemedyId::FusedAttention)
    };
    let scores = Cause::AttentionScores;
    let (command, remedy) = of(&format!("{TRAINER} --attn_implementation eager"), scores).unwrap();
    assert!(remedy.is_offered(), "{:?}", remedy.availability);
    assert_eq!(command, format!("{TRAINER} --attn_implementation sdpa"));
    assert_eq!(
        (remedy.alters, remedy.numerics()),
        (None, "equal to rounding".into())
    );
    let (command, _) = of("python my.py model.attn_implementation=eager", scores).unwrap();
    assert_eq!(command, "python my.py model.attn_implementation=sdpa");
    let (command, _) = of(
        "llamafactory-cli train --stage sft --model_name_or_path m --flash_attn disabled",
        scores,
    )
    .unwrap();
    assert!(command.ends_with("--flash_attn sdpa"), "{command}");
    let (_, remedy) = of(&format!("{TRAINER} --attn_implementation sdpa"), scores).unwrap();
    match remedy.availability {
        Availability::NotOffered(why) => {
            assert_eq!(why, "already on: --attn_implementation sdpa");
        }
        Availability::Offered => panic!("it is offered"),
    }
    // Nothing in the command is about it, or something else is to blame.
    assert!(of(TRAINER, scores).is_none());
    let other = format!("{TRAINER} --attn_implementation eager");
    assert!(of(&other, Cause::Capacity).is_none());
}

#[test]
fn the_cache_is_emptied_between_phases_where_an_evaluation_finds_pieces_of_training() {
    let evaluation = |step| OomRecord {
        step,
        ..out(Phase::Evaluation)
    };
    let scene = ran(
        PLAIN,
        hello(1, 100, None),
        evaluation(9),
        vec![patchable(&[])],
    );
    let (command, remedy) = with(&scene, Cause::Fragmentation, RemedyId::EmptyCache).unwrap();
    assert!(remedy.is_offered(), "{:?}", remedy.availability);
    assert!(
        command.contains("OOMPH_PATCHES=empty_cache=phases"),
        "{command}"
    );
    assert_eq!(remedy.numerics(), "same numerics");
    let words = remedy.expectation.words.as_str();
    assert_eq!(words, "unknown: it makes fragmentation less likely");
    assert!(with(&scene, Cause::Capacity, RemedyId::EmptyCache).is_none());
    let first = ran(
        PLAIN,
        hello(1, 100, None),
        evaluation(0),
        vec![patchable(&[])],
    );
    assert!(with(&first, Cause::Fragmentation, RemedyId::EmptyCache).is_none());
}

#[test]
fn what_waits_for_nccls_streams_is_not_held_where_that_is_most_of_what_was_missing() {
    let of = |torch: &str, active: f64, rank| {
        let EventKind::Hello(said) = hello(1, 100, rank) else {
            panic!("a hello");
        };
        let said = Hello {
            torch: torch.into(),
            ..said
        };
        let mut record = out(Phase::Backward);
        record.sample.active = Some(record.sample.allocated + gib(active));
        let scene = ran(PLAIN, EventKind::Hello(said), record, vec![patchable(&[])]);
        with(&scene, Cause::Capacity, RemedyId::RecordStreams)
    };
    let (command, remedy) = of("2.4.1+cu121", 5.0, Some(0)).unwrap();
    assert!(remedy.is_offered(), "{:?}", remedy.availability);
    assert_eq!(
        command,
        format!("TORCH_NCCL_AVOID_RECORD_STREAMS=1 {PLAIN}")
    );
    let words = remedy.expectation.words.as_str();
    assert!(
        words.contains(
            "5.00 GiB was freed but still waited for another stream, 4.00 GiB was requested"
        ),
        "{words}"
    );
    // It is so by itself, it would not have been enough, and there is nobody to wait for.
    for (torch, active, rank) in [
        ("2.8.0+cu128", 5.0, Some(0)),
        ("2.4.1+cu121", 3.0, Some(0)),
        ("2.4.1+cu121", 5.0, None),
    ] {
        assert!(of(torch, active, rank).is_none(), "{torch} {active}");
    }
}

/// A step whose replay with fixed segments needs more than there is, as large blocks are divided among small tensors.
#[test]
fn a_limit_for_splitting_is_offered_where_segments_may_not_grow_and_its_replay_says_that_it_fits() {
    let mut said = rehearsal(100, 1, [0, 0, 0, 0]);
    said.variants.truncate(1);
    // Each large tensor that is freed leaves its segment to a small one that stays.
    let (large, small) = (6 * 1024 * MIB, 64 * MIB);
    let mut words = vec![format!("{large}"), "-1".into()];
    for number in 1..=3 {
        words.push(format!("{small}"));
        words.push(format!("{}", large + number * 512 * MIB));
        words.push("-1".into());
    }
    words.extend([format!("{}", 1024 * MIB), "-2".into()]);
    said.variants[0].trace = Some(words.join(" "));
    let shares = EventKind::Patchable(Patchable {
        pid: Pid(100),
        models: vec!["Net".into()],
        shares_cuda: true,
        ..Patchable::default()
    });
    let said = EventKind::Rehearsal(Box::new(said));
    let offered = |room: f64, more: Vec<EventKind>| {
        let record = OomRecord {
            phase: Phase::Forward,
            ..record(100, gib(room - 2.0), gib(room - 1.0), gib(4.0), gib(1.0))
        };
        let scene = ran(PLAIN, hello(1, 100, None), record, more);
        with(&scene, Cause::Fragmentation, RemedyId::MaxSplitSize)
    };
    let tried: Vec<f64> = (20..60).map(|half| f64::from(half) / 2.0).collect();
    let fitting = tried.iter().find_map(|room| {
        let (command, remedy) = offered(*room, vec![shares.clone(), said.clone()])?;
        Some((*room, command, remedy))
    });
    let (room, command, remedy) = fitting.expect("a room in which it helps");
    assert!(command.contains("max_split_size_mb:128"), "{command}");
    assert!(matches!(remedy.availability, Availability::Offered));
    assert!(remedy.expectation.needs().unwrap() <= Bytes::gib(1).scale(room));
    // Where segments may grow nobody needs it.
    assert!(offered(room, vec![said]).is_none());
}
