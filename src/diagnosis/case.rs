//! The numbers of one out-of-memory, gathered once for all rules: from the observer's record where
//! there is one, else from the text, else from what the state knew last.

use super::{Cause, Certainty, Evidence, Finding};
use crate::event::{Phase, Structure};
use crate::measured::{FIXED_LEAST_WASTE, NON_TORCH_AT_MOST, NON_TORCH_WITH_NCCL, USUAL_CACHE};
use crate::oom::{OomKind, OtherProcess};
use crate::state::{OomIncident, RankState, Run, State};
use crate::units::{Bytes, Pid, Rank, RunNumber};

/// By how much two figures of a text, each to a hundredth of a GiB, may miss each other.
const ROUNDING: Bytes = Bytes::mib(11);

/// One out-of-memory and the numbers around it. What is not known is `None`.
pub(super) struct Case<'a> {
    pub(super) oom: &'a OomIncident,
    pub(super) run: Option<&'a Run>,
    pub(super) rank: Option<&'a RankState>,
    pub(super) kind: OomKind,
    pub(super) requested: Option<Bytes>,
    pub(super) allocated: Option<Bytes>,
    pub(super) reserved: Option<Bytes>,
    pub(super) unallocated: Option<Bytes>,
    pub(super) capacity: Option<Bytes>,
    pub(super) limit: Option<Bytes>,
    pub(super) free: Option<Bytes>,
    pub(super) largest_free: Option<Bytes>,
    /// The training's memory outside PyTorch's allocator.
    pub(super) non_pytorch: Option<Bytes>,
    /// The other processes on the device; `None` where it is not known whether there are any.
    pub(super) others: Option<Vec<Other>>,
    /// The memory of the other processes together.
    pub(super) foreign: Option<Bytes>,
    /// Whether `allocated` and `reserved` are of the last sample before it.
    pub(super) by_last_sample: bool,
    pub(super) phase: Phase,
    /// The optimizer step in which it happened, from 1, where steps are known.
    pub(super) step: Option<u64>,
    pub(super) structure: Option<&'a Structure>,
    /// What is wrong with the device itself, where anything is.
    pub(super) fault: Option<String>,
}

/// Another process on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    pub(super) pid: Pid,
    pub(super) bytes: Option<Bytes>,
    pub(super) name: Option<String>,
    pub(super) user: Option<String>,
    pub(super) relation: Relation,
}

/// What another process is to the training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Stranger,
    /// A rank of the same run, on the same device.
    Rank(Option<Rank>),
    /// A process of an earlier run that did not end.
    Earlier(RunNumber),
}

