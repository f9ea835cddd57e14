//! Any keys in any order on any screen: nothing panics, Esc always leads back, and what keys ask for
//! is never asked unseen.

use crate::frames::cases::CASES;
use crate::frames::draw;
use oomph::ui::keymap::InputMode;
use oomph::ui::{Effect, Theme};
use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn keys() -> impl Strategy<Value = KeyEvent> {
    let code = prop_oneof![
        8 => prop::char::range(' ', '~').prop_map(KeyCode::Char),
        1 => any::<char>().prop_map(KeyCode::Char),
        4 => prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::F(1),
        ]),
    ];
    let modifiers = prop_oneof![
        6 => Just(KeyModifiers::NONE),
        1 => Just(KeyModifiers::CONTROL),
        1 => Just(KeyModifiers::ALT),
    ];
    (code, modifiers).prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_of_text_ends_or_restarts_a_training(
        lines in prop::collection::vec("[ -~]{0,40}[\n\t]", 200),
        case in prop::sample::select(vec!["steady", "hanging", "eight-ranks", "edit", "quit", "stop"]),
        pasted in any::<bool>(),
    ) {
        let case = CASES.iter().find(|other| other.name == case).unwrap();
        let mut story = case.told();
        story.remedies = crate::frames::offers::remedies();
        let mut view = case.show(&story, Theme::full(), 100, 30);
        prop_assume!(story.scene(|scene| scene.is_running()));
        for line in lines {
            if pasted {
                let effect = story.scene(|scene| view.paste(&line, scene));
                prop_assert!(matches!(effect, None | Some(Effect::Input(_) | Effect::Foresee(_))), "{:?}", effect);
            }
            for c in line.chars() {
                let code = match c {
                    '\n' => KeyCode::Enter,
                    '\t' => KeyCode::Tab,
                    c => KeyCode::Char(c),
                };
                let key = KeyEvent::new(code, KeyModifiers::NONE);
                let effect = story.scene(|scene| view.key(key, scene));
                let is_harmless = match &effect {
                    Some(Effect::Relaunch { .. } | Effect::Interrupt | Effect::Stop | Effect::Kill) => false,
                    Some(Effect::Quit { stop_training }) => !stop_training,
                    Some(_) | None => true,
                };
                prop_assert!(is_harmless, "{:?} of {:?}", effect, line);
                if view.mode() == InputMode::Typing {
                    let back = KeyEvent::new(KeyCode::Char(']'), KeyModifiers::CONTROL);
                    story.scene(|scene| view.key(back, scene));
                }
            }
        }
    }

    #[test]
    fn any_keys_on_any_screen_do_no_harm(
        case in 0..CASES.len(),
        presses in prop::collection::vec((keys(), 1u16..160, 1u16..50), 1..40),
    ) {
        let case = &CASES[case];
        prop_assume!(case.name != "week");
        let story = case.told();
        let mut view = case.show(&story, Theme::full(), 100, 30);
        for (key, width, height) in presses {
            let mode = view.mode();
            let effect = story.scene(|scene| view.key(key, scene));
            // What ends or starts something is asked for in a dialog, or by a key that says so.
            match &effect {
                Some(Effect::Kill | Effect::Stop) => prop_assert_eq!(mode, InputMode::Stopping),
                Some(Effect::Relaunch { .. }) => {
                    prop_assert!(matches!(mode, InputMode::Oom | InputMode::Editing));
                }
                Some(_) | None => {}
            }
            view.resize(width, height);
            let (rows, cols) = story.scene(|scene| view.child_size(scene));
            view.output.resize(rows, cols);
            draw(&story, &view, width, height);
        }
        for key in [KeyCode::Esc; 6] {
            let key = KeyEvent::new(key, KeyModifiers::NONE);
            if view.mode() != InputMode::Typing {
                story.scene(|scene| view.key(key, scene));
            }
        }
        prop_assert!(matches!(view.mode(), InputMode::Watching | InputMode::Typing));
    }
}
