//! An event as a line of the recording. Shared, not copied, between the bucket, the last minute and
//! the write queue.

use crate::event::Event;
use crate::units::{Bytes, Moment};
use std::sync::Arc;

/// A line of a recording, including its newline.
#[derive(Debug, Clone)]
pub(super) struct RecordLine {
    /// When the event happened.
    pub at: Moment,
    /// Whether it must survive a full disk: it is held back and written once there is space again.
    pub vital: bool,
    text: Arc<[u8]>,
}

impl RecordLine {
    /// The line of `event`; an error if it can't be written as JSON.
    pub(super) fn of(event: &Event, vital: bool) -> Result<RecordLine, serde_json::Error> {
        let mut text = serde_json::to_vec(event)?;
        text.push(b'\n');
        Ok(RecordLine {
            at: event.at,
            vital,
            text: text.into(),
        })
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn cost(&self) -> Bytes {
        Bytes(self.text.len() as u64)
    }

    /// Whether both are the same event, not only equal ones.
    pub(super) fn is(&self, other: &RecordLine) -> bool {
        Arc::ptr_eq(&self.text, &other.text)
    }
}
