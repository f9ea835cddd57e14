//! Reading the program's output: searching it and selecting rows of it. What is found and selected
//! the output's own screen holds; here is what the keys mean for it.

use super::{Keyboard, Pane, Said, Spread, View};
use crate::ui::action::{Effect, Find, Scroll, Select};
use crate::ui::dialog::Dialog;
use crate::ui::scene::Scene;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Position;

/// A text that is longer is a paste gone wrong.
const LONGEST: usize = 200;

impl View {
    /// Asks for a text.
    pub(super) fn ask_for_text(&mut self) {
        self.bring_output();
        self.dialog = Some(Dialog::Find(String::new()));
    }

    /// The output in sight, whatever was.
    pub(super) fn bring_output(&mut self) {
        self.show(Pane::Output);
        self.spread = match self.spread {
            Spread::Chart => Spread::Together,
            spread @ (Spread::Together | Spread::Pane) => spread,
        };
    }

    /// A key while a text is typed: what is found follows it.
    pub(super) fn key_of_text(&mut self, key: &KeyEvent) -> Option<Effect> {
        let Some(Dialog::Find(text)) = &mut self.dialog else {
            return None;
        };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => text.clear(),
            KeyCode::Char('w') if control => {
                let kept = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                text.truncate(kept);
            }
            KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => {
                return None;
            }
            KeyCode::Char(c) if text.len() < LONGEST => text.push(c),
            KeyCode::Backspace => {
                text.pop();
            }
            _ => return None,
        }
        Some(Effect::Find(Find::For(text.clone())))
    }

    /// Pasted into the text.
    pub(super) fn paste_into_text(&mut self, pasted: &str) -> Option<Effect> {
        let Some(Dialog::Find(text)) = &mut self.dialog else {
            return None;
        };
        let line = pasted.lines().next().unwrap_or_default();
        text.extend(line.chars().filter(|c| !c.is_control()).take(LONGEST));
        Some(Effect::Find(Find::For(text.clone())))
    }

    /// What was found is kept, unless nothing was asked for.
    pub(super) fn take_find(&mut self) -> Option<Effect> {
        let asked = matches!(&self.dialog, Some(Dialog::Find(text)) if !text.is_empty());
        self.dialog = None;
        (!asked).then_some(Effect::Find(Find::End))
    }

    /// Begins to select, at a row of the output's view or at its newest one.
    pub(super) fn begin_selecting(&mut self, row: Option<u16>) -> Option<Effect> {
        self.bring_output();
        self.keyboard = Keyboard::Selection;
        Some(Effect::Select(Select::Begin(row)))
    }

    /// The mouse goes over the output with its button down: the rows from where it went down.
    pub(super) fn drag(&mut self, at: Position, scene: &Scene) -> Option<Effect> {
        let pane = self.layout(scene).pane?;
        let output = self.dialog.is_none() && self.pane == Pane::Output && scene.replay.is_none();
        if !output || !pane.contains(self.pressed) {
            return None;
        }
        let top = pane.y + 1;
        let row = |y: u16| y.saturating_sub(top).min(pane.height.saturating_sub(2));
        match self.keyboard {
            Keyboard::Selection => Some(Effect::Select(Select::To(row(at.y)))),
            Keyboard::Oomph => self.begin_selecting(Some(row(self.pressed.y))),
            Keyboard::Training => None,
        }
    }

    /// Moves the selection's end.
    pub(super) fn extend_selection(scroll: Scroll) -> Option<Effect> {
        Some(Effect::Select(Select::By(scroll)))
    }

    /// Copies what is selected; the output is followed again.
    pub(super) fn copy_selected(&mut self, scene: &Scene) -> Option<Effect> {
        self.keyboard = Keyboard::Oomph;
        self.say(Said::Copied, scene);
        Some(Effect::CopySelected)
    }
}
