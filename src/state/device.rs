//! A device: NVML's readings, the sums of the probes' samples, and the breakdown of its memory. What neither knows is left
//! unknown.

use crate::calibration::{LARGE_SEGMENT, NON_TORCH_USUAL, NON_TORCH_WITH_NCCL};
use crate::event::{DeviceProcess, DeviceReading, NvmlState, Structure};
use crate::state::indexed::push_bounded;
use crate::state::{
    DeviceUsage, Keyed, NvmlAtOom, OomIncident, RankState, Resolution, Run, RunOutcome, Series,
    State,
};
use crate::units::{Bytes, Moment, Pid, Uuid};

#[derive(Debug, Clone, Default)]
pub struct DeviceState {
    pub uuid: Uuid,
    pub name: String,
    /// The other node that it is on.
    pub node: Option<String>,
    /// NVML's index, or CUDA's ordinal if NVML does not list the device.
    pub index: u32,
    /// The memory for processes: NVML's total less the driver's, or CUDA's total without NVML.
    pub capacity: Option<Bytes>,
    /// A limit that the program set.
    pub limit: Option<Bytes>,
    /// Processes that have used it, of the current run or one before; others may be among them.
    pub(super) holders: Vec<Pid>,
    /// The processes of the latest reading, and when each was first seen.
    pub first_seen: Vec<(Pid, Moment)>,
    /// The training's memory outside PyTorch.
    pub(super) non_torch: NonTorch,
    /// NVML's latest reading.
    pub reading: Option<(Moment, DeviceReading)>,
    /// Device use by NVML.
    pub used: Series,
    /// Allocated by all the training's processes.
    pub allocated: Series,
    /// Reserved by all of them.
    pub reserved: Series,
}

impl Keyed for DeviceState {
    type Key = Uuid;

    fn key(&self) -> &Uuid {
        &self.uuid
    }
}

impl DeviceState {
    pub(super) fn new(uuid: Uuid, name: &str, index: u32) -> DeviceState {
        DeviceState {
            uuid,
            name: name.to_string(),
            index,
            ..DeviceState::default()
        }
    }

    /// A run's live processes with a sample of this device, and the latest one.
    pub(super) fn usages_in<'a>(
        &'a self,
        run: &'a Run,
    ) -> impl Iterator<Item = (&'a RankState, &'a DeviceUsage)> {
        let holders = self.holders.iter().filter_map(|pid| run.rank_with(*pid));
        let alive = holders.filter(|rank| rank.disconnected.is_none());
        alive.filter_map(|rank| Some((rank, rank.usage_on(&self.uuid)?)))
    }

    /// Keeps less of its series, for one of very many devices that is new.
    pub(super) fn keep_little(&mut self) {
        for series in [&mut self.used, &mut self.allocated, &mut self.reserved] {
            *series = Series::with(Resolution::Small);
        }
    }

    /// `GPU 0`, or on another node `gpu-2 GPU 0`.
    pub fn label(&self) -> String {
        match &self.node {
            None => format!("GPU {}", self.index),
            Some(node) => format!("{node} GPU {}", self.index),
        }
    }

    /// What is wrong with the device: it is lost, or NVML does not answer any more.
    pub fn fault(&self, state: &State) -> Option<String> {
        let (_, reading) = self.reading.as_ref()?;
        match (&reading.lost, &state.nvml) {
            (Some(lost), _) => Some(lost.clone()),
            (None, Some(NvmlState::Unavailable { reason })) if self.node.is_none() => {
                Some(reason.clone())
            }
            (None, _) => None,
        }
    }
}

/// The breakdown of a device's memory; unknown parts are `None`. All parts add up to the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Known from the optimizers.
    pub parameters: Option<Bytes>,
    pub gradients: Option<Bytes>,
    pub optimizer_state: Option<Bytes>,
    /// The rest of what is allocated: activations, buffers, batches. Everything, before an
    /// optimizer was seen.
    pub activations_and_other: Option<Bytes>,
    /// Reserved but unallocated.
    pub cached: Option<Bytes>,
    /// The training's memory outside PyTorch: context, libraries, NCCL.
    pub non_pytorch: Option<Bytes>,
    pub other_processes: Option<Bytes>,
    /// Both together, where it is not known whose it is.
    pub outside: Option<Bytes>,
    pub free: Option<Bytes>,
    /// Whether the parameters are shards of the model's (FSDP).
    pub is_sharded: bool,
    /// What is gathered of the others beside them; only of those.
    pub gathered: Option<Bytes>,
}

