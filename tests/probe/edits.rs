//! Numbers in the program's sources that the user chose to change: each program runs as if its file said so, and the file
//! itself stays as it is. Each is compared with a bare run of a file that was really changed.

use crate::probe::front::{Front, Place};
use crate::probe::program::{Ended, Program, python};
use oomph::event::{EventKind, PatchOutcome, SourceEdit, crc32};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What a script may see of where it came from.
const LOOK: &str = "\
import os, pickle, sys
here = os.path.dirname(os.path.abspath(__file__))
batch = 128
def look():
    names = ('__name__', '__file__', '__spec__', '__package__', '__cached__', '__doc__')
    print([globals().get(name, 'none') for name in names], type(__loader__).__name__, getattr(__loader__, 'path', None))
    print(sys.argv, sys.path[:1], sys.orig_argv[1:] if hasattr(sys, 'orig_argv') else '')
    print([name for name in globals() if name.startswith('_')])
    print(look.__code__.co_filename, look.__code__.co_firstlineno, look.__module__)
class Kept:
    pass
";

/// Every Python that there is here.
fn pythons() -> Vec<OsString> {
    let mut all = vec![python()];
    for minor in 8..=14 {
        let asked = std::process::Command::new(format!("python3.{minor}"))
            .args(["-c", "import sys; print(sys.executable)"])
            .output();
        if let Ok(said) = asked
            && said.status.success()
        {
            let path = String::from_utf8(said.stdout).unwrap();
            all.push(path.trim_end().into());
        }
    }
    all.dedup();
    all
}

/// A program of several files, one of which has a number changed.
struct Case {
    place: Place,
    /// The file with the number.
    file: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
    edit: SourceEdit,
}

impl Case {
    /// `128` in the first line that has it becomes `64`.
    fn new(name: &str, text: &[u8]) -> Case {
        let place = Place::new();
        let file = place.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = text.to_vec();
        let at = text.windows(3).position(|three| three == b"128").unwrap();
        let after = [&text[..at], b"64", &text[at + 3..]].concat();
        let line_of = |byte: &u8| *byte == b'\n';
        let begin = text[..at].iter().rposition(line_of).map_or(0, |at| at + 1);
        let edit = SourceEdit {
            file: fs::canonicalize(place.path())
                .unwrap()
                .join(name)
                .to_str()
                .unwrap()
                .into(),
            line: 1 + text[..at].iter().filter(|byte| line_of(byte)).count() as u32,
            column: (at - begin) as u32,
            from: 128,
            to: 64,
            crc: crc32(text),
            spelled: "batch = ".into(),
        };
        fs::write(&file, text).unwrap();
        Case {
            place,
            file,
            before,
            after,
            edit,
        }
    }

