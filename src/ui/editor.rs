//! A command being edited as a line of text, read back by a shell's quoting rules. Nothing is
//! expanded or run by a shell.

use crate::command::{CommandLine, EnvChange, Word, masked};
use crate::remedy::RemedyId;
use crate::ui::line_edit::LineEdit;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Editor {
    pub line: LineEdit,
    origin: CommandLine,
    remedies: Vec<RemedyId>,
    /// What was wrong with the text when it was last read.
    pub error: Option<String>,
}

impl Editor {
    /// Edits the command that these remedies make.
    pub(super) fn of(command: CommandLine, remedies: Vec<RemedyId>) -> Editor {
        Editor {
            line: LineEdit::of(command.shown()),
            origin: command,
            remedies,
            error: None,
        }
    }

    pub(super) fn remedies(&self) -> &[RemedyId] {
        &self.remedies
    }

    pub(super) fn origin(&self) -> &CommandLine {
        &self.origin
    }

    /// The text as a command; `None` if it is unchanged.
    pub(super) fn read(&self) -> Result<Option<CommandLine>, String> {
        if self.line.text() == self.origin.shown() {
            return Ok(None);
        }
        read(self.line.text(), &self.origin).map(Some)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyCode;

    fn command(words: &[&str]) -> CommandLine {
        CommandLine {
            argv: words.iter().map(Word::from).collect(),
            env: Vec::new(),
            cwd: "/w".into(),
        }
    }

    #[test]
    fn what_is_typed_is_what_is_run() {
        let mut editor = Editor::of(command(&["python", "a b.py", "--n", "64"]), vec![]);
        assert_eq!(editor.read(), Ok(None), "unchanged");
        for _ in 0..2 {
            editor.line.key(&KeyCode::Backspace.into());
        }
        editor.line.paste("32 --amp");
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
}
