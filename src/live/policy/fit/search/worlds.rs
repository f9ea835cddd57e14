//! Trainings whose limits were measured (`limits.toml`), for the search to be held against.

use serde::Deserialize;

/// One of them; what its fields are stands above the table.
#[derive(Debug, Deserialize)]
pub(super) struct MeasuredLimit {
    pub name: String,
    #[serde(default)]
    pub held_out: bool,
    pub base: f64,
    pub slope: f64,
    pub room: f64,
    pub largest: u64,
    pub reserved: Vec<(u64, f64)>,
    pub pieces: Vec<(u64, f64)>,
    pub left_over: f64,
}

/// All of them.
pub(super) fn worlds() -> Vec<MeasuredLimit> {
    #[derive(Deserialize)]
    struct Table {
        limit: Vec<MeasuredLimit>,
    }
    let table: Table = toml::from_str(include_str!("limits.toml")).expect("the table is in order");
    table.limit
}
