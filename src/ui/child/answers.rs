//! A terminal's answers to queries: the cursor's position, the kind of terminal. Without them
//! prompt libraries and rich wait two seconds.

use vt100::{Callbacks, Screen};

/// Bytes kept while they cannot be sent; a program that asks for more does not read them.
const MOST: usize = 4_096;

#[derive(Default)]
pub(super) struct TerminalAnswers {
    pending: Vec<u8>,
}

impl TerminalAnswers {
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    fn push(&mut self, answer: &[u8]) {
        if self.pending.len() + answer.len() <= MOST {
            self.pending.extend_from_slice(answer);
        }
    }
}

impl Callbacks for TerminalAnswers {
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        i1: Option<u8>,
        _i2: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let first = params.first().and_then(|param| param.first()).copied();
        match (i1, c, first) {
            // DSR 6: cursor position, counted from 1.
            (None, 'n', Some(6)) => {
                let (row, col) = screen.cursor_position();
                self.push(format!("\x1b[{};{}R", row + 1, col + 1).as_bytes());
            }
            // DSR 5: in good order.
            (None, 'n', Some(5)) => self.push(b"\x1b[0n"),
            // Primary DA: a VT220 with colours, as xterm says it.
            (None, 'c', None | Some(0)) => self.push(b"\x1b[?62;22c"),
            // Secondary DA.
            (Some(b'>'), 'c', None | Some(0)) => self.push(b"\x1b[>0;0;0c"),
            (_, _, _) => {}
        }
    }
}
