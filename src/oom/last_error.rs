//! The last Python error in a stream: whether it is an out-of-memory error. A message of one may only have been quoted, in an
//! older log or as a hint, by a program that then failed for another reason.

use super::consequences::is_consequence;
use super::lines::readable;
use super::lines::{LineReader, LineSplitter, RawLine, WORDS as OOM_WORDS};
use super::words::Words;
use std::sync::LazyLock;

/// What a traceback begins with.
const HEAD: &str = "Traceback (most recent call last)";

/// Lines of a traceback, at most; of what is longer the end is not read.
const LONGEST_LINES: u32 = 2_000;

/// Python's words before an error that another one led to, or that came while the interpreter ended.
const CHAIN: [&str; 3] = [
    "During handling of the above exception",
    "The above exception was the direct cause",
    "Exception ignored in",
];

/// Errors of a parent that say no more than that its child failed: what that printed is before them.
const OF_A_PARENT: [&str; 3] = [
    "subprocess.CalledProcessError:",
    "torch.multiprocessing.spawn.ProcessExitedException:",
    "concurrent.futures.process.BrokenProcessPool:",
];

static WORDS: LazyLock<Words> =
    LazyLock::new(|| Words::new(CHAIN.into_iter().chain([HEAD]).collect()));

/// What the last error of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastError {
    /// Out of memory, or what an out-of-memory error led to.
    OutOfMemory,
    Other,
}

/// The state between two chunks of one stream.
#[derive(Debug)]
pub struct ErrorLines {
    lines: LineSplitter,
    reader: Reader,
}

#[derive(Debug, Default)]
struct Reader {
    /// Lines of the traceback that is being read.
    inside: Option<u32>,
    /// The next error is a consequence of the last one.
    chained: bool,
    last: Option<LastError>,
}

impl Default for ErrorLines {
    fn default() -> ErrorLines {
        ErrorLines {
            lines: LineSplitter::new(&WORDS),
            reader: Reader::default(),
        }
    }
}

impl ErrorLines {
    /// Takes the stream's next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.lines.feed(chunk, &mut self.reader);
    }

    /// The stream has ended: its last error; `None` if it has none.
    pub fn finish(mut self) -> Option<LastError> {
        self.lines.finish(&mut self.reader);
        self.reader.last
    }
}

impl LineReader for Reader {
    fn wants_every_line(&self) -> bool {
        self.inside.is_some()
    }

    fn read(&mut self, line: RawLine<'_>) {
        let text = readable(line.bytes);
        let text = text.trim_end();
        if text.starts_with(HEAD) {
            self.inside = Some(0);
        } else if CHAIN.iter().any(|words| text.starts_with(words)) {
            self.chained = true;
        } else if let Some(lines) = &mut self.inside {
            *lines += 1;
            if !text.is_empty() && !text.starts_with([' ', '\t']) {
                self.inside = None;
                self.ended(text);
            } else if *lines > LONGEST_LINES {
                self.inside = None;
            }
        }
    }
}

impl Reader {
    /// A traceback has ended in this line.
    fn ended(&mut self, text: &str) {
        let was_oom = self.last == Some(LastError::OutOfMemory);
        let chained = std::mem::take(&mut self.chained);
        let is_of_a_parent = OF_A_PARENT.iter().any(|words| text.starts_with(words));
        self.last = if is_consequence(text) || is_of_a_parent {
            // Of whatever was before.
            self.last
        } else if OOM_WORDS.has(text.as_bytes(), |_| true) || (chained && was_oom) {
            Some(LastError::OutOfMemory)
        } else {
            Some(LastError::Other)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OOM: &str = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    x = torch.empty(9)\n\
                       torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
    const OTHER: &str = "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    d['val']\n        ^^^^^\n\
                         KeyError: 'val'\n";
    const CHAIN: &str = "\nDuring handling of the above exception, another exception occurred:\n\n";

    fn last(text: &str) -> Option<LastError> {
        let mut whole = ErrorLines::default();
        whole.feed(text.as_bytes());
        let mut parts = ErrorLines::default();
        for chunk in text.as_bytes().chunks(7) {
            parts.feed(chunk);
        }
        let found = whole.finish();
        assert_eq!(parts.finish(), found, "{text}");
        found
    }

    #[test]
    fn the_last_error_counts() {
        assert_eq!(last("step 1\nstep 2\n"), None);
        assert_eq!(last(OOM), Some(LastError::OutOfMemory));
        assert_eq!(last(OTHER), Some(LastError::Other));
        assert_eq!(last(&format!("{OOM}{OTHER}")), Some(LastError::Other));
        assert_eq!(last(&format!("{OTHER}{OOM}")), Some(LastError::OutOfMemory));
        let hint = "hint: on 'CUDA out of memory. Tried to allocate 2.00 GiB' lower --batch-size\n";
        assert_eq!(last(&format!("{hint}{OTHER}")), Some(LastError::Other));
    }

    #[test]
    fn what_an_error_led_to_is_that_error() {
        assert_eq!(
            last(&format!("{OOM}{CHAIN}{OTHER}")),
            Some(LastError::OutOfMemory)
        );
        let launcher = "Traceback (most recent call last):\n  File \"run.py\", line 1, in main\n\
                        torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n";
        assert_eq!(
            last(&format!("{OOM}{launcher}")),
            Some(LastError::OutOfMemory)
        );
        assert_eq!(last(launcher), None);
        let parent = "Traceback (most recent call last):\n  File \"/venv/bin/accelerate\", line 8, in <module>\n    sys.exit(main())\n\
                      subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n";
        assert_eq!(
            last(&format!("{OOM}{parent}")),
            Some(LastError::OutOfMemory)
        );
        assert_eq!(last(&format!("{OTHER}{parent}")), Some(LastError::Other));
    }

    #[test]
    fn an_error_at_the_interpreters_end_says_nothing() {
        let ignored = "Exception ignored in: <function Loader.__del__ at 0x7f>\n";
        assert_eq!(
            last(&format!("{OOM}{ignored}{OTHER}")),
            Some(LastError::OutOfMemory)
        );
    }
}
