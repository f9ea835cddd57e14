//! The relaunch gate: the next run starts only once the last one's memory is free.
//!
//! Pure: readings and instants go in, a verdict comes out. A run that starts while its predecessor
//! still holds GPU memory runs out of memory at once, and a driver may take seconds to free a killed
//! process's memory (vLLM's tests poll for up to 120 s; orphans have held GPUs over five restarts).
//! So for three readings our processes must be gone from the device and its usage back at the
//! baseline, or, on a shared device, enough must be free. After the deadline nothing is started, and
//! the processes that hold the memory are named.

use crate::event::DeviceReading;
use crate::units::{Bytes, Moment, Pid, Uuid};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GateVerdict {
    Open,
    /// Wait; the reason, for display.
    Wait(String),
    /// Do not start; which process holds how much.
    Refused(String),
}

/// The number of consecutive readings that must agree: one may come between two frees.
const STEADY_READINGS: u32 = 3;
/// Usage above the baseline that doesn't matter: other contexts vary by a few MiB.
const SLACK: Bytes = Bytes::mib(64);

#[derive(Debug, Clone, Copy)]
pub(crate) struct GateTiming {
    /// The deadline for the memory to be free.
    pub deadline: Duration,
    /// Without NVML: the wait after all processes are gone.
    pub blind_wait: Duration,
}

impl Default for GateTiming {
    fn default() -> GateTiming {
        GateTiming {
            deadline: Duration::from_secs(60),
            blind_wait: Duration::from_secs(5),
        }
    }
}

