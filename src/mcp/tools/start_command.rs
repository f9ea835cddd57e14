//! Any command, started: for servers that permit it.

use super::plan_command::CommandWords;
use crate::event::displayed;
use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed};
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "start_command",
    title: "Start a command",
    description: "Starts a training command below oomph, as a session of its own that goes on without this server; \"started\" is its \
                  session. It ends where memory runs out, and read_session then says why.",
    needs: ToolNeeds::Commands,
    arguments: arguments::<StartArguments>,
    answer: "launched",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartArguments {
    command: CommandWords,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: StartArguments = parsed(given)?;
    let command = asked.command.command(&context.scope)?;
    let mut words: Vec<OsString> = vec!["--".into()];
    words.extend(asked.command.words().iter().map(OsString::from));
    let (started, why) = match context.launched.start(&words, &command.cwd) {
        Ok(session) => (Value::from(session), Value::Null),
        Err(why) => (Value::Null, Value::from(why)),
    };
    Ok(CallProgress::Done(json!({
        "version": 1,
        "started": started,
        "why_not": why,
        "command": displayed(&command),
        "directory": command.cwd.to_string_lossy(),
    })))
}
