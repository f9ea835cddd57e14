//! Tests with real processes: oomph itself, its keeper, the probe under Python, the demo.
//!
//! `cargo test --test processes attach` runs one of them.

mod fake_nvml;
mod harness;

mod again;
mod attach;
mod auto;
mod batches;
mod check;
mod command_line;
mod demo;
mod doctor;
mod earlier_keeper;
mod elsewhere;
mod equality;
mod explain;
mod faults;
mod fit;
mod gate;
mod headless;
mod hold;
mod json;
mod losses;
mod main_job;
mod marks;
mod mcp;
mod news;
mod nodes;
mod nvml;
mod probe;
mod remedies;
mod replay_output;
mod screen_keys;
mod sessions;
mod supervise;
mod terminal_loss;
mod waited_for;
