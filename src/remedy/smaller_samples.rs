//! Shorter sequences or smaller images: what everybody thinks of at last, because it changes what is trained. So it is among the
//! details, and nothing chooses it unasked. What it will need is not rehearsed: activations shrink faster than the number
//! itself, but how fast is the model's affair.

use super::plan::Alteration;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Phrase;
use crate::recognize::knob::sample::SampleKnob;
use crate::recognize::spellings::SampleSize;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    alters: Some(Alteration::Samples),
    ..RemedySpec::new(
        'z',
        "smaller samples",
        RemedyEffect::LessAllocated,
        NeedFrom::Itself,
        propose,
    )
};

/// Lengths and sides stay multiples of the powers of two in them, up to this one: models are built of patches and blocks.
const LARGEST_STEP: u64 = 32;

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let found = offering.recognized.sample_sizes()?;
    let (title, advice) = match found.what {
        SampleSize::Length => (
            "shorter sequences",
            "the model sees less context at once; longer texts are cut or split",
        ),
        SampleSize::Side => (
            "smaller images",
            "the model sees less detail; a checkpoint of another size may not load",
        ),
    };
    let mut draft = Draft::default();
    for each in &found.knobs {
        // Where one cannot be smaller, half a change would be another shape.
        let new = smaller(found.what, each)?;
        offering.check_reach(&each.knob).ok()?;
        draft
            .write(&each.knob, new, offering.inputs.launch.copies)
            .ok()?;
    }
    let cost = Phrase::from(advice).and("; ", format!("the model was given {}", found.given));
    Some(Proposal {
        title: Some(title.into()),
        ..Proposal::new(Ok(draft), cost)
    })
}

/// Half a length, three quarters of a side: about half of the memory.
fn smaller(what: SampleSize, of: &SampleKnob<'_>) -> Option<u64> {
    let old = of.knob.value;
    let most = match what {
        SampleSize::Length => old / 2,
        SampleSize::Side => old * 3 / 4,
    };
    let step = (1 << old.trailing_zeros().min(LARGEST_STEP.trailing_zeros())).min(most.max(1));
    match of.choices {
        [] => Some(most - most % step).filter(|new| *new > 0),
        choices => choices
            .iter()
            .copied()
            .filter(|one| *one <= most && *one > 0)
            .max(),
    }
}
