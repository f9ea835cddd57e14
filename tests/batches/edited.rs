//! An edit of the program's own text from the first word of it to the last: how it is told, typed again, refused and
//! declined.

use super::{COMMON, oomph};
use crate::harness::at_home;
use oomph::event::{EventKind, SourceEdit};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const CONSTANT: &str = "from common import train\nBATCH = 128\ntrain(BATCH)\n";
const CHANGE: &str = "train.py:2  BATCH = 128→64";

/// A program in a directory of its own.
struct Project {
    home: TempDir,
    directory: TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        let project = Project {
            home: TempDir::new().expect("a directory"),
            directory: TempDir::new().expect("a directory"),
        };
        project.write("common.py", COMMON);
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("a file");
    }

    /// Under `--on-oom auto`, with these words behind oomph's usual ones.
    fn trains(&self, words: &[&str]) -> (Output, Vec<EventKind>) {
        let recording = self.home.path().join("events.jsonl");
        let output = oomph(self.path(), self.home.path())
            .arg("--record")
            .arg(&recording)
            .args(words)
            .output()
            .expect("oomph runs");
        let events = match recording.exists() {
            true => oomph::recording::read(&recording)
                .expect("a recording")
                .map(|event| event.expect("an event").what)
                .collect(),
            false => Vec::new(),
        };
        (output, events)
    }

    /// A subcommand's output.
    fn says(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command.args(words).current_dir(self.path());
        at_home(&mut command, self.home.path());
        let done = command.output().expect("oomph runs");
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn edits(events: &[EventKind]) -> Vec<Vec<String>> {
    let runs = events.iter().filter_map(|event| match event {
        EventKind::Started(started) => Some(&started.command),
        _ => None,
    });
    let each = runs.map(|command| {
        SourceEdit::of(command)
            .iter()
            .map(SourceEdit::change)
            .collect()
    });
    each.collect()
}

fn notes(events: &[EventKind]) -> String {
    let notes = events.iter().filter_map(|event| match event {
        EventKind::Note(note) => Some(note.text.as_str()),
        _ => None,
    });
    notes.collect::<Vec<_>>().join("\n")
}

#[test]
fn all_that_name_a_changed_command_say_the_line_and_not_the_variable() {
    let project = Project::new(&[("train.py", CONSTANT)]);
    let (done, _) = project.trains(&["python3", "train.py"]);
    let recording = project.home.path().join("events.jsonl");
    let recording = recording.to_str().expect("a path");
    let mut said = vec![("the relaunch", text(&done.stderr))];
    said.push(("diff", project.says(&["diff", recording])));
    said.push(("report", project.says(&["report", recording, "-o", "-"])));
    let json = project.says(&["report", recording, "-o", "report.md"]);
    said.push((
        "report.md",
        json + &fs::read_to_string(project.path().join("report.md")).expect("a report"),
    ));
    for (what, said) in &said {
        let said = said.replace("BATCH = <del>128</del> <ins>64</ins>", "BATCH = 128→64");
        assert!(said.contains("BATCH = 128→64"), "{what}: {said}");
        assert!(!said.contains("OOMPH_EDITS="), "{what}: {said}");
    }
    // One in its usual place, which ls finds.
    let done = oomph(project.path(), project.home.path())
        .args(["python3", "train.py"])
        .output()
        .expect("oomph runs");
    assert!(done.status.success());
    let listed = project.says(&["ls", "--all"]);
    assert!(
        listed.contains(&format!("python3 train.py  [{CHANGE}]")),
        "{listed}"
    );
}

#[test]
fn an_edit_can_be_typed() {
    let project = Project::new(&[("train.py", CONSTANT)]);
    for edit in ["train.py:2:128=48", "train.py:2:9:128=48"] {
        let (done, events) = project.trains(&["--edit", edit, "python3", "train.py"]);
        assert_eq!(text(&done.stdout), "trained with 48 x 1\n", "{done:?}");
        assert_eq!(edits(&events), [["train.py:2  BATCH = 128→48"]]);
        assert!(!text(&done.stderr).contains("oomph:"), "{done:?}");
        fs::remove_file(project.home.path().join("events.jsonl")).expect("a recording");
    }
    assert_eq!(
        fs::read_to_string(project.path().join("train.py")).expect("a file"),
        CONSTANT
    );
    // What a later out-of-memory offers is one more change of the same number.
    let (done, events) = project.trains(&["--edit", "train.py:2:128=120", "python3", "train.py"]);
    assert_eq!(text(&done.stdout), "trained with 60 x 1\n", "{done:?}");
    let after = ["train.py:2  BATCH = 128→120", "train.py:2  BATCH = 128→60"];
    assert_eq!(edits(&events).concat(), after);
}

#[test]
fn what_an_edited_script_has_printed_stands_before_its_error() {
    for (end, last) in [
        ("raise ValueError('no')", "ValueError: no"),
        ("raise SystemExit('no')", "no"),
    ] {
        let script = format!("BATCH = 128\nprint('loss', BATCH)\n{end}\n");
        let project = Project::new(&[("train.py", &script)]);
        let words = ["sh", "-c", "python3 train.py >log 2>&1"];
        let (done, _) = project.trains(&[&["--edit", "train.py:1:128=64"], &words[..]].concat());
        let log = fs::read_to_string(project.path().join("log")).expect("a log");
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.first(), Some(&"loss 64"), "{log}");
        assert_eq!(lines.last(), Some(&last), "{log}");
        assert_eq!(done.status.code(), Some(1), "{done:?}");
    }
}

