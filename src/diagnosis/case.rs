//! The numbers of one OOM, gathered once for all rules: from the observer's record if there is one,
//! else from the message, else from the latest readings.

use super::neighbours::{Neighbours, Other};
use super::sum::Sum;
use super::{Cause, Certainty, Finding, Phrase};
use crate::calibration::{FIXED_LEAST_WASTE, USUAL_CACHE};
use crate::event::{OomRecord, Phase, Retainer, Structure};
use crate::forecast::{Rehearsed, WholeStep};
use crate::oom::OomKind;
use crate::state::{OomIncident, RankState, Run, State};
use crate::units::Bytes;

/// A need this many times the available memory is beyond a rehearsal's error.
const FAR: f64 = 1.05;

/// One OOM and the numbers around it; `None` is unknown.
pub(super) struct OomContext<'a> {
    pub(super) oom: &'a OomIncident,
    pub(super) rank: Option<&'a RankState>,
    pub(super) kind: OomKind,
    pub(super) requested: Option<Bytes>,
    pub(super) allocated: Option<Bytes>,
    pub(super) reserved: Option<Bytes>,
    pub(super) cached: Option<Bytes>,
    pub(super) capacity: Option<Bytes>,
    pub(super) limit: Option<Bytes>,
    pub(super) free: Option<Bytes>,
    pub(super) largest_free: Option<Bytes>,
    /// The training's memory outside of PyTorch's allocator.
    pub(super) non_pytorch: Option<Bytes>,
    /// The other processes on the device; `None` if unknown.
    pub(super) others: Option<Vec<Other>>,
    /// The memory of the other processes in total.
    pub(super) other_processes: Option<Bytes>,
    /// Memory used on the device apart from this process's PyTorch.
    pub(super) elsewhere: Option<Bytes>,
    /// Whether `allocated` and `reserved` are from the last sample before the OOM.
    pub(super) by_last_sample: bool,
    pub(super) phase: Phase,
    /// The optimizer step that failed, from 1.
    pub(super) step: Option<u64>,
    pub(super) structure: Option<&'a Structure>,
    /// The need of the whole step, if it was rehearsed.
    pub(super) whole_step: Option<WholeStep>,
    /// What is wrong with the device itself.
    pub(super) fault: Option<String>,
}

