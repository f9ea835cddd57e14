//! Sets a session up: for the first launch, for a person who attaches, and for a front that the keeper
//! starts. What each brings along is different; what is made of it is one.

use super::background_task::{TaskThreads, ThreadReport};
use super::config::{HandoverState, SessionConfig};
use super::display::Display;
use super::display::mode::{self, Mode, Reason, Surface};
use super::display::screen::{first_child_size, terminal_size};
use super::heap;
use super::message::{Inbox, Message, TakenOver};
use super::metrics::MetricsFile;
use super::news::{Messenger, SentNotifications};
use super::policy::{self, Policy};
use super::probe_setup::ProbeSetup;
use super::python_path;
use super::reachable::{self, Reachable};
use super::runtime::{KeeperState, Runtime};
use super::session::Session;
use super::session::inputs::SessionInputs;
use super::session::undone::UndoneChanges;
use super::setup::{self, SessionGuard};
use super::signals::{SignalRules, Signals};
use super::update::{FrontPlace, Role, SessionController};
use super::{Ending, launch_facts, requeue, torch};
use crate::collect::probe_socket::{self, ProbeRequests};
use crate::command::Word;
use crate::config::{self, UserSetting};
use crate::event::{Clock, Event, EventKind, NvmlState};
use crate::recognize::reads_standard_input;
use crate::recording::{self, BaseDirs, Directories, Recorder, RecorderOptions};
use crate::state::State;
use crate::supervise::{
    self, GroupPlace, HeadlessFront, Io, Keeper, KeeperOrder, KeeperReport, KeeperTimeouts, Launch,
    PipedInput, Reports, SessionStatus, Setup,
};
use crate::ui::Preferences;
use crate::ui::terminal::Alert;
use crate::units::{Bytes, Moment, RunNumber};
use anyhow::{Context, bail};
use jiff::Zoned;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// The capacity of the channel of events: at 10 Hz and 16 sources more than a second.
const EVENTS: usize = 1024;
/// How long the keeper may take to make us the front: longer than a front may take to make way.
const WELCOME_WITHIN: Duration = Duration::from_secs(20);

/// What could not be set up for oomph itself, before anything of the command was started: the command needs none of it.
#[derive(Debug)]
pub(crate) enum NotBegun {
    Keeper,
    /// A sandbox may refuse the system calls of an event loop.
    EventLoop,
}

impl std::fmt::Display for NotBegun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NotBegun::Keeper => "the keeper process could not be started",
            NotBegun::EventLoop => "oomph's event loop could not be started",
        })
    }
}

/// Why a front takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A person attached.
    Attached {
        /// NVML is asked, unless the user says not to.
        nvml: bool,
    },
    /// The keeper started us.
    Headless(HeadlessFront),
}

/// What a session is made of.
struct SessionParts {
    role: Role,
    mode: Mode,
    preferences: Preferences,
    clock: Clock,
    signals: Signals,
    keeper: Keeper,
    reports: Reports,
    environment: ProbeSetup,
    requests: ProbeRequests,
    events: (mpsc::Sender<Event>, mpsc::Receiver<Event>),
    recorder: Recorder,
    inputs: SessionInputs,
    /// What the recording says, for a session that has one already.
    state: State,
    handover: HandoverState,
    policy: Box<dyn Policy>,
    alert: Option<Alert>,
    notify: Option<UserSetting>,
    asks_nvml: bool,
    directories: Directories,
}

/// A session that is set up, and what is removed at its end.
struct Assembled {
    runtime: Runtime,
    inbox: Inbox,
    guard: SessionGuard,
}

impl Assembled {
    async fn run(self) -> anyhow::Result<Ending> {
        self.runtime.run(self.inbox, self.guard).await
    }
}

