//! The clocks of other nodes. Each counts from its own boot, so a line's time says nothing here; what
//! both sides know is the file server's time: of a rank's file when it was last written, and of the
//! session's marker when this front touched it. Pure.

use crate::units::Moment;
use std::collections::BTreeMap;

/// How long the smallest offset counts: clocks drift apart by up to some 50 µs a second.
const WINDOW_US: i64 = 600_000_000;

/// Offsets in microseconds, of the file server and of each node.
#[derive(Debug, Default)]
pub(super) struct NodeClocks {
    /// To be added to the server's time (since 1970) to get the session's.
    server: Option<i64>,
    nodes: BTreeMap<u32, Smallest>,
}

/// The smallest of the last offsets: a line is written after it was stamped, sometimes late, never
/// before.
#[derive(Debug)]
struct Smallest {
    current: i64,
    next: i64,
    since: i64,
}

impl NodeClocks {
    /// The marker had the server's time `server` at the moment `session`.
    pub(super) fn read_server(&mut self, session: Moment, server: Option<i64>) {
        let wall = || Some(jiff::Timestamp::now().as_microsecond());
        if let Some(server) = server.or_else(wall) {
            self.server = Some(session.0 as i64 - server);
        }
    }

    /// A line of the node with this stamp (µs) was the last one of its file at the server's time
    /// `written`.
    pub(super) fn read_node(&mut self, node: u32, stamp: i64, written: i64) {
        let Some(server) = self.server else { return };
        let offset = written + server - stamp;
        let at = written + server;
        let known = self.nodes.entry(node).or_insert(Smallest {
            current: offset,
            next: offset,
            since: at,
        });
        if at - known.since > WINDOW_US {
            (known.current, known.next, known.since) = (known.next, offset, at);
        }
        known.next = known.next.min(offset);
        known.current = known.current.min(offset);
    }

    /// When a line with this stamp was written, on the session's clock; never later than `now`.
    pub(super) fn moment(&self, node: u32, stamp: i64, now: Moment) -> Moment {
        match self.nodes.get(&node) {
            Some(known) => Moment((stamp + known.current).max(0) as u64).min(now),
            None => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_time_tells_the_nodes_offset() {
        let mut clocks = NodeClocks::default();
        // The server is at 1,000 s when the session is at 10 s; the node booted long ago.
        clocks.read_server(Moment(10_000_000), Some(1_000_000_000));
        // Written 300 ms after its stamp, then 5 ms after it.
        clocks.read_node(1, 7_000_000_000, 1_001_300_000);
        clocks.read_node(1, 7_001_000_000, 1_002_005_000);
        let now = Moment(60_000_000);
        assert_eq!(clocks.moment(1, 7_001_000_000, now), Moment(12_005_000));
        assert_eq!(
            clocks.moment(1, 7_099_000_000, now),
            now,
            "not in the future"
        );
        assert_eq!(clocks.moment(2, 5, now), now, "unknown");
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let mut clocks = NodeClocks::default();
        clocks.read_server(Moment(0), Some(0));
        // It loses 1 ms in 10 s against the server's.
        for tenth in 0..400 {
            let written = tenth * 10_000_000;
            clocks.read_node(1, written - tenth * 1_000, written + 2_000);
        }
        let (stamp, now) = (3_990_000_000 - 399_000, Moment(u64::MAX >> 1));
        let off = clocks.moment(1, stamp, now).0 as i64 - 3_990_000_000;
        assert!((-130_000..=2_000).contains(&off), "{off}");
    }
}
