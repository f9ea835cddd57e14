//! The trainer's environment: the user's without what is wrong on our screen. Pure.
//!
//! Nothing is added that changes how a program buffers: a variable is inherited by everything below, and
//! an unbuffered Python loses output (its raw writes may be cut short) and tears the lines of ranks that
//! share a pipe.

use crate::command::EnvChange;
use crate::supervise::Io;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What the environment depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputPath {
    pub io: Io,
    /// Whether the trainer has a pseudo-terminal.
    pub terminal: bool,
}

/// Variables that describe the user's own terminal; on our screen the trainer writes to another. All
/// that begin with `TERM_PROGRAM` are removed as well.
const OF_THE_TERMINAL: [&str; 2] = ["KITTY_WINDOW_ID", "VTE_VERSION"];

/// The command's own `changes` take precedence.
pub(super) fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    changes: &[EnvChange],
    surface: OutputPath,
) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = inherited.collect();
    if surface.terminal {
        match surface.io {
            Io::Screen => {
                // rich prefers COLUMNS to the size of the terminal, which is our screen's here.
                env.remove(OsStr::new("COLUMNS"));
                env.remove(OsStr::new("LINES"));
                env.retain(|name, _| {
                    !name.as_bytes().starts_with(b"TERM_PROGRAM")
                        && OF_THE_TERMINAL.iter().all(|other| name != other)
                });
                env.insert("TERM".into(), "xterm-256color".into());
            }
            Io::PassThrough => {}
        }
    }
    changed(env, changes)
}

/// An environment with the command's own changes.
pub(in crate::supervise) fn changed(
    mut env: BTreeMap<OsString, OsString>,
    changes: &[EnvChange],
) -> BTreeMap<OsString, OsString> {
    for change in changes {
        match &change.value {
            Some(value) => env.insert(change.name.0.clone(), value.0.clone()),
            None => env.remove(&change.name.0),
        };
    }
    env
}

/// In the form that `exec` takes. A variable that contains a NUL can't be passed on by anybody.
pub(in crate::supervise) fn for_exec(env: BTreeMap<OsString, OsString>) -> Vec<CString> {
    env.into_iter()
        .filter_map(|(mut entry, value)| {
            entry.push("=");
            entry.push(value);
            CString::new(entry.into_vec()).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;

    fn given() -> impl Iterator<Item = (OsString, OsString)> {
        [
            ("TERM", "xterm-kitty"),
            ("TERM_PROGRAM", "x"),
            ("TERM_PROGRAM_VERSION", "1"),
            ("KITTY_WINDOW_ID", "3"),
            ("COLUMNS", "77"),
            ("COLORTERM", "truecolor"),
            ("NO_COLOR", "1"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into_iter()
    }

    fn surface(io: Io, terminal: bool) -> OutputPath {
        OutputPath { io, terminal }
    }

    #[test]
    fn on_our_screen_the_terminal_is_ours() {
        let env = environment(given(), &[], surface(Io::Screen, true));
        let names: Vec<&str> = env.keys().filter_map(|name| name.to_str()).collect();
        assert_eq!(names, ["COLORTERM", "NO_COLOR", "TERM"]);
        assert_eq!(env[OsStr::new("TERM")], "xterm-256color");
    }

    #[test]
    fn without_our_screen_the_environment_is_the_users() {
        let users: BTreeMap<OsString, OsString> = given().collect();
        for terminal in [true, false] {
            let env = environment(given(), &[], surface(Io::PassThrough, terminal));
            assert_eq!(env, users, "terminal: {terminal}");
        }
        let env = environment(given(), &[], surface(Io::Screen, false));
        assert_eq!(env, users);
    }

    #[test]
    fn the_command_has_the_last_word() {
        let changes = [
            EnvChange {
                name: "COLUMNS".into(),
                value: Some(Word::from("50")),
            },
            EnvChange {
                name: "NO_COLOR".into(),
                value: None,
            },
        ];
        let env = environment(given(), &changes, surface(Io::Screen, true));
        assert_eq!(env[OsStr::new("COLUMNS")], "50");
        assert!(!env.contains_key(OsStr::new("NO_COLOR")));
        assert!(for_exec(env).contains(&CString::from(c"COLUMNS=50")));
    }
}
