//! Handover state that isn't in the recording: the command as it was typed, its environment, the
//! policy. The keeper holds it in memory and never writes it to disk.

use super::inputs::StartEnvironment;
use crate::command::{CommandLine, Word};
use crate::event::{Prediction, SessionStarted};
use crate::live::news::ToldNews;
use crate::live::signals::SignalRules;
use crate::live::{Alert, AutoOptions, OnOom};
use crate::recording::Directories;
use crate::units::{Bytes, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoverState {
    pub header: SessionStarted,
    /// The session's private directory.
    pub runtime: Option<Word>,
    /// The directory of its recording and log.
    #[serde(default)]
    pub state: Option<Word>,
    /// The recording, if there is one.
    pub recording: Option<Word>,
    pub probe: bool,
    /// The directory for ranks of other nodes, if there is one.
    #[serde(default)]
    pub spool: Option<Word>,
    /// Where the probe's modules are for a command that may run on other nodes.
    #[serde(default)]
    pub modules: Option<Word>,
    /// Whether the probe records source lines.
    pub lines: bool,
    /// Where to write PyTorch's own snapshot at an OOM.
    pub snapshot: Option<Word>,
    pub interval: Duration,
    /// The original `PYTHONPATH`.
    pub python_path: Option<Word>,
    pub surroundings: StartEnvironment,
    /// The start, by the wall clock: older checkpoints are of another run.
    pub began: SystemTime,
    /// What to do at an OOM, if given.
    pub on_oom: Option<OnOom>,
    /// What `--on-oom auto` may do.
    #[serde(default)]
    pub auto: AutoOptions,
    /// Whether the session started with a screen, so that somebody is there to be asked.
    pub began_on_screen: bool,
    pub rules: SignalRules,
    /// The divisor of all timeouts; 1 except in tests.
    pub scaled: u32,
    /// The current run's.
    pub command: CommandLine,
    /// The remedies of the current run, in words, and its predicted peak.
    pub chosen: (Vec<String>, Option<Bytes>),
    /// Everything that was predicted of it.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// The keeper's log of the output, if there is one.
    #[serde(default)]
    pub log: Option<Word>,
    /// Where metrics are written, if anywhere; absolute.
    #[serde(default)]
    pub metrics: Option<Word>,
    /// How the terminal tells of news, by the option.
    #[serde(default)]
    pub alert: Option<Alert>,
    /// What was told to somebody elsewhere.
    #[serde(default)]
    pub told: ToldNews,
    /// Use of each device before the first run.
    pub baselines: BTreeMap<Uuid, Bytes>,
}

impl HandoverState {
    pub(crate) fn read(text: &str) -> serde_json::Result<HandoverState> {
        serde_json::from_str(text)
    }

    /// For the keeper. Serializing can't fail; [`HandoverState::read`] would reject an empty text.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn directories(&self) -> Directories {
        Directories {
            id: self.header.id.clone(),
            state: self.state.as_ref().map(|word| PathBuf::from(&word.0)),
            runtime: self.runtime.as_ref().map(|word| PathBuf::from(&word.0)),
            notes: Vec::new(),
        }
    }

    pub(crate) fn recording(&self) -> Option<&Path> {
        self.recording.as_ref().map(|word| Path::new(&word.0))
    }
}
