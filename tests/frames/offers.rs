//! Remedies as the screen gets them.

use crate::frames::story::{clauses, gib};
use oomph::command::Word;
use oomph::diagnosis::Phrase;
use oomph::forecast::{Estimate, Need};
use oomph::remedy::{Alteration, Availability, Edit, Expectation, RanBefore, Remedy, RemedyId};

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
                need: Some(Need::of(Estimate::exact(gib(14.6)))),
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
                need: Some(Need::of(Estimate::exact(gib(24.2)))),
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
                need: None,
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

/// The same where earlier sessions have shown what they take.
pub fn ran_before() -> Vec<Remedy> {
    let mut all = remedies();
    let before = |ran_out: bool, at: &str| RanBefore {
        session: "20260730-164512-python3".into(),
        at: at.into(),
        steps: 60,
        ran_out,
        peak: (!ran_out).then(|| gib(15.1)),
        reserved: (!ran_out).then(|| gib(15.3)),
        program_changed: false,
    };
    all[0].expectation = Expectation {
        need: Some(Need::of(Estimate::exact(gib(15.1)))),
        fits: Some(true),
        words: Phrase::from("ran with 15.1 GiB at 16:46, fits with 8.2 GiB to spare").and(
            "; ",
            "measured: the same command, 60 steps, session 20260730-164512-python3",
        ),
        ran_before: Some(before(false, "16:46")),
        ..Expectation::default()
    };
    all[1].expectation = Expectation {
        fits: Some(false),
        words: Phrase::from("won't fit: ran out of memory on 29 Jul 09:12")
            .and(", ", "the same command in session 20260729-091200-python3"),
        ran_before: Some(before(true, "29 Jul 09:12")),
        ..Expectation::default()
    };
    all
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
                need: None,
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

/// Where logits and activations are most of the step: a loss in chunks, activations in RAM, and an optimizer that is not there.
pub fn in_ram() -> Vec<Remedy> {
    let one = |id: RemedyId, key: char, title: &str, words: &str, cost: Phrase| Remedy {
        id,
        key,
        title: title.into(),
        edits: vec![Edit::Env {
            name: "OOMPH_PATCHES".into(),
            value: Some(Word::from("offload=cpu")),
        }],
        changes: "patched at runtime: what the forward of GPT saves waits in RAM".into(),
        expectation: Expectation {
            need: Some(Need::of(Estimate::new(gib(11.2), gib(11.4), gib(12.0)))),
            room: Some(gib(23.5)),
            words: clauses(words),
            ..Expectation::default()
        },
        cost,
        ..plain()
    };
    vec![
        Remedy {
            changes: "patched at runtime: cross-entropy in chunks of rows".into(),
            ..one(
                RemedyId::ChunkedLoss,
                'C',
                "chunked cross-entropy",
                "needs 11.6 GiB (11.2–12.0), likely fits with 11.9 GiB to spare; rehearsed",
                Phrase::from("equal to rounding").and("; ", "the log-softmax is computed twice"),
            )
        },
        Remedy {
            alters: Some(Alteration::Offloading),
            ..one(
                RemedyId::Offload,
                'A',
                "activations to RAM",
                "needs 11.4 GiB (11.2–12.0), likely fits with 12.1 GiB to spare; 14.2 GiB to RAM, 96.0 GiB is available; rehearsed",
                Phrase::from("same numerics").and(
                    "; ",
                    "slower: copying 26.0 GiB there and back takes some 0.6–2.5 s of a step (estimated)",
                ),
            )
        },
        Remedy {
            availability: Availability::NotOffered("bitsandbytes is not installed there".into()),
            edits: Vec::new(),
            changes: String::new(),
            alters: Some(Alteration::Optimizer),
            ..one(
                RemedyId::Optimizer,
                '8',
                "smaller optimizer state",
                "unknown",
                Phrase::default(),
            )
        },
    ]
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
            need: Some(Need::of(Estimate::exact(gib(14.6)))),
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
