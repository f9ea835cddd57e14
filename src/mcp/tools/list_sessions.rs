//! Which sessions there are.

use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed};
use crate::query::{listing, versioned};
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "list_sessions",
    title: "List sessions",
    description: "The recorded trainings: those that run, and those that have ended, the latest first, each with its state, peak, \
                  steps and command. Start here to find a session's ID.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<ListArguments>,
    answer: "sessions",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Ended sessions that are listed, at most 20 [default: 10]
    #[serde(default = "few")]
    ended: u8,
}

fn few() -> u8 {
    10
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: ListArguments = parsed(given)?;
    let (mut rows, _) = listing::rows(usize::from(asked.ended.min(20)));
    let served = context.scope.served().iter();
    rows.extend(served.map(|(name, path)| listing::recorded_row(name, path).0));
    let rows = serde_json::to_value(&rows).map_err(|error| error.to_string())?;
    Ok(CallProgress::Done(
        json!({"version": 1, "sessions": versioned(rows)}),
    ))
}
