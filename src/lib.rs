//! oomph is prefixed to a GPU training command. It launches the command, shows the GPU's memory
//! live, and when memory runs out it names the cause and relaunches with a remedy on one key.
//!
//! # The house
//!
//! Imports run downwards only; `tests/layering.rs` reads the sources and holds them to this table.
//!
//! | module | what it is | may import |
//! |---|---|---|
//! | [`units`] | bytes, instants, ids: parsed and printed once | nothing of ours |
//! | [`command`] | a command as words, and the difference of two | units |
//! | [`oom`] | out-of-memory in text: a scanner over a byte stream | units |
//! | [`epoch`] | epochs in text: what a program's output says of its progress | oom, units |
//! | [`event`] | everything that can happen; one line of a recording | units, command, oom's report |
//! | [`state`] | what is known so far: a fold of events | event, oom's report, units, command |
//! | [`recognize`] | what a command is, and where its knobs are | event, units, command |
//! | [`forecast`] | what a run will need | state and below, recognize |
//! | [`diagnosis`] | state to findings: one cause, one file | forecast and below |
//! | [`remedy`] | what can be changed, and whether it is worth it | diagnosis and below |
//! | [`probe`] | the Python that runs inside the training | nothing but units, command |
//! | [`collect`] | sources of events: NVML, the probe's socket | event, oom, command, units |
//! | [`supervise`] | the keeper process and the front's handle on it | event, oom, command, units |
//! | [`session`] | recordings: write, read, replay | event, oom, command, units |
//! | [`config`] | what the user has set in `oomph.toml` | nothing of ours |
//! | [`surroundings`] | what the disk knows of a command | event, oom, command, units |
//! | [`ui`] | the screen: draws state, changes nothing | remedy and below |
//! | [`report`] | the same state as text and JSON | remedy and below |
//! | [`app`] | the one loop: receive, apply, diagnose, draw | all of the above |
//! | [`cli`] | what a person types | app, ui, config, command, units |
//!
//! `state`, `recognize`, `forecast`, `diagnosis` and `remedy` are pure: no clock, no file, no socket, no process. So a
//! recording replays to the same frames and findings, and the tests need no GPU.

pub mod app;
pub mod cli;
pub mod collect;
pub mod command;
pub mod config;
pub mod diagnosis;
pub mod epoch;
pub mod event;
pub mod forecast;
pub mod oom;
pub mod probe;
pub mod recognize;
pub mod remedy;
pub mod report;
pub mod session;
pub mod state;
pub mod supervise;
pub mod surroundings;
pub mod ui;
pub mod units;
