//! A command as a list of words, never as a shell string, and the difference between two of them.
//!
//! What a person typed is kept word for word, bytes that are no UTF-8 included. Showing a command
//! (quoted for a shell, secrets masked) is this module's business too, so that no place prints one
//! without the mask. It knows nothing of programs, launchers or remedies.

mod path_in_json;
mod secrets;

use secrets::masked_words;
pub use secrets::{MASK, is_secret, masked};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// One word of a command line or one value of the environment: any bytes but NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub OsString);

impl Word {
    /// The word as text, where it is text.
    pub fn as_str(&self) -> Option<&str> {
        self.0.to_str()
    }

    /// The word's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The word for the eye: what is no UTF-8 becomes U+FFFD.
    pub fn to_string_lossy(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Word {
    fn from(text: &T) -> Word {
        Word(text.as_ref().to_os_string())
    }
}

impl From<OsString> for Word {
    fn from(text: OsString) -> Word {
        Word(text)
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word(text.into())
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.0 == **other
    }
}

/// In JSON a word is a string; one that is no UTF-8 is `{"bytes": [..]}`, so that nothing is lost.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WordInJson {
    Text(String),
    Raw { bytes: Vec<u8> },
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => WordInJson::Raw {
                bytes: self.as_bytes().to_vec(),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        Ok(Word(match WordInJson::deserialize(deserializer)? {
            WordInJson::Text(text) => text.into(),
            WordInJson::Raw { bytes } => OsString::from_vec(bytes),
        }))
    }
}

/// One variable of the environment as this command sets it (`Some`) or removes it (`None`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvChange {
    /// The variable's name.
    pub name: Word,
    /// Its value, or `None` where it is to be removed.
    pub value: Option<Word>,
}

/// A command to run: its words, what differs from the inherited environment, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandLine {
    /// The program and its arguments.
    pub argv: Vec<Word>,
    /// Words typed before the command (`NAME=VALUE`) and what oomph changed, in order; of one name
    /// the last counts. The inherited environment itself is never stored: it may hold secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvChange>,
    /// The working directory; empty where it has no name (it was deleted), and then it is the one
    /// that oomph itself is in.
    #[serde(with = "path_in_json")]
    pub cwd: PathBuf,
}

impl CommandLine {
    /// The value that this command gives to `name`, if it says anything of it.
    pub fn env_value(&self, name: &str) -> Option<&Word> {
        self.env
            .iter()
            .rev()
            .find(|change| change.name == *name)
            .and_then(|change| change.value.as_ref())
    }

    /// Sets `name` in this command's environment, in the place of an earlier setting.
    pub fn set_env(&mut self, name: &str, value: Option<Word>) {
        self.env.retain(|change| change.name != *name);
        self.env.push(EnvChange {
            name: Word::from(name),
            value,
        });
    }

    /// The command for a person: quoted so that a shell reads the same words, secrets masked.
    pub fn shown(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        if self.env.iter().any(|change| change.value.is_none()) {
            words.push("env".into());
        }
        for change in &self.env {
            let name = change.name.to_string_lossy();
            match &change.value {
                Some(_) if is_secret(&name) => words.push(format!("{name}={MASK}")),
                Some(value) => words.push(format!("{name}={}", quoted(&value.to_string_lossy()))),
                None => words.push(format!("-u {name}")),
            }
        }
        let argv = masked(&self.argv);
        let mut argv = argv.iter();
        // A program with `=` in its name would be read as a setting.
        words.extend(argv.next().map(|program| quoted_always(program, '=')));
        words.extend(argv.map(|word| quoted(word)));
        words.join(" ")
    }

    /// A copy fit to be stored: the values of secret names masked.
    pub fn without_secrets(&self) -> CommandLine {
        CommandLine {
            argv: masked_words(&self.argv),
            env: self
                .env
                .iter()
                .map(|change| EnvChange {
                    name: change.name.clone(),
                    value: change.value.as_ref().map(|value| {
                        if is_secret(&change.name.to_string_lossy()) {
                            Word::from(MASK)
                        } else {
                            value.clone()
                        }
                    }),
                })
                .collect(),
            cwd: self.cwd.clone(),
        }
    }
}

/// One word quoted for a POSIX shell; only ever to be shown or copied.
///
/// What no shell changes stays bare, `=` among it (shlex would quote `lr=0.1`): the characters are
/// those of Python's `shlex.quote`. A leading `=` is quoted, since zsh expands it.
pub fn quoted(word: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(bare) {
        return word.to_string();
    }
    shlex::try_quote(word).map_or_else(|_| word.replace('\0', ""), |text| text.into_owned())
}

fn quoted_always(word: &str, c: char) -> String {
    match quoted(word) {
        text if text == word && word.contains(c) => format!("'{word}'"),
        text => text,
    }
}

/// One difference between two commands, in the order of the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// A word that became another.
    Replaced {
        /// Its place in the old command.
        at: usize,
        /// The word before.
        from: Word,
        /// The word now.
        to: Word,
    },
    /// Words that were put in.
    Added {
        /// The place in the old command before which they stand.
        at: usize,
        /// The new words.
        words: Vec<Word>,
    },
    /// Words that were taken out.
    Removed {
        /// The place of the first in the old command.
        at: usize,
        /// The words that are gone.
        words: Vec<Word>,
    },
    /// A variable of the environment that differs.
    Env {
        /// Its name.
        name: Word,
        /// The value before, if the command said one.
        from: Option<Word>,
        /// The value now, or `None` where it is removed or no longer said.
        to: Option<Word>,
    },
}

