//! The keys: one table of mode, key, action and words, from which the footer, the help and
//! `oomph help keys` are made.

mod table;

use crate::ui::action::{Action, StepMove};
use crate::ui::pane::Pane;
use crate::ui::picker;
use crate::ui::theme::{Glyphs, UNICODE};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt::Write;
pub use table::TABLE;

/// What is in front decides what keys mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMode {
    Watching,
    /// The OOM dialog.
    Oom,
    /// A command being edited.
    Editing,
    /// "Quit?"
    Quitting,
    /// "Stop the training?"
    Stopping,
    /// The help.
    Helping,
    /// A text being typed to search the help.
    SearchingHelp,
    /// A search text being typed.
    Searching,
    /// Rows of the output being selected.
    Selecting,
    /// What a step is made of.
    Step,
    /// The keyboard belongs to the training.
    Typing,
}

impl InputMode {
    /// Whether letters are commands, not text of a field or for the training.
    pub(crate) fn takes_commands(self) -> bool {
        match self {
            InputMode::Watching
            | InputMode::Oom
            | InputMode::Quitting
            | InputMode::Stopping
            | InputMode::Helping
            | InputMode::Selecting
            | InputMode::Step => true,
            InputMode::Editing
            | InputMode::Searching
            | InputMode::SearchingHelp
            | InputMode::Typing => false,
        }
    }
}

/// A key of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    control: bool,
}

impl Key {
    pub(super) const fn plain(c: char) -> Key {
        Key::code(KeyCode::Char(c))
    }

    pub(super) const fn code(code: KeyCode) -> Key {
        Key {
            code,
            control: false,
        }
    }

    pub(super) const fn control(c: char) -> Key {
        Key {
            code: KeyCode::Char(c),
            control: true,
        }
    }

    /// The key of a press, if it is without Alt. Shift is already part of the character.
    pub fn of(event: &KeyEvent) -> Option<Key> {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        let code = match event.code {
            // The bytes 0x1c to 0x1f mean Ctrl with a character or with a digit; crossterm reports
            // the digit.
            KeyCode::Char('4') if control => KeyCode::Char('\\'),
            KeyCode::Char('5') if control => KeyCode::Char(']'),
            KeyCode::Char('6') if control => KeyCode::Char('^'),
            KeyCode::Char('7') if control => KeyCode::Char('_'),
            code => code,
        };
        (!event.modifiers.contains(KeyModifiers::ALT)).then_some(Key { code, control })
    }

    pub fn event(self) -> KeyEvent {
        KeyEvent::new(
            self.code,
            if self.control {
                KeyModifiers::CONTROL
            } else {
                KeyModifiers::NONE
            },
        )
    }

    pub fn name(self, glyphs: &Glyphs) -> String {
        let [up, down, left, right] = glyphs.arrow_keys;
        let name = match self.code {
            KeyCode::Char(' ') => String::from("Space"),
            KeyCode::Char(c) if self.control => return format!("Ctrl-{}", c.to_ascii_uppercase()),
            KeyCode::Char(c) => c.to_string(),
            KeyCode::Left => String::from(left),
            KeyCode::Right => String::from(right),
            KeyCode::Up => String::from(up),
            KeyCode::Down => String::from(down),
            KeyCode::BackTab => String::from("Shift-Tab"),
            KeyCode::PageUp => String::from("PgUp"),
            KeyCode::PageDown => String::from("PgDn"),
            code => format!("{code}"),
        };
        if self.control {
            format!("Ctrl-{name}")
        } else {
            name
        }
    }
}

/// One line of the table.
pub struct Binding {
    pub mode: InputMode,
    /// The footer shows the first.
    pub keys: &'static [Key],
    pub action: Action,
    /// The footer's words; empty if only the help lists it.
    pub short: &'static str,
    /// The help's words.
    pub help: &'static str,
}

const fn bind(
    mode: InputMode,
    keys: &'static [Key],
    action: Action,
    short: &'static str,
    help: &'static str,
) -> Binding {
    Binding {
        mode,
        keys,
        action,
        short,
        help,
    }
}

/// What a key may mean in a mode. If there are several actions, the first one available counts.
pub fn actions(mode: InputMode, event: &KeyEvent) -> impl Iterator<Item = Action> + use<> {
    let key = Key::of(event);
    bindings(mode)
        .filter(move |binding| key.is_some_and(|key| binding.keys.contains(&key)))
        .map(|binding| binding.action)
}

