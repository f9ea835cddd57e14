//! Waits until a session has ended, or needs somebody, for a while.

use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed};
use crate::query::told::name_of_recording;
use crate::query::{listing, versioned};
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "wait_for_session",
    title: "Wait for a session",
    description: "Waits until a session has ended, at most as long as is asked, and says how it stands: whether it ended, its state, \
                  steps and peak. Call it again while it runs; read_session says why one ran out of memory.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<WaitArguments>,
    answer: "waited",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitArguments {
    /// The session's ID, or the start of it
    session: String,
    /// How long, in seconds, at most 50: many clients give up after a minute [default: 30]
    #[serde(default = "half_a_minute")]
    seconds: u64,
}

fn half_a_minute() -> u64 {
    30
}

fn call(
    context: &ToolContext,
    given: JsonObject,
    waited: Duration,
) -> Result<CallProgress, String> {
    let asked: WaitArguments = parsed(given)?;
    let path = context.scope.recording(Some(&asked.session))?;
    let name = name_of_recording(&path);
    let is_living = listing::is_living(&name);
    let row = listing::row(&name, &path);
    let waits = is_living && row.state != listing::WAITING_AT_OOM;
    if waits && waited < Duration::from_secs(asked.seconds.min(50)) {
        return Ok(CallProgress::Waiting);
    }
    let row = serde_json::to_value(row).map_err(|error| error.to_string())?;
    Ok(CallProgress::Done(json!({
        "version": 1,
        "ended": !is_living,
        "waited": waited.as_secs(),
        "session": versioned(row),
    })))
}
