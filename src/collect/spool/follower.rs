//! One process on another node: its lines, in order and each once, as events of this session.

use super::clocks::NodeClocks;
use super::directory::{SpoolBytes, SpoolFile};
use super::nodes::Nodes;
use crate::collect::line::{self, LineHead};
use crate::event::{Clock, DeviceReading, Dropped, Event, EventKind, Hello, ProbeGone};
use crate::units::{Bytes, Pid, Uuid};
use serde::{Deserialize, Serialize};

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
    pub(super) fn position(&self, generation: u32) -> u64 {
        match generation.cmp(&self.generation) {
            std::cmp::Ordering::Less => u64::MAX,
            std::cmp::Ordering::Equal => self.position,
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// The events of what is new.
    pub(super) fn take(
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
