//! A recording for other programs: a table, TensorBoard, and a trace viewer.
//!
//! Each format takes one event after another, with the state as it is after it, so that a recording
//! of any length is written in bounded memory. This writes to what it is given.

use crate::command;
use crate::event::{DeviceReading, Event, EventKind, HostMemory, Sample, Step};
use crate::state::{RankState, Run, State};
use crate::units::{Bytes, Moment, Pid, RunNumber};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

/// A format, being written.
pub trait Export {
    /// Takes an event; `state` has it already.
    fn event(&mut self, state: &State, event: &Event) -> io::Result<()>;

    /// Writes what is left.
    fn finish(&mut self, state: &State) -> io::Result<()>;
}

/// The run and the process that a reading is of: the latest with this id.
fn process(state: &State, pid: Pid) -> Option<(&Run, &RankState)> {
    let mut runs = state.runs.iter().rev();
    runs.find_map(|run| Some((run, run.rank_with(pid)?)))
}

/// `rank 3`, or `process 41` where a launcher numbered none.
fn name_of(rank: &RankState) -> String {
    match rank.hello.rank {
        Some(number) => format!("rank {number}"),
        None => format!("process {}", rank.hello.pid),
    }
}

#[cfg(test)]
mod tests;

/// Column by column what a row has; a cell that its source does not know is empty.
const COLUMNS: [&str; 19] = [
    "seconds",
    "unix_time",
    "source",
    "run",
    "step",
    "rank",
    "pid",
    "gpu",
    "gpu_name",
    "allocated_bytes",
    "reserved_bytes",
    "allocated_peak_bytes",
    "inactive_split_bytes",
    "alloc_retries",
    "used_bytes",
    "free_bytes",
    "utilization_percent",
    "temperature_celsius",
    "power_watts",
];

pub struct CsvExport<W> {
    out: W,
    headed: bool,
}

impl<W: Write> CsvExport<W> {
    pub fn new(out: W) -> CsvExport<W> {
        CsvExport { out, headed: false }
    }

    fn row(&mut self, cells: [String; COLUMNS.len()]) -> io::Result<()> {
        self.head()?;
        writeln!(self.out, "{}", cells.join(","))
    }

    fn head(&mut self) -> io::Result<()> {
        if self.headed {
            return Ok(());
        }
        self.headed = true;
        writeln!(self.out, "{}", COLUMNS.join(","))
    }

