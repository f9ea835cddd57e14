//! What a session was asked to do, and what one front hands over to the next: the command as it was typed,
//! its environment, the policy, and whatever else isn't in the recording.

use super::OnOom;
use super::news::SentNotifications;
use super::policy::auto::AutoOptions;
use super::session::inputs::StartEnvironment;
use super::session::undone::UndoneChanges;
use super::signals::{OnHup, SignalRules};
use crate::command::{CommandLine, Word};
use crate::config::{UserSetting, UserSettings};
use crate::event::{Clock, Job, LoaderSettings, Numerics, Prediction, SCHEMA, SessionStarted};
use crate::recording::{Directories, PidScope};
use crate::remedy::Remedy;
use crate::supervise::Forwarding;
use crate::ui::Mouse;
use crate::ui::terminal::Alert;
use crate::ui::theme::Scheme;
use crate::units::{Bytes, Uuid};
use clap::ArgAction::SetFalse;
use clap::{Args, FromArgMatches, ValueEnum};
use jiff::Zoned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What a session was asked to do. The options of `oomph run` are these fields, read by clap; where one is
/// `None`, `oomph.toml` or the mode decides. The keeper keeps it as JSON for the front that follows, and the
/// recording's first line is made of it.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionConfig {
    /// The command; its environment holds the words typed before it. In a session, the current run's.
    #[arg(skip)]
    pub command: CommandLine,
    /// No screen: pass the output through unchanged, print the diagnosis at the end on stderr
    #[arg(long)]
    pub headless: bool,
    /// Run without the probe (no allocated/reserved curve)
    #[arg(id = "no_probe", long = "no-probe", action = SetFalse)]
    pub probe: bool,
    /// Run without NVML
    #[arg(id = "no_nvml", long = "no-nvml", action = SetFalse)]
    pub nvml: bool,
    /// Do not record which lines of the program allocate the memory
    #[arg(id = "no_lines", long = "no-lines", action = SetFalse)]
    pub lines: bool,
    /// Save PyTorch's own memory snapshot here when memory runs out (opens in memory_viz)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["no_probe", "no_lines"])]
    pub snapshot: Option<Word>,
    /// Time between two samples: 100ms, 0.5s
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "100ms")]
    pub interval: Duration,
    /// Record the session to this file
    #[arg(long, value_name = "PATH", conflicts_with = "no_record")]
    #[serde(skip)]
    pub record: Option<PathBuf>,
    /// Record nothing
    #[arg(long)]
    #[serde(skip)]
    pub no_record: bool,
    /// A directory that all nodes share, for what ranks of other nodes report [default: the session's, if it is
    /// on NFS, Lustre or the like]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub spool: Option<Word>,
    /// Write metrics to this file every 5 s, as Prometheus' text (for node_exporter: NAME.prom)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<Word>,
    /// Run with another number in the program's text, of which the file is left as it is: train.py:30:128=64 (with the column where the number stands more than once on the line)
    #[arg(long, value_name = "FILE:LINE[:COLUMN]:OLD=NEW", value_hint = clap::ValueHint::FilePath, conflicts_with = "no_probe")]
    #[serde(skip)]
    pub edit: Vec<String>,
    /// Allocator settings of the first launch, merged with those of the environment
    #[arg(long, value_name = "KEY:VALUE[,...]")]
    pub alloc_conf: Option<String>,
    /// Add a line of JSON to this file when the session ends: its runs, predictions and outcome
    #[arg(long, value_name = "FILE")]
    pub summary: Option<Word>,
    /// What to do when memory runs out [default: ask with a screen, exit without]
    #[arg(long, value_name = "ask|exit|auto")]
    pub on_oom: Option<OnOom>,
    #[command(flatten)]
    pub auto: AutoOptions,
    /// Pass signals on to the command
    #[arg(long, value_name = "auto|always|never", default_value = "auto")]
    pub forward: Forwarding,
    /// How the terminal tells of an OOM, a leak, or an end after a minute [default: that of oomph.toml]
    #[arg(long, value_name = "bell|osc9|osc777")]
    pub alert: Option<Alert>,
    /// Keep the last screen when the session ends, until you quit
    #[arg(long, conflicts_with = "headless")]
    pub hold: bool,
    /// When the terminal hangs up: keep training without a screen, or stop
    #[arg(long, value_name = "keep|stop", default_value = "keep")]
    pub on_hup: OnHup,
    /// Divide timeouts by N (tests)
    #[arg(long, hide = true, value_name = "N", default_value_t = 1)]
    pub scaled: u32,
    /// Say the session's name on standard error, and let go of both streams (`oomph mcp`)
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub announce: bool,
    /// Colours of the screen [default: that of oomph.toml]
    #[arg(long, value_name = "NAME", value_enum)]
    #[serde(skip)]
    pub theme: Option<Scheme>,
    /// Whether clicks and the wheel act on the screen (Shift selects text) [default: on, or that of oomph.toml]
    #[arg(long, value_name = "on|off", value_enum)]
    #[serde(skip)]
    pub mouse: Option<Mouse>,
    /// The recorded session whose command this is, and what is expected of it; of `oomph again` only.
    #[arg(skip)]
    #[serde(skip)]
    pub start_again: Option<StartAgain>,
}

/// A command that is started again from a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StartAgain {
    /// The recorded session.
    pub session: String,
    /// The remedies, in words.
    pub remedies: Vec<String>,
    /// What was predicted of it.
    pub prediction: Option<Prediction>,
    /// The remedies themselves: after the start it is looked whether they took effect.
    pub applied: Vec<Remedy>,
    /// The device that ran out of memory then.
    pub failed: Option<Uuid>,
    /// The DataLoaders of that run.
    pub loaders: Vec<LoaderSettings>,
}

