//! Sessions as sequences of messages, with the time passed in.

mod program_text;
mod recorded_again;

use super::*;
use crate::command::CommandLine;
use crate::event::{Job, ProbeGone, SCHEMA, SessionStarted};
use crate::live::config::HandoverState;
use crate::live::policy::{self, auto};
use crate::live::session::inputs::SessionInputs;
use crate::live::{OnOom, SessionConfig, news};
use crate::oom::OomReport;
use crate::state::tests::staged::{gib, hello, reading, record, sample, step};
use crate::supervise::{Forwarding, TrainerStreams};
use std::collections::BTreeMap;
use std::time::SystemTime;

const PID: i32 = 100;

fn handover(on_oom: Option<OnOom>) -> HandoverState {
    let command = CommandLine {
        argv: vec!["python".into(), "train.py".into()],
        env: Vec::new(),
        cwd: "/nowhere".into(),
    };
    HandoverState {
        header: SessionStarted {
            id: "train-1".into(),
            wall: 1e9,
            monotonic: 0,
            schema: SCHEMA,
            version: "0".into(),
            command: command.clone(),
            probe: true,
            nvml: true,
            job: Job::read(|_| None),
            host: None,
            again_of: None,
        },
        runtime: Some("/nowhere".into()),
        state: None,
        recording: None,
        modules: None,
        python_path: None,
        surroundings: Default::default(),
        began: SystemTime::UNIX_EPOCH,
        began_on_screen: true,
        rules: SignalRules {
            in_slurm_step: false,
            forwarding: Forwarding::Auto,
            on_hup: OnHup::Keep,
        },
        job_ends: None,
        chosen: Default::default(),
        prediction: None,
        numerics: None,
        log: None,
        told: news::SentNotifications::default(),
        config: SessionConfig {
            command,
            on_oom,
            ..SessionConfig::default()
        },
        undone: Default::default(),
        baselines: BTreeMap::new(),
    }
}

/// A session that is told what happens, and when.
struct DrivenSession {
    controller: SessionController,
    now: Moment,
}

impl DrivenSession {
    fn new(on_oom: OnOom) -> DrivenSession {
        DrivenSession::of(on_oom, handover(Some(on_oom)))
    }

    fn of(on_oom: OnOom, handover: HandoverState) -> DrivenSession {
        let header = handover.header.clone();
        let session = Session::new(None, SessionInputs::default(), handover);
        let policy = policy::chosen(Some(on_oom), true, &auto::AutoOptions::default());
        let place = FrontPlace {
            role: Role::First,
            has_screen: on_oom == OnOom::Ask,
            is_run_by_script: false,
            minds_hang_up: true,
            follows_files: false,
            tells_news: false,
        };
        let mut told = DrivenSession {
            controller: SessionController::new(session, policy, place),
            now: Moment::ZERO,
        };
        told.tell(Message::Begun {
            events: vec![EventKind::SessionStarted(header)],
            notes: Vec::new(),
        });
        told
    }

    /// One whose run has started, with a screen if there is to be one.
    fn running(on_oom: OnOom) -> DrivenSession {
        let mut told = DrivenSession::new(on_oom);
        let effects = told.start(1);
        if effects
            .iter()
            .any(|of| matches!(of, SessionEffect::EnterScreen))
        {
            told.tell(Message::ScreenEntered);
        }
        told
    }

    fn start(&mut self, run: u32) -> Vec<SessionEffect> {
        self.tell(Message::Report(KeeperReport::Started {
            run: RunNumber(run),
            pid: Pid(PID),
            start_time: 1,
            streams: TrainerStreams::default(),
        }))
    }

    fn exit(&mut self, code: i32) -> Vec<SessionEffect> {
        self.tell(Message::Report(KeeperReport::Exited {
            run: self.controller.session.run_number(),
            exit: Exit::Code(code),
            left: Vec::new(),
        }))
    }

    /// What follows at once.
    fn tell(&mut self, message: Message) -> Vec<SessionEffect> {
        update(&mut self.controller, self.now, message)
    }

    /// What follows once so much time has passed.
    fn wait(&mut self, milliseconds: u64) -> Vec<SessionEffect> {
        let mut effects = self.wait_for_probes(milliseconds);
        // As where no probe is connected.
        if self.controller.phase().hears_out() {
            effects.extend(self.tell(Message::HeardOut));
            effects.extend(self.tell(Message::Tick));
        }
        effects
    }

