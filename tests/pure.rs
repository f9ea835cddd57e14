//! Tests that start no program but `oomph --help`: what is drawn, replayed, read and written down.
//!
//! `cargo test --test pure frames` runs one of them.

mod allocator;
mod commands;
mod forecast;
mod frames;
mod layering;
mod man_page;
mod messages;
mod palette;
mod readme;
mod replay;
