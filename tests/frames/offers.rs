//! Remedies as the screen gets them.

use crate::frames::story::gib;
use oomph::command::Word;
use oomph::diagnosis::Phrase;
use oomph::remedy::{Availability, Edit, Expectation, Remedy, RemedyId};

/// The remedies of the main job, for `python train.py --batch-size 64`.
pub fn remedies() -> Vec<Remedy> {
    vec![
        Remedy {
            id: RemedyId::Batch,
            key: 'b',
            title: "smaller batch".into(),
            availability: Availability::Offered,
            edits: vec![
                Edit::Splice {
                    at: 3,
                    from: 0,
                    to: 2,
                    with: Word::from("32"),
                },
                Edit::Insert {
                    at: 4,
                    words: vec![Word::from("--grad-accum"), Word::from("2")],
                },
            ],
            files: Vec::new(),
            changes: "--batch-size 64→32 +--grad-accum 2".into(),
            expectation: Expectation {
                needs: Some(gib(14.6)),
                at_least: None,
                fits: Some(true),
                words: "needs 14.6 GiB, fits with 9.0 to spare".into(),
                ..Expectation::default()
            },
            takes: None,
            set_by: None,
            alters: None,
            cost: "effective batch 64 (32 × 2)".into(),
            parts: Vec::new(),
        },
        Remedy {
            id: RemedyId::ExpandableSegments,
            key: 'e',
            title: "expandable segments".into(),
            availability: Availability::Offered,
            edits: vec![Edit::Env {
                name: "PYTORCH_CUDA_ALLOC_CONF".into(),
                value: Some(Word::from("expandable_segments:True")),
            }],
            files: Vec::new(),
            changes: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True".into(),
            expectation: Expectation {
                needs: Some(gib(24.2)),
                at_least: None,
                fits: Some(false),
                words: "needs 24.2 GiB, 0.6 more than there is".into(),
                ..Expectation::default()
            },
            takes: None,
            set_by: None,
            alters: None,
            cost: "costs nothing".into(),
            parts: Vec::new(),
        },
        Remedy {
            id: RemedyId::Amp,
            key: 'a',
            title: "AMP (bf16)".into(),
            availability: Availability::NotOffered("train.py has no such option".into()),
            edits: Vec::new(),
            files: Vec::new(),
            changes: String::new(),
            expectation: Expectation {
                needs: None,
                at_least: None,
                fits: None,
                words: "unknown".into(),
                ..Expectation::default()
            },
            takes: None,
            set_by: None,
            alters: None,
            cost: Phrase::default(),
            parts: Vec::new(),
        },
    ]
}
