//! What a change of a recorded command would need, on its own GPU or on another, before it runs.

use crate::calibration::{NON_TORCH_USUAL, gpus};
use crate::live::recorded::EndedSession;
use crate::remedy::{self, CommandChange, RemedyId};
use crate::state::State;
use crate::units::Bytes;
use serde_json::{Value, json};

/// Beyond this nobody trains.
const LARGEST_BATCH: u64 = 10_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskedChange {
    /// Samples that a device takes at once; `None` as it ran.
    pub batch: Option<u64>,
    pub checkpointing: bool,
    pub mixed_precision: bool,
    pub offload: bool,
    pub expandable_segments: bool,
    /// The name of another GPU than it ran on.
    pub gpu: Option<String>,
    /// The memory of another GPU.
    pub room: Option<Bytes>,
}

/// As `oomph help json` has it.
///
/// # Errors
/// Why nothing can be predicted.
pub fn predicted(state: &State, asked: &AskedChange) -> Result<Value, String> {
    if asked
        .batch
        .is_some_and(|batch| !(1..=LARGEST_BATCH).contains(&batch))
    {
        return Err(format!("a batch is between 1 and {LARGEST_BATCH}"));
    }
    let card = match (&asked.gpu, asked.room) {
        (Some(_), Some(_)) => return Err("give gpu or room, not both".into()),
        (Some(name), None) => {
            let known = || {
                let names = gpus::names().join(", ");
                format!("no GPU of that name is known; give its memory as room, or one of {names}")
            };
            Some(gpus::memory_of(name).ok_or_else(known)?)
        }
        (None, room) => room,
    };
    let ended = EndedSession::new(state, None).ok_or("nothing was started in that session")?;
    let command = ended
        .command()
        .ok_or("nothing was started in that session")?;
    let mut inputs = ended.remedy_inputs();
    inputs.forecast.room = card.map(|card| card - NON_TORCH_USUAL);
    if !ended.ran_out() {
        inputs.forecast.oom = None;
    }
    let wanted = [
        (asked.checkpointing, RemedyId::Recompute),
        (asked.mixed_precision, RemedyId::Amp),
        (asked.offload, RemedyId::Offload),
        (asked.expandable_segments, RemedyId::ExpandableSegments),
    ];
    let remedies: Vec<RemedyId> = (wanted.into_iter())
        .filter_map(|(is_asked, id)| is_asked.then_some(id))
        .collect();
    let change = CommandChange {
        batch: asked.batch,
        remedies: remedies.clone(),
    };
    let said = remedy::predicted(command, &inputs, &change)?;
    let expected = &said.expectation;
    let not_offered = (said.not_offered.iter()).map(|(id, why)| json!({"id": id, "reason": why}));
    Ok(json!({
        "version": 1,
        "batch": {"ran": said.batch, "asked": asked.batch},
        "remedies": remedies,
        "gpu": asked.gpu,
        "expected": {
            "verdict": expected.verdict().words(),
            "fits": expected.fits,
            "needs": expected.needs(),
            "within": expected.within(),
            "at_least": expected.at_least,
            "room": expected.room,
            "reserved": expected.reserved,
            "peak": expected.peak,
            "basis": expected.basis,
        },
        "words": expected.words,
        "not_offered": not_offered.collect::<Vec<_>>(),
    }))
}
