//! README and `oomph help` say what the program does: what moved from README to the help is all there.

use oomph::commands::help::{page, topics};
use oomph::ui::keymap;
use std::fs;
use std::process::Command;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// Options in README's examples that belong to the commands, not to oomph.
const OF_COMMANDS: [&str; 8] = [
    "--batch-size",
    "--nproc_per_node",
    "--release",
    "--path",
    "--oomph",
    "--results",
    "--report",
    "--test",
];

fn readme() -> String {
    fs::read_to_string(README).expect("README.md")
}

fn options(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || "-_".contains(c)));
    words
        .filter(|word| word.starts_with("--") && word[2..].starts_with(char::is_alphabetic))
        .map(String::from)
        .collect()
}

#[test]
fn its_options_are_those_of_the_command_line() {
    let topics = topics();
    let known: Vec<String> = topics
        .iter()
        .flat_map(|topic| options(&page(topic)))
        .collect();
    for option in options(&readme()) {
        assert!(
            known.contains(&option) || OF_COMMANDS.contains(&option.as_str()),
            "README names {option}, which no page of the help does"
        );
    }
}

#[test]
fn what_the_short_help_names_the_help_explains() {
    let help = Command::new(env!("CARGO_BIN_EXE_oomph"))
        .arg("--help")
        .output()
        .expect("oomph runs");
    let named = options(&String::from_utf8(help.stdout).expect("text"));
    assert!(named.len() >= 9, "{named:?}");
    let explained = options(&page("run"));
    for option in named {
        assert!(
            explained.contains(&option) || ["--help", "--version"].contains(&option.as_str()),
            "oomph help run does not explain {option}"
        );
    }
}

#[test]
fn every_key_of_the_table_is_in_the_help() {
    let page = page("keys");
    for binding in keymap::TABLE {
        let is_shown = page.contains(binding.help) || binding.mode == keymap::InputMode::Helping;
        assert!(is_shown, "{}", binding.help);
    }
}

#[test]
fn its_picture_is_there() {
    let readme = readme();
    let (_, picture) = readme.split_once("](demo/").expect("a picture");
    let (name, _) = picture.split_once(')').expect("its end");
    let path = format!("{}/demo/{name}", env!("CARGO_MANIFEST_DIR"));
    let picture = fs::read_to_string(path).expect("the picture");
    assert!(picture.contains("<svg"));
    assert!(picture.len() < 300_000, "{} bytes", picture.len());
}

#[test]
fn it_is_short_enough_to_be_read() {
    assert!(readme().lines().count() <= 150);
}

/// What a recording's lines mean stands in one place, for whoever reads them with another program.
#[test]
fn every_kind_of_a_recordings_lines_is_documented() {
    let read = |path: &str| {
        let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(path).expect("a file of ours")
    };
    let (events, page) = (read("src/event.rs"), read("src/event/RECORDING.md"));
    let (_, kinds) = events
        .split_once("pub enum EventKind {")
        .expect("the kinds");
    let (kinds, _) = kinds.split_once("\n}").expect("their end");
    let names = kinds.lines().filter_map(|line| {
        let name = line.trim();
        let name = &name[..name.find(['(', ','])?];
        let is_variant = name.starts_with(char::is_uppercase) && !name.contains(' ');
        is_variant.then_some(name)
    });
    let mut found = 0;
    for name in names.filter(|name| *name != "Unknown") {
        let mut snake = String::new();
        for c in name.chars() {
            if c.is_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
        }
        assert!(page.contains(&format!("| `{snake}` |")), "{snake}");
        found += 1;
    }
    assert!(found > 18, "{found}");
    let schema = format!("**schema {}**", oomph::event::SCHEMA);
    assert!(page.contains(&schema), "{schema}");
}
