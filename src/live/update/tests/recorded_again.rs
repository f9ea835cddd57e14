//! What a remedy needs is one figure: the dialog's, and that of whoever reads the recording afterwards, which keeps only some of
//! the readings.

use super::*;
use crate::event::{LaunchFacts, Sample};
use crate::live::background_task::BackgroundTask;
use crate::live::recorded::EndedSession;
use crate::recording::{self, Recorder, RecorderOptions};
use crate::remedy::{self, Plan, Remedy, RemedyId};
use crate::state::State;
use crate::state::tests::staged::{StagedSession, record, text_of};
use std::collections::BTreeMap;

/// A session whose tasks are done at once, and which is recorded.
struct SessionOnFile {
    told: DrivenSession,
    recorder: Recorder,
}

impl SessionOnFile {
    fn new(path: &std::path::Path) -> SessionOnFile {
        let mut handover = handover(Some(OnOom::Ask));
        let batch = ["--batch-size", "64"].map(Into::into);
        handover.config.command.argv.extend(batch);
        handover.header.command = handover.config.command.clone();
        let header = EventKind::SessionStarted(handover.header.clone());
        let mut recorder = Recorder::create(path, RecorderOptions::default()).expect("a recorder");
        recorder.write(&Event {
            at: Moment::ZERO,
            what: header,
        });
        let told = DrivenSession::of(OnOom::Ask, handover);
        let mut session = SessionOnFile { told, recorder };
        let started = session.told.start(1);
        session.carry_out(started);
        session.happen(hello(1, PID, None));
        session
    }

    fn happen(&mut self, what: EventKind) {
        let effects = self.told.happen(what);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<SessionEffect>) {
        for effect in effects {
            match effect {
                SessionEffect::Record(event) => self.recorder.write(&event),
                SessionEffect::Begin(task) => self.work(task),
                _ => {}
            }
        }
    }

    fn work(&mut self, task: BackgroundTask) {
        let id = task.id;
        let result = task.done_here();
        let effects = self.told.tell(Message::Done((id, Some(result))));
        self.carry_out(effects);
    }

    /// A tenth of a second later.
    fn sample(&mut self, of: Sample) {
        self.told.now = self.told.now + Duration::from_millis(100);
        self.happen(EventKind::Sample(of));
    }
}

/// The remedies as they are told, and each figure to the byte.
fn told_of(remedies: &[Remedy]) -> Vec<String> {
    let figures = |remedy: &Remedy| format!("{:?} {:?}", remedy.id, remedy.expectation);
    remedies.iter().map(figures).collect()
}

#[test]
fn a_recording_offers_what_the_dialog_did() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events.jsonl");
    let mut session = SessionOnFile::new(&path);
    // Two minutes: the readings of the first are thinned out.
    for tenth in 0..1_200_u32 {
        let mut held = sample(PID, 0, gib(3.0), gib(9.0 + f64::from(tenth) / 1_000.0));
        held.allocated_peak = gib(8.0);
        held.inactive_split = Some(match tenth {
            // Between the ends of its second, and neither the most nor the least allocated.
            205 => gib(1.9),
            _ => gib(0.3),
        });
        held.allocated = match tenth % 10 {
            0 => gib(2.0),
            7 => gib(4.0),
            _ => gib(3.0),
        };
        // The cache is given back for the first time, long before memory runs out.
        held.alloc_retries = u64::from(tenth >= 435);
        session.sample(held);
        if tenth % 10 == 3 {
            let count = u64::from(tenth / 10 + 1);
            session.happen(step(PID, count, gib(2.0), gib(8.0)));
        }
    }
    let mut failed = record(PID, gib(22.0), gib(23.0), gib(1.0), gib(0.1));
    failed.step = 120;
    let text = text_of(&failed);
    session.happen(EventKind::Oom(failed));
    session.happen(EventKind::OomText(text));
    session.happen(EventKind::ProbeGone(ProbeGone {
        pid: Pid(PID),
        reason: None,
        said_end: false,
    }));
    let exited = session.told.exit(1);
    session.carry_out(exited);
    let waited = session.told.wait(40);
    session.carry_out(waited);
    let live = told_of(session.told.controller.session.remedies());
    assert_eq!(session.recorder.finish(Duration::from_secs(20)), Ok(()));

    let mut state = State::default();
    for event in recording::read(&path).expect("a recording") {
        state.apply(&event.expect("an event"));
    }
    let recorded = EndedSession::new(&state, None).expect("a run");
    assert_eq!(told_of(&recorded.remedies()), live);
    let needs = live.iter().filter(|told| told.contains("Bytes("));
    assert!(needs.count() >= 3, "{live:#?}");
    // What they rest on that only single readings show.
    let rank = |state: &State| state.runs[0].ranks[0].clone();
    let (then, again) = (rank(&session.told.controller.session.state), rank(&state));
    assert_eq!(again.inactive_split_peak, Some(gib(1.9)));
    assert_eq!(again.peaks_before_retry, then.peaks_before_retry);
    assert_eq!(again.reserved_peak, then.reserved_peak);
}

#[test]
fn what_a_remedy_adds_goes_beside_the_settings_that_the_session_was_started_with() {
    let name = "PYTORCH_CUDA_ALLOC_CONF";
    let launched = LaunchFacts {
        variables: BTreeMap::from([(name.into(), "roundup_power2_divisions:4".into())]),
        ..LaunchFacts::default()
    };
    let mut scene = StagedSession::training();
    scene
        .add(0.5, EventKind::LaunchFacts(Box::new(launched)))
        .add(
            2.0,
            EventKind::Oom(record(100, gib(14.0), gib(22.0), gib(1.0), gib(0.4))),
        );
    let recorded = EndedSession::new(&scene.state, None).expect("a run");
    let command = recorded.command().expect("its command");
    let all = remedy::remedies(command, &recorded.remedy_inputs());
    let segments = all
        .iter()
        .find(|each| each.id == RemedyId::ExpandableSegments);
    let shown = Plan::new(command, &[segments.expect("the remedy")]).command;
    let shown = shown.shown();
    let both = format!("{name}=roundup_power2_divisions:4,expandable_segments:True ");
    assert!(shown.starts_with(&both), "{shown}");
}
