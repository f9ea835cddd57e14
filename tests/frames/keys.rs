//! Every key of the table does what it says, and does nothing where it is not offered.

mod dialog;
mod mouse;
mod output;
mod steps;

use crate::frames::cases::CASES;
use crate::frames::story::Story;
use oomph::remedy::{Availability, Edit, RemedyId};
use oomph::ui::ActionReach;
use oomph::ui::keymap::{self, InputMode};
use oomph::ui::theme::UNICODE;
use oomph::ui::{
    Action, Effect, LaterRun, Pace, RanWell, RecordedOutput, Replay, ReplayControl, SeekTarget,
    ShownRun, Subject, Theme, View,
};
use oomph::units::{Bytes, Moment, RunNumber};
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

fn staged(name: &str) -> (Story, View) {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    case.staged(Theme::full(), 100, 30)
}

pub fn press(story: &Story, view: &mut View, code: KeyCode) -> Option<Effect> {
    story.scene(|scene| view.key(KeyEvent::new(code, KeyModifiers::NONE), scene))
}

fn control(story: &Story, view: &mut View, c: char) -> Option<Effect> {
    let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    story.scene(|scene| view.key(key, scene))
}

/// Which case shows which mode.
const MODES: [(&str, InputMode); 14] = [
    ("steady", InputMode::Watching),
    ("eight-ranks", InputMode::Watching),
    ("waiting", InputMode::Watching),
    ("oom-capacity", InputMode::Oom),
    ("edit", InputMode::Editing),
    ("quit", InputMode::Quitting),
    ("stop", InputMode::Stopping),
    ("help", InputMode::Helping),
    ("typing", InputMode::Typing),
    ("searching", InputMode::Searching),
    ("selecting", InputMode::Selecting),
    ("step", InputMode::Step),
    ("step-of-a-rank", InputMode::Step),
    ("step-none", InputMode::Step),
];

#[test]
fn every_key_that_is_offered_does_something_and_no_other() {
    for (name, mode) in MODES {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        let story = case.told();
        for binding in keymap::bindings(mode) {
            for key in binding.keys {
                let mut view = case.show(&story, Theme::full(), 100, 30);
                assert_eq!(view.mode(), mode, "{name}");
                // The same key may mean something else where this is not offered.
                let mut means = keymap::actions(mode, &key.event());
                let offered =
                    story.scene(|scene| means.any(|action| view.is_available(action, scene)));
                let before = format!("{view:?}");
                let effect = story.scene(|scene| view.key(key.event(), scene));
                let changed = effect.is_some() || format!("{view:?}") != before;
                // The pane that is there already.
                let is_there = matches!(binding.action, Action::ShowPane(_));
                if offered && binding.action.reach() != ActionReach::Moves && !is_there {
                    assert!(changed, "{name}: {} {}", key.name(&UNICODE), binding.help);
                }
                // It is said why nothing happens.
                let says_why = effect.is_none()
                    && matches!(mode, InputMode::Oom | InputMode::Watching | InputMode::Step);
                if !offered && !says_why {
                    assert!(!changed, "{name}: {} is not offered", key.name(&UNICODE));
                }
            }
        }
    }
}

#[test]
fn a_key_without_a_use_says_so_and_changes_nothing_else() {
    for (name, key, said) in [
        (
            "steady",
            'b',
            "b (smaller batch) is a key of the dialog that opens when memory runs out",
        ),
        ("steady", 'Q', "Q does nothing here; ? lists the keys"),
        (
            "steady",
            'c',
            "c: this is the first run: there is none to compare it with",
        ),
        ("step", 'Q', "Q does nothing here; ? lists the keys"),
    ] {
        let (story, mut view) = staged(name);
        let before = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
        assert_eq!(press(&story, &mut view, KeyCode::Char(key)), None);
        let now = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
        let footer = now.trim_end().lines().last().unwrap_or_default();
        assert!(footer.contains(said), "{name}: {now}");
        let rest = |text: &str| text.trim_end().lines().rev().skip(1).collect::<String>();
        assert_eq!(rest(&now), rest(&before), "{name}");
    }
    // Where the dialog was closed, its remedies' letters say how it is opened.
    let (story, mut view) = staged("oom-capacity");
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char('b'));
    let now = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(
        now.contains("b (smaller batch) is a key of the dialog: o opens it"),
        "{now}"
    );
}