impl GateTiming {
    /// Divided by `divisor` (tests).
    pub(crate) fn scaled(divisor: u32) -> GateTiming {
        let whole = GateTiming::default();
        GateTiming {
            deadline: whole.deadline / divisor.max(1),
            blind_wait: whole.blind_wait / divisor.max(1),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Gate {
    /// What was read before says nothing of what is free now.
    begun: Moment,
    /// From when on the deadline counts.
    waiting_since: Moment,
    timing: GateTiming,
    watched: BTreeMap<Uuid, Watched>,
    needed: Option<Bytes>,
    ours: Vec<Pid>,
    awaited: Vec<Pid>,
    sight: GateSight,
    simulated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateSight {
    Nvml,
    /// There is none: only time decides.
    Blind,
    /// No device was ever known, neither to NVML nor to a process of the run: there is no memory to come back.
    NoDevice,
    /// It does not answer any more; the same.
    Lost,
}

#[derive(Debug)]
struct Watched {
    baseline: Option<Bytes>,
    good: u32,
    latest: Option<DeviceReading>,
}

impl Gate {
    /// For the devices that the last run used, with their usage before the first run (`baselines`), what
    /// must be free for the next run, and the last run's processes. Simulated devices have no gate.
    pub(crate) fn new(
        now: Moment,
        timing: GateTiming,
        baselines: impl IntoIterator<Item = (Uuid, Option<Bytes>)>,
        needed: Option<Bytes>,
        ours: Vec<Pid>,
        sight: GateSight,
    ) -> Gate {
        let devices: Vec<(Uuid, Option<Bytes>)> = baselines.into_iter().collect();
        Gate {
            simulated: !devices.is_empty() && devices.iter().all(|(uuid, _)| uuid.is_simulated()),
            begun: now,
            waiting_since: now,
            timing,
            watched: devices
                .into_iter()
                .filter(|(uuid, _)| !uuid.is_simulated())
                .map(|(uuid, baseline)| {
                    let watched = Watched {
                        baseline,
                        good: 0,
                        latest: None,
                    };
                    (uuid, watched)
                })
                .collect(),
            needed,
            ours,
            awaited: Vec::new(),
            sight,
        }
    }

    /// This gate, made to wait also while one of these processes is on a watched device, without a
    /// deadline: the user has chosen to wait.
    pub(crate) fn awaiting(self, pids: Vec<Pid>) -> Gate {
        Gate {
            awaited: pids,
            ..self
        }
    }

    /// A reading that was taken at `at`.
    pub(crate) fn read(&mut self, at: Moment, reading: &DeviceReading) {
        if at < self.begun {
            return;
        }
        let Some(watched) = self.watched.get_mut(&reading.uuid) else {
            return;
        };
        let ours_gone = !reading
            .processes
            .iter()
            .flatten()
            .any(|process| self.ours.contains(&process.pid));
        let back = match (reading.used, watched.baseline) {
            (Some(used), Some(baseline)) => used <= baseline + SLACK,
            (_, None) | (None, _) => false,
        };
        let room = match (reading.free, self.needed) {
            (Some(free), Some(needed)) => free >= needed.scale(1.02),
            (_, None) | (None, _) => false,
        };
        watched.good = if ours_gone && (back || room) {
            watched.good + 1
        } else {
            0
        };
        watched.latest = Some(reading.clone());
    }

    /// NVML stopped answering: from now on only time decides.
    pub(crate) fn lose_nvml(&mut self) {
        self.sight = match self.sight {
            GateSight::Nvml | GateSight::Blind | GateSight::Lost => GateSight::Lost,
            GateSight::NoDevice => GateSight::NoDevice,
        };
    }

    pub(crate) fn verdict(&mut self, now: Moment) -> GateVerdict {
        if self.simulated {
            return GateVerdict::Open;
        }
        if let Some(verdict) = self.verdict_on_awaited() {
            // Their memory is freed once they are gone; the time for that starts then.
            self.waiting_since = now;
            return verdict;
        }
        let waited = now.since(self.waiting_since);
        let blind = match (self.sight, self.watched.is_empty()) {
            (GateSight::NoDevice, _) => return GateVerdict::Open,
            (GateSight::Blind, _) => Some("without NVML"),
            (GateSight::Lost, _) => Some("NVML does not answer"),
            (GateSight::Nvml, true) => Some("the device that the run used is unknown"),
            (GateSight::Nvml, false) => None,
        };
        if let Some(why) = blind {
            return if waited >= self.timing.blind_wait {
                GateVerdict::Open
            } else {
                GateVerdict::Wait(format!(
                    "{why}: waiting {} s for the device's memory to come back",
                    self.timing.blind_wait.as_secs_f64()
                ))
            };
        }
        let holding: Vec<&Watched> = self
            .watched
            .values()
            .filter(|watched| watched.good < STEADY_READINGS)
            .collect();
        if holding.is_empty() {
            return GateVerdict::Open;
        }
        let who = holding
            .iter()
            .map(|watched| self.held_by(watched))
            .collect::<Vec<_>>()
            .join("; ");
        if waited >= self.timing.deadline {
            GateVerdict::Refused(format!(
                "the device's memory did not come back within {} s: {who}",
                self.timing.deadline.as_secs_f64()
            ))
        } else {
            GateVerdict::Wait(format!("waiting for the device's memory: {who}"))
        }
    }

    fn verdict_on_awaited(&self) -> Option<GateVerdict> {
        if self.awaited.is_empty() {
            return None;
        }
        if self.sight != GateSight::Nvml {
            let words = "without NVML other processes on the GPU cannot be seen; not relaunched";
            return Some(GateVerdict::Refused(words.into()));
        }
        let unread = self
            .watched
            .values()
            .any(|watched| watched.latest.is_none());
        let holding = self.watched.values().find(|watched| {
            let reading = watched.latest.iter();
            let mut processes = reading.flat_map(|reading| reading.processes.iter().flatten());
            processes.any(|process| self.awaited.contains(&process.pid))
        });
        match holding {
            Some(watched) => Some(GateVerdict::Wait(format!(
                "waiting for the GPU, with no time limit: {}",
                self.held_by(watched)
            ))),
            None => unread.then(|| GateVerdict::Wait("waiting for a reading of the GPU".into())),
        }
    }

    fn held_by(&self, watched: &Watched) -> String {
        let Some(reading) = &watched.latest else {
            return "no reading yet".into();
        };
        let used = reading
            .used
            .map_or("unknown".to_string(), |used| used.to_string());
        let holders: Vec<String> = reading
            .processes
            .iter()
            .flatten()
            .map(|process| {
                let name = process.name.as_deref().unwrap_or("process");
                let ours = if self.ours.contains(&process.pid) {
                    " of the last run"
                } else {
                    ""
                };
                match process.used {
                    Some(bytes) => format!("{name} {}{ours} uses {bytes}", process.pid),
                    None => format!("{name} {}{ours} uses memory", process.pid),
                }
            })
            .collect();
        let by = if holders.is_empty() {
            "no process is listed".to_string()
        } else {
            holders.join(", ")
        };
        format!("GPU {} has {used} in use ({by})", reading.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::DeviceProcess;

    const GPU: &str = "aa-bb";

    fn reading(used: Bytes, processes: &[(i32, Bytes)]) -> DeviceReading {
        DeviceReading {
            uuid: Uuid::new(GPU),
            index: 0,
            name: "card".into(),
            total: Some(Bytes::gib(24)),
            used: Some(used),
            free: Some(Bytes::gib(24) - used),
            driver_reserved: None,
            processes: Some(
                processes
                    .iter()
                    .map(|&(pid, used)| DeviceProcess {
                        pid: Pid(pid),
                        used: Some(used),
                        name: Some("python".into()),
                        user: None,
                        orphaned: false,
                    })
                    .collect(),
            ),
            utilization: None,
            temperature: None,
            power: None,
            lost: None,
        }
    }

    fn gate(needed: Option<Bytes>) -> Gate {
        Gate::new(
            Moment::ZERO,
            GateTiming::default(),
            [(Uuid::new(GPU), Some(Bytes::mib(300)))],
            needed,
            vec![Pid(7)],
            GateSight::Nvml,
        )
    }

    fn at(seconds: f64) -> Moment {
        Moment::from_secs_f64(seconds)
    }

    #[test]
    fn opens_after_three_readings_at_the_baseline() {
        let mut gate = gate(None);
        gate.read(at(0.1), &reading(Bytes::gib(20), &[(7, Bytes::gib(20))]));
        assert!(
            matches!(gate.verdict(at(0.1)), GateVerdict::Wait(why) if why.contains("python 7"))
        );
        for _ in 0..2 {
            gate.read(at(0.1), &reading(Bytes::mib(310), &[]));
            assert!(matches!(gate.verdict(at(0.3)), GateVerdict::Wait(_)));
        }
        gate.read(at(0.1), &reading(Bytes::mib(310), &[]));
        assert_eq!(gate.verdict(at(0.4)), GateVerdict::Open);
    }

    #[test]
    fn a_reading_from_before_it_began_says_nothing() {
        let mut gate = Gate {
            begun: at(10.0),
            ..gate(None)
        };
        for _ in 0..5 {
            gate.read(at(9.9), &reading(Bytes::mib(310), &[]));
        }
        assert!(
            matches!(gate.verdict(at(10.1)), GateVerdict::Wait(why) if why.contains("no reading"))
        );
    }

    #[test]
    fn a_process_of_ours_keeps_it_shut_whatever_is_free() {
        let mut gate = gate(Some(Bytes::gib(1)));
        for _ in 0..5 {
            gate.read(at(0.1), &reading(Bytes::mib(310), &[(7, Bytes::mib(10))]));
        }
        assert!(matches!(gate.verdict(at(1.0)), GateVerdict::Wait(_)));
    }

    #[test]
    fn on_a_shared_device_enough_free_is_enough() {
        let mut gate = gate(Some(Bytes::gib(10)));
        for _ in 0..3 {
            gate.read(at(0.1), &reading(Bytes::gib(8), &[(99, Bytes::gib(8))]));
        }
        assert_eq!(gate.verdict(at(1.0)), GateVerdict::Open);
    }

    #[test]
    fn refuses_at_the_deadline_and_names_the_holder() {
        let mut gate = gate(Some(Bytes::gib(20)));
        gate.read(at(0.1), &reading(Bytes::gib(8), &[(99, Bytes::gib(8))]));
        let GateVerdict::Refused(why) = gate.verdict(at(60.0)) else {
            panic!("not refused")
        };
        assert!(why.contains("python 99 uses 8.00 GiB"), "{why}");
    }

    #[test]
    fn who_is_awaited_keeps_it_shut_for_as_long_as_they_stay() {
        let mut gate = gate(None).awaiting(vec![Pid(99)]);
        assert!(matches!(gate.verdict(at(0.0)), GateVerdict::Wait(why) if why.contains("reading")));
        gate.read(at(0.1), &reading(Bytes::gib(8), &[(99, Bytes::gib(8))]));
        let GateVerdict::Wait(why) = gate.verdict(at(4000.0)) else {
            panic!("there is no time limit")
        };
        assert!(why.contains("python 99 uses 8.00 GiB"), "{why}");
        for _ in 0..3 {
            gate.read(at(0.1), &reading(Bytes::mib(310), &[]));
        }
        assert_eq!(gate.verdict(at(4001.0)), GateVerdict::Open);
        gate.lose_nvml();
        assert!(
            matches!(gate.verdict(at(4002.0)), GateVerdict::Refused(why) if why.contains("NVML"))
        );
    }

    #[test]
    fn without_nvml_time_decides_and_says_so() {
        let mut gate = gate(None);
        gate.lose_nvml();
        assert!(matches!(gate.verdict(at(4.9)), GateVerdict::Wait(why) if why.contains("NVML")));
        assert_eq!(gate.verdict(at(5.0)), GateVerdict::Open);
    }

    #[test]
    fn a_run_whose_device_nobody_knows_is_waited_for_blindly() {
        let mut gate = Gate::new(
            Moment::ZERO,
            GateTiming::default(),
            [],
            None,
            vec![],
            GateSight::Nvml,
        );
        assert!(matches!(gate.verdict(at(1.0)), GateVerdict::Wait(why) if why.contains("unknown")));
        assert_eq!(gate.verdict(at(5.0)), GateVerdict::Open);
    }

    #[test]
    fn where_no_device_was_ever_known_nothing_is_waited_for() {
        let timing = GateTiming::default();
        let new = || Gate::new(Moment::ZERO, timing, [], None, vec![], GateSight::NoDevice);
        let (mut gate, mut awaiting) = (new(), new().awaiting(vec![Pid(7)]));
        assert_eq!(gate.verdict(Moment::ZERO), GateVerdict::Open);
        gate.lose_nvml();
        assert_eq!(gate.verdict(Moment::ZERO), GateVerdict::Open);
        // Whom the user waits for cannot be seen.
        assert!(matches!(
            awaiting.verdict(Moment::ZERO),
            GateVerdict::Refused(_)
        ));
    }

    #[test]
    fn a_simulated_device_has_no_gate() {
        let mut gate = Gate::new(
            Moment::ZERO,
            GateTiming::default(),
            [(Uuid::new("SIM-1"), None)],
            None,
            vec![],
            GateSight::Blind,
        );
        assert_eq!(gate.verdict(Moment::ZERO), GateVerdict::Open);
    }
}
