//! `oomph again`: the command of a recorded session once more, with the remedy that is expected to fit.

use super::run;
use crate::document::text::{TextLayout, lines};
use crate::event::{SourceEdit, as_typed};
use crate::live::recorded::{EndedSession, PlannedStart};
use crate::live::room_gate::wait_for_room;
use crate::live::session::changes::write_copies;
use crate::live::{Ending, OWN_FAILURE, SessionConfig, StartAgain, print};
use crate::query::again::{
    Prepared, WantedRemedies, copies_of, in_json, not_started, prepare, typed,
};
use crate::query::listing::find_to_remedy;
use crate::query::told::{name_of, read_state};
use crate::query::{recordings, sessions};
use crate::remedy::RemedyId;
use crate::report;
use crate::state::Run;
use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;
use std::ffi::OsString;

#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "Without --remedy or --same it takes the remedy that the dialog's Enter would take; where that is not known to fit, it says so. \
                  Options of a run go in front: oomph --headless again.\n\
                  Exit status: the command's own; 125 where nothing was started."
)]
pub(super) struct AgainCommand {
    /// The session, by its name or the start of it, or a recording [default: the latest that ran out of memory; with --same
    /// the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<OsString>,
    /// Print the command and what is expected of it; start nothing
    #[arg(long)]
    print: bool,
    /// With these remedies, expected to fit or not: batch, expandable-segments, recompute, amp, …
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = RemedyId::named, conflicts_with = "same")]
    remedy: Vec<RemedyId>,
    /// As it was, without a remedy
    #[arg(long)]
    same: bool,
    /// With --print: as JSON
    #[arg(long, requires = "print")]
    json: bool,
}

/// Starts the recorded command again, or says why not.
///
/// # Errors
/// The recording could not be found or read, or the command not be started.
pub(super) fn run(asked: &AgainCommand, config: SessionConfig) -> anyhow::Result<Ending> {
    let path = match asked.same {
        true => recordings::find(asked.session.as_deref())?,
        false => find_to_remedy(asked.session.as_deref())?,
    };
    let state = read_state(&path)?;
    let recorded = EndedSession::new(&state, copies_of(&path, &state))
        .context("nothing was started in that session, so there is no command to start again")?;
    let wanted = match (asked.same, asked.remedy.as_slice()) {
        (true, _) => WantedRemedies::Same,
        (false, []) => WantedRemedies::Recommended,
        (false, these) => WantedRemedies::These(these),
    };
    let session = name_of(&state, &path);
    let prepared = match prepare(session.clone(), &recorded, &wanted) {
        Ok(prepared) => prepared,
        Err(why) if asked.json => {
            println_json(&not_started(&session, &why));
            return Ok(Ending::Code(OWN_FAILURE));
        }
        Err(why) => {
            print::complain(&format!("again: {why}"));
            return Ok(Ending::Code(OWN_FAILURE));
        }
    };
    if asked.json {
        println_json(&in_json(&prepared));
        return Ok(Ending::Code(0));
    }
    tell(&prepared, &recorded);
    if asked.print {
        return super::answer(&format!("{}\n", typed(&prepared)));
    }
    if prepared.gaps.is_some() {
        super::answer(&format!("{}\n", typed(&prepared)))?;
    }
    if let Some(why) = &prepared.refusal {
        print::complain(&format!("again: {why}"));
        return Ok(Ending::Code(OWN_FAILURE));
    }
    if let Some(doubt) = &prepared.doubt {
        print::complain(&format!("again: {doubt}"));
    }
    start(prepared, &recorded, config)
}

/// What happened, what has changed since, and what is expected: on standard error, before anything starts.
fn tell(prepared: &Prepared, recorded: &EndedSession<'_>) {
    let said = report::summary(recorded.state);
    let said = said.map_or_else(String::new, |summary| format!(": {summary}"));
    print::complain(&format!("again: session {}{said}", prepared.session));
    if let Some(first) = recorded.findings.first().filter(|_| recorded.ran_out()) {
        let blocks = crate::document::finding(first, true);
        if let Some(line) = lines(&blocks[..1], TextLayout::Lines).first() {
            print::complain(line);
        }
    }
    for change in &prepared.changes {
        print::complain(&format!("since then: {change}"));
    }
    let start = &prepared.start;
    match start.titles.as_slice() {
        [] => print::complain(&match recorded.run() {
            Some(run) if !run.remedies.is_empty() => {
                format!(
                    "as run {} was, with {}",
                    run.number,
                    run.remedies.join(" and ")
                )
            }
            Some(_) | None => "as it was, without a remedy".to_string(),
        }),
        titles => {
            let changes: Vec<&str> = start.changes.iter().map(String::as_str).collect();
            let cost: Vec<&str> = start.costs.iter().map(String::as_str).collect();
            let facts = [
                changes.join(" and "),
                start.expected.clone(),
                cost.join("; "),
            ];
            let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
            print::complain(&format!(
                "with {}: {}",
                titles.join(" and "),
                facts.join("; ")
            ));
        }
    }
}

fn println_json(value: &Value) {
    use std::io::Write;
    let mut out = print::out();
    let _ = writeln!(out, "{value:#}").and_then(|()| out.flush());
}

/// Behind the same gates as Enter in the dialog: the session is over, the files are those that were read, the memory is
/// free.
fn start(
    prepared: Prepared,
    recorded: &EndedSession<'_>,
    config: SessionConfig,
) -> anyhow::Result<Ending> {
    let id = &prepared.session;
    let living = sessions::living();
    let is_alive = living.iter().any(|living| living.found.id == *id);
    let here: Vec<String> = living
        .iter()
        .map(|living| living.found.id.clone())
        .collect();
    let is_elsewhere = || {
        sessions::elsewhere(&here)
            .iter()
            .any(|other| other.id == *id)
    };
    ensure!(
        !is_alive && !is_elsewhere(),
        "{id} is still running; oomph attach {id} shows its dialog"
    );
    let PlannedStart {
        plan,
        titles,
        prediction,
        applied,
        ..
    } = prepared.start;
    if let Err(why) = write_copies(&plan.files, &SourceEdit::of(&plan.command)) {
        print::complain(&format!("again: {why}"));
        return Ok(Ending::Code(OWN_FAILURE));
    }
    let needed = prediction.as_ref().and_then(|said| said.peak);
    if let Some(run) = recorded.run() {
        let say = |why: &str| print::complain(&format!("again: {why}"));
        if let Err(why) = wait_for_room(run, needed, config.scaled, say) {
            print::complain(&format!("again: not started: {why}"));
            return Ok(Ending::Code(OWN_FAILURE));
        }
    }
    print::complain(&format!("starting: {}", as_typed(&plan.command)));
    let config = SessionConfig {
        start_again: Some(StartAgain {
            session: prepared.session,
            remedies: titles,
            prediction,
            applied,
            failed: recorded.state.oom().and_then(|oom| oom.device.clone()),
            loaders: recorded
                .run()
                .into_iter()
                .flat_map(Run::loaders)
                .cloned()
                .collect(),
        }),
        ..config
    };
    run::run(config, plan.command)
}
