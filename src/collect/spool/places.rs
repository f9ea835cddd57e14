//! How far the files were read, for the next front of the session: a file on this machine, which is
//! written after what was read has been sent.

use super::follower::Follower;
use super::nodes::Nodes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
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
        let unfinished = path.with_extension("new");
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            fs::rename(&unfinished, path)
        };
        let _ = write();
    }
}
