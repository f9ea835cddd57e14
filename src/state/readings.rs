//! Processes of the training: their probes' beginning and end, and their devices.

use crate::event::{Hello, Level, ProbeDevice, ProbeGone, Structure};
use crate::state::{DeviceState, RankState, Resolution, Run, State};
use crate::units::{Moment, Pid, RunNumber, Uuid};

/// Processes kept of a run: more than a host has ranks, for launchers that restart them; of a job with
/// more ranks twice its number, up to a bound.
const RANKS: usize = 256;
const RANKS_OF_A_JOB: usize = 1_024;

/// Of a job with more ranks than this less is kept of each.
const MANY: u32 = 64;

/// Devices kept: more than a host has, since a hello may list anything; more of other nodes.
const DEVICES: usize = 256;
const DEVICES_OF_A_JOB: usize = 1_024;

/// Whether less is to be kept of each rank of its training.
pub(super) fn is_one_of_many(hello: &Hello) -> bool {
    hello.world_size > Some(MANY)
}

impl State {
    pub(super) fn hello(&mut self, at: Moment, hello: &Hello) {
        let next = self.runs.last().map(|run| run.number.next());
        let known = self.runs.iter().any(|run| run.number == hello.run);
        if !known && next.is_some_and(|next| next != hello.run) {
            // Of a run that never started: its environment is from an earlier session.
            return;
        }
        let (most_ranks, most_devices) = bounds(hello);
        for device in &hello.devices {
            let uuid = self.uuid_of(device);
            if self.devices.len() >= most_devices && self.device(&uuid).is_none() {
                continue;
            }
            let known = self.device_or_new(&uuid, &device.name, device.ordinal);
            known.capacity = known.capacity.or(Some(device.total));
            if !hello.pid.is_here() && known.node.is_none() {
                known.node = hello.node.clone();
                if is_one_of_many(hello) {
                    known.keep_little();
                }
            }
        }
        let run = self.run_or_new(at, hello.run);
        match run.rank_mut(hello.pid) {
            // The same process has connected again.
            Some(rank) => {
                rank.hello = hello.clone();
                rank.disconnected = None;
                rank.said_end = false;
            }
            None => {
                if run.ranks.len() >= most_ranks
                    && let Some(oldest) = run
                        .ranks
                        .iter()
                        .position(|rank| rank.disconnected.is_some())
                {
                    run.ranks.remove(oldest);
                }
                if run.ranks.len() < most_ranks {
                    let resolution = match is_one_of_many(hello) {
                        true => Resolution::Small,
                        false => Resolution::Spark,
                    };
                    run.ranks
                        .push(RankState::new(hello.clone(), at, resolution));
                }
            }
        }
    }

    pub(super) fn structure_read(&mut self, structure: &Structure) {
        let Some(rank) = self.rank_mut(structure.pid) else {
            return;
        };
        // Not a device of its hello.
        if rank.device_with(structure.device).is_none() {
            return;
        }
        match rank
            .structures
            .iter_mut()
            .find(|known| known.device == structure.device)
        {
            Some(known) => *known = structure.clone(),
            None => rank.structures.push(structure.clone()),
        }
        rank.choose_structure();
    }

    pub(super) fn probe_gone(&mut self, at: Moment, gone: &ProbeGone) {
        let Some(run) = self.run_of(gone.pid).map(|run| run.number) else {
            return;
        };
        self.rank_ended(at, run, gone.pid);
        if let Some(rank) = self.rank_mut(gone.pid) {
            rank.said_end |= gone.said_end;
            if gone.said_end {
                rank.disconnected = Some(at);
            }
        }
        if let Some(reason) = &gone.reason {
            self.note(
                at,
                Level::Warning,
                format!("the probe in process {} has gone: {reason}", gone.pid),
            );
        }
    }

    /// From now on nothing is known of a process.
    pub(super) fn rank_ended(&mut self, at: Moment, run: RunNumber, pid: Pid) {
        let Some(rank) = self
            .runs
            .iter_mut()
            .find(|candidate| candidate.number == run)
            .and_then(|run| run.rank_mut(pid))
            .filter(|rank| rank.disconnected.is_none())
        else {
            return;
        };
        rank.disconnected = Some(at);
        rank.allocated.gap(at);
        let devices: Vec<Uuid> = rank.usages.iter().map(|held| held.device.clone()).collect();
        for device in devices {
            self.sum_up(at, &device);
        }
    }

    /// The latest run with this process: ids are reused.
    fn run_of(&self, pid: Pid) -> Option<&Run> {
        self.runs.iter().rfind(|run| run.rank_with(pid).is_some())
    }

    pub(super) fn run_of_mut(&mut self, pid: Pid) -> Option<&mut Run> {
        (self.runs.iter_mut()).rfind(|run| run.rank_with(pid).is_some())
    }

    pub(super) fn rank_mut(&mut self, pid: Pid) -> Option<&mut RankState> {
        self.run_of_mut(pid)?.rank_mut(pid)
    }

    /// The device that a process counts by this ordinal.
    pub(super) fn device_of(&self, pid: Pid, ordinal: u32) -> Option<Uuid> {
        let device = self.run_of(pid)?.rank_with(pid)?.device_with(ordinal)?;
        Some(self.uuid_of(device))
    }

    /// A device's UUID. Old versions of torch do not tell it: then it is NVML's only device of that
    /// name, or else a device known only by the ordinal, which is not joined to NVML's because
    /// `CUDA_VISIBLE_DEVICES` reorders ordinals.
    fn uuid_of(&self, device: &ProbeDevice) -> Uuid {
        if let Some(uuid) = &device.uuid {
            return uuid.clone();
        }
        let of_that_name =
            |known: &&DeviceState| known.name == device.name && known.reading.is_some();
        let mut candidates = self.devices.iter().filter(of_that_name);
        match (candidates.next(), candidates.next()) {
            (Some(only), None) => only.uuid.clone(),
            (None, _) | (Some(_), Some(_)) => Uuid::new(&format!("cuda:{}", device.ordinal)),
        }
    }
}

/// The ranks and devices that are kept.
fn bounds(hello: &Hello) -> (usize, usize) {
    let world = hello.world_size.map_or(0, |world| world as usize);
    let devices = match hello.pid.is_here() {
        true => DEVICES,
        false => DEVICES_OF_A_JOB,
    };
    (
        world.saturating_mul(2).clamp(RANKS, RANKS_OF_A_JOB),
        devices,
    )
}

impl RankState {
    pub(super) fn choose_device(&mut self) {
        let most = self
            .usages
            .iter()
            .max_by_key(|held| {
                let current = self.device.as_ref() == Some(&held.device);
                (held.sample.reserved, current)
            })
            .map(|held| (held.device.clone(), held.at, held.sample.clone()));
        if let Some((device, at, sample)) = most {
            if self.device.as_ref().is_some_and(|before| *before != device) {
                self.allocated.gap(at);
            }
            self.device = Some(device);
            self.sample = Some((at, sample));
            self.choose_structure();
        }
    }

    fn choose_structure(&mut self) {
        let ordinal = self.sample.as_ref().map(|(_, sample)| sample.device);
        self.structure = match ordinal {
            Some(ordinal) => self.structure_on(ordinal).cloned(),
            None => self.structures.first().cloned(),
        };
    }
}
