//! What the memory of one rank consists of, as the breakdown of a device has it: when memory ran out in it, or else at the peak of
//! its last seconds.

use super::current_peak::before_end;
use super::{Breakdown, RankState, Run, RunOutcome, State};
use crate::event::Structure;
use crate::units::Bytes;

/// A rank's memory.
#[derive(Debug, Clone, Copy)]
pub struct RankParts {
    /// Whether it is of the moment when memory ran out in this rank.
    pub is_oom: bool,
    pub allocated: Bytes,
    /// The parts of what PyTorch has reserved; the rest of the device is not the rank's alone.
    pub of: Breakdown,
}

impl RankState {
    /// `None` before its first sample.
    pub fn parts(&self, state: &State, run: &Run) -> Option<RankParts> {
        if let Some(parts) = self.parts_at_oom(state, run) {
            return Some(parts);
        }
        let sample = self.sample_at_peak()?;
        let allocated = self
            .current_peak(state)
            .or_else(|| before_end(self, state))
            .unwrap_or(sample.allocated);
        let structure = self.structure_on(sample.device);
        let structures: Vec<&Structure> = structure.into_iter().collect();
        let reserved = sample.reserved.max(allocated);
        Some(RankParts {
            is_oom: false,
            allocated,
            of: Breakdown::of_allocator(&structures, allocated, reserved, sample.gathered),
        })
    }

    fn parts_at_oom(&self, state: &State, run: &Run) -> Option<RankParts> {
        if run.outcome() != RunOutcome::OutOfMemory {
            return None;
        }
        let is_own = |oom: &&super::OomIncident| oom.pid == Some(self.hello.pid) && !oom.caught;
        let oom = run.ooms.iter().rfind(is_own)?;
        let device = state.device(oom.device.as_ref()?)?;
        Some(RankParts {
            is_oom: true,
            allocated: oom.allocated()?,
            of: device.breakdown_at(oom, None)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::event::{EventKind, OomRecord, Phase, Structure};
    use crate::state::tests::staged::{StagedSession, exited, gib, hello, record, sample, started};
    use crate::units::{Bytes, Pid};

    #[test]
    fn each_rank_has_its_parts_also_where_another_ran_out() {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 10, "torchrun train.py"));
        for (pid, peak) in [(100, 17.0), (101, 14.0)] {
            scene.add(1.0, hello(1, pid, Some(pid as u32 - 100)));
            let read = crate::event::Sample {
                gathered: Some(gib(1.0)),
                ..sample(pid, pid as u32 - 100, gib(peak), gib(peak + 0.5))
            };
            scene.add(2.0, EventKind::Sample(read));
            scene.add(
                2.1,
                EventKind::Structure(Structure {
                    pid: Pid(pid),
                    device: pid as u32 - 100,
                    parameters: gib(2.0),
                    gradients: gib(2.0),
                    optimizer_state: gib(4.0),
                    whole: Some(gib(4.0)),
                }),
            );
        }
        let parts = |scene: &StagedSession, place: usize| {
            let run = scene.state.run().unwrap();
            let rank = run.ranks.get(place).unwrap();
            rank.parts(&scene.state, run).unwrap()
        };
        let first = parts(&scene, 0);
        assert_eq!((first.allocated, first.is_oom), (gib(17.0), false));
        assert_eq!(first.of.gathered, Some(gib(1.0)));
        // Of 17: 2 of shards, 2 of gradients, 4 of the optimizer's state, 1 gathered.
        assert_eq!(first.of.activations_and_other, Some(gib(8.0)));
        assert_eq!(first.of.cached, Some(gib(0.5)));
        let out = OomRecord {
            phase: Phase::Forward,
            device: 1,
            gradients: Some(Bytes::ZERO),
            ..record(101, gib(20.0), gib(21.0), gib(4.0), gib(1.0))
        };
        scene.add(3.0, EventKind::Oom(out));
        scene.add(5.0, exited(1, crate::event::Exit::Code(1)));
        let second = parts(&scene, 1);
        assert_eq!((second.allocated, second.is_oom), (gib(20.0), true));
        let first = parts(&scene, 0);
        assert_eq!((first.allocated, first.is_oom), (gib(17.0), false));
    }
}
