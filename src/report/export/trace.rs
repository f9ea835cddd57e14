//! A trace as Chrome's `about:tracing` and Perfetto read it (Trace Event Format, JSON): memory as
//! counters by device and by process, runs and steps as slices, OOMs as marks.

use super::{Export, name_of, process};
use crate::command;
use crate::event::{Event, EventKind};
use crate::state::State;
use crate::units::{Bytes, Moment, Pid};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

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
