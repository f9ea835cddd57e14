//! What one session learns of a program's numbers, and the next one makes of it.

use super::{Edited, Kind, PLAIN, Session, oomph, run_in};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Its first number is named like the batch and sets nothing.
const TWO_NUMBERS: Kind = Kind {
    program: "from common import train\nbatch_size = 128\ndef rows(n=128):\n    return n\ntrain(rows())\n",
    outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
    ..PLAIN
};

struct Sessions {
    home: TempDir,
    project: TempDir,
}

impl Sessions {
    fn new() -> Sessions {
        Sessions {
            home: TempDir::new().expect("a directory"),
            project: TempDir::new().expect("a directory"),
        }
    }

    /// Runs a session, which ends well, and returns the runs that it took.
    fn runs(&self, kind: &Kind) -> (usize, Session) {
        let recording = self.home.path().join("events.jsonl");
        if recording.exists() {
            fs::remove_file(&recording).expect("a recording");
        }
        let session = run_in(self.project.path(), self.home.path(), kind);
        let complaint = super::complaint(kind, &session);
        assert_eq!(complaint, None);
        (session.commands.len(), session)
    }

    /// The file that holds what was learned.
    fn file(&self) -> PathBuf {
        let found = find(self.home.path());
        found.expect("what was learned was written down")
    }

    fn plan(&self, options: &[&str]) -> String {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .arg("plan")
            .args(options)
            .args(["--", "python3", "train.py"])
            .current_dir(self.project.path());
        crate::harness::at_home(&mut command, self.home.path());
        let done = command.output().expect("oomph runs");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

fn find(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    entries
        .map(|entry| entry.path())
        .find_map(|path| match path.file_name()?.to_str()? {
            "learned.json" => Some(path),
            _ if path.is_dir() => find(&path),
            _ => None,
        })
}

#[test]
fn a_number_without_effect_is_not_taken_again_in_the_next_session() {
    let sessions = Sessions::new();
    let (runs, first) = sessions.runs(&TWO_NUMBERS);
    assert_eq!(runs, 3);
    let undone =
        "train.py:2  batch_size = 128→64 had no effect: the model is still given 128×1024×256";
    assert!(first.said.contains(undone), "{}", first.said);
    let goes_on = "the change of run 2 had no effect; relaunching with smaller batch";
    assert!(first.said.contains(goes_on), "{}", first.said);
    let (runs, _) = sessions.runs(&TWO_NUMBERS);
    assert_eq!(runs, 2);
    let plan = sessions.plan(&[]);
    for line in [
        "train.py:2 batch_size has no effect (session ",
        "train.py:3 n sets the batch (session ",
    ] {
        assert!(plan.contains(line), "{plan}");
    }
    let json = sessions.plan(&["--json"]);
    assert!(json.contains("\"number\": \"train.py:3 n\""), "{json}");
}

#[test]
fn a_damaged_file_of_what_was_learned_costs_no_more_than_having_none() {
    let sessions = Sessions::new();
    assert_eq!(sessions.runs(&TWO_NUMBERS).0, 3);
    let file = sessions.file();
    fs::write(&file, b"\xff\0{\"program\":\n[[[[").expect("a file");
    assert_eq!(sessions.runs(&TWO_NUMBERS).0, 3);
    assert_eq!(sessions.runs(&TWO_NUMBERS).0, 2);
}

#[test]
fn where_nothing_can_be_remembered_the_training_goes_on_as_well() {
    let sessions = Sessions::new();
    assert_eq!(sessions.runs(&TWO_NUMBERS).0, 3);
    let file = sessions.file();
    fs::remove_file(&file).expect("a file");
    fs::create_dir(&file).expect("a directory");
    let (runs, session) = sessions.runs(&TWO_NUMBERS);
    assert_eq!(runs, 3);
    let said = "what was learned of train.py:2 batch_size is not kept for later sessions";
    assert!(session.said.contains(said), "{}", session.said);
}

#[test]
fn the_limit_on_relaunches_counts_those_without_effect() {
    let sessions = Sessions::new();
    let text = TWO_NUMBERS.program;
    fs::write(sessions.project.path().join("common.py"), super::COMMON).expect("a file");
    fs::write(sessions.project.path().join("train.py"), text).expect("a file");
    let done = oomph(sessions.project.path(), sessions.home.path())
        .args(["--max-relaunches", "1", "python3", "train.py"])
        .output()
        .expect("oomph runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains("relaunched 1 times already"), "{said}");
}