/// The keys of a mode, in the order of the footer.
pub fn bindings(mode: InputMode) -> impl Iterator<Item = &'static Binding> {
    let of_mode = TABLE.iter().filter(move |binding| binding.mode == mode);
    of_mode.filter(|binding| has_meaning(binding))
}

/// Whether there is what the key is for: a digit shows the pane with its number.
fn has_meaning(binding: &Binding) -> bool {
    match binding.action {
        Action::ShowPane(number) => usize::from(number) <= Pane::below().count(),
        _ => true,
    }
}

/// `← h`.
pub fn names(keys: &[Key], glyphs: &Glyphs) -> String {
    keys.iter()
        .map(|key| key.name(glyphs))
        .collect::<Vec<_>>()
        .join(" ")
}

/// What keys are about: the help has a list of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyGroup {
    Training,
    Choice,
    Chart,
    Panes,
    Output,
    Recording,
    Step,
    Rows,
    Flame,
    Screen,
}

impl KeyGroup {
    pub(crate) fn title(self) -> &'static str {
        match self {
            KeyGroup::Training => "training",
            KeyGroup::Choice => "this dialog",
            KeyGroup::Chart => "chart",
            KeyGroup::Panes => "pane",
            KeyGroup::Output => "output",
            KeyGroup::Recording => "recording",
            KeyGroup::Step => "step",
            KeyGroup::Rows => "lines and modules",
            KeyGroup::Flame => "flame graph",
            KeyGroup::Screen => "screen",
        }
    }

    fn of(mode: InputMode, action: Action) -> KeyGroup {
        let moves = match mode {
            InputMode::Step => KeyGroup::Rows,
            InputMode::Watching => KeyGroup::Panes,
            _ => KeyGroup::Choice,
        };
        match action {
            Action::Interrupt
            | Action::AskToStop
            | Action::Stop
            | Action::Kill
            | Action::TypeToTraining
            | Action::EditCommand
            | Action::OpenOom
            | Action::SaveSnapshot => KeyGroup::Training,
            Action::Time(_)
            | Action::Compare
            | Action::OtherHeight
            | Action::MaximizeChart
            | Action::NextDevice
            | Action::PreviousDevice
            | Action::NextStandout => KeyGroup::Chart,
            Action::NextPane
            | Action::PreviousPane
            | Action::ShowPane(_)
            | Action::MaximizePane => KeyGroup::Panes,
            Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::ToStart
            | Action::ToEnd
            | Action::KeepSearch => moves,
            Action::Search
            | Action::SearchOlder
            | Action::SearchNewer
            | Action::EndSearch
            | Action::Select => KeyGroup::Output,
            Action::PlayOrPause | Action::Faster | Action::Slower | Action::Seek(_) => {
                KeyGroup::Recording
            }
            Action::Step(StepMove::OpenRow | StepMove::EditLine | StepMove::Reorder) => {
                KeyGroup::Rows
            }
            Action::OpenStep | Action::Step(_) => KeyGroup::Step,
            Action::Flame(_) => KeyGroup::Flame,
            Action::Relaunch
            | Action::RelaunchUnchanged
            | Action::StopAndRelaunch
            | Action::Combine
            | Action::Details
            | Action::NextSection
            | Action::OpenFailedStep
            | Action::OpenLeak
            | Action::QuitAndStop
            | Action::QuitAndLeave => KeyGroup::Choice,
            Action::Copy | Action::Back if mode != InputMode::Watching => moves,
            Action::Copy
            | Action::Back
            | Action::WriteReport
            | Action::Help
            | Action::Quit
            | Action::Suspend
            | Action::Redraw
            | Action::Mouse
            | Action::NextTheme => KeyGroup::Screen,
        }
    }
}

/// All that is said of a key, in the help and in the footer, and what it is about.
pub(crate) fn said_of(binding: &Binding, glyphs: &Glyphs) -> String {
    let about = KeyGroup::of(binding.mode, binding.action).title();
    let keys = names(binding.keys, glyphs);
    format!("{about} {keys} {} {}", binding.short, binding.help)
}

