//! The state for users who are not in front of the terminal: as text, as a page, for other programs.

#[cfg(test)]
mod agreement;
pub mod anonymous;
pub mod check;
pub mod comparison;
pub mod doctor;
mod ending;
pub mod errors;
pub mod explain;
pub mod export;
mod growth;
pub mod markdown;
pub mod metrics;
pub mod news;
pub mod outcome;
pub mod own_words;
pub mod page;
pub mod plan;
pub mod predicted;
mod ram;
pub mod score;
pub mod slack;
pub mod story;
mod time_axis;
mod unused;

pub use ending::{
    RAN_WITH, diagnosis, hidden_oom, kept_of_failed, nothing_trained, summary, what_helps,
    winning_command,
};
pub use growth::growth;
/// What stands before and behind the recording's path where it is named at the end.
pub const RECORDED_IN: (&str, &str) = ("recorded in ", " (oomph replay plays it)");

pub use unused::{larger_batch, unused, unused_in_report};

/// A recording of `tests/replay`, in order.
#[cfg(test)]
pub(crate) fn recorded(name: &str) -> Vec<crate::event::Event> {
    let path = format!("{}/tests/replay/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a recording");
    let events = text.lines().map(serde_json::from_str);
    let mut events: Vec<crate::event::Event> = events.collect::<Result<_, _>>().expect("events");
    events.sort_by_key(|event| event.at);
    events
}
