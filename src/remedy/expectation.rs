//! What a remedy, or several together, are expected to do, from what the runs so far showed. If
//! they did not show enough, the expectation is a bound or "unknown" and says why.
//!
//! The numbers come from the forecast's model; here they are compared with the memory that the
//! process could have had, and put into words.

mod failed_runs;
mod one_target;
mod other_ranks;
mod summed;
mod to_ram;
mod verdict;
mod whole_run;

use super::inputs::RemedyInputs;
use super::plan::{Expectation, Remedy};
use super::{NeedFrom, RemedyEffect, RemedyId};
use crate::command::CommandLine;
use crate::diagnosis::{LittleUse, Phrase};
use crate::event::{HeadShape, InChunks, OomRecord, Phase, RankChange};
use crate::forecast::{
    ActivationReduction, Allocator, Estimate, Forecast, Model, Need, Observation, RecordedStep,
    Target,
};
use crate::recognize::WorkloadKey;
use crate::units::{Bytes, RunNumber};
use failed_runs::{
    FailedBatch, allocator_of, failures, optimizer_alone, rank_of, rehearsed, room_at,
};
use other_ranks::BesideTheFailed;
pub(super) use to_ram::ToRam;
use verdict::{beyond, extrapolated, fits_within, futile, is_open, tight};
use whole_run::observations;

/// An evaluation that ran out of memory may have needed so many times what it had come to.
const EVALUATION_UNSEEN: f64 = 2.0;
/// A training step needs so many times what an evaluation has needed by then (nanoGPT: 2.5).
const TRAINING_KEEPS: f64 = 2.5;

/// Why less memory for activations does not help an optimizer step that has not been seen whole.
const NO_ACTIVATIONS: &str =
    "memory ran out in the optimizer step, when the activations are usually freed already";

/// Why nothing that saves in a step helps where there has been none.
const NO_STEP_YET: &str = "memory ran out while the model was put on the GPU, before any batch";

/// What predictions for one command are based on.
#[derive(Debug)]
pub(super) struct RemedyPredictor<'a> {
    inputs: &'a RemedyInputs<'a>,
    model: Model,
    /// The command that ran.
    reading: WorkloadKey,
    /// Memory that the process could have had: what it had reserved plus what was free.
    room: Option<Bytes>,
    /// Allocated plus requested when memory ran out.
    wanted: Option<Bytes>,
    /// The phase of the step that ran out of memory.
    phase: Phase,
    /// Fixed or expandable segments.
    allocator: Allocator,
    /// What is done to the activations beside a batch that is looked for.
    treatment: ActivationReduction,
    /// The smallest batch that a run like this one ran out of memory with.
    failed: Option<FailedBatch>,
    /// What the optimizer's step needs beside anything that a remedy changes, if its optimizer is known.
    optimizer_alone: Option<Bytes>,
    /// The ranks beside the one that ran out.
    beside: BesideTheFailed,
}

