//! Every key of the table does what it says, and does nothing where it is not offered.

use crate::frames::cases::CASES;
use crate::frames::story::Story;
use oomph::remedy::{Availability, Edit, RemedyId};
use oomph::ui::keymap::{self, InputMode};
use oomph::ui::theme::UNICODE;
use oomph::ui::{Action, Effect, ReplayControl, SeekTarget, Theme, View};
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

/// Keys that may find nothing to move: at the end of a list, or of time.
fn may_be_at_its_end(action: Action) -> bool {
    matches!(
        action,
        Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::ToStart
            | Action::ToEnd
            | Action::Time(_)
            | Action::Step(_)
            | Action::Flame(_)
            // The one that is there already.
            | Action::ShowPane(_)
    )
}

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
                if offered && !may_be_at_its_end(binding.action) {
                    assert!(changed, "{name}: {} {}", key.name(&UNICODE), binding.help);
                }
                // The dialog says why nothing happens.
                let says_why = mode == InputMode::Oom && effect.is_none();
                if !offered && !says_why {
                    assert!(!changed, "{name}: {} is not offered", key.name(&UNICODE));
                }
            }
        }
    }
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
        ("steady", &[Char('r'), Enter], None),
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
        ("gate", &[Char('r')], None),
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
    let again = ends("steady", &[KeyCode::Char('r')], 'x');
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
    press(&story, &mut view, KeyCode::Char('r'));
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
fn the_dialog_opens_once_and_a_new_run_closes_it() {
    let (mut story, mut view) = staged("oom-capacity");
    assert_eq!(view.mode(), InputMode::Oom);
    press(&story, &mut view, KeyCode::Esc);
    story.scene(|scene| view.sync(scene));
    assert_eq!(view.mode(), InputMode::Watching, "not again unasked");
    press(&story, &mut view, KeyCode::Char('o'));
    assert_eq!(view.mode(), InputMode::Oom);
    story.start();
    story.scene(|scene| view.sync(scene));
    assert_eq!(view.mode(), InputMode::Watching);
}

#[test]
fn escape_leaves_the_details_before_it_leaves_the_dialog() {
    let (story, mut view) = staged("oom-details");
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(!text.contains("where the allocation failed"), "{text}");
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Watching);
}

/// The remedies that Enter relaunches with.
fn relaunched(effect: Option<Effect>) -> Vec<RemedyId> {
    match effect {
        Some(Effect::Relaunch { remedies, .. }) => remedies,
        _ => Vec::new(),
    }
}

/// Figures come seconds after the dialog has opened, and the rows change their order with them.
#[test]
fn enter_follows_the_figures_until_the_user_selects_a_row() {
    let (mut story, mut view) = staged("oom-capacity");
    // The second one is expected not to fit.
    let known = std::mem::take(&mut story.remedies);
    let [batch, segments, ..] = &known[..] else {
        unreachable!("three remedies")
    };
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char('o'));
    assert_eq!(
        press(&story, &mut view, KeyCode::Enter),
        None,
        "there are none yet"
    );
    press(&story, &mut view, KeyCode::Esc);
    story.remedies = vec![segments.clone(), batch.clone()];
    let mut untouched = view_of(&story);
    let asked = press(&story, &mut view, KeyCode::Enter);
    assert_eq!(relaunched(asked), [RemedyId::Batch]);
    story.remedies = vec![batch.clone(), segments.clone()];
    let asked = press(&story, &mut untouched, KeyCode::Enter);
    assert_eq!(relaunched(asked), [RemedyId::Batch]);
    // What the user has selected stays selected.
    let mut chosen = view_of(&story);
    press(&story, &mut chosen, KeyCode::Down);
    story.remedies = vec![segments.clone(), batch.clone()];
    let asked = press(&story, &mut chosen, KeyCode::Enter);
    assert_eq!(relaunched(asked), [RemedyId::ExpandableSegments]);
}

fn view_of(story: &Story) -> View {
    let mut view = View::new(Theme::full(), 100, 30);
    story.scene(|scene| view.sync(scene));
    assert_eq!(view.mode(), InputMode::Oom);
    view
}

