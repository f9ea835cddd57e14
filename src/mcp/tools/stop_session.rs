//! Ends a session that was started from here.

use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed};
use crate::query::sessions::{Chosen, choose};
use crate::supervise::{self, Call};
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "stop_session",
    title: "Stop a session",
    description: "Asks a session to end that this server has started (SIGTERM to the training, to its tree after 45 s, SIGKILL 5 s \
                  later); wait_for_session says when it has. Sessions of others are not stopped.",
    needs: ToolNeeds::Running,
    arguments: arguments::<StopArguments>,
    answer: "stopping",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopArguments {
    /// The session's whole ID, as "started" had it
    session: String,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: StopArguments = parsed(given)?;
    if !context.launched.has(&asked.session) {
        return Err("that session was not started by this server, and is left alone".into());
    }
    let stopping = match choose(Some(&asked.session), "stop") {
        Ok(Chosen::Here(found)) => {
            supervise::pass_on(&found.socket(), Call::Stop).map_err(|error| error.to_string())?;
            true
        }
        // It has ended by itself.
        Ok(Chosen::Elsewhere(_)) | Err(_) => false,
    };
    Ok(CallProgress::Done(
        json!({"version": 1, "session": asked.session, "stopping": stopping}),
    ))
}
