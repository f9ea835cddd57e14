//! The sessions recorded on this machine.

use super::RECORDING;
use super::base_dirs::{BaseDirs, own_entries};
use std::fs;
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
    // The user may have moved oomph's directory to another disk: links count.
    let entries =
        (places.recorded()).flat_map(|place| own_entries(place, |path| fs::metadata(path)));
    let mut sessions: Vec<Stored> = entries.filter_map(stored).collect();
    sessions.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| b.id.cmp(&a.id)));
    sessions
}

/// The most recently modified session.
pub fn latest(places: &BaseDirs) -> Option<Stored> {
    list(places).into_iter().next()
}

/// `None` without a recording.
fn stored((id, directory): (String, PathBuf)) -> Option<Stored> {
    let about = fs::metadata(directory.join(RECORDING)).ok()?;
    Some(Stored {
        id,
        written: about.modified().ok()?,
        directory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::BaseDir;
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
