//! `oomph COMMAND`: runs the command to the end of its last run.

use super::{Mistake, meant};
use crate::command::{CommandLine, Word};
use crate::live::{self, Ending, SESSION_VARIABLE, print, torch};
use crate::live::{
    Alert, AutoOptions, Forwarding, OnHup, OnOom, Permission, Recording, RemedyKind, Scheme,
    SessionConfig,
};
use crate::supervise;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Default, PartialEq, Args)]
pub(super) struct RunArguments {
    /// No screen: pass the output through unchanged, print the diagnosis at the end on stderr
    #[arg(long)]
    pub headless: bool,
    /// Run without the probe (no allocated/reserved curve)
    #[arg(long)]
    pub no_probe: bool,
    /// Run without NVML
    #[arg(long)]
    pub no_nvml: bool,
    /// Do not record which lines of the program allocate the memory
    #[arg(long)]
    pub no_lines: bool,
    /// Save PyTorch's own memory snapshot here when memory runs out (opens in memory_viz)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["no_probe", "no_lines"])]
    pub snapshot: Option<PathBuf>,
    /// Time between two samples: 100ms, 0.5s [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
    /// Record the session to this file
    #[arg(long, value_name = "PATH", conflicts_with = "no_record")]
    pub record: Option<PathBuf>,
    /// Record nothing
    #[arg(long)]
    pub no_record: bool,
    /// A directory that all nodes share, for what ranks of other nodes report [default: the session's, if it is
    /// on NFS, Lustre or the like]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub spool: Option<PathBuf>,
    /// Write metrics to this file every 5 s, as Prometheus' text (for node_exporter: NAME.prom)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Allocator settings of the first launch, merged with those of the environment
    #[arg(long, value_name = "KEY:VALUE[,...]")]
    pub alloc_conf: Option<String>,
    /// What to do when memory runs out [default: ask with a screen, exit without]
    #[arg(long, value_name = "ask|exit|auto")]
    pub on_oom: Option<OnOom>,
    /// What `--on-oom auto` may change that alters results or loses progress
    #[arg(
        long,
        value_name = "amp,recompute,effective-batch,restart",
        value_delimiter = ','
    )]
    pub allow: Vec<Permission>,
    /// What `--on-oom auto` tries first [default: segments,batch,device]
    #[arg(long, value_name = "segments,batch,device", value_delimiter = ',')]
    pub order: Vec<RemedyKind>,
    /// Maximum number of relaunches by `--on-oom auto` [default: 3]
    #[arg(long, value_name = "N")]
    pub max_relaunches: Option<u32>,
    /// Pass signals on to the command [default: auto]
    #[arg(long, value_name = "auto|always|never")]
    pub forward: Option<Forwarding>,
    /// How the terminal tells of an OOM, a leak, or an end after a minute [default: that of oomph.toml]
    #[arg(long, value_name = "bell|osc9|osc777")]
    pub alert: Option<Alert>,
    /// Keep the last screen when the session ends, until you quit
    #[arg(long, conflicts_with = "headless")]
    pub hold: bool,
    /// When the terminal hangs up: keep training without a screen, or stop [default: keep]
    #[arg(long, value_name = "keep|stop")]
    pub on_hup: Option<OnHup>,
    /// Divide timeouts by N (tests)
    #[arg(long, hide = true, value_name = "N")]
    pub scaled: Option<u32>,
    /// Colours of the screen [default: that of oomph.toml]
    #[arg(long, value_name = "NAME", value_enum)]
    pub theme: Option<Scheme>,
}

impl RunArguments {
    /// What automatic relaunches may do.
    fn auto(&self) -> Result<AutoOptions, String> {
        let asked =
            !self.allow.is_empty() || !self.order.is_empty() || self.max_relaunches.is_some();
        if asked && self.on_oom != Some(OnOom::Auto) {
            return Err(
                "--allow, --order and --max-relaunches are for --on-oom auto; add that".into(),
            );
        }
        let default = AutoOptions::default();
        Ok(AutoOptions {
            allow: self.allow.clone(),
            order: match self.order.as_slice() {
                [] => default.order,
                order => order.to_vec(),
            },
            max_relaunches: self.max_relaunches.unwrap_or(default.max_relaunches),
        })
    }

