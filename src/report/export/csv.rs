//! A table with a row for each sample: of a process's allocator, or of a device by NVML.

use super::{Export, process};
use crate::event::{DeviceReading, Event, EventKind, Sample};
use crate::state::State;
use crate::units::{Bytes, Moment};
use std::io::{self, Write};

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
