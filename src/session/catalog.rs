//! The sessions recorded on this machine.

use super::RECORDING;
use super::base_dirs::{BaseDir, BaseDirs};
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

/// A session with a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub id: String,
    pub directory: PathBuf,
    /// When its recording was last modified.
    pub written: SystemTime,
}

/// Most recently modified first. An unreadable directory counts as empty.
pub fn list(places: &BaseDirs) -> Vec<Stored> {
    let mut sessions: Vec<Stored> = places.state.iter().flat_map(sessions_in).collect();
    sessions.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| b.id.cmp(&a.id)));
    sessions
}

/// The most recently modified session.
pub fn latest(places: &BaseDirs) -> Option<Stored> {
    list(places).into_iter().next()
}

fn sessions_in(place: &BaseDir) -> Vec<Stored> {
    let sessions = place.base().join(place.name()).join("sessions");
    // Another user may have created something with our name in a shared directory.
    let ours = fs::metadata(&sessions).is_ok_and(|meta| meta.uid() == geteuid().as_raw());
    let Some(entries) = ours.then(|| fs::read_dir(&sessions).ok()).flatten() else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let directory = entry.path();
            let written = fs::metadata(directory.join(RECORDING))
                .and_then(|meta| meta.modified())
                .ok()?;
            Some(Stored {
                id: entry.file_name().to_string_lossy().into_owned(),
                directory,
                written,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_session_written_to_last_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let places = BaseDirs {
            elsewhere: Vec::new(),
            state: vec![BaseDir::Own(dir.path().to_owned())],
            runtime: Vec::new(),
        };
        assert_eq!(latest(&places), None);
        let sessions = dir.path().join("oomph/sessions");
        let now = SystemTime::now();
        for (id, age) in [("b", 5), ("a", 1), ("c", 9)] {
            fs::create_dir_all(sessions.join(id)).unwrap();
            let recording = fs::File::create(sessions.join(id).join(RECORDING)).unwrap();
            recording
                .set_modified(now - Duration::from_secs(age))
                .unwrap();
        }
        fs::create_dir(sessions.join("without a recording")).unwrap();
        let ids: Vec<String> = list(&places).into_iter().map(|stored| stored.id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(latest(&places).unwrap().directory, sessions.join("a"));
    }
}
