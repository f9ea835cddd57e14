//! One process on another node: its lines, in order and each once, as events of this session.

use crate::collect::line::{self, LineHead};
use crate::collect::spool::directory::{SpoolBytes, SpoolFile};
use crate::event::{Clock, DeviceReading, Dropped, Event, EventKind, Hello, ProbeGone};
use crate::units::{Bytes, Moment, Pid, Uuid};
use crate::whole_file::{self, Readers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// So many lines that are no events, and the file is not one of a probe.
const MOST_MALFORMED: u64 = 100;

/// A longer line is none of a probe.
const LONGEST_LINE: usize = 1 << 20;

/// How far a process's files were read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Follower {
    generation: u32,
    position: u64,
    /// The number of the last line: after a rotation the same lines stand in the next file.
    sequence: u64,
    pid: Option<Pid>,
    /// The devices that its hello named.
    devices: Vec<(u32, Uuid, String)>,
    malformed: u64,
    /// The beginning of a line whose end is not there yet is read again, unless it is too long.
    #[serde(skip)]
    skips_line: bool,
}

/// A reading of a whole device, by torch's `mem_get_info`.
#[derive(Deserialize)]
struct DeviceMemory {
    device: u32,
    free: Bytes,
    total: Bytes,
}

impl Follower {
    /// Where to go on in the file of this generation.
    pub fn position(&self, generation: u32) -> u64 {
        match generation.cmp(&self.generation) {
            std::cmp::Ordering::Less => u64::MAX,
            std::cmp::Ordering::Equal => self.position,
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// The events of what is new.
    pub fn take(
        &mut self,
        file: &SpoolFile<'_>,
        news: &SpoolBytes,
        nodes: &mut Nodes,
        clocks: &mut NodeClocks,
        clock: Clock,
    ) -> Vec<Event> {
        if file.generation > self.generation {
            (self.generation, self.position, self.skips_line) = (file.generation, 0, false);
        }
        let whole = memchr::memrchr(b'\n', &news.bytes).map_or(0, |end| end + 1);
        self.position = news.from + whole as u64;
        if whole == 0 && news.bytes.len() > LONGEST_LINE / 2 {
            self.position = news.from + news.bytes.len() as u64;
            self.skips_line = true;
        }
        let lines: Vec<(&[u8], Option<LineHead>)> = news.bytes[..whole]
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| &line[..line.len() - 1])
            .map(|line| (line, line::head(line)))
            .collect();
        // The node's clock first, so that these lines have their right times.
        let last = lines.iter().rev().find_map(|(_, head)| *head);
        let node = nodes.number(file.stem);
        if let (Some(last), Some(written), Some(node)) = (last, news.written, node) {
            clocks.read_node(node, (last.ns / 1_000) as i64, written);
        }
        let mut events = Vec::new();
        for (line, head) in lines {
            if std::mem::take(&mut self.skips_line) || self.malformed > MOST_MALFORMED {
                continue;
            }
            let found = head
                .ok_or(NotAnEvent)
                .and_then(|head| self.event(head, line, node, clocks, clock));
            match found {
                Ok(found) => events.extend(found),
                Err(NotAnEvent) => {
                    self.malformed += 1;
                    let dropped = Dropped {
                        malformed: 1,
                        ..Dropped::default()
                    };
                    events.push(now(clock, EventKind::Dropped(dropped)));
                    if self.malformed > MOST_MALFORMED {
                        events.extend(self.refused(clock));
                    }
                }
            }
        }
        events
    }

    fn event(
        &mut self,
        head: LineHead<'_>,
        line: &[u8],
        node: Option<u32>,
        clocks: &NodeClocks,
        clock: Clock,
    ) -> Result<Option<Event>, NotAnEvent> {
        let number = head.seq.ok_or(NotAnEvent)?;
        if number <= self.sequence {
            return Ok(None);
        }
        self.sequence = number;
        let node = node.ok_or(NotAnEvent)?;
        let stamp = |ns: u64| clocks.moment(node, (ns / 1_000) as i64, clock.now());
        let at = stamp(head.ns);
        match head.event {
            "end" => Ok(self.pid.map(|pid| Event {
                at,
                what: EventKind::ProbeGone(ProbeGone {
                    pid,
                    reason: None,
                    said_end: true,
                }),
            })),
            "device_memory" => Ok(self.reading(line).map(|reading| Event {
                at,
                what: EventKind::Device(reading),
            })),
            "hello" => {
                let mut event = line::event(head, line, None, stamp).ok_or(NotAnEvent)?;
                let EventKind::Hello(hello) = &mut event.what else {
                    return Err(NotAnEvent);
                };
                self.greet(hello, node)?;
                Ok(Some(event))
            }
            _ => {
                let pid = self.pid.ok_or(NotAnEvent)?;
                line::event(head, line, Some(pid), stamp)
                    .map(Some)
                    .ok_or(NotAnEvent)
            }
        }
    }

    fn greet(&mut self, hello: &mut Hello, node: u32) -> Result<(), NotAnEvent> {
        hello.pid = Pid::elsewhere(node, hello.pid.0).ok_or(NotAnEvent)?;
        self.pid = Some(hello.pid);
        let name = hello.node.clone().unwrap_or_default();
        for device in &mut hello.devices {
            // Old versions of torch don't tell it, and the simulated GPU has the same one everywhere.
            let uuid = match &device.uuid {
                Some(uuid) if !uuid.is_simulated() => continue,
                Some(uuid) => format!("{uuid}@{name}"),
                None => format!("cuda:{}@{name}", device.ordinal),
            };
            device.uuid = Some(Uuid::new(&uuid));
        }
        self.devices = (hello.devices.iter())
            .filter_map(|device| Some((device.ordinal, device.uuid.clone()?, device.name.clone())))
            .collect();
        Ok(())
    }

    fn reading(&self, line: &[u8]) -> Option<DeviceReading> {
        let memory: DeviceMemory = serde_json::from_slice(line).ok()?;
        let mut devices = self.devices.iter();
        let (index, uuid, name) = devices.find(|(ordinal, ..)| *ordinal == memory.device)?;
        Some(DeviceReading {
            uuid: uuid.clone(),
            index: *index,
            name: name.clone(),
            total: Some(memory.total),
            used: Some(memory.total - memory.free),
            free: Some(memory.free),
            driver_reserved: None,
            processes: None,
            utilization: None,
            temperature: None,
            power: None,
            lost: None,
        })
    }

    fn refused(&self, clock: Clock) -> Option<Event> {
        let gone = ProbeGone {
            pid: self.pid?,
            reason: Some("its file is not a probe's".into()),
            said_end: false,
        };
        Some(now(clock, EventKind::ProbeGone(gone)))
    }
}

struct NotAnEvent;

fn now(clock: Clock, what: EventKind) -> Event {
    Event {
        at: clock.now(),
        what,
    }
}

// The clocks of other nodes. Each counts from its own boot, so a line's time says nothing here; what
// both sides know is the file server's time: of a rank's file when it was last written, and of the
// session's marker when this front touched it. Pure.

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
    pub fn read_server(&mut self, session: Moment, server: Option<i64>) {
        let wall = || Some(jiff::Timestamp::now().as_microsecond());
        if let Some(server) = server.or_else(wall) {
            self.server = Some(session.0 as i64 - server);
        }
    }