impl<'a> RemedyPredictor<'a> {
    /// What is known after an OOM under `command`.
    pub fn new(command: &CommandLine, inputs: &'a RemedyInputs<'a>) -> RemedyPredictor<'a> {
        let oom = inputs.forecast.oom;
        let rank = oom.and_then(|oom| rank_of(inputs, oom));
        let command = command.without_secrets();
        let reading = WorkloadKey::new(&command, &inputs.launch);
        let earlier = Observation::of_earlier(inputs.forecast.earlier, &command, &reading);
        let record = oom.and_then(|oom| oom.record.as_ref());
        let allocator = allocator_of(rank);
        let beside = oom.map(|oom| BesideTheFailed::new(inputs, oom, &reading));
        let beside = beside.unwrap_or_default();
        let room = inputs.forecast.room.or_else(|| {
            let own = oom.and_then(room_at)?;
            Some(beside.room.map_or(own, |other| own.min(other)))
        });
        let failures = failures(inputs, &reading, room);
        let rehearsed = rank.and_then(|rank| rehearsed(rank, &reading));
        let rehearsed = rehearsed.and_then(|step| {
            let of_failed = |failed: &(FailedBatch, Bytes)| {
                let target = Target {
                    batch: failed.0.batch,
                    keeps_gradients: reading.keeps_gradients(),
                    treatment: ActivationReduction::default(),
                    allocator: failed.0.allocator,
                };
                (target, failed.1)
            };
            step.that_failed(failures.iter().map(of_failed))
        });
        RemedyPredictor {
            model: Model::of_sessions(observations(inputs, earlier, rank, &reading))
                .with_rehearsal(rehearsed)
                .with_other_ranks(beside.ranks.clone()),
            failed: (failures.iter().map(|(failed, _)| *failed))
                .filter(|failed| failed.allocator == allocator)
                .min_by_key(|failed| failed.batch),
            treatment: ActivationReduction::default(),
            optimizer_alone: record.and_then(optimizer_alone),
            reading,
            room,
            wanted: oom.and_then(|oom| Some(oom.allocated()? + oom.requested()?)),
            phase: record.map_or(Phase::Unknown, |record| record.phase),
            allocator,
            beside,
            inputs,
        }
    }

    /// For a batch beside these remedies.
    pub fn beside(&self, chosen: &[&Remedy]) -> RemedyPredictor<'a> {
        let target = self.target(chosen);
        RemedyPredictor {
            treatment: target.treatment,
            allocator: target.allocator,
            model: self.model.clone(),
            reading: self.reading.clone(),
            beside: self.beside.clone(),
            optimizer_alone: match target.treatment.one_by_one {
                true => self.one_by_one_alone().or(self.optimizer_alone),
                false => self.optimizer_alone,
            },
            ..*self
        }
    }

    /// What the optimizer's step needs without the temporaries of `foreach`.
    fn one_by_one_alone(&self) -> Option<Bytes> {
        let record = self.inputs.forecast.oom?.record.as_ref()?;
        let step = RecordedStep::new(record)?.one_by_one()?;
        Some(step.alone())
    }

    /// Why a remedy that leaves the optimizer's step as it is cannot help, if that step alone is too much.
    pub fn cannot_help(&self, id: RemedyId) -> Option<Phrase> {
        let (alone, room) = (self.optimizer_alone?, self.room?);
        let leaves_the_step = match id.spec().effect {
            RemedyEffect::LessAllocated | RemedyEffect::LessFragmentation => true,
            RemedyEffect::RemovesCause | RemedyEffect::MoreFree | RemedyEffect::None => false,
        };
        // There the optimizer steps on the CPU.
        let leaves_the_step = leaves_the_step && id != RemedyId::ShardsToRam;
        (alone > room && leaves_the_step).then(|| {
            Phrase::from(format!(
                "the optimizer's step alone needs {alone} of {room}"
            ))
            .and(", ", "when activations are gone")
        })
    }

    /// By how much the optimizer's step alone is too large, whatever is done to what comes before it.
    pub fn too_large_by(&self) -> Option<Bytes> {
        let (alone, room) = (self.optimizer_alone?, self.room?);
        (alone > room).then(|| alone - room)
    }

    /// The command where ranks do something else, as its step was rehearsed.
    pub fn of_ranks(&self, change: RankChange) -> Expectation {
        let mut target = self.target(&[]);
        target.treatment.ranks = Some(change);
        self.of_target(&target)
    }

    /// Whether figures can say that a combination fits.
    pub fn can_tell(&self) -> bool {
        self.room.is_some() && self.only_delays().is_none() && !self.is_unseen_evaluation()
    }

    /// Whether memory ran out in an evaluation that was not rehearsed: what steps showed says nothing of it.
    fn is_unseen_evaluation(&self) -> bool {
        self.phase == Phase::Evaluation && !self.model.is_rehearsed(&self.target(&[]))
    }

    /// The run that showed that a target runs out of memory.
    fn ran_out_at(&self, target: &Target) -> Option<RunNumber> {
        let failed = self.failed?;
        let is_alike = target.treatment.is_none() && target.allocator == failed.allocator;
        (is_alike && target.batch >= failed.batch).then_some(failed.run)
    }

    /// Memory that the process could have had, if it is known.
    pub fn room(&self) -> Option<Bytes> {
        self.room
    }

    /// The command that ran.
    pub fn reading(&self) -> &WorkloadKey {
        &self.reading
    }

    /// The largest batch that fits with the configured margin, with gradients kept between
    /// micro-batches or not; `None` if unknown.
    pub fn largest(&self, keeps_gradients: bool) -> Option<u64> {
        let (like, most) = self.looked_for(keeps_gradients)?;
        self.model
            .largest(&like, self.room?, self.inputs.forecast.margin, most)
    }

    /// The largest batch whose likely need fits with some room, where the upper end of no batch does.
    pub fn likely_largest(&self, keeps_gradients: bool) -> Option<u64> {
        let (like, most) = self.looked_for(keeps_gradients)?;
        self.model.likely_largest(&like, self.room?, most)
    }

    /// The run with a batch that is looked for, and the largest that may be.
    fn looked_for(&self, keeps_gradients: bool) -> Option<(Target, u64)> {
        if self.only_delays().is_some() || self.is_unseen_evaluation() {
            return None;
        }
        let like = Target {
            batch: 1,
            keeps_gradients,
            treatment: self.treatment,
            allocator: self.allocator,
        };
        // A mere extrapolation is only trusted for at most half the batch.
        let most = match self.model.whole_runs() {
            0 if !self.model.is_rehearsed(&like) => self.reading.at_once / 2,
            _ => self.reading.at_once.saturating_sub(1),
        };
        let failed = self.failed.filter(|failed| {
            let target = Target {
                batch: failed.batch,
                ..like
            };
            self.ran_out_at(&target).is_some()
        });
        let most = failed.map_or(most, |failed| most.min(failed.batch - 1));
        Some((like, most))
    }

    /// Whether a larger batch has failed before its first step in an earlier run.
    pub fn guessed_before(&self) -> bool {
        self.model.failed_above(self.reading.at_once) > 0
    }

    /// Whether a batch is known not to fit though nothing more is known of its need. It counts as `from` counts the one
    /// that ran.
    pub fn rules_out(&self, from: u64, batch: u64) -> bool {
        if self.inputs.forecast.oom.is_none() || self.is_unseen_evaluation() {
            return false;
        }
        let target = Target {
            batch,
            keeps_gradients: true,
            ..self.target(&[])
        };
        let needs = match from == self.reading.at_once {
            true => self.model.needs(&target),
            false => self
                .model
                .counted(from, self.reading.at_once)
                .needs(&target),
        };
        let failed = self.ran_out_at(&Target {
            batch: self.in_own_count(from, batch),
            ..target
        });
        match (needs, self.room) {
            (_, _) if failed.is_some() => true,
            (Forecast::AtLeast(least, _), Some(room)) => least > room,
            (Forecast::Within(needs) | Forecast::Extrapolated(needs, _), Some(room)) => {
                needs.likely > room
            }
            (_, _) => false,
        }
    }

    /// A batch as the command counts it, where another number counts it otherwise.
    fn in_own_count(&self, from: u64, batch: u64) -> u64 {
        match from == self.reading.at_once {
            true => batch,
            false => batch.saturating_mul(self.reading.at_once) / from.max(1),
        }
    }

    /// What one remedy does on its own; `None` if the model does not apply.
    pub fn of_remedy(&self, remedy: &Remedy) -> Option<Expectation> {
        match remedy.id.spec().need {
            NeedFrom::Forecast(_) => Some(self.together(&[remedy])),
            NeedFrom::FailedAllocation => Some(self.of_failed_allocation(&[remedy])),
            NeedFrom::ForecastIfKnown(_) => {
                let target = self.target(&[remedy]);
                if target.treatment.chunked != InChunks::Nothing
                    && !self.model.is_rehearsed(&target)
                {
                    return None;
                }
                let expectation = self.together(&[remedy]);
                let says = expectation.need.is_some() || expectation.futile.is_some();
                says.then_some(expectation)
            }
            NeedFrom::Itself => None,
        }
    }

    /// Of a remedy against fragmentation: it does not fit where the failed allocation is too much in any case.
    pub fn of_failed_allocation(&self, chosen: &[&Remedy]) -> Expectation {
        let expectation = self.without_fragmentation(&self.target(chosen), true);
        Expectation {
            fits: expectation.fits.filter(|fits| !fits),
            ..Expectation::unknown("it makes fragmentation less likely")
        }
    }

    /// Whether this was rehearsed.
    pub fn has_rehearsed(&self, chunks: InChunks) -> bool {
        let mut target = self.target(&[]);
        target.treatment.chunked = chunks;
        self.model.is_rehearsed(&target)
    }

    /// The head that was rehearsed as computed with its loss, some rows at a time.
    pub fn fused_head(&self) -> Option<HeadShape> {
        self.model.fused_head()
    }

    /// The step with these settings of the allocator and this limit of the process, where its replay says that it likely fits
    /// with them and does not as it is.
    pub fn under(&self, alloc_conf: &str, cap: Option<Bytes>) -> Option<Expectation> {
        let (target, room) = (self.target(&[]), self.room?);
        let Forecast::Within(now) = self.model.needs(&target) else {
            return None;
        };
        // Less room may be more where blocks are given back early, and the search for the smallest ends before the last byte: in this
        // room it runs or does not.
        if now.likely <= room || !self.model.runs_under(&target, alloc_conf, cap, room)? {
            return None;
        }
        let then = self.model.needs_under(&target, alloc_conf, cap)?;
        let then = Estimate::new(then.low.min(room), then.likely.min(room), then.high);
        Some(match then.high <= room {
            true => fits_within(Need::of(then), room, self.model.basis(&target)),
            false => tight(Need::of(then), room, self.model.basis(&target)),
        })
    }

    /// The command as it ran, with `free` available; `None` if its need is unknown.
    pub fn on(&self, free: Bytes) -> Option<Expectation> {
        let target = self.target(&[]);
        let basis = self.model.basis(&target);
        match self.model.needs(&target) {
            Forecast::Within(needs) if needs.high <= free => {
                Some(fits_within(Need::of(needs), free, basis))
            }
            Forecast::Within(needs) => Some(tight(Need::of(needs), free, basis)),
            Forecast::Extrapolated(needs, how) => {
                Some(extrapolated(Need::of(needs), Some(free), how))
            }
            Forecast::AtLeast(..) | Forecast::Unknown => None,
        }
    }

    /// The run with these remedies applied.
    fn target(&self, chosen: &[&Remedy]) -> Target {
        let mut target = Target {
            batch: self.reading.at_once,
            keeps_gradients: self.reading.keeps_gradients(),
            treatment: self.treatment,
            allocator: self.allocator,
        };
        for remedy in chosen {
            if let Some(change) = remedy.id.spec().in_forecast() {
                change(remedy, &mut target);
            }
        }
        target
    }

    /// The same where the batch that ran counts as `from`: the command does not set it, or counts something else.
    pub fn counting(&self, from: u64) -> RemedyPredictor<'a> {
        RemedyPredictor {
            model: self.model.counted(from, self.reading.at_once),
            failed: self.failed.map(|failed| FailedBatch {
                batch: failed.batch.saturating_mul(from) / self.reading.at_once.max(1),
                ..failed
            }),
            reading: WorkloadKey {
                at_once: from,
                ..self.reading.clone()
            },
            beside: self.beside.clone(),
            ..*self
        }
    }

    /// Whether a single sample is not known to need too much, though most likely it does: a try costs seconds. It counts as
    /// `from` counts the batch that ran.
    pub fn may_try_one(&self, from: u64) -> bool {
        let target = Target {
            batch: 1,
            keeps_gradients: self.reading.keeps_gradients(),
            ..self.target(&[])
        };
        let counted = self.counting(from);
        let (Some(room), None) = (self.room, counted.ran_out_at(&target)) else {
            return false;
        };
        match counted.model.needs(&target) {
            Forecast::Within(needs) | Forecast::Extrapolated(needs, _) => is_open(needs, room),
            Forecast::AtLeast(..) | Forecast::Unknown => false,
        }
    }

    /// What the batch is multiplied by at the most, where memory ran out in an evaluation: it had not seen its peak, and
    /// before the first step the training, which keeps more than an evaluation, has to fit as well.
    pub fn in_evaluation(&self) -> Option<f64> {
        let (wanted, room) = (self.wanted?, self.room?);
        let record = self.inputs.forecast.oom?.record.as_ref()?;
        if !self.is_unseen_evaluation() {
            return None;
        }
        let optimizer = record.optimizer.as_ref();
        let weights = optimizer.map_or(Bytes::ZERO, |optimizer| optimizer.trained);
        let grows = (wanted - weights).0.max(1) as f64;
        let share = |left: Bytes, times: f64| left.0 as f64 / (grows * times);
        let evaluation = share(room - weights, EVALUATION_UNSEEN);
        let training = RecordedStep::new(record).filter(|_| record.step == 0);
        let training = training.map(|step| share(room - step.as_it_is.alone(), TRAINING_KEEPS));
        let most = training.map_or(evaluation, |training| evaluation.min(training));
        Some(most.max(f64::MIN_POSITIVE))
    }

    /// The share of its batch that an evaluation fits with, where it was rehearsed as it ran out of memory.
    pub fn in_rehearsed_evaluation(&self) -> Option<f64> {
        let samples = self.model.samples_of_evaluation()?;
        let counted = self.counting(samples);
        let sure = counted.largest(false);
        let largest = sure.or_else(|| counted.likely_largest(false))?;
        // Slightly more than the quotient, so that flooring the product gives the batch.
        Some((largest as f64 + 1e-3) / samples as f64)
    }

    /// What remedies do together.
    pub fn together(&self, chosen: &[&Remedy]) -> Expectation {
        if self.inputs.forecast.oom.is_none() {
            return Expectation::unknown("known only once memory has run out");
        }
        let has = |effect| {
            chosen
                .iter()
                .any(|remedy| remedy.id.spec().effect == effect)
        };
        let more_free = has(RemedyEffect::MoreFree);
        let target = self.target(chosen);
        // What others save beside one that takes away the cause is not known, but for an optimizer's step in a rehearsed
        // training: no more is needed than with it alone.
        let is_composed = target.treatment.one_by_one && self.model.is_rehearsed(&target);
        let alone = chosen
            .iter()
            .find(|remedy| remedy.id.spec().effect == RemedyEffect::RemovesCause);
        if let Some(alone) = alone.filter(|_| chosen.len() == 1 || !is_composed) {
            return alone.expectation.clone();
        }
        // If the command does not set the batch, the measured run counts as 1.
        let takes = chosen.iter().find_map(|remedy| remedy.takes);
        if let Some(takes) = takes.filter(|takes| takes.from != self.reading.at_once) {
            return self.counting(takes.from).together(chosen);
        }
        if has(RemedyEffect::LessFragmentation) && !has(RemedyEffect::LessAllocated) && !more_free {
            let mut expectation = self.without_fragmentation(&target, false);
            let is_ruled_out = expectation.fits == Some(false);
            // That a step would fit says nothing where the next ones need more.
            if let Some((verdict @ LittleUse::OnlyDelays, reason)) = self.only_delays()
                && !is_ruled_out
            {
                return futile(verdict, reason);
            }
            // Other reasons apply only to remedies that reduce allocations.
            if let Some((verdict, reason)) = self.only_delays() {
                let verdict_first = Phrase::from(format!("{}: {reason}", verdict.words()));
                expectation.words = verdict_first.before("; ", &expectation.words);
                expectation.futile = Some(verdict);
                expectation.fits = expectation.fits.filter(|fits| !fits);
            }
            return expectation;
        }
        if let Some((verdict, reason)) = self.only_delays() {
            return futile(verdict, reason);
        }
        if self.is_unseen_evaluation() {
            return Expectation::unknown(
                "memory ran out during evaluation, whose batch size may differ",
            );
        }
        if more_free {
            return match self.model.needs(&target) {
                Forecast::Within(needs) => Expectation {
                    basis: self.model.basis(&target),
                    ..beyond(Need::of(needs))
                },
                Forecast::Extrapolated(needs, how) => extrapolated(Need::of(needs), None, how),
                Forecast::AtLeast(..) | Forecast::Unknown => {
                    Expectation::unknown("it depends on how much memory is free there, or by then")
                }
            };
        }
        let mut expectation = self.of_target(&target);
        let is_open = expectation.need.is_none() && expectation.fits.is_none();
        if self.phase == Phase::Optimizer && is_open && !has(RemedyEffect::LessFragmentation) {
            return futile(LittleUse::UnlikelyToHelp, NO_ACTIVATIONS);
        }
        let record = self.inputs.forecast.oom.and_then(|oom| oom.record.as_ref());
        if is_open && record.is_some_and(OomRecord::places_a_model) {
            return futile(LittleUse::UnlikelyToHelp, NO_STEP_YET);
        }
        if target.treatment.mixed {
            expectation.words.push("; ", "at best halves activations");
        }
        if target.treatment.recomputed {
            let more = match self.model.computes_again(&target) {
                Some(share) => format!("computes {:.0} % more", share * 100.0),
                None => "how much is recomputed depends on the model".into(),
            };
            expectation.words.push("; ", more);
        }
        if target.treatment.offloaded {
            self.beside_ram(&target, &mut expectation);
        }
        let in_a_step = self.phase != Phase::Evaluation;
        let in_chunks = target.treatment.chunked != InChunks::Nothing;
        if in_a_step && (target.treatment.offloaded || in_chunks) {
            let mut without = target;
            without.treatment.offloaded = false;
            without.treatment.chunked = InChunks::Nothing;
            self.hold_to(&target, &without, &mut expectation);
        }
        expectation
    }

    /// The verdict on remedies that leave the cause in place, and the reason for those that only
    /// delay the OOM.
    fn only_delays(&self) -> Option<(LittleUse, &'static str)> {
        let against = self
            .inputs
            .findings
            .first()?
            .cause
            .spec()
            .ineffective_against?;
        Some((against.verdict, against.reason))
    }
}

#[cfg(test)]
mod tests;