/// Device use without a process, up to which it counts as overhead of the listed processes.
const OVERHEAD: Bytes = Bytes::mib(256);

/// Free memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    /// What the training can still reserve.
    pub bytes: Bytes,
    /// Whether it may be less: without NVML, memory outside PyTorch's allocator is unknown.
    pub is_upper_bound: bool,
}

/// What a device's memory was used for at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiguresAtEnd {
    /// Whether they are of the moment when memory ran out.
    pub is_oom: bool,
    pub allocated: Bytes,
    pub reserved: Option<Bytes>,
    /// Of all processes.
    pub used: Option<Bytes>,
}

/// NVML's figures by owner.
struct MemoryOwners {
    /// The training's, with PyTorch's; `None` also if no process of it is known.
    ours: Option<Bytes>,
    others: Option<Bytes>,
}

impl Breakdown {
    /// PyTorch's parts. Activations are the rest of what is allocated. The parts are measured at
    /// different times and may add up to more than is allocated: the most certain come first then.
    pub(super) fn of_allocator(
        structures: &[&Structure],
        allocated: Bytes,
        reserved: Bytes,
        gathered: Option<Bytes>,
    ) -> Breakdown {
        let mut parts = Breakdown {
            cached: Some(reserved - allocated),
            ..Breakdown::default()
        };
        let mut rest = allocated;
        if !structures.is_empty() {
            let mut take = |bytes: Bytes| {
                let taken = bytes.min(rest);
                rest = rest - taken;
                Some(taken)
            };
            parts.parameters = take(structures.iter().map(|s| s.parameters).sum());
            parts.optimizer_state = take(structures.iter().map(|s| s.optimizer_state).sum());
            parts.gradients = take(structures.iter().map(|s| s.gradients).sum());
            parts.is_sharded = structures.iter().any(|s| s.whole.is_some());
            parts.gathered = gathered.filter(|_| parts.is_sharded).and_then(take);
        }
        parts.activations_and_other = Some(rest);
        parts
    }
}

impl Breakdown {
    /// With no more than so much of gradients: their size is read when all of them are there, at the end of a step. What is
    /// less of them is more of the rest.
    pub fn with_gradients(self, then: Bytes) -> Breakdown {
        match (self.gradients, self.activations_and_other) {
            (Some(gradients), Some(rest)) => Breakdown {
                gradients: Some(gradients.min(then)),
                activations_and_other: Some(rest + (gradients - gradients.min(then))),
                ..self
            },
            (_, _) => self,
        }
    }
}

impl DeviceState {
    /// The breakdown by the latest readings.
    pub fn breakdown(&self, state: &State) -> Breakdown {
        let of_pytorch = self.allocated.current().zip(self.reserved.current());
        self.breakdown_of(state, of_pytorch)
    }

    /// The breakdown at the peak of the last seconds.
    pub fn breakdown_at_peak(&self, state: &State) -> Breakdown {
        self.breakdown_of(state, self.recent_peak(state))
    }

    /// What was allocated and reserved at most in the last seconds.
    fn recent_peak(&self, state: &State) -> Option<(Bytes, Bytes)> {
        let latest = self.reserved.current()?;
        let reserved = self.recently_reserved(state, state.now).unwrap_or(latest);
        let allocated = self.current_peak(state, state.now)?;
        Some((allocated.min(reserved), reserved))
    }

