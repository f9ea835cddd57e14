//! What a command needs with a change that somebody asks for: any batch, and remedies beside it. By the figures of the dialog.

use super::RemedyId;
use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::plan::{Availability, BatchChange, Expectation, Remedy};
use super::proposal::Offering;
use super::single::proposed;
use crate::command::CommandLine;

/// A change of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandChange {
    /// Samples that a device takes at once, as the command counts them; `None` as it is.
    pub batch: Option<u64>,
    pub remedies: Vec<RemedyId>,
}

/// What is expected of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedChange {
    pub expectation: Expectation,
    /// The batch as it ran, where that is known.
    pub batch: Option<u64>,
    /// What of it oomph could not apply by itself, and why.
    pub not_offered: Vec<(RemedyId, String)>,
}

/// What a change of the command that ran last would need.
///
/// # Errors
/// Why nothing can be said.
pub fn predicted(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    change: &CommandChange,
) -> Result<PredictedChange, String> {
    let recognized = inputs.recognize(command);
    let ran_out = inputs.forecast.oom.is_some();
    let predictor = match ran_out {
        true => RemedyPredictor::new(command, inputs),
        false => RemedyPredictor::of_whole_run(command, inputs)
            .ok_or("no process of PyTorch was seen in that session's last run")?,
    };
    let offering = Offering {
        command,
        recognized: &recognized,
        inputs,
        predictor: &predictor,
    };
    let mut not_offered = Vec::new();
    let mut chosen = Vec::new();
    for id in &change.remedies {
        let remedy = proposed(*id, &offering).unwrap_or_else(|| Remedy::new(*id));
        if let Availability::NotOffered(why) = &remedy.availability {
            not_offered.push((*id, why.to_string()));
        }
        chosen.push(remedy);
    }
    let offered = proposed(RemedyId::Batch, &offering);
    let takes = offered.as_ref().and_then(|remedy| remedy.takes);
    let at_once = predictor.reading().at_once;
    let is_known = takes.is_some() || predictor.reading().batch.is_some();
    if let Some(batch) = change.batch {
        if !is_known {
            return Err("what sets the batch of that command is not known, so another one cannot be predicted".into());
        }
        let from = takes.map_or(at_once, |takes| takes.from);
        chosen.push(Remedy {
            takes: Some(BatchChange {
                from,
                at_once: batch,
                accumulates: takes.is_some_and(|takes| takes.accumulates) && batch < from,
            }),
            ..Remedy::new(RemedyId::Batch)
        });
    }
    let chosen: Vec<&Remedy> = chosen.iter().collect();
    Ok(PredictedChange {
        expectation: match ran_out {
            true => predictor.together(&chosen),
            false => predictor.of_whole(&chosen),
        },
        batch: takes
            .map(|takes| takes.from)
            .or(is_known.then_some(at_once)),
        not_offered,
    })
}
