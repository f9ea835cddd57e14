//! A command as a list of words, never as a shell string, and the difference between two commands.
//!
//! What the user typed is kept byte by byte, even if it isn't UTF-8. Displaying a command (quoted
//! for a shell, secrets masked) is done here too, so that none is printed without the mask. This
//! knows nothing of programs, launchers or remedies.

mod difference;
mod secrets;
mod word;

pub use difference::{Change, difference};
pub use secrets::{MASK, is_secret, masked, without_secrets};
use secrets::{masked_value, masked_words};
pub use word::Word;
use word::path_in_json;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A variable that this command sets or removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvChange {
    pub name: Word,
    /// `None` to remove it.
    pub value: Option<Word>,
}

/// A command to run: its words, its changes of the environment, and its working directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandLine {
    /// The program and its arguments.
    pub argv: Vec<Word>,
    /// Variables typed before the command (`NAME=VALUE`) and oomph's changes, in order; the last
    /// one of a name counts. The inherited environment itself is never stored: it may contain
    /// secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvChange>,
    /// Empty if the working directory was deleted; then oomph's own is used.
    #[serde(with = "path_in_json")]
    pub cwd: PathBuf,
}

impl CommandLine {
    /// This command's value for `name`, if it changes it.
    pub fn env_value<N: ?Sized>(&self, name: &N) -> Option<&Word>
    where
        Word: PartialEq<N>,
    {
        self.env
            .iter()
            .rev()
            .find(|change| change.name == *name)
            .and_then(|change| change.value.as_ref())
    }

    /// Sets `name` in this command's environment, replacing an earlier change.
    pub fn set_env(&mut self, name: &str, value: Option<Word>) {
        self.env.retain(|change| change.name != *name);
        self.env.push(EnvChange {
            name: Word::from(name),
            value,
        });
    }

    /// A command as typed, with single spaces between words.
    #[cfg(test)]
    pub(crate) fn typed(line: &str) -> CommandLine {
        CommandLine {
            argv: line.split(' ').map(Word::from).collect(),
            env: Vec::new(),
            cwd: "/".into(),
        }
    }

    /// For display: quoted for a shell, secrets masked.
    pub fn shown(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        if self.env.iter().any(|change| change.value.is_none()) {
            words.push("env".into());
        }
        for change in &self.env {
            let name = change.name.to_string_lossy();
            match &change.value {
                Some(value) => {
                    let value = match masked_value(&name, value) {
                        masked if masked == *MASK => MASK.into(),
                        masked => quoted(&masked.to_string_lossy()),
                    };
                    words.push(format!("{name}={value}"));
                }
                None => words.push(format!("-u {name}")),
            }
        }
        let argv = masked(&self.argv);
        let mut argv = argv.iter();
        // A program with `=` in its name would be read as a variable.
        words.extend(argv.next().map(|program| quoted_always(program, '=')));
        words.extend(argv.map(|word| quoted(word)));
        words.join(" ")
    }

    /// A copy for storing: the values of secret names masked.
    pub fn without_secrets(&self) -> CommandLine {
        CommandLine {
            argv: masked_words(&self.argv),
            env: self
                .env
                .iter()
                .map(|change| EnvChange {
                    name: change.name.clone(),
                    value: (change.value.as_ref())
                        .map(|value| masked_value(&change.name.to_string_lossy(), value)),
                })
                .collect(),
            cwd: self.cwd.clone(),
        }
    }
}

/// Quotes a word for a POSIX shell, for display and copying only.
///
/// Characters that are safe in every shell are those of Python's `shlex.quote`, and `=` (shlex
/// would quote `lr=0.1`). A leading `=` is quoted, since zsh expands it.
pub fn quoted(word: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(bare) {
        return word.to_string();
    }
    if word.contains(char::is_control) {
        return spelled(word);
    }
    shlex::try_quote(word).map_or_else(|_| word.replace('\0', ""), |text| text.into_owned())
}

/// A word with control characters, which a terminal would obey where it is displayed or pasted: as
/// `$'...'` (POSIX since 2024).
fn spelled(word: &str) -> String {
    let mut whole = String::from("$'");
    for c in word.chars().filter(|c| *c != '\0') {
        match c {
            '\n' => whole.push_str("\\n"),
            '\r' => whole.push_str("\\r"),
            '\t' => whole.push_str("\\t"),
            '\\' => whole.push_str("\\\\"),
            '\'' => whole.push_str("\\'"),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    whole.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => whole.push(c),
        }
    }
    whole.push('\'');
    whole
}

fn quoted_always(word: &str, c: char) -> String {
    match quoted(word) {
        text if text == word && word.contains(c) => format!("'{word}'"),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_directory_that_is_no_text_survives_json() {
        let mut odd = CommandLine::typed("x");
        odd.cwd = OsString::from_vec(vec![b'/', 0xff]).into();
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(serde_json::from_str::<CommandLine>(&json).unwrap(), odd);
        let plain = serde_json::to_string(&CommandLine::typed("x")).unwrap();
        assert!(plain.contains(r#""cwd":"/""#), "{plain}");
    }

    #[test]
    fn secrets_are_never_shown() {
        let mut secret = CommandLine::typed("x --hf_token abc --api-key=def --tokenizer t5");
        secret.set_env("WANDB_API_KEY", Some(Word::from("ghi")));
        assert_eq!(
            secret.shown(),
            "WANDB_API_KEY=*** x --hf_token '***' '--api-key=***' --tokenizer t5"
        );
        let stored = serde_json::to_string(&secret.without_secrets()).unwrap();
        for leaked in ["abc", "def", "ghi"] {
            assert!(!stored.contains(leaked), "{stored}");
        }
    }

    #[test]
    fn shown_commands_read_back_in_a_shell() {
        let words = ["echo", "a b", "it's", "", "$HOME", "lr=0.1", "=x", "~"];
        let odd = CommandLine {
            argv: words.iter().map(Word::from).collect(),
            ..CommandLine::default()
        };
        assert_eq!(shlex::split(&odd.shown()).unwrap(), words);
        assert_eq!(
            CommandLine::typed("a=b +trainer.lr=0.1 =x").shown(),
            "'a=b' +trainer.lr=0.1 '=x'"
        );
    }

    #[test]
    fn control_characters_are_spelled_as_a_shell_reads_them() {
        let words = ["a\nb", "\u{1b}]0;x\u{7}", "it's\r\\", "\u{9b}2J"];
        let odd = CommandLine {
            argv: words.iter().map(Word::from).collect(),
            ..CommandLine::default()
        };
        let shown = odd.shown();
        assert!(!shown.contains(char::is_control), "{shown}");
        let script = format!("printf '%s\\0' {shown}");
        let bash = std::process::Command::new("bash")
            .args(["-c", &script])
            .output();
        if let Ok(said) = bash {
            let said = String::from_utf8(said.stdout).unwrap();
            assert_eq!(said.split_terminator('\0').collect::<Vec<_>>(), words);
        }
    }
}
