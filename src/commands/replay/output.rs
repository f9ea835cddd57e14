//! The program's output in a replay: the log beside the recording, fed to the program's screen as far as
//! it had come.

use super::output_position::ShownOutput;
use crate::live::display::screen::Screen;
use crate::session::{self, OutputLog};
use crate::supervise::OutputStream;
use crate::ui::RecordedOutput;
use std::ops::Range;
use std::path::Path;

/// Of more than this only the end is shown: it is more than the screen keeps.
const MOST: u64 = 256 << 10;

pub(super) struct ReplayedOutput {
    log: Option<OutputLog>,
    /// Whether the recording says when the output came.
    timed: bool,
    /// What the screen has.
    shown: Option<Range<u64>>,
}

impl ReplayedOutput {
    /// The log beside `recording`, a file or a session's directory.
    pub(super) fn beside(recording: &Path) -> ReplayedOutput {
        let recording = match recording.is_dir() {
            true => &recording.join(session::RECORDING),
            false => recording,
        };
        let total = session::last_logged(recording).ok().flatten();
        ReplayedOutput {
            log: OutputLog::open(&session::log_beside(recording), total).ok(),
            timed: total.is_some(),
            shown: None,
        }
    }

    /// What the pane should say of it.
    pub(super) fn words(&self) -> RecordedOutput {
        match (&self.log, self.timed || self.shown.is_some()) {
            (None, _) => RecordedOutput::NotThere,
            (Some(_), true) => RecordedOutput::Shown,
            (Some(_), false) => RecordedOutput::AtTheEnd,
        }
    }

    /// Begins again, on a screen of another size.
    pub(super) fn begin_again(&mut self) {
        self.shown = None;
    }

    /// Brings the screen up to `wanted`; at the end of the recording, up to the log's.
    pub(super) fn show(&mut self, wanted: ShownOutput, at_end: bool, screen: &mut Screen) {
        let Some(log) = &self.log else { return };
        let (mut wanted, exact) = match (wanted, at_end) {
            (ShownOutput::Unknown, false) => (None, true),
            (ShownOutput::Unknown, true) => (Some(0..log.end()), true),
            (ShownOutput::Part { part, exact }, false) => (Some(part), exact),
            (ShownOutput::Part { part, .. }, true) => {
                (Some(part.start..part.end.max(log.end())), true)
            }
        };
        if wanted == self.shown {
            return;
        }
        let goes_on = matches!((&self.shown, &wanted), (Some(shown), Some(wanted))
            if shown.start == wanted.start
                && shown.end <= wanted.end
                && wanted.end - shown.end <= MOST);
        if !goes_on {
            screen.clear_output();
        }
        if let Some(wanted) = &mut wanted {
            let from = match &self.shown {
                Some(shown) if goes_on => shown.end,
                Some(_) | None => wanted.start.max(wanted.end.saturating_sub(MOST)),
            };
            let mut bytes = log.read(from..wanted.end);
            if !exact {
                // Between two marks it comes in whole lines, or steps of a progress bar.
                let ends = memchr::memrchr2(b'\n', b'\r', &bytes);
                bytes.truncate(ends.map_or(0, |end| end + 1));
                wanted.end = from + bytes.len() as u64;
            }
            let is_cut = !goes_on && from > wanted.start;
            // Not from the middle of a line, or of an escape sequence.
            let begin = match is_cut {
                true => memchr::memchr(b'\n', &bytes).map_or(0, |newline| newline + 1),
                false => 0,
            };
            let bytes = &bytes[begin..];
            if !bytes.is_empty() {
                screen.feed(OutputStream::Out, bytes);
            }
        }
        self.shown = wanted;
    }
}
