//! One session: how it stands, its OOMs with their causes and evidence, and the remedies with what each needs.

use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed, words};
use crate::query::told::name_of_recording;
use crate::query::{explained, listing, versioned};
use crate::report::explain;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "read_session",
    title: "Read a session",
    description: "One session: its state, every OOM with cause and evidence, and the remedies that are offered for its command, each \
                  with the memory it is expected to need (remedies[].expected) and the changed command. \"cause\" and \"certainty\" \
                  are fixed names; cite \"evidence\" and \"held_by\" for the figures.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<ReadArguments>,
    answer: "session",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// The session's ID, or the start of it [default: the latest]
    session: Option<String>,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: ReadArguments = parsed(given)?;
    let path = context.scope.recording(asked.session.as_deref())?;
    let found = explained::recording(&path).map_err(words)?;
    let name = name_of_recording(&path);
    let mut answer = explained::explained(&found, Some(&path), &name, None, explain::value);
    let row =
        serde_json::to_value(listing::row(&name, &path)).map_err(|error| error.to_string())?;
    answer["session"] = versioned(row);
    Ok(CallProgress::Done(answer))
}