impl<'a> Case<'a> {
    pub(super) fn of(state: &'a State, run: Option<&'a Run>, oom: &'a OomIncident) -> Case<'a> {
        let rank = run.and_then(|run| run.rank_of(oom));
        let report = oom.report.as_ref();
        let device = oom.device.as_ref().and_then(|uuid| state.device(uuid));
        let last_sample = rank
            .and_then(|rank| rank.usage_on(oom.device.as_ref()?))
            .map(|holding| &holding.sample);
        let by_last_sample = oom.allocated().is_none() && last_sample.is_some();
        let allocated = oom.allocated().or(last_sample.map(|s| s.allocated));
        let reserved = oom.reserved().or(last_sample.map(|s| s.reserved));
        let kind = report.map_or(OomKind::CudaOom, |report| report.kind);
        let mut case = Case {
            oom,
            run,
            rank,
            kind,
            requested: oom.requested(),
            allocated,
            reserved,
            unallocated: oom
                .cached()
                .or(last_sample.map(|s| s.reserved - s.allocated)),
            capacity: oom.capacity().or(device.and_then(|d| d.capacity)),
            limit: oom.limit(),
            free: oom.free(),
            largest_free: oom.record.as_ref().and_then(|record| record.largest_free),
            non_pytorch: oom.nvml_at_oom.as_ref().and_then(|s| s.non_pytorch),
            others: None,
            foreign: None,
            by_last_sample,
            phase: oom.record.as_ref().map_or(Phase::Unknown, |r| r.phase),
            step: None,
            fault: device.and_then(|device| super::device_fault::fault(state, device)),
            structure: oom
                .record
                .as_ref()
                .and_then(|record| record.structure.as_deref())
                .or_else(|| {
                    let ordinal = oom.record.as_ref()?.device;
                    rank?.structure_on(ordinal)
                }),
        };
        if kind == OomKind::MpsOom {
            // What MPS allows by itself is all that there is; nobody set a cap.
            case.capacity = case.capacity.or(case.limit.take());
        }
        case.step = case.step_of();
        case.name_others(state);
        case
    }

    /// The step it happened in, where any step is known or the phase is one of a step.
    fn step_of(&self) -> Option<u64> {
        let ended = match &self.oom.record {
            Some(record) => record.step,
            None => self.rank?.steps.count,
        };
        let in_a_step = match self.phase {
            Phase::Forward | Phase::Backward | Phase::Optimizer => true,
            Phase::Load | Phase::Evaluation | Phase::Unknown => ended > 0,
        };
        in_a_step.then_some(ended + 1)
    }

    fn name_others(&mut self, state: &State) {
        let nvml_at_oom = self.oom.nvml_at_oom.as_ref();
        let listed = self.others_of_text().or_else(|| {
            let others = nvml_at_oom?.others.as_ref()?;
            let others = others.iter().map(|process| OtherProcess {
                pid: process.pid,
                used: process.used,
            });
            Some(others.collect())
        });
        let Some(listed) = listed else {
            return;
        };
        let others: Vec<Other> = listed
            .into_iter()
            .map(|other| {
                let seen = nvml_at_oom
                    .and_then(|s| s.others.as_ref())
                    .and_then(|others| others.iter().find(|p| p.pid == other.pid));
                Other {
                    pid: other.pid,
                    bytes: other.used.or(seen.and_then(|process| process.used)),
                    name: seen.and_then(|process| process.name.clone()),
                    user: seen.and_then(|process| process.user.clone()),
                    relation: self.relation(state, other.pid),
                }
            })
            .collect();
        let listed: Option<Bytes> = others.iter().map(|other| other.bytes).sum();
        let Some(elsewhere) = self.elsewhere() else {
            self.foreign = listed;
            self.others = Some(others);
            return;
        };
        // The GPU's arithmetic at that moment is exact; NVML was read some moments before, when
        // less was reserved, and may have seen too much outside PyTorch.
        let ours = elsewhere - listed.unwrap_or(Bytes::ZERO);
        self.non_pytorch = match self.non_pytorch {
            Some(outside) => Some(outside.min(ours)),
            None => listed.map(|_| ours),
        };
        // A process whose bytes nobody says, or that is not listed at all, has what is left.
        let left = ours - self.non_pytorch.unwrap_or(NON_TORCH_AT_MOST);
        self.foreign = match listed {
            Some(listed) if left <= NON_TORCH_AT_MOST => Some(listed),
            Some(listed) => Some(listed + left),
            None => Some(left),
        };
        self.others = Some(others);
    }

    /// The other processes by the text, if it lists processes; and on the way what this process
    /// holds outside PyTorch.
    fn others_of_text(&mut self) -> Option<Vec<OtherProcess>> {
        let report = self.oom.report.as_ref()?;
        if let Some(used) = report.process_used {
            self.non_pytorch = self.reserved.map(|reserved| used - reserved);
            return Some(report.others.clone());
        }
        let (reserved, capacity) = (self.reserved?, self.capacity);
        // We are one of those listed; one that is large enough and not much larger than what we
        // reserved, or so large that both would not fit on the GPU. (In a container PyTorch compares
        // the host's process ids with its own and then calls itself another process.)
        let may_be_us = |other: &&OtherProcess| {
            other.used.is_some_and(|used| {
                let no_room_for_both = capacity.is_some_and(|capacity| used + reserved > capacity);
                used + ROUNDING >= reserved
                    && (used - reserved <= NON_TORCH_WITH_NCCL || no_room_for_both)
            })
        };
        let mut candidates = report.others.iter().filter(may_be_us);
        match (candidates.next(), candidates.next()) {
            (Some(us), None) => {
                self.non_pytorch = us.used.map(|used| used - reserved);
                let others = report.others.iter().filter(|other| *other != us);
                Some(others.cloned().collect())
            }
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    fn relation(&self, state: &State, pid: Pid) -> Relation {
        if let Some(rank) = self.run.and_then(|run| run.rank_with(pid)) {
            return Relation::Rank(rank.hello.rank);
        }
        let this = self.run.map(|run| run.number);
        state
            .runs
            .iter()
            .filter(|run| Some(run.number) != this)
            .rfind(|run| run.pid == pid || run.left.contains(&pid) || run.rank_with(pid).is_some())
            .map_or(Relation::Stranger, |run| Relation::Earlier(run.number))
    }

    /// What the device holds besides this process's PyTorch, exactly at that moment. `None` also
    /// where the figures contradict each other: under Windows more can be reserved than the GPU
    /// has, on an APU more can be free.
    pub(super) fn elsewhere(&self) -> Option<Bytes> {
        let (capacity, free, reserved) = (self.capacity?, self.free?, self.reserved?);
        (capacity >= free + reserved).then(|| capacity - free - reserved)
    }

    /// What was allocated and what was asked for, together.
    pub(super) fn needed(&self) -> Option<Bytes> {
        Some(self.allocated? + self.requested?)
    }

    /// What would be left if every free piece, in PyTorch's cache and on the GPU, could be used;
    /// negative where they would not do together.
    pub(super) fn spare(&self) -> Option<i128> {
        let pieces = self.free? + self.unallocated?;
        Some(i128::from(pieces.0) - i128::from(self.requested.unwrap_or_default().0))
    }

    /// Whether no allocator could have found room: the free pieces do not do together, or only
    /// without the waste that every allocator has.
    pub(super) fn is_full(&self) -> Option<bool> {
        let waste = self.allocated?.scale(FIXED_LEAST_WASTE);
        let free_alone_is_short = self.free? < self.requested.unwrap_or_default();
        let rounding_alone = self.cache_is_notable() == Some(false) && free_alone_is_short;
        Some(self.spare()? < i128::from(waste.0) || rounding_alone)
    }

    /// Whether more lies unallocated than the allocator's usual rounding.
    pub(super) fn cache_is_notable(&self) -> Option<bool> {
        Some(self.unallocated?.fraction_of(self.reserved?)? >= USUAL_CACHE)
    }

    /// What PyTorch could have on this device if no other process were on it.
    pub(super) fn own_room(&self) -> Option<Bytes> {
        Some(self.capacity? - self.non_pytorch.unwrap_or(Bytes::ZERO))
    }

    /// Activations and all that has no name: what is allocated and no optimizer holds.
    pub(super) fn unnamed(&self) -> Option<Bytes> {
        let named = self.structure?;
        Some(self.allocated? - named.parameters - named.gradients - named.optimizer_state)
    }

    /// Whether expandable segments were in force; `None` where it is not known.
    pub(super) fn expandable_segments(&self) -> Option<bool> {
        self.rank?.hello.expandable_segments
    }

    /// Where it happened, in words: "in the backward pass of step 2".
    pub(super) fn place(&self) -> Option<String> {
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

    /// What was asked for, in words.
    pub(super) fn asked(&self) -> Option<String> {
        let requested = self.requested?;
        Some(if self.kind.is_small_segment(requested) {
            format!("{requested} (a small allocation's segment)")
        } else {
            format!("{requested} requested")
        })
    }

    /// Whose figures they are, where that has to be said.
    pub(super) fn caveat(&self) -> Option<String> {
        self.by_last_sample
            .then(|| "PyTorch's figures are from the last sample before the OOM.".into())
    }

    /// A finding of this case; the rule fills in the rest.
    pub(super) fn finding(&self, cause: Cause, certainty: Certainty, headline: String) -> Finding {
        Finding {
            cause,
            certainty,
            headline,
            explanation: String::new(),
            evidence: Vec::new(),
            advice: Vec::new(),
            device: self.oom.device.clone(),
            rank: self.oom.rank,
            foreign: None,
        }
    }

    /// The numbers that every finding of this case rests on, as far as they are known.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        [
            ("requested", self.requested),
            ("allocated", self.allocated),
            ("reserved", self.reserved),
            ("cached", self.unallocated),
            ("capacity", self.capacity),
            ("free", self.free),
            ("non-PyTorch", self.non_pytorch),
        ]
        .into_iter()
        .filter_map(|(what, bytes)| Some(number(what, bytes?)))
        .collect()
    }
}

/// One number in the evidence.
pub(super) fn number(what: &str, bytes: Bytes) -> Evidence {
    Evidence {
        what: what.into(),
        bytes,
    }
}

/// Sentences that are there, put together.
pub(super) fn text(sentences: impl IntoIterator<Item = Option<String>>) -> String {
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    sentences.join(" ")
}
