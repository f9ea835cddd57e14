//! The OOMs in a text, and their causes.

use super::plan_command::CommandWords;
use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed};
use crate::query::explained;
use crate::report::explain;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "explain_log",
    title: "Explain a log",
    description: "The out-of-memory errors in a text (a job's log, a traceback), each with its cause and figures. With the command that \
                  wrote it also the remedies. A session's own recording says more: read_session.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<LogArguments>,
    answer: "explain",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogArguments {
    /// The log, or the part of it with the error
    text: String,
    /// The command that wrote it
    command: Option<CommandWords>,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: LogArguments = parsed(given)?;
    let command = match &asked.command {
        Some(command) => Some(command.command(&context.scope)?),
        None => None,
    };
    let found =
        explained::log(&[], &mut asked.text.as_bytes()).map_err(|error| error.to_string())?;
    let answer = explained::explained(&found, None, "the text", command.as_ref(), explain::value);
    Ok(CallProgress::Done(answer))
}
