//! A recorded command as it would be started again: with which remedies, what is expected of it, what has changed since,
//! and why it is not started where it is not.

use crate::command::{CommandLine, MASK, quoted};
use crate::diagnosis::Finding;
use crate::event::as_typed;
use crate::live::recorded::{self, EndedSession, GAP, PlannedStart};
use crate::recording;
use crate::remedy::{self, Remedy, RemedyId};
use crate::state::State;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What is to be started, and what is to be said of it. It is worked out without printing or starting anything.
pub struct Prepared {
    /// The recorded session's name.
    pub session: String,
    pub start: PlannedStart,
    /// The remedies, by their names.
    pub remedies: Vec<String>,
    /// What is not as it was when the session was recorded.
    pub changes: Vec<String>,
    /// The command with its gaps, where parts of it were masked.
    pub gaps: Option<CommandLine>,
    /// Why it is not started.
    pub refusal: Option<String>,
    /// What is said where nobody named the remedy and it is not known to fit.
    pub doubt: Option<String>,
}

/// Which remedies are asked for.
pub enum WantedRemedies<'a> {
    Recommended,
    These(&'a [RemedyId]),
    Same,
}

/// Where edited copies of config files go: beside the recording, if it is one of this user's sessions.
pub fn copies_of(path: &Path, state: &State) -> Option<PathBuf> {
    let id = &state.session.as_ref()?.id;
    let stored = recording::list(&recording::BaseDirs::of_this_user());
    let is_stored = stored
        .iter()
        .any(|stored| stored.id == *id && path.starts_with(&stored.directory));
    recorded::copies_beside(path, is_stored)
}

/// The recorded command with the remedies that are wanted. `session` is what the recording is called.
///
/// # Errors
/// Why there is nothing to start.
pub fn prepare(
    session: String,
    recorded: &EndedSession<'_>,
    wanted: &WantedRemedies<'_>,
) -> Result<Prepared, String> {
    let remedies = match wanted {
        WantedRemedies::Same => Vec::new(),
        WantedRemedies::Recommended | WantedRemedies::These(_) => recorded.remedies(),
    };
    let remedies = remedies.as_slice();
    let recommended = remedy::recommended(remedies, recorded.cause());
    let ids: Vec<RemedyId> = match wanted {
        WantedRemedies::Same => Vec::new(),
        WantedRemedies::These(ids) => ids.to_vec(),
        // What it ended with is what it needs.
        WantedRemedies::Recommended if recorded.was_remedied() => Vec::new(),
        WantedRemedies::Recommended if !recorded.ran_out() => {
            return Err(format!(
                "memory did not run out in the last run of that session ({}), so there is nothing to remedy; --same starts its command again as it was",
                recorded
                    .run()
                    .map_or_else(String::new, |run| run.outcome_words())
            ));
        }
        WantedRemedies::Recommended => match recommended {
            Some(at) => vec![remedies[at].id],
            None => return Err(no_remedy(remedies, recorded)),
        },
    };
    let start = recorded.with(remedies, &ids)?;
    let command = &start.plan.command;
    let gaps = recorded::with_gaps(command);
    let unsure = matches!(wanted, WantedRemedies::Recommended) && !start.verdict.is_expected();
    let doubt = unsure.then(|| match start.expected.is_empty() {
        true => "whether it fits is not known".to_string(),
        false => format!("whether it fits is not known ({})", start.expected),
    });
    let remedies: Vec<String> = ids.iter().copied().map(RemedyId::name).collect();
    let refusal = match &gaps {
        Some(_) => Some("parts of the command are secrets, which no recording has: fill them in and start it yourself".into()),
        None => missing_directory(command),
    };
    Ok(Prepared {
        session,
        changes: recorded.changes_since(),
        remedies,
        start,
        gaps,
        refusal,
        doubt,
    })
}

/// Why none is taken, and which there are.
fn no_remedy(remedies: &[Remedy], recorded: &EndedSession<'_>) -> String {
    let offered: Vec<String> = remedies
        .iter()
        .filter(|remedy| remedy.is_offered())
        .map(|remedy| {
            format!(
                "{} ({})",
                remedy.id.name(),
                remedy.expectation.verdict().words()
            )
        })
        .collect();
    let recurs = recorded.cause().and_then(|cause| cause.spec().recurs);
    let in_code = recorded.findings.first().and_then(Finding::in_code);
    match (recurs, offered.as_slice()) {
        (Some(why), _) => {
            let change = in_code.map_or_else(String::new, |what| format!("; in the code: {what}"));
            format!("no remedy helps: {why}{change}; --same starts it as it was")
        }
        (None, []) => "no remedy can be applied to this command; --same starts it as it was".into(),
        (None, offered) => format!(
            "no remedy is expected to fit; --remedy NAME starts one all the same: {}",
            offered.join(", ")
        ),
    }
}

/// As a person types it, in its directory.
pub fn typed(prepared: &Prepared) -> String {
    let command = &prepared.start.plan.command;
    let typed = as_typed(command);
    let typed = match prepared.gaps {
        Some(_) => typed.replace(&quoted(MASK), GAP).replace(MASK, GAP),
        None => typed,
    };
    let here = std::env::current_dir().unwrap_or_default();
    match command.cwd == here || command.cwd.as_os_str().is_empty() {
        true => typed,
        false => format!("cd {} && {typed}", quoted(&command.cwd.to_string_lossy())),
    }
}

/// As `oomph help json` has it.
pub fn in_json(prepared: &Prepared) -> Value {
    let start = &prepared.start;
    let command = prepared.gaps.as_ref().unwrap_or(&start.plan.command);
    let words: Vec<String> = command
        .argv
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    json!({
        "version": 1,
        "session": prepared.session,
        "starts": prepared.refusal.is_none(),
        "why_not": prepared.refusal,
        "remedies": prepared.remedies,
        "verdict": start.verdict.words(),
        "expected": start.prediction,
        "command": typed(prepared),
        "argv": words,
        "directory": command.cwd.to_string_lossy(),
        "gaps": prepared.gaps.is_some(),
        "changed_since": prepared.changes,
    })
}

/// Where nothing can be started: why.
pub fn not_started(session: &str, why: &str) -> Value {
    json!({"version": 1, "session": session, "starts": false, "why_not": why})
}

/// Why a recorded command cannot be started here: its working directory is of another machine, or was removed.
pub fn missing_directory(command: &CommandLine) -> Option<String> {
    let directory = &command.cwd;
    if directory.as_os_str().is_empty() {
        return Some("its directory had been deleted".into());
    }
    (!directory.is_dir()).then(|| format!("its directory {} is not there", directory.display()))
}
