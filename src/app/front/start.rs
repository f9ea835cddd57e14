//! Before the first run: everything that surrounds the command is put in place, in the order that
//! costs the command least. Only two things may stop it here: a mistake in oomph's own options,
//! and a keeper that cannot be started.

use super::{EVENTS, Front, Scanners, Sources};
use crate::app::allocator::InheritedSettings;
use crate::app::launch::Surround;
use crate::app::mode::{self, Mode, Surface};
use crate::app::phase::Phase;
use crate::app::screen::{self, terminal_size};
use crate::app::signals::{Rules, Signals};
use crate::app::type_ahead::TypeAhead;
use crate::app::{OnOom, Recording, RunOptions, theme, torch};
use crate::collect::{nvml, probe_socket};
use crate::config;
use crate::event::{Clock, Event, Level, NvmlState, SessionStarted, What};
use crate::session::{Directories, Places, Recorder, RecorderOptions};
use crate::state::State;
use crate::supervise::{self, Io, Keeper, Launch, Order, Setup, Timing};
use crate::units::RunNumber;
use anyhow::Context;
use jiff::Zoned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// What must live as long as the session.
pub(super) struct Kept {
    _nvml: Option<nvml::Watch>,
    directories: Directories,
    /// A training that goes on without us still starts interpreters with the probe's path.
    pub(super) released: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.released {
            // What cannot be removed lies in a directory that the system clears.
            let _ = self.directories.remove_runtime();
        }
    }
}

