//! Evaluations that ran out of memory, by what kept their memory alive.

use super::trainings::{calls, failing, full_card};
use crate::event::*;
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid};

/// What the search at the OOM found to keep memory alive, of so much that it looked for.
fn keeping(scene: &mut StagedSession, kept: Retainer, looked_for: Bytes) {
    let found = Retainers {
        pid: Pid(100),
        step: 10,
        retainers: vec![kept],
        looked_for,
        ..Retainers::default()
    };
    scene.add(20.1, EventKind::Retainers(Box::new(found)));
}

/// A list keeps the losses of an evaluation with their graphs; the training before it left a cache in pieces.
pub(super) fn kept_in_pieces() -> StagedSession {
    let mut scene = failing(OomRecord {
        phase: Phase::Evaluation,
        grad_enabled: Some(true),
        step: 10,
        largest_free: Some(Bytes::mib(13)),
        ..record(100, gib(18.0), gib(22.9), Bytes::mib(20), Bytes::mib(3))
    });
    keeping(
        &mut scene,
        Retainer {
            name: "losses".into(),
            kind: RetainerKind::Local,
            of: "validate".into(),
            class: "list".into(),
            bytes: gib(15.2),
            graph: gib(15.2),
            ..Retainer::default()
        },
        Bytes::ZERO,
    );
    scene
}

/// A list of three in an evaluation, in pieces: of the loop around the model, or of a call of the model that still runs.
pub(super) fn three_in_a_list(of: &str) -> StagedSession {
    let mut scene = failing(OomRecord {
        phase: Phase::Evaluation,
        grad_enabled: Some(false),
        step: 10,
        largest_free: Some(Bytes::mib(1_900)),
        stack: calls(&[
            ("/srv/model.py", "forward"),
            (
                "/v/lib/python3.12/site-packages/torch/nn/modules/module.py",
                "_call_impl",
            ),
            ("/srv/train.py", "validate"),
        ]),
        ..record(100, gib(19.0), gib(22.6), gib(2.5), gib(0.3))
    });
    keeping(
        &mut scene,
        Retainer {
            name: "kept".into(),
            kind: RetainerKind::Local,
            of: of.into(),
            class: "list".into(),
            length: Some(3),
            bytes: gib(14.0),
            ..Retainer::default()
        },
        Bytes::ZERO,
    );
    scene
}

/// Trainer puts outputs together while gradients are enabled; `graph` of what is kept belongs to autograd's graphs.
pub(super) fn gathering_with_gradients(graph: Bytes) -> StagedSession {
    let mut scene = failing(OomRecord {
        phase: Phase::Evaluation,
        grad_enabled: Some(true),
        step: 10,
        stack: calls(&[
            (
                "/v/lib/python3.12/site-packages/transformers/trainer_pt_utils.py",
                "torch_pad_and_concatenate",
            ),
            (
                "/v/lib/python3.12/site-packages/transformers/trainer.py",
                "evaluation_loop",
            ),
            ("/srv/train.py", "main"),
        ]),
        ..full_card()
    });
    keeping(
        &mut scene,
        Retainer {
            name: "tensor1".into(),
            kind: RetainerKind::Local,
            of: "torch_pad_and_concatenate".into(),
            class: "Tensor".into(),
            bytes: gib(19.0),
            graph,
            ..Retainer::default()
        },
        gib(20.2),
    );
    scene
}