/// A letter without a remedy says why nothing happens; `s` opens the step, as it does outside of the dialog.
#[test]
fn a_letter_of_the_dialog_is_never_silent() {
    let case = CASES.iter().find(|case| case.name == "oom-traced").unwrap();
    let (story, mut view) = case.staged(Theme::full(), 120, 40);
    for (key, said) in [
        ('x', "outputs to RAM does not apply here"),
        ('Q', "Q does nothing here; ? lists the keys"),
    ] {
        assert_eq!(press(&story, &mut view, KeyCode::Char(key)), None);
        let shown = crate::frames::text(&crate::frames::draw(&story, &view, 120, 40));
        assert!(shown.lines().last().unwrap().contains(said), "{shown}");
    }
    press(&story, &mut view, KeyCode::Char('s'));
    assert_eq!(view.mode(), InputMode::Step);
}

/// Where nothing is expected to fit, what needs least at the most is tried, and is said to be no more than that.
#[test]
fn what_may_not_fit_is_under_enter_where_nothing_else_fits_and_says_so() {
    let (story, mut view) = staged("oom-unsure");
    let frame = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
    let footer = |view: &View| frame(view).trim_end().lines().last().map(String::from);
    let offers_enter = |view: &View| footer(view).is_some_and(|line| line.contains("relaunch"));
    assert!(offers_enter(&view), "{}", frame(&view));
    let expected = |view: &View| {
        let frame = frame(view);
        let mut lines = frame.lines().map(String::from);
        lines
            .find(|line| line.contains("expected"))
            .unwrap_or(frame)
    };
    assert!(
        expected(&view).contains("may not fit"),
        "{}",
        expected(&view)
    );
    let asked = press(&story, &mut view, KeyCode::Enter);
    assert_eq!(relaunched(asked), [RemedyId::Batch]);
}

/// What helps is in the code: Enter shows more of it and relaunches nothing, a remedy's own key does.
#[test]
fn what_will_not_help_is_not_under_enter() {
    let (story, mut view) = staged("oom-leak");
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None);
    let frame = crate::frames::text(&crate::frames::draw(&story, &view, 100, 60));
    assert!(frame.contains("where the allocation failed"), "{frame}");
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Up);
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None);
    press(&story, &mut view, KeyCode::Esc);
    let asked = press(&story, &mut view, KeyCode::Char('b'));
    assert!(matches!(asked, Some(Effect::Relaunch { .. })), "{asked:?}");
    press(&story, &mut view, KeyCode::Down);
    let asked = press(&story, &mut view, KeyCode::Enter);
    assert!(matches!(asked, Some(Effect::Relaunch { .. })), "{asked:?}");
}

#[test]
fn the_dialog_has_a_help_of_its_own() {
    let (story, mut view) = staged("oom-capacity");
    press(&story, &mut view, KeyCode::Char('?'));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("combine the selected remedy"), "{text}");
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom, "back where it came from");
}

#[test]
fn what_leads_out_and_to_the_training_stays_in_the_footer() {
    for width in [40, 60, 80] {
        let case = CASES.iter().find(|case| case.name == "steady").unwrap();
        let (story, view) = case.staged(Theme::full(), width, 24);
        let text = crate::frames::text(&crate::frames::draw(&story, &view, width, 24));
        let footer = text.lines().last().unwrap();
        let to_training = match width {
            40 => "i type ",
            _ => "i type to the training",
        };
        for words in ["s step", to_training, "? help", "q quit"] {
            assert!(footer.contains(words), "{width}: {footer}");
        }
    }
}

/// Line, layer and leak are one key each, and the screen says which, however small it is.
#[test]
fn the_step_tells_the_keys_of_its_groupings() {
    for width in [40, 80, 120] {
        let (story, mut view) = CASES
            .iter()
            .find(|case| case.name == "step")
            .unwrap()
            .staged(Theme::full(), width, 12);
        let leaks = if width == 40 {
            "w leaks"
        } else {
            "w what leaks"
        };
        for next in ["m modules", "m flame", "m growth", "m lines", "m modules"] {
            let text = crate::frames::text(&crate::frames::draw(&story, &view, width, 12));
            let footer = text.lines().last().unwrap();
            for words in [next, leaks, "Esc back"] {
                assert!(footer.contains(words), "{width}: {words} in {footer}");
            }
            press(&story, &mut view, KeyCode::Char('m'));
        }
    }
}

/// The traced step is not the largest: its title says so.
#[test]
fn a_peak_above_that_of_the_step_is_told() {
    let said = |peak: f64| {
        let mut story = crate::frames::steps::two_steps();
        story.sample(0, peak, peak, peak);
        let mut view = story.view(Theme::full(), 120, 36);
        press(&story, &mut view, KeyCode::Char('s'));
        let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
        text.lines().nth(1).unwrap().to_string()
    };
    assert!(said(20.0).contains("peak 14.5 GiB in backward · the run peaks at 20.0 GiB"));
    assert!(!said(14.7).contains("the run peaks"));
}