fn assemble(parts: SessionParts) -> Assembled {
    let SessionParts {
        clock,
        handover,
        keeper,
        ..
    } = parts;
    let (events_in, events) = parts.events;
    let scaled = handover.config.scaled;
    let (threads, thread_reports) = TaskThreads::new();
    let tell = threads.listener(ThreadReport::Problem);
    let messenger = Messenger::new(parts.alert, parts.notify.as_ref(), scaled, tell);
    let mut recorder = parts.recorder;
    recorder.tell(threads.listener(ThreadReport::Aloud));
    let spool = setup::follow_files(&handover, clock, &events_in);
    let host = setup::watch_host(keeper.pid(), &parts.state.host, clock, events_in.clone());
    let metrics = handover
        .config
        .metrics
        .as_ref()
        .map(|word| PathBuf::from(&word.0));
    let guard = SessionGuard {
        _nvml: (parts.asks_nvml)
            .then(|| setup::watch_nvml(handover.config.interval, clock, events_in.clone())),
        presence: reachable::tell_elsewhere(&handover, keeper.pid()),
        spool: handover
            .config
            .spool
            .as_ref()
            .map(|word| PathBuf::from(&word.0)),
        directories: parts.directories,
        released: false,
    };
    let place = FrontPlace {
        role: parts.role,
        has_screen: parts.mode == Mode::Screen,
        is_run_by_script: is_run_by_script(),
        minds_hang_up: !supervise::inherited().is_ignored(Signal::SIGHUP as i32),
        follows_files: spool.is_some(),
        tells_news: messenger.is_wanted(),
    };
    let reachable = Reachable::new(clock.now(), scaled);
    let recording = recorder.path().map(Path::to_path_buf);
    let mut session = Session::new(recording, parts.inputs, handover);
    session.state = parts.state;
    Assembled {
        inbox: Inbox::new(parts.reports, parts.signals, events, thread_reports),
        runtime: Runtime {
            controller: SessionController::new(session, parts.policy, place),
            display: Display::new(parts.mode, parts.preferences),
            clock,
            keeper,
            environment: parts.environment,
            requests: parts.requests,
            host,
            recorder,
            metrics: metrics.and_then(|path| MetricsFile::start(&path)),
            messenger,
            spool,
            events: events_in,
            threads,
            reachable,
            loss: KeeperState::of(parts.role),
        },
        guard,
    }
}

/// Whether a script runs us. An interactive shell gives every command a process group of its own; a
/// script's commands share the script's.
fn is_run_by_script() -> bool {
    GroupPlace::of_this_process() == GroupPlace::Member
}

/// Runs a session from the first launch to the end of the last run, on a runtime of its own, by
/// `policy` or else by what the options say.
pub(crate) fn run_to_end(
    options: SessionConfig,
    policy: Option<Box<dyn Policy>>,
) -> anyhow::Result<Ending> {
    on_a_runtime(async { start(options, policy)?.run().await })
}

/// Becomes the front of the keeper that `connect` reaches, until the session ends or continues without
/// us.
///
/// # Errors
/// Why that failed.
pub(crate) fn follow(
    arrival: Arrival,
    connect: impl FnOnce() -> anyhow::Result<(Keeper, Reports)>,
) -> anyhow::Result<Ending> {
    on_a_runtime(async { take_over(arrival, connect).await?.run().await })
}

fn on_a_runtime(front: impl Future<Output = anyhow::Result<Ending>>) -> anyhow::Result<Ending> {
    heap::keep_together();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context(NotBegun::EventLoop)?;
    let ending = runtime.block_on(front);
    // Blocking threads (NVML in a hung driver) must not hold the exit.
    runtime.shutdown_background();
    ending
}