    /// The same while probes may be connected that have said nothing yet.
    fn wait_for_probes(&mut self, milliseconds: u64) -> Vec<SessionEffect> {
        self.now = self.now + Duration::from_millis(milliseconds);
        self.tell(Message::Tick)
    }

    fn happen(&mut self, what: EventKind) -> Vec<SessionEffect> {
        let at = self.now;
        self.tell(Message::Events(vec![Event { at, what }]))
    }

    fn run_out(&mut self) -> Vec<SessionEffect> {
        self.happen(EventKind::OomText(OomReport::default()))
    }

    fn phase(&self) -> PhaseName {
        self.controller.phase.name()
    }
}

fn orders(effects: &[SessionEffect]) -> Vec<KeeperOrder> {
    let order = |effect: &SessionEffect| match effect {
        SessionEffect::Order(KeeperOrder::Remember(_) | KeeperOrder::Describe(_)) => None,
        SessionEffect::Order(order) => Some(order.clone()),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

/// The ids of the tasks that begin, by the names of their threads.
fn begun(effects: &[SessionEffect], name: &str) -> Vec<TaskId> {
    let named = |effect: &&SessionEffect| format!("{effect:?}").ends_with(&format!(", {name}))"));
    let id = |effect: &SessionEffect| match effect {
        SessionEffect::Begin(task) => Some(task.id),
        _ => None,
    };
    effects.iter().filter(named).filter_map(id).collect()
}

fn looked_up() -> TaskResult {
    TaskResult::LookedUp(Box::default())
}

fn nothing_earlier() -> TaskResult {
    TaskResult::Earlier(Default::default())
}

#[test]
fn a_run_that_ends_well_ends_the_session_as_it_did() {
    let mut told = DrivenSession::running(OnOom::Ask);
    assert_eq!(told.phase(), PhaseName::Running);
    told.exit(0);
    assert_eq!(told.phase(), PhaseName::Settling);
    told.wait(0);
    let ending = Ending::Like(Exit::Code(0));
    let leaving = told.controller.phase.leaving();
    assert_eq!(leaving, Some((ending, Departure::Ended)));
}

#[test]
fn the_last_words_of_a_probe_are_awaited_longer_if_its_process_is_dead() {
    let says_hello = || {
        let mut told = DrivenSession::running(OnOom::Exit);
        told.happen(hello(1, PID, None));
        told.exit(0);
        told
    };
    let mut alive = says_hello();
    let looks = alive.wait(39);
    let asked = looks.iter().find_map(|effect| match effect {
        SessionEffect::LookAtProcesses(pids) => Some(pids.clone()),
        _ => None,
    });
    assert_eq!(asked, Some(vec![Pid(PID)]));
    alive.tell(Message::Gone(Vec::new()));
    assert_eq!(alive.phase(), PhaseName::Settling);
    alive.wait(1);
    assert_ne!(alive.phase(), PhaseName::Settling);

    let mut dead = says_hello();
    // What else is done at the end may take longer than one that lives is waited for: it is looked at first.
    dead.wait(100);
    assert_eq!(dead.phase(), PhaseName::Settling);
    dead.tell(Message::Gone(vec![Pid(PID)]));
    dead.wait(1_899);
    assert_eq!(dead.phase(), PhaseName::Settling);
    assert!(dead.controller.next_wake().is_some());
    dead.happen(EventKind::ProbeGone(ProbeGone {
        pid: Pid(PID),
        reason: None,
        said_end: false,
    }));
    dead.wait(0);
    assert_ne!(dead.phase(), PhaseName::Settling, "it has said all");
}

#[test]
fn a_program_that_ended_before_its_probe_was_read_is_heard_out() {
    let mut told = DrivenSession::running(OnOom::Exit);
    told.exit(0);
    told.wait_for_probes(0);
    assert!(told.controller.phase().hears_out());
    told.wait_for_probes(1_900);
    assert_eq!(told.phase(), PhaseName::Settling);
    told.happen(hello(1, PID, None));
    told.happen(EventKind::ProbeGone(ProbeGone {
        pid: Pid(PID),
        reason: None,
        said_end: false,
    }));
    told.tell(Message::HeardOut);
    told.wait_for_probes(0);
    assert_ne!(told.phase(), PhaseName::Settling);
    let ranks = told
        .controller
        .session
        .state
        .run()
        .map(|run| run.ranks.len());
    assert_eq!(ranks, Some(1));

    let mut mute = DrivenSession::running(OnOom::Exit);
    mute.exit(0);
    mute.wait_for_probes(2_000);
    assert_ne!(mute.phase(), PhaseName::Settling, "but not for ever");
}

#[test]
fn a_dialog_leads_to_another_run_once_the_memory_is_free() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let effects = told.run_out();
    let looking = begun(&effects, "look-up");
    assert_eq!(looking.len(), 1);
    told.exit(1);
    let earlier = begun(&told.wait(0), "earlier");
    assert_eq!(
        told.phase(),
        PhaseName::Deciding,
        "the disk was not read yet"
    );
    // While this is said no dialog opens: there is nothing to choose.
    assert!(told.controller.session.waiting().is_some());
    // What has happened since it began is looked up as well.
    let again = told.tell(Message::Done((looking[0], Some(looked_up()))));
    let again = begun(&again, "look-up");
    told.wait(5);
    assert_eq!(told.phase(), PhaseName::Deciding);
    told.tell(Message::Done((again[0], Some(looked_up()))));
    told.wait(0);
    assert_eq!(
        told.phase(),
        PhaseName::Deciding,
        "earlier sessions are being read"
    );
    told.tell(Message::Done((earlier[0], Some(nothing_earlier()))));
    told.wait(0);
    assert_eq!(told.phase(), PhaseName::Asking);
    assert_eq!(told.controller.session.waiting(), None);

    let command = told.controller.session.command().clone();
    let relaunch = ui::Effect::Relaunch {
        remedies: Vec::new(),
        command: Some(command.clone()),
    };
    let effects = told.tell(Message::Chosen(relaunch));
    assert_eq!(orders(&effects), [KeeperOrder::Sweep]);
    told.tell(Message::Report(KeeperReport::Swept { left: Vec::new() }));
    assert_eq!(told.phase(), PhaseName::Gating);
    assert!(!told.wait(4_999).iter().any(is_launch), "too soon");
    let effects = told.wait(1);
    assert!(effects.iter().any(is_launch));
    assert_eq!(told.phase(), PhaseName::Starting);
    told.start(2);
    assert_eq!(told.phase(), PhaseName::Running);
    assert_eq!(told.controller.session.run_number(), RunNumber(2));
}

fn is_launch(effect: &SessionEffect) -> bool {
    matches!(effect, SessionEffect::Launch { run, .. } if *run == RunNumber(2))
}

/// A typed command that fails before it uses a device, on a machine without NVML: its relaunch waits for nothing.
#[test]
fn where_no_device_was_ever_known_a_relaunch_follows_at_once() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let command = told.controller.session.command().clone();
    told.tell(Message::Chosen(ui::Effect::Relaunch {
        remedies: Vec::new(),
        command: Some(command),
    }));
    told.exit(1);
    told.wait(0);
    let effects = told.tell(Message::Report(KeeperReport::Swept { left: Vec::new() }));
    assert!(effects.iter().any(is_launch), "{effects:?}");
    assert_eq!(told.phase(), PhaseName::Starting);
}

