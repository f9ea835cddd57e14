//! TensorBoard's event files: memory by rank over optimizer steps, beside the loss, and over seconds.
//!
//! A file is a sequence of records (length, its checksum, bytes, their checksum), each a message of
//! `tensorboard/compat/proto/event.proto`. The five fields that are needed are written by hand.

use super::{Export, process};
use crate::event::{Event, EventKind, Sample, Step};
use crate::state::State;
use crate::units::{Bytes, Moment, Pid, RunNumber};
use std::collections::HashMap;
use std::io::{self, Write};

/// Opens a file of that name, in the directory of that name below the one that was asked for.
pub type CreateFile<'a> = Box<dyn FnMut(&str, &str) -> io::Result<Box<dyn Write>> + 'a>;

/// Files are kept open: a training with more processes than this is written without the rest.
const MOST_FILES: usize = 256;

pub struct TensorBoardExport<'a> {
    create: CreateFile<'a>,
    files: HashMap<(RunNumber, Pid), RankFile>,
}

/// One process's file.
struct RankFile {
    out: Box<dyn Write>,
    /// The largest since the last step.
    in_step: Readings,
    /// The second that is being read, and the largest in it.
    second: u64,
    in_second: Readings,
}

#[derive(Default, Clone, Copy)]
struct Readings {
    allocated: Bytes,
    reserved: Bytes,
    /// Of the whole device; `None` without NVML.
    device: Option<Bytes>,
}

impl Readings {
    fn take(&mut self, allocated: Bytes, reserved: Bytes, device: Option<Bytes>) {
        self.allocated = self.allocated.max(allocated);
        self.reserved = self.reserved.max(reserved);
        self.device = self.device.max(device);
    }
}