/// Before the first run: sets everything up, in the order that delays the command least. Only two
/// things may prevent the run here: an error in oomph's own options, and a keeper that can't be
/// started.
fn start(mut options: SessionConfig, policy: Option<Box<dyn Policy>>) -> anyhow::Result<Assembled> {
    let clock = Clock::start();
    let mode = mode::choose(options.headless, &Surface::of_this_process());
    // Somebody sits there and expects a screen; without a terminal nobody does.
    if let Mode::Headless(why @ Reason::DumbTerminal) = mode {
        super::print::complain(&format!("no screen on this terminal: {}", why.words()));
    }
    // Before any thread is started: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal))
        .context(NotBegun::EventLoop)?;

    options.command = torch::configured(&options.command, options.alloc_conf.as_deref())?;
    let command = &options.command;
    let program = command.argv.first().context("no command given")?;
    let directories =
        Directories::create(program, Zoned::now().datetime(), &BaseDirs::of_this_user());
    let mut notes = directories.notes.clone();
    let setup::Begun {
        recorder,
        place: recording,
        moved: renamed,
    } = setup::record(&options.recording(), &directories, &mut notes)?;
    let channel = mpsc::channel(EVENTS);
    let requests = ProbeRequests::default();
    let socket = options
        .probe
        .then(|| {
            let (asked, told) = (requests.clone(), channel.0.clone());
            setup::listen(&directories, clock, asked, told, &mut notes)
        })
        .flatten();
    let place = directories.runtime.as_deref().zip(socket.as_deref());
    let reach = setup::reach(&options);
    let spool = setup::make_shared(&options, reach, &directories, &mut notes);
    let modules = setup::modules(reach, spool.as_deref());
    let unreachable = modules.as_ref().err().cloned();
    let place = place.filter(|_| unreachable.is_none());
    let modules = modules.ok().flatten();
    let (environment, problem) = ProbeSetup::prepare(
        &options,
        &directories.id,
        place,
        spool.as_deref(),
        modules.as_deref(),
    );
    let spool = setup::kept(&environment, spool);

    let log = setup::output_log(&recording, &directories);
    if options.announce {
        setup::announce(&directories.id);
    }
    let (keeper, reports) = Keeper::start(&Setup {
        log: log.clone(),
        io: match mode {
            Mode::Screen => Io::Screen,
            Mode::Headless(_) => Io::PassThrough,
        },
        timing: KeeperTimeouts::scaled(options.scaled),
        forwarding: options.forward,
        input: match policy.as_ref().is_some_and(|policy| policy.runs_again())
            || reads_standard_input(command)
        {
            true => PipedInput::Kept,
            false => PipedInput::Inherited,
        },
    })
    .context(NotBegun::Keeper)?;
    let policy = policy.unwrap_or_else(|| {
        let has_person = mode == Mode::Screen;
        let chosen = policy::chosen(options.on_oom, has_person, &options.auto);
        match options.hold && has_person {
            true => policy::holding(chosen),
            false => chosen,
        }
    });
    let first = RunNumber::FIRST;
    let ordered = keeper.send(KeeperOrder::Launch(Launch {
        run: first,
        command: environment.around(command, first, policy.rehearses()),
        size: match mode {
            Mode::Screen => first_child_size(),
            Mode::Headless(_) => terminal_size(),
        },
    }));
    // A keeper that is gone by now has started nothing.
    ordered.context(NotBegun::Keeper)?;

    // The command is starting; the rest isn't urgent.
    let settings = config::read(&command.cwd);
    notes.extend(settings.problems.iter().cloned());
    let (inputs, problems) = SessionInputs::at_start(&settings);
    let inputs = inputs.with_copies(directories.state.clone());
    notes.extend(problems);
    let mut completed = options.clone();
    notes.extend(completed.complete(&settings));
    let header = options.first_line(&directories.id, clock, place.is_some());
    let handover = HandoverState {
        header: header.clone(),
        runtime: directories.runtime.as_deref().map(Word::from),
        state: directories.state.as_deref().map(Word::from),
        recording: (recorder.path())
            .and_then(|path| std::path::absolute(path).ok())
            .map(|path| Word::from(path.as_path())),
        modules: modules.as_deref().map(Word::from),
        python_path: std::env::var_os("PYTHONPATH").map(Word),
        surroundings: inputs.surroundings(),
        began: SystemTime::now(),
        began_on_screen: mode == Mode::Screen,
        rules: SignalRules {
            in_slurm_step: supervise::step_is_signalled(
                std::env::var_os("SLURM_STEP_ID").as_deref(),
            ),
            forwarding: options.forward,
            on_hup: options.on_hup,
        },
        chosen: chosen_before(&options),
        prediction: (options.start_again.as_ref()).and_then(|again| again.prediction.clone()),
        numerics: None,
        told: SentNotifications::default(),
        job_ends: requeue::job_ends(),
        undone: UndoneChanges::default(),
        baselines: BTreeMap::new(),
        log: log.as_deref().map(Word::from),
        // As it came to be, for whoever takes over.
        config: SessionConfig {
            probe: environment.has_probe(),
            spool: spool.as_deref().map(Word::from),
            snapshot: environment.snapshot().map(Word::from),
            metrics: (options.metrics.as_ref())
                .and_then(|path| std::path::absolute(&path.0).ok())
                .map(|path| Word::from(path.as_path())),
            summary: (options.summary.as_ref())
                .and_then(|path| std::path::absolute(&path.0).ok())
                .map(|path| Word::from(path.as_path())),
            ..options.clone()
        },
    };
    let mut events = vec![EventKind::SessionStarted(header)];
    events.extend((!options.nvml).then_some(EventKind::Nvml(NvmlState::Off)));
    let mut assembled = assemble(SessionParts {
        role: Role::First,
        mode,
        preferences: mode::preferences(completed.theme, completed.mouse),
        clock,
        signals,
        keeper,
        reports,
        environment,
        requests,
        events: channel,
        recorder,
        inputs,
        state: State::default(),
        handover,
        policy,
        alert: completed.alert,
        notify: settings.notify,
        asks_nvml: options.nvml,
        directories: directories.clone(),
    });
    launch_facts::tell(command, clock, assembled.runtime.events.clone());
    let front = &mut assembled.runtime;
    let remember = KeeperOrder::Remember(front.session().handover.text());
    let refused = front.order(remember);
    let unfound = front.be_found(&directories);
    front.handle(Message::Begun {
        events,
        notes: Vec::new(),
    });
    let messages = refused.into_iter().chain(unfound);
    messages.for_each(|message| front.handle(message));
    if options.probe && directories.runtime.is_none() {
        front
            .display
            .say("no probe: there is no directory for its socket; `oomph help run` has OOMPH_RUNTIME_DIR".into());
    }
    let replaced = options
        .probe
        .then(|| python_path::replaced(command))
        .flatten();
    let said = renamed.into_iter().chain(unreachable).chain(problem);
    for words in said.chain(replaced) {
        notes.push(words.clone());
        front.display.say(words);
    }
    front.handle(Message::Begun {
        events: Vec::new(),
        notes,
    });
    Ok(assembled)
}