#[test]
fn a_disk_that_never_answers_holds_up_no_exit() {
    let mut told = DrivenSession::running(OnOom::Exit);
    told.run_out();
    told.exit(1);
    told.wait(0);
    assert_eq!(told.phase(), PhaseName::Deciding);
    let mut woken = 0;
    while told.phase() == PhaseName::Deciding {
        let wake = told
            .controller
            .next_wake()
            .expect("it does not wait forever");
        assert!(wake > told.now, "and does not spin");
        told.now = wake;
        told.tell(Message::Tick);
        woken += 1;
        assert!(woken < 10);
    }
    assert!(told.now <= Moment::ZERO + Duration::from_secs(10));
    let ending = Ending::Like(Exit::Code(1));
    assert_eq!(
        told.controller.phase.leaving(),
        Some((ending, Departure::Ended))
    );
}

#[test]
fn an_unattended_relaunch_takes_a_silent_disk_for_one_with_a_checkpoint() {
    let mut told = DrivenSession::running(OnOom::Auto);
    told.run_out();
    told.exit(1);
    told.wait(0);
    let said = told.wait(10_000);
    assert!(matches!(told.phase(), PhaseName::Leaving(_)), "{said:?}");
    assert!(told.controller.session.is_disk_silent());
    assert!(!said.iter().any(is_launch));
}

#[test]
fn a_stop_that_was_asked_for_before_the_run_started_ends_the_session_with_it() {
    let mut told = DrivenSession::new(OnOom::Ask);
    told.tell(Message::Report(KeeperReport::StopAsked { kill: false }));
    told.start(1);
    told.run_out();
    told.exit(143);
    told.wait(0);
    let ending = Ending::Like(Exit::Code(143));
    let leaving = told.controller.phase.leaving();
    assert_eq!(leaving, Some((ending, Departure::Ended)));
}