#[test]
fn what_grows_is_one_key_away_where_the_screen_says_that_it_grows() {
    let (story, mut view) = staged("climbing");
    let text = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
    assert!(text(&view).contains("w what leaks"), "{}", text(&view));
    let asked = press(&story, &mut view, KeyCode::Char('w'));
    assert!(
        matches!(asked, Some(Effect::LookForRetainers(_))),
        "{asked:?}"
    );
    assert_eq!(view.mode(), InputMode::Step);
    let (story, view) = staged("steady");
    let calm = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(!calm.contains("w what leaks"), "{calm}");
}

#[test]
fn keys_that_ask_for_something_ask_for_that() {
    use KeyCode::{Char, Enter};
    let relaunch = |remedies: &[RemedyId]| {
        Some(Effect::Relaunch {
            remedies: remedies.to_vec(),
            command: None,
        })
    };
    let quit = |stop_training| Some(Effect::Quit { stop_training });
    for (name, keys, expected) in [
        ("oom-capacity", &[Enter][..], relaunch(&[RemedyId::Batch])),
        ("oom-capacity", &[Char('b')], relaunch(&[RemedyId::Batch])),
        (
            "oom-capacity",
            &[Char('e')],
            relaunch(&[RemedyId::ExpandableSegments]),
        ),
        ("oom-capacity", &[Char('a')], None),
        (
            "oom-capacity",
            &[Char(' '), Char('j'), Char(' '), Enter],
            relaunch(&[RemedyId::Batch, RemedyId::ExpandableSegments]),
        ),
        (
            "oom-capacity",
            &[Char(' '), Char('e')],
            relaunch(&[RemedyId::Batch, RemedyId::ExpandableSegments]),
        ),
        (
            "oom-capacity",
            &[Char('v'), Enter],
            relaunch(&[RemedyId::Batch]),
        ),
        ("oom-capacity", &[Char('q')], quit(true)),
        ("steady", &[Char('q')], None),
        ("steady", &[Char('q'), Char('s')], None),
        ("steady", &[Char('q'), Enter], None),
        ("steady", &[Char('q'), Char('l')], quit(false)),
        ("steady", &[Char('q'), Char('q')], None),
        ("steady", &[Char('K'), Enter], None),
        ("steady", &[Char('K'), Char('k')], None),
        ("steady", &[Char('v'), Enter], None),
        ("hanging", &[Enter], None),
        ("hanging", &[Char('b')], None),
        (
            "steady",
            &[Char('i'), Char('x')],
            Some(Effect::Input(b"x".to_vec())),
        ),
        ("steady", &[Char('M')], None),
        (
            "steady",
            &[Char('y')],
            Some(Effect::Copy(
                "python train.py --batch-size 32 --grad-accum 2".into(),
            )),
        ),
        ("gate", &[Char('v')], None),
    ] {
        let (story, mut view) = staged(name);
        let mut effect = None;
        for key in keys {
            effect = press(&story, &mut view, *key);
        }
        assert_eq!(effect, expected, "{name}: {keys:?}");
    }
}

#[test]
fn what_ends_a_running_training_takes_a_key_that_is_in_no_text() {
    let ends = |name, keys: &[KeyCode], last| {
        let (story, mut view) = staged(name);
        for key in keys {
            press(&story, &mut view, *key);
        }
        control(&story, &mut view, last)
    };
    let quit = Effect::Quit {
        stop_training: true,
    };
    assert_eq!(ends("quit", &[], 'x'), Some(quit));
    assert_eq!(ends("stop", &[], 'x'), Some(Effect::Stop));
    assert_eq!(ends("stop", &[], 'k'), Some(Effect::Kill));
    let again = ends("steady", &[KeyCode::Char('v')], 'x');
    assert!(matches!(again, Some(Effect::Relaunch { .. })), "{again:?}");
    let chosen = ends("hanging", &[KeyCode::Char('e')], 'x');
    let Some(Effect::Relaunch { remedies, .. }) = chosen else {
        panic!("{chosen:?}");
    };
    assert_eq!(remedies, [RemedyId::ExpandableSegments]);
    assert_eq!(ends("oom-capacity", &[], 'x'), None, "nothing runs");
}

#[test]
fn enter_in_the_editor_says_how_a_running_training_is_relaunched() {
    let (story, mut view) = staged("steady");
    press(&story, &mut view, KeyCode::Char('v'));
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("Ctrl-X stops it and starts this"), "{text}");
}