    fn other(self, name: &str, text: &str) -> Case {
        let path = self.place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Bare from the changed file, and edited from the original one.
    fn both(&self, python: &OsString, words: &[&str]) -> (Ended, Ended) {
        let line = "cd \"$0\" && exec \"$@\"";
        let mut argv: Vec<OsString> = vec![
            "-c".into(),
            line.into(),
            self.place.path().into(),
            python.clone(),
        ];
        argv.extend(words.iter().map(OsString::from));
        let program = Program::new(argv).interpreter(Path::new("sh"));
        fs::write(&self.file, &self.after).unwrap();
        let bare = program.run_bare();
        fs::write(&self.file, &self.before).unwrap();
        let value = SourceEdit::value(std::slice::from_ref(&self.edit));
        let edited = program.env("OOMPH_EDITS", value).run(&self.place);
        assert_eq!(fs::read(&self.file).unwrap(), self.before);
        (bare, edited)
    }

    #[track_caller]
    fn runs_as_bare(&self, words: &[&str], says: &str) {
        for python in pythons() {
            let (bare, edited) = self.both(&python, words);
            assert!(bare.stdout.contains(says), "{python:?}: {bare:?}");
            assert_eq!(without_runpy(edited), without_runpy(bare), "{python:?}");
        }
    }
}

/// Without the lines of a traceback that are Python's own way to a program.
fn without_runpy(mut ended: Ended) -> Ended {
    let mut kept = String::new();
    let mut skipping = false;
    for line in ended.stderr.split_inclusive('\n') {
        let is_place = line.trim_start().starts_with("File \"");
        if is_place {
            skipping = line.contains("runpy");
        }
        if !(skipping && (is_place || line.starts_with("    "))) {
            kept.push_str(line);
        }
    }
    ended.stderr = kept;
    ended
}

#[test]
fn a_script_sees_itself_as_bare() {
    let text = format!(
        "{LOOK}look()\nprint(batch, pickle.dumps(Kept()) and pickle.loads(pickle.dumps(Kept)) is Kept)\n"
    );
    Case::new("train.py", text.as_bytes()).runs_as_bare(&["train.py", "--lr", "1"], "64 True");
}

#[test]
fn a_script_that_raises_prints_its_own_lines() {
    let text = "batch = 128\ndef train():\n    raise ValueError(batch)\ntrain()\n";
    let case = Case::new("train.py", text.as_bytes());
    for python in pythons() {
        let (bare, edited) = case.both(&python, &["train.py"]);
        assert_eq!(without_runpy(bare), without_runpy(edited));
    }
    for end in [
        "import sys; sys.exit(batch - 61)\n",
        "raise SystemExit('no ' + str(batch))\n",
        "raise KeyboardInterrupt\n",
    ] {
        let case = Case::new("train.py", format!("batch = 128\n{end}").as_bytes());
        let (bare, edited) = case.both(&python(), &["train.py"]);
        assert_eq!(without_runpy(bare), without_runpy(edited));
    }
}

#[test]
fn children_of_multiprocessing_have_the_edit_and_find_main() {
    for method in ["spawn", "forkserver"] {
        let text = format!(
            "import multiprocessing, sys\nbatch = 128\nclass Kept:\n    size = batch\ndef child(kept, queue):\n    \
             queue.put((batch, kept.size, __name__, __file__))\nif __name__ == '__main__':\n    \
             context = multiprocessing.get_context('{method}')\n    queue = context.Queue()\n    \
             started = context.Process(target=child, args=(Kept(), queue))\n    started.start()\n    \
             print(queue.get())\n    started.join()\n    print(started.exitcode, batch)\n"
        );
        Case::new("train.py", text.as_bytes())
            .runs_as_bare(&["train.py"], "(64, 64, '__mp_main__'");
    }
}

#[test]
fn modules_are_edited_where_they_are_imported_or_started() {
    let module = "batch = 128\ndef size():\n    return batch\nif __name__ == '__main__':\n    \
                  print(batch, __spec__.name, __file__)\n    import package.settings as again\n    print(again.size())\n";
    let case = Case::new("package/settings.py", module.as_bytes())
        .other("package/__init__.py", "")
        .other("train.py", "from package import settings\nimport importlib, inspect\nprint(settings.size(), \
                settings.__cached__ is not None, settings.__file__)\nprint(inspect.getsource(settings))\n\
                importlib.reload(settings)\nprint(settings.batch)\n");
    case.runs_as_bare(&["-B", "train.py"], "64 True");
    case.runs_as_bare(&["-B", "-m", "package.settings"], "64 package.settings");
}

#[test]
fn a_main_that_is_imported_again_is_edited_again() {
    let text = "import sys\nbatch = 128\nif __name__ == '__main__':\n    import train\n    print(batch, train.batch, \
                train.__name__, train.__spec__.name)\n";
    Case::new("train.py", text.as_bytes()).runs_as_bare(&["train.py"], "64 64 train train");
}

#[test]
fn a_launcher_starts_the_edited_script() {
    let launcher = "import subprocess, sys\nfor rank in range(2):\n    \
                    subprocess.run([sys.executable, '-u', 'train.py', '--rank', str(rank)], check=True)\n";
    let text = format!("{LOOK}look()\nprint(batch)\n");
    let case = Case::new("train.py", text.as_bytes()).other("launch.py", launcher);
    case.runs_as_bare(&["launch.py"], "\n64\n");
    case.runs_as_bare(
        &[
            "-c",
            "import runpy; print(runpy.run_path('train.py', run_name='x')['batch'])",
        ],
        "\n64\n",
    );
}

#[test]
fn a_linked_script_and_one_in_another_directory_find_their_modules() {
    let text = format!("{LOOK}look()\nimport beside\nprint(batch, beside.name)\n");
    let case =
        Case::new("inner/train.py", text.as_bytes()).other("inner/beside.py", "name = 'beside'\n");
    symlink("inner/train.py", case.place.path().join("run.py")).unwrap();
    case.runs_as_bare(&["-B", "run.py"], "64 beside");
    case.runs_as_bare(&["-B", "inner/train.py"], "64 beside");
}

#[test]
fn texts_of_other_encodings_and_line_ends_are_read_as_python_does() {
    let print = "print(batch, [ord(letter) for letter in name])\n";
    let latin = [
        b"# -*- coding: latin-1 -*-\nname = '\xe9'; batch = 1_2_8 + 0\nbatch = 128\n".as_slice(),
        print.as_bytes(),
    ]
    .concat();
    Case::new("train.py", &latin).runs_as_bare(&["train.py"], "64 [233]");
    let marked = [
        b"\xef\xbb\xbf\nname = 'x'\nbatch = 128\n".as_slice(),
        print.as_bytes(),
    ]
    .concat();
    Case::new("train.py", &marked).runs_as_bare(&["train.py"], "64 [120]");
    let windows = format!("name = '''a\nb'''\nbatch = 128\n{print}").replace('\n', "\r\n");
    Case::new("train.py", windows.as_bytes()).runs_as_bare(&["train.py"], "64 [97, 10, 98]");
}

/// Of a program that executes what it reads, a profiler and whatever else compiles a file by itself.
#[test]
fn a_source_is_edited_for_whoever_runs_what_it_reads() {
    let settings = "batch = 128\nname = '\u{e9}'\n";
    for runs in [
        "exec(open('settings.py').read())",
        "from pathlib import Path\nexec(Path('settings.py').read_text())",
        "exec(compile(open('settings.py', 'rb').read(), 'settings.py', 'exec'))",
        "def text(path):\n    with open(path) as file:\n        return file.read()\nexec(text('settings.py'))",
    ] {
        let case = Case::new("settings.py", settings.as_bytes()).other(
            "train.py",
            &format!("{runs}\nprint(batch, [ord(letter) for letter in name])\n"),
        );
        case.runs_as_bare(&["train.py"], "64 [233]");
    }
    let latin = b"# -*- coding: latin-1 -*-\nname = '\xe9'\nbatch = 128\nprint(batch, [ord(letter) for letter in name])\n";
    let case = Case::new("train.py", latin);
    for module in ["cProfile", "profile"] {
        case.runs_as_bare(&["-m", module, "-o", "profile.out", "train.py"], "64 [233]");
    }
    // Its counts of each line go to files.
    let words = ["-m", "trace", "--count", "--coverdir", "cover"];
    case.runs_as_bare(&[&words[..], &["train.py"]].concat(), "64 [233]");
}

/// The file is what it is for whoever shows, counts or copies it.
#[test]
fn a_source_that_is_only_read_is_read_as_it_is() {
    let program = "import shutil\nbatch = 128\ndef show():\n    print(open(__file__).read().count('128'), batch)\n\
                   show()\nprint(open, open is __import__('io').open, repr(open), open.__module__)\n\
                   shutil.copy(__file__, 'copy.py')\n";
    let case = Case::new("train.py", program.as_bytes());
    let (_, edited) = case.both(&python(), &["train.py"]);
    // Once by its batch and once by the word that counts them.
    assert!(edited.stdout.starts_with("2 64\n"), "{edited:?}");
    // All that is to be changed is loaded by then.
    assert!(
        edited.stdout.contains("<built-in function open> True"),
        "{edited:?}"
    );
    let copied = fs::read(case.place.path().join("copy.py")).unwrap();
    assert_eq!(copied, case.before);
}

#[test]
fn a_read_only_tree_is_no_obstacle_and_nothing_is_left_in_it() {
    let case = Case::new("package/settings.py", b"batch = 128\n").other("package/__init__.py", "");
    let directory = case.place.path().join("package");
    let program = "import sys; sys.dont_write_bytecode = False; import package.settings as one; print(one.batch)";
    let value = SourceEdit::value(std::slice::from_ref(&case.edit));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o555)).unwrap();
    let line = "cd \"$0\" && exec \"$@\"";
    let argv: Vec<OsString> = vec![
        "-c".into(),
        line.into(),
        case.place.path().into(),
        python(),
        "-c".into(),
        program.into(),
    ];
    let ran = Program::new(argv)
        .interpreter(Path::new("sh"))
        .env("OOMPH_EDITS", value)
        .run(&case.place);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    ran.expect("64");
    let written = fs::read_dir(directory.join("__pycache__"));
    let of_file = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("settings");
    assert!(!written.is_ok_and(|all| all.flatten().any(of_file)));
}

