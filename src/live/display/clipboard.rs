//! Whether a text that was copied can be expected in the clipboard. OSC 52 has no answer, so the terminal is told by what it says of
//! itself in the environment.

use std::env::VarError;

/// What is to be said where the copy is known or likely not to arrive; `None` where nothing speaks against it.
pub(crate) fn doubt() -> Option<&'static str> {
    doubt_of(|name| match std::env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotUnicode(_)) => Some(String::new()),
        Err(VarError::NotPresent) => None,
    })
}

fn doubt_of(of: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let is = |name: &str, value: &str| of(name).is_some_and(|found| found == value);
    if of("TMUX").is_some() {
        return Some("copied, if tmux has set-clipboard on; else M and select");
    }
    if of("STY").is_some() {
        return Some("not copied: GNU screen has no clipboard; press M and select");
    }
    if is("TERM", "linux") {
        return Some("not copied: this console has no clipboard");
    }
    if is("TERM_PROGRAM", "Apple_Terminal") {
        return Some("not copied: this terminal takes no copies; press M and select");
    }
    // GNOME's terminal and its relatives: most of them take none.
    of("VTE_VERSION").map(|_| "copied, if this terminal takes it; else press M and select")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_takes_no_copies_is_known_by_its_environment() {
        let told = |name: &'static str, value: &'static str| {
            doubt_of(move |asked| (asked == name).then(|| value.to_string()))
        };
        assert_eq!(told("TERM", "xterm-kitty"), None);
        for (name, value) in [
            ("TMUX", "/tmp/tmux-0/default,1,0"),
            ("STY", "1.pts"),
            ("TERM", "linux"),
            ("TERM_PROGRAM", "Apple_Terminal"),
            ("VTE_VERSION", "6800"),
        ] {
            assert!(told(name, value).is_some(), "{name}");
        }
    }
}
