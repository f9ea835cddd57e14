//! One event as the line that is written of it. Shared, not copied, between the places that may
//! still want it: the bucket, the last minute, the queue to the disk.

use crate::event::Event;
use crate::units::{Bytes, Moment};
use std::sync::Arc;

/// A line of a recording, newline included.
#[derive(Debug, Clone)]
pub(super) struct RecordLine {
    /// When it happened.
    pub at: Moment,
    /// Whether it must outlive a full disk: it is held back and written when there is room again.
    pub vital: bool,
    text: Arc<[u8]>,
}

impl RecordLine {
    /// The line of `event`, or why it cannot be written as JSON.
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

    /// Whether both are one event, not two that read the same.
    pub(super) fn is(&self, other: &RecordLine) -> bool {
        Arc::ptr_eq(&self.text, &other.text)
    }
}
