//! Before the first run: everything that surrounds the command is put in place, in the order that
//! costs the command least. Only two things may stop it here: a mistake in oomph's own options,
//! and a keeper that cannot be started.

use super::change::TakenBack;
use super::{Departure, EVENTS, Front, Role, Scanners, Sources};
use crate::app::allocator::InheritedSettings;
use crate::app::earlier::Earlier;
use crate::app::fit::Fitting;
use crate::app::known::Known;
use crate::app::launch::Surround;
use crate::app::memory::Memory;
use crate::app::mode::{self, Mode, Surface};
use crate::app::phase::Phase;
use crate::app::prompt::Prompt;
use crate::app::screen::{self, terminal_size};
use crate::app::signals::{Rules, Signals};
use crate::app::tail::Tail;
use crate::app::type_ahead::TypeAhead;
use crate::app::{OnHup, OnOom, Recording, RunOptions, theme, torch};
use crate::collect::{nvml, probe_socket};
use crate::command::{CommandLine, Word};
use crate::config;
use crate::event::{Clock, Event, Level, NvmlState, SessionStarted, What};
use crate::session::{self, BaseDirs, Directories, Recorder, RecorderOptions, SessionFile};
use crate::state::State;
use crate::supervise::{self, Io, Keeper, KeeperOrder, KeeperTimeouts, Launch, Setup};
use crate::ui::Theme;
use crate::units::RunNumber;
use anyhow::Context;
use jiff::Zoned;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// What must live as long as the session.
pub(super) struct Kept {
    pub(super) _nvml: Option<nvml::NvmlWatch>,
    pub(super) directories: Directories,
    /// A session that goes on without us still needs its directory.
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

pub(super) fn start(
    options: RunOptions,
    fitting: Option<Fitting>,
) -> anyhow::Result<(Front, Sources, Kept)> {
    let clock = Clock::start();
    let mode = mode::choose(options.headless, &Surface::of_this_process());
    // Before any thread is there: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal as i32))?;

    let mut command = options.command.clone();
    if let Some(conf) = &options.alloc_conf {
        let torch = torch::version_for(&command);
        InheritedSettings::read(|name| std::env::var_os(name))
            .merge_into(&mut command, conf, torch.as_deref())
            .map_err(|mend| anyhow::anyhow!("--alloc-conf {conf}: {mend}"))?;
    }

    let program = command.argv.first().context("no command given")?;
    let directories =
        Directories::create(program, Zoned::now().datetime(), &BaseDirs::of_this_user());
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

    let log = output_log(&options.recording, &directories);
    let (keeper, reports) = Keeper::start(&Setup {
        log: log.clone(),
        io: match mode {
            Mode::Screen => Io::Screen,
            Mode::Headless(_) => Io::PassThrough,
        },
        timing: KeeperTimeouts::scaled(options.scaled),
        forwarding: options.forward,
    })
    .context("the keeper process could not be started")?;
    keeper.send(KeeperOrder::Launch(Launch {
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
    let (known, problems) = Known::at_start(&settings);
    let known = known.with_copies(directories.state.clone());
    notes.extend(problems);
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
    let memory = Memory {
        header: header.clone(),
        runtime: directories.runtime.as_deref().map(Word::from),
        recording: (recorder.path())
            .and_then(|path| std::path::absolute(path).ok())
            .map(|path| Word::from(path.as_path())),
        probe: surround.has_probe(),
        lines: options.lines,
        snapshot: surround.snapshot().map(Word::from),
        interval: options.interval,
        python_path: std::env::var_os("PYTHONPATH").map(Word),
        surroundings: known.surroundings(),
        began: SystemTime::now(),
        on_oom: options.on_oom,
        auto: options.auto.clone(),
        began_on_screen: mode == Mode::Screen,
        rules: Rules {
            in_slurm_step: supervise::step_is_signalled(
                std::env::var_os("SLURM_STEP_ID").as_deref(),
            ),
            forwarding: options.forward,
            on_hup: options.on_hup,
        },
        scaled: options.scaled,
        command: command.clone(),
        chosen: Default::default(),
        baselines: BTreeMap::new(),
    };
    let nvml = options
        .nvml
        .then(|| watch_nvml(options.interval, clock, events_in));
    let mut front = Front::of(Parts {
        role: Role::First,
        mode,
        clock,
        recorder,
        keeper,
        command,
        surround,
        known,
        theme,
        memory,
    });
    front.fitting = fitting;
    front.be_found(&directories, log.as_deref());
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

/// What makes a front; all else it learns.
pub(super) struct Parts {
    pub role: Role,
    pub mode: Mode,
    pub clock: Clock,
    pub recorder: Recorder,
    pub keeper: Keeper,
    pub command: CommandLine,
    pub surround: Surround,
    pub known: Known,
    pub theme: Theme,
    pub memory: Memory,
}

impl Front {
    /// A front that knows nothing yet.
    pub(super) fn of(parts: Parts) -> Front {
        let asked = parts.mode == Mode::Screen || parts.memory.began_on_screen;
        Front {
            on_oom: parts.memory.on_oom.unwrap_or(match asked {
                true => OnOom::Ask,
                false => OnOom::Exit,
            }),
            undecided: None,
            hinted: None,
            fitting: None,
            earlier: Earlier::default(),
            role: parts.role,
            mode: parts.mode,
            clock: parts.clock,
            state: State::default(),
            findings: Vec::new(),
            watch: Default::default(),
            remedies: Vec::new(),
            recording: parts.recorder.path().map(Path::to_path_buf),
            recorder: parts.recorder,
            scanners: Scanners::default(),
            keeper: parts.keeper,
            phase: Phase::Starting,
            command: parts.command,
            surround: parts.surround,
            rules: match parts.role {
                // What hangs up is not the terminal that the session was started on.
                Role::Attached => Rules {
                    on_hup: OnHup::Keep,
                    ..parts.memory.rules
                },
                Role::First | Role::Headless => parts.memory.rules,
            },
            baselines: parts.memory.baselines.clone(),
            theme: parts.theme,
            screen: None,
            parked: None,
            plain: false,
            typed: None,
            type_ahead: TypeAhead::default(),
            prompt: Prompt::default(),
            screen_lost: false,
            waiting: None,
            known: parts.known,
            began: parts.memory.began,
            applied: None,
            taken_back: TakenBack::default(),
            tail: Tail::default(),
            torch: None,
            last_words: Vec::new(),
            speaking: BTreeSet::new(),
            last_byte: b'\n',
            scaled: parts.memory.scaled,
            departure: Departure::Ended,
            stop_asked: false,
            memory: parts.memory,
            described: None,
            keeper_lost: false,
        }
    }

    /// Makes the session one that can be found and attached to, and clears away what dead ones left.
    fn be_found(&mut self, directories: &Directories, log: Option<&Path>) {
        self.remember();
        let Some((directory, socket)) = directories
            .runtime
            .as_ref()
            .zip(directories.keeper_socket())
        else {
            return;
        };
        self.order(KeeperOrder::Listen(Word::from(socket.as_path())));
        let recording = self.memory.recording().map(Path::to_path_buf);
        let file = SessionFile::of(
            &directories.id,
            self.keeper.pid(),
            log,
            recording.as_deref(),
        );
        if let Err(error) = file.write(directory) {
            self.note(
                Level::Warning,
                format!(
                    "oomph ls will not show this session: {} cannot be written to ({error})",
                    directory.display()
                ),
            );
        }
        // In its own time: there may be many, on a slow disk.
        let _ = std::thread::Builder::new()
            .name("clearing".into())
            .spawn(|| session::clear_dead(&BaseDirs::of_this_user()));
    }
}

/// Starts to ask NVML.
pub(super) fn watch_nvml(
    interval: Duration,
    clock: Clock,
    events: mpsc::Sender<Event>,
) -> nvml::NvmlWatch {
    let library = std::env::var_os("OOMPH_NVML_LIBRARY").map(PathBuf::from);
    nvml::watch(
        nvml::Options {
            interval,
            library,
            ..nvml::Options::default()
        },
        clock,
        events,
    )
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
            refuse_own_output(path)?;
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

/// The program's own output is no place for the recording, though the shell has just made it empty.
fn refuse_own_output(path: &Path) -> anyhow::Result<()> {
    let Ok(named) = std::fs::metadata(path) else {
        return Ok(());
    };
    let is_it = |about: std::fs::Metadata| {
        (about.is_file()) && (about.dev(), about.ino()) == (named.dev(), named.ino())
    };
    let own = ["/dev/stdout", "/dev/stderr"];
    let taken = own
        .iter()
        .any(|name| std::fs::metadata(name).is_ok_and(is_it));
    anyhow::ensure!(
        !taken,
        "--record {}: the program's output goes there; name another file",
        path.display()
    );
    Ok(())
}

/// The keeper's log lies beside the recording, where that is a file: beside `/dev/stdout` or a pipe
/// nothing is to be made. The recording has been opened by now.
fn output_log(recording: &Recording, directories: &Directories) -> Option<PathBuf> {
    match recording {
        Recording::Off => None,
        Recording::To(path) => {
            let file = path.symlink_metadata().is_ok_and(|about| about.is_file());
            (file && !path.starts_with("/dev"))
                .then(|| path.with_extension("output.log"))
                .and_then(|path| std::path::absolute(path).ok())
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