#[test]
fn each_process_says_whether_it_has_the_edit() {
    let step = "import torch\ntorch.optim.Adam([torch.empty(1 << 20)]).step()\nprint(batch)\n";
    let said = |changes: fn(&Case)| {
        let case = Case::new("train.py", format!("batch = 128\n{step}").as_bytes());
        let mut front = Front::listen(&case.place);
        changes(&case);
        let value = SourceEdit::value(std::slice::from_ref(&case.edit));
        let ended = Program::new([&case.file])
            .env("OOMPH_EDITS", value)
            .run(&case.place);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        front.wait_for_end_of(1);
        let told = front.seen.iter().find_map(|what| match what {
            EventKind::Patch(patched) if patched.patch == "edit" => Some(patched.clone()),
            _ => None,
        });
        (ended.stdout, told.expect("an outcome"))
    };
    let (output, told) = said(|_| {});
    assert_eq!(
        (output.as_str(), told.outcome, told.words.as_str()),
        ("64\n", PatchOutcome::Applied, "train.py:1 128 → 64")
    );
    let (output, told) =
        said(|case| fs::write(&case.file, [b"# new\n".as_slice(), &case.before].concat()).unwrap());
    assert_eq!(
        (output.as_str(), told.outcome),
        ("128\n", PatchOutcome::Declined)
    );
    assert!(told.words.contains("has changed since"), "{told:?}");
}
