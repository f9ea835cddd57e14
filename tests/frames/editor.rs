//! The command in the editor, and what it would need.

use crate::frames::cases::CASES;
use crate::frames::keys::press;
use crate::frames::story::Story;
use crate::frames::{SIZES, draw, text};
use oomph::command::CommandLine;
use oomph::remedy::EditedNeed;
use oomph::ui::{Effect, Theme, View};
use ratatui::crossterm::event::KeyCode;

fn opened(width: u16, height: u16) -> (Story, View, CommandLine) {
    let case = CASES.iter().find(|case| case.name == "oom-capacity");
    let (story, mut view) = case.unwrap().staged(Theme::full(), width, height);
    let asked = press(&story, &mut view, KeyCode::Char('v'));
    let Some(Effect::Foresee(command)) = asked else {
        panic!("{asked:?}");
    };
    (story, view, command)
}

#[test]
fn the_editor_says_what_the_command_would_need() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (width, height) in SIZES {
            let (mut story, view, command) = opened(width, height);
            // What Enter stands on in the dialog is what the editor begins with.
            let need = Ok(story.remedies[0].expectation.clone());
            story.edited = Some(EditedNeed {
                command,
                batch: None,
                need,
            });
            let shown = text(&draw(&story, &view, width, height));
            insta::assert_snapshot!(format!("edit-need-{width}x{height}"), shown);
        }
    });
}

#[test]
fn a_need_is_shown_of_that_very_command_and_asked_for_with_each_change() {
    let (mut story, mut view, command) = opened(80, 24);
    let need = Err("no run has shown what this change needs".to_string());
    story.edited = Some(EditedNeed {
        command,
        batch: None,
        need,
    });
    let shown = |story: &Story, view: &View| text(&draw(story, view, 80, 24));
    assert!(shown(&story, &view).contains("not known: no run has shown"));
    // The cursor alone changes nothing.
    assert_eq!(press(&story, &mut view, KeyCode::Left), None);
    press(&story, &mut view, KeyCode::End);
    let asked = press(&story, &mut view, KeyCode::Char('0'));
    assert!(matches!(asked, Some(Effect::Foresee(_))), "{asked:?}");
    assert!(shown(&story, &view).contains("being worked out"));
    // An open quote is no command.
    assert_eq!(press(&story, &mut view, KeyCode::Char('\'')), None);
    assert!(shown(&story, &view).contains("unclosed quote"));
}

/// It is the figure that is recorded, and held against the run.
#[test]
fn remedies_together_have_one_figure_once_it_was_worked_out() {
    let case = CASES.iter().find(|case| case.name == "oom-capacity");
    let (mut story, mut view) = case.unwrap().staged(Theme::full(), 120, 36);
    assert_eq!(press(&story, &mut view, KeyCode::Char(' ')), None);
    press(&story, &mut view, KeyCode::Down);
    let asked = press(&story, &mut view, KeyCode::Char(' '));
    let Some(Effect::Foresee(command)) = asked else {
        panic!("{asked:?}");
    };
    let shown = |story: &Story, view: &View| text(&draw(story, view, 120, 36));
    assert!(shown(&story, &view).contains("each on its own"));
    let need = Ok(story.remedies[0].expectation.clone());
    story.edited = Some(EditedNeed {
        command,
        batch: None,
        need,
    });
    let words = shown(&story, &view);
    assert!(words.contains("together: needs "), "{words}");
    assert!(!words.contains("each on its own"), "{words}");
    // Nothing else is needed beside it: said before anything is given up for it.
    assert!(words.contains("smaller batch alone would do"), "{words}");
}

#[test]
fn a_batch_that_the_status_line_says_may_fit_does_so_in_the_editor_too() {
    let case = CASES.iter().find(|case| case.name == "steady");
    let (mut story, mut view) = case.unwrap().staged(Theme::full(), 120, 36);
    let room = story.room_for_batch.expect("a larger batch");
    press(&story, &mut view, KeyCode::Char('v'));
    press(&story, &mut view, KeyCode::End);
    let asked = press(&story, &mut view, KeyCode::Char('0'));
    let Some(Effect::Foresee(command)) = asked else {
        panic!("{asked:?}");
    };
    for (batch, is_of_them) in [
        (room.could, true),
        (room.could - 1, true),
        (room.could + 1, false),
    ] {
        story.edited = Some(EditedNeed {
            command: command.clone(),
            batch: Some(batch),
            need: Err("its own figure".into()),
        });
        let shown = text(&draw(&story, &view, 120, 36));
        let says = format!("a batch of {batch} may fit");
        assert_eq!(shown.contains(&says), is_of_them, "{shown}");
        assert_eq!(shown.contains("its own figure"), !is_of_them, "{shown}");
    }
}
