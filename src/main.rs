//! Parse, call, turn the outcome into an exit status; nothing else.

fn main() {}
