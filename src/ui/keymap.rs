//! The keys: one table of mode, key, action and words, from which the footer, the help and
//! `oomph help keys` are made.

use crate::ui::action::{Action, SeekTarget, StepMove};
use crate::ui::chart::Move;
use crate::ui::pane::Pane;
use crate::ui::theme::{Glyphs, UNICODE};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt::Write;

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
            InputMode::Editing | InputMode::Searching | InputMode::Typing => false,
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
    const fn plain(c: char) -> Key {
        Key::code(KeyCode::Char(c))
    }

    const fn code(code: KeyCode) -> Key {
        Key {
            code,
            control: false,
        }
    }

    const fn control(c: char) -> Key {
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

/// Rows of a help, the names of keys and their words: keys that follow each other and have the same words
/// are one row, `1–7`.
pub(crate) fn rows<'b>(
    bindings: impl Iterator<Item = &'b Binding>,
    glyphs: &Glyphs,
) -> Vec<(String, &'static str)> {
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
    ] {
        let _ = writeln!(text, "\n{title}");
        for (keys, words) in rows(bindings(mode), &UNICODE) {
            let _ = writeln!(text, "  {keys:<14}{words}");
        }
    }
    text.trim_start().to_string()
}

const UP: &[Key] = &[Key::code(KeyCode::Up), Key::plain('k')];
const DOWN: &[Key] = &[Key::code(KeyCode::Down), Key::plain('j')];
const BACK: &[Key] = &[Key::code(KeyCode::Esc)];
const INTERRUPT: &[Key] = &[Key::control('c')];
/// Ends or restarts a running training: no text contains this key, so that a line meant for a shell
/// cannot do it.
const END: &[Key] = &[Key::control('x')];

/// The words of all digits, which the help lists as one row. A digit that no pane has is no key: [`bindings`] leaves it out.
const PANE: &str = "the pane with this number";

/// There are nine digits for the panes below the chart.
const _: () = assert!(Pane::ALL.len() <= 10);

