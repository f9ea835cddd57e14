//! What ranks can do otherwise, by the rehearsed step, and what is only said; compiled graphs, whose need nobody predicts.

use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::event::{
    Compiled, EventKind, OomRecord, OptimizerMemory, Patchable, Phase, RankChange, Rehearsal,
    RehearsedVariant,
};
use crate::remedy::{Availability, Plan, Remedy, RemedyId, RemedyInputs, recommended, remedies};
use crate::state::tests::staged::{StagedSession, gib, record};
use crate::units::{Bytes, Pid};

const GIB: u64 = 1 << 30;
const TRAIN: &str = "torchrun --nproc-per-node 2 train.py --batch-size 8";

/// A rank with a shard of 2 GiB and Adam, whose forward keeps 1 GiB a sample; `whole` GiB are gathered at its peak.
fn variant(change: Option<RankChange>, whole: u64) -> RehearsedVariant {
    RehearsedVariant {
        change,
        trace: Some(trace(whole)),
        ..RehearsedVariant::default()
    }
}

/// In pieces of 1 GiB: activations, what is gathered, and the gradient, which stays.
fn trace(whole: u64) -> String {
    let activations = format!("x{} ", GIB / 8).repeat(8);
    let gathered = format!("{GIB}@1 ").repeat(whole as usize);
    let gradient = format!("{GIB} ").repeat(2);
    // The number of the next allocation less that of the one that ends.
    let all = 8 + whole + 2;
    let ends: Vec<String> = (3..=all).rev().map(|back| format!("-{back}")).collect();
    format!("{activations}{gathered}{gradient}{}", ends.join(" "))
}

fn said(variants: Vec<RehearsedVariant>) -> EventKind {
    EventKind::Rehearsal(Box::new(Rehearsal {
        pid: Pid(100),
        phase: Phase::Forward,
        batch: 8,
        before: Bytes::gib(2),
        weights: vec![2 * GIB],
        trained: vec![2 * GIB],
        optimizer: Some(OptimizerMemory {
            states: Some(2),
            ..OptimizerMemory::default()
        }),
        own_loss: true,
        ranks: 2,
        variants,
        ..Rehearsal::default()
    }))
}

fn ran(words: &str, more: Vec<EventKind>) -> StagedSession {
    let out = OomRecord {
        phase: Phase::Forward,
        ..record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0))
    };
    super::bounds::ran(words, out, more)
}

fn offers(scene: &StagedSession) -> (CommandLine, Vec<Remedy>, Option<RemedyId>) {
    let findings = [super::finding(Cause::Capacity, None)];
    let inputs: RemedyInputs<'_> = super::of_staged(scene, &findings);
    let command = scene.state.run().unwrap().command.clone();
    let all = remedies(&command, &inputs);
    let enter = recommended(&all, Some(Cause::Capacity)).map(|at| all[at].id);
    (command, all, enter)
}

fn one(all: &[Remedy], id: RemedyId) -> Option<&Remedy> {
    all.iter().find(|remedy| remedy.id == id)
}

/// Four of a step as it was (24 GiB of 22), resharded, in bf16 and in buckets.
fn every() -> Vec<RehearsedVariant> {
    vec![
        variant(None, 8),
        variant(Some(RankChange::Reshard), 2),
        variant(Some(RankChange::InBf16), 4),
        variant(Some(RankChange::InBuckets), 3),
        RehearsedVariant {
            weights: Some(Vec::new()),
            trained: Some(Vec::new()),
            ..variant(Some(RankChange::Offload), 8)
        },
    ]
}

#[test]
fn each_change_is_offered_with_the_need_of_its_own_step() {
    let scene = ran(TRAIN, vec![said(every())]);
    let (command, all, enter) = offers(&scene);
    // The shard, two states, eight samples, what is gathered and its gradient.
    for (id, needs, patch, alters) in [
        (RemedyId::Reshard, 18, "reshard=on", false),
        (RemedyId::ShardsInBf16, 20, "shards=bf16", true),
        (RemedyId::GradientsInBuckets, 19, "gradients=buckets", false),
    ] {
        let remedy = one(&all, id).unwrap();
        assert!(remedy.is_offered(), "{remedy:?}");
        let peak = remedy.expectation.peak.unwrap().likely;
        // And the workspaces of cuBLAS.
        let more = peak - Bytes::gib(needs);
        assert!(
            peak >= Bytes::gib(needs) && more < Bytes::mib(128),
            "{id:?}: {peak}"
        );
        assert_eq!(remedy.alters.is_some(), alters, "{id:?}");
        let made = Plan::new(&command, &[remedy]).command;
        assert_eq!(made.env_value("OOMPH_PATCHES").unwrap(), patch);
    }
    let reshard = one(&all, RemedyId::Reshard).unwrap();
    assert_eq!(reshard.expectation.fits, Some(true));
    assert_eq!(
        reshard.cost,
        *"same numerics; each layer is gathered once more, in backward: more is sent"
    );
    // A smaller batch comes first, as ever.
    assert_eq!(enter, Some(RemedyId::Batch));
    let buckets = &one(&all, RemedyId::GradientsInBuckets).unwrap().cost;
    assert!(
        buckets.contains("2.00 GiB of gradients are there once"),
        "{buckets}"
    );
    assert!(
        buckets.contains("bucket_cap_mb would move nothing"),
        "{buckets}"
    );
}

