//! What is predicted from a run that memory did not run out in: the same model, with what the run showed.

use super::{BesideTheFailed, RemedyPredictor, allocator_of};
use crate::calibration::NON_TORCH_USUAL;
use crate::command::CommandLine;
use crate::diagnosis::{LittleUse, Phrase, grows_by};
use crate::event::Phase;
use crate::forecast::{ActivationReduction, Estimate, Forecast, Model, Observation};
use crate::recognize::WorkloadKey;
use crate::remedy::inputs::RemedyInputs;
use crate::remedy::plan::{Expectation, Remedy};
use crate::state::{RankState, State};

impl<'a> RemedyPredictor<'a> {
    /// After a run that went well, by the process that reserved the most; `None` where none was seen.
    pub fn of_whole_run(
        command: &CommandLine,
        inputs: &'a RemedyInputs<'a>,
    ) -> Option<RemedyPredictor<'a>> {
        let state = inputs.forecast.state?;
        let rank = state
            .run()?
            .ranks
            .iter()
            .max_by_key(|rank| rank.reserved_peak)?;
        let command = command.without_secrets();
        let reading = WorkloadKey::new(&command, &inputs.launch);
        let earlier = Observation::of_earlier(inputs.forecast.earlier, &command, &reading);
        let on_its_card = || {
            let device = state.device(rank.device.as_ref()?)?;
            Some(device.capacity? - NON_TORCH_USUAL)
        };
        Some(RemedyPredictor {
            model: Model::of_sessions(observations(inputs, earlier, Some(rank), &reading)),
            failed: None,
            treatment: ActivationReduction::default(),
            optimizer_alone: None,
            reading,
            room: inputs.forecast.room.or_else(on_its_card),
            wanted: None,
            phase: Phase::Unknown,
            allocator: allocator_of(Some(rank)),
            beside: BesideTheFailed::default(),
            inputs,
        })
    }

    /// What that run would have needed with these remedies.
    pub fn of_whole(&self, chosen: &[&Remedy]) -> Expectation {
        let takes = chosen.iter().find_map(|remedy| remedy.takes);
        match takes.filter(|takes| takes.from != self.reading.at_once) {
            Some(takes) => self.counting(takes.from).of_whole(chosen),
            None => self.if_nothing_leaks(self.of_target(&self.target(chosen))),
        }
    }

    /// What grows from step to step outgrows any figure.
    fn if_nothing_leaks(&self, said: Expectation) -> Expectation {
        let run = self.inputs.forecast.state.and_then(State::run);
        match run.and_then(grows_by) {
            Some(by) => Expectation {
                fits: said.fits.filter(|fits| !fits),
                words: Phrase::from(format!("only delays the OOM: memory grows by {by} a step"))
                    .before("; ", &said.words),
                futile: Some(LittleUse::OnlyDelays),
                ..said
            },
            None => said,
        }
    }
}

impl RemedyPredictor<'_> {
    /// The allocated peak of the training's own steps, as whole ones have shown it.
    pub fn peak_of_training(&self) -> Option<Estimate> {
        match self.model.peak(&self.target(&[])) {
            Forecast::Within(peak) if self.model.whole_runs() > 0 => Some(peak),
            Forecast::Within(_)
            | Forecast::Extrapolated(..)
            | Forecast::AtLeast(..)
            | Forecast::Unknown => None,
        }
    }
}

/// Observations of earlier sessions, earlier runs and the current run, in this order.
pub(super) fn observations(
    inputs: &RemedyInputs<'_>,
    earlier: &[Observation],
    rank: Option<&RankState>,
    reading: &WorkloadKey,
) -> Vec<Observation> {
    let mut observations = earlier.to_vec();
    if let Some((_, earlier)) = inputs
        .forecast
        .state
        .and_then(|state| state.runs.split_last())
    {
        observations.extend(Observation::of_runs(earlier, reading, &inputs.launch));
    }
    let this = Observation::new(rank, inputs.forecast.oom, reading);
    let run = inputs.forecast.state.and_then(State::run);
    observations.extend(this.map(|seen| {
        let seen = seen.with_inputs(inputs.launch.told, rank);
        match run {
            Some(run) => seen.in_run(run.number),
            None => seen,
        }
    }));
    observations
}
