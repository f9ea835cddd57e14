//! What a change would need, before it runs.

use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed, words};
use crate::query::change::{AskedChange, predicted};
use crate::query::told::{name_of, read_state};
use crate::units::Bytes;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "predict_change",
    title: "Predict a change",
    description: "What a session's command would need with another batch, activation checkpointing, mixed precision or expandable \
                  segments, together, on its own GPU or on a named one: bytes with an interval, whether it fits, and what the figure \
                  rests on (rehearsed, measured, estimated). Costs no GPU time; ask it before starting anything.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<ChangeArguments>,
    answer: "change",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChangeArguments {
    /// The session's ID, or the start of it [default: the latest]
    session: Option<String>,
    /// Samples that a device takes at once, as the command counts them [default: as it ran]
    batch: Option<u64>,
    /// Activation checkpointing on
    #[serde(default)]
    checkpointing: bool,
    /// Mixed precision on
    #[serde(default)]
    mixed_precision: bool,
    /// What a forward pass saves waits in RAM
    #[serde(default)]
    offload: bool,
    /// PyTorch's expandable segments on
    #[serde(default)]
    expandable_segments: bool,
    /// Another GPU, by its name: "RTX 4090", "A100 40GB" [default: the one that it ran on]
    gpu: Option<String>,
    /// Another GPU, by its memory: "24GiB"
    room: Option<String>,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: ChangeArguments = parsed(given)?;
    let path = context.scope.recording(asked.session.as_deref())?;
    let state = read_state(&path).map_err(words)?;
    let room = match &asked.room {
        Some(text) => {
            let size = Bytes::parse_size(text);
            Some(size.ok_or("write room as a size with its unit, such as 24GiB")?)
        }
        None => None,
    };
    let change = AskedChange {
        batch: asked.batch,
        checkpointing: asked.checkpointing,
        mixed_precision: asked.mixed_precision,
        offload: asked.offload,
        expandable_segments: asked.expandable_segments,
        gpu: asked.gpu,
        room,
    };
    let mut answer = predicted(&state, &change)?;
    answer["session"] = name_of(&state, &path).into();
    Ok(CallProgress::Done(answer))
}
