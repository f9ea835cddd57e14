//! Before the first run: sets everything up, in the order that delays the command least. Only two
//! things may prevent the run here: an error in oomph's own options, and a keeper that can't be
//! started.

use super::setup::SessionGuard;
use super::{EVENTS, Front, Sources, setup, spool};
use crate::collect::probe_socket::ProbeRequests;
use crate::command::Word;
use crate::config;
use crate::event::{Clock, EventKind, Job, Level, NvmlState, SCHEMA, SessionStarted};
use crate::live::RunOptions;
use crate::live::allocator;
use crate::live::display::Display;
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::{first_child_size, terminal_size};
use crate::live::display::theme;
use crate::live::link::{Link, ProbeSetup, Role};
use crate::live::news::{Messenger, ToldNews};
use crate::live::policy::{self, Policy};
use crate::live::session::{HandoverState, Session, SessionInputs};
use crate::live::signals::{SignalRules, Signals};
use crate::recognize::reads_standard_input;
use crate::recording::{BaseDirs, Directories, PidScope};
use crate::supervise::{self, Io, Keeper, KeeperOrder, KeeperTimeouts, Launch, PipedInput, Setup};
use crate::units::RunNumber;
use anyhow::Context;
use jiff::Zoned;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tokio::sync::mpsc;

/// There is no keeper, and nothing of the command was started.
#[derive(Debug)]
pub(crate) struct NoKeeper;

impl std::fmt::Display for NoKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the keeper process could not be started")
    }
}

