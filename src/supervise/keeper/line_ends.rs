//! Takes back what a terminal's line discipline adds to output: with OPOST and ONLCR a carriage return
//! before each newline. So the log has what the program wrote.
//!
//! While both are on, every newline has one that was added, and exactly that one is taken; the program's
//! own `\r\n` stays. Bytes that were in the terminal when the program changed the setting can't be told
//! apart.

use std::borrow::Cow;

#[derive(Debug, Default)]
pub(super) struct LineEnds {
    /// The last byte was a carriage return, which may be the one of a newline that comes next.
    held: bool,
}

impl LineEnds {
    /// What the log gets for these bytes of a terminal whose settings add returns or don't.
    pub(super) fn undo<'a>(&mut self, bytes: &'a [u8], adds_returns: bool) -> Cow<'a, [u8]> {
        if !adds_returns && !self.held {
            return Cow::Borrowed(bytes);
        }
        let mut written = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            if std::mem::take(&mut self.held) && *byte != b'\n' {
                written.push(b'\r');
            }
            match byte {
                b'\r' if adds_returns => self.held = true,
                byte => written.push(*byte),
            }
        }
        Cow::Owned(written)
    }

    /// A return at the very end, which belongs to no newline.
    pub(super) fn end(&mut self) -> &'static [u8] {
        match std::mem::take(&mut self.held) {
            true => b"\r",
            false => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_return_is_taken_from_each_newline_wherever_the_pieces_end() {
        let wrote = b"a\nb\r\n\r\r\n\n10%\r20%\rend\r";
        let terminal: Vec<u8> = wrote
            .iter()
            .flat_map(|byte| match byte {
                b'\n' => vec![b'\r', b'\n'],
                byte => vec![*byte],
            })
            .collect();
        for size in 1..terminal.len() {
            let mut ends = LineEnds::default();
            let mut log = Vec::new();
            for piece in terminal.chunks(size) {
                log.extend_from_slice(&ends.undo(piece, true));
            }
            log.extend_from_slice(ends.end());
            assert_eq!(log, wrote, "pieces of {size}");
        }
        let mut ends = LineEnds::default();
        assert_eq!(ends.undo(b"raw\r\n", false).as_ref(), b"raw\r\n");
    }
}
