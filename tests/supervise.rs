//! The keeper with real children: what they write, how they end, who is signalled.
//!
//! Each test is a front of its own keeper, with streams made for it in place of a user's. All
//! waiting is for a condition with a deadline; a number in a comment is the fault's in the list of
//! faults that oomph must bear.

mod stage;

mod cost;
mod ends;
mod loss;
mod output;
mod real;
mod signals;
mod sweep;
mod terminal;
