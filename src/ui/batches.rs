//! The batch of each run: what its command says, and of a default or a number in the program's text what its process and the
//! text tell, which may be known only while it runs.

use super::scene::Scene;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::units::RunNumber;

#[derive(Debug, Clone, Default)]
pub(super) struct RunBatches {
    known: Option<BatchesKnown>,
    batches: Vec<(RunNumber, Option<u64>)>,
}

/// What they were read with.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BatchesKnown {
    runs: (usize, RunNumber),
    tell: usize,
    has_text: bool,
}

impl RunBatches {
    /// Reads them again where there is another run, or more to read them with.
    pub fn follow(&mut self, scene: &Scene) {
        let runs = &scene.state.runs;
        let known = runs.last().map(|last| BatchesKnown {
            runs: (runs.len(), last.number),
            tell: runs.iter().filter(|run| run.knobs.is_some()).count(),
            has_text: scene.launch.text.is_some(),
        });
        if self.known == known {
            return;
        }
        self.known = known;
        let batches = runs.iter().map(|run| {
            let told = run.knobs.as_deref().or(scene.launch.told);
            let launch = LaunchEnvironment {
                told,
                ..scene.launch
            };
            (run.number, WorkloadKey::new(&run.command, &launch).batch)
        });
        self.batches = batches.collect();
    }

    pub fn of(&self, run: RunNumber) -> Option<u64> {
        let of = |(number, batch): &(RunNumber, Option<u64>)| (*number == run).then_some(*batch);
        self.batches.iter().find_map(of).flatten()
    }
}