    /// The breakdown with so much allocated and reserved.
    fn breakdown_of(&self, state: &State, of_pytorch: Option<(Bytes, Bytes)>) -> Breakdown {
        let mut parts = Breakdown::default();
        let ranks = self.ranks(state);
        let of_pytorch = of_pytorch.filter(|_| !ranks.is_empty());
        let reserved = of_pytorch.map(|(_, reserved)| reserved);
        if let Some((allocated, reserved)) = of_pytorch {
            let structures = self.structures(&ranks);
            let gathered = self.gathered(&ranks);
            parts = Breakdown::of_allocator(&structures, allocated, reserved, gathered);
        }
        let known = reserved.unwrap_or(Bytes::ZERO);
        // Without NVML, memory outside PyTorch's allocator is unknown, and so is free memory.
        if let Some((at, reading)) = self.fresh(state) {
            let owners = self.owners(state, &ranks, reading);
            let used_otherwise = match (owners.ours, owners.others) {
                (Some(ours), Some(others)) => {
                    // NVML and the probes measure at different times, and reserved memory may grow
                    // quickly: the parts are limited to the capacity. Before the first sample its
                    // value is used.
                    let before = self.reserved.value_at(at).unwrap_or(known);
                    let rest = self.capacity.map(|capacity| capacity - known);
                    let within = |bytes: Bytes, room: Option<Bytes>| {
                        room.map_or(bytes, |room| bytes.min(room))
                    };
                    let outside = within(self.non_torch.estimate().unwrap_or(ours - before), rest);
                    let others = within(others, rest.map(|rest| rest - outside));
                    parts.non_pytorch = Some(outside);
                    parts.other_processes = Some(others);
                    Some(outside + others)
                }
                (ours, others) => {
                    parts.non_pytorch = ours.map(|ours| ours - self.reserved_at(at));
                    parts.other_processes = others;
                    reading.used.map(|used| used - self.reserved_at(at))
                }
            };
            parts.free = self
                .capacity
                .zip(used_otherwise)
                .map(|(capacity, otherwise)| capacity - known - otherwise);
        }
        parts
    }

    /// The breakdown at an OOM, exact, from the probe's record. `None` without a record, or for
    /// another device. `traced` are the gradients that a traced step has in that phase.
    pub fn breakdown_at(&self, oom: &OomIncident, traced: Option<Bytes>) -> Option<Breakdown> {
        let record = oom.record.as_ref()?;
        if oom.device.as_ref() != Some(&self.uuid) {
            return None;
        }
        // Before its first step an optimizer is found by what it holds.
        let of_optimizer = || {
            let optimizer = record.optimizer.as_deref()?;
            Some(Structure {
                pid: record.pid,
                device: record.device,
                parameters: optimizer.parameters(),
                gradients: optimizer.gradients(),
                optimizer_state: optimizer.states(),
                whole: None,
            })
        };
        let structure = record.structure.as_deref().copied().or_else(of_optimizer);
        let gradients = structure.and_then(|whole| record.gradients_then(whole.gradients, traced));
        let structure = structure.map(|whole| Structure {
            gradients: gradients.unwrap_or(Bytes::ZERO),
            ..whole
        });
        let structures: Vec<&Structure> = structure.iter().collect();
        let (allocated, reserved) = (record.sample.allocated, record.sample.reserved);
        let gathered = record.sample.gathered;
        let mut parts = Breakdown::of_allocator(&structures, allocated, reserved, gathered);
        parts.gradients = parts.gradients.filter(|_| gradients.is_some());
        parts.free = Some(record.free);
        let capacity = oom.capacity().or(self.capacity);
        let nvml_at_oom = oom.nvml_at_oom.as_ref();
        // The rest is this process's memory outside PyTorch.
        let others = nvml_at_oom.and_then(|nvml_at_oom| nvml_at_oom.others.as_ref());
        let others = others.and_then(|others| others.iter().map(|other| other.used).sum());
        if let (Some(capacity), Some(others)) = (capacity, others) {
            let elsewhere: Bytes = capacity - reserved - record.free;
            let others = Bytes::min(others, elsewhere);
            parts.other_processes = Some(others);
            parts.non_pytorch = Some(elsewhere - others);
        } else {
            parts.outside = capacity.map(|capacity| capacity - reserved - record.free);
        }
        Some(parts)
    }

