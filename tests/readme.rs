//! README says what the program does: its keys are the table's, its options are the command line's.

use std::fs;
use std::process::Command;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const BEGIN: &str = "<!-- keys:begin -->\n";
const END: &str = "<!-- keys:end -->";

/// `OOMPH_UPDATE_README=1 cargo test readme` writes the table anew.
#[test]
fn its_keys_are_those_of_the_table() {
    let readme = fs::read_to_string(README).expect("README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("a place for the keys");
    let (keys, after) = rest.split_once(END).expect("the end of that place");
    let table = oomph::ui::keymap::markdown();
    if std::env::var_os("OOMPH_UPDATE_README").is_some() {
        fs::write(README, format!("{before}{BEGIN}{table}{END}{after}")).expect("written");
        return;
    }
    assert_eq!(
        keys, table,
        "run with OOMPH_UPDATE_README=1 to write it anew"
    );
}

#[test]
fn its_options_are_those_of_the_command_line() {
    let readme = fs::read_to_string(README).expect("README.md");
    let help = Command::new(env!("CARGO_BIN_EXE_oomph"))
        .arg("--help")
        .output()
        .expect("oomph runs");
    let help = String::from_utf8(help.stdout).expect("text");
    let options: Vec<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .filter(|word| !matches!(*word, "--help" | "--version"))
        .collect();
    assert!(options.len() >= 9, "{options:?}");
    for option in options {
        assert!(readme.contains(option), "README does not know {option}");
    }
}

#[test]
fn its_picture_is_there() {
    let readme = fs::read_to_string(README).expect("README.md");
    let (_, picture) = readme.split_once("](demo/").expect("a picture");
    let (name, _) = picture.split_once(')').expect("its end");
    let path = format!("{}/demo/{name}", env!("CARGO_MANIFEST_DIR"));
    assert!(
        fs::read_to_string(path)
            .expect("the picture")
            .contains("<svg")
    );
}