#[test]
fn the_line_at_the_pointer_is_shown_in_full() {
    let story = crate::frames::steps::two_steps();
    let mut view = story.view(Theme::full(), 80, 24);
    for key in [KeyCode::Char('s'), KeyCode::Down, KeyCode::Enter] {
        press(&story, &mut view, key);
    }
    let text = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 80, 24));
    let open = text(&view);
    for words in [
        "model.py, line 74, in mlp",
        "return self.c_proj(F.gelu(self.c_fc(x)))",
        "3.02 GiB in 48 blocks (21%): activations",
    ] {
        assert!(open.contains(words), "{words} in\n{open}");
    }
    press(&story, &mut view, KeyCode::Esc);
    assert!(!text(&view).contains("line 74, in mlp"));
    assert!(text(&view).contains("step 352"), "still open");
}

#[test]
fn a_stray_enter_changes_nothing() {
    let (story, mut view) = staged("second-run");
    let before = format!("{view:?}");
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None);
    assert_eq!(format!("{view:?}"), before);
}

#[test]
fn a_replay_says_what_it_has_and_no_key_of_a_training() {
    let (story, mut view) = staged("replay");
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("log is not beside the recording"), "{text}");
    press(&story, &mut view, KeyCode::Char('?'));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 60));
    for words in ["recording continues", "interrupt", "relaunch"] {
        assert!(!text.contains(words), "{words} in\n{text}");
    }
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
    for key in ['s', 'r', 'e', 'i', 'K', 'S', 'w', ' '].map(KeyCode::Char) {
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
fn a_copy_is_said_for_two_seconds() {
    let (mut story, mut view) = staged("steady");
    let footer = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().last().unwrap().to_string()
    };
    press(&story, &mut view, KeyCode::Char('y'));
    assert!(footer(&story, &view).contains("copied"));
    story.state.now = story.state.now + std::time::Duration::from_secs(2);
    assert!(!footer(&story, &view).contains("copied"));
}

#[test]
fn output_is_scrolled() {
    let (story, mut view) = staged("steady");
    for n in 0..100 {
        view.output.feed(format!("line {n}\r\n").as_bytes());
    }
    assert_eq!(press(&story, &mut view, KeyCode::Char('k')), None);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("1 rows up"), "{text}");
}

#[test]
fn a_text_is_looked_for_as_it_is_typed() {
    let (story, mut view) = staged("steady");
    for n in 0..100 {
        view.output.feed(format!("line {n}\r\n").as_bytes());
    }
    let type_in = |story: &Story, view: &mut View, keys: &[KeyCode]| {
        for key in keys {
            press(story, view, *key);
        }
    };
    use KeyCode::{Backspace, Char, Enter, Esc};
    let footer = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().last().unwrap().to_string()
    };
    type_in(
        &story,
        &mut view,
        &[Char('/'), Char('e'), Char(' '), Char('7')],
    );
    assert!(footer(&story, &view).contains("/e 7  1 of 11"));
    type_in(&story, &mut view, &[Char('x'), Backspace, Char('7')]);
    assert!(footer(&story, &view).contains("/e 77  1 of 1"));
    assert_eq!(view.mode(), InputMode::Searching);
    type_in(&story, &mut view, &[Backspace, Enter, Char('N')]);
    assert_eq!(view.mode(), InputMode::Watching);
    let line = footer(&story, &view);
    for words in ["/e 7  2 of 11", "n next", "N previous", "Esc end search"] {
        assert!(line.contains(words), "{words} in {line}");
    }
    assert!(crate::frames::text(&crate::frames::draw(&story, &view, 100, 30)).contains("line 78"));
    type_in(&story, &mut view, &[Esc]);
    assert_eq!(view.output.search(), None);
    assert_eq!(
        press(&story, &mut view, Char('n')),
        None,
        "nothing to go to"
    );
    type_in(&story, &mut view, &[Char('/'), Char('z'), Esc]);
    assert_eq!(
        (view.mode(), view.output.scrolled()),
        (InputMode::Watching, 0)
    );
}

