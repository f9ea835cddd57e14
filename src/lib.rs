//! The rooms of oomph; the map below is `src/README.md`.

#![doc = include_str!("README.md")]

pub mod anatomy;
mod background;
pub mod calibration;
pub mod cli;
pub mod collect;
pub mod command;
pub mod commands;
pub mod config;
pub mod diagnosis;
pub mod doctor;
pub mod document;
pub mod epoch;
pub mod event;
pub mod forecast;
pub mod live;
mod mcp;
pub mod oom;
pub mod probe;
pub mod project_files;
mod query;
pub mod recognize;
pub mod recording;
pub mod remedy;
pub mod report;
pub mod state;
pub mod supervise;
pub mod ui;
pub mod units;
mod whole_file;