    pub fn into_config(self, command: CommandLine) -> Result<SessionConfig, String> {
        let auto = self.auto()?;
        Ok(SessionConfig {
            command,
            headless: self.headless,
            probe: !self.no_probe,
            nvml: !self.no_nvml,
            lines: !self.no_lines,
            snapshot: self.snapshot.as_deref().map(Word::from),
            interval: self.interval.unwrap_or(Duration::from_millis(100)),
            recording: match (self.record, self.no_record) {
                (Some(path), false) => Recording::To(path),
                (None, false) => Recording::InStateDirectory,
                (None, true) => Recording::Off,
                (Some(_), true) => {
                    return Err("--record and --no-record contradict each other; give one".into());
                }
            },
            spool: self.spool.as_deref().map(Word::from).or_else(|| {
                let inherited = std::env::var_os("OOMPH_SPOOL");
                inherited.filter(|path| !path.is_empty()).map(Word)
            }),
            metrics: self.metrics.as_deref().map(Word::from),
            alloc_conf: self.alloc_conf,
            on_oom: self.on_oom,
            alert: self.alert,
            hold: self.hold,
            auto,
            forward: self.forward.unwrap_or_default(),
            on_hup: self.on_hup.unwrap_or_default(),
            scaled: self.scaled.unwrap_or(1),
            theme: self.theme,
        })
    }
}

/// Runs a command to the end of its last run.
///
/// # Errors
/// What kept oomph itself from starting the command.
pub(super) fn run(arguments: RunArguments, command: CommandLine) -> anyhow::Result<Ending> {
    let options = arguments.into_config(command).map_err(Mistake)?;
    let path = std::env::var_os("PATH");
    if let Err(missing) = supervise::resolve(&options.command, path.as_deref()) {
        print::complain(&match (missing.unknown_name(), meant(&options.command)) {
            (Some(name), Some(subcommand)) => format!(
                "{}: no such subcommand, nor a program in PATH; did you mean: oomph {subcommand}?",
                name.display()
            ),
            _ => missing.to_string(),
        });
        return Ok(Ending::Code(missing.status()));
    }
    if supervise::is_below_another() {
        return run_through(&options);
    }
    if let Some(lack) = supervise::lacking() {
        return Ok(become_command(&lack, &options.command));
    }
    let command = options.command.clone();
    match live::run_to_end(options, None) {
        // Others may have taken the last process since; nothing of the command was started.
        Err(error) if error.is::<live::NoKeeper>() => {
            Ok(become_command(&format!("{error:#}"), &command))
        }
        ended => ended,
    }
}

/// Below another oomph the command runs as it was typed: two would both wait at a dialog, the inner one
/// for keys that never come. The outer one watches it, by its output and by the probe that it has put in
/// front of everything, and alone asks what follows an out-of-memory. Returns only if that isn't possible.
///
/// # Errors
/// `--alloc-conf` is wrong.
fn run_through(options: &SessionConfig) -> anyhow::Result<Ending> {
    let command = torch::configured(&options.command, options.alloc_conf.as_deref())?;
    let session = std::env::var(SESSION_VARIABLE).map_or(String::new(), |id| format!(" ({id})"));
    let unused = match unused(options).as_slice() {
        [] => String::new(),
        options => format!("; not used here: {}", options.join(", ")),
    };
    print::complain(&format!(
        "started below another oomph{session}, which watches this command and asks; running it without a second one{unused}"
    ));
    let missing = supervise::become_command(&command);
    print::complain(&missing.to_string());
    Ok(Ending::Code(missing.status()))
}

/// The options that ask for something which nobody does now.
fn unused(options: &SessionConfig) -> Vec<&'static str> {
    let asked = [
        (matches!(options.recording, Recording::To(_)), "--record"),
        (options.metrics.is_some(), "--metrics"),
        (options.snapshot.is_some(), "--snapshot"),
        (options.on_oom.is_some(), "--on-oom"),
    ];
    let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
    asked.map(|(_, name)| name).collect()
}

/// Runs the command without oomph: the training does not depend on us.
fn become_command(lack: &str, command: &CommandLine) -> Ending {
    print::complain(&format!("{lack}; running the command without oomph"));
    let missing = supervise::become_command(command);
    print::complain(&missing.to_string());
    Ending::Code(missing.status())
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
