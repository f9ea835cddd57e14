//! What is proposed where; how the shells show it is tested with the shells themselves.

use crate::cli::{self, NamedSessions};
use crate::commands::command_definition;
use std::ffi::OsString;

fn complete(
    words: &[OsString],
    sessions: impl FnOnce(NamedSessions) -> Vec<(String, String)>,
) -> String {
    cli::complete(command_definition(), words, sessions)
}

/// The first line, and the words of the others.
fn answer(line: &str) -> (String, Vec<String>) {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let text = complete(&words, |which| {
        let id = |id: &str| (id.to_string(), "python\n3 train.py".to_string());
        match which {
            NamedSessions::Running => vec![id("20261121-1-python")],
            NamedSessions::All => vec![id("20261121-1-python"), id("20261120-9-sh")],
        }
    });
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_string();
    let words = lines.map(|line| line.split('\t').next().unwrap_or_default().into());
    (first, words.collect())
}

#[test]
fn from_its_first_word_on_a_command_is_the_shells() {
    for (line, at) in [
        ("pyt", 0),
        ("--headless pyt", 1),
        ("--interval 0.5s --theme=dark pyt", 3),
        ("run --no-nvml pyt", 2),
        ("python tra", 0),
        ("python train.py --head", 0),
        ("-- pyt", 1),
        ("-- ls --j", 1),
        ("A=1 B=2 pyt", 2),
        ("--headless A=1 python replay ", 2),
        ("plan --json pyt", 2),
        ("fit -- python --", 2),
        ("explain a.log -- pyt", 3),
    ] {
        let (first, words) = answer(line);
        assert_eq!(first, format!("command {at}"), "{line}");
        assert_eq!(words, [] as [String; 0], "{line}");
    }
}

#[test]
fn what_is_ours_comes_from_the_definition() {
    for (line, first, words) in [
        ("repl", "command 0", &["replay"][..]),
        ("ru", "command 0", &["run"]),
        (
            "--theme ",
            "nothing",
            &["default", "dark", "light", "contrast"],
        ),
        ("--theme=d", "nothing", &["--theme=default", "--theme=dark"]),
        (
            "--allow amp,re",
            "nothing",
            &["amp,recompute", "amp,restart"],
        ),
        ("--record ", "files", &[]),
        ("--record=/tm", "files", &[]),
        ("--snapshot ", "directories", &[]),
        ("--interval ", "nothing", &[]),
        ("--headl", "nothing", &["--headless"]),
        ("run --headl", "nothing", &["--headless"]),
        ("ls -", "nothing", &["--all", "--json", "--help"]),
        ("replay ", "files", &["20261121-1-python", "20261120-9-sh"]),
        ("explain 20261120", "files", &["20261120-9-sh"]),
        (
            "plan --recording=20261120",
            "files",
            &["--recording=20261120-9-sh"],
        ),
        ("explain a.log ", "nothing", &[]),
        ("explain a.log python ", "nothing", &[]),
        ("help ke", "nothing", &["keys"]),
        ("completions ", "nothing", &["bash", "zsh", "fish"]),
        ("attach ", "nothing", &["20261121-1-python"]),
        ("stop 2026", "nothing", &["20261121-1-python"]),
        (
            "logs -f 2",
            "files",
            &["20261121-1-python", "20261120-9-sh"],
        ),
        ("logs 2026112 ", "nothing", &[]),
        ("--scal", "nothing", &[]),
    ] {
        let (said, proposed) = answer(line);
        assert_eq!(said, first, "{line}");
        assert_eq!(proposed, words, "{line}");
    }
    let (first, words) = answer("");
    assert_eq!(first, "command 0");
    assert!(words.len() >= 10, "{words:?}");
}

#[test]
fn a_description_is_one_line() {
    let text = complete(&["attach".into(), "".into()], |_| {
        vec![("id".into(), "a\nb\tc".into())]
    });
    assert_eq!(text, "nothing\nid\ta b c\n");
}
