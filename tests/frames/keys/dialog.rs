//! The keys of the dialog: what Enter stands on, what letters do, and the ways out.

use super::*;
use oomph::event::SourceLine;

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

/// A burst of keys that began before the dialog opened must not answer it; what only looks about is done, and the rest is not
/// swallowed without a word.
#[test]
fn keys_from_before_the_dialog_look_about_or_say_that_they_were_heard() {
    let (story, mut view) = staged("oom-capacity");
    let early = |view: &mut View, code| {
        let key = KeyEvent::from(code);
        story.scene(|scene| view.key_from_before(key, scene))
    };
    for (code, name) in [(KeyCode::Enter, "Enter"), (KeyCode::Char('b'), "b")] {
        assert_eq!(early(&mut view, code), None);
        assert_eq!(view.mode(), InputMode::Oom);
        let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
        let said = format!("{name}: pressed too early, not taken");
        assert!(text.contains(&said), "{text}");
    }
    assert_eq!(early(&mut view, KeyCode::Char('w')), None);
    assert_eq!(view.mode(), InputMode::Step);
    assert_eq!(early(&mut view, KeyCode::Esc), None);
    assert_eq!(view.mode(), InputMode::Oom, "and back");
    assert_eq!(early(&mut view, KeyCode::Esc), None);
    assert_eq!(view.mode(), InputMode::Oom, "the dialog stays");
}

/// What is looked at since memory ran out stays when the dialog opens: it lies behind.
#[test]
fn the_dialog_does_not_take_away_what_was_just_asked_for() {
    let mut story = crate::frames::steps::two_steps();
    let mut view = story.view(Theme::full(), 100, 30);
    story.oom_record(|_| {});
    story.scene(|scene| view.sync(scene));
    press(&story, &mut view, KeyCode::Char('w'));
    assert_eq!(view.mode(), InputMode::Step);
    story.exit(oomph::event::Exit::Code(1));
    story.scene(|scene| view.sync(scene));
    assert_eq!(view.mode(), InputMode::Step);
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom);
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
        ('x', "x (outputs to RAM) is not offered for this OOM"),
        ('o', "o opens this dialog: it is open already"),
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
    let frame = crate::frames::text(&crate::frames::draw(&story, &view, 100, 60));
    assert!(!frame.contains("Space combine"), "{frame}");
    assert_eq!(press(&story, &mut view, KeyCode::Char(' ')), None);
    let frame = crate::frames::text(&crate::frames::draw(&story, &view, 100, 60));
    assert!(frame.contains("nothing to combine here"), "{frame}");
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

/// Where the line is known that is to be changed, Enter opens it.
#[test]
fn enter_opens_the_line_that_is_to_be_changed() {
    let (mut story, mut view) = staged("oom-leak");
    story.place_in_code(SourceLine {
        file: "lib/meter.py".into(),
        line: 70,
        function: "add".into(),
    });
    let shown = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 100, 60));
    let frame = shown(&view);
    assert!(frame.contains("meter.py:70"), "{frame}");
    assert!(frame.contains("Enter open the line"), "{frame}");
    let opened = press(&story, &mut view, KeyCode::Enter);
    let Some(Effect::EditSource { file, line }) = opened else {
        panic!("{opened:?}");
    };
    // From another directory it would be another file.
    assert!(
        file.starts_with('/') && file.ends_with("/lib/meter.py"),
        "{file}"
    );
    assert_eq!((line, view.mode()), (70, InputMode::Oom));
    press(&story, &mut view, KeyCode::Down);
    assert!(!shown(&view).contains("edit the line"));
    // Also beside what is ticked: Enter acts on what is selected.
    press(&story, &mut view, KeyCode::Char(' '));
    press(&story, &mut view, KeyCode::Up);
    assert!(shown(&view).contains("Enter open the line"));
    let opened = press(&story, &mut view, KeyCode::Enter);
    assert!(
        matches!(opened, Some(Effect::EditSource { .. })),
        "{opened:?}"
    );
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

#[test]
fn a_stray_enter_changes_nothing() {
    let (story, mut view) = staged("second-run");
    let before = format!("{view:?}");
    assert_eq!(press(&story, &mut view, KeyCode::Enter), None);
    assert_eq!(format!("{view:?}"), before);
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

/// The first page of the details has what decides; Tab leads on to the lines and to the stack, and back.
#[test]
fn the_details_have_sections_to_jump_to() {
    let (story, mut view) = staged("oom-capacity");
    let text = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 80, 16));
    view.resize(80, 16);
    press(&story, &mut view, KeyCode::Char('d'));
    let first = text(&view);
    for words in [
        "allocated",
        "requested",
        "capacity",
        "  Tab: lines with the most live memory",
    ] {
        assert!(first.contains(words), "{words} in\n{first}");
    }
    press(&story, &mut view, KeyCode::Tab);
    let second = text(&view);
    assert!(!second.contains("lines 1-"), "{second}");
    for _ in 0..4 {
        press(&story, &mut view, KeyCode::Tab);
        if text(&view).contains("lines 1-") {
            return;
        }
    }
    panic!("never back at the beginning\n{}", text(&view));
}

/// In the dialog of a leak, what leaks is one key away and the dialog is behind it; of another OOM it says that nothing grew.
#[test]
fn what_leaks_opens_from_the_dialog() {
    let (story, mut view) = staged("oom-leak");
    let frame = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 120, 36));
    view.resize(120, 36);
    let footer = frame(&view).trim_end().lines().last().map(String::from);
    assert!(footer.is_some_and(|line| line.contains("w what leaks")));
    press(&story, &mut view, KeyCode::Char('w'));
    assert_eq!(view.mode(), InputMode::Step);
    let shown = frame(&view);
    assert!(shown.contains("outputs: list of 88"), "{shown}");
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom);
    let (mut story, mut view) = staged("oom-capacity");
    let shown = |story: &Story, view: &View| {
        crate::frames::text(&crate::frames::draw(story, view, 120, 36))
    };
    press(&story, &mut view, KeyCode::Char('w'));
    // Also where nothing grows it is opened at once, and says so.
    assert_eq!(view.mode(), InputMode::Step);
    let said = shown(&story, &view);
    assert!(said.contains(" No leak: "), "{said}");
    press(&story, &mut view, KeyCode::Esc);
    assert_eq!(view.mode(), InputMode::Oom);
    // The footer offers it where memory grows.
    story.retained(0);
    view.resize(120, 36);
    let footer = shown(&story, &view);
    assert!(
        !footer
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("w what leaks"),
        "{footer}"
    );
    press(&story, &mut view, KeyCode::Char('w'));
    assert_eq!(view.mode(), InputMode::Step);
    let said = shown(&story, &view);
    assert!(said.contains("outputs: list of 88"), "{said}");
}
