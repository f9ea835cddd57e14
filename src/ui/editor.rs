//! A line of text being edited with readline's keys, and a command edited as such a line: it is read back
//! by a shell's quoting rules. Nothing is expanded or run by a shell. Numbers that are changed in the program's own text are no
//! part of the line: they are shown below it, by file and line.

use crate::command::{CommandLine, EnvChange, Word, masked};
use crate::event::EDITS;
use crate::remedy::RemedyId;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Editor {
    pub line: LineEdit,
    origin: CommandLine,
    remedies: Vec<RemedyId>,
    /// What was wrong with the text when it was last read.
    pub error: Option<String>,
    /// Whether it was opened from the OOM dialog, to which Esc leads back.
    pub is_over_oom: bool,
}

impl Editor {
    /// Edits the command that these remedies make.
    pub fn new(command: CommandLine, remedies: Vec<RemedyId>) -> Editor {
        Editor {
            line: LineEdit::new(typed(&command).shown()),
            origin: command,
            remedies,
            error: None,
            is_over_oom: false,
        }
    }

    pub fn remedies(&self) -> &[RemedyId] {
        &self.remedies
    }

    /// The command that would be started; `None` while the text is none.
    pub fn command(&self) -> Option<CommandLine> {
        let edited = self.read().ok()?;
        Some(edited.unwrap_or_else(|| self.origin.clone()))
    }

    /// The text as a command; `None` if it is unchanged.
    pub fn read(&self) -> Result<Option<CommandLine>, String> {
        let typed = typed(&self.origin);
        if self.line.text() == typed.shown() {
            return Ok(None);
        }
        let mut command = read(self.line.text(), &typed)?;
        // Whoever types the variable means it.
        if let (Some(edits), None) = (self.origin.env_value(EDITS), command.env_value(EDITS)) {
            command.set_env(EDITS, Some(edits.clone()));
        }
        Ok(Some(command))
    }
}

/// The command without the variable that says what is changed in the program's text.
fn typed(command: &CommandLine) -> CommandLine {
    let mut typed = command.clone();
    typed.env.retain(|change| change.name != *EDITS);
    typed
}

/// Reads a command that was shown by [`CommandLine::shown`] and edited.
fn read(text: &str, origin: &CommandLine) -> Result<CommandLine, String> {
    let words = shlex::split(text)
        .ok_or("Unclosed quote: close it, or escape it with a backslash.".to_string())?;
    let mut words = words.into_iter().peekable();
    let mut env = Vec::new();
    // `shown` starts with `env` and has `-u NAME` if the command removes a variable.
    let removes = origin.env.iter().any(|change| change.value.is_none())
        && words.next_if(|word| word == "env").is_some();
    loop {
        if let Some(setting) = words.next_if(|word| is_setting(word)) {
            env.push(setting_of(&setting));
        } else if removes && words.next_if(|word| word == "-u").is_some() {
            let name = words.next().ok_or("-u needs the name of a variable.")?;
            env.push(EnvChange {
                name: Word::from(name),
                value: None,
            });
        } else {
            break;
        }
    }
    let argv: Vec<Word> = words.map(Word::from).collect();
    if argv.is_empty() {
        return Err("There is no command left: type one, or press Esc to go back.".to_string());
    }
    Ok(CommandLine {
        argv,
        env,
        cwd: origin.cwd.clone(),
    })
}

/// `NAME=VALUE` with a name that a shell accepts.
fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn setting_of(word: &str) -> EnvChange {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    EnvChange {
        name: Word::from(name),
        value: Some(Word::from(value)),
    }
}