impl<'a> TensorBoardExport<'a> {
    pub fn new(create: CreateFile<'a>) -> TensorBoardExport<'a> {
        TensorBoardExport {
            create,
            files: HashMap::new(),
        }
    }

    /// The file of a process; `None` for one that no run knows.
    fn file(&mut self, state: &State, pid: Pid) -> io::Result<Option<&mut RankFile>> {
        let Some((run, rank)) = process(state, pid) else {
            return Ok(None);
        };
        let key = (run.number, pid);
        if !self.files.contains_key(&key) {
            if self.files.len() >= MOST_FILES {
                return Ok(None);
            }
            let directory = match rank.hello.rank {
                Some(number) => format!("run{}-rank{number}", run.number),
                None if run.ranks.len() > 1 => format!("run{}-process{pid}", run.number),
                None => format!("run{}", run.number),
            };
            let wall = wall(state, run.started);
            let name = format!("events.out.tfevents.{}.oomph", wall as u64);
            let mut out = (self.create)(&directory, &name)?;
            record(&mut out, &version(wall))?;
            let file = RankFile {
                out,
                in_step: Readings::default(),
                second: 0,
                in_second: Readings::default(),
            };
            self.files.insert(key, file);
        }
        Ok(self.files.get_mut(&key))
    }

    fn sample(&mut self, state: &State, at: Moment, sample: &Sample) -> io::Result<()> {
        let device = process(state, sample.pid)
            .and_then(|(_, rank)| state.device(rank.device_with(sample.device)?.uuid.as_ref()?))
            .and_then(|device| device.used.current());
        let wall = wall(state, at);
        let Some(file) = self.file(state, sample.pid)? else {
            return Ok(());
        };
        let (allocated, reserved) = (sample.allocated, sample.reserved);
        file.in_step.take(allocated, reserved, device);
        let second = at.as_secs_f64() as u64;
        if second != file.second && file.in_second.reserved > Bytes::ZERO {
            let readings = std::mem::take(&mut file.in_second);
            file.write("memory_by_second", wall, file.second, readings)?;
        }
        file.second = second;
        file.in_second.take(allocated, reserved, device);
        Ok(())
    }

    fn step(&mut self, state: &State, at: Moment, step: &Step) -> io::Result<()> {
        let wall = wall(state, at);
        let Some(file) = self.file(state, step.pid)? else {
            return Ok(());
        };
        for reading in [step.before, step.after] {
            file.in_step.take(reading.allocated, reading.reserved, None);
        }
        let readings = std::mem::take(&mut file.in_step);
        file.write("memory", wall, step.count, readings)?;
        // A curve of what stays from step to step shows a leak.
        let left = scalar("memory/allocated_after_step_gib", step.after.allocated);
        record(&mut file.out, &summary(wall, step.count, &[left]))
    }
}

impl RankFile {
    fn write(&mut self, group: &str, wall: f64, step: u64, readings: Readings) -> io::Result<()> {
        let mut values = vec![
            scalar(&format!("{group}/allocated_gib"), readings.allocated),
            scalar(&format!("{group}/reserved_gib"), readings.reserved),
        ];
        if let Some(device) = readings.device {
            values.push(scalar(&format!("{group}/device_gib"), device));
        }
        record(&mut self.out, &summary(wall, step, &values))
    }
}

impl Export for TensorBoardExport<'_> {
    fn event(&mut self, state: &State, event: &Event) -> io::Result<()> {
        match &event.what {
            EventKind::Sample(sample) => self.sample(state, event.at, sample),
            EventKind::Step(step) => self.step(state, event.at, step),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, state: &State) -> io::Result<()> {
        let wall = wall(state, state.now);
        for file in self.files.values_mut() {
            let readings = std::mem::take(&mut file.in_second);
            if readings.reserved > Bytes::ZERO {
                file.write("memory_by_second", wall, file.second, readings)?;
            }
            file.out.flush()?;
        }
        Ok(())
    }
}

fn wall(state: &State, at: Moment) -> f64 {
    let began = state.session.as_ref().map_or(0.0, |session| session.wall);
    began + at.as_secs_f64()
}

/// The first record: `Event { wall_time: 1, file_version: 3 }`.
fn version(wall: f64) -> Vec<u8> {
    let mut event = double(1, wall);
    event.extend(block(3, b"brain.Event:2"));
    event
}

/// `Event { wall_time: 1, step: 2, summary: 5 { value: 1, … } }`.
fn summary(wall: f64, step: u64, values: &[Vec<u8>]) -> Vec<u8> {
    let mut event = double(1, wall);
    event.push(2 << 3);
    event.extend(varint(step));
    let values: Vec<u8> = values.iter().flat_map(|value| block(1, value)).collect();
    event.extend(block(5, &values));
    event
}

/// `Value { tag: 1, simple_value: 2 }`, in GiB.
fn scalar(tag: &str, bytes: Bytes) -> Vec<u8> {
    let mut value = block(1, tag.as_bytes());
    value.push(2 << 3 | 5);
    value.extend((bytes.as_gib() as f32).to_le_bytes());
    value
}

fn double(field: u8, value: f64) -> Vec<u8> {
    let mut bytes = vec![field << 3 | 1];
    bytes.extend(value.to_le_bytes());
    bytes
}

fn block(field: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![field << 3 | 2];
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn record(out: &mut impl Write, content: &[u8]) -> io::Result<()> {
    let length = (content.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked_checksum(&length).to_le_bytes())?;
    out.write_all(content)?;
    out.write_all(&masked_checksum(content).to_le_bytes())
}

/// CRC-32C, turned and shifted as the format has it, so that a checksum of checksums is none.
fn masked_checksum(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            // The polynomial of Castagnoli, mirrored.
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    (!sum).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_tensorboard_reads_them() {
        // RFC 3720, B.4: 32 bytes of zeros have the checksum 8a9136aa.
        let unmasked = masked_checksum(&[0; 32]).wrapping_sub(0xa282_ead8);
        assert_eq!(unmasked.rotate_left(15), 0x8a91_36aa);
        assert_eq!(varint(300), [0xac, 0x02]);
        let mut out = Vec::new();
        record(&mut out, &version(0.0)).unwrap();
        assert_eq!(out.len(), 8 + 4 + 9 + 15 + 4);
        assert!(out.windows(13).any(|part| part == b"brain.Event:2"));
    }
}
