//! The one way in which a file is written for the user or for other programs: under a name that nobody
//! can guess, in the same directory, and renamed when it is complete. Whoever reads it sees the old
//! content or the new, never a part.
//!
//! In a directory that others can write to, anything may wait under a name of ours: so no link of
//! somebody else's is followed, and nothing of somebody else's is replaced. FIFOs and devices are
//! written to as they are.

use nix::libc;
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Links that lead to links that lead to links: as many as the kernel follows.
const LINKS: usize = 40;

/// Attempts to find a name that is free; the first one is.
const ATTEMPTS: usize = 8;

/// Who may read a file that is new. One that is replaced keeps its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// This user.
    Owner,
    /// Whom the umask allows.
    Umask,
}

/// Where a name leads to.
#[derive(Debug)]
pub(crate) enum WriteTarget {
    /// Nothing is there.
    New(PathBuf),
    /// A file of this user's.
    Own(PathBuf),
    /// A FIFO or a device, or what a process has open already (`/dev/stdout`).
    Stream(PathBuf),
}

/// Where the name leads to, and that nobody else could have laid it.
///
/// # Errors
/// There is something of another user's, a directory, or the place cannot be looked at.
pub(crate) fn target(path: &Path) -> io::Result<WriteTarget> {
    let mut place = path.to_path_buf();
    for _ in 0..LINKS {
        if is_of_a_process(&place) {
            return Ok(WriteTarget::Stream(path.to_path_buf()));
        }
        let about = match fs::symlink_metadata(&place) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(WriteTarget::New(place));
            }
            Err(error) => return Err(error),
        };
        let kind = about.file_type();
        if kind.is_symlink() {
            if !is_ours(&about) && about.uid() != 0 {
                return Err(refused(&place, &about, "a link of"));
            }
            let next = fs::read_link(&place)?;
            place = match place.parent() {
                Some(parent) => parent.join(next),
                None => next,
            };
        } else if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
            return Ok(WriteTarget::Stream(place));
        } else if kind.is_file() {
            return match is_ours(&about) {
                true => Ok(WriteTarget::Own(place)),
                false => Err(refused(&place, &about, "a file of")),
            };
        } else {
            let what = if kind.is_dir() {
                "a directory"
            } else {
                "a socket"
            };
            let text = format!("{} is {what}; name a file", place.display());
            return Err(io::Error::other(text));
        }
    }
    Err(io::Error::other("too many links"))
}

fn is_ours(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw()
}

fn refused(place: &Path, about: &Metadata, what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} is {what} user {}; name another file",
            place.display(),
            about.uid()
        ),
    )
}

/// `/dev/stdout`, `/proc/self/fd/3`: what is open there is not replaced, whatever it is.
fn is_of_a_process(path: &Path) -> bool {
    path.starts_with("/dev/fd")
        || path.starts_with("/proc")
        || ["/dev/stdout", "/dev/stderr"]
            .map(Path::new)
            .contains(&path)
}

/// A file that is being written. If it is not finished, what was there before stays.
#[derive(Debug)]
pub(crate) struct WholeFile {
    file: File,
    /// What it is called until it is complete, and then; `None` for a FIFO or a device.
    names: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// Begins the file `path`. A FIFO that nobody reads is waited for.
    ///
    /// # Errors
    /// It cannot be written, or is somebody else's.
    pub(crate) fn create(path: &Path, readers: Readers) -> io::Result<WholeFile> {
        let (place, kept) = match target(path)? {
            WriteTarget::Stream(place) => {
                return Ok(WholeFile {
                    file: OpenOptions::new().append(true).open(place)?,
                    names: None,
                });
            }
            WriteTarget::New(place) => (place, None),
            WriteTarget::Own(place) => {
                let mode = fs::symlink_metadata(&place)?.mode() & 0o777;
                (place, Some(Permissions::from_mode(mode)))
            }
        };
        let mode = match readers {
            Readers::Owner => 0o600,
            Readers::Umask => 0o666,
        };
        let (file, unfinished) = create_beside(&place, mode)?;
        let whole = WholeFile {
            file,
            names: Some((unfinished, place)),
        };
        if let Some(kept) = kept {
            whole.file.set_permissions(kept)?;
        }
        Ok(whole)
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some((unfinished, place)) = &self.names {
            fs::rename(unfinished, place)?;
            self.names = None;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((unfinished, _)) = &self.names {
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// A new file in the directory of `place`, and its name.
fn create_beside(place: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        // The hasher's keys are random.
        let number = RandomState::new().build_hasher().finish();
        let path = place.with_file_name(format!(".oomph-{number:016x}.new"));
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        match made {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no name is free")))
}

/// Replaces the content of the file `path`.
///
/// # Errors
/// As [`WholeFile::create`], or the disk is full; then the old content is still there.
pub(crate) fn replace(path: &Path, readers: Readers, content: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path, readers)?;
    file.write_all(content)?;
    file.finish()
}

/// As [`replace`], but a FIFO that nobody reads is an error, not waited for.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_without_waiting(
    path: &Path,
    readers: Readers,
    content: &[u8],
) -> io::Result<()> {
    if let WriteTarget::Stream(place) = target(path)? {
        let stream = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(place);
        return match stream {
            Ok(mut stream) => stream.write_all(content),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                Err(io::Error::new(error.kind(), "nobody reads it"))
            }
            Err(error) => Err(error),
        };
    }
    replace(path, readers, content)
}

/// A file that is appended to for long, and the directory that it was made in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home(Option<(u64, u64, Option<SystemTime>)>);

impl Home {
    pub(crate) fn new(path: &Path) -> Home {
        let about = path.parent().and_then(|parent| fs::metadata(parent).ok());
        // Numbers are given again to new directories, at once on some file systems.
        Home(about.map(|about| (about.dev(), about.ino(), about.created().ok())))
    }

    /// Whether the file was removed together with its directory; a file that somebody removed alone was
    /// meant.
    pub(crate) fn is_gone(&self, file: &File, path: &Path) -> bool {
        file.metadata()
            .is_ok_and(|about| about.is_file() && about.nlink() == 0)
            && *self != Home::new(path)
    }
}

/// Makes a file that was removed with its directory again, with what was in it.
///
/// # Errors
/// The directory cannot be made, or something else is there by now.
pub(crate) fn make_again(removed: &File, path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    // Without /proc what was in it is lost.
    if let Ok(mut before) = File::open(format!("/proc/self/fd/{}", removed.as_raw_fd()))
        && let Err(error) = io::copy(&mut before, &mut file)
    {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