/// What turns `old` into `new`, word by word: the longest common run of words stays.
pub fn difference(old: &CommandLine, new: &CommandLine) -> Vec<Change> {
    let mut changes = env_difference(old, new);
    let (a, b) = (&old.argv, &new.argv);
    // Lengths of the longest common subsequences of the tails; commands have tens of words.
    let mut common = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (from_i, from_j) = (i, j);
        while (i < a.len() || j < b.len()) && !(i < a.len() && j < b.len() && a[i] == b[j]) {
            if j == b.len() || (i < a.len() && common[i + 1][j] >= common[i][j + 1]) {
                i += 1;
            } else {
                j += 1;
            }
        }
        push_hunk(&mut changes, from_i, &a[from_i..i], &b[from_j..j]);
    }
    changes
}

fn push_hunk(changes: &mut Vec<Change>, at: usize, old: &[Word], new: &[Word]) {
    let both = old.len().min(new.len());
    for k in 0..both {
        changes.push(Change::Replaced {
            at: at + k,
            from: old[k].clone(),
            to: new[k].clone(),
        });
    }
    if new.len() > both {
        changes.push(Change::Added {
            at: at + both,
            words: new[both..].to_vec(),
        });
    }
    if old.len() > both {
        changes.push(Change::Removed {
            at: at + both,
            words: old[both..].to_vec(),
        });
    }
}

fn env_difference(old: &CommandLine, new: &CommandLine) -> Vec<Change> {
    let mut names: Vec<&Word> = Vec::new();
    for change in old.env.iter().chain(&new.env) {
        if !names.contains(&&change.name) {
            names.push(&change.name);
        }
    }
    names
        .into_iter()
        .filter_map(|name| {
            let value_in = |command: &CommandLine| {
                command
                    .env
                    .iter()
                    .rev()
                    .find(|change| change.name == *name)
                    .and_then(|change| change.value.clone())
            };
            let (from, to) = (value_in(old), value_in(new));
            (from != to).then(|| Change::Env {
                name: name.clone(),
                from,
                to,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> CommandLine {
        CommandLine {
            argv: words.iter().map(Word::from).collect(),
            env: Vec::new(),
            cwd: "/".into(),
        }
    }

    #[test]
    fn a_word_that_is_no_text_survives_json() {
        let word = Word(OsString::from_vec(vec![b'a', 0xff, b'b']));
        let json = serde_json::to_string(&word).unwrap();
        assert_eq!(serde_json::from_str::<Word>(&json).unwrap(), word);
        assert_eq!(
            serde_json::to_string(&Word::from("x y")).unwrap(),
            "\"x y\""
        );
    }

    #[test]
    fn a_directory_that_is_no_text_survives_json() {
        let mut odd = command(&["x"]);
        odd.cwd = OsString::from_vec(vec![b'/', 0xff]).into();
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(serde_json::from_str::<CommandLine>(&json).unwrap(), odd);
        let plain = serde_json::to_string(&command(&["x"])).unwrap();
        assert!(plain.contains(r#""cwd":"/""#), "{plain}");
    }

    #[test]
    fn differences_say_words() {
        let old = command(&["python", "train.py", "--batch-size", "64", "--lr", "1"]);
        let mut new = command(&[
            "python",
            "train.py",
            "--batch-size",
            "32",
            "--grad-accum",
            "2",
            "--lr",
            "1",
        ]);
        new.set_env("A", Some(Word::from("b")));
        assert_eq!(
            difference(&old, &new),
            [
                Change::Env {
                    name: "A".into(),
                    from: None,
                    to: Some("b".into())
                },
                Change::Replaced {
                    at: 3,
                    from: "64".into(),
                    to: "32".into()
                },
                Change::Added {
                    at: 4,
                    words: vec!["--grad-accum".into(), "2".into()]
                },
            ]
        );
        assert_eq!(difference(&old, &old), []);
    }

    #[test]
    fn removed_words_are_said() {
        let changes = difference(&command(&["a", "--noamp", "b"]), &command(&["a", "b"]));
        assert_eq!(
            changes,
            [Change::Removed {
                at: 1,
                words: vec!["--noamp".into()]
            }]
        );
    }

    #[test]
    fn secrets_are_never_shown() {
        let mut secret = command(&[
            "x",
            "--hf_token",
            "abc",
            "--api-key=def",
            "--tokenizer",
            "t5",
        ]);
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
        let odd = command(&["echo", "a b", "it's", "", "$HOME", "lr=0.1", "=x", "~"]);
        let back = shlex::split(&odd.shown()).unwrap();
        assert_eq!(
            back,
            ["echo", "a b", "it's", "", "$HOME", "lr=0.1", "=x", "~"]
        );
        assert_eq!(
            command(&["a=b", "+trainer.lr=0.1", "=x"]).shown(),
            "'a=b' +trainer.lr=0.1 '=x'"
        );
    }
}
