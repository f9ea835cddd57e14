//! How the terminal tells somebody who looks elsewhere: its bell, or a notification of the desktop.
//!
//! Only where the user asked for it: no terminal can be asked whether it knows these sequences
//! without waiting for an answer.

use serde::{Deserialize, Serialize};

/// A longer text is cut: terminals show two or three lines of it.
const MOST: usize = 240;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Alert {
    /// The terminal's bell; a window manager or tmux may mark the window.
    Bell,
    /// A notification as iTerm2 defined it; WezTerm and Ghostty know it too.
    Osc9,
    /// A notification as rxvt defined it; foot, WezTerm and Ghostty know it too.
    Osc777,
}

impl Alert {
    pub fn of_name(name: &str) -> Result<Alert, String> {
        <Alert as clap::ValueEnum>::from_str(name, false)
            .map_err(|_| format!("there is no alert {name:?}; choose one of bell, osc9, osc777"))
    }

    /// The bytes for the terminal; inside tmux those that pass it.
    pub fn sequence(self, title: &str, text: &str, in_tmux: bool) -> Vec<u8> {
        let plain = match self {
            Alert::Bell => return b"\x07".to_vec(),
            // The title stands in front: a text that begins with a number means something else to
            // ConEmu and Windows Terminal (`9;4` draws a progress bar).
            Alert::Osc9 => format!("\x1b]9;{}\x07", shown(&format!("{title}: {text}"))),
            Alert::Osc777 => {
                let title = shown(title).replace(';', ",");
                format!("\x1b]777;notify;{title};{}\x07", shown(text))
            }
        };
        match in_tmux {
            // tmux passes this on where `allow-passthrough` is set, and else drops it.
            true => format!("\x1bPtmux;{}\x1b\\", plain.replace('\x1b', "\x1b\x1b")).into_bytes(),
            false => plain.into_bytes(),
        }
    }
}

/// One line without controls.
fn shown(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = plain.take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(alert: Alert, in_tmux: bool) -> String {
        let bytes = alert.sequence(
            "oomph on gpu;7",
            "out of\x1b[2J memory\x07\n; done",
            in_tmux,
        );
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn nothing_of_a_text_ends_or_changes_the_sequence() {
        assert_eq!(said(Alert::Bell, true), "\x07");
        assert_eq!(
            said(Alert::Osc9, false),
            "\x1b]9;oomph on gpu;7: out of [2J memory  ; done\x07"
        );
        assert_eq!(
            said(Alert::Osc777, false),
            "\x1b]777;notify;oomph on gpu,7;out of [2J memory  ; done\x07"
        );
        assert_eq!(
            said(Alert::Osc9, true),
            "\x1bPtmux;\x1b\x1b]9;oomph on gpu;7: out of [2J memory  ; done\x07\x1b\\"
        );
    }

    #[test]
    fn long_texts_are_cut_and_names_are_checked() {
        let long = "ä".repeat(1000);
        let text = String::from_utf8(Alert::Osc9.sequence("t", &long, false)).unwrap();
        assert_eq!(text.chars().count(), 4 + MOST + 1);
        assert!(text.ends_with("…\x07"));
        assert_eq!(Alert::of_name("osc777"), Ok(Alert::Osc777));
        let mend = Alert::of_name("flash").unwrap_err();
        assert!(mend.contains("bell, osc9, osc777"), "{mend}");
    }
}
