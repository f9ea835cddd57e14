//! Files that are there as a whole, and what others have put in their place.

use super::*;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;
use std::io::Read;
use std::os::unix::fs::symlink;

const NOBODY: u32 = 65_534;

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn it_is_there_as_a_whole_or_not_at_all() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a");
    replace(&path, Readers::Owner, b"one").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let mut half = WholeFile::create(&path, Readers::Umask).unwrap();
    half.write_all(b"tw").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one");
    drop(half);
    assert_eq!(names(place.path()), ["a"]);
    replace(&path, Readers::Umask, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    // Its readers are whom its owner let.
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert_eq!(names(place.path()), ["a"]);
}

#[test]
fn a_name_that_could_be_guessed_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    let other = place.path().join("other");
    fs::write(&other, "precious").unwrap();
    symlink(&other, place.path().join("a.new")).unwrap();
    replace(&place.path().join("a"), Readers::Umask, b"x").unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"precious");
    assert_eq!(names(place.path()), ["a", "a.new", "other"]);
}

#[test]
fn our_own_link_is_followed_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("link");
    fs::create_dir(place.path().join("sub")).unwrap();
    symlink("sub/new", &path).unwrap();
    for content in [b"one", b"two"] {
        replace(&path, Readers::Umask, content).unwrap();
        assert!(path.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(place.path().join("sub/new")).unwrap(), content);
    }
    assert_eq!(names(&place.path().join("sub")), ["new"]);
    symlink(&path, place.path().join("again")).unwrap();
    fs::remove_file(&path).unwrap();
    symlink("again", &path).unwrap();
    assert!(replace(&path, Readers::Umask, b"x").is_err());
}

/// Only root can make something that is somebody else's.
#[test]
fn what_is_of_others_is_neither_followed_nor_replaced() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a");
    let target = place.path().join("target");
    fs::write(&target, "precious").unwrap();
    let given = std::os::unix::fs::lchown(&target, Some(NOBODY), None).is_ok();
    if given {
        // Another's file, and our own link to it.
        let error = replace(&target, Readers::Umask, b"x").unwrap_err();
        assert!(
            error.to_string().contains("a file of user 65534"),
            "{error}"
        );
        symlink(&target, &path).unwrap();
        assert!(replace(&path, Readers::Umask, b"x").is_err());
        // Another's link to our own file.
        fs::remove_file(&path).unwrap();
        let ours = place.path().join("ours");
        fs::write(&ours, "precious").unwrap();
        symlink(&ours, &path).unwrap();
        std::os::unix::fs::lchown(&path, Some(NOBODY), None).unwrap();
        let error = replace(&path, Readers::Umask, b"x").unwrap_err();
        assert!(
            error.to_string().contains("a link of user 65534"),
            "{error}"
        );
        assert_eq!(fs::read(&ours).unwrap(), b"precious");
    }
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    let error = replace(place.path(), Readers::Umask, b"x").unwrap_err();
    assert!(error.to_string().contains("is a directory"), "{error}");
}

#[test]
fn fifos_and_devices_are_written_to_as_they_are() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let error = replace_without_waiting(&fifo, Readers::Umask, b"x").unwrap_err();
    assert!(error.to_string().contains("nobody reads it"), "{error}");
    let mut reader = File::options().read(true).write(true).open(&fifo).unwrap();
    replace(&fifo, Readers::Umask, b"one").unwrap();
    replace_without_waiting(&fifo, Readers::Umask, b"two").unwrap();
    let mut got = [0; 6];
    reader.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"onetwo");
    replace(Path::new("/dev/null"), Readers::Umask, b"x").unwrap();
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    // A node of one's own takes root.
    let node = place.path().join("null");
    if mknod(&node, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3)).is_ok() {
        let written = replace(&node, Readers::Umask, b"x");
        let about = fs::symlink_metadata(&node).unwrap();
        assert!(about.file_type().is_char_device(), "{written:?}");
    }
    assert!(
        names(place.path())
            .iter()
            .all(|name| !name.ends_with(".new"))
    );
}

#[test]
fn a_file_whose_directory_was_removed_is_made_again_and_one_that_was_removed_alone_is_not() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("session/a");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let mut file = File::create(&path).unwrap();
    file.write_all(b"one").unwrap();
    let home = Home::new(&path);
    assert!(!home.is_gone(&file, &path));
    fs::remove_file(&path).unwrap();
    assert!(!home.is_gone(&file, &path));
    fs::remove_dir(path.parent().unwrap()).unwrap();
    assert!(home.is_gone(&file, &path));
    let mut again = make_again(&file, &path).unwrap();
    again.write_all(b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    assert!(make_again(&file, &path).is_err());
}