#[test]
fn control_c_reaches_a_training_that_runs_once() {
    for name in ["steady", "quit", "stop", "help"] {
        let (story, mut view) = staged(name);
        assert_eq!(
            control(&story, &mut view, 'c'),
            Some(Effect::Interrupt),
            "{name}"
        );
    }
    let (story, mut view) = staged("typing");
    assert_eq!(
        control(&story, &mut view, 'c'),
        Some(Effect::Input(vec![3]))
    );
    assert_eq!(control(&story, &mut view, ']'), None);
    assert_eq!(view.mode(), InputMode::Watching);
    let (story, mut view) = staged("hanging");
    assert_eq!(view.mode(), InputMode::Oom);
    assert_eq!(control(&story, &mut view, 'c'), Some(Effect::Interrupt));
    let (story, mut view) = staged("oom-capacity");
    assert_eq!(
        control(&story, &mut view, 'c'),
        Some(Effect::Quit {
            stop_training: true
        }),
        "there is nothing left to interrupt"
    );
}

#[test]
fn an_edited_command_is_what_is_relaunched() {
    let (story, mut view) = staged("oom-capacity");
    press(&story, &mut view, KeyCode::Char('v'));
    for c in " --amp".chars() {
        press(&story, &mut view, KeyCode::Char(c));
    }
    let Some(Effect::Relaunch { remedies, command }) = press(&story, &mut view, KeyCode::Enter)
    else {
        panic!("no relaunch");
    };
    assert_eq!(remedies, [RemedyId::Batch]);
    let words = command.unwrap().argv;
    assert_eq!(words.last().unwrap(), &"--amp");
    assert_eq!(view.mode(), InputMode::Watching);
}

#[test]
fn a_command_that_cannot_be_read_is_not_relaunched() {
    let (story, mut view) = staged("oom-capacity");
    press(&story, &mut view, KeyCode::Char('v'));
    press(&story, &mut view, KeyCode::Char('"'));
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None);
    assert_eq!(view.mode(), InputMode::Editing);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("Unclosed quote"), "{text}");
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom, "back where it came from");
}

#[test]
fn the_editor_leads_back_to_a_dialog_without_a_remedy() {
    let (story, mut view) = staged("oom-leak");
    press(&story, &mut view, KeyCode::Char('v'));
    assert_eq!(view.mode(), InputMode::Editing);
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom);
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char('v'));
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Watching, "opened from the panes");
}

#[test]
fn a_relaunch_shows_the_next_run_though_the_chart_was_held() {
    let (story, mut view) = staged("oom-capacity");
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char(' '));
    let paused = |view: &View| {
        let shown = crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
        shown.contains("paused")
    };
    assert!(paused(&view));
    press(&story, &mut view, KeyCode::Char('o'));
    press(&story, &mut view, KeyCode::Enter);
    assert!(!paused(&view));
}