    /// A line of the node with this stamp (µs) was the last one of its file at the server's time
    /// `written`.
    fn read_node(&mut self, node: u32, stamp: i64, written: i64) {
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
    fn moment(&self, node: u32, stamp: i64, now: Moment) -> Moment {
        match self.nodes.get(&node) {
            Some(known) => Moment((stamp + known.current).max(0) as u64).min(now),
            None => now,
        }
    }
}

/// The nodes by their numbers, in order of first sight: the first one is 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Nodes(Vec<String>);

impl Nodes {
    /// The number of a file's node; `None` if there are too many.
    fn number(&mut self, stem: &str) -> Option<u32> {
        // RUN-NODE-PID
        let node = stem.split_once('-')?.1.rsplit_once('-')?.0;
        let place = self.0.iter().position(|known| known == node);
        let place = match place {
            Some(place) => place,
            None if self.0.len() >= Pid::MOST_NODES as usize => return None,
            None => {
                self.0.push(node.to_string());
                self.0.len() - 1
            }
        };
        Some(place as u32 + 1)
    }
}

// How far the files were read, for the next front of the session: a file on this machine, which is
// written after what was read has been sent.

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Places {
    pub nodes: Nodes,
    pub followers: BTreeMap<String, Follower>,
}

impl Places {
    pub fn read(path: &Path) -> Option<Places> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Replaces the file. Without it the next front reads from the beginning.
    pub fn write(&self, path: &Path) {
        if let Ok(content) = serde_json::to_vec(self) {
            let _ = whole_file::replace(path, Readers::Owner, &content);
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

    #[test]
    fn nodes_are_numbered_as_they_come() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.number("1-gpu-07-4711"), Some(1));
        assert_eq!(nodes.number("1-gpu-08-4711"), Some(2));
        assert_eq!(nodes.number("2-gpu-07-5000"), Some(1));
        assert_eq!(nodes.number("nonsense"), None);
    }
}