#[test]
fn rows_of_the_output_are_selected_and_copied() {
    let (story, mut view) = staged("steady");
    for n in 0..100 {
        view.output.feed(format!("line {n}\r\n").as_bytes());
    }
    for key in ['v', 'k', 'k'] {
        press(&story, &mut view, KeyCode::Char(key));
    }
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.ends_with("back"), "{text}");
    assert!(text.contains("3 rows selected"), "{text}");
    assert_eq!(
        press(&story, &mut view, KeyCode::Char('y')),
        Some(Effect::Copy("line 97\nline 98\nline 99\n".into()))
    );
    assert_eq!(view.mode(), InputMode::Watching);
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

fn mouse(story: &Story, view: &mut View, kind: MouseEventKind, column: u16, row: u16) {
    let event = MouseEvent {
        kind,
        column,
        row,
        modifiers: KeyModifiers::NONE,
    };
    story.scene(|scene| view.mouse(event, scene));
}

/// Clicks in the middle of words, in the last row that has them.
fn click_on(story: &Story, view: &mut View, words: &str) -> Option<Effect> {
    let text = crate::frames::text(&crate::frames::draw(story, view, 120, 40));
    let lines: Vec<&str> = text.lines().collect();
    let row = lines.iter().rposition(|line| line.contains(words)).unwrap();
    let before = lines[row].split(words).next().unwrap().chars().count();
    let event = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: (before + words.chars().count() / 2) as u16,
        row: row as u16,
        modifiers: KeyModifiers::NONE,
    };
    story.scene(|scene| view.mouse(event, scene))
}

#[test]
fn tabs_panes_and_the_footer_are_clicked() {
    let case = CASES.iter().find(|case| case.name == "steady").unwrap();
    let (story, mut view) = case.staged(Theme::full(), 120, 40);
    let shown = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 120, 40));
    let rows_of = |view: &View, words: &str| shown(view).matches(words).count();
    assert_eq!(rows_of(&view, "first optimizer step done"), 1);
    click_on(&story, &mut view, "5 events");
    assert_eq!(
        rows_of(&view, "first optimizer step done"),
        2,
        "beside and below"
    );
    click_on(&story, &mut view, "1 output");
    assert_eq!(rows_of(&view, "first optimizer step done"), 1);
    click_on(&story, &mut view, "CUDA initialised");
    assert_eq!(
        rows_of(&view, "first optimizer step done"),
        2,
        "the pane itself"
    );
    click_on(&story, &mut view, "help");
    assert_eq!(view.mode(), InputMode::Helping);
    press(&story, &mut view, KeyCode::Esc);
    click_on(&story, &mut view, "quit");
    assert_eq!(view.mode(), InputMode::Quitting);
    let effect = click_on(&story, &mut view, "Ctrl-X stop the training");
    assert_eq!(
        (effect, view.mode()),
        (None, InputMode::Quitting),
        "only by its key"
    );
    let effect = click_on(&story, &mut view, "l leave it running");
    assert_eq!(
        effect,
        Some(Effect::Quit {
            stop_training: false
        })
    );
}

#[test]
fn a_click_selects_a_remedy_and_the_wheel_zooms() {
    let (story, mut view) = staged("oom-capacity");
    let frame = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
    let before = frame(&view);
    let row = before
        .lines()
        .position(|line| line.contains("e expandable"));
    let row = row.unwrap() as u16;
    mouse(
        &story,
        &mut view,
        MouseEventKind::Down(MouseButton::Left),
        30,
        row,
    );
    let effect = press(&story, &mut view, KeyCode::Enter);
    let remedies = vec![RemedyId::ExpandableSegments];
    let command = None;
    assert_eq!(effect, Some(Effect::Relaunch { remedies, command }));

    let (story, mut view) = staged("steady");
    let chart = |view: &View| {
        let text = crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
        text.lines().take(17).collect::<Vec<_>>().join("\n")
    };
    let before = chart(&view);
    mouse(&story, &mut view, MouseEventKind::ScrollUp, 30, 5);
    assert_ne!(chart(&view), before);
    mouse(&story, &mut view, MouseEventKind::ScrollDown, 30, 5);
    assert_eq!(chart(&view), before);
}

#[test]
fn dragging_over_the_output_selects_its_rows() {
    let (story, mut view) = staged("steady");
    let rows: Vec<String> = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30))
        .lines()
        .map(String::from)
        .collect();
    let row = rows
        .iter()
        .position(|row| row.starts_with("epoch 1"))
        .unwrap() as u16;
    let left = MouseButton::Left;
    for (kind, row) in [
        (MouseEventKind::Down(left), row),
        (MouseEventKind::Drag(left), row),
        (MouseEventKind::Drag(left), row + 1),
        (MouseEventKind::Up(left), row + 1),
    ] {
        let event = MouseEvent {
            kind,
            column: 10,
            row,
            modifiers: KeyModifiers::NONE,
        };
        story.scene(|scene| view.mouse(event, scene));
    }
    assert_eq!(view.mode(), InputMode::Selecting);
    let selected = view.output.selected_text().unwrap();
    assert!(
        selected.starts_with("epoch 1") && selected.lines().count() == 2,
        "{selected}"
    );
}

