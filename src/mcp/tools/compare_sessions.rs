//! Two sessions, or two runs of one, side by side.

use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed, words};
use crate::query::told::Told;
use crate::query::versioned;
use crate::report::comparison::{ComparedRun, Comparison, run_of};
use crate::units::RunNumber;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "compare_sessions",
    title: "Compare sessions",
    description: "Two sessions, or two runs of one session, side by side: the command, versions, memory, speed, and the lines whose \
                  memory changed most.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<CompareArguments>,
    answer: "diff",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompareArguments {
    /// The session that came first
    before: String,
    /// Its run, from 1 [default: the last, or within one session the first]
    before_run: Option<u32>,
    /// The session to compare with it [default: the same]
    after: Option<String>,
    /// Its run, from 1 [default: the last]
    after_run: Option<u32>,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: CompareArguments = parsed(given)?;
    let told = |name: &str| {
        let path = context.scope.recording(Some(name))?;
        Told::read(Some(path.as_os_str()), false).map_err(words)
    };
    let first = told(&asked.before)?;
    let second = match &asked.after {
        Some(name) => Some(told(name)?),
        None => None,
    };
    let before_run = asked.before_run.or(match second {
        Some(_) => None,
        None => Some(1),
    });
    let after = second.as_ref().unwrap_or(&first);
    let comparison = Comparison::new(side(&first, before_run)?, side(after, asked.after_run)?);
    let answer = serde_json::to_value(&comparison).map_err(|error| error.to_string())?;
    Ok(CallProgress::Done(versioned(answer)))
}

fn side(told: &Told, number: Option<u32>) -> Result<ComparedRun<'_>, String> {
    let run = run_of(&told.story.state, number.map(RunNumber));
    Ok(ComparedRun {
        name: &told.name,
        story: &told.story,
        run: run.ok_or_else(|| format!("{} has no such run", told.name))?,
    })
}
