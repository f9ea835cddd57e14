//! What is asked of sessions, recordings and commands, worked out as values: which sessions there are, what one tells, what
//! would be started again, what a change would need. Nothing is printed on standard output or started here; `commands` prints
//! it, and `mcp` answers with it.

pub mod again;
mod broken_off;
pub mod change;
pub mod explained;
pub mod listing;
pub mod planned;
pub mod predicted;
pub mod recordings;
pub mod sessions;
pub mod told;

use serde_json::Value;

/// The schemas of all answers, as `oomph help json` prints them.
pub const SCHEMAS: &str = include_str!("query/schemas.json");

/// Puts the version of its schema (`oomph help json`) into an answer, or into each of several.
pub fn versioned(answer: Value) -> Value {
    match answer {
        Value::Array(rows) => rows.into_iter().map(versioned).collect(),
        Value::Object(mut fields) => {
            fields.insert("version".into(), Value::from(1));
            Value::Object(fields)
        }
        other => other,
    }
}
