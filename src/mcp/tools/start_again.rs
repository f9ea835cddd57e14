//! A recorded command, started again with a remedy that is offered for it.

use crate::live::recorded::EndedSession;
use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed, words};
use crate::query::again::{WantedRemedies, copies_of, in_json, not_started, prepare};
use crate::query::told::{name_of, read_state};
use crate::remedy::RemedyId;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "start_again",
    title: "Start a session again",
    description: "Starts a recorded session's command again: with the remedy that is expected to fit, or with named ones, or as it was. \
                  The same gates as the screen's: nothing is started that is not expected to fit (unless remedies are named), while \
                  the session still runs, while the GPU has no room, or where a secret of the command is missing; \"why_not\" then \
                  says so. The training goes on without this server; \"started\" is its session.",
    needs: ToolNeeds::Running,
    arguments: arguments::<AgainArguments>,
    answer: "started",
    call,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgainArguments {
    /// The session's ID, or the start of it
    session: String,
    /// With these remedies, by their id in read_session [default: the one that is expected to fit]
    #[serde(default)]
    remedies: Vec<String>,
    /// As it was, without a remedy: after the program itself was changed
    #[serde(default)]
    same: bool,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: AgainArguments = parsed(given)?;
    let remedies: Vec<RemedyId> = (asked.remedies.iter())
        .map(|name| RemedyId::named(name))
        .collect::<Result<_, _>>()?;
    let wanted = match (asked.same, remedies.as_slice()) {
        (true, []) => WantedRemedies::Same,
        (true, _) => return Err("give remedies, or same, not both".into()),
        (false, []) => WantedRemedies::Recommended,
        (false, these) => WantedRemedies::These(these),
    };
    let path = context.scope.recording(Some(&asked.session))?;
    let state = read_state(&path).map_err(words)?;
    let name = name_of(&state, &path);
    let recorded = EndedSession::new(&state, copies_of(&path, &state))
        .ok_or("nothing was started in that session, so there is no command to start again")?;
    let prepared = match prepare(name.clone(), &recorded, &wanted) {
        Ok(prepared) => prepared,
        Err(why) => return Ok(CallProgress::Done(refused(not_started(&name, &why), why))),
    };
    let mut answer = in_json(&prepared);
    // Nobody looks at the screen of what an agent starts.
    let unknown = prepared.doubt.map(|doubt| {
        format!(
            "{doubt}; name the remedies to start it all the same: {}",
            prepared.remedies.join(", ")
        )
    });
    if let Some(why) = prepared.refusal.or(unknown) {
        return Ok(CallProgress::Done(refused(answer, why)));
    }
    let mut again: Vec<OsString> = vec!["again".into(), path.into()];
    match &wanted {
        WantedRemedies::Recommended => {}
        WantedRemedies::Same => again.push("--same".into()),
        WantedRemedies::These(_) => {
            again.extend(["--remedy".into(), prepared.remedies.join(",").into()])
        }
    }
    let started = context
        .launched
        .start(&again, &prepared.start.plan.command.cwd);
    Ok(CallProgress::Done(match started {
        Ok(session) => {
            answer["started"] = session.into();
            answer
        }
        Err(why) => refused(answer, why),
    }))
}

/// Nothing was started.
fn refused(mut answer: Value, why: String) -> Value {
    answer["starts"] = false.into();
    answer["started"] = Value::Null;
    answer["why_not"] = why.into();
    answer
}
