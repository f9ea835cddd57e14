//! What one front leaves for the next that no recording tells: the command as it was typed, what
//! was put around it, the policy. The keeper holds it in its memory and writes it nowhere.

use super::inputs::StartEnvironment;
use crate::app::signals::SignalRules;
use crate::app::{AutoOptions, OnOom};
use crate::command::{CommandLine, Word};
use crate::event::SessionStarted;
use crate::session::Directories;
use crate::units::{Bytes, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What the next front must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::app) struct HandoverState {
    /// The session's header.
    pub header: SessionStarted,
    /// Its private directory.
    pub runtime: Option<Word>,
    /// Its recording, where one is kept.
    pub recording: Option<Word>,
    /// Whether the probe is in place.
    pub probe: bool,
    /// Whether it records lines.
    pub lines: bool,
    /// Where PyTorch's own snapshot goes at an OOM.
    pub snapshot: Option<Word>,
    /// Time between two samples.
    pub interval: Duration,
    /// `PYTHONPATH` as oomph found it.
    pub python_path: Option<Word>,
    /// What the remedies are told of the environment that the session began in.
    pub surroundings: StartEnvironment,
    /// When it began, by the wall clock: what lies on the disk from before is another run's.
    pub began: SystemTime,
    /// What to do at an OOM, where that was said.
    pub on_oom: Option<OnOom>,
    /// What relaunching unasked may do.
    #[serde(default)]
    pub auto: AutoOptions,
    /// Whether the session began with a screen: somebody is there to be asked.
    pub began_on_screen: bool,
    /// What is done about which signal.
    pub rules: SignalRules,
    /// How many times shorter graces and deadlines are; 1 but in tests.
    pub scaled: u32,
    /// The command of the present run.
    pub command: CommandLine,
    /// The remedies that made it, in words, and the peak that was predicted for it.
    pub chosen: (Vec<String>, Option<Bytes>),
    /// The keeper's log of the output, where one is kept.
    #[serde(default)]
    pub log: Option<Word>,
    /// Where metrics are written, if anywhere; absolute.
    #[serde(default)]
    pub metrics: Option<Word>,
    /// Use of each device before the first run.
    pub baselines: BTreeMap<Uuid, Bytes>,
}

impl HandoverState {
    /// What an earlier front left.
    ///
    /// # Errors
    /// It is none that this version knows.
    pub(crate) fn read(text: &str) -> serde_json::Result<HandoverState> {
        serde_json::from_str(text)
    }

    /// What the keeper is to hold. Nothing in it can fail to be written; an empty text would be
    /// none that [`HandoverState::read`] takes.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The session's directories, as far as they are still needed.
    pub(crate) fn directories(&self) -> Directories {
        Directories {
            id: self.header.id.clone(),
            state: None,
            runtime: self.runtime.as_ref().map(|word| PathBuf::from(&word.0)),
            notes: Vec::new(),
        }
    }

    /// The recording's path.
    pub(crate) fn recording(&self) -> Option<&Path> {
        self.recording.as_ref().map(|word| Path::new(&word.0))
    }
}
