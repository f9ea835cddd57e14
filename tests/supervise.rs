//! The keeper with real children: what they write, how they end, who is signalled.
//!
//! Each test is a front of its own keeper, with streams made for it in place of a user's. All
//! waiting is for a condition with a deadline; a number in a comment is the fault's in the list of
//! faults that oomph must bear.

#[path = "supervise/stage.rs"]
mod stage;

#[path = "supervise/cost.rs"]
mod cost;
#[path = "supervise/ends.rs"]
mod ends;
#[path = "supervise/loss.rs"]
mod loss;
#[path = "supervise/output.rs"]
mod output;
#[path = "supervise/real.rs"]
mod real;
#[path = "supervise/signals.rs"]
mod signals;
#[path = "supervise/sweep.rs"]
mod sweep;
#[path = "supervise/terminal.rs"]
mod terminal;
