//! Sessions made by hand, event by event, for the tests of state and diagnosis. Exists in tests only.

use crate::command::CommandLine;
use crate::event::*;
use crate::oom;
use crate::state::State;
use crate::units::{Bytes, Moment, Pid, Rank, RunNumber, Uuid};

/// A card of 24 GiB less what the driver keeps.
pub(crate) const CAPACITY: Bytes = Bytes::mib(24_170);

/// A state, and short words for what happens to it.
#[derive(Default)]
pub(crate) struct StagedSession {
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn gib(gib: f64) -> Bytes {
    Bytes::gib(1).scale(gib)
}

pub(crate) fn command(words: &str) -> CommandLine {
    CommandLine {
        cwd: "/tmp".into(),
        ..CommandLine::typed(words)
    }
}

pub(crate) fn started(run: u32, pid: i32, words: &str) -> EventKind {
    EventKind::Started(Started {
        run: RunNumber(run),
        pid: Pid(pid),
        command: command(words),
        remedies: Vec::new(),
        predicted_peak: None,
        prediction: None,
        numerics: None,
    })
}

pub(crate) fn exited(run: u32, exit: Exit) -> EventKind {
    EventKind::Exited(Exited {
        run: RunNumber(run),
        exit,
        left: Vec::new(),
    })
}

pub(crate) fn uuid(device: u32) -> Uuid {
    Uuid::new(&format!("aaaa-{device}"))
}

/// A process that sees the two devices `aaaa-0` and `aaaa-1`.
pub(crate) fn hello(run: u32, pid: i32, rank: Option<u32>) -> EventKind {
    let device = |ordinal| ProbeDevice {
        ordinal,
        uuid: Some(uuid(ordinal)),
        name: "card".into(),
        total: CAPACITY,
    };
    EventKind::Hello(Hello {
        pid: Pid(pid),
        run: RunNumber(run),
        rank: rank.map(Rank),
        local_rank: rank.map(Rank),
        world_size: rank.map(|_| 2),
        nodes: None,
        node: None,
        slurm_step: None,
        python: "3.12.3".into(),
        torch: "2.11.0+cu130".into(),
        devices: vec![device(0), device(1)],
        backend: Some("native".into()),
        alloc_conf: None,
        expandable_segments: Some(false),
        resting: None,
        wsl: false,
        rocm: false,
    })
}

pub(crate) fn sample(pid: i32, device: u32, allocated: Bytes, reserved: Bytes) -> Sample {
    Sample {
        pid: Pid(pid),
        device,
        allocated,
        reserved,
        allocated_peak: allocated,
        reserved_peak: reserved,
        ..Sample::default()
    }
}

pub(crate) fn step(pid: i32, count: u64, baseline: Bytes, peak: Bytes) -> EventKind {
    let reading = |allocated| StepReading {
        allocated,
        reserved: peak,
        peak,
    };
    EventKind::Step(Step {
        pid: Pid(pid),
        device: 0,
        count,
        figures_of: None,
        backward: None,
        micros: 900,
        before: reading(baseline),
        after: reading(baseline),
    })
}

/// A reading of `aaaa-0` with these processes (id and bytes); `used` is their sum.
pub(crate) fn reading(processes: &[(i32, Bytes)]) -> DeviceReading {
    let used = processes.iter().map(|(_, bytes)| *bytes).sum();
    DeviceReading {
        uuid: uuid(0),
        index: 0,
        name: "card".into(),
        total: Some(CAPACITY + Bytes::mib(406)),
        used: Some(used),
        free: Some(CAPACITY - used),
        driver_reserved: Some(Bytes::mib(406)),
        processes: Some(
            processes
                .iter()
                .map(|(pid, bytes)| DeviceProcess {
                    pid: Pid(*pid),
                    used: Some(*bytes),
                    name: None,
                    user: None,
                    orphaned: false,
                })
                .collect(),
        ),
        utilization: Some(90),
        temperature: Some(61),
        power: Some(240.0),
        lost: None,
    }
}

/// An observer's record: this much allocated, reserved and asked for, and this much free.
pub(crate) fn record(
    pid: i32,
    allocated: Bytes,
    reserved: Bytes,
    requested: Bytes,
    free: Bytes,
) -> OomRecord {
    OomRecord {
        zero: None,
        lines_known: None,
        lines_alike: None,
        limit_line: None,
        pid: Pid(pid),
        device: 0,
        requested,
        total: CAPACITY,
        free,
        sample: sample(pid, 0, allocated, reserved),
        limit: None,
        largest_free: None,
        free_blocks: Vec::new(),
        private_pools: Vec::new(),
        lines: Vec::new(),
        growing: Vec::new(),
        stack: Vec::new(),
        phase: Phase::Unknown,
        grad_enabled: None,
        progress: None,
        before: None,
        gathering: None,
        operands: None,
        loading: None,
        model: None,
        step: 0,
        gradients: None,
        structure: None,
        optimizer: None,
    }
}

/// What the message of the same out-of-memory says, to two places of its units.
pub(crate) fn text_of(record: &OomRecord) -> oom::OomReport {
    let printed = |bytes: Bytes| {
        let unit = match bytes.0 {
            0..=0x400 => 1.0,
            0x401..=0x10_0000 => 1024.0,
            0x10_0001..=0x4000_0000 => 1024.0 * 1024.0,
            0x4000_0001.. => 1024.0 * 1024.0 * 1024.0,
        };
        let text = format!("{:.2}", bytes.0 as f64 / unit);
        Some(Bytes((text.parse::<f64>().unwrap() * unit).round() as u64))
    };
    oom::OomReport {
        device: Some(record.device),
        requested: printed(record.requested),
        total: printed(record.total),
        free: printed(record.free),
        allocated: printed(record.sample.allocated),
        unallocated: printed(record.sample.reserved - record.sample.allocated),
        ..oom::OomReport::default()
    }
}

impl StagedSession {
    /// A run of `python train.py` whose process 100 has said hello at one second.
    pub(crate) fn training() -> StagedSession {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 100, "python train.py --batch-size 64"));
        scene.add(1.0, hello(1, 100, None));
        scene
    }

    pub(crate) fn add(&mut self, at: f64, what: EventKind) -> &mut StagedSession {
        let event = Event {
            at: Moment::from_secs_f64(at),
            what,
        };
        self.state.apply(&event);
        self.events.push(event);
        self
    }

    pub(crate) fn sampled(&mut self, at: f64, allocated: f64, reserved: f64) -> &mut StagedSession {
        self.add(
            at,
            EventKind::Sample(sample(100, 0, gib(allocated), gib(reserved))),
        )
    }
}