/// However early it was stopped: whoever asks oomph to end the run has stopped it.
#[test]
fn a_run_that_somebody_stopped_is_called_stopped() {
    let ended = |told: &mut DrivenSession, exit: Exit| {
        told.tell(Message::Report(KeeperReport::Exited {
            run: told.controller.session.run_number(),
            exit,
            left: Vec::new(),
        }));
    };
    let outcome = |told: &mut DrivenSession| {
        told.wait(0);
        told.controller.session.state.runs[0].outcome()
    };
    let killed = Exit::Signal(libc::SIGTERM);
    let mut told = DrivenSession::new(OnOom::Ask);
    told.tell(Message::Report(KeeperReport::StopAsked { kill: false }));
    told.start(1);
    ended(&mut told, killed);
    assert_eq!(outcome(&mut told), RunOutcome::Stopped, "oomph stop");
    let mut told = DrivenSession::new(OnOom::Ask);
    let quit = ui::Effect::Quit {
        stop_training: true,
    };
    let effects = told.tell(Message::Chosen(quit));
    assert_eq!(orders(&effects), [KeeperOrder::Stop]);
    told.start(1);
    ended(&mut told, killed);
    assert_eq!(outcome(&mut told), RunOutcome::Stopped, "q");
    for exit in [killed, Exit::Code(143)] {
        let mut told = DrivenSession::running(OnOom::Ask);
        ended(&mut told, exit);
        let signal = SentSignal::Plain(libc::SIGTERM);
        told.tell(Message::Report(KeeperReport::Signalled(signal)));
        assert_eq!(
            outcome(&mut told),
            RunOutcome::Stopped,
            "the signal came to both"
        );
    }
    let mut told = DrivenSession::running(OnOom::Ask);
    ended(&mut told, killed);
    assert_eq!(
        outcome(&mut told),
        RunOutcome::Failed(killed),
        "nobody asked"
    );
}

#[test]
fn keys_of_the_run_are_orders_at_once() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let effects = told.tell(Message::Chosen(ui::Effect::Interrupt));
    assert_eq!(orders(&effects), [KeeperOrder::Interrupt]);
    let effects = told.tell(Message::Chosen(ui::Effect::Quit {
        stop_training: true,
    }));
    assert_eq!(orders(&effects), [KeeperOrder::Stop]);
    assert_eq!(told.phase(), PhaseName::Running, "until it has ended");
    told.exit(143);
    told.wait(0);
    assert!(matches!(told.phase(), PhaseName::Leaving(_)));
}

#[test]
fn leaving_and_being_replaced_are_not_the_end() {
    for (message, departure) in [
        (Message::TookLeave, Departure::Released),
        (
            Message::Report(KeeperReport::Superseded),
            Departure::Superseded,
        ),
    ] {
        let mut told = DrivenSession::running(OnOom::Ask);
        assert!(orders(&told.tell(message)).is_empty(), "the run goes on");
        assert_eq!(told.phase(), PhaseName::Leaving(departure));
        let stays = departure == Departure::Superseded;
        assert_eq!(told.controller.waits_behind(), stays);
    }
}

#[test]
fn a_lost_screen_leaves_the_run_alone() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let effects = told.tell(Message::HungUp);
    assert!(
        effects
            .iter()
            .any(|of| matches!(of, SessionEffect::LoseScreen))
    );
    assert!(orders(&effects).is_empty());
    assert_eq!(told.phase(), PhaseName::Running);
    assert!(told.tell(Message::HungUp).is_empty(), "once");
    // Nobody sees the dialog, but somebody can attach.
    let looking = begun(&told.run_out(), "look-up");
    told.exit(1);
    let earlier = begun(&told.wait(0), "earlier");
    told.tell(Message::Done((earlier[0], Some(nothing_earlier()))));
    let again = told.tell(Message::Done((looking[0], Some(looked_up()))));
    told.tell(Message::Done((begun(&again, "look-up")[0], None)));
    let effects = told.wait(0);
    assert_eq!(told.phase(), PhaseName::Asking);
    let says = |of: &SessionEffect| matches!(of, SessionEffect::SayThatItWaits(_));
    assert!(effects.iter().any(says));
}

