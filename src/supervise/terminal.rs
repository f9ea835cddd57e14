//! The user's terminal as it was before oomph started, and how to restore it.

use nix::libc;
use nix::sys::termios::{self, SetArg, Termios};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;

/// Switches off everything that a full-screen program may have switched on (synchronised drawing,
/// kitty's keys, mouse, pasting, focus, the alternate screen), and sets keypad, wrapping, colours and
/// cursor as a shell expects them.
pub const RESET: &str = concat!(
    "\x1b[?2026l",
    "\x1b[<u",
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l",
    "\x1b[?2004l",
    "\x1b[?1004l",
    "\x1b[?1049l",
    "\x1b[?1l\x1b>",
    "\x1b[?7h",
    "\x1b[0m",
    "\x1b[?25h",
);

/// A terminal's line settings, serializable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineSettings {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    chars: Vec<u8>,
    speed: (u32, u32),
}

impl LineSettings {
    /// The settings of the terminal `fd`; `None` if it isn't one, or is gone.
    pub fn read(fd: impl AsFd) -> Option<LineSettings> {
        let raw: libc::termios = termios::tcgetattr(fd).ok()?.into();
        Some(LineSettings {
            input: raw.c_iflag,
            output: raw.c_oflag,
            control: raw.c_cflag,
            local: raw.c_lflag,
            line: raw.c_line,
            chars: raw.c_cc.to_vec(),
            speed: (raw.c_ispeed, raw.c_ospeed),
        })
    }

    /// Whether a carriage return is put before each newline of the output.
    pub(super) fn adds_returns(&self) -> bool {
        let both = libc::OPOST | libc::ONLCR;
        self.output & both == both
    }

    /// Whether input is read by lines.
    pub(super) fn is_canonical(&self) -> bool {
        self.local & libc::ICANON != 0
    }

    /// The key of an interrupt where a program has turned off that it is one: it reads the key itself, or passes it on.
    pub(super) fn interrupt_as_a_key(&self) -> Option<u8> {
        let key = self.chars.get(libc::VINTR).copied()?;
        (self.local & libc::ISIG == 0).then_some(key)
    }

    /// The key that ends the input.
    pub(super) fn end_of_input(&self) -> Option<u8> {
        self.chars.get(libc::VEOF).copied()
    }

    pub fn apply(&self, fd: impl AsFd) -> nix::Result<()> {
        termios::tcsetattr(fd, SetArg::TCSANOW, &self.to_termios())
    }

    /// Whether output is processed.
    pub(super) fn processes_output(&self) -> bool {
        self.output & libc::OPOST != 0
    }

    /// These settings, but output is not processed.
    pub(super) fn with_raw_output(&self) -> LineSettings {
        LineSettings {
            output: self.output & !libc::OPOST,
            ..self.clone()
        }
    }

    /// These settings, but input is treated as in `other`.
    pub fn with_input_of(&self, other: &LineSettings) -> LineSettings {
        const INPUT: u32 = libc::ICRNL | libc::INLCR | libc::IGNCR | libc::IXON;
        const LOCAL: u32 =
            libc::ICANON | libc::ISIG | libc::ECHO | libc::ECHONL | libc::IEXTEN | libc::ECHOCTL;
        LineSettings {
            input: (self.input & !INPUT) | (other.input & INPUT),
            local: (self.local & !LOCAL) | (other.local & LOCAL),
            // Which key is Ctrl-C.
            chars: other.chars.clone(),
            ..self.clone()
        }
    }

    /// These settings, but input as a shell leaves it to a command: by lines, echoed, with the signals' keys.
    pub fn as_for_a_command(&self) -> LineSettings {
        LineSettings {
            input: (self.input & !(libc::INLCR | libc::IGNCR)) | libc::ICRNL,
            local: self.local
                | libc::ICANON
                | libc::ISIG
                | libc::ECHO
                | libc::ECHOE
                | libc::ECHOK
                | libc::ECHOCTL
                | libc::ECHOKE
                | libc::IEXTEN,
            ..self.clone()
        }
    }

    pub fn to_termios(&self) -> Termios {
        let mut raw = libc::termios {
            c_iflag: self.input,
            c_oflag: self.output,
            c_cflag: self.control,
            c_lflag: self.local,
            c_line: self.line,
            c_cc: [0; libc::NCCS],
            c_ispeed: self.speed.0,
            c_ospeed: self.speed.1,
        };
        for (place, value) in raw.c_cc.iter_mut().zip(&self.chars) {
            *place = *value;
        }
        raw.into()
    }
}