    /// The breakdown in the last seconds of a run that has ended, at its peak in them. `None` where none of its processes was
    /// seen to allocate here, or some still does.
    pub fn breakdown_before_end(&self, state: &State, run: &Run) -> Option<Breakdown> {
        run.ended?;
        if self.reserved.current().is_some() {
            return None;
        }
        let was_here = |rank: &&RankState| rank.usage_on(&self.uuid).is_some();
        let ranks: Vec<&RankState> = run.ranks.iter().filter(was_here).collect();
        let (last, _) = self.reserved.last().filter(|_| !ranks.is_empty())?;
        let allocated = self.current_peak(state, last)?;
        let reserved = self.recently_reserved(state, last)?.max(allocated);
        let gathered = self.gathered(&ranks);
        let structures = self.structures(&ranks);
        let mut parts = Breakdown::of_allocator(&structures, allocated, reserved, gathered);
        if let Some((capacity, used)) = self.capacity.zip(self.used.value_at(last)) {
            // NVML's reading may be older than the last growth.
            let elsewhere = (used - reserved).min(capacity - reserved);
            match self.non_torch.estimate() {
                Some(own) => {
                    parts.non_pytorch = Some(own.min(elsewhere));
                    parts.other_processes = Some(elsewhere - own);
                }
                None => parts.outside = Some(elsewhere),
            }
            parts.free = Some(capacity - reserved - elsewhere);
        }
        Some(parts)
    }

    /// The figures of a run that has ended: those when memory ran out on this device, or else at the peak of its last seconds.
    pub fn at_end(&self, state: &State, run: &Run) -> Option<FiguresAtEnd> {
        run.ended?;
        let oom = run.oom();
        let oom = oom.filter(|_| run.outcome() == RunOutcome::OutOfMemory);
        let at_oom = oom.and_then(|oom| self.breakdown_at(oom, None));
        let is_oom = at_oom.is_some();
        let parts = at_oom.or_else(|| self.breakdown_before_end(state, run))?;
        let named = [
            parts.parameters,
            parts.gradients,
            parts.optimizer_state,
            parts.gathered,
            parts.activations_and_other,
        ];
        let allocated = named.into_iter().flatten().sum();
        Some(FiguresAtEnd {
            is_oom,
            allocated,
            reserved: parts.cached.map(|cached| allocated + cached),
            used: self
                .capacity
                .zip(parts.free)
                .map(|(capacity, free)| capacity - free),
        })
    }

    /// How much more the training can reserve: up to the capacity, or to the limit that the program
    /// set.
    pub fn headroom(&self, state: &State) -> Option<Headroom> {
        let reserved = self.reserved.current().unwrap_or(Bytes::ZERO);
        self.headroom_above(reserved, &self.breakdown(state))
    }

    /// The same at the peak of the last seconds.
    pub fn headroom_at_peak(&self, state: &State) -> Option<Headroom> {
        let reserved = self.recent_peak(state).map(|(_, reserved)| reserved);
        self.headroom_above(
            reserved.unwrap_or(Bytes::ZERO),
            &self.breakdown_at_peak(state),
        )
    }

    fn headroom_above(&self, reserved: Bytes, of: &Breakdown) -> Option<Headroom> {
        let under_limit = self.limit.map(|limit| limit - reserved);
        let (free, is_upper_bound) = match of.free {
            Some(free) => (free, false),
            None => (self.capacity? - reserved, true),
        };
        Some(Headroom {
            bytes: under_limit.map_or(free, |limit| limit.min(free)),
            is_upper_bound,
        })
    }

    /// What nobody used at any time of a run that has ended: of the capacity, and where the program set a limit, of that, which
    /// is one of what PyTorch reserves in a process. Without NVML what it reserved is known, and beside it what a process
    /// usually holds is taken off.
    pub fn unused_in(&self, run: &Run) -> Option<Bytes> {
        let (ended, _) = run.ended?;
        let used = self.used.max_between(run.started, ended);
        if let Some(most) = used {
            // NVML is read now and then, and may have missed the peak.
            let ranks = run.ranks.iter();
            let here = ranks.filter(|rank| rank.device.as_ref() == Some(&self.uuid));
            let here: Vec<Bytes> = here.map(|rank| rank.reserved_peak).collect();
            let unused = self.capacity.map(|capacity| {
                let reserved: Bytes = here.iter().copied().sum();
                capacity - most.max(reserved)
            });
            let most_of_one = here.into_iter().max().unwrap_or(Bytes::ZERO);
            let below_limit = self.limit.map(|limit| limit - most_of_one);
            return unused.into_iter().chain(below_limit).min();
        }
        let reserved = self.reserved.max_between(run.started, ended)?;
        let room = self.capacity? - NON_TORCH_USUAL;
        Some(self.limit.map_or(room, |limit| limit.min(room)) - reserved)
    }