/// The remedies of the first run, in words, and its predicted peak: of a command that is started again.
fn chosen_before(options: &SessionConfig) -> (Vec<String>, Option<Bytes>) {
    let again = options.start_again.clone().unwrap_or_default();
    (again.remedies, again.prediction.and_then(|said| said.peak))
}

/// Takes the place of the keeper's front.
async fn take_over(
    arrival: Arrival,
    connect: impl FnOnce() -> anyhow::Result<(Keeper, Reports)>,
) -> anyhow::Result<Assembled> {
    // Before any thread is started: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal))?;
    let mode = match arrival {
        Arrival::Headless(_) => Mode::Headless(Reason::Asked),
        Arrival::Attached { .. } => mode::choose(false, &Surface::of_this_process()),
    };
    if let (Arrival::Attached { .. }, Mode::Headless(reason)) = (arrival, mode) {
        bail!(
            "attach needs a terminal ({}); `oomph logs -f` follows the output",
            reason.words()
        );
    }
    let (keeper, mut reports) = connect()?;
    let (status, recent) = tokio::time::timeout(WELCOME_WITHIN, welcome(&mut reports))
        .await
        .context("the session's keeper does not answer; it may be stopped")??;
    let handover = (status.memory.as_deref())
        .and_then(|text| HandoverState::read(text).ok())
        .context("the session was started by another version of oomph; attach with that one")?;
    Ok(settle_in(AttachHandshake {
        arrival,
        mode,
        keeper,
        reports,
        signals,
        handover,
        status,
        recent,
    }))
}

/// The keeper's first two reports.
async fn welcome(reports: &mut Reports) -> anyhow::Result<(SessionStatus, Vec<u8>)> {
    let Some(KeeperReport::Welcome(status)) = reports.next().await else {
        bail!("the session has just ended, or another `oomph attach` was faster");
    };
    let Some(KeeperReport::Recent(recent)) = reports.next().await else {
        bail!("the session has just ended");
    };
    Ok((status, recent))
}