#[test]
fn the_result_of_a_task_that_nobody_waits_for_changes_nothing() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let looking = begun(&told.run_out(), "look-up");
    told.tell(Message::Done((looking[0], Some(looked_up()))));
    let before = told.controller.session.remedies().len();
    let late = TaskResult::Remedies(Vec::new());
    assert!(
        told.tell(Message::Done((looking[0], Some(late))))
            .is_empty()
    );
    assert_eq!(told.controller.session.remedies().len(), before);
}

#[test]
fn a_dead_keeper_ends_the_session_with_the_run_that_goes_on() {
    let mut told = DrivenSession::running(OnOom::Exit);
    told.tell(Message::KeeperLost(KeeperLoss::RunGoesOn));
    assert_eq!(told.phase(), PhaseName::Running);
    told.tell(Message::KeeperLost(KeeperLoss::EndUnknown));
    let leaving = told.controller.phase.leaving();
    assert_eq!(leaving, Some((Ending::Code(OWN_FAILURE), Departure::Ended)));
}

#[test]
fn a_dead_keeper_with_nothing_to_keep_leaves_the_last_status() {
    let ended = |told: &DrivenSession| told.controller.phase.leaving();
    let mut told = DrivenSession::running(OnOom::Ask);
    told.exit(1);
    told.tell(Message::KeeperLost(KeeperLoss::NothingRan));
    let status = Ending::Like(Exit::Code(1));
    assert_eq!(ended(&told), Some((status, Departure::Ended)));
}

#[test]
fn the_time_of_an_event_is_that_of_its_message() {
    let mut told = DrivenSession::running(OnOom::Ask);
    told.now = Moment::ZERO + Duration::from_secs(7);
    let effects = told.tell(Message::Note(Level::Info, "now".into()));
    let [SessionEffect::Record(event)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(event.at, told.now);
}

/// Which lines grow is known from two traced steps: the second is asked for as soon as growth is seen, and nobody is held up.
#[test]
fn where_memory_grows_a_step_is_traced() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let asked = asked_while_it_grows(&mut told, 1..=60, 0.05);
    let words = format!("{asked:?}");
    assert!(
        matches!(asked[..], [(Pid(PID), ProbeRequest::Trace)]),
        "{words}"
    );
}

#[test]
fn how_far_the_batch_could_have_gone_is_recorded_when_the_run_has_ended() {
    let mut handover = handover(Some(OnOom::Exit));
    let batch = ["--batch-size", "64"].map(Into::into);
    handover.config.command.argv.extend(batch);
    let mut told = DrivenSession::of(OnOom::Exit, handover);
    told.start(1);
    asked_while_it_grows(&mut told, 1..=60, 0.0);
    let room = told.controller.session.room_for_batch();
    let room = room.expect("room on 24 GiB for what peaks at 3");
    told.happen(EventKind::ProbeGone(ProbeGone {
        pid: Pid(PID),
        reason: None,
        said_end: true,
    }));
    told.exit(0);
    told.wait(40);
    assert_ne!(told.phase(), PhaseName::Settling);
    let notes = &told.controller.session.state.notes;
    let words = format!(
        "a batch of {} may fit ({} ran)",
        room.batch_words(),
        room.now_words()
    );
    let recorded = notes
        .iter()
        .filter(|(_, note)| note.about == Some(NoteSubject::Room));
    let recorded: Vec<&str> = recorded.map(|(_, note)| note.text.as_str()).collect();
    assert_eq!(recorded, [words]);
}

/// What the probe is asked while each of these steps leaves so many GiB more.
fn asked_while_it_grows(
    told: &mut DrivenSession,
    steps: std::ops::RangeInclusive<u32>,
    by: f64,
) -> Vec<(Pid, ProbeRequest)> {
    if *steps.start() == 1 {
        told.happen(hello(1, PID, None));
    }
    let mut asked = Vec::new();
    for n in steps {
        told.now = told.now + Duration::from_millis(300);
        let baseline = gib(1.0 + by * f64::from(n));
        let mut held = sample(PID, 0, baseline, baseline + gib(2.2));
        held.allocated_peak = baseline + gib(2.0);
        let mut effects = told.happen(EventKind::Sample(held));
        effects.extend(told.happen(step(PID, u64::from(n), baseline, baseline + gib(2.0))));
        let used = baseline + gib(2.7);
        effects.extend(told.happen(EventKind::Device(reading(&[(PID, used)]))));
        effects.extend(told.tell(Message::Tick));
        asked.extend(effects.into_iter().filter_map(|effect| match effect {
            SessionEffect::AskProbe(pid, request) => Some((pid, request)),
            _ => None,
        }));
    }
    asked
}

