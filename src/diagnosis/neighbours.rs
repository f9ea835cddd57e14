//! Which other processes are on the device, their memory, and this process's memory outside of
//! PyTorch: from the message's list of processes, else from NVML's last reading.

use crate::calibration::{NON_TORCH_AT_MOST, NON_TORCH_WITH_NCCL};
use crate::oom::OtherProcess;
use crate::state::{OomIncident, Run, State};
use crate::units::{Bytes, Pid, Rank, RunNumber};

/// The maximum difference of two figures in a message, each rounded to hundredths of a GiB.
const ROUNDING: Bytes = Bytes::mib(11);

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
    /// A process of an earlier run that is still alive.
    Earlier(RunNumber),
}

/// `None` is unknown.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pub(super) others: Option<Vec<Other>>,
    /// The memory of the others in total.
    pub(super) bytes: Option<Bytes>,
    /// This process's memory outside of PyTorch's allocator.
    pub(super) non_pytorch: Option<Bytes>,
    /// Both together, exact when memory ran out. Also `None` if the figures contradict each other:
    /// on Windows more can be reserved than the GPU has, on an APU more can be free.
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
            // The message's figures are exact at that moment. NVML was read earlier, when less was
            // reserved, so its figure outside of PyTorch may be too large.
            let not_listed = elsewhere - listed.unwrap_or(Bytes::ZERO);
            known.non_pytorch = match known.non_pytorch {
                Some(outside) => Some(outside.min(not_listed)),
                None => listed.map(|_| not_listed),
            };
            // The rest belongs to a process of unknown size, or to one that isn't listed.
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

/// The other processes listed in the message, if it lists any, and this process's memory outside of
/// PyTorch, if the message has it.
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
    // One of the listed processes is this one: its size must be at least what was reserved and not
    // much more, or so large that two of them would not fit. (In a container PyTorch compares the
    // host's PIDs with its own and lists itself as another process.)
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
