//! Attention that makes its scores as a matrix, and attention that does not.

use super::trainings::{StagedTraining, call, failing, full_card};
use crate::diagnosis::*;
use crate::event::*;
use crate::oom::{OomReport, TracedCall};
use crate::state::tests::staged::*;
use crate::units::Bytes;

/// Of a layer whose line calls torch's attention on tensors of at most `operands`.
fn asking_in_attention(requested: Bytes, operands: Option<Bytes>) -> StagedSession {
    let frame = call("/srv/net.py", "forward");
    let mut scene = failing(OomRecord {
        stack: vec![frame.clone()],
        phase: Phase::Forward,
        operands,
        ..record(100, gib(22.2), gib(22.5), requested, gib(0.2))
    });
    let stack = vec![TracedCall {
        file: frame.file,
        line: frame.line,
        function: frame.function,
        code: "out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)".into(),
    }];
    let text = OomReport {
        stack,
        requested: Some(requested),
        ..OomReport::default()
    };
    scene.add(20.1, EventKind::OomText(text));
    scene
}

pub(super) fn scenes() -> Vec<StagedTraining> {
    use Cause::*;
    use Certainty::*;
    vec![
        (
            "every layer's scores",
            failing(OomRecord {
                step: 9,
                lines: vec![LineUsage {
                    line: call("/srv/train.py", "train"),
                    inside: Some(call(
                        "/v/site-packages/transformers/models/gpt2/modeling_gpt2.py",
                        "eager_attention_forward",
                    )),
                    bytes: gib(9.5),
                    blocks: 36,
                    kind: None,
                }],
                ..full_card()
            }),
            AttentionScores,
            Likely,
        ),
        (
            "a score matrix of torch's own attention",
            asking_in_attention(Bytes::mib(600), Some(Bytes::mib(40))),
            AttentionScores,
            Likely,
        ),
        (
            "an output of torch's own attention",
            asking_in_attention(Bytes::mib(600), Some(Bytes::mib(600))),
            Capacity,
            Certain,
        ),
        (
            "torch's own attention, an earlier probe",
            asking_in_attention(Bytes::mib(600), None),
            Capacity,
            Certain,
        ),
    ]
}
