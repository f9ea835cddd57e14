//! The end of a run's output as lines of text, to find out why it ended immediately. Bounded; escapes
//! are removed on reading.

/// More than a traceback and a usage text.
const KEPT: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct OutputTail {
    bytes: Vec<u8>,
}

impl OutputTail {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let over = (self.bytes.len() + bytes.len()).saturating_sub(KEPT);
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// For another run.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// As lines of text: carriage returns end lines, escapes are removed.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut plain = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\u{1b}' => match chars.next() {
                    // A control sequence ends at its final byte, a string at its terminator.
                    Some('[') => {
                        for c in chars.by_ref() {
                            if ('\u{40}'..='\u{7e}').contains(&c) {
                                break;
                            }
                        }
                    }
                    Some(']') => {
                        while let Some(c) = chars.next() {
                            if c == '\u{7}' || c == '\u{1b}' && chars.next_if_eq(&'\\').is_some() {
                                break;
                            }
                        }
                    }
                    Some(_) | None => {}
                },
                '\r' => plain.push('\n'),
                c if c.is_control() && c != '\n' => {}
                c => plain.push(c),
            }
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_reads_as_text() {
        let mut tail = OutputTail::default();
        tail.feed(b"\x1b[1;31merror:\x1b[0m one\r50%\x1b]0;title\x07 two\xff\n");
        assert_eq!(tail.text(), "error: one\n50% two\u{fffd}\n");
        tail.feed(&vec![b'x'; 3 * KEPT]);
        tail.feed(b"end");
        assert_eq!(tail.bytes.len(), KEPT);
        assert!(tail.text().ends_with("xend"));
        tail.clear();
        assert_eq!(tail.text(), "");
    }
}
