//! Whether to draw a screen, and in which colours.

use crate::ui::theme::Scheme;
use crate::ui::{Mouse, Preferences, Theme};
use std::io::IsTerminal;
use std::os::fd::AsFd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Screen,
    /// Pass the output through.
    Headless(Reason),
}

/// Why there is no screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// `--headless`.
    Asked,
    /// Standard output isn't a terminal.
    NoTerminal,
    /// `TERM` is unset or `dumb`.
    DumbTerminal,
    /// We run in the background of the terminal: drawing would stop us (SIGTTOU).
    Background,
    /// `CI` is set.
    Ci,
    /// A notebook's cell: a terminal that nobody sees (ipython #514).
    Notebook,
}

impl Reason {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Reason::Asked => "--headless",
            Reason::NoTerminal => "standard output is not a terminal",
            Reason::DumbTerminal => "TERM is unset or dumb",
            Reason::Background => "in the background",
            Reason::Ci => "CI is set",
            Reason::Notebook => "a notebook cell",
        }
    }
}

/// The environment in which oomph starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surface {
    /// Standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// We are the terminal's foreground group.
    pub foreground: bool,
    /// `TERM`.
    pub term: Option<String>,
    /// `CI` is set and not empty.
    pub ci: bool,
    /// `JPY_PARENT_PID` or `COLAB_RELEASE_TAG` is set.
    pub notebook: bool,
}

impl Surface {
    /// Of this process.
    pub(crate) fn of_this_process() -> Surface {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let stdout = std::io::stdout();
        let stdout_is_terminal = stdout.is_terminal();
        Surface {
            stdout_is_terminal,
            foreground: stdout_is_terminal
                && nix::unistd::tcgetpgrp(stdout.as_fd())
                    .is_ok_and(|group| group == nix::unistd::getpgrp()),
            term: std::env::var("TERM").ok(),
            ci: set("CI"),
            notebook: set("JPY_PARENT_PID") || set("COLAB_RELEASE_TAG"),
        }
    }
}

/// Decides; gives the first reason found.
pub(crate) fn choose(headless: bool, surface: &Surface) -> Mode {
    let reason = if headless {
        Reason::Asked
    } else if !surface.stdout_is_terminal {
        Reason::NoTerminal
    } else if surface.ci {
        Reason::Ci
    } else if surface.notebook {
        Reason::Notebook
    } else if matches!(surface.term.as_deref(), None | Some("" | "dumb")) {
        Reason::DumbTerminal
    } else if !surface.foreground {
        Reason::Background
    } else {
        return Mode::Screen;
    };
    Mode::Headless(reason)
}

/// How the screen is to be on this terminal, by what the user has chosen.
pub(crate) fn preferences(scheme: Option<Scheme>, mouse: Option<Mouse>) -> Preferences {
    let theme = Theme::of_environment(|name| std::env::var(name).ok());
    Preferences {
        theme: theme.wearing(scheme.unwrap_or_default()),
        mouse: mouse.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal() -> Surface {
        Surface {
            stdout_is_terminal: true,
            foreground: true,
            term: Some("xterm-256color".into()),
            ci: false,
            notebook: false,
        }
    }

    #[test]
    fn a_screen_needs_somebody_behind_it() {
        let without = |change: fn(&mut Surface)| {
            let mut surface = terminal();
            change(&mut surface);
            choose(false, &surface)
        };
        assert_eq!(choose(false, &terminal()), Mode::Screen);
        assert_eq!(choose(true, &terminal()), Mode::Headless(Reason::Asked));
        for (mode, reason) in [
            (
                without(|s| s.stdout_is_terminal = false),
                Reason::NoTerminal,
            ),
            (without(|s| s.term = None), Reason::DumbTerminal),
            (
                without(|s| s.term = Some("dumb".into())),
                Reason::DumbTerminal,
            ),
            (without(|s| s.foreground = false), Reason::Background),
            (without(|s| s.ci = true), Reason::Ci),
            (without(|s| s.notebook = true), Reason::Notebook),
        ] {
            assert_eq!(mode, Mode::Headless(reason));
        }
    }
}