    /// The latest reading, while NVML answers and the device is not lost.
    pub fn fresh(&self, state: &State) -> Option<(Moment, &DeviceReading)> {
        let answers = match &state.nvml {
            None | Some(NvmlState::Live { .. }) => true,
            Some(NvmlState::Unavailable { .. } | NvmlState::Stale | NvmlState::Off) => false,
        };
        let (at, reading) = self.reading.as_ref()?;
        // On another node torch reads it.
        let answers = answers || self.node.is_some();
        (answers && reading.lost.is_none()).then_some((*at, reading))
    }

    /// The processes on the device that are not the current run's; `None` if that is not certain.
    pub fn other_processes<'a>(&'a self, state: &'a State) -> Option<Vec<&'a DeviceProcess>> {
        let (_, reading) = self.fresh(state)?;
        self.others_on(state, &self.ranks(state), reading)
    }

    /// The training's memory by the latest reading, and the time of the reading.
    pub(super) fn ours_now(&self, state: &State) -> Option<(Moment, Bytes)> {
        let (at, reading) = self.fresh(state)?;
        // Of a device elsewhere nobody lists the processes: there are as many such devices as ranks.
        reading.processes.as_ref()?;
        let owners = self.owners(state, &self.ranks(state), reading);
        Some((at, owners.ours?))
    }

    /// What NVML says about the device and the other processes on it at an OOM.
    pub(super) fn nvml_at_oom(&self, state: &State, pid: Option<Pid>) -> Option<NvmlAtOom> {
        let (at, reading) = self.fresh(state)?;
        let ranks = self.ranks(state);
        let alone = ranks.len() < 2;
        let listed = |pid: Pid| {
            let processes = reading.processes.as_ref()?;
            processes.iter().find(|process| process.pid == pid)
        };
        let others = self
            .others_on(state, &ranks, reading)
            .map(|others| others.into_iter().cloned().collect::<Vec<_>>());
        // Other ranks on the device count as others.
        let others = others.and_then(|mut others| {
            let siblings = ranks.iter().map(|rank| rank.hello.pid);
            if !alone {
                let pid = pid?;
                for sibling in siblings.filter(|sibling| *sibling != pid) {
                    others.push(listed(sibling)?.clone());
                }
            }
            Some(others)
        });
        Some(NvmlAtOom {
            at,
            non_pytorch: self.non_torch.estimate().filter(|_| alone),
            others,
        })
    }

    /// The current run's live processes with a sample of this device.
    fn ranks<'a>(&'a self, state: &'a State) -> Vec<&'a RankState> {
        let run = state.run().into_iter();
        run.flat_map(|run| self.usages_in(run))
            .map(|(rank, _)| rank)
            .collect()
    }

    /// What these processes have gathered on this device.
    fn gathered(&self, ranks: &[&RankState]) -> Option<Bytes> {
        let usages = ranks.iter().filter_map(|rank| rank.usage_on(&self.uuid));
        let gathered = usages.filter_map(|usage| usage.sample.gathered);
        gathered.reduce(|a, b| a + b)
    }

