//! A word of a command, and its form in JSON.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A word of a command line or a value of the environment: any bytes except NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub OsString);

impl Word {
    pub fn as_str(&self) -> Option<&str> {
        self.0.to_str()
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// For display: bytes that aren't UTF-8 become U+FFFD.
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

/// A word is a string in JSON; one that isn't UTF-8 is `{"bytes": [..]}`, so that nothing is lost.
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

/// A path as a [`Word`] in JSON: serde would reject a path that isn't UTF-8, and with it the whole event.
pub(super) mod path_in_json {
    use super::Word;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::path::{Path, PathBuf};

    pub(in crate::command) fn serialize<S: Serializer>(
        path: &Path,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Word::from(path).serialize(serializer)
    }

    pub(in crate::command) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Word::deserialize(deserializer).map(|word| PathBuf::from(word.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
