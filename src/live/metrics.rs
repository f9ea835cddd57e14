//! Metrics of the session in a file, for whoever collects them (`--metrics`).

use crate::recording::ReplacedFile;
use crate::report::metrics::metrics;
use crate::state::State;
use crate::units::Moment;
use std::path::Path;
use std::time::Duration;

/// Collectors ask every 15 s and more.
const EVERY: Duration = Duration::from_secs(5);

/// How long the end waits for a slow disk.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct MetricsFile {
    file: ReplacedFile,
    due: Moment,
}

impl MetricsFile {
    /// `None` where no thread can be started for it; the training does not depend on us.
    pub(crate) fn start(path: &Path) -> Option<MetricsFile> {
        let file = ReplacedFile::start(path).ok()?;
        Some(MetricsFile {
            file,
            due: Moment::ZERO,
        })
    }

    /// When it is to be written again.
    pub(crate) fn due(&self) -> Moment {
        self.due
    }

    /// Writes it where it is time; what was wrong with the last one comes back.
    pub(crate) fn look(&mut self, state: &State, now: Moment) -> Option<String> {
        if now < self.due {
            return None;
        }
        self.due = now + EVERY;
        self.file.put(&metrics(state));
        self.file.problem()
    }

    /// The last ones stay, and say that nothing runs any more. Returns why they are not there.
    pub(crate) fn finish(self, state: &State) -> Option<String> {
        self.file.finish(&metrics(state), PATIENCE)
    }
}