    /// The structures of these processes on this device.
    fn structures<'a>(&self, ranks: &[&'a RankState]) -> Vec<&'a Structure> {
        ranks
            .iter()
            .filter_map(|rank| {
                let holding = rank.usage_on(&self.uuid)?;
                rank.structure_on(holding.sample.device)
            })
            .collect()
    }

    fn owners(&self, state: &State, ranks: &[&RankState], reading: &DeviceReading) -> MemoryOwners {
        let unknown = MemoryOwners {
            ours: None,
            others: None,
        };
        let (Some(used), Some(processes)) = (reading.used, &reading.processes) else {
            return unknown;
        };
        let Some(others) = self.others_on(state, ranks, reading) else {
            return unknown;
        };
        // If NVML does not know the memory of a process, neither sum is known.
        let bytes_of = |of_others: bool| -> Option<Bytes> {
            processes
                .iter()
                .filter(|process| others.iter().any(|f| f.pid == process.pid) == of_others)
                .map(|process| process.used)
                .sum::<Option<Bytes>>()
        };
        let (Some(ours), Some(theirs)) = (bytes_of(false), bytes_of(true)) else {
            return unknown;
        };
        let unlisted = used - ours - theirs;
        if unlisted <= OVERHEAD && !ranks.is_empty() {
            MemoryOwners {
                ours: Some(ours + unlisted),
                others: Some(theirs),
            }
        } else {
            // NVML lists all of our processes, so the rest belongs to others.
            MemoryOwners {
                ours: (!ranks.is_empty()).then_some(ours),
                others: Some(theirs + unlisted),
            }
        }
    }

    /// The listed processes that are not ours; `None` if that cannot be told.
    fn others_on<'a>(
        &self,
        state: &State,
        ranks: &[&RankState],
        reading: &'a DeviceReading,
    ) -> Option<Vec<&'a DeviceProcess>> {
        let processes = reading.processes.as_ref()?;
        let run = state.run();
        let others: Vec<&DeviceProcess> = processes
            .iter()
            .filter(|process| !run.is_some_and(|run| run.owns(process.pid)))
            .collect();
        if others.is_empty() && ranks.is_empty() {
            return Some(others);
        }
        if ranks.is_empty() {
            // Without a probe only processes from before the run are certainly others'; after the
            // run all are.
            let before_or_after = |process: &&&DeviceProcess| match run {
                Some(run) if run.ended.is_none() => self
                    .first_seen
                    .iter()
                    .any(|(pid, seen)| *pid == process.pid && *seen < run.started),
                Some(_) | None => true,
            };
            let certain = others.iter().filter(before_or_after).count();
            return (certain == others.len()).then_some(others);
        }
        let listed = |rank: &&RankState| processes.iter().any(|p| p.pid == rank.hello.pid);
        if ranks.iter().all(listed) {
            return Some(others);
        }
        // In a container NVML may report the host's ids. If it lists as many processes as we have
        // on the device, and their sizes are plausible, they are ours.
        let reserved: Bytes = ranks
            .iter()
            .filter_map(|rank| rank.usage_on(&self.uuid))
            .map(|holding| holding.sample.reserved)
            .sum();
        let listed: Option<Bytes> = processes.iter().map(|process| process.used).sum();
        let plausible = listed
            .is_some_and(|listed| listed >= reserved && listed - reserved <= NON_TORCH_WITH_NCCL);
        (processes.len() == ranks.len() && plausible).then(Vec::new)
    }

    fn reserved_at(&self, at: Moment) -> Bytes {
        self.reserved.value_at(at).unwrap_or(Bytes::ZERO)
    }
}

// The training's memory outside PyTorch's allocator on a device: context, libraries, NCCL.
//
// It is NVML's figure minus reserved memory. Both are measured at different times, and a training
// that starts may reserve most of a GPU between them. So a reading counts as exact only if
// reserved memory was the same before and after it; otherwise the last exact figures are kept,
// since the value hardly changes.

/// Exact readings kept; their median is the estimate. They are of less than a second, so that a
/// library loaded later is soon counted, but a single wrong reading is not.
const EXACT: usize = 7;

/// Bounds kept, for use while there is no exact reading.
const BOUNDS: usize = 16;

/// Samples around an exact reading may differ by one segment, which is far less than a context.
const STILL: Bytes = LARGE_SEGMENT;

#[derive(Debug, Clone, Default)]
pub(super) struct NonTorch {
    /// Oldest first.
    exact: Vec<Bytes>,
    /// Upper bounds, oldest first.
    bounds: Vec<Bytes>,
    /// The latest reading, until every process was sampled after it.
    open: Option<PendingReading>,
}

