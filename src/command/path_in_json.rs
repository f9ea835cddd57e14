//! A path as a [`Word`] in JSON: serde would reject a path that isn't UTF-8, and with it the whole
//! event.

use super::Word;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::{Path, PathBuf};

pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Word::from(path).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Word::deserialize(deserializer).map(|word| PathBuf::from(word.0))
}
