//! A command being edited: one line of text with a cursor, read back as words by a shell's rules of
//! quoting (and only those: nothing is expanded, nothing is run by a shell).

use crate::command::{CommandLine, EnvChange, Word, masked};
use crate::remedy::RemedyId;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A command being edited.
#[derive(Debug, Clone, PartialEq)]
pub struct Editor {
    text: String,
    /// A byte offset on a character's edge.
    cursor: usize,
    origin: CommandLine,
    remedies: Vec<RemedyId>,
    /// What is wrong with the text, since it was last to be read.
    pub error: Option<String>,
}

impl Editor {
    /// For the command that these remedies make.
    pub fn of(command: CommandLine, remedies: Vec<RemedyId>) -> Editor {
        let text = command.shown();
        Editor {
            cursor: text.len(),
            text,
            origin: command,
            remedies,
            error: None,
        }
    }

    /// The text before and after the cursor.
    pub fn halves(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// The remedies that made the command that is edited.
    pub fn remedies(&self) -> &[RemedyId] {
        &self.remedies
    }

    /// The command before it was edited.
    pub fn origin(&self) -> &CommandLine {
        &self.origin
    }

    /// The text read as a command: `None` where it is what it was, an error in words where it is
    /// none.
    pub fn read(&self) -> Result<Option<CommandLine>, String> {
        if self.text == self.origin.shown() {
            return Ok(None);
        }
        read(&self.text, &self.origin).map(Some)
    }

    /// Takes a key that the table does not have.
    pub fn key(&mut self, key: &KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        self.error = None;
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

    /// Takes pasted text; its line ends become spaces.
    pub fn paste(&mut self, text: &str) {
        self.error = None;
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

/// Reads a command that was shown by [`CommandLine::shown`] and edited.
fn read(text: &str, origin: &CommandLine) -> Result<CommandLine, String> {
    let words = shlex::split(text)
        .ok_or("Unclosed quote: close it, or escape it with a backslash.".to_string())?;
    let mut words = words.into_iter().peekable();
    let mut env = Vec::new();
    // `shown` begins with `env`, and has `-u NAME`, where the command removes a variable.
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

/// `NAME=VALUE` with a name that a shell would take.
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

/// Puts back what an edited command shows masked, or with U+FFFD, from the command that was shown:
/// words and values that are still as they were shown become what they were, in order.
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

    fn press(editor: &mut Editor, code: KeyCode, modifiers: KeyModifiers) {
        editor.key(&KeyEvent::new(code, modifiers));
    }

    fn typed(editor: &mut Editor, text: &str) {
        for c in text.chars() {
            press(editor, KeyCode::Char(c), KeyModifiers::NONE);
        }
    }

    #[test]
    fn what_is_typed_is_what_is_run() {
        let mut editor = Editor::of(command(&["python", "a b.py", "--n", "64"]), vec![]);
        assert_eq!(editor.read(), Ok(None), "unchanged");
        press(&mut editor, KeyCode::Backspace, KeyModifiers::NONE);
        press(&mut editor, KeyCode::Backspace, KeyModifiers::NONE);
        typed(&mut editor, "32 --amp");
        let read = editor.read().unwrap().unwrap();
        assert_eq!(read, command(&["python", "a b.py", "--n", "32", "--amp"]));
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
        let mut editor = Editor::of(command(&["日本", "ab"]), vec![]);
        editor.cursor = editor.text.len();
        for (code, modifiers, before) in [
            (KeyCode::Left, KeyModifiers::CONTROL, "ab"),
            (KeyCode::Home, KeyModifiers::NONE, "'"),
            (KeyCode::Right, KeyModifiers::NONE, ""),
            (KeyCode::Right, KeyModifiers::NONE, ""),
            (KeyCode::Char('f'), KeyModifiers::ALT, " ab"),
            (KeyCode::Char('k'), KeyModifiers::CONTROL, ""),
        ] {
            press(&mut editor, code, modifiers);
            assert!(
                editor.halves().1.starts_with(before),
                "{:?}",
                editor.halves()
            );
        }
        press(&mut editor, KeyCode::Char('w'), KeyModifiers::CONTROL);
        assert_eq!(editor.halves(), ("", ""));
        for code in [
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Left,
            KeyCode::Right,
        ] {
            press(&mut editor, code, KeyModifiers::NONE);
        }
        editor.paste("a\nb\r\n");
        assert_eq!(editor.halves().0, "a b");
    }
}
