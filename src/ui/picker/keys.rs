//! The keys of the picker, and their words for its footer and `oomph help keys`.

use crate::ui::keymap::Key;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PickerMode {
    Choosing,
    /// A text is typed that the sessions are to have.
    Filtering,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PickerAction {
    Up,
    Down,
    PageUp,
    PageDown,
    ToStart,
    ToEnd,
    Open,
    /// From its beginning.
    Play,
    Help,
    Filter,
    /// The text is complete.
    KeepFilter,
    /// All sessions again; without a filter it quits.
    EndFilter,
    Quit,
    Suspend,
    Redraw,
}

/// A key, what it does and its words: in the footer, and in the help.
pub(super) struct PickerKey {
    mode: PickerMode,
    pub keys: &'static [Key],
    pub action: PickerAction,
    /// Empty if only the help lists it.
    pub short: &'static str,
    pub help: &'static str,
}

const fn key(
    mode: PickerMode,
    keys: &'static [Key],
    action: PickerAction,
    short: &'static str,
    help: &'static str,
) -> PickerKey {
    PickerKey {
        mode,
        keys,
        action,
        short,
        help,
    }
}

/// In the order of the footer.
#[rustfmt::skip]
static KEYS: &[PickerKey] = &[
    key(PickerMode::Choosing, &[Key::code(KeyCode::Enter)], PickerAction::Open, "open", "open the session: its screen; how it ended and what helps, if it has"),
    key(PickerMode::Choosing, &[Key::plain('p')], PickerAction::Play, "play", "play a session that has ended from its beginning"),
    key(PickerMode::Choosing, &[Key::code(KeyCode::Up), Key::plain('k')], PickerAction::Up, "", "up one session"),
    key(PickerMode::Choosing, &[Key::code(KeyCode::Down), Key::plain('j')], PickerAction::Down, "next", "down one session"),
    key(PickerMode::Choosing, &[Key::plain('/')], PickerAction::Filter, "filter", "only the sessions with a text: in the command, the state, the device, the ID"),
    key(PickerMode::Choosing, &[Key::code(KeyCode::Esc)], PickerAction::EndFilter, "", "all sessions again; without a filter: leave"),
    key(PickerMode::Choosing, &[Key::plain('?'), Key::code(KeyCode::F(1))], PickerAction::Help, "help", "these keys"),
    key(PickerMode::Choosing, &[Key::plain('q'), Key::control('c')], PickerAction::Quit, "quit", "leave"),
    key(PickerMode::Choosing, &[Key::code(KeyCode::PageUp), Key::control('b')], PickerAction::PageUp, "", "up one page"),
    key(PickerMode::Choosing, &[Key::code(KeyCode::PageDown), Key::control('f')], PickerAction::PageDown, "", "down one page"),
    key(PickerMode::Choosing, &[Key::plain('g'), Key::code(KeyCode::Home)], PickerAction::ToStart, "", "to the first"),
    key(PickerMode::Choosing, &[Key::plain('G'), Key::code(KeyCode::End)], PickerAction::ToEnd, "", "to the last"),
    key(PickerMode::Choosing, &[Key::control('z')], PickerAction::Suspend, "", "suspend the list"),
    key(PickerMode::Choosing, &[Key::control('l')], PickerAction::Redraw, "", "redraw"),

    key(PickerMode::Filtering, &[Key::code(KeyCode::Enter)], PickerAction::KeepFilter, "keep", "keep the filter"),
    key(PickerMode::Filtering, &[Key::code(KeyCode::Esc), Key::control('c')], PickerAction::EndFilter, "all", "all sessions again"),
    key(PickerMode::Filtering, &[Key::code(KeyCode::Up)], PickerAction::Up, "", "up one session"),
    key(PickerMode::Filtering, &[Key::code(KeyCode::Down)], PickerAction::Down, "", "down one session"),
];

pub(super) fn action(mode: PickerMode, event: &KeyEvent) -> Option<PickerAction> {
    let pressed = Key::of(event)?;
    let key = of(mode).find(|key| key.keys.contains(&pressed))?;
    Some(key.action)
}

pub(super) fn of(mode: PickerMode) -> impl Iterator<Item = &'static PickerKey> {
    KEYS.iter().filter(move |key| key.mode == mode)
}

/// The keys and words of the list, for the help.
pub(in crate::ui) fn listed() -> impl Iterator<Item = (&'static [Key], &'static str)> {
    of(PickerMode::Choosing).map(|key| (key.keys, key.help))
}
