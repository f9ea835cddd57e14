//! Why a key does nothing outside of a dialog: nobody is to wonder whether it was heard.

use super::action::Action;
use super::chart::Move;
use super::keymap::{self, Binding, InputMode, Key};
use super::theme::UNICODE;
use crate::remedy::RemedyId;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// The name of a key that prints something; of others nothing is said.
fn name(key: &KeyEvent) -> Option<String> {
    let key = Key::of(key)?;
    let prints = matches!(key.event().code, KeyCode::Char(_)) && key.event().modifiers.is_empty();
    prints.then(|| key.name(&UNICODE))
}

/// Of a key that has no meaning here. The letters of remedies are learned in the dialog, and tried where it is closed.
pub(super) fn nowhere(mode: InputMode, key: &KeyEvent, has_dialog: bool) -> Option<String> {
    let name = name(key)?;
    let mut remedies = RemedyId::all().map(RemedyId::spec);
    let remedy = remedies.find(|remedy| key.code == KeyCode::Char(remedy.key));
    Some(match (remedy, has_dialog, mode) {
        (Some(remedy), true, InputMode::Watching) => {
            format!(
                "{name} ({}) is a key of the dialog: o opens it",
                remedy.title
            )
        }
        (Some(remedy), false, InputMode::Watching) => format!(
            "{name} ({}) is a key of the dialog that opens when memory runs out",
            remedy.title
        ),
        (Some(_), _, _) | (None, _, _) => format!("{name} does nothing here; ? lists the keys"),
    })
}

/// Of a key that has a meaning here, but nothing to do now. Where a list ends one sees.
pub(super) fn not_now(mode: InputMode, key: &KeyEvent) -> Option<String> {
    let name = name(key)?;
    let of_key = |binding: &&Binding| Key::of(key).is_some_and(|key| binding.keys.contains(&key));
    let binding = keymap::bindings(mode).find(of_key)?;
    let moves = matches!(
        binding.action,
        Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::ToStart
            | Action::ToEnd
            | Action::Time(Move::Back | Move::Forward | Move::CursorForward | Move::Reset)
    );
    // What stands in parentheses is of how it does that.
    let what = binding.help.split(" (").next().unwrap_or(binding.help);
    (!moves).then(|| format!("{name} has nothing to do now: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(c: char) -> KeyEvent {
        Key::plain(c).event()
    }

    #[test]
    fn a_remedys_letter_says_where_it_is_a_key() {
        let said = |has_dialog| nowhere(InputMode::Watching, &press('b'), has_dialog);
        assert_eq!(
            said(true).expect("words"),
            "b (smaller batch) is a key of the dialog: o opens it"
        );
        assert_eq!(
            said(false).expect("words"),
            "b (smaller batch) is a key of the dialog that opens when memory runs out"
        );
        assert_eq!(
            nowhere(InputMode::Step, &press('b'), true).expect("words"),
            "b does nothing here; ? lists the keys"
        );
        assert_eq!(
            nowhere(InputMode::Watching, &Key::code(KeyCode::F(7)).event(), true),
            None
        );
    }

    #[test]
    fn a_key_that_has_nothing_to_do_says_what_it_is_for() {
        let said = |c| not_now(InputMode::Watching, &press(c));
        assert_eq!(
            said('c').expect("words"),
            "c has nothing to do now: overlay an earlier run"
        );
        assert_eq!(
            said('K').expect("words"),
            "K has nothing to do now: stop the training"
        );
        assert_eq!(said('j'), None, "the end of a list is seen");
    }
}
