//! A recording for other programs: a table, TensorBoard, and a trace viewer.
//!
//! Each format takes one event after another, with the state as it is after it, so that a recording
//! of any length is written in bounded memory. This writes to what it is given.

mod csv;
mod tensorboard;
mod trace;

pub use csv::CsvExport;
pub use tensorboard::{CreateFile, TensorBoardExport};
pub use trace::TraceExport;

use crate::event::Event;
use crate::state::{RankState, Run, State};
use crate::units::Pid;
use std::io;

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