/// Restores what was shown masked, or with U+FFFD: words and values that are still as they were
/// shown become what they were, in order.
pub fn restore_masked(edited: &mut CommandLine, real: &CommandLine) {
    let shown = masked(&real.argv);
    let mut hidden: Vec<(&str, &Word)> = shown
        .iter()
        .map(String::as_str)
        .zip(&real.argv)
        .filter(|(shown, word)| word.as_str() != Some(shown))
        .collect();
    for word in &mut edited.argv {
        if let Some(at) = hidden.iter().position(|(shown, _)| *word == **shown) {
            *word = hidden.remove(at).1.clone();
        }
    }
    let masked_env = real.without_secrets().env;
    for change in &mut edited.env {
        let before = masked_env.iter().zip(&real.env).rev();
        for (shown, real) in before {
            if shown.name == change.name && shown.value != real.value {
                if shown.value == change.value {
                    change.value = real.value.clone();
                }
                break;
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LineEdit {
    text: String,
    /// A byte offset.
    cursor: usize,
}

impl LineEdit {
    pub fn new(text: String) -> LineEdit {
        let cursor = text.len();
        LineEdit { text, cursor }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before and after the cursor.
    pub fn halves(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    pub fn key(&mut self, key: &KeyEvent) {
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
    pub fn paste(&mut self, text: &str) {
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

    fn command(words: &[&str]) -> CommandLine {
        CommandLine {
            argv: words.iter().map(Word::from).collect(),
            env: Vec::new(),
            cwd: "/w".into(),
        }
    }

    #[test]
    fn what_is_typed_is_what_is_run() {
        let mut editor = Editor::new(command(&["python", "a b.py", "--n", "64"]), vec![]);
        assert_eq!(editor.read(), Ok(None), "unchanged");
        for _ in 0..2 {
            editor.line.key(&KeyCode::Backspace.into());
        }
        editor.line.paste("32 --amp");
        let read = editor.read().unwrap().unwrap();
        assert_eq!(read, command(&["python", "a b.py", "--n", "32", "--amp"]));
    }

    /// `train.py:30  batch = 128→64` is said below the line.
    #[test]
    fn an_edit_of_the_programs_text_is_kept_and_no_part_of_the_line() {
        let mut origin = command(&["python", "x.py"]);
        let edits = Word::from("/w/x.py:30:8:128=64@0000abcd~batch%20=%20");
        origin.set_env("A", Some(Word::from("1")));
        origin.set_env(EDITS, Some(edits.clone()));
        let mut editor = Editor::new(origin, vec![]);
        assert_eq!(editor.line.text(), "A=1 python x.py");
        assert_eq!(editor.read(), Ok(None), "unchanged");
        editor.line.paste(" --amp");
        let read = editor.read().unwrap().unwrap();
        assert_eq!(read.argv, command(&["python", "x.py", "--amp"]).argv);
        assert_eq!(read.env_value(EDITS), Some(&edits));
        assert_eq!(read.env_value("A"), Some(&Word::from("1")));
    }

    #[test]
    fn the_environment_is_read_back() {
        let mut origin = command(&["python", "x.py"]);
        origin.set_env("A", Some(Word::from("1 2")));
        origin.set_env("B", None);
        let read = read(&format!("{} --more", origin.shown()), &origin).unwrap();
        let mut expected = origin.clone();
        expected.argv.push(Word::from("--more"));
        assert_eq!(read.argv, expected.argv);
        assert_eq!(read.env_value("A"), Some(&Word::from("1 2")));
        assert!(read.env.iter().any(|e| e.name == "B" && e.value.is_none()));
    }

    #[test]
    fn what_is_no_command_is_said_so() {
        let origin = command(&["python"]);
        assert!(read("python 'x", &origin).unwrap_err().contains("quote"));
        assert!(read("  ", &origin).unwrap_err().contains("no command"));
        assert!(read("A=b", &origin).unwrap_err().contains("no command"));
    }

    #[test]
    fn secrets_survive_being_masked() {
        let mut real = command(&["x", "--token", "s1", "--n", "1", "--api-key=s2"]);
        real.set_env("HF_TOKEN", Some(Word::from("s3")));
        let mut edited = read(&real.shown().replace("--n 1", "--n 2"), &real).unwrap();
        restore_masked(&mut edited, &real);
        real.argv[4] = Word::from("2");
        assert_eq!(edited, real);
    }

    #[test]
    fn the_cursor_moves_by_characters_and_words() {
        let mut line = LineEdit::new("'日本' ab".to_string());
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