/// A session of no words: each option's own default.
impl Default for SessionConfig {
    fn default() -> SessionConfig {
        let options = SessionConfig::augment_args(clap::Command::new("oomph"));
        let matches = options.get_matches_from(["oomph"]);
        SessionConfig::from_arg_matches(&matches).expect("every option has a default")
    }
}

impl SessionConfig {
    /// Where the recording is to go.
    pub(crate) fn recording(&self) -> Recording {
        match (&self.record, self.no_record) {
            (_, true) => Recording::Off,
            (Some(path), false) => Recording::To(path.clone()),
            (None, false) => Recording::InStateDirectory,
        }
    }

    /// Fills in from `oomph.toml` what no option has said; returns what is wrong there.
    pub(crate) fn complete(&mut self, settings: &UserSettings) -> Vec<String> {
        let theme = named_in(settings.theme.as_ref(), "theme", &mut self.theme);
        let alert = named_in(settings.alert.as_ref(), "alert", &mut self.alert);
        let mouse = named_in(settings.mouse.as_ref(), "mouse", &mut self.mouse);
        [theme, alert, mouse].into_iter().flatten().collect()
    }

    /// The recording's first line.
    pub(crate) fn first_line(&self, id: &str, clock: Clock, has_probe: bool) -> SessionStarted {
        SessionStarted {
            id: id.into(),
            wall: Zoned::now().timestamp().as_microsecond() as f64 / 1e6,
            monotonic: clock.origin_us(),
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            command: self.command.without_secrets(),
            probe: has_probe,
            nvml: self.nvml,
            job: Job::read(|name| std::env::var(name).ok()),
            host: Some(PidScope::here().host().to_string()),
            again_of: self.start_again.as_ref().map(|again| again.session.clone()),
        }
    }
}

/// Puts the value that `setting` names into `place`, unless there is one already; returns what to mend
/// where there is no such value.
pub(crate) fn named_in<T: ValueEnum>(
    setting: Option<&UserSetting>,
    what: &str,
    place: &mut Option<T>,
) -> Option<String> {
    let setting = setting.filter(|_| place.is_none())?;
    *place = T::from_str(&setting.value, false).ok();
    if place.is_some() {
        return None;
    }
    let names = T::value_variants().iter().filter_map(T::to_possible_value);
    let names: Vec<String> = names.map(|value| value.get_name().into()).collect();
    Some(format!(
        "{}: there is no {what} {:?}; choose one of {}",
        setting.place(),
        setting.value,
        names.join(", ")
    ))
}

/// `100ms`, `0.5s`, `2`: from 10 ms (a launch-bound program loses time above 100 samples a second)
/// to a minute.
fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number
        .trim()
        .parse::<f64>()
        .map_err(|_| "write a time such as 100ms or 0.5s".to_string())?
        * unit;
    if (0.01..=60.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("choose a time between 10ms and 60s".into())
    }
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
    /// What its remedies do to the training's numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numerics: Option<Numerics>,
    /// The keeper's log of the output, if there is one.
    #[serde(default)]
    pub log: Option<Word>,
    /// When the scheduler's job ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_ends: Option<f64>,
    /// What was told to somebody elsewhere.
    #[serde(default)]
    pub told: SentNotifications,
    /// What was undone because the program did not take it.
    #[serde(
        default,
        deserialize_with = "UndoneChanges::read",
        skip_serializing_if = "UndoneChanges::is_nothing"
    )]
    pub undone: UndoneChanges,
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

    #[test]
    fn an_undone_remedy_that_another_version_has_is_left_out() {
        let with = |id: &str| {
            let undone = format!(
                r#"{{"undone":{{"rejected":[],"latest":{{"id":"{id}","title":"t","why":{{"said":"no"}}}},
                "others":[],"ineffective":[2]}},"header""#
            );
            let text = OLDER.replacen("{\"header\"", &undone, 1);
            HandoverState::read(&text).expect("it is read")
        };
        let known = with("batch");
        assert!(!known.undone.is_nothing());
        assert_eq!(HandoverState::read(&known.text()).unwrap(), known);
        let unknown = with("of-another-version");
        assert!(unknown.undone.is_nothing());
        assert_eq!(unknown.header, known.header);
    }

    #[test]
    fn the_option_goes_before_the_file() {
        let with = |theme: Option<Scheme>, value: &str| {
            let settings = UserSettings {
                theme: Some(UserSetting {
                    value: value.into(),
                    path: "oomph.toml".into(),
                    line: 2,
                }),
                ..UserSettings::default()
            };
            let mut config = SessionConfig {
                theme,
                ..SessionConfig::default()
            };
            let problems = config.complete(&settings);
            (config.theme, problems)
        };
        let dark = Some(Scheme::Dark);
        assert_eq!(with(None, "light"), (Some(Scheme::Light), vec![]));
        assert_eq!(with(dark, "light"), (dark, vec![]));
        assert_eq!(with(dark, "drak"), (dark, vec![]));
        let mut alert: Option<Alert> = None;
        let flash = UserSetting {
            value: "flash".into(),
            path: "oomph.toml".into(),
            line: 1,
        };
        let said = named_in(Some(&flash), "alert", &mut alert).unwrap();
        assert!(said.ends_with("bell, osc9, osc777"), "{said}");
        let mend = "oomph.toml:2: there is no theme \"drak\"; choose one of default, dark, light, contrast";
        assert_eq!(with(None, "drak"), (None, vec![mend.into()]));
    }
}
