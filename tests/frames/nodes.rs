//! Jobs of several nodes: their ranks, as they report through the spool.

use crate::frames::story::{Story, gib};
use oomph::diagnosis;
use oomph::event::{
    Consequence, DeviceReading, EventKind, Exit, Hello, HostActivity, PeakActivity, ProbeDevice,
    Sample, Step, StepReading, Structure,
};
use oomph::oom::ConsequenceKind;
use oomph::units::{Pid, Rank, RunNumber, Uuid};

const CAPACITY: f64 = 80.0;

/// The process of a rank; those of the first node are here.
pub fn pid(rank: u32, per_node: u32) -> Pid {
    match rank / per_node {
        0 => Pid(5_000 + rank as i32),
        node => Pid::elsewhere(node, 5_000 + rank as i32).unwrap(),
    }
}

fn uuid(rank: u32) -> Uuid {
    Uuid::new(&format!("8c1f0d22-{rank}"))
}

/// `nodes` with `per_node` ranks each, of which `world` are said to exist.
pub fn job(nodes: u32, per_node: u32, world: u32) -> Story {
    let mut story = Story::new("srun -N8 --ntasks-per-node 8 python train.py --batch-size 16");
    story.with_nvml().start().wait(2.0);
    for rank in 0..nodes * per_node {
        story.tell(EventKind::Hello(Hello {
            pid: pid(rank, per_node),
            run: RunNumber(1),
            rank: Some(Rank(rank)),
            local_rank: Some(Rank(rank % per_node)),
            world_size: Some(world),
            nodes: Some(world / per_node),
            node: Some(format!("gpu-{}", rank / per_node + 1)),
            slurm_step: Some("4711.0".into()),
            python: "3.12.3".into(),
            torch: "2.11.0+cu130".into(),
            devices: vec![ProbeDevice {
                ordinal: 0,
                uuid: Some(uuid(rank)),
                name: "NVIDIA H100 80GB HBM3".into(),
                total: gib(CAPACITY),
            }],
            backend: Some("native".into()),
            alloc_conf: None,
            expandable_segments: Some(false),
            resting: None,
            wsl: false,
            rocm: false,
        }));
    }
    story
}

/// A second of each rank's training; one has more than the others, one is behind.
pub fn second(story: &mut Story, ranks: u32, per_node: u32, second: u32) {
    for rank in 0..ranks {
        let more = if rank == 12 {
            14.0
        } else {
            f64::from(rank * 7 % 11) / 4.0
        };
        let peak = 55.0 + more;
        let now = if second.is_multiple_of(3) { 21.0 } else { peak };
        let sample = Sample {
            pid: pid(rank, per_node),
            allocated: gib(now),
            reserved: gib(peak + 2.0),
            allocated_peak: gib(peak),
            reserved_peak: gib(peak + 2.0),
            ..Sample::default()
        };
        story.tell(EventKind::Sample(sample));
        let reading = |allocated| StepReading {
            allocated: gib(allocated),
            reserved: gib(peak + 2.0),
            peak: gib(peak),
        };
        if rank != 33 || second < 40 {
            story.tell(EventKind::Step(Step {
                pid: pid(rank, per_node),
                device: 0,
                count: u64::from(second) * 2 + 2,
                figures_of: None,
                backward: None,
                micros: 3_100,
                before: reading(21.0),
                after: reading(21.0),
            }));
        }
        if second.is_multiple_of(2) {
            story.tell(EventKind::Device(DeviceReading {
                uuid: uuid(rank),
                index: rank % per_node,
                name: "NVIDIA H100 80GB HBM3".into(),
                total: Some(gib(CAPACITY)),
                used: Some(gib(peak + 2.9)),
                free: Some(gib(CAPACITY - peak - 2.9)),
                driver_reserved: None,
                processes: None,
                utilization: None,
                temperature: None,
                power: None,
                lost: None,
            }));
        }
    }
    story.wait(1.0);
}

/// 64 ranks on 8 nodes.
pub fn eight_nodes() -> Story {
    let mut story = job(8, 8, 64);
    (0..60).for_each(|at| second(&mut story, 64, 8, at));
    story
}

/// Rank 12 of them has larger batches than the others, and runs out of memory.
pub fn one_ran_out() -> Story {
    let mut story = eight_nodes();
    let pid = pid(12, 8);
    story.oom_record(|record| {
        record.pid = pid;
        record.total = gib(CAPACITY);
        record.requested = gib(3.0);
        record.sample = Sample {
            pid,
            allocated: gib(77.2),
            reserved: gib(77.9),
            allocated_peak: gib(77.2),
            reserved_peak: gib(77.9),
            ..Sample::default()
        };
        record.structure = None;
    });
    story.wait(1.5);
    for rank in (0..64).filter(|rank| *rank != 12) {
        story.tell(EventKind::Consequence(Consequence {
            kind: ConsequenceKind::ConnectionClosed,
            rank: Some(Rank(rank)),
        }));
    }
    story.tell(EventKind::Consequence(Consequence {
        kind: ConsequenceKind::LauncherGaveUp,
        rank: None,
    }));
    story.wait(2.0).exit(Exit::Code(1));
    story.findings = diagnosis::diagnose(&story.state);
    story
}

/// Two nodes, of which the second shares no directory with this one.
pub fn half_seen() -> Story {
    let mut story = job(1, 4, 8);
    (0..60).for_each(|at| second(&mut story, 4, 4, at));
    story
}

/// FSDP: this rank has shards, and layers are gathered beside them.
pub fn shards() -> Story {
    let mut story = crate::frames::cases::steady();
    story.tell(EventKind::Structure(Structure {
        whole: Some(gib(1.84)),
        ..story.structure_of(0)
    }));
    story.tell(EventKind::Sample(Sample {
        gathered: Some(gib(1.2)),
        ..story.sample_of(0, 12.4, 14.9, 14.1)
    }));
    story
}

/// Two ranks of one node that divide a model; the first evaluates alone, and so has its peak.
pub fn divided() -> Story {
    let mut story = Story::new("torchrun --nproc_per_node 2 train.py --batch-size 16");
    story.with_nvml().start().wait(2.0);
    let uuid = |rank: u32| format!("4f2a9c1e-{rank}");
    for rank in 0..2 {
        story.hello(rank, 2, &uuid(rank));
    }
    for second in 0..40_u32 {
        for rank in 0..2 {
            let evaluates = rank == 0 && second >= 35;
            let now = match (evaluates, second % 3) {
                (true, _) => 18.2,
                (false, 0) => 3.9,
                (false, _) => 14.1,
            };
            let peak = if evaluates { 18.2 } else { 14.1 };
            let read = Sample {
                gathered: Some(gib(1.2)),
                ..story.sample_of(rank, now, peak + 0.6, peak)
            };
            story.tell(EventKind::Sample(read));
            story.device(rank, &uuid(rank), peak + 1.1, 0.0);
            if second < 35 {
                story.step(rank, u64::from(second) + 1, 3.9, 14.7, 14.1);
            }
            if second == 3 {
                story.tell(EventKind::Structure(Structure {
                    whole: Some(gib(1.84)),
                    ..story.structure_of(rank)
                }));
            }
            if evaluates {
                story.tell(EventKind::PeakActivity(PeakActivity {
                    pid: story.pid(rank),
                    device: 0,
                    doing: Some(HostActivity::Evaluation),
                }));
            }
        }
        story.wait(1.0);
    }
    story
}
