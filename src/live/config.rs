//! What a session was asked to do, and what one front hands over to the next: the command as it was typed,
//! its environment, the policy, and whatever else isn't in the recording.

use super::OnOom;
use super::news::SentNotifications;
use super::policy::auto::AutoOptions;
use super::session::inputs::StartEnvironment;
use super::signals::{OnHup, SignalRules};
use crate::command::{CommandLine, Word};
use crate::event::{Prediction, SessionStarted};
use crate::recording::Directories;
use crate::supervise::Forwarding;
use crate::ui::terminal::Alert;
use crate::ui::theme::Scheme;
use crate::units::{Bytes, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What a session was asked to do: by the options of the command line or, where one is `None`, by
/// `oomph.toml` or the mode. The front that follows another one has it from that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The command; its environment holds the words typed before it. In a session, the current run's.
    pub command: CommandLine,
    /// No screen, even where there is a terminal.
    #[serde(default)]
    pub headless: bool,
    /// Put the probe in front.
    pub probe: bool,
    /// Ask NVML.
    #[serde(default = "yes")]
    pub nvml: bool,
    /// Let the probe record which lines hold the memory.
    pub lines: bool,
    /// Where the probe saves PyTorch's own snapshot at an out-of-memory, if anywhere.
    pub snapshot: Option<Word>,
    /// Time between two samples.
    pub interval: Duration,
    /// Where the recording is to go; where it went is told to the next front.
    #[serde(skip)]
    pub recording: Recording,
    /// A directory that all nodes of the job share, for what ranks of other nodes report.
    #[serde(default)]
    pub spool: Option<Word>,
    /// Where metrics are written for Prometheus, if anywhere.
    #[serde(default)]
    pub metrics: Option<Word>,
    /// Allocator settings for the first launch, as typed.
    #[serde(default)]
    pub alloc_conf: Option<String>,
    /// What to do at an OOM; `None` where the mode decides.
    pub on_oom: Option<OnOom>,
    /// How the terminal tells of an OOM; `None` where `oomph.toml` decides.
    #[serde(default)]
    pub alert: Option<Alert>,
    /// The last screen stays until a person quits.
    #[serde(default)]
    pub hold: bool,
    /// What relaunching unasked may do.
    #[serde(default)]
    pub auto: AutoOptions,
    /// Whether signals are passed on.
    #[serde(default)]
    pub forward: Forwarding,
    /// What a hang-up of the terminal does.
    #[serde(default)]
    pub on_hup: OnHup,
    /// How many times shorter graces and deadlines are than they should be; 1 but in tests.
    pub scaled: u32,
    /// The screen's theme; `None` where `oomph.toml` decides. Whoever attaches has their own.
    #[serde(skip)]
    pub theme: Option<Scheme>,
}

fn yes() -> bool {
    true
}

/// Where a recording goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Recording {
    /// To the state directory, under the session's name.
    #[default]
    InStateDirectory,
    /// To this file.
    To(PathBuf),
    /// Nowhere.
    Off,
}

/// What is handed over from front to front beside the recording. The keeper holds it in memory and never
/// writes it to disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoverState {
    /// What the session was asked to do, as far as it came to be. Its fields stand among the others.
    #[serde(flatten)]
    pub config: SessionConfig,
    pub header: SessionStarted,
    /// The session's private directory.
    pub runtime: Option<Word>,
    /// The directory of its recording and log.
    #[serde(default)]
    pub state: Option<Word>,
    /// The recording, if there is one.
    pub recording: Option<Word>,
    /// Where the probe's modules are for a command that may run on other nodes.
    #[serde(default)]
    pub modules: Option<Word>,
    /// The original `PYTHONPATH`.
    pub python_path: Option<Word>,
    pub surroundings: StartEnvironment,
    /// The start, by the wall clock: older checkpoints are of another run.
    pub began: SystemTime,
    /// Whether the session started with a screen, so that somebody is there to be asked.
    pub began_on_screen: bool,
    pub rules: SignalRules,
    /// The remedies of the current run, in words, and its predicted peak.
    pub chosen: (Vec<String>, Option<Bytes>),
    /// Everything that was predicted of it.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// The keeper's log of the output, if there is one.
    #[serde(default)]
    pub log: Option<Word>,
    /// What was told to somebody elsewhere.
    #[serde(default)]
    pub told: SentNotifications,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::policy::auto::{Permission, RemedyKind};

    /// What a front of version 0.2.0 hands over.
    const OLDER: &str = r#"{"header":{"id":"train-1","wall":1e9,"monotonic":5,"schema":1,"version":"0.2.0",
        "command":{"argv":["python","train.py"],"cwd":"/work"},"probe":true,"nvml":true},
        "runtime":"/run/oomph/1","state":null,"recording":null,"probe":true,"lines":false,
        "snapshot":"/work/snaps","interval":{"secs":0,"nanos":100000000},"python_path":null,
        "surroundings":{"inherited":{"cuda":null,"hip":null,"general":null},"environment":[],"copies":null},
        "began":{"secs_since_epoch":1000000000,"nanos_since_epoch":0},"on_oom":"auto",
        "auto":{"allow":["amp"],"order":["batch"],"max_relaunches":5},"began_on_screen":true,
        "rules":{"in_slurm_step":false,"forwarding":"never","on_hup":"stop"},"scaled":1,
        "command":{"argv":["python","train.py"],"cwd":"/work"},"chosen":[[],null],"baselines":{"GPU-1":7}}"#;

    #[test]
    fn what_an_older_front_hands_over_is_read_and_handed_on_as_it_was() {
        let handover = HandoverState::read(OLDER).expect("it is read");
        let config = &handover.config;
        assert!(config.probe && !config.lines && config.nvml);
        assert_eq!(config.interval, Duration::from_millis(100));
        assert_eq!(config.snapshot, Some("/work/snaps".into()));
        assert_eq!(config.on_oom, Some(OnOom::Auto));
        assert_eq!(config.auto.allow, [Permission::Amp]);
        assert_eq!(config.auto.order, [RemedyKind::Batch]);
        assert_eq!(handover.rules.on_hup, OnHup::Stop);
        let before: serde_json::Value = serde_json::from_str(OLDER).unwrap();
        let after: serde_json::Value = serde_json::from_str(&handover.text()).unwrap();
        for (name, value) in before.as_object().unwrap() {
            // What the header has beside them is optional.
            if name != "header" {
                assert_eq!(&after[name], value, "{name}");
            }
        }
        assert_eq!(HandoverState::read(&handover.text()).unwrap(), handover);
    }
}