#[test]
fn what_can_only_be_done_elsewhere_is_shown_to_be_copied() {
    let case = CASES
        .iter()
        .find(|case| case.name == "oom-capacity")
        .unwrap();
    let mut story = case.told();
    story.remedies[2].availability =
        Availability::NotOffered("this run is part of a job of two nodes".into());
    story.remedies[2].edits = vec![Edit::Insert {
        at: 4,
        words: vec!["--amp".into()],
    }];
    let mut view = case.show(&story, Theme::full(), 100, 30);
    press(&story, &mut view, KeyCode::Down);
    press(&story, &mut view, KeyCode::Down);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(
        text.contains("y copies  python train.py --batch-size 64 +--amp"),
        "{text}"
    );
    let Some(Effect::Copy(copied)) = press(&story, &mut view, KeyCode::Char('y')) else {
        panic!("nothing copied");
    };
    assert!(
        copied.ends_with("`python train.py --batch-size 64 --amp`\n"),
        "{copied}"
    );
    let again = press(&story, &mut view, KeyCode::Char('y'));
    let command = "python train.py --batch-size 64 --amp".to_string();
    assert_eq!(again, Some(Effect::Copy(command)), "then the command");
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None, "not here");
}

#[test]
fn where_no_step_was_traced_it_says_why() {
    for (name, words) in [
        ("waiting", "waits until the program uses PyTorch"),
        ("no-probe", "The probe is off"),
        ("steady", "more than 20,000 of them"),
    ] {
        let (story, mut view) = staged(name);
        press(&story, &mut view, KeyCode::Char('s'));
        let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 30));
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

/// What grew is in the record of the OOM too, and the text of its line in the recording.
#[test]
fn without_a_traced_step_what_grew_is_told_by_the_oom() {
    let mut story = crate::frames::steps::two_steps();
    let line = story.state.run().unwrap().ranks[0].traces.last().unwrap();
    let line = line.origins.iter().find_map(|of| of.line.clone()).unwrap();
    story.state.runs[0].ranks[0].traces = Default::default();
    story.oom(|record| {
        record.growing = vec![oomph::event::GrowingLine {
            line,
            inside: None,
            bytes: oomph::units::Bytes::gib(3),
            per_step: oomph::units::Bytes::mib(96),
            from_step: 4,
            to_step: 36,
        }];
    });
    let mut view = story.view(Theme::full(), 120, 36);
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char('s'));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
    assert!(text.contains("grew by line, steps 4–36"), "{text}");
    let row = "+96 MiB  3.00 GiB  train.py:41 build  model = GPT(config).to(device)";
    assert!(text.contains(row), "{text}");
}

/// The screen follows the traces until somebody looks about in one: that one stays, and says that there is a newer one.
#[test]
fn a_step_is_followed_by_the_newest_until_it_is_looked_at() {
    let (mut story, mut view) = staged("step");
    let shown = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().nth(1).unwrap().to_string()
    };
    let before = shown(&story, &view);
    assert!(before.contains("step 352"), "{before}");
    press(&story, &mut view, KeyCode::Char('t'));
    story.traced(0, crate::frames::steps::made(528, 0.8));
    story.scene(|scene| view.sync(scene));
    assert!(shown(&story, &view).contains("step 528 "));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("sorted by blocks"), "as it was: {text}");
    press(&story, &mut view, KeyCode::Down);
    story.traced(0, crate::frames::steps::made(704, 0.8));
    story.scene(|scene| view.sync(scene));
    let stays = shown(&story, &view);
    assert!(stays.contains("step 528 · step 704 is newer: ]"), "{stays}");
    press(&story, &mut view, KeyCode::Char(']'));
    assert!(shown(&story, &view).contains("step 704"));
    // The largest stays as well.
    for step in ["step 352 ", "step 3 "] {
        press(&story, &mut view, KeyCode::Char('['));
        assert!(shown(&story, &view).contains(step), "{step}");
    }
    story.start();
    story.scene(|scene| view.sync(scene));
    let other = shown(&story, &view);
    assert!(
        other.contains("what a step is made of"),
        "another run: {other}"
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
