//! What a tool is: a name, what it needs to be permitted, its arguments' and its answer's schemas, and what it does.

use super::launched::LaunchedSessions;
use super::scope::ReadScope;
use rmcp::handler::server::common::schema_for_type;
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// What the server was started to permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Starting recorded commands with what is offered for them, and stopping what was started here.
    pub run: bool,
    /// Starting any command.
    pub command: bool,
}

/// What a tool needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolNeeds {
    Reading,
    Running,
    Commands,
}

impl Permissions {
    pub(super) fn allow(self, needs: ToolNeeds) -> bool {
        match needs {
            ToolNeeds::Reading => true,
            ToolNeeds::Running => self.run || self.command,
            ToolNeeds::Commands => self.command,
        }
    }
}

/// What every tool may use.
pub(super) struct ToolContext {
    pub scope: ReadScope,
    pub launched: LaunchedSessions,
}

/// How far a call has come.
pub(super) enum CallProgress {
    Done(Value),
    /// It is to be asked again.
    Waiting,
}

/// What a call does; it may block. It is told how long it has been waited for; its error is for the agent to read.
pub(super) type ToolCall = fn(&ToolContext, JsonObject, Duration) -> Result<CallProgress, String>;

pub(super) struct ToolSpec {
    pub name: &'static str,
    pub title: &'static str,
    /// For the agent: what it answers, and when to use it.
    pub description: &'static str,
    pub needs: ToolNeeds,
    pub arguments: fn() -> Arc<JsonObject>,
    /// The name of its answer's schema in `oomph help json`.
    pub answer: &'static str,
    pub call: ToolCall,
}

/// The schema of a tool's arguments.
pub(super) fn arguments<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    schema_for_type::<T>()
}

/// The arguments of a call.
///
/// # Errors
/// Which one is wrong.
pub(super) fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| format!("wrong arguments: {error}"))
}

/// An error in words.
pub(super) fn words(error: anyhow::Error) -> String {
    format!("{error:#}")
}