impl<'a> OomContext<'a> {
    pub(super) fn new(
        state: &'a State,
        run: Option<&'a Run>,
        oom: &'a OomIncident,
    ) -> OomContext<'a> {
        let rank = run.and_then(|run| run.rank_of(oom));
        let record = oom.record.as_ref();
        let device = oom.device.as_ref().and_then(|uuid| state.device(uuid));
        let sample = rank
            .and_then(|rank| rank.usage_on(oom.device.as_ref()?))
            .map(|usage| &usage.sample);
        let kind = (oom.report.as_ref()).map_or(OomKind::CudaOom, |report| report.kind);
        let phase = record.map_or(Phase::Unknown, |record| record.phase);
        let reserved = oom.reserved().or(sample.map(|s| s.reserved));
        let mut limit = oom.limit();
        let mut capacity = oom.capacity().or(device.and_then(|d| d.capacity));
        if kind == OomKind::MpsOom {
            // MPS's own limit is all the memory there is; nobody set a cap.
            capacity = capacity.or(limit.take());
        }
        let neighbours = Neighbours::of(state, run, oom, reserved, capacity);
        OomContext {
            oom,
            rank,
            kind,
            requested: oom.requested(),
            allocated: oom.allocated().or(sample.map(|s| s.allocated)),
            reserved,
            cached: oom.cached().or(sample.map(|s| s.reserved - s.allocated)),
            capacity,
            limit,
            free: oom.free(),
            largest_free: record.and_then(|record| record.largest_free),
            non_pytorch: neighbours.non_pytorch,
            others: neighbours.others,
            other_processes: neighbours.bytes,
            elsewhere: neighbours.elsewhere,
            by_last_sample: oom.allocated().is_none() && sample.is_some(),
            phase,
            step: step(record, rank, phase),
            whole_step: rank.and_then(|rank| whole_step(rank, phase)),
            fault: device.and_then(|device| device.fault(state)),
            structure: record
                .and_then(|record| record.structure.as_deref())
                .or_else(|| rank?.structure_on(record?.device)),
        }
    }

    /// The observer's record, if there was a probe.
    pub(super) fn record(&self) -> Option<&'a OomRecord> {
        self.oom.record.as_ref()
    }

    /// What in the program keeps most of the memory alive, if that was searched.
    pub(super) fn retainer(&self) -> Option<&'a Retainer> {
        let (_, found) = self.rank?.retainers.as_ref()?;
        found.main()
    }

    /// Allocated plus requested.
    pub(super) fn needed(&self) -> Option<Bytes> {
        Some(self.allocated? + self.requested?)
    }

    /// The need of the whole step, if it is far more than PyTorch could ever have here.
    pub(super) fn far_too_much(&self) -> Option<WholeStep> {
        let (whole, room) = (self.whole_step?, self.own_room()?);
        (whole.total() > room.scale(FAR)).then_some(whole)
    }

    /// What would be left if all free memory, in PyTorch's cache and on the GPU, could be used;
    /// negative if that isn't enough.
    pub(super) fn spare(&self) -> Option<i128> {
        let pieces = self.free? + self.cached?;
        Some(i128::from(pieces.0) - i128::from(self.requested.unwrap_or_default().0))
    }

    /// Whether no allocator could have found room: all free memory together is not enough, or only
    /// without the overhead that every allocator has.
    pub(super) fn is_full(&self) -> Option<bool> {
        let waste = self.allocated?.scale(FIXED_LEAST_WASTE);
        let free_alone_is_short = self.free? < self.requested.unwrap_or_default();
        let rounding_alone = self.cache_is_notable() == Some(false) && free_alone_is_short;
        Some(self.spare()? < i128::from(waste.0) || rounding_alone)
    }

    /// Whether more is cached than the allocator usually does.
    pub(super) fn cache_is_notable(&self) -> Option<bool> {
        Some(self.cached?.fraction_of(self.reserved?)? >= USUAL_CACHE)
    }

    /// What PyTorch could have on this device without other processes.
    pub(super) fn own_room(&self) -> Option<Bytes> {
        Some(self.capacity? - self.non_pytorch.unwrap_or(Bytes::ZERO))
    }

    /// Activations and everything else that isn't parameters, gradients or optimizer state.
    pub(super) fn unnamed(&self) -> Option<Bytes> {
        let named = self.structure?;
        Some(self.allocated? - named.total())
    }

    /// Whether expandable segments were on, as far as is known.
    pub(super) fn expandable_segments(&self) -> bool {
        let hello = self.rank.map(|rank| &rank.hello);
        hello.is_some_and(|hello| hello.expandable_segments == Some(true))
    }

    /// "Failed in the backward pass of step 2."
    pub(super) fn failed(&self) -> Option<String> {
        self.place().map(|place| format!("Failed {place}."))
    }

    /// "in the backward pass of step 2"
    fn place(&self) -> Option<String> {
        let phase = match self.phase {
            Phase::Load => "while the model was being built",
            Phase::Forward => "in the forward pass",
            Phase::Backward => "in the backward pass",
            Phase::Optimizer => "in the optimizer step",
            Phase::Evaluation => "during evaluation",
            Phase::Unknown => return self.step.map(|step| format!("in step {step}")),
        };
        Some(match (self.phase, self.step) {
            (Phase::Evaluation, Some(step)) => format!("{phase} after step {}", step - 1),
            (Phase::Load, _) | (_, None) => phase.to_string(),
            (Phase::Optimizer, Some(step)) => format!("in optimizer step {step}"),
            (_, Some(step)) => format!("{phase} of step {step}"),
        })
    }

    /// "312 MiB requested"
    pub(super) fn asked(&self) -> Option<String> {
        let requested = self.requested?;
        Some(if self.kind.is_small_segment(requested) {
            format!("{requested} (a small allocation's segment)")
        } else {
            format!("{requested} requested")
        })
    }

    /// What did not fit as a sum: allocated, requested, and what else took part in it. Printed with
    /// what there was.
    pub(super) fn sum(
        &self,
        more: Option<(Bytes, &'static str)>,
    ) -> Option<impl Fn(Bytes) -> String + use<>> {
        let requested = self.requested?;
        let asked = match self.kind.is_small_segment(requested) {
            true => "for a small allocation's segment",
            false => "requested",
        };
        let mut parts = vec![(self.allocated?, "allocated"), (requested, asked)];
        parts.extend(more);
        Some(move |room| Sum(&parts).against(room))
    }

    /// Says where PyTorch's figures come from if they are older than the OOM.
    pub(super) fn caveat(&self) -> Option<&'static str> {
        self.by_last_sample
            .then_some("PyTorch's figures are from the last sample before the OOM.")
    }

    /// A finding with the numbers of this case; the rule adds its own sentences.
    pub(super) fn finding(
        &self,
        cause: Cause,
        certainty: Certainty,
        headline: impl Into<Phrase>,
    ) -> Finding {
        let numbers = [
            ("requested", self.requested),
            ("allocated", self.allocated),
            ("reserved", self.reserved),
            ("cached", self.cached),
            ("capacity", self.capacity),
            ("free", self.free),
            ("non-PyTorch", self.non_pytorch),
        ];
        let finding = Finding {
            device: self.oom.device.clone(),
            rank: self.oom.rank,
            ..Finding::new(cause, certainty, headline)
        };
        finding.shows(numbers.into_iter().filter_map(|(what, n)| Some((what, n?))))
    }
}

/// The rehearsed step, if it is the one that failed.
fn whole_step(rank: &RankState, phase: Phase) -> Option<WholeStep> {
    let of_a_step = match phase {
        Phase::Forward | Phase::Backward | Phase::Optimizer => true,
        Phase::Load | Phase::Evaluation | Phase::Unknown => false,
    };
    let rehearsal = rank.rehearsal.as_ref().filter(|_| of_a_step)?;
    Rehearsed::of(rehearsal, rehearsal.batch)?.whole_step()
}

/// The step that failed, if any step is known or the phase is one of a step.
fn step(record: Option<&OomRecord>, rank: Option<&RankState>, phase: Phase) -> Option<u64> {
    let ended = match record {
        Some(record) => record.step,
        None => rank?.steps.count,
    };
    let in_a_step = match phase {
        Phase::Forward | Phase::Backward | Phase::Optimizer => true,
        Phase::Load | Phase::Evaluation | Phase::Unknown => ended > 0,
    };
    in_a_step.then_some(ended + 1)
}