    fn sample(&mut self, state: &State, at: Moment, sample: &Sample) -> io::Result<()> {
        let found = process(state, sample.pid);
        let (run, rank) = (found.map(|found| found.0), found.map(|found| found.1));
        let device = rank.and_then(|rank| {
            let uuid = rank.device_with(sample.device)?.uuid.as_ref()?;
            state.device(uuid)
        });
        let index = device.map_or(sample.device, |device| device.index);
        let [seconds, unix] = times(state, at);
        self.row([
            seconds,
            unix,
            "torch".into(),
            run.map_or(String::new(), |run| run.number.to_string()),
            rank.map_or(String::new(), |rank| rank.steps.count.to_string()),
            known(rank.and_then(|rank| rank.hello.rank)),
            sample.pid.to_string(),
            index.to_string(),
            quoted(device.map_or("", |device| &device.name)),
            bytes(Some(sample.allocated)),
            bytes(Some(sample.reserved)),
            bytes(Some(sample.allocated_peak)),
            bytes(sample.inactive_split),
            sample.alloc_retries.to_string(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ])
    }

    /// The host's memory, in the columns of used and free, and by role what its processes hold.
    fn host(&mut self, state: &State, at: Moment, memory: &HostMemory) -> io::Result<()> {
        let free = Some(memory.limit - memory.used);
        self.host_row(state, at, "host".into(), memory.used, free)?;
        for role in &memory.roles {
            let source = format!("host_{}", role.role.name());
            self.host_row(state, at, source, role.held, None)?;
        }
        match memory.shared {
            Some(shared) => self.host_row(state, at, "host_shared".into(), shared, None),
            None => Ok(()),
        }
    }

    fn host_row(
        &mut self,
        state: &State,
        at: Moment,
        source: String,
        used: Bytes,
        free: Option<Bytes>,
    ) -> io::Result<()> {
        let mut cells = [const { String::new() }; COLUMNS.len()];
        let [seconds, unix] = times(state, at);
        let run = state.run().map(|run| run.number.to_string());
        let known = [
            ("seconds", seconds),
            ("unix_time", unix),
            ("source", source),
            ("run", run.unwrap_or_default()),
            ("used_bytes", used.0.to_string()),
            ("free_bytes", bytes(free)),
        ];
        for (name, value) in known {
            if let Some(place) = COLUMNS.iter().position(|column| *column == name) {
                cells[place] = value;
            }
        }
        self.row(cells)
    }

    fn device(&mut self, state: &State, at: Moment, reading: &DeviceReading) -> io::Result<()> {
        let [seconds, unix] = times(state, at);
        self.row([
            seconds,
            unix,
            "nvml".into(),
            state
                .run()
                .map_or(String::new(), |run| run.number.to_string()),
            String::new(),
            String::new(),
            String::new(),
            reading.index.to_string(),
            quoted(&reading.name),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            bytes(reading.used),
            bytes(reading.free),
            known(reading.utilization),
            known(reading.temperature),
            known(reading.power),
        ])
    }
}

impl<W: Write> Export for CsvExport<W> {
    fn event(&mut self, state: &State, event: &Event) -> io::Result<()> {
        match &event.what {
            EventKind::Sample(sample) => self.sample(state, event.at, sample),
            EventKind::Device(reading) => self.device(state, event.at, reading),
            EventKind::HostMemory(memory) => self.host(state, event.at, memory),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _state: &State) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}

/// Since the session began, and since 1970 where the recording says when that was.
fn times(state: &State, at: Moment) -> [String; 2] {
    let seconds = at.as_secs_f64();
    let wall = state.session.as_ref().map(|session| session.wall);
    [
        format!("{seconds:.3}"),
        wall.map_or(String::new(), |wall| format!("{:.3}", wall + seconds)),
    ]
}

fn bytes(bytes: Option<Bytes>) -> String {
    known(bytes.map(|bytes| bytes.0))
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// As RFC 4180 has it. A program that opens a table must not take a name for a formula.
fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim_start_matches(['=', '+', '-', '@']);
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

/// The process ids of the trace: the session, the devices, and those of the training after them.
const SESSION: u64 = 1;
const DEVICES: u64 = 2;
const PROCESSES: u64 = 10;

pub struct TraceExport<W> {
    out: W,
    begun: bool,
    /// The training's processes, as numbered in the trace, and the end of the last step of each.
    processes: HashMap<Pid, TracedProcess>,
    /// The present run, and when it started.
    run: Option<(u32, Moment)>,
}

struct TracedProcess {
    number: u64,
    last_step: Option<Moment>,
}

impl<W: Write> TraceExport<W> {
    pub fn new(out: W) -> TraceExport<W> {
        TraceExport {
            out,
            begun: false,
            processes: HashMap::new(),
            run: None,
        }
    }

    fn write(&mut self, event: Value) -> io::Result<()> {
        if self.begun {
            write!(self.out, ",\n{event}")
        } else {
            self.begun = true;
            writeln!(self.out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
            for (pid, name) in [(SESSION, "session"), (DEVICES, "devices (NVML)")] {
                writeln!(self.out, "{},", named(pid, name))?;
            }
            write!(self.out, "{event}")
        }
    }

    /// The number of a process in the trace; it is named the first time.
    fn number(&mut self, state: &State, pid: Pid) -> io::Result<u64> {
        if let Some(known) = self.processes.get(&pid) {
            return Ok(known.number);
        }
        let number = PROCESSES + self.processes.len() as u64;
        let name = match process(state, pid) {
            Some((run, rank)) => format!("run {} {}", run.number, name_of(rank)),
            None => format!("process {pid}"),
        };
        self.processes.insert(
            pid,
            TracedProcess {
                number,
                last_step: None,
            },
        );
        self.write(named(number, &name))?;
        Ok(number)
    }

    fn slice(&mut self, pid: u64, name: &str, from: Moment, to: Moment) -> io::Result<()> {
        let length = to.0.saturating_sub(from.0);
        self.write(json!({
            "ph": "X", "pid": pid, "tid": 1, "name": name, "ts": from.0, "dur": length
        }))
    }

    fn end_run(&mut self, at: Moment, words: &str) -> io::Result<()> {
        match self.run.take() {
            Some((number, from)) => {
                self.slice(SESSION, &format!("run {number}: {words}"), from, at)
            }
            None => Ok(()),
        }
    }
}

impl<W: Write> Export for TraceExport<W> {
    fn event(&mut self, state: &State, event: &Event) -> io::Result<()> {
        let at = event.at;
        match &event.what {
            EventKind::Sample(sample) => {
                let pid = self.number(state, sample.pid)?;
                self.write(json!({
                    "ph": "C", "pid": pid, "name": format!("GPU {} MiB", sample.device), "ts": at.0,
                    "args": {"allocated": mib(sample.allocated), "cached": mib(sample.reserved - sample.allocated)}
                }))
            }
            EventKind::Device(reading) => {
                let Some(used) = reading.used else {
                    return Ok(());
                };
                self.write(json!({
                    "ph": "C", "pid": DEVICES, "name": format!("GPU {} used MiB", reading.index),
                    "ts": at.0, "args": {"used": mib(used)}
                }))
            }
            EventKind::HostMemory(memory) => {
                self.write(json!({
                    "ph": "C", "pid": DEVICES, "name": "RAM used MiB",
                    "ts": at.0, "args": {"used": mib(memory.used)}
                }))?;
                let mut held: serde_json::Map<String, serde_json::Value> = (memory.roles.iter())
                    .map(|role| (role.role.name().to_string(), mib(role.held).into()))
                    .collect();
                held.extend(memory.shared.map(|shared| ("shared".to_string(), mib(shared).into())));
                self.write(json!({
                    "ph": "C", "pid": DEVICES, "name": "RAM held MiB", "ts": at.0, "args": held
                }))
            }
            EventKind::Step(step) => {
                let pid = self.number(state, step.pid)?;
                let known = self.processes.get_mut(&step.pid);
                let before = known.and_then(|known| known.last_step.replace(at));
                // Readings are thinned out: a slice may be of several steps.
                if let Some(before) = before {
                    self.slice(pid, &format!("to step {}", step.count), before, at)?;
                }
                let began = Moment(at.0.saturating_sub(step.micros));
                self.slice(pid, "optimizer step", began, at)
            }
            EventKind::Started(started) => {
                self.run = Some((started.run.0, at));
                Ok(())
            }
            EventKind::Exited(exited) => {
                let run = state.run_numbered(exited.run);
                let words = run.map_or(exited.exit.to_string(), |run| run.outcome_words());
                self.end_run(at, &words)
            }
            EventKind::Oom(_) | EventKind::OomText(_) => self.write(json!({
                "ph": "i", "s": "g", "pid": SESSION, "tid": 1, "name": "out of memory", "ts": at.0
            })),
            EventKind::Epoch(epoch) => self.write(json!({
                "ph": "i", "s": "p", "pid": SESSION, "tid": 1, "name": format!("epoch {}", epoch.number), "ts": at.0
            })),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, state: &State) -> io::Result<()> {
        self.end_run(state.now, "running")?;
        if !self.begun {
            self.write(named(SESSION, "session"))?;
        }
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }
}

fn named(pid: u64, name: &str) -> Value {
    let name = command::without_secrets(name);
    json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
}

fn mib(bytes: Bytes) -> f64 {
    (bytes.0 as f64 / (1u64 << 20) as f64 * 1e3).round() / 1e3
}

/// Opens a file of that name, in the directory of that name below the one that was asked for.
pub type CreateFile<'a> = Box<dyn FnMut(&str, &str) -> io::Result<Box<dyn Write>> + 'a>;

/// Files are kept open: a training with more processes than this is written without the rest.
const MOST_FILES: usize = 256;

pub struct TensorBoardExport<'a> {
    create: CreateFile<'a>,
    files: HashMap<(RunNumber, Pid), RankFile>,
    /// Of the host's memory, of the current run.
    ram: Option<(RunNumber, Box<dyn Write>)>,
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
            ram: None,
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
            let out = self.created(&directory, wall(state, run.started))?;
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

    fn created(&mut self, directory: &str, wall: f64) -> io::Result<Box<dyn Write>> {
        let name = format!("events.out.tfevents.{}.oomph", wall as u64);
        let mut out = (self.create)(directory, &name)?;
        record(&mut out, &version(wall))?;
        Ok(out)
    }

    /// The host's memory is of all processes of a run: a file of its own, by the second.
    fn host(&mut self, state: &State, at: Moment, memory: &HostMemory) -> io::Result<()> {
        let Some(run) = state.run() else {
            return Ok(());
        };
        if self.ram.as_ref().is_none_or(|(of, _)| *of != run.number) {
            let directory = format!("run{}-ram", run.number);
            let out = self.created(&directory, wall(state, run.started))?;
            self.ram = Some((run.number, out));
        }
        let Some((_, out)) = &mut self.ram else {
            return Ok(());
        };
        let mut values = vec![
            scalar("ram_by_second/used_gib", memory.used),
            scalar("ram_by_second/limit_gib", memory.limit),
        ];
        values.extend(memory.roles.iter().map(|role| {
            let tag = format!("ram_by_second/{}_gib", role.role.name());
            scalar(&tag, role.held)
        }));
        values.extend((memory.shared).map(|shared| scalar("ram_by_second/shared_gib", shared)));
        let second = at.as_secs_f64() as u64;
        record(out, &summary(wall(state, at), second, &values))
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
            EventKind::HostMemory(memory) => self.host(state, event.at, memory),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, state: &State) -> io::Result<()> {
        if let Some((_, out)) = &mut self.ram {
            out.flush()?;
        }
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
mod tensorboard_tests {
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
