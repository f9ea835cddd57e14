//! The faults that oomph must bear under a training of weeks, each a test of its number.
//!
//! A made-up training (`faults/trainer`) runs under the real binary, something goes wrong, and what
//! oomph promises is looked at. `faults/TABLE.md` lists all of them with what becomes of each; what
//! cannot run everywhere is a script in `faults/by_hand`. What nobody is to be held up by takes
//! milliseconds here: graces and deadlines are scaled.

mod ledger;
mod staging;
mod yardstick;

mod death;
mod disk;
mod files;
mod gate;
mod groups;
mod inputs;
mod launchers;
mod namespaces;
mod nvml;
mod output;
mod passed_on;
mod people;
mod questions;
mod relaunch;
mod signals;
mod streams;
mod table;
mod typed;
