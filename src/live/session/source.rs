//! Reads what the lines say that hold memory, beside the loop: a disk may hang. Each line is read once a
//! run, and never by the training.

use crate::anatomy::{StepAnatomy, by_line};
use crate::event::{EventKind, LineText, SourceLine, SourceText, StepTrace};
use crate::project_files;
use crate::state::{MOST_TEXTS, State};
use crate::units::{Pid, RunNumber};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lines of a traced step whose texts are kept, the largest first.
const LINES_OF_A_STEP: usize = 64;

/// A file and the number of a line.
type FileLine = (String, u32);

/// The source of the current run.
#[derive(Default)]
pub(crate) struct SourceReader {
    run: RunNumber,
    /// Lines that were looked for, whether or not they could be read.
    known: HashSet<FileLine>,
    waiting: Vec<Sought>,
}

/// What names lines.
enum Sought {
    Lines(Vec<SourceLine>),
    Step(Box<StepTrace>),
}

/// Lines on their way to the thread that reads them.
pub(crate) struct SourceSearch {
    sought: Vec<Sought>,
    known: HashSet<FileLine>,
    cwd: PathBuf,
    started: SystemTime,
}

/// What a thread has read of them.
#[derive(Debug)]
pub(crate) struct LinesRead {
    looked_for: Vec<FileLine>,
    texts: Vec<LineText>,
}

impl Sought {
    /// The lines of this event that are shown, and its process.
    fn of(what: &EventKind) -> Option<(Pid, Sought)> {
        Some(match what {
            EventKind::StepTrace(step) => (step.pid, Sought::Step(step.clone())),
            EventKind::Oom(record) => {
                let held = record.lines.iter().map(|of| &of.line);
                let growing = record.growing.iter().map(|of| &of.line);
                let lines = held.chain(growing).cloned().collect();
                (record.pid, Sought::Lines(lines))
            }
            EventKind::Retainers(found) => {
                let lines = found.retainers.iter().filter_map(|of| of.line.clone());
                (found.pid, Sought::Lines(lines.collect()))
            }
            _ => return None,
        })
    }

    fn places(&self) -> Vec<FileLine> {
        match self {
            Sought::Lines(lines) => lines.iter().map(place_of).collect(),
            Sought::Step(trace) => of_step(trace),
        }
    }
}

fn place_of(line: &SourceLine) -> FileLine {
    (line.file.clone(), line.line)
}

/// The lines that hold the most at the peak of a step, and at its end if it ran out of memory.
fn of_step(trace: &StepTrace) -> Vec<FileLine> {
    let Ok(step) = StepAnatomy::new(trace) else {
        return Vec::new();
    };
    let end = step.failed.then(|| step.end());
    let moments = [step.peak()].into_iter().chain(end);
    let places = moments.flat_map(|at| {
        let holdings = by_line(&step, at).into_iter();
        holdings
            .filter_map(|holding| Some(place_of(&holding.line?)))
            .take(LINES_OF_A_STEP)
    });
    places.collect()
}

impl SourceSearch {
    pub(crate) fn read(&self) -> LinesRead {
        let places: BTreeSet<FileLine> = self.sought.iter().flat_map(Sought::places).collect();
        let room = MOST_TEXTS.saturating_sub(self.known.len());
        let new = places
            .into_iter()
            .filter(|place| !self.known.contains(place));
        let looked_for: Vec<FileLine> = new.take(room).collect();
        let mut of_files: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (file, line) in &looked_for {
            of_files.entry(file).or_default().push(*line);
        }
        let texts = of_files.into_iter().flat_map(|(file, numbers)| {
            let path = self.cwd.join(file);
            let read = project_files::source_lines(&path, &numbers, self.started);
            read.into_iter().map(|(line, text)| LineText {
                file: file.into(),
                line,
                text,
            })
        });
        let texts = texts.collect();
        LinesRead { looked_for, texts }
    }
}

impl SourceReader {
    /// Takes the lines that an event names, if it is of a process of this machine: on another one the
    /// same path may be another file.
    pub(crate) fn ask(&mut self, what: &EventKind, run: RunNumber) {
        let Some((_, sought)) = Sought::of(what).filter(|(pid, _)| pid.is_here()) else {
            return;
        };
        if self.run != run {
            *self = SourceReader {
                run,
                ..SourceReader::default()
            };
        }
        let is_known = match &sought {
            Sought::Lines(lines) => lines.iter().all(|of| self.known.contains(&place_of(of))),
            Sought::Step(_) => false,
        };
        if !is_known && self.known.len() < MOST_TEXTS {
            self.waiting.push(sought);
        }
    }

    /// What is waiting to be read.
    pub(crate) fn search(&mut self, state: &State) -> Option<SourceSearch> {
        if self.waiting.is_empty() {
            return None;
        }
        let sought = std::mem::take(&mut self.waiting);
        let run = state.run_numbered(self.run)?;
        let wall = state.session.as_ref().map(|session| session.wall);
        let wall = wall.filter(|wall| *wall > 0.0)?;
        Some(SourceSearch {
            sought,
            known: self.known.clone(),
            cwd: run.command.cwd.clone(),
            started: UNIX_EPOCH
                + Duration::from_secs_f64(wall)
                + Duration::from_micros(run.started.0),
        })
    }

    /// What was read, as an event if there is any.
    pub(crate) fn take(&mut self, read: LinesRead) -> Option<EventKind> {
        self.known.extend(read.looked_for);
        let (run, lines) = (self.run, read.texts);
        (!lines.is_empty()).then_some(EventKind::SourceText(Box::new(SourceText { run, lines })))
    }
}