#[test]
fn a_replay_says_what_it_has_and_no_key_of_a_training() {
    let (story, mut view) = staged("replay");
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(
        text.contains("no output log beside the recording"),
        "{text}"
    );
    press(&story, &mut view, KeyCode::Char('?'));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 60));
    for words in ["recording continues", "interrupt", "relaunch"] {
        assert!(!text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn a_replay_of_an_earlier_run_names_no_command_that_goes_by_the_last() {
    let (mut story, view) = staged("oom-capacity");
    let dialog = |story: &Story| crate::frames::text(&crate::frames::draw(story, &view, 120, 40));
    let played = |shown| {
        Subject::Recording(Replay {
            speed: 1.0,
            position: Moment::from_secs_f64(20.0),
            pace: Pace::Paused,
            output: RecordedOutput::NotThere,
            shown,
        })
    };
    story.subject = played(ShownRun::Unknown);
    let text = dialog(&story);
    assert!(text.contains("oomph again"), "{text}");
    let later = |ran| {
        ShownRun::Earlier(LaterRun {
            number: RunNumber(2),
            ran,
        })
    };
    story.subject = played(later(None));
    let text = dialog(&story);
    assert!(text.contains("run 2 followed · } shows it"), "{text}");
    assert!(!text.contains("oomph again"), "{text}");
    // What it came to stands before what was expected of this one.
    let ran = RanWell {
        batch: Some(8),
        steps: 12,
        peak: Bytes::mib(762),
    };
    story.subject = played(later(Some(ran)));
    let text = dialog(&story);
    let said = text.find("run 2, batch 8, ran 12 steps: peak 762 MiB · } shows it");
    assert!(said.is_some() && said < text.find("expected"), "{text}");
}

#[test]
fn a_session_elsewhere_is_watched_and_no_key_acts_on_it() {
    let (story, mut view) = staged("elsewhere");
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 160, 45));
    assert!(
        text.contains(
            "read-only: it runs on gpu-7 (heard 4 s ago), keys act only there: srun --jobid=1234"
        ),
        "{text}"
    );
    for key in ['s', 'v', 'n', 'i', 'K', 'P', 'w', ' '].map(KeyCode::Char) {
        let (_, mut view) = staged("elsewhere");
        let effect = press(&story, &mut view, key);
        assert_eq!(effect, None, "{key:?}");
    }
    let quit = press(&story, &mut view, KeyCode::Char('q'));
    assert!(
        matches!(quit, Some(Effect::Quit { .. })),
        "without a question"
    );
    let (story, mut view) = staged("elsewhere-oom");
    for key in [KeyCode::Enter, KeyCode::Char('1'), KeyCode::Char('b')] {
        assert_eq!(press(&story, &mut view, key), None, "{key:?}");
    }
    press(&story, &mut view, KeyCode::Char('?'));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 60));
    for words in ["interrupt", "relaunch", "stop the training", "type to"] {
        assert!(!text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn the_terminals_size_for_the_program_does_not_change_with_a_dialog() {
    let (story, mut view) = staged("steady");
    let size = |view: &View| story.scene(|scene| view.child_size(scene));
    let before = size(&view);
    press(&story, &mut view, KeyCode::Char('?'));
    assert_eq!(size(&view), before);
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char('f'));
    assert_eq!(size(&view), (27, 100), "alone on the screen");
}

#[test]
fn a_recording_that_is_played_can_be_steered_and_nothing_else() {
    let (story, mut view) = staged("replay");
    for (key, control) in [
        ('p', ReplayControl::PlayOrPause),
        (' ', ReplayControl::PlayOrPause),
        ('>', ReplayControl::Faster),
        ('<', ReplayControl::Slower),
        ('O', ReplayControl::Seek(SeekTarget::NextOom)),
        (')', ReplayControl::Seek(SeekTarget::Forward)),
        ('(', ReplayControl::Seek(SeekTarget::Back)),
        ('}', ReplayControl::Seek(SeekTarget::NextRun)),
        ('{', ReplayControl::Seek(SeekTarget::PreviousRun)),
        ('G', ReplayControl::Seek(SeekTarget::End)),
    ] {
        let effect = press(&story, &mut view, KeyCode::Char(key));
        assert_eq!(effect, Some(Effect::Replay(control)));
    }
    for key in ['r', 'K', 'i'] {
        assert_eq!(press(&story, &mut view, KeyCode::Char(key)), None);
        assert_eq!(view.mode(), InputMode::Watching, "{key}");
    }
    let quit = control(&story, &mut view, 'c');
    assert!(matches!(quit, Some(Effect::Quit { .. })));
    let quit = press(&story, &mut view, KeyCode::Char('q'));
    assert!(
        matches!(quit, Some(Effect::Quit { .. })),
        "without a question"
    );
}

/// With `CUDA_VISIBLE_DEVICES=1` the first GPU is somebody else's.
#[test]
fn the_gpu_of_the_run_is_selected_until_another_one_is() {
    let mut story = Story::new("python train.py");
    story.with_nvml().start();
    story.device(0, "GPU-a", 20.0, 20.0);
    story.device(1, "GPU-b", 2.0, 0.0);
    let mut view = story.view(Theme::full(), 100, 30);
    let shown = |story: &Story, view: &mut View| {
        story.scene(|scene| view.sync(scene));
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().nth(1).unwrap().to_string()
    };
    assert!(shown(&story, &mut view).contains("GPU 0 of 2"));
    story.hello(0, 1, "GPU-b").sample(0, 1.0, 2.0, 1.0);
    assert!(shown(&story, &mut view).contains("GPU 1 of 2"));
    press(&story, &mut view, KeyCode::Char(']'));
    assert!(shown(&story, &mut view).contains("GPU 0 of 2"));
    story.sample(0, 1.5, 2.0, 1.5);
    assert!(shown(&story, &mut view).contains("GPU 0 of 2"), "it stays");
}

#[test]
fn on_an_attached_screen_the_second_ctrl_c_interrupts() {
    let (story, mut own) = staged("steady");
    assert_eq!(control(&story, &mut own, 'c'), Some(Effect::Interrupt));
    let (mut story, mut attached) = staged("steady");
    attached.ask_before_interrupt();
    assert_eq!(control(&story, &mut attached, 'c'), None);
    assert_eq!(control(&story, &mut attached, 'c'), Some(Effect::Interrupt));
    // An old one does not count.
    let (_, mut attached) = staged("steady");
    attached.ask_before_interrupt();
    assert_eq!(control(&story, &mut attached, 'c'), None);
    story.wait(5.0).with_nvml();
    assert_eq!(control(&story, &mut attached, 'c'), None);
}
