//! What a traced step is made of at its peak: by kind, by the program's lines, by the model's modules.

use crate::anatomy::{StepAnatomy, by_category};
use crate::document::{self, MemoryHolder};
use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed, words};
use crate::query::told::{name_of, read_state};
use crate::state::Run;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "show_step",
    title: "Show a step",
    description: "What one traced optimizer step is made of at its peak: bytes by kind (parameters, activations, …), by the program's \
                  lines and by the model's modules, the largest first. Without a step it is the one that ran out of memory, or else \
                  the largest that was traced.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<StepArguments>,
    answer: "step",
    call,
};

/// Lines and modules that are listed.
const LISTED: usize = 15;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepArguments {
    /// The session's ID, or the start of it [default: the latest]
    session: Option<String>,
    /// The run of the session, from 1 [default: the last]
    run: Option<u32>,
    /// The step, from 1; the answer's traced_steps has those that were traced
    step: Option<u64>,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: StepArguments = parsed(given)?;
    let path = context.scope.recording(asked.session.as_deref())?;
    let state = read_state(&path).map_err(words)?;
    let number = asked.run;
    let run = match number {
        Some(number) => state.runs.iter().find(|run| run.number.0 == number),
        None => state.run(),
    };
    let run = run.ok_or("there is no such run in that session")?;
    let name = name_of(&state, &path);
    let mut answer = of_run(run, asked.step)?;
    answer["session"] = name.into();
    Ok(CallProgress::Done(answer))
}

fn of_run(run: &Run, wanted: Option<u64>) -> Result<Value, String> {
    let rank = run
        .ranks
        .iter()
        .max_by_key(|rank| (rank.traces.last().is_some(), rank.reserved_peak));
    let traces = &rank
        .ok_or("no process of PyTorch was seen in that run")?
        .traces;
    let traced: Vec<u64> = traces.all().map(|trace| trace.step).collect();
    let trace = match wanted {
        Some(step) => traces.all().find(|trace| trace.step == step),
        None => traces.failed().or_else(|| traces.largest()),
    };
    let trace = trace.ok_or_else(|| match traced.as_slice() {
        [] => {
            "no step of that run was traced; read_session has the lines that held memory at an OOM"
                .to_string()
        }
        traced => format!("that step was not traced; of that run these were: {traced:?}"),
    })?;
    let step = StepAnatomy::among(trace, traces).map_err(|bad| bad.to_string())?;
    let peak = step.peak();
    let kinds = by_category(&step, peak)
        .into_iter()
        .map(|(category, bytes)| json!({"kind": category.title(), "bytes": bytes}));
    Ok(json!({
        "version": 1,
        "run": run.number,
        "step": step.step,
        "ran_out": step.failed,
        "traced_steps": traced,
        "peak": step.allocated[peak],
        "phase": step.phase(peak),
        "allocations": step.allocations(),
        "kinds": kinds.collect::<Vec<_>>(),
        "lines": holders(document::lines_at(&step, peak, &run.source)),
        "modules": holders(document::modules_at(&step, peak)),
    }))
}

fn holders(held: Vec<MemoryHolder>) -> Vec<Value> {
    let holder = |held: MemoryHolder| {
        json!({
            "place": held.place,
            "inside": held.inside,
            "text": held.says,
            "bytes": held.bytes,
            "blocks": held.blocks,
            "alike": held.alike,
        })
    };
    held.into_iter().take(LISTED).map(holder).collect()
}
