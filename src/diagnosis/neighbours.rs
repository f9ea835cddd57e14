//! Who else is on the device, and how much memory they and this process use there outside this
//! process's PyTorch: from the text's list of processes, else from NVML's last reading.

use crate::measured::{NON_TORCH_AT_MOST, NON_TORCH_WITH_NCCL};
use crate::oom::OtherProcess;
use crate::state::{OomIncident, Run, State};
use crate::units::{Bytes, Pid, Rank, RunNumber};

/// How far apart two figures of a text, each rounded to a hundredth of a GiB, may be.
const ROUNDING: Bytes = Bytes::mib(11);

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

/// What is not known is `None`.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pub(super) others: Option<Vec<Other>>,
    /// The memory of the others together.
    pub(super) bytes: Option<Bytes>,
    /// This process's memory outside PyTorch's allocator.
    pub(super) non_pytorch: Option<Bytes>,
    /// Both together, exact when memory ran out. `None` also where the figures contradict each
    /// other: under Windows more can be reserved than the GPU has, on an APU more can be free.
    pub(super) elsewhere: Option<Bytes>,
}

impl Neighbours {
    pub(super) fn of(
        state: &State,
        run: Option<&Run>,
        oom: &OomIncident,
        reserved: Option<Bytes>,
        capacity: Option<Bytes>,
    ) -> Neighbours {
        let nvml = oom.nvml_at_oom.as_ref();
        let seen = nvml.and_then(|nvml| nvml.others.as_deref());
        let elsewhere = (|| {
            let (capacity, free, reserved) = (capacity?, oom.free()?, reserved?);
            (capacity >= free + reserved).then(|| capacity - free - reserved)
        })();
        let (of_text, non_pytorch) = by_text(oom, reserved, capacity);
        let mut known = Neighbours {
            non_pytorch: non_pytorch.or_else(|| nvml?.non_pytorch),
            elsewhere,
            ..Neighbours::default()
        };
        let Some(listed) = of_text.or_else(|| {
            let listed = seen?.iter().map(|process| OtherProcess {
                pid: process.pid,
                used: process.used,
            });
            Some(listed.collect())
        }) else {
            return known;
        };
        let others: Vec<Other> = listed
            .into_iter()
            .map(|other| {
                let seen = seen.and_then(|seen| seen.iter().find(|p| p.pid == other.pid));
                Other {
                    pid: other.pid,
                    bytes: other.used.or(seen.and_then(|process| process.used)),
                    name: seen.and_then(|process| process.name.clone()),
                    user: seen.and_then(|process| process.user.clone()),
                    relation: relation(state, run, other.pid),
                }
            })
            .collect();
        let listed: Option<Bytes> = others.iter().map(|other| other.bytes).sum();
        known.others = Some(others);
        known.bytes = listed;
        if let Some(elsewhere) = elsewhere {
            // The GPU's arithmetic at that moment is exact; NVML was read some moments before, when
            // less was reserved, and may have seen too much outside PyTorch.
            let not_listed = elsewhere - listed.unwrap_or(Bytes::ZERO);
            known.non_pytorch = match known.non_pytorch {
                Some(outside) => Some(outside.min(not_listed)),
                None => listed.map(|_| not_listed),
            };
            // A process whose bytes nobody says, or that is not listed at all, has what remains.
            let unclaimed = not_listed - known.non_pytorch.unwrap_or(NON_TORCH_AT_MOST);
            known.bytes = match listed {
                Some(listed) if unclaimed <= NON_TORCH_AT_MOST => Some(listed),
                Some(listed) => Some(listed + unclaimed),
                None => Some(unclaimed),
            };
        }
        known
    }
}

/// The other processes by the text, if it lists processes, and what this process uses outside
/// PyTorch, if the text says what it uses at all.
fn by_text(
    oom: &OomIncident,
    reserved: Option<Bytes>,
    capacity: Option<Bytes>,
) -> (Option<Vec<OtherProcess>>, Option<Bytes>) {
    let Some(report) = &oom.report else {
        return (None, None);
    };
    if let Some(used) = report.process_used {
        let outside = reserved.map(|reserved| used - reserved);
        return (Some(report.others.clone()), outside);
    }
    let Some(reserved) = reserved else {
        return (None, None);
    };
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
    let candidates: Vec<&OtherProcess> = report.others.iter().filter(may_be_us).collect();
    let [us] = candidates[..] else {
        return (None, None);
    };
    let others = report.others.iter().filter(|other| *other != us);
    (
        Some(others.cloned().collect()),
        us.used.map(|used| used - reserved),
    )
}

fn relation(state: &State, run: Option<&Run>, pid: Pid) -> Relation {
    if let Some(rank) = run.and_then(|run| run.rank_with(pid)) {
        return Relation::Rank(rank.hello.rank);
    }
    let this = run.map(|run| run.number);
    (state.runs.iter())
        .filter(|run| Some(run.number) != this)
        .rfind(|run| run.owns(pid))
        .map_or(Relation::Stranger, |run| Relation::Earlier(run.number))
}
