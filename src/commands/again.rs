//! `oomph again`: the command of a recorded session once more, with the remedy that is expected to fit.

use super::report::each_event;
use super::run;
use super::{recordings, sessions};
use crate::command::{CommandLine, MASK, quoted};
use crate::document::text::{TextLayout, lines};
use crate::event::{SourceEdit, as_typed};
use crate::live::recorded::{self, EndedSession, GAP, PlannedStart};
use crate::live::room_gate::wait_for_room;
use crate::live::session::changes::write_copies;
use crate::live::{Ending, OWN_FAILURE, SessionConfig, StartAgain, print};
use crate::recording;
use crate::remedy::{self, FitVerdict, Remedy, RemedyId};
use crate::report;
use crate::state::State;
use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "Without --remedy or --same it takes the remedy that the dialog's Enter would take, and starts it only if it is \
                  expected to fit. Options of a run go in front: oomph --headless again.\n\
                  Exit status: the command's own; 125 where nothing was started."
)]
pub(super) struct AgainCommand {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<OsString>,
    /// Print the command and what is expected of it; start nothing
    #[arg(long)]
    print: bool,
    /// With these remedies, expected to fit or not: batch, expandable-segments, recompute, amp, …
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = remedy_named, conflicts_with = "same")]
    remedy: Vec<RemedyId>,
    /// As it was, without a remedy
    #[arg(long)]
    same: bool,
    /// With --print: as JSON
    #[arg(long, requires = "print")]
    json: bool,
}

fn remedy_named(text: &str) -> Result<RemedyId, String> {
    RemedyId::all().find(|id| id.name() == text).ok_or_else(|| {
        let names: Vec<String> = RemedyId::all().map(RemedyId::name).collect();
        format!("choose of {}", names.join(", "))
    })
}

/// What is to be started, and what is to be said of it. It is worked out without printing or starting anything.
pub(super) struct Prepared {
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
}

/// Which remedies are asked for.
enum WantedRemedies<'a> {
    Recommended,
    These(&'a [RemedyId]),
    Same,
}

/// Starts the recorded command again, or says why not.
///
/// # Errors
/// The recording could not be found or read, or the command not be started.
pub(super) fn run(asked: &AgainCommand, config: SessionConfig) -> anyhow::Result<Ending> {
    let path = recordings::find(asked.session.as_deref())?;
    let state = read(&path)?;
    let recorded = EndedSession::new(&state, copies_of(&path, &state))
        .context("nothing was started in that session, so there is no command to start again")?;
    let wanted = match (asked.same, asked.remedy.as_slice()) {
        (true, _) => WantedRemedies::Same,
        (false, []) => WantedRemedies::Recommended,
        (false, these) => WantedRemedies::These(these),
    };
    let remedies = match wanted {
        WantedRemedies::Same => Vec::new(),
        WantedRemedies::Recommended | WantedRemedies::These(_) => recorded.remedies(),
    };
    let prepared = prepare(&recorded, &remedies, &wanted);
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(why) if asked.json => {
            println_json(
                &json!({"version": 1, "session": name(&state, &path), "starts": false, "why_not": why}),
            );
            return Ok(Ending::Code(OWN_FAILURE));
        }
        Err(why) => {
            print::complain(&format!("again: {why}"));
            return Ok(Ending::Code(OWN_FAILURE));
        }
    };
    let prepared = Prepared {
        session: name(&state, &path),
        ..prepared
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
    start(prepared, &recorded, config)
}

/// A recording to its end.
pub(super) fn read(path: &Path) -> anyhow::Result<State> {
    let mut state = State::default();
    each_event(path, |event| {
        state.apply(&event);
        Ok(())
    })?;
    Ok(state)
}

fn name(state: &State, path: &Path) -> String {
    let session = state.session.as_ref();
    session.map_or_else(|| path.display().to_string(), |session| session.id.clone())
}

/// Where edited copies of config files go: beside the recording, if it is one of this user's sessions.
fn copies_of(path: &Path, state: &State) -> Option<PathBuf> {
    let id = &state.session.as_ref()?.id;
    let stored = recording::list(&recording::BaseDirs::of_this_user());
    let is_stored = stored
        .iter()
        .any(|stored| stored.id == *id && path.starts_with(&stored.directory));
    recorded::copies_beside(path, is_stored)
}

fn prepare(
    recorded: &EndedSession<'_>,
    remedies: &[Remedy],
    wanted: &WantedRemedies<'_>,
) -> Result<Prepared, String> {
    let recommended = remedy::recommended(remedies, recorded.cause());
    let ids: Vec<RemedyId> = match wanted {
        WantedRemedies::Same => Vec::new(),
        WantedRemedies::These(ids) => ids.to_vec(),
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
    let unsure = matches!(wanted, WantedRemedies::Recommended) && start.verdict != FitVerdict::Fits;
    let remedies: Vec<String> = ids.iter().copied().map(RemedyId::name).collect();
    let refusal = if gaps.is_some() {
        Some("parts of the command are secrets, which no recording has: fill them in and start it yourself".into())
    } else if !command.cwd.is_dir() {
        Some(format!(
            "its directory {} is not there",
            command.cwd.display()
        ))
    } else if unsure {
        Some(format!(
            "that it fits is not known ({}); --remedy {} starts it all the same",
            start.expected,
            remedies.join(",")
        ))
    } else {
        None
    };
    Ok(Prepared {
        session: String::new(),
        changes: recorded.changes_since(),
        remedies,
        start,
        gaps,
        refusal,
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
    match (recurs, offered.as_slice()) {
        (Some(why), _) => format!("no remedy helps: {why}; --same starts it as it was"),
        (None, []) => "no remedy can be applied to this command; --same starts it as it was".into(),
        (None, offered) => format!(
            "no remedy is expected to fit; --remedy NAME starts one all the same: {}",
            offered.join(", ")
        ),
    }
}

/// As a person types it, in its directory.
fn typed(prepared: &Prepared) -> String {
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
        [] => print::complain("as it was, without a remedy"),
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

fn in_json(prepared: &Prepared) -> Value {
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
        }),
        ..config
    };
    run::run(config, plan.command)
}
