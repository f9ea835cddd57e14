//! Removes what sessions left that are over. Recordings and logs are kept.

use super::alive::{Life, find};
use super::base_dirs::BaseDirs;
use super::elsewhere::clear_over;
use std::fs;

/// Removes the private directories of dead sessions and returns their names; and what sessions that are
/// over told of themselves in the state directory.
pub fn clear_dead(places: &BaseDirs) -> Vec<String> {
    clear_over(places);
    let dead = find(places)
        .into_iter()
        .filter(|found| found.life == Life::Dead);
    dead.filter(|found| fs::remove_dir_all(&found.directory).is_ok())
        .map(|found| found.id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::BaseDir;
    use crate::session::alive::{SESSION_FILE, SessionFile};
    use crate::units::Pid;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_dead_are_cleared_away_and_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let places = BaseDirs {
            elsewhere: Vec::new(),
            state: Vec::new(),
            runtime: vec![BaseDir::Given(directory.path().to_owned())],
        };
        let me = Pid(std::process::id() as i32);
        let write = |id: &str, keeper: Option<Pid>| {
            let path = directory.path().join("oomph").join(id);
            fs::create_dir_all(&path).unwrap();
            if let Some(keeper) = keeper {
                SessionFile::new(id, keeper, None, None)
                    .write(&path)
                    .unwrap();
            }
            path
        };
        let (alive, dead) = (write("a", Some(me)), write("b", Some(Pid(i32::MAX))));
        let unknown = write("c", None);
        let lives: Vec<Life> = find(&places).iter().map(|found| found.life).collect();
        assert_eq!(lives, [Life::Alive, Life::Dead, Life::Unknown]);
        assert_eq!(clear_dead(&places), ["b"]);
        assert!(alive.exists() && unknown.exists() && !dead.exists());
        let mode = fs::metadata(alive.join(SESSION_FILE)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
