//! Tests with real processes that take minutes: what oomph must survive, programs of every kind, and searches of many runs.
//!
//! `cargo test` leaves them out; `cargo test --test thorough` runs them, `cargo test --test thorough faults` one file of them.

mod fake_nvml;
#[allow(dead_code, reason = "each binary uses a part of it")]
mod harness;

mod auto;
mod batches;
mod equality;
mod faults;
mod fit;
mod losses;
mod mcp;
mod nodes;
mod probe;
mod screen_keys;
