//! What a command that was edited by hand would need.

use super::combined::{rehearsal, run_out, with_inputs};
use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::remedy::{EditedNeed, Expectation, FitVerdict, Plan, RemedyId, remedies};
use crate::state::tests::staged::{StagedSession, hello, started};

const TRAIN: &str = "python train.py --batch-size 8 --lr 1";

/// 22 GiB could be had; a sample needs 4 GiB.
fn out() -> StagedSession {
    let mut scene = StagedSession::default();
    run_out(
        &mut scene,
        1,
        TRAIN,
        Some(rehearsal(100, 8, [4096, 512, 2048, 256])),
    );
    scene
}

fn need(scene: &StagedSession, edit: impl FnOnce(&mut CommandLine)) -> Result<Expectation, String> {
    with_inputs(scene, Cause::Capacity, |command, inputs| {
        let mut edited = command.clone();
        edit(&mut edited);
        EditedNeed::new(command, edited, inputs, &remedies(command, inputs)).need
    })
}

fn typed(scene: &StagedSession, text: &str) -> Result<Expectation, String> {
    need(scene, |command| {
        command.argv = CommandLine::typed(text).argv
    })
}

#[test]
fn any_batch_that_is_typed_has_its_need() {
    let scene = out();
    let of = |batch: u64| {
        let text = TRAIN.replace('8', &batch.to_string());
        typed(&scene, &text).expect("a need")
    };
    assert_eq!(of(2).verdict(), FitVerdict::Fits, "{:?}", of(2));
    assert_eq!(of(7).verdict(), FitVerdict::WontFit, "{:?}", of(7));
    assert_eq!(of(8).verdict(), FitVerdict::WontFit, "{:?}", of(8));
    assert!(of(2).needs() < of(3).needs(), "{:?} {:?}", of(2), of(3));
}

#[test]
fn what_a_remedy_makes_needs_what_the_dialog_says_and_may_be_edited_further() {
    let scene = out();
    with_inputs(&scene, Cause::Capacity, |command, inputs| {
        let offered = remedies(command, inputs);
        let remedy = |id| offered.iter().find(|remedy| remedy.id == id).expect("one");
        let (batch, recompute) = (remedy(RemedyId::Batch), remedy(RemedyId::Recompute));
        let need = |edited: CommandLine| {
            let need = EditedNeed::new(command, edited, inputs, &offered).need;
            need.expect("a need")
        };
        let planned = Plan::new(command, &[batch]).command;
        assert_eq!(need(planned), batch.expectation);
        let mut planned = Plan::new(command, &[recompute]).command;
        assert_eq!(need(planned.clone()), recompute.expectation);
        let at = planned.argv.iter().position(|word| *word == *"8");
        planned.argv[at.expect("the batch")] = "16".into();
        assert!(need(planned).needs() > recompute.expectation.needs());
    });
}

/// What nobody knows the effect of leaves the remedy's verdict, and is named.
#[test]
fn what_is_added_to_a_remedys_command_keeps_its_verdict() {
    let scene = out();
    with_inputs(&scene, Cause::Capacity, |command, inputs| {
        let offered = remedies(command, inputs);
        let batch = offered.iter().find(|remedy| remedy.id == RemedyId::Batch);
        let batch = batch.expect("a smaller batch");
        let planned = Plan::new(command, &[batch]).command;
        let need = |edited| EditedNeed::new(command, edited, inputs, &offered).need;
        let mut with = planned.clone();
        with.argv.push("--fast".into());
        with.set_env("XX", Some("1".into()));
        let said = need(with).expect("a need");
        assert_eq!(said.verdict(), batch.expectation.verdict());
        let words = said.words.to_string();
        assert!(
            words.ends_with("; what XX --fast changes is not counted"),
            "{words}"
        );
        let mut known = planned;
        known.set_env("CUDA_LAUNCH_BLOCKING", Some("1".into()));
        assert!(need(known).is_err());
    });
}

#[test]
fn what_was_measured_of_a_remedys_command_is_said_in_the_editor_too() {
    let scene = out();
    with_inputs(&scene, Cause::Capacity, |command, inputs| {
        let mut offered = remedies(command, inputs);
        let batch = (offered.iter_mut()).find(|remedy| remedy.id == RemedyId::Batch);
        let batch = batch.expect("a smaller batch");
        batch.expectation.words = "needs 15.1 GiB, measured in session 1".into();
        let (planned, said) = (
            Plan::new(command, &[batch]).command,
            batch.expectation.clone(),
        );
        let need = EditedNeed::new(command, planned, inputs, &offered).need;
        assert_eq!(need.expect("a need"), said);
    });
}

#[test]
fn a_batch_that_is_no_number_is_said_to_be_none() {
    let scene = out();
    let said = |text: &str| typed(&scene, text).expect_err("no need");
    let of_words = "python train.py --batch-size x --lr 1";
    assert_eq!(said(of_words), "--batch-size x is no number");
    let glued = "python train.py --batch-size=6a --lr 1";
    assert_eq!(said(glued), "--batch-size 6a is no number");
    let other = said("python train.py --batch-size 8 --lr x");
    assert!(!other.contains("number"), "{other}");
    assert!(typed(&scene, "python train.py --batch-size 4 --lr 1").is_ok());
}

#[test]
fn of_any_other_edit_nothing_is_known() {
    let scene = out();
    let unknown = Err("no run has shown what this change needs".to_string());
    assert_eq!(
        typed(&scene, "python train.py --batch-size 8 --lr 2"),
        unknown
    );
    assert_eq!(
        typed(&scene, "python other.py --batch-size 8 --lr 1"),
        unknown
    );
    let without = typed(&scene, "python train.py --lr 1");
    assert!(without.is_err(), "{without:?}");
}

#[test]
fn a_run_that_nothing_was_seen_of_says_nothing() {
    let mut scene = StagedSession::default();
    scene.add(1.0, started(1, 100, TRAIN));
    let none = typed(&scene, TRAIN);
    assert_eq!(none, Err("no process of PyTorch was seen yet".into()));
    scene.add(2.0, hello(1, 100, None));
    let needs = typed(&scene, &TRAIN.replace('8', "4")).map(|need| need.verdict());
    assert_eq!(needs, Ok(FitVerdict::Unknown));
}

#[test]
fn a_batch_is_named_where_nothing_else_was_edited() {
    let scene = out();
    let batch = |text: &str, setting: Option<&str>| {
        with_inputs(&scene, Cause::Capacity, |command, inputs| {
            let mut edited = command.clone();
            edited.argv = CommandLine::typed(text).argv;
            if let Some(setting) = setting {
                edited.set_env("PYTORCH_CUDA_ALLOC_CONF", Some(setting.into()));
            }
            EditedNeed::new(command, edited, inputs, &remedies(command, inputs)).batch
        })
    };
    assert_eq!(batch(&TRAIN.replace('8', "12"), None), Some(12));
    assert_eq!(batch(TRAIN, None), None, "it ran so");
    let setting = Some("expandable_segments:True");
    assert_eq!(batch(&TRAIN.replace('8', "12"), setting), None);
    assert_eq!(batch("python other.py --batch-size 12", None), None);
}
