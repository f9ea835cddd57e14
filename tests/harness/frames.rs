//! Frames in one piece: what comes between the beginning and the end of a synchronized update is
//! held back until it is whole, as terminals do. Otherwise a test could find one frame's header
//! above another's footer.

const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// Holds back a frame that is not whole.
#[derive(Default)]
pub struct Frames {
    held: Vec<u8>,
}

impl Frames {
    /// Takes bytes in; those that are to be shown now.
    pub fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let begun = last(&self.held, BEGIN);
        let ended = last(&self.held, END);
        let until = match (begun, ended) {
            (Some(begun), None) => begun,
            (Some(begun), Some(ended)) if begun > ended => begun,
            _ => self.held.len() - cut(&self.held),
        };
        let rest = self.held.split_off(until);
        std::mem::replace(&mut self.held, rest)
    }

    /// What is held back, where nothing more will come.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn last(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).rposition(|window| window == mark)
}

/// How many bytes at the end may be the first ones of a beginning.
fn cut(bytes: &[u8]) -> usize {
    (1..BEGIN.len())
        .rev()
        .find(|length| bytes.ends_with(&BEGIN[..*length]))
        .unwrap_or(0)
}