#[test]
fn an_edit_of_a_number_that_is_not_there_starts_nothing() {
    let project = Project::new(&[("train.py", CONSTANT)]);
    for (edit, why) in [
        ("train.py:2:256=64", "line 2 has no 256: BATCH = 128"),
        ("none.py:2:128=64", "cannot read none.py"),
        ("train.py:2", "write it as train.py:30:128=64"),
    ] {
        let (done, events) = project.trains(&["--edit", edit, "python3", "train.py"]);
        let said = text(&done.stderr);
        assert!(said.contains(&format!("--edit {edit}: ")), "{said}");
        assert!(said.contains(why), "{said}");
        assert_eq!(done.status.code(), Some(125), "{said}");
        assert!(done.stdout.is_empty() && events.is_empty());
    }
}

/// `python -I` and its like leave what would change it unread: that is said before a run, not after a second OOM.
#[test]
fn an_edit_that_python_is_told_to_leave_unread_is_not_offered() {
    let project = Project::new(&[("train.py", CONSTANT)]);
    for option in ["-I", "-E", "-uS"] {
        let typed = ["--edit", "train.py:2:128=64", "python3", option, "train.py"];
        let (done, events) = project.trains(&typed);
        let said = text(&done.stderr);
        assert!(
            said.contains("keeps out what would change it: leave -"),
            "{said}"
        );
        assert_eq!(done.status.code(), Some(125), "{said}");
        assert!(done.stdout.is_empty() && events.is_empty());
        let plan = project.says(&["plan", "--", "python3", option, "train.py"]);
        assert!(
            plan.contains("smaller batch: not offered: BATCH stands in train.py:2"),
            "{plan}"
        );
        assert!(!plan.contains("--edit"), "{plan}");
    }
}

/// What was typed is not ended, but said.
#[test]
fn a_process_that_trains_without_a_typed_edit_is_named() {
    let program = "import os, types\nfrom common import train\nsettings = types.ModuleType('settings')\n\
                   exec(os.popen('cat settings.py').read(), vars(settings))\ntrain(settings.batch_size)\n";
    let files = [("train.py", program), ("settings.py", "batch_size = 32\n")];
    let project = Project::new(&files);
    let (done, _) = project.trains(&["--edit", "settings.py:1:32=16", "python3", "train.py"]);
    let said = text(&done.stderr);
    assert_eq!(text(&done.stdout), "trained with 32 x 1\n", "{said}");
    assert!(done.status.success(), "{said}");
    let why = "a process trains without what --edit changes: this process has not loaded ";
    assert!(said.contains(why), "{said}");
}

/// The program writes to its own file once memory has run out.
#[test]
fn a_file_that_changed_before_the_relaunch_is_not_run_edited() {
    let program = "import settings\nfrom common import train\ntry:\n    train(settings.batch_size)\n\
                   except Exception:\n    open('settings.py', 'a').write('# later\\n')\n    raise\n";
    let files = [("train.py", program), ("settings.py", "batch_size = 128\n")];
    let project = Project::new(&files);
    let (done, events) = project.trains(&["python3", "train.py"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert_eq!(edits(&events).len(), 1, "{said}");
    let why = "settings.py has changed since it ran, so line 1 is not edited; not relaunched";
    assert!(said.contains(why), "{said}");
}

/// In its second run the program reads the file by itself, with another number, and goes on and on.
#[test]
fn a_process_that_trains_without_the_edit_ends_the_relaunch() {
    let program = "import os, signal, types\nfrom common import train\n\
                   if os.path.exists('seen'):\n    settings = types.ModuleType('settings')\n    \
                   exec(os.popen('cat settings.py').read().replace('128', '32'), vars(settings))\n\
                   else:\n    open('seen', 'w').close()\n    import settings\n\
                   train(settings.batch_size)\nsignal.pause()\n";
    let files = [("train.py", program), ("settings.py", "batch_size = 128\n")];
    let project = Project::new(&files);
    let (done, events) = project.trains(&["python3", "train.py"]);
    let said = text(&done.stderr);
    assert!(!done.status.success(), "{said}");
    assert_eq!(edits(&events).len(), 2, "{said}");
    let why = "settings.py:1  batch_size = 128→64 had no effect: this process has not loaded ";
    assert!(said.contains(why), "{said}");
    assert!(notes(&events).contains("undone: settings.py:1"), "{said}");
    // That says nothing of the number.
    let plan = project.says(&["plan", "--", "python3", "train.py"]);
    assert!(!plan.contains("learned "), "{plan}");
}

#[test]
fn a_module_that_a_word_of_the_command_names_has_the_batch() {
    let program = "from importlib import import_module\nimport argparse\np = argparse.ArgumentParser()\np.add_argument('--net', default='small')\nnet = import_module('nets.' + p.parse_args().net)\nconfig = net.Config()\n";
    let project = Project::new(&[("train.py", program)]);
    fs::create_dir(project.path().join("nets")).expect("a directory");
    for (name, batch) in [("small", 128), ("large", 32)] {
        let config =
            format!("class Config:\n    def __init__(self):\n        self.batch_size = {batch}\n");
        project.write(&format!("nets/{name}.py"), &config);
    }
    let said = project.says(&["plan", "--", "python3", "train.py", "--net", "large"]);
    assert!(said.contains("large.py:3"), "{said}");
    assert!(!said.contains("small.py"), "{said}");
    let said = project.says(&["plan", "--", "python3", "train.py"]);
    assert!(said.contains("small.py:3"), "{said}");
}
