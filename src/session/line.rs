//! An event as a line of the recording. Shared, not copied, between the bucket, the last minute and
//! the write queue.

use crate::event::Event;
use crate::units::{Bytes, Moment};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A line of a recording, including its newline.
#[derive(Debug, Clone)]
pub(super) struct RecordLine {
    /// When the event happened.
    pub at: Moment,
    /// Whether it must survive a full disk: it is held back and written once there is space again.
    pub vital: bool,
    shared: Arc<SharedLine>,
}

/// What all copies of a line have in common.
#[derive(Debug)]
struct SharedLine {
    text: Box<[u8]>,
    written: AtomicBool,
}

impl RecordLine {
    /// The line of `event`; an error if it can't be written as JSON.
    pub(super) fn new(event: &Event, vital: bool) -> Result<RecordLine, serde_json::Error> {
        let mut text = serde_json::to_vec(event)?;
        text.push(b'\n');
        Ok(RecordLine {
            at: event.at,
            vital,
            shared: Arc::new(SharedLine {
                text: text.into(),
                written: AtomicBool::new(false),
            }),
        })
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.shared.text
    }

    pub(super) fn cost(&self) -> Bytes {
        Bytes(self.text().len() as u64)
    }

    /// Whether it, or a copy of it, has been given to the file: a reading waits in the bucket and in the
    /// last minute, and is written from whichever comes first.
    pub(super) fn is_written(&self) -> bool {
        self.shared.written.load(Ordering::Relaxed)
    }

    pub(super) fn set_written(&self) {
        self.shared.written.store(true, Ordering::Relaxed);
    }

    /// Whether both are the same event, not only equal ones.
    pub(super) fn is(&self, other: &RecordLine) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}
