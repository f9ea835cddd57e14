//! Remedies as the screen gets them.

use crate::frames::story::gib;
use oomph::command::Word;
use oomph::diagnosis::Phrase;
use oomph::remedy::{Alteration, Availability, Edit, Expectation, Remedy, RemedyId};

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

/// The same, and what is among the details alone.
pub fn with_samples() -> Vec<Remedy> {
    let mut all = remedies();
    all.insert(
        2,
        Remedy {
            id: RemedyId::SmallerSamples,
            key: 'z',
            title: "shorter sequences".into(),
            edits: vec![Edit::Insert {
                at: 4,
                words: vec![Word::from("--seq-len"), Word::from("512")],
            }],
            changes: "+--seq-len 512".into(),
            expectation: Expectation {
                needs: None,
                words: "unknown".into(),
                ..Expectation::default()
            },
            alters: Some(Alteration::Samples),
            cost: Phrase::from(
                "the model sees less context at once; longer texts are cut or split",
            )
            .and("; ", "the model was given 64×1024"),
            ..plain()
        },
    );
    all
}

/// Where no name says which number is the batch.
pub fn candidates() -> Vec<Remedy> {
    let one = |id: RemedyId, key: char, at: &str, name: &str| Remedy {
        id,
        key,
        title: format!("smaller {name}?"),
        edits: vec![Edit::Env {
            name: "OOMPH_EDITS".into(),
            value: Some(Word::from(at)),
        }],
        changes: format!("{at}  {name} = 64→32"),
        expectation: Expectation {
            needs: Some(gib(14.6)),
            fits: Some(true),
            words: "needs 14.6 GiB, fits with 9.0 to spare".into(),
            ..Expectation::default()
        },
        alters: Some(Alteration::EffectiveBatch),
        cost: Phrase::from("effective batch 64 → 32: gradients and number of steps change")
            .and(
                "; ",
                format!("not sure that it is the batch: 64, {at}; the model was given 64×1024"),
            )
            .and("; ", "checked once the model is called, then remembered"),
        ..plain()
    };
    vec![
        one(RemedyId::FirstCandidate, '1', "train.py:12", "rows"),
        one(RemedyId::SecondCandidate, '2', "data.py:40", "n"),
    ]
}

fn plain() -> Remedy {
    Remedy {
        id: RemedyId::Batch,
        key: 'b',
        title: String::new(),
        availability: Availability::Offered,
        edits: Vec::new(),
        files: Vec::new(),
        changes: String::new(),
        expectation: Expectation::default(),
        takes: None,
        set_by: None,
        alters: None,
        cost: Phrase::default(),
        parts: Vec::new(),
    }
}
