//! The definition of the command line (clap derive) and its plain counterparts.

use super::sessions::{AttachArguments, LogsArguments, LsArguments, StopArguments};
use crate::app::{Forwarding, OnHup, OnOom, Recording, RunOptions, Scheme, Source};
use crate::command::CommandLine;
use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// What was ordered, free of clap.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Run a command.
    Run(RunOptions),
    /// Play a recording.
    Replay(ReplayOrder),
    /// Show what would be changed, without running anything.
    Plan(PlanOrder),
    /// Name the causes of the out-of-memories in a log.
    Explain(ExplainOrder),
    /// List the sessions that are alive.
    List {
        /// As JSON.
        json: bool,
    },
    /// Come to a session with a screen.
    Attach {
        /// Which; the only one without.
        session: Option<String>,
        /// Whether to ask NVML.
        nvml: bool,
    },
    /// End a session.
    Stop {
        /// Which; the only one without.
        session: Option<String>,
        /// By SIGKILL, at once.
        kill: bool,
    },
    /// Show a session's output.
    Logs {
        /// Which; the only one, or the latest, without.
        session: Option<String>,
        /// Go on as it grows.
        follow: bool,
    },
}

/// A recording to play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOrder {
    /// The recording.
    pub file: PathBuf,
    /// Print what it says instead of playing it on the screen.
    pub headless: bool,
    /// The screen's theme, where it was said.
    pub theme: Option<Scheme>,
}

/// A command to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOrder {
    /// The command.
    pub command: CommandLine,
    /// JSON instead of words.
    pub json: bool,
    /// The factor for the batch.
    pub batch_scale: f64,
}

/// A log or a recording to explain.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainOrder {
    /// What to read.
    pub source: Source,
    /// JSON instead of words.
    pub json: bool,
    /// The command that ran out of memory, for remedies.
    pub command: Option<CommandLine>,
}

/// Turns an argument's text into a value, or says the mend.
pub type Conversion<T> = Result<T, String>;

/// Prefix a GPU training command: see PyTorch's memory live, learn why it ran out, relaunch on one
/// key.
#[derive(Debug, Parser)]
#[command(
    name = "oomph",
    version,
    override_usage = "oomph [OPTIONS] [--] [NAME=VALUE...] COMMAND [ARG...]\n       oomph <SUBCOMMAND>",
    after_help = "The first word that is no option of oomph's starts the command; all after it is the command's.\n\
                  Exit status: the command's own; 125 oomph's own failure, 126 not executable, 127 not found.",
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
}

#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Run a command under oomph: the same as without a subcommand, spelled out.
    Run(RunArguments),
    /// List the sessions that are alive on this machine.
    Ls(LsArguments),
    /// Come to a session with a screen: one that was left, whose terminal is gone, or that waits.
    Attach(AttachArguments),
    /// End a session: SIGTERM to the training, after 45 s to its whole tree, after 5 s SIGKILL.
    Stop(StopArguments),
    /// Write a session's output as the training wrote it.
    Logs(LogsArguments),
    /// Play a recorded session on the screen.
    Replay(ReplayArguments),
    /// Show what oomph recognises in a command and how each remedy would change it. Runs nothing.
    Plan(PlanArguments),
    /// Find the out-of-memories in a log or a recording and name their causes. Needs no GPU.
    Explain(ExplainArguments),
}

#[derive(Debug, Args)]
#[command(override_usage = "oomph run [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]")]
pub struct RunArguments {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// The recording (an events.jsonl)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print what it says instead of playing it
    #[arg(long)]
    pub headless: bool,
    /// The screen's theme: default, dark, light, contrast
    #[arg(long, value_name = "NAME", value_parser = Scheme::of_name)]
    pub theme: Option<Scheme>,
}

impl From<ReplayArguments> for ReplayOrder {
    fn from(arguments: ReplayArguments) -> ReplayOrder {
        ReplayOrder {
            file: arguments.file,
            headless: arguments.headless,
            theme: arguments.theme,
        }
    }
}