pub(super) fn start(options: RunOptions) -> anyhow::Result<(Front, Sources, Kept)> {
    let clock = Clock::start();
    let mode = mode::choose(options.headless, &Surface::of_this_process());
    // Before any thread is there: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal as i32))?;

    let inherited = InheritedSettings::read(|name| std::env::var_os(name));
    let mut command = options.command.clone();
    if let Some(conf) = &options.alloc_conf {
        let torch = torch::version_for(&command);
        inherited
            .merge_into(&mut command, conf, torch.as_deref())
            .map_err(|mend| anyhow::anyhow!("--alloc-conf {conf}: {mend}"))?;
    }

    let program = command.argv.first().context("no command given")?;
    let directories =
        Directories::create(program, Zoned::now().datetime(), &Places::of_this_user());
    let mut notes = directories.notes.clone();
    let recorder = record(&options.recording, &directories, &mut notes)?;
    let (events_in, events) = mpsc::channel(EVENTS);
    let socket = options
        .probe
        .then(|| listen(&directories, clock, events_in.clone(), &mut notes))
        .flatten();
    let place = directories.runtime.as_deref().zip(socket.as_deref());
    let (surround, problem) = Surround::prepare(&options, &directories.id, place);
    notes.extend(problem);

    let (keeper, reports) = Keeper::start(&Setup {
        log: output_log(&options.recording, &directories),
        io: match mode {
            Mode::Screen => Io::Screen,
            Mode::Headless(_) => Io::PassThrough,
        },
        timing: Timing::scaled(options.scaled),
        forwarding: options.forward,
    })
    .context("the keeper process could not be started")?;
    keeper.send(Order::Launch(Launch {
        run: RunNumber::FIRST,
        command: surround.around(&command, RunNumber::FIRST),
        size: match mode {
            Mode::Screen => screen::first_child_size(),
            Mode::Headless(_) => terminal_size(),
        },
    }))?;

    // The command is on its way; the rest may take its time.
    let settings = config::read(&command.cwd);
    notes.extend(settings.problems.iter().cloned());
    let (theme, problem) = theme::chosen(options.theme, &settings);
    notes.extend(problem);
    let header = SessionStarted {
        id: directories.id.clone(),
        wall: wall_seconds(),
        monotonic: clock.origin_us(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: command.without_secrets(),
        probe: socket.is_some(),
        nvml: options.nvml,
    };
    let nvml = options.nvml.then(|| {
        let library = std::env::var_os("OOMPH_NVML_LIBRARY").map(PathBuf::from);
        nvml::watch(
            nvml::Options {
                interval: options.interval,
                library,
                ..nvml::Options::default()
            },
            clock,
            events_in,
        )
    });
    let on_oom = options.on_oom.unwrap_or(match mode {
        Mode::Screen => OnOom::Ask,
        Mode::Headless(_) => OnOom::Exit,
    });
    let mut front = Front {
        on_oom,
        mode,
        clock,
        state: State::default(),
        findings: Vec::new(),
        watch: Default::default(),
        remedies: Vec::new(),
        recording: recorder.path().map(Path::to_path_buf),
        recorder,
        scanners: Scanners::default(),
        keeper,
        phase: Phase::Starting,
        command,
        surround,
        rules: Rules {
            in_slurm_step: supervise::step_is_signalled(
                std::env::var_os("SLURM_STEP_ID").as_deref(),
            ),
            forwarding: options.forward,
            on_hup: options.on_hup,
        },
        baselines: BTreeMap::new(),
        theme,
        screen: None,
        parked: None,
        plain: false,
        typed: None,
        type_ahead: TypeAhead::default(),
        screen_lost: false,
        waiting: None,
        chosen: None,
        inherited,
        torch: None,
        last_words: Vec::new(),
        speaking: BTreeSet::new(),
        last_byte: b'\n',
        released: false,
        keeper_lost: false,
        scaled: options.scaled,
    };
    front.happened(Event {
        at: clock.now(),
        what: What::SessionStarted(header),
    });
    if !options.nvml {
        front.record(What::Nvml(NvmlState::Off));
    }
    for text in notes {
        front.note(Level::Warning, text);
    }
    let sources = Sources {
        reports,
        events,
        signals,
    };
    let kept = Kept {
        _nvml: nvml,
        directories,
        released: false,
    };
    Ok((front, sources, kept))
}

/// Opens the recording. One that the user named and that cannot be had is a mistake of his; the
/// one of the state directory is done without.
fn record(
    recording: &Recording,
    directories: &Directories,
    notes: &mut Vec<String>,
) -> anyhow::Result<Recorder> {
    let options = RecorderOptions::default();
    match recording {
        Recording::Off => Ok(Recorder::off()),
        Recording::To(path) => {
            Recorder::create(path, options).with_context(|| format!("--record {}", path.display()))
        }
        Recording::InStateDirectory => {
            let created = directories
                .recording()
                .map(|path| Recorder::create(&path, options));
            match created {
                Some(Ok(recorder)) => Ok(recorder),
                Some(Err(error)) => {
                    notes.push(format!("{error:#}; this session is not recorded"));
                    Ok(Recorder::off())
                }
                None => Ok(Recorder::off()),
            }
        }
    }
}

/// The keeper's log lies beside the recording, where that is a file: beside `/dev/stdout` or a pipe
/// nothing is to be made. The recording has been opened by now.
fn output_log(recording: &Recording, directories: &Directories) -> Option<PathBuf> {
    match recording {
        Recording::Off => None,
        Recording::To(path) => {
            let file = path.symlink_metadata().is_ok_and(|about| about.is_file());
            (file && !path.starts_with("/dev")).then(|| path.with_extension("output.log"))
        }
        Recording::InStateDirectory => directories.output_log(),
    }
}

/// Opens the probe's socket.
fn listen(
    directories: &Directories,
    clock: Clock,
    events: mpsc::Sender<Event>,
    notes: &mut Vec<String>,
) -> Option<PathBuf> {
    let path = directories.probe_socket()?;
    match probe_socket::bind(&path) {
        Ok(listener) => {
            tokio::spawn(probe_socket::serve(listener, clock, events));
            Some(path)
        }
        Err(error) => {
            notes.push(format!(
                "the probe's socket {} cannot be opened ({error}); going on without the probe",
                path.display()
            ));
            None
        }
    }
}

fn wall_seconds() -> f64 {
    Zoned::now().timestamp().as_microsecond() as f64 / 1e6
}