#[test]
fn where_a_step_was_not_rehearsed_so_nothing_is_offered() {
    let scene = ran(TRAIN, vec![said(vec![variant(None, 8)])]);
    let (_, all, _) = offers(&scene);
    for id in [
        RemedyId::Reshard,
        RemedyId::ShardsInBf16,
        RemedyId::GradientsInBuckets,
        RemedyId::ShardsToRam,
    ] {
        assert!(one(&all, id).is_none(), "{id:?}");
    }
}

/// Without an option it is a word on the code, with what it would need and what goes to RAM.
#[test]
fn shards_go_to_ram_by_the_programs_option_or_are_a_word_on_its_code() {
    let scene = ran(TRAIN, vec![said(every())]);
    let (_, all, _) = offers(&scene);
    let to_ram = one(&all, RemedyId::ShardsToRam).unwrap();
    let Availability::NotOffered(why) = &to_ram.availability else {
        panic!("{to_ram:?}");
    };
    // Eight samples, and what is gathered and its gradient: nothing else is left.
    assert!(
        why.contains("offload_policy=CPUOffloadPolicy() in fully_shard")
            && why.contains("needs 18.1 GiB then, 8.00 GiB go to RAM"),
        "{why}"
    );
    assert!(
        to_ram
            .expectation
            .needs()
            .is_some_and(|needs| needs >= Bytes::gib(18))
    );
    for (typed, becomes) in [
        (
            "accelerate launch --use_fsdp --num_processes 2 train.py --batch-size 8",
            "accelerate launch --fsdp_offload_params true --use_fsdp --num_processes 2 train.py --batch-size 8",
        ),
        (
            "accelerate launch --use_fsdp --fsdp_offload_params false train.py --batch-size 8",
            "accelerate launch --use_fsdp --fsdp_offload_params true train.py --batch-size 8",
        ),
        (
            "torchrun train.py --batch-size 8 --fsdp full_shard,auto_wrap",
            "torchrun train.py --batch-size 8 --fsdp full_shard,auto_wrap,offload",
        ),
        (
            "torchrun -m torchtitan.train --training.local_batch_size 8",
            "torchrun -m torchtitan.train --training.local_batch_size 8 --training.enable_cpu_offload",
        ),
    ] {
        let scene = ran(typed, vec![said(every())]);
        let (command, all, _) = offers(&scene);
        let to_ram = one(&all, RemedyId::ShardsToRam).unwrap();
        assert!(to_ram.is_offered(), "{typed}: {to_ram:?}");
        let made = Plan::new(&command, &[to_ram]).command;
        assert_eq!(made.shown(), becomes);
        let cost = &to_ram.cost;
        let sum = "RAM takes 8.00 GiB for each rank (parameters 2.00 GiB, gradients 2.00 GiB, optimizer state 4.00 GiB)";
        assert!(cost.contains(sum), "{cost}");
    }
}

#[test]
fn what_compiled_graphs_need_is_measured_and_never_taken_unasked() {
    let graphs = |budget, resized| {
        EventKind::Patchable(Patchable {
            pid: Pid(100),
            compiled: Some(Compiled {
                functions: 3,
                resized,
                of: Some("train.py:30 step".into()),
                budget,
            }),
            ..Patchable::default()
        })
    };
    for (budget, patch) in [(None, "budget=50"), (Some(50), "budget=25")] {
        let (command, all, enter) = offers(&ran(TRAIN, vec![graphs(budget, 1)]));
        let remedy = one(&all, RemedyId::CompileBudget).unwrap();
        assert!(remedy.is_offered());
        assert_eq!(
            (remedy.expectation.needs(), remedy.expectation.fits),
            (None, None)
        );
        let words = &remedy.expectation.words;
        assert!(words.contains("the run measures it"), "{words}");
        assert_ne!(enter, Some(RemedyId::CompileBudget));
        let made = Plan::new(&command, &[remedy]).command;
        assert_eq!(made.env_value("OOMPH_PATCHES").unwrap(), patch);
        // A last batch that is smaller is no reason.
        assert!(one(&all, RemedyId::CompileDynamic).is_none());
    }
    let (_, all, enter) = offers(&ran(TRAIN, vec![graphs(Some(25), 7)]));
    assert!(!one(&all, RemedyId::CompileBudget).unwrap().is_offered());
    let dynamic = one(&all, RemedyId::CompileDynamic).unwrap();
    assert!(dynamic.is_offered());
    let cost = &dynamic.cost;
    assert!(
        cost.contains("compiled again for other sizes 7 times (train.py:30 step)"),
        "{cost}"
    );
    assert_ne!(enter, Some(RemedyId::CompileDynamic));
    // Beside another nothing is known of both.
    let scene = ran(TRAIN, vec![said(every()), graphs(None, 1)]);
    let (command, all, _) = offers(&scene);
    let both = [RemedyId::CompileBudget, RemedyId::Reshard].map(|id| one(&all, id).unwrap());
    let findings = [super::finding(Cause::Capacity, None)];
    let inputs = super::of_staged(&scene, &findings);
    let expected = crate::remedy::expectation(&command, &inputs, &both);
    assert_eq!((expected.needs(), expected.fits), (None, None));
    // Nothing was compiled.
    let (_, all, _) = offers(&ran(TRAIN, Vec::new()));
    assert!(one(&all, RemedyId::CompileBudget).is_none());
}