#[derive(Debug, Args)]
#[command(override_usage = "oomph plan [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]")]
pub struct PlanArguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// The factor by which the batch is to change
    #[arg(long, value_name = "FACTOR", default_value_t = 0.5, value_parser = batch_scale)]
    pub batch_scale: f64,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "oomph explain [OPTIONS] [FILE|-] [-- [NAME=VALUE...] COMMAND [ARG...]]",
    after_help = "With the command that ran out of memory after `--` its remedies are shown as well; nothing is run."
)]
pub struct ExplainArguments {
    /// A log, or a recording (an events.jsonl) [default: -, standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

impl ExplainArguments {
    pub fn into_order(self, command: Option<CommandLine>) -> ExplainOrder {
        let source = match self.file {
            Some(file) if file.as_os_str() != "-" => Source::File(file),
            Some(_) | None => Source::StandardInput,
        };
        ExplainOrder {
            source,
            json: self.json,
            command,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOomChoice {
    /// Open the dialog and wait (with a screen)
    Ask,
    /// Print the diagnosis and exit with the command's status
    Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForwardChoice {
    /// Once, unless SLURM has signalled the command already
    Auto,
    /// Once, also inside an srun step
    Always,
    /// Not at all
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnHupChoice {
    /// The training goes on, without a screen
    Keep,
    /// SIGHUP is passed on, and the training is stopped if it lives on
    Stop,
}

#[derive(Debug, Default, Args)]
pub struct Common {
    /// No screen: pass the output through unchanged, print the diagnosis at the end
    #[arg(long)]
    pub headless: bool,
    /// Do not put the probe in front of the command (no allocated/reserved curve then)
    #[arg(long)]
    pub no_probe: bool,
    /// Do not ask NVML
    #[arg(long)]
    pub no_nvml: bool,
    /// Do not record which lines of the program hold the memory
    #[arg(long)]
    pub no_lines: bool,
    /// Save PyTorch's own memory snapshot here when memory runs out (opens in memory_viz)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["no_probe", "no_lines"])]
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
    /// Allocator settings of the first launch, merged with those of the environment
    #[arg(long, value_name = "KEY:VALUE[,...]")]
    pub alloc_conf: Option<String>,
    /// What to do when memory runs out [default: ask with a screen, exit without]
    #[arg(long, value_name = "ask|exit")]
    pub on_oom: Option<OnOomChoice>,
    /// Pass signals on to the command: auto leaves them to SLURM inside an srun step, which signals
    /// every process itself [default: auto]
    #[arg(long, value_name = "auto|always|never")]
    pub forward: Option<ForwardChoice>,
    /// When the terminal hangs up: keep the training and go on without a screen, or stop it
    /// [default: keep]
    #[arg(long, value_name = "keep|stop")]
    pub on_hup: Option<OnHupChoice>,
    /// Graces and deadlines this many times shorter, for tests
    #[arg(long, hide = true, value_name = "TIMES")]
    pub scaled: Option<u32>,
    /// The screen's theme: default, dark, light, contrast [default: that of oomph.toml]
    #[arg(long, value_name = "NAME", value_parser = Scheme::of_name)]
    pub theme: Option<Scheme>,
}

impl Common {
    /// Options before `run` and after it are one set; what stands after it counts.
    pub fn or(self, after: Common) -> Common {
        Common {
            headless: self.headless | after.headless,
            no_probe: self.no_probe | after.no_probe,
            no_nvml: self.no_nvml | after.no_nvml,
            no_lines: self.no_lines | after.no_lines,
            snapshot: after.snapshot.or(self.snapshot),
            interval: after.interval.or(self.interval),
            record: after.record.or(self.record),
            no_record: self.no_record | after.no_record,
            alloc_conf: after.alloc_conf.or(self.alloc_conf),
            on_oom: after.on_oom.or(self.on_oom),
            forward: after.forward.or(self.forward),
            on_hup: after.on_hup.or(self.on_hup),
            scaled: after.scaled.or(self.scaled),
            theme: after.theme.or(self.theme),
        }
    }

    pub fn into_options(self, command: CommandLine) -> Conversion<RunOptions> {
        Ok(RunOptions {
            command,
            headless: self.headless,
            probe: !self.no_probe,
            nvml: !self.no_nvml,
            lines: !self.no_lines,
            snapshot: self.snapshot,
            interval: self.interval.unwrap_or(Duration::from_millis(100)),
            recording: match (self.record, self.no_record) {
                (Some(path), false) => Recording::To(path),
                (None, false) => Recording::InStateDirectory,
                (None, true) => Recording::Off,
                (Some(_), true) => {
                    return Err("--record and --no-record contradict each other; give one".into());
                }
            },
            alloc_conf: self.alloc_conf,
            on_oom: self.on_oom.map(|choice| match choice {
                OnOomChoice::Ask => OnOom::Ask,
                OnOomChoice::Exit => OnOom::Exit,
            }),
            forward: match self.forward {
                None | Some(ForwardChoice::Auto) => Forwarding::Auto,
                Some(ForwardChoice::Always) => Forwarding::Always,
                Some(ForwardChoice::Never) => Forwarding::Never,
            },
            on_hup: match self.on_hup {
                None | Some(OnHupChoice::Keep) => OnHup::Keep,
                Some(OnHupChoice::Stop) => OnHup::Stop,
            },
            scaled: self.scaled.unwrap_or(1),
            theme: self.theme,
        })
    }
}

/// `100ms`, `0.5s`, `2`: from 10 ms (a launch-bound program loses time above 100 samples a second)
/// to a minute.
fn interval(text: &str) -> Conversion<Duration> {
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

fn batch_scale(text: &str) -> Conversion<f64> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 64.0 => Ok(scale),
        Ok(_) | Err(_) => Err("choose a factor above 0, such as 0.5".into()),
    }
}
