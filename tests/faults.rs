//! The faults that oomph must bear under a training of weeks, each a test of its number.
//!
//! A made-up training (`faults/trainer`) runs under the real binary, something goes wrong, and what
//! oomph promises is looked at. `faults/TABLE.md` lists all of them with what becomes of each; what
//! cannot run everywhere is a script in `faults/by_hand`. What nobody is to be held up by takes
//! milliseconds here: graces and deadlines are scaled.

#[path = "fake_nvml/fake.rs"]
mod fake_nvml;
#[path = "harness/harness.rs"]
mod harness;

#[path = "faults/ledger.rs"]
mod ledger;
#[path = "faults/staging.rs"]
mod staging;

#[path = "faults/death.rs"]
mod death;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/gate.rs"]
mod gate;
#[path = "faults/launchers.rs"]
mod launchers;
#[path = "faults/namespaces.rs"]
mod namespaces;
#[path = "faults/nvml.rs"]
mod nvml;
#[path = "faults/output.rs"]
mod output;
#[path = "faults/relaunch.rs"]
mod relaunch;
#[path = "faults/signals.rs"]
mod signals;
#[path = "faults/table.rs"]
mod table;