pub(super) fn start(
    options: RunOptions,
    policy: Option<Box<dyn Policy>>,
) -> anyhow::Result<(Front, Sources, SessionGuard)> {
    let clock = Clock::start();
    let mode = mode::choose(options.headless, &Surface::of_this_process());
    // Before any thread is started: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal))?;

    let command = allocator::configured(&options.command, options.alloc_conf.as_deref())?;

    let program = command.argv.first().context("no command given")?;
    let directories =
        Directories::create(program, Zoned::now().datetime(), &BaseDirs::of_this_user());
    let mut notes = directories.notes.clone();
    let setup::Begun {
        recorder,
        place: recording,
        moved: renamed,
    } = setup::record(&options.recording, &directories, &mut notes)?;
    let (events_in, events) = mpsc::channel(EVENTS);
    let requests = ProbeRequests::default();
    let socket = options
        .probe
        .then(|| {
            let (asked, told) = (requests.clone(), events_in.clone());
            setup::listen(&directories, clock, asked, told, &mut notes)
        })
        .flatten();
    let place = directories.runtime.as_deref().zip(socket.as_deref());
    let reach = spool::reach(&options);
    let spool = spool::make(&options, reach, &directories, &mut notes);
    let modules = spool::modules(reach, spool.as_deref());
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
    notes.extend(problem);
    let spool = spool::kept(&environment, spool);

    let log = setup::output_log(&recording, &directories);
    let (keeper, reports) = Keeper::start(&Setup {
        log: log.clone(),
        io: match mode {
            Mode::Screen => Io::Screen,
            Mode::Headless(_) => Io::PassThrough,
        },
        timing: KeeperTimeouts::scaled(options.scaled),
        forwarding: options.forward,
        input: match policy.as_ref().is_some_and(|policy| policy.runs_again())
            || reads_standard_input(&command)
        {
            true => PipedInput::Kept,
            false => PipedInput::Inherited,
        },
    })
    .context(NoKeeper)?;
    let policy = policy.unwrap_or_else(|| {
        let has_person = mode == Mode::Screen;
        let chosen = policy::chosen(options.on_oom, has_person, &options.auto);
        match options.hold && has_person {
            true => policy::holding(chosen),
            false => chosen,
        }
    });
    let first = RunNumber::FIRST;
    keeper.send(KeeperOrder::Launch(Launch {
        run: first,
        command: environment.around(&command, first, policy.rehearses()),
        size: match mode {
            Mode::Screen => first_child_size(),
            Mode::Headless(_) => terminal_size(),
        },
    }))?;

    // The command is starting; the rest isn't urgent.
    let settings = config::read(&command.cwd);
    notes.extend(settings.problems.iter().cloned());
    let (inputs, problems) = SessionInputs::at_start(&settings);
    let inputs = inputs.with_copies(directories.state.clone());
    notes.extend(problems);
    let (theme, problem) = theme::chosen(options.theme, &settings);
    notes.extend(problem);
    let (messenger, problem) = Messenger::new(options.alert, &settings, options.scaled);
    notes.extend(problem);
    let header = SessionStarted {
        id: directories.id.clone(),
        wall: Zoned::now().timestamp().as_microsecond() as f64 / 1e6,
        monotonic: clock.origin_us(),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        command: command.without_secrets(),
        probe: place.is_some(),
        nvml: options.nvml,
        job: Job::of(|name| std::env::var(name).ok()),
        host: Some(PidScope::here().host().to_string()),
    };
    let handover = HandoverState {
        header: header.clone(),
        runtime: directories.runtime.as_deref().map(Word::from),
        state: directories.state.as_deref().map(Word::from),
        recording: (recorder.path())
            .and_then(|path| std::path::absolute(path).ok())
            .map(|path| Word::from(path.as_path())),
        probe: environment.has_probe(),
        spool: spool.as_deref().map(Word::from),
        modules: modules.as_deref().map(Word::from),
        lines: options.lines,
        snapshot: environment.snapshot().map(Word::from),
        interval: options.interval,
        python_path: std::env::var_os("PYTHONPATH").map(Word),
        surroundings: inputs.surroundings(),
        began: SystemTime::now(),
        on_oom: options.on_oom,
        auto: options.auto.clone(),
        began_on_screen: mode == Mode::Screen,
        rules: SignalRules {
            in_slurm_step: supervise::step_is_signalled(
                std::env::var_os("SLURM_STEP_ID").as_deref(),
            ),
            forwarding: options.forward,
            on_hup: options.on_hup,
        },
        scaled: options.scaled,
        command: command.clone(),
        chosen: Default::default(),
        prediction: None,
        alert: options.alert,
        told: ToldNews::default(),
        baselines: BTreeMap::new(),
        log: log.as_deref().map(Word::from),
        metrics: (options.metrics.as_deref())
            .and_then(|path| std::path::absolute(path).ok())
            .map(|path| Word::from(path.as_path())),
    };
    let nvml = options
        .nvml
        .then(|| setup::watch_nvml(options.interval, clock, events_in.clone()));
    let mut front = Front {
        display: Display::new(mode, theme),
        link: Link::new(Role::First, keeper, environment, requests, &handover),
        spool: spool::watch(&handover, clock, &events_in),
        session: Session::new(clock, recorder, inputs, handover),
        policy,
        messenger,
        events: events_in,
        looked: clock.now(),
        socket_seen: false,
        unreachable: false,
    };
    front.be_found(&directories, log.as_deref());
    front.session.record(EventKind::SessionStarted(header));
    if !options.nvml {
        front.session.record(EventKind::Nvml(NvmlState::Off));
    }
    if options.probe && directories.runtime.is_none() {
        front
            .display
            .say("no probe: there is no directory for its socket; `oomph help run` has OOMPH_RUNTIME_DIR".into());
    }
    for words in renamed.into_iter().chain(unreachable) {
        notes.push(words.clone());
        front.display.say(words);
    }
    for text in notes {
        front.session.note(Level::Warning, text);
    }
    let sources = Sources {
        reports,
        events,
        signals,
    };
    let guard = SessionGuard {
        _nvml: nvml,
        presence: front.tell_elsewhere(),
        spool,
        directories,
        released: false,
    };
    Ok((front, sources, guard))
}