/// All keys. Within a mode the order is the footer's.
#[rustfmt::skip]
pub static TABLE: &[Binding] = &[
    bind(InputMode::Watching, &[Key::plain('n')], Action::SearchNewer, "next", "output: next match, further down"),
    bind(InputMode::Watching, &[Key::plain('N')], Action::SearchOlder, "previous", "output: previous match, further up"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Esc)], Action::EndSearch, "end search", "output: clear the search, follow"),
    bind(InputMode::Watching, &[Key::plain('o')], Action::OpenOom, "why and what to do", "why memory ran out and what to do"),
    bind(InputMode::Watching, &[Key::plain('s')], Action::OpenStep, "step", "what a step is made of, line by line"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Tab)], Action::NextPane, "panes", "next pane below the chart"),
    bind(InputMode::Watching, &[Key::code(KeyCode::BackTab)], Action::PreviousPane, "", "previous pane"),
    bind(InputMode::Watching, &[Key::plain('1')], Action::ShowPane(1), "", PANE),
    bind(InputMode::Watching, &[Key::plain('2')], Action::ShowPane(2), "", PANE),
    bind(InputMode::Watching, &[Key::plain('3')], Action::ShowPane(3), "", PANE),
    bind(InputMode::Watching, &[Key::plain('4')], Action::ShowPane(4), "", PANE),
    bind(InputMode::Watching, &[Key::plain('5')], Action::ShowPane(5), "", PANE),
    bind(InputMode::Watching, &[Key::plain('6')], Action::ShowPane(6), "", PANE),
    bind(InputMode::Watching, &[Key::plain('7')], Action::ShowPane(7), "", PANE),
    bind(InputMode::Watching, &[Key::plain('8')], Action::ShowPane(8), "", PANE),
    bind(InputMode::Watching, &[Key::plain('9')], Action::ShowPane(9), "", PANE),
    bind(InputMode::Watching, &[Key::plain('r')], Action::EditCommand, "relaunch", "view and edit the command, then relaunch"),
    bind(InputMode::Watching, &[Key::plain('S')], Action::SaveSnapshot, "", "save PyTorch's own snapshot of now (pytorch.org/memory_viz)"),
    bind(InputMode::Watching, &[Key::plain(' '), Key::plain('p')], Action::PlayOrPause, "play/pause", "play or pause the recording"),
    bind(InputMode::Watching, &[Key::plain('>')], Action::Faster, "faster", "play the recording twice as fast"),
    bind(InputMode::Watching, &[Key::plain('<')], Action::Slower, "slower", "play the recording half as fast"),
    bind(InputMode::Watching, &[Key::plain('O')], Action::Seek(SeekTarget::NextOom), "next OOM", "recording: to the next OOM"),
    bind(InputMode::Watching, &[Key::plain(')')], Action::Seek(SeekTarget::Forward), "forward", "recording: forward by 10 s of playing"),
    bind(InputMode::Watching, &[Key::plain('(')], Action::Seek(SeekTarget::Back), "back", "recording: back by 10 s of playing"),
    bind(InputMode::Watching, &[Key::plain('}')], Action::Seek(SeekTarget::NextRun), "", "recording: to the next run"),
    bind(InputMode::Watching, &[Key::plain('{')], Action::Seek(SeekTarget::PreviousRun), "", "recording: to the run before"),
    bind(InputMode::Watching, &[Key::plain(' ')], Action::Time(Move::PauseOrGoOn), "pause", "freeze the chart (recording continues)"),
    bind(InputMode::Watching, &[Key::plain('0'), Key::code(KeyCode::Esc)], Action::Time(Move::Reset), "follow", "chart: back to now, default zoom"),
    bind(InputMode::Watching, &[Key::plain('K')], Action::AskToStop, "stop", "stop the training (asks first)"),
    bind(InputMode::Watching, &[Key::plain('f')], Action::MaximizePane, "full", "maximize the pane, and back"),
    bind(InputMode::Watching, &[Key::plain(']')], Action::NextDevice, "next GPU", "next GPU"),
    bind(InputMode::Watching, &[Key::plain('w')], Action::NextStandout, "fullest rank", "chart of the fullest, the slowest, the odd rank"),
    bind(InputMode::Watching, &[Key::plain('+'), Key::plain('=')], Action::Time(Move::In), "zoom in", "chart: zoom in"),
    bind(InputMode::Watching, &[Key::plain('-')], Action::Time(Move::Out), "out", "chart: zoom out"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Left), Key::plain('h')], Action::Time(Move::Back), "", "chart: pan to earlier"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Right), Key::plain('l')], Action::Time(Move::Forward), "", "chart: pan to later"),
    bind(InputMode::Watching, &[Key::plain(',')], Action::Time(Move::CursorBack), "", "chart: cursor left, shows its values"),
    bind(InputMode::Watching, &[Key::plain('.')], Action::Time(Move::CursorForward), "", "chart: cursor right"),
    bind(InputMode::Watching, &[Key::plain('c')], Action::Compare, "compare", "chart: overlay an earlier run"),
    bind(InputMode::Watching, &[Key::plain('z')], Action::OtherHeight, "", "chart: scale to capacity / to usage"),
    bind(InputMode::Watching, &[Key::plain('m')], Action::MaximizeChart, "", "maximize the chart, and back"),
    bind(InputMode::Watching, &[Key::plain('[')], Action::PreviousDevice, "", "previous GPU"),
    bind(InputMode::Watching, UP, Action::Up, "", "pane: up one row"),
    bind(InputMode::Watching, DOWN, Action::Down, "", "pane: down one row"),
    bind(InputMode::Watching, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "pane: up one page"),
    bind(InputMode::Watching, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "pane: down one page"),
    bind(InputMode::Watching, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::ToStart, "", "pane: to the start"),
    bind(InputMode::Watching, &[Key::plain('G'), Key::code(KeyCode::End)], Action::ToEnd, "", "pane: to the end, follow"),
    bind(InputMode::Watching, &[Key::plain('/')], Action::Search, "search", "output: search (lowercase ignores case)"),
    bind(InputMode::Watching, &[Key::plain('v')], Action::Select, "", "output: select rows to copy"),
    bind(InputMode::Watching, &[Key::plain('y')], Action::Copy, "", "copy the command"),
    bind(InputMode::Watching, &[Key::plain('M')], Action::Mouse, "", "toggle mouse capture (click, drag, wheel)"),
    bind(InputMode::Watching, &[Key::plain('t')], Action::NextTheme, "", "next theme (default/dark/light/contrast)"),
    bind(InputMode::Watching, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),
    bind(InputMode::Watching, &[Key::control('z')], Action::Suspend, "", "suspend oomph; the training continues"),
    bind(InputMode::Watching, &[Key::control('l')], Action::Redraw, "", "redraw"),
    bind(InputMode::Watching, &[Key::plain('i')], Action::TypeToTraining, "type to the training", "type to the training"),
    bind(InputMode::Watching, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(InputMode::Watching, &[Key::plain('q')], Action::Quit, "quit", "quit (asks while the training runs)"),

    bind(InputMode::Step, &[Key::plain('m')], Action::Step(StepMove::Regroup), "modules", "by lines, by modules, as a flame graph, by what grows"),
    bind(InputMode::Step, &[Key::plain('w')], Action::Step(StepMove::WhatLeaks), "what leaks", "what grows and who keeps it alive (the training waits, up to 1 s)"),
    bind(InputMode::Step, &[Key::code(KeyCode::Left), Key::plain('h')], Action::Step(StepMove::Back), "", "cursor left"),
    bind(InputMode::Step, &[Key::code(KeyCode::Right), Key::plain('l')], Action::Step(StepMove::Forward), "cursor", "cursor right"),
    bind(InputMode::Step, &[Key::plain('p')], Action::Step(StepMove::ToPeak), "peak", "cursor to the peak"),
    bind(InputMode::Step, &[Key::code(KeyCode::Enter)], Action::Step(StepMove::OpenRow), "the line", "lines: all that is known of the one at the pointer, and back"),
    bind(InputMode::Step, UP, Action::Up, "", "lines: up one row"),
    bind(InputMode::Step, DOWN, Action::Down, "lines", "lines: down one row"),
    bind(InputMode::Step, &[Key::plain('t')], Action::Step(StepMove::Reorder), "sort", "lines: sort by bytes, by blocks, by name"),
    bind(InputMode::Step, &[Key::plain('[')], Action::Step(StepMove::PreviousStep), "previous step", "the traced step before"),
    bind(InputMode::Step, &[Key::plain(']')], Action::Step(StepMove::NextStep), "next step", "the traced step after"),
    bind(InputMode::Step, &[Key::plain('f')], Action::Step(StepMove::FirstStep), "first", "the first traced step"),
    bind(InputMode::Step, &[Key::plain('b')], Action::Step(StepMove::LargestStep), "biggest", "the traced step with the highest peak (the biggest)"),
    bind(InputMode::Step, &[Key::plain('o')], Action::Step(StepMove::FailedStep), "ran out", "the step that ran out of memory"),
    bind(InputMode::Step, &[Key::plain('S')], Action::SaveSnapshot, "", "save PyTorch's own snapshot of now (pytorch.org/memory_viz)"),
    bind(InputMode::Step, &[Key::plain(',')], Action::Step(StepMove::EventBack), "", "cursor back by one allocation or free"),
    bind(InputMode::Step, &[Key::plain('.')], Action::Step(StepMove::EventForward), "", "cursor on by one allocation or free"),
    bind(InputMode::Step, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::Step(StepMove::ToStart), "", "cursor to the step's beginning"),
    bind(InputMode::Step, &[Key::plain('G'), Key::code(KeyCode::End)], Action::Step(StepMove::ToEnd), "", "cursor to the step's end"),
    bind(InputMode::Step, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "lines: up one page"),
    bind(InputMode::Step, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "lines: down one page"),
    bind(InputMode::Step, &[Key::code(KeyCode::Tab)], Action::NextDevice, "", "next GPU"),
    bind(InputMode::Step, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(InputMode::Step, &[Key::code(KeyCode::Esc), Key::plain('s'), Key::plain('q')], Action::Back, "back", "back to the chart"),
    bind(InputMode::Step, &[Key::control('z')], Action::Suspend, "", "suspend oomph; the training continues"),
    bind(InputMode::Step, &[Key::control('l')], Action::Redraw, "", "redraw"),
    bind(InputMode::Step, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),

    bind(InputMode::Oom, &[Key::code(KeyCode::Enter)], Action::Relaunch, "relaunch", "relaunch with the selected remedies (or press a remedy's key)"),
    bind(InputMode::Oom, END, Action::StopAndRelaunch, "stop and relaunch", "stop the running training, relaunch with the selected remedies"),
    bind(InputMode::Oom, &[Key::plain(' ')], Action::Combine, "combine", "combine the selected remedy with others"),
    bind(InputMode::Oom, &[Key::plain('v')], Action::EditCommand, "edit", "edit the command first"),
    bind(InputMode::Oom, &[Key::plain('d')], Action::Details, "details", "the evidence, the lines with the most live memory, what is not offered"),
    bind(InputMode::Oom, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(InputMode::Oom, UP, Action::Up, "", "previous remedy"),
    bind(InputMode::Oom, DOWN, Action::Down, "", "next remedy"),
    bind(InputMode::Oom, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "details: up one page"),
    bind(InputMode::Oom, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "details: down one page"),
    bind(InputMode::Oom, &[Key::plain('y')], Action::Copy, "copy", "copy the diagnosis as Markdown; again: the next command"),
    bind(InputMode::Oom, BACK, Action::Back, "back", "close this dialog (o opens it again)"),
    bind(InputMode::Oom, &[Key::control('z')], Action::Suspend, "", "suspend oomph"),
    bind(InputMode::Oom, &[Key::control('l')], Action::Redraw, "", "redraw"),
    bind(InputMode::Oom, &[Key::plain('q')], Action::Quit, "quit", "quit"),
    bind(InputMode::Oom, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),

    bind(InputMode::Editing, &[Key::code(KeyCode::Enter)], Action::Relaunch, "relaunch", "start this command"),
    bind(InputMode::Editing, END, Action::StopAndRelaunch, "stop and relaunch", "stop the running training, start this command"),
    bind(InputMode::Editing, BACK, Action::Back, "back", "back without changes"),
    bind(InputMode::Editing, INTERRUPT, Action::Back, "", "back without changes"),

    bind(InputMode::Quitting, END, Action::QuitAndStop, "stop the training", "quit and stop the training"),
    bind(InputMode::Quitting, &[Key::plain('l')], Action::QuitAndLeave, "leave it running", "quit and leave the training running"),
    bind(InputMode::Quitting, &[Key::code(KeyCode::Esc), Key::plain('q'), Key::plain('c')], Action::Back, "cancel", "keep watching"),
    bind(InputMode::Quitting, INTERRUPT, Action::Interrupt, "", "send SIGINT to the training"),

    bind(InputMode::Stopping, END, Action::Stop, "stop", "SIGTERM, then SIGKILL"),
    bind(InputMode::Stopping, &[Key::control('k')], Action::Kill, "kill now", "SIGKILL now"),
    bind(InputMode::Stopping, &[Key::code(KeyCode::Esc), Key::plain('q'), Key::plain('c')], Action::Back, "cancel", "let it run"),
    bind(InputMode::Stopping, INTERRUPT, Action::Interrupt, "", "send SIGINT to the training"),

    bind(InputMode::Helping, &[Key::code(KeyCode::Esc), Key::plain('?'), Key::plain('q')], Action::Back, "back", "back"),
    bind(InputMode::Helping, UP, Action::Up, "up", "up one row"),
    bind(InputMode::Helping, DOWN, Action::Down, "down", "down one row"),
    bind(InputMode::Helping, INTERRUPT, Action::Interrupt, "", "send SIGINT to the training"),

    bind(InputMode::Searching, &[Key::code(KeyCode::Enter)], Action::KeepSearch, "keep", "keep the matches; n and N step through them"),
    bind(InputMode::Searching, BACK, Action::Back, "back", "cancel the search"),
    bind(InputMode::Searching, INTERRUPT, Action::Back, "", "cancel the search"),

    bind(InputMode::Selecting, &[Key::plain('y'), Key::code(KeyCode::Enter)], Action::Copy, "copy", "copy the selected rows"),
    bind(InputMode::Selecting, UP, Action::Up, "extend up", "extend up one row"),
    bind(InputMode::Selecting, DOWN, Action::Down, "extend down", "extend down one row"),
    bind(InputMode::Selecting, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "extend up one page"),
    bind(InputMode::Selecting, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "extend down one page"),
    bind(InputMode::Selecting, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::ToStart, "", "extend to the start"),
    bind(InputMode::Selecting, &[Key::plain('G'), Key::code(KeyCode::End)], Action::ToEnd, "", "extend to the end"),
    bind(InputMode::Selecting, &[Key::code(KeyCode::Esc), Key::plain('v'), Key::plain('q')], Action::Back, "back", "clear the selection, follow"),
    bind(InputMode::Selecting, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),

    bind(InputMode::Typing, &[Key::control(']')], Action::Back, "keyboard back to oomph", "keyboard back to oomph"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::RemedyId;
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
                let of_replays = |binding: &Binding| binding.action == Action::PlayOrPause;
                if other.mode == binding.mode && of_replays(other) == of_replays(binding) {
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

    #[test]
    fn escape_backs_out_of_everything_that_is_open() {
        let escape = Key::code(KeyCode::Esc).event();
        for mode in [
            InputMode::Oom,
            InputMode::Editing,
            InputMode::Quitting,
            InputMode::Stopping,
            InputMode::Helping,
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
        assert!(plain_text().contains("Enter         relaunch with"));
        let panes = Pane::below().count();
        let digits = format!("\n  1–{panes}           the pane with this number\n");
        assert!(plain_text().contains(&digits));
    }
}