/// A reading of NVML between two samples.
#[derive(Debug, Clone, Copy)]
struct PendingReading {
    at: Moment,
    /// The training's memory, with PyTorch's.
    ours: Bytes,
    /// Reserved by the samples before it.
    before: Bytes,
}

impl NonTorch {
    /// Takes a reading of the training's memory, and what was reserved before it.
    pub fn read(&mut self, at: Moment, ours: Bytes, before: Bytes) {
        self.open = Some(PendingReading { at, ours, before });
        push_bounded(&mut self.bounds, ours - before, BOUNDS);
    }

    /// Takes the reserved memory; `heard` is the oldest of the processes' latest samples.
    pub fn sampled(&mut self, heard: Moment, reserved: Bytes) {
        let Some(reading) = self.open.filter(|reading| heard >= reading.at) else {
            return;
        };
        self.open = None;
        let (least, most) = (reading.before.min(reserved), reading.before.max(reserved));
        if most - least <= STILL && reading.ours >= most {
            push_bounded(&mut self.exact, reading.ours - most, EXACT);
        } else if let Some(bound) = self.bounds.last_mut() {
            // The cache may have been released before NVML was read.
            *bound = (*bound).max(reading.ours - least);
        }
    }

    /// The best estimate; `None` before any reading.
    fn estimate(&self) -> Option<Bytes> {
        let mut exact = self.exact.clone();
        exact.sort_unstable();
        let median = exact.get(exact.len() / 2).copied();
        median.or_else(|| self.bounds.iter().min().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds readings (`Err`: what the training holds) and samples (`Ok`: what is reserved) in
    /// order, in MiB, and says what is known in the end.
    fn after(events: &[Result<u64, u64>]) -> Option<u64> {
        let mut outside = NonTorch::default();
        let mut reserved = Bytes::ZERO;
        for (at, event) in (0u64..).zip(events) {
            let at = Moment(at * 50_000);
            match event {
                Ok(mib) => {
                    reserved = Bytes::mib(*mib);
                    outside.sampled(at, reserved);
                }
                Err(mib) => outside.read(at, Bytes::mib(*mib), reserved),
            }
        }
        outside.estimate().map(|bytes| bytes.0 >> 20)
    }

    #[test]
    fn a_reading_between_two_equal_samples_is_exact() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[Ok(5_000)]), None);
        assert_eq!(after(&[Ok(5_000), Err(5_518), Ok(5_000)]), Some(518));
        assert_eq!(after(&[Ok(5_000), Err(5_538), Ok(5_020)]), Some(518));
    }

    #[test]
    fn a_jump_before_or_after_a_reading_moves_nothing() {
        let still = [Ok(5_000), Err(5_518), Ok(5_000)];
        // Reserved has jumped when NVML is read, and the sample comes later; then the reverse.
        let late = [Err(90_518), Ok(90_000)];
        let early = [Ok(120_000), Err(90_518), Ok(120_000)];
        assert_eq!(after(&[still.to_vec(), late.to_vec()].concat()), Some(518));
        assert_eq!(
            after(&[still.to_vec(), late[..1].to_vec()].concat()),
            Some(518)
        );
        assert_eq!(after(&[still.to_vec(), early.to_vec()].concat()), Some(518));
    }

    #[test]
    fn while_nothing_is_still_the_least_bound_holds() {
        let growing = [
            Ok(1_000),
            Err(9_518),
            Ok(12_000),
            Err(13_518),
            Ok(30_000),
            Err(60_518),
        ];
        assert_eq!(after(&growing), Some(1_518));
        // What was given back before NVML was read makes no bound of nothing.
        assert_eq!(after(&[Ok(30_000), Err(5_518), Ok(4_000)]), Some(1_518));
    }

    #[test]
    fn what_comes_later_is_counted_soon() {
        let mut events = vec![Ok(5_000)];
        for outside in [518, 518, 518, 518, 740, 740, 740, 740] {
            events.extend([Err(5_000 + outside), Ok(5_000)]);
        }
        assert_eq!(after(&events), Some(740));
    }
}
