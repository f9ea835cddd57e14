//! What oomph itself wrote into a log, read again: the cause that it named when the run ended, and the recording that
//! has it all. A log without a screen (`oomph --headless … > train.log 2>&1`) has both.

use super::RECORDED_IN;
use crate::document::text::{OUT_OF_FILES, OUT_OF_MEMORY};
use std::path::PathBuf;

/// What stands before each of our lines.
pub const NAME: &str = "oomph: ";

/// The lines of a diagnosis that say what it was and what to do; the others are its figures.
const QUOTED: [&str; 4] = [OUT_OF_MEMORY, OUT_OF_FILES, "also: ", "advice: "];

/// Lines that are kept of a diagnosis, which has fewer.
const MOST_LINES: usize = 20;

/// A longer line is not ours: the recording's path is at most 4 KiB.
const LONGEST: usize = 8 << 10;

/// The last diagnosis of ours in a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnWords {
    /// The line that it begins at, counted from 1.
    pub line: u64,
    /// As it was written, without the name before it.
    pub said: Vec<String>,
    /// The recording that is named after it.
    pub recording: Option<PathBuf>,
}

/// Finds it in a text that is read in pieces, in bounded memory.
#[derive(Debug, Default)]
pub struct OwnWordsReader {
    line: Vec<u8>,
    number: u64,
    found: Option<OwnWords>,
}

impl OwnWordsReader {
    pub fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = (LONGEST + 1).saturating_sub(self.line.len());
            self.line.extend(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// The text has ended.
    pub fn finish(mut self) -> Option<OwnWords> {
        self.end_line();
        self.found
    }

    fn end_line(&mut self) {
        self.number += 1;
        let line = std::mem::take(&mut self.line);
        if line.len() > LONGEST {
            return;
        }
        let line = String::from_utf8_lossy(&line);
        // A progress bar may stand before it.
        let shown = line.trim_end().rsplit('\r').next().unwrap_or_default();
        if let Some(words) = shown.trim_start().strip_prefix(NAME) {
            self.take(words);
        }
    }

    fn take(&mut self, words: &str) {
        if [OUT_OF_MEMORY, OUT_OF_FILES]
            .iter()
            .any(|begin| words.starts_with(begin))
        {
            self.found = Some(OwnWords {
                line: self.number,
                ..OwnWords::default()
            });
        }
        let Some(found) = &mut self.found else {
            return;
        };
        if let Some(path) = recording_named(words) {
            found.recording = Some(path);
        } else if found.said.len() < MOST_LINES
            && QUOTED.iter().any(|begin| words.starts_with(begin))
        {
            found.said.push(words.to_string());
        }
    }
}

/// The file of "recorded in FILE (oomph replay plays it)".
fn recording_named(words: &str) -> Option<PathBuf> {
    let (before, behind) = RECORDED_IN;
    let path = words.strip_prefix(before)?.strip_suffix(behind)?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<OwnWords> {
        let mut reader = OwnWordsReader::default();
        // However it is cut.
        text.as_bytes()
            .chunks(7)
            .for_each(|chunk| reader.feed(chunk));
        reader.finish()
    }

    #[test]
    fn the_last_diagnosis_is_read_with_its_recording() {
        let text = "step 1\noomph: out of memory: An earlier one.\noomph: recorded in /s/a/events.jsonl (oomph replay plays it)\n\
                    step 1\n 12%|#  \roomph: out of memory: Evaluation runs with gradients enabled.\noomph: evidence: 3 GiB\n\
                    oomph: also: fragmentation\noomph: advice: train.py:134: with torch.inference_mode()\nlast words\n\
                    oomph: recorded in /s/b c/events.jsonl (oomph replay plays it)";
        assert_eq!(
            read(text),
            Some(OwnWords {
                line: 5,
                said: vec![
                    "out of memory: Evaluation runs with gradients enabled.".into(),
                    "also: fragmentation".into(),
                    "advice: train.py:134: with torch.inference_mode()".into(),
                ],
                recording: Some("/s/b c/events.jsonl".into()),
            })
        );
    }

    #[test]
    fn what_others_say_of_oomph_is_not_ours() {
        assert_eq!(
            read("INFO wrapper: oomph: out of memory: no\nrecorded in /a"),
            None
        );
        // A failure that was none of memory has a recording and no cause.
        let failed = "oomph: recorded in /s/a/events.jsonl (oomph replay plays it)\n";
        assert_eq!(read(failed), None);
        let long = format!("oomph: out of memory: {}\n", "a".repeat(LONGEST));
        assert_eq!(read(&long), None);
    }
}
