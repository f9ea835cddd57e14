//! `oomph ls`: the sessions that are alive, on this machine and as far as their files tell on others;
//! with `--all` also those that have ended.

mod stored;
mod table;

use super::sessions::{self, Living};
use crate::event::{Prediction, PredictionOutcome};
use crate::forecast::score::ScoreSheet;
use crate::live::display::screen::terminal_size;
use crate::live::session::summary::Activity;
use crate::live::{Ending, print};
use crate::report::score;
use crate::supervise::{RunStage, SessionStatus};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use std::io::Write;
use table::{ThirdColumn, table};

#[derive(Debug, PartialEq, Args)]
pub(super) struct LsCommand {
    /// Also the sessions that have ended, the latest first
    #[arg(short, long)]
    all: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// One session, as a program reads it.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    /// `starting`, `running`, `stopping`, `waiting at OOM`, `relaunching`, `ending`, `not answering`;
    /// of one that has ended the outcome of its last run: `finished`, `out of memory`, `stopped`,
    /// `exit 1`, `SIGKILL`, `not started`, or `interrupted` if the recording doesn't have its end;
    /// of one elsewhere also `silent`, if it was not heard for some time.
    state: String,
    /// Whether somebody sees its screen.
    attached: bool,
    /// RFC 3339.
    since: Option<String>,
    /// Where it runs and when it was heard, in words, if that is not here.
    #[serde(skip)]
    elsewhere: Option<String>,
    /// How long it has been running, or ran.
    seconds: Option<f64>,
    run: Option<u32>,
    /// The training's direct child, while a run goes on.
    pid: Option<i32>,
    keeper: Option<i32>,
    devices: Vec<String>,
    /// Bytes.
    peak: Option<u64>,
    steps: Option<u64>,
    /// The machine, if it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// How many seconds ago a session that runs elsewhere was heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard: Option<f64>,
    /// The scheduler's job: `1234`, `1230_7`, with `-r2` after its second requeue.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// OOMs of all runs; `None` for a running session.
    ooms: Option<u64>,
    /// What was predicted of its relaunches, and what came of it; for one that has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predictions: Vec<PredictedRun>,
    /// Secrets masked.
    command: Option<String>,
    recording: Option<String>,
    log: Option<String>,
}

/// A relaunch that was predicted.
#[derive(Debug, Serialize)]
struct PredictedRun {
    run: u32,
    #[serde(flatten)]
    prediction: Prediction,
    came_of_it: PredictionOutcome,
    /// The peak's share above the predicted one: 0.01 is 1 % more.
    off: Option<f64>,
    /// Whether it was right about fitting.
    held: Option<bool>,
}

impl Row {
    /// The state; if there were several runs, also which one it is about.
    fn state_words(&self) -> String {
        let run = match self.run {
            Some(run) if run > 1 => format!(", run {run}"),
            Some(_) | None => String::new(),
        };
        let place = self.elsewhere.as_deref().unwrap_or_default();
        format!("{}{run}{place}", self.state)
    }
}

/// Lists them on standard output; with `all` also the recorded sessions that have ended, the latest
/// first.
///
/// # Errors
/// It could not be written to.
pub(super) fn run(ls: &LsCommand) -> anyhow::Result<Ending> {
    let LsCommand { all, json } = *ls;
    let mut rows: Vec<Row> = sessions::living().iter().map(row).collect();
    let here: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    rows.extend(sessions::elsewhere(&here).iter().map(stored::of_elsewhere));
    let third = match all {
        true => ThirdColumn::Took,
        false => ThirdColumn::Screen,
    };
    let mut scores = Vec::new();
    if all {
        let ended = stored::rows(&rows);
        for (row, of_session) in ended {
            rows.push(row);
            scores.extend(of_session);
        }
    }
    let text = if json {
        let mut text = serde_json::to_string_pretty(&rows)?;
        text.push('\n');
        text
    } else if rows.is_empty() {
        match all {
            true => "you have no recorded session on this machine\n".into(),
            false => {
                "you have no running session on this machine; `oomph ls --all` lists those that have ended\n"
                    .into()
            }
        }
    } else {
        let width = terminal_size().map(|size| usize::from(size.cols));
        let kept = score::summary(&ScoreSheet::of(&scores));
        let kept = kept.map_or(String::new(), |words| format!("\npredictions: {words}\n"));
        table(&rows, third, width) + &kept
    };
    print::out().write_all(text.as_bytes())?;
    Ok(Ending::Code(0))
}

fn row(living: &Living) -> Row {
    let file = living.found.file.as_ref();
    let summary = living.summary.as_ref();
    let run = (living.status.as_ref()).and_then(|status| status.run.as_ref());
    Row {
        id: living.found.id.clone(),
        state: state(living).into(),
        attached: living.status.as_ref().is_some_and(|status| status.front)
            && summary.is_some_and(|summary| summary.attached),
        since: summary
            .and_then(|summary| Timestamp::from_second(summary.since as i64).ok())
            .map(|since| since.to_string()),
        seconds: summary.map(|summary| Timestamp::now().as_second() as f64 - summary.since),
        run: run.map(|run| run.run.0),
        pid: run.and_then(|run| match run.stage {
            RunStage::Running { pid, .. } => Some(pid.0),
            RunStage::Starting | RunStage::Ended { .. } | RunStage::Failed { .. } => None,
        }),
        keeper: file.map(|file| file.keeper.0),
        devices: summary
            .map(|summary| summary.devices.clone())
            .unwrap_or_default(),
        peak: summary.and_then(|summary| summary.peak).map(|peak| peak.0),
        steps: summary.map(|summary| summary.steps),
        host: None,
        heard: None,
        job: (file.and_then(|file| file.job.as_ref())).map(ToString::to_string),
        elsewhere: None,
        ooms: None,
        predictions: Vec::new(),
        command: summary.map(|summary| summary.command.clone()),
        recording: file
            .and_then(|file| file.recording.as_ref())
            .map(|word| word.to_string_lossy()),
        log: file
            .and_then(|file| file.log.as_ref())
            .map(|word| word.to_string_lossy()),
    }
}

/// The front knows best while it is there; without one the keeper knows whether anything runs.
fn state(living: &Living) -> &'static str {
    let Some(status) = &living.status else {
        return "not answering";
    };
    let said = living.summary.as_ref().map(|summary| summary.activity);
    match (status.front, said) {
        (_, Some(Activity::Running)) if status.stopping => "stopping",
        (true, Some(said)) => said.word(),
        (false, _) | (true, None) => without_front(status),
    }
}

fn without_front(status: &SessionStatus) -> &'static str {
    match status.run.as_ref().map(|run| &run.stage) {
        Some(RunStage::Running { .. }) if status.stopping => "stopping",
        Some(RunStage::Running { .. }) => "running",
        None | Some(RunStage::Starting) => "starting",
        Some(RunStage::Ended { .. } | RunStage::Failed { .. }) => "ending",
    }
}
