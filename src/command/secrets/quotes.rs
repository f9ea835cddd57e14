//! Quotes in a text that may itself stand in quotes.

/// A quotation mark with the backslashes before it, by which quotes inside quotes are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuoteMark {
    pub quote: u8,
    pub level: usize,
}

/// A quote that is open at some place.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenQuote {
    pub mark: QuoteMark,
    /// Where its content begins.
    pub from: usize,
}

/// Walks along a text and knows which quote is open.
#[derive(Debug, Default)]
pub(super) struct Quotes {
    at: usize,
    open: Option<OpenQuote>,
}

impl Quotes {
    /// The quote around `place`; places are asked for in their order.
    pub(super) fn around(&mut self, bytes: &[u8], place: usize) -> Option<OpenQuote> {
        while self.at < place {
            let at = self.at;
            self.at += 1;
            let Some(mark) = mark(bytes, at) else {
                continue;
            };
            match self.open {
                Some(open) if open.mark == mark => self.open = None,
                Some(_) => {}
                // An apostrophe: it's.
                None if mark.quote == b'\''
                    && at
                        .checked_sub(1)
                        .is_some_and(|before| bytes[before].is_ascii_alphanumeric()) => {}
                None => {
                    let from = at + 1;
                    self.open = Some(OpenQuote { mark, from });
                }
            }
        }
        self.open
    }
}

/// The quotation mark at a place.
pub(super) fn mark(bytes: &[u8], at: usize) -> Option<QuoteMark> {
    let quote = *bytes.get(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let before = bytes[..at].iter().rev();
    let level = before.take_while(|byte| **byte == b'\\').count();
    Some(QuoteMark { quote, level })
}
