//! The forecast held against what was measured on a GPU: `forecast/measured.toml`.

mod failed;
mod limits;
mod measured;

use oomph::units::Bytes;
use serde::Deserialize;

/// The tables of `measured.toml`; its head says what they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    training: Vec<Training>,
    need: Vec<Need>,
    failed: Vec<Failed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Training {
    name: String,
    parameters: f64,
    floor: f64,
    #[serde(default)]
    varies: bool,
    peaks: Vec<(u64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Need {
    name: String,
    peak: f64,
    reserved: f64,
    fixed: f64,
    expandable: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    name: String,
    batch: u64,
    cap: f64,
    forward: Option<f64>,
    parameters: f64,
    allocated: f64,
    requested: f64,
    reserved: f64,
    peak: f64,
    truth: (f64, f64),
    chosen: u64,
}

fn measured() -> Measured {
    toml::from_str(include_str!("forecast/measured.toml")).expect("the tables are in order")
}

fn gib(gib: f64) -> Bytes {
    Bytes::gib(1).scale(gib)
}
