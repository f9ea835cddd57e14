//! A line of text with a cursor, edited with readline's keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LineEdit {
    text: String,
    /// A byte offset.
    cursor: usize,
}

impl LineEdit {
    pub(super) fn of(text: String) -> LineEdit {
        let cursor = text.len();
        LineEdit { text, cursor }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text before and after the cursor.
    pub(super) fn halves(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    pub(super) fn key(&mut self, key: &KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('b') if control => self.cursor = self.before(),
            KeyCode::Char('f') if control => self.cursor = self.after(),
            KeyCode::Char('w') if control => self.delete(self.word_before(), self.cursor),
            KeyCode::Char('u') if control => self.delete(0, self.cursor),
            KeyCode::Char('k') if control => self.delete(self.cursor, self.text.len()),
            KeyCode::Char('d') if control => self.delete(self.cursor, self.after()),
            KeyCode::Char('h') if control => self.delete(self.before(), self.cursor),
            KeyCode::Char('b') if alt => self.cursor = self.word_before(),
            KeyCode::Char('f') if alt => self.cursor = self.word_after(),
            KeyCode::Char('d') if alt => self.delete(self.cursor, self.word_after()),
            KeyCode::Char(_) if control || alt => {}
            KeyCode::Char(c) => self.insert(c),
            KeyCode::Backspace if alt || control => self.delete(self.word_before(), self.cursor),
            KeyCode::Backspace => self.delete(self.before(), self.cursor),
            KeyCode::Delete => self.delete(self.cursor, self.after()),
            KeyCode::Left if control || alt => self.cursor = self.word_before(),
            KeyCode::Right if control || alt => self.cursor = self.word_after(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => {}
        }
    }

    /// Line ends become spaces.
    pub(super) fn paste(&mut self, text: &str) {
        for c in text.trim_end_matches(['\r', '\n']).chars() {
            self.insert(if c.is_control() { ' ' } else { c });
        }
    }

    fn insert(&mut self, c: char) {
        self.text.insert(self.cursor, c);
        self.cursor += c.len_utf8();
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        let last = self.text[..self.cursor].chars().next_back();
        self.cursor - last.map_or(0, char::len_utf8)
    }

    fn after(&self) -> usize {
        let next = self.text[self.cursor..].chars().next();
        self.cursor + next.map_or(0, char::len_utf8)
    }

    fn word_before(&self) -> usize {
        let head = self.text[..self.cursor].trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| {
            at + head[at..].chars().next().map_or(1, char::len_utf8)
        })
    }

    fn word_after(&self) -> usize {
        let tail = &self.text[self.cursor..];
        let word = tail.len() - tail.trim_start().len();
        tail[word..]
            .find(char::is_whitespace)
            .map_or(self.text.len(), |at| self.cursor + word + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_moves_by_characters_and_words() {
        let mut line = LineEdit::of("'日本' ab".to_string());
        for (code, modifiers, before) in [
            (KeyCode::Left, KeyModifiers::CONTROL, "ab"),
            (KeyCode::Home, KeyModifiers::NONE, "'"),
            (KeyCode::Right, KeyModifiers::NONE, ""),
            (KeyCode::Right, KeyModifiers::NONE, ""),
            (KeyCode::Char('f'), KeyModifiers::ALT, " ab"),
            (KeyCode::Char('k'), KeyModifiers::CONTROL, ""),
        ] {
            line.key(&KeyEvent::new(code, modifiers));
            assert!(line.halves().1.starts_with(before), "{:?}", line.halves());
        }
        line.key(&KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(line.halves(), ("", ""));
        for code in [
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Left,
            KeyCode::Right,
        ] {
            line.key(&code.into());
        }
        line.paste("a\nb\r\n");
        assert_eq!(line.halves().0, "a b");
    }
}