/// Who keeps the memory is looked for while there is time: before the GPU is full, and before the growth is certainly a leak. It is
/// not looked for again once there is a name.
#[test]
fn who_keeps_what_grows_is_looked_for_before_memory_runs_out() {
    let searches = |asked: &[(Pid, ProbeRequest)]| {
        let of = |(_, request): &&(Pid, ProbeRequest)| matches!(request, ProbeRequest::Retainers);
        asked.iter().filter(of).count()
    };
    let mut told = DrivenSession::running(OnOom::Ask);
    let early = asked_while_it_grows(&mut told, 1..=30, 0.25);
    assert_eq!(searches(&early), 0, "{early:?}");
    let later = asked_while_it_grows(&mut told, 31..=46, 0.25);
    assert_eq!(searches(&later), 1, "{later:?}");
    let mut named = told;
    let found = crate::event::Retainers {
        pid: Pid(PID),
        step: 44,
        retainers: vec![crate::event::Retainer {
            name: "history".into(),
            kind: crate::event::RetainerKind::Attribute,
            ..crate::event::Retainer::default()
        }],
        ..crate::event::Retainers::default()
    };
    named.happen(EventKind::Retainers(Box::new(found)));
    let last = asked_while_it_grows(&mut named, 47..=78, 0.25);
    assert_eq!(searches(&last), 0, "{last:?}");
    // Without a name once more, when it is certain.
    let mut told = DrivenSession::running(OnOom::Ask);
    let all = asked_while_it_grows(&mut told, 1..=78, 0.25);
    assert_eq!(searches(&all), 2, "{all:?}");
}

/// What is free while memory grows is no larger batch's, though a step that was replayed would have fitted with one.
#[test]
fn no_larger_batch_is_offered_while_memory_grows() {
    use crate::forecast::{BatchRoom, RoomBasis, TracedHint};
    let offered = |per_step: f64| {
        let mut told = DrivenSession::running(OnOom::Ask);
        asked_while_it_grows(&mut told, 1..=46, per_step);
        let session = &mut told.controller.session;
        session.hints.found = Some(TracedHint::Gain(BatchRoom {
            now: 4,
            could: 9,
            basis: RoomBasis::Peaks,
            is_alone: false,
            parts: 1,
        }));
        session.give_hint();
        session.room_for_batch().is_some()
    };
    assert!(offered(0.0));
    assert!(!offered(0.25));
}

#[test]
fn an_oom_that_the_program_has_survived_has_its_remedies() {
    let mut told = DrivenSession::running(OnOom::Ask);
    let at = |allocated: f64| sample(PID, 0, gib(allocated), gib(22.0));
    told.happen(hello(1, PID, None));
    told.happen(EventKind::Sample(at(20.0)));
    let failed = record(PID, gib(20.0), gib(22.0), gib(4.0), gib(1.0));
    let looking = begun(&told.happen(EventKind::Oom(failed)), "look-up");
    told.wait(200);
    // It goes on: its next step ends.
    told.happen(step(PID, 1, gib(2.0), gib(8.0)));
    told.tell(Message::Done((looking[0], Some(looked_up()))));
    let session = &told.controller.session;
    assert!(session.state.oom().is_none() && session.state.explained_oom().is_some());
    let inputs = session.remedy_inputs();
    assert!(inputs.cause().is_some());
    assert!(!session.remedies().is_empty());
    for remedy in session.remedies() {
        let told = format!("{:?} {:?}", remedy.availability, remedy.expectation);
        assert!(!told.contains("once memory has run out"), "{told}");
    }
    // What explains it stays when the run ends well.
    told.controller.session.diagnose();
    assert!(told.controller.session.findings.is_empty());
    assert!(told.controller.session.remedy_inputs().cause().is_some());
}

/// A slip in the second command ends it before it has a GPU; what the first one held is what is waited for.
#[test]
fn the_device_to_wait_for_is_that_of_the_run_that_had_one() {
    let mut told = DrivenSession::running(OnOom::Ask);
    told.happen(hello(1, PID, None));
    told.happen(EventKind::Sample(sample(PID, 0, gib(1.0), gib(2.0))));
    let devices = |told: &DrivenSession| told.controller.session.devices_of_last_run();
    let of_first = devices(&told);
    assert!(!of_first.is_empty());
    told.exit(1);
    told.happen(crate::state::tests::staged::started(
        2,
        PID + 1,
        "python trian.py",
    ));
    assert_eq!(devices(&told), of_first);
}
