//! A word on memory that has spilled into the host's: in WSL2 the driver does not fail where the GPU is full, it moves what
//! does not fit into RAM, and each step that touches it waits for the bus.

use crate::state::{RankState, Run, RunOutcome, State};
use crate::units::{Bytes, RunNumber};

/// The word, once a run.
#[derive(Debug, Default)]
pub(super) struct HostSpill {
    told: Option<RunNumber>,
}

impl HostSpill {
    /// The words, when they are due.
    pub fn look(&mut self, state: &State) -> Option<String> {
        let run = state.run().filter(|run| self.told != Some(run.number))?;
        let (reserved, total) = spilled(run)?;
        self.told = Some(run.number);
        Some(format!(
            "PyTorch has reserved {reserved} on a GPU of {total}: in WSL2 the driver moves what does not fit into RAM, which is many times slower; a smaller batch stays on the GPU"
        ))
    }
}

/// What a process of a run that goes on has reserved, and the GPU that it is more than.
fn spilled(run: &Run) -> Option<(Bytes, Bytes)> {
    let is_running = run.outcome() == RunOutcome::Running;
    let mut ranks = run.ranks.iter().filter(|_| is_running);
    ranks.find_map(RankState::spilled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::state::tests::staged::{StagedSession, hello, started};

    fn scene(wsl: bool) -> StagedSession {
        let mut scene = StagedSession::default();
        let EventKind::Hello(mut said) = hello(1, 100, None) else {
            panic!("a hello");
        };
        said.wsl = wsl;
        scene
            .add(0.0, started(1, 100, "python train.py"))
            .add(1.0, EventKind::Hello(said));
        scene
    }

    #[test]
    fn more_reserved_than_the_gpu_has_is_told_once_and_in_wsl2_alone() {
        let mut spill = HostSpill::default();
        let mut scene = scene(true);
        scene.sampled(2.0, 20.0, 22.0);
        assert_eq!(spill.look(&scene.state), None);
        scene.sampled(3.0, 25.0, 30.0);
        let words = spill.look(&scene.state).expect("words");
        assert!(
            words.starts_with("PyTorch has reserved 30.0 GiB on a GPU of 23.6 GiB: in WSL2"),
            "{words}"
        );
        assert_eq!(spill.look(&scene.state), None);
        let mut elsewhere = self::scene(false);
        elsewhere.sampled(3.0, 25.0, 30.0);
        assert_eq!(HostSpill::default().look(&elsewhere.state), None);
    }
}
