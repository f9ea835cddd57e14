//! How far the files were read, for the next front of the session: a file on this machine, which is
//! written after what was read has been sent.

use super::follower::Follower;
use super::nodes::Nodes;
use crate::whole_file::{self, Readers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Places {
    pub(super) nodes: Nodes,
    pub(super) followers: BTreeMap<String, Follower>,
}

impl Places {
    pub(super) fn read(path: &Path) -> Option<Places> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Replaces the file. Without it the next front reads from the beginning.
    pub(super) fn write(&self, path: &Path) {
        if let Ok(content) = serde_json::to_vec(self) {
            let _ = whole_file::replace(path, Readers::Owner, &content);
        }
    }
}