/// A row of a help: the names of keys and their words.
pub(crate) type KeyRow = (String, &'static str);

/// The rows of a help by what they are about: keys that follow each other and have the same words are one row, `1–7`.
pub(crate) fn groups<'b>(
    bindings: impl Iterator<Item = &'b Binding>,
    glyphs: &Glyphs,
) -> Vec<(KeyGroup, Vec<KeyRow>)> {
    let mut bindings: Vec<&Binding> = bindings.collect();
    bindings.sort_by_key(|binding| KeyGroup::of(binding.mode, binding.action));
    let same = |one: &&Binding, other: &&Binding| {
        KeyGroup::of(one.mode, one.action) == KeyGroup::of(other.mode, other.action)
    };
    let groups = bindings.chunk_by(same);
    let group = |of: &[&Binding]| {
        let group = KeyGroup::of(of[0].mode, of[0].action);
        (group, rows(of.iter().copied(), glyphs))
    };
    groups.map(group).collect()
}

fn rows<'b>(bindings: impl Iterator<Item = &'b Binding>, glyphs: &Glyphs) -> Vec<KeyRow> {
    let mut rows: Vec<(String, Option<String>, &'static str)> = Vec::new();
    for binding in bindings {
        let keys = names(binding.keys, glyphs);
        match rows.last_mut() {
            Some((_, last, words)) if *words == binding.help => *last = Some(keys),
            Some(_) | None => rows.push((keys, None, binding.help)),
        }
    }
    let row = |(first, last, words): (String, Option<String>, &'static str)| match last {
        Some(last) => (glyphs.spelled(&format!("{first}–{last}")), words),
        None => (first, words),
    };
    rows.into_iter().map(row).collect()
}

/// The page of `oomph help keys`.
pub fn plain_text() -> String {
    let mut text = String::new();
    for (mode, title) in [
        (InputMode::Watching, "Watching"),
        (InputMode::Oom, "Out of memory"),
        (InputMode::Step, "What a step is made of"),
        (InputMode::Editing, "Editing the command"),
        (InputMode::Quitting, "Quitting"),
        (InputMode::Stopping, "Stopping"),
        (InputMode::Searching, "Searching the output"),
        (InputMode::Selecting, "Selecting rows of the output"),
        (InputMode::Typing, "Typing to the training"),
        (InputMode::Helping, "In the help of the screen"),
        (InputMode::SearchingHelp, "Searching that help"),
    ] {
        let _ = writeln!(text, "\n{title}");
        let groups = groups(bindings(mode), &UNICODE);
        let is_grouped = groups.len() > 1;
        for (group, rows) in groups {
            if is_grouped {
                let _ = writeln!(text, "  {}", group.title());
            }
            for (keys, words) in rows {
                let _ = writeln!(text, "    {keys:<14}{words}");
            }
        }
    }
    let _ = writeln!(text, "\nChoosing a session (`oomph` alone)");
    for (keys, words) in picker::listed_keys() {
        let keys = names(keys, &UNICODE);
        let _ = writeln!(text, "    {keys:<14}{words}");
    }
    text.trim_start().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::RemedyId;
    use crate::ui::action::SeekTarget;
    use crate::ui::theme::ASCII;

    #[test]
    fn every_pane_below_the_chart_has_the_digit_of_its_place() {
        let panes = Pane::below().count();
        for digit in '1'..='9' {
            let press = Key::plain(digit).event();
            let means: Vec<Action> = actions(InputMode::Watching, &press).collect();
            let number = digit as u8 - b'0';
            let expected: &[Action] = match usize::from(number) <= panes {
                true => &[Action::ShowPane(number)],
                false => &[],
            };
            assert_eq!(means, expected, "{digit}");
        }
    }

    #[test]
    fn no_key_means_two_things_in_one_mode() {
        for (n, binding) in TABLE.iter().enumerate() {
            for other in &TABLE[n + 1..] {
                // A key of replays, of the flame graph, or of many ranks has its other meaning elsewhere.
                let elsewhere = |binding: &Binding| {
                    matches!(
                        binding.action,
                        Action::PlayOrPause
                            | Action::Seek(SeekTarget::End)
                            | Action::Flame(_)
                            | Action::NextStandout
                    )
                };
                if other.mode == binding.mode && elsewhere(other) == elsewhere(binding) {
                    // Esc ends what is nearest: the first of its lines that can be done.
                    for key in binding.keys.iter().filter(|key| key.code != KeyCode::Esc) {
                        assert!(
                            !other.keys.contains(key),
                            "{} in {:?}: {} and {}",
                            key.name(&UNICODE),
                            binding.mode,
                            binding.help,
                            other.help
                        );
                    }
                    if !other.short.is_empty() {
                        assert_ne!(other.action, binding.action, "twice in the footer");
                    }
                }
            }
        }
    }

    /// The table is asked first: a remedy's key that the dialog has for something else would do that.
    #[test]
    fn no_remedys_key_means_something_else_in_its_dialog() {
        for id in RemedyId::all() {
            let key = Key::plain(id.spec().key);
            let taken = bindings(InputMode::Oom).find(|binding| binding.keys.contains(&key));
            let taken = taken.map(|binding| binding.help);
            assert_eq!(taken, None, "{id:?} has {}", key.name(&UNICODE));
        }
    }

    /// A letter of a remedy does something else on the screen only where that harms nobody who means the remedy; what relaunches,
    /// edits or opens something is on the same key wherever it is.
    #[test]
    fn what_acts_has_one_key() {
        let keys_of = |mode, action| -> Vec<Key> {
            let mut bindings = bindings(mode).filter(|binding| binding.action == action);
            bindings
                .next()
                .map_or(Vec::new(), |binding| binding.keys.to_vec())
        };
        let all_in = |keys: Vec<Key>, of: Vec<Key>| {
            !keys.is_empty() && keys.iter().all(|key| of.contains(key))
        };
        let edit = keys_of(InputMode::Oom, Action::EditCommand);
        assert_eq!(edit, keys_of(InputMode::Watching, Action::EditCommand));
        assert_eq!(
            edit,
            keys_of(InputMode::Step, Action::Step(StepMove::EditLine))
        );
        let step = keys_of(InputMode::Oom, Action::OpenFailedStep);
        assert!(all_in(step, keys_of(InputMode::Watching, Action::OpenStep)));
        for (action, one, other) in [
            (Action::SaveSnapshot, InputMode::Watching, InputMode::Step),
            (Action::WriteReport, InputMode::Watching, InputMode::Oom),
            (Action::Copy, InputMode::Watching, InputMode::Oom),
        ] {
            assert_eq!(keys_of(one, action), keys_of(other, action), "{action:?}");
        }
        for id in [
            RemedyId::Batch,
            RemedyId::Recompute,
            RemedyId::ExpandableSegments,
        ] {
            let key = Key::plain(id.spec().key);
            for mode in [InputMode::Watching, InputMode::Step] {
                let taken = bindings(mode).find(|binding| binding.keys.contains(&key));
                assert_eq!(taken.map(|binding| binding.help), None, "{id:?}");
            }
        }
    }

    #[test]
    fn escape_backs_out_of_everything_that_is_open() {
        let escape = Key::code(KeyCode::Esc).event();
        for mode in [
            InputMode::Oom,
            InputMode::Editing,
            InputMode::Quitting,
            InputMode::Stopping,
            InputMode::Helping,
            InputMode::SearchingHelp,
            InputMode::Step,
        ] {
            assert_eq!(
                actions(mode, &escape).next(),
                Some(Action::Back),
                "{mode:?}"
            );
        }
    }

    #[test]
    fn every_key_is_found_by_its_press() {
        for binding in TABLE.iter().filter(|binding| has_meaning(binding)) {
            for key in binding.keys {
                let mut actions = actions(binding.mode, &key.event());
                assert!(actions.any(|action| action == binding.action));
            }
            assert!(!binding.help.is_empty());
        }
    }

    #[test]
    fn control_and_a_bracket_come_as_a_digit() {
        let digit = KeyEvent::new(KeyCode::Char('5'), KeyModifiers::CONTROL);
        assert_eq!(
            actions(InputMode::Typing, &digit).next(),
            Some(Action::Back)
        );
    }

    #[test]
    fn keys_have_names() {
        assert_eq!(names(&[Key::plain(' ')], &UNICODE), "Space");
        assert_eq!(names(&[Key::control(']')], &UNICODE), "Ctrl-]");
        let left = [Key::code(KeyCode::Left), Key::plain('h')];
        assert_eq!(names(&left, &UNICODE), "← h");
        assert_eq!(names(&left, &ASCII), "Left h");
        assert_eq!(Key::code(KeyCode::Enter).name(&UNICODE), "Enter");
        assert!(plain_text().contains("    Enter         relaunch with"));
        let panes = Pane::below().count();
        let digits = format!("\n    1–{panes}           the pane with this number\n");
        assert!(plain_text().contains(&digits));
    }
}
