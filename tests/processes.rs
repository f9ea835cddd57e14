//! Tests with real processes: oomph itself, its keeper, the probe under Python, the demo. Those that take minutes are in
//! `thorough.rs`.
//!
//! `cargo test --test processes attach` runs one of them.

mod fake_nvml;
#[allow(dead_code, reason = "each binary uses a part of it")]
mod harness;

mod again;
mod attach;
mod check;
mod command_line;
mod demo;
mod doctor;
mod earlier_keeper;
mod elsewhere;
mod explain;
mod gate;
mod harness_itself;
mod headless;
mod hold;
mod json;
mod main_job;
mod marks;
mod news;
mod nvml;
mod remedies;
mod replay_output;
mod sessions;
mod supervise;
mod terminal_loss;
mod waited_for;