/// A session that has another front by now.
struct AttachHandshake {
    arrival: Arrival,
    mode: Mode,
    keeper: Keeper,
    reports: Reports,
    signals: Signals,
    handover: HandoverState,
    status: SessionStatus,
    recent: Vec<u8>,
}

fn settle_in(place: AttachHandshake) -> Assembled {
    let handover = place.handover;
    let clock = Clock::with_origin(handover.header.monotonic);
    let mut notes = Vec::new();
    let state = handover
        .recording()
        .and_then(|path| replayed(path, &mut notes));
    let recorded = state.is_some();
    let recorder = match handover.recording().filter(|_| recorded) {
        Some(path) => Recorder::resume(path, RecorderOptions::default()).unwrap_or_else(|error| {
            notes.push(format!("{error:#}; the session is no longer recorded"));
            Recorder::off()
        }),
        None => Recorder::off(),
    };
    let directories = handover.directories();
    let requests = ProbeRequests::default();
    let channel = mpsc::channel(EVENTS);
    if let Some(path) = directories.probe_socket().filter(|_| handover.config.probe) {
        match probe_socket::take_over(&path) {
            Ok(listener) => {
                let serve =
                    probe_socket::serve(listener, clock, requests.clone(), channel.0.clone());
                tokio::spawn(serve);
            }
            Err(error) => notes.push(format!("the probes cannot reach this front: {error}")),
        }
    }
    let asks_nvml = handover.header.nvml
        && match place.arrival {
            Arrival::Attached { nvml } => nvml,
            Arrival::Headless(HeadlessFront::Follows) => true,
            // The previous front may have crashed in the driver's library.
            Arrival::Headless(HeadlessFront::Replaces) => false,
        };
    let settings = config::read(&handover.config.command.cwd);
    let (inputs, problems) = SessionInputs::again(handover.surroundings.clone(), &settings);
    notes.extend(problems);
    let mut completed = handover.config.clone();
    notes.extend(completed.complete(&settings));
    let role = match place.arrival {
        Arrival::Attached { .. } => Role::Attached,
        Arrival::Headless(_) => Role::Headless,
    };
    let environment = ProbeSetup::found(&handover);
    let has_person = place.mode == Mode::Screen || handover.began_on_screen;
    let state = state.unwrap_or_else(|| {
        let mut state = State::default();
        let what = EventKind::SessionStarted(handover.header.clone());
        let at = Moment::ZERO;
        state.apply(&Event { at, what });
        state
    });
    let mut assembled = assemble(SessionParts {
        role,
        mode: place.mode,
        preferences: mode::preferences(completed.theme, completed.mouse),
        clock,
        signals: place.signals,
        keeper: place.keeper,
        reports: place.reports,
        environment,
        requests,
        events: channel,
        recorder,
        inputs,
        state,
        policy: policy::chosen(handover.config.on_oom, has_person, &handover.config.auto),
        handover,
        alert: completed.alert,
        notify: settings.notify,
        asks_nvml,
        directories,
    });
    assembled
        .runtime
        .handle(Message::TakenOver(Box::new(TakenOver {
            asks_nvml,
            words: match place.arrival {
                Arrival::Attached { .. } => "a screen was attached",
                Arrival::Headless(HeadlessFront::Follows) => {
                    "the session continues without a screen"
                }
                Arrival::Headless(HeadlessFront::Replaces) => {
                    "the front was lost; the session continues without a screen and without NVML"
                }
            },
            notes,
            status: place.status,
            recent: place.recent,
        })));
    assembled
}

/// Replays the recording; `None` if it can't be read.
fn replayed(path: &Path, notes: &mut Vec<String>) -> Option<State> {
    match recording::read(path) {
        Ok(events) => {
            let mut state = State::default();
            events.flatten().for_each(|event| state.apply(&event));
            state.session.is_some().then_some(state)
        }
        Err(error) => {
            notes.push(format!("the session's history is unavailable: {error}"));
            None
        }
    }
}
