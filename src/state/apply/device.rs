//! Readings of NVML, and the sums of what the probes report for a device.

use crate::event::{DeviceReading, Level, NvmlState};
use crate::state::non_torch::NonTorch;
use crate::state::{DeviceState, State};
use crate::units::{Bytes, Moment, Uuid};

impl State {
    pub(super) fn nvml_said(&mut self, at: Moment, nvml: &NvmlState) {
        let before = self.nvml.replace(nvml.clone());
        if let (NvmlState::Unavailable { reason }, true) = (nvml, before.as_ref() != Some(nvml)) {
            self.note(at, Level::Info, format!("no NVML: {reason}"));
        }
        match nvml {
            NvmlState::Live { .. } => {}
            NvmlState::Unavailable { .. } | NvmlState::Stale | NvmlState::Off => {
                for device in self
                    .devices
                    .iter_mut()
                    .filter(|device| device.node.is_none())
                {
                    device.used.gap(at);
                }
            }
        }
    }

    pub(super) fn device_read(&mut self, at: Moment, reading: &DeviceReading) {
        let device = self.device_or_new(&reading.uuid, &reading.name, reading.index);
        // A lost device may have no name any more.
        if !reading.name.is_empty() {
            device.name = reading.name.clone();
        }
        device.index = reading.index;
        if let Some(total) = reading.total {
            device.capacity = Some(total - reading.driver_reserved.unwrap_or(Bytes::ZERO));
        }
        match (&reading.lost, reading.used) {
            (None, Some(used)) => device.used.push(at, used),
            (Some(_), _) | (None, None) => device.used.gap(at),
        }
        if reading.lost.is_some() {
            device.allocated.gap(at);
            device.reserved.gap(at);
        }
        if let Some(processes) = &reading.processes {
            let before = std::mem::take(&mut device.first_seen);
            device.first_seen = processes
                .iter()
                .map(|process| {
                    let seen = before.iter().find(|(pid, _)| *pid == process.pid);
                    seen.copied().unwrap_or((process.pid, at))
                })
                .collect();
        }
        device.reading = Some((at, reading.clone()));
        self.note_non_torch(&reading.uuid);
    }

    /// Keeps what this reading says about the training's memory outside PyTorch: a bound for now.
    fn note_non_torch(&mut self, uuid: &Uuid) {
        let Some(place) = self.devices.place(uuid) else {
            return;
        };
        match self.devices[place].ours_now(self) {
            Some((at, ours)) => {
                let device = &mut self.devices[place];
                let before = device.reserved.value_at(at).unwrap_or(Bytes::ZERO);
                device.non_torch.read(at, ours, before);
            }
            None => self.devices[place].non_torch = NonTorch::default(),
        }
    }

    pub(super) fn device_or_new(
        &mut self,
        uuid: &Uuid,
        name: &str,
        index: u32,
    ) -> &mut DeviceState {
        let place = self.devices.place(uuid).unwrap_or_else(|| {
            self.devices
                .push(DeviceState::new(uuid.clone(), name, index));
            self.devices.len() - 1
        });
        &mut self.devices[place]
    }

    /// Updates a device's `allocated`, `reserved` and limit from the current run's live processes;
    /// without any, they are unknown from now on.
    pub(super) fn sum_up(&mut self, at: Moment, uuid: &Uuid) {
        let (Some(run), Some(device)) = (self.runs.last(), self.devices.with_mut(uuid)) else {
            return;
        };
        let mut held = device.usages_in(run).peekable();
        let known = held.peek().is_some();
        let (mut allocated, mut reserved, mut limit) = (Bytes::ZERO, Bytes::ZERO, None);
        // The oldest of their latest samples.
        let mut heard = at;
        for (_, holding) in held {
            let sample = &holding.sample;
            heard = heard.min(holding.at);
            allocated += sample.allocated;
            reserved += sample.reserved;
            limit = match (limit, sample.limit) {
                (Some(a), Some(b)) => Some(Bytes::min(a, b)),
                (a, b) => a.or(b),
            };
        }
        if known {
            device.allocated.push(at, allocated);
            device.reserved.push(at, reserved);
            device.limit = limit;
            device.non_torch.sampled(heard, reserved);
        } else {
            device.allocated.gap(at);
            device.reserved.gap(at);
        }
    }
}
