//! The directory in which ranks of other nodes leave what they have to say: made for a session that may
//! have such ranks, on a file system that its nodes share, and removed with it.

use super::base_dirs::{BaseDir, is_own_directory, make_all, make_new, make_or_take, server_time};
use nix::sys::statfs::statfs;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The spool's name in a session's directory.
const SPOOL: &str = "spool";

/// The file by which a process on another node knows that it sees the same directory.
const MARKER: &str = "session";

/// A session touches its marker every few seconds. One whose newest file is this old is over: its node
/// died, or it would have removed the directory.
const DEAD_AFTER: Duration = Duration::from_secs(3_600);

/// Where the directory was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolPlace<'a> {
    /// By the user, who says that the nodes share it.
    Given(&'a Path),
    /// The session's own directory, if it lies on a shared file system.
    SessionDirectory(&'a Path),
}

/// File systems whose contents several machines see, by the number in `statfs(2)`. FUSE is not among
/// them: it may be anything.
const SHARED: [(i64, &str); 14] = [
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x1983_0326, "BeeGFS"),
    (0x4750_4653, "GPFS"),
    (0x1803_1977, "WekaFS"),
    (0x00c3_6400, "CephFS"),
    (0xaad7_aaea, "PanFS"),
    (0x2003_0528, "OrangeFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];

/// The name of the shared file system that a path lies on; `None` for a local one.
pub fn shared_file_system(path: &Path) -> Option<&'static str> {
    let number = statfs(path).ok()?.filesystem_type().0 as u32;
    name_of(number)
}

fn name_of(number: u32) -> Option<&'static str> {
    let known = SHARED.iter().find(|(known, _)| *known == i64::from(number));
    known.map(|(_, name)| *name)
}

/// Makes the directory (0700) of the session `id` with its marker. `None` if the session's directory is
/// not shared.
///
/// # Errors
/// Why it could not be made, naming the path.
pub fn make_spool(place: SpoolPlace<'_>, id: &str) -> Result<Option<PathBuf>, String> {
    let directory = match place {
        SpoolPlace::SessionDirectory(state) => {
            if shared_file_system(state).is_none() {
                return Ok(None);
            }
            state.join(SPOOL)
        }
        SpoolPlace::Given(base) => {
            let base = std::path::absolute(base).map_err(|error| error.to_string())?;
            // The directory is the user's word; ours in it is made.
            make_all(&base).map_err(|error| format!("{}: {error}", base.display()))?;
            let ours = BaseDir::Shared(base).oomph();
            make_or_take(&ours).map_err(|why| format!("{}: {why}", ours.display()))?;
            clear_dead_spools(&ours);
            ours.join(id)
        }
    };
    let about = |error: io::Error| format!("{}: {error}", directory.display());
    make_new(&directory).map_err(about)?;
    write_marker(&directory, id).map_err(about)?;
    Ok(Some(directory))
}

fn write_marker(directory: &Path, id: &str) -> io::Result<()> {
    let mut marker = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(directory.join(MARKER))?;
    let text = serde_json::json!({ "session": id });
    marker.write_all(text.to_string().as_bytes())
}

/// Removes the directories of sessions that are over. Ages are told by the file server's clock.
pub fn clear_dead_spools(parent: &Path) {
    let Some(now) = server_time(parent) else {
        return;
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let directory = entry.path();
        let is_spool = || directory.join(MARKER).is_file();
        let is_ours = fs::symlink_metadata(&directory).is_ok_and(|about| is_own_directory(&about));
        if is_ours && is_spool() && newest(&directory).is_some_and(|at| at + DEAD_AFTER < now) {
            // The next start tries again.
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

/// When the newest file of a directory was written.
fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    entries
        .filter_map(|entry| entry.metadata().ok()?.modified().ok())
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_shared_file_system_is_known_by_its_number() {
        assert_eq!(name_of(0x6969), Some("NFS"));
        assert_eq!(name_of(0xfe53_4d42), Some("SMB"));
        // ext4, tmpfs and FUSE.
        for local in [0xef53, 0x0102_1994, 0x6573_5546] {
            assert_eq!(name_of(local), None);
        }
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        assert_eq!(shared_file_system(directory.path()), None);
        let place = SpoolPlace::SessionDirectory(directory.path());
        assert_eq!(make_spool(place, "s"), Ok(None));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_spool_is_private_and_marked() {
        let base = tempfile::tempdir().unwrap();
        let spool = make_spool(SpoolPlace::Given(base.path()), "s")
            .unwrap()
            .unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&spool), 0o700);
        assert_eq!(mode(&spool.join(MARKER)), 0o600);
        let marker = fs::read_to_string(spool.join(MARKER)).unwrap();
        assert_eq!(marker, r#"{"session":"s"}"#);
        let again = make_spool(SpoolPlace::Given(base.path()), "s").unwrap_err();
        assert!(again.contains("exists"), "{again}");
    }

    #[test]
    fn a_spool_that_nobody_writes_to_is_removed_by_the_next_session() {
        let base = tempfile::tempdir().unwrap();
        let make = |id| {
            make_spool(SpoolPlace::Given(base.path()), id)
                .unwrap()
                .unwrap()
        };
        let (dead, waiting) = (make("a"), make("b"));
        let old = FileTimes::new().set_modified(SystemTime::now() - 2 * DEAD_AFTER);
        for spool in [&dead, &waiting] {
            let marker = OpenOptions::new().write(true).open(spool.join(MARKER));
            marker.unwrap().set_times(old).unwrap();
        }
        // Its front is stopped, its ranks are not.
        fs::write(waiting.join("1-n-7-1.jsonl"), "").unwrap();
        let third = make("c");
        assert!(!dead.exists() && waiting.exists() && third.exists());
    }
}
