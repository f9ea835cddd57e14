//! What is left behind when a session ends, for whoever drives many of them: a line of JSON (`--summary`), and under SLURM
//! the same job once more, requeued with the remedy that this job's time was too short for.

use super::config::{SessionConfig, StartAgain};
use super::session::Session;
use super::session::changes::NextRun;
use super::{Ending, print};
use crate::command::CommandLine;
use crate::event::{Job, Prediction};
use crate::recording::{self, BaseDirs};
use crate::report::outcome::outcome_json;
use crate::ui;
use crate::whole_file::{self, Readers};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The file in the session's directory that the requeued job's session reads.
const CARRIED: &str = "requeue.json";

/// A longer one is none of ours.
const LONGEST: u64 = 8 << 20;

/// What the requeued job is to start, and instead of what. Secrets are masked in both: the words that are typed again have
/// them.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedRun {
    job: Job,
    session: String,
    typed: CommandLine,
    command: CommandLine,
    remedies: Vec<String>,
    #[serde(default)]
    prediction: Option<Prediction>,
}

/// When this process's job ends, as SLURM says it (from 22.05 on).
pub(super) fn job_ends() -> Option<f64> {
    std::env::var_os("SLURM_JOB_ID")?;
    let text = std::env::var("SLURM_JOB_END_TIME").ok()?;
    text.trim().parse::<f64>().ok().filter(|at| *at > 0.0)
}

/// After the last run: requeues the job if that was decided, and adds the line to the file of `--summary`. What went wrong,
/// in words; the training is over, and nothing of it changes.
pub(super) fn at_the_end(session: &Session, next: Option<&NextRun>, ending: Ending) -> Vec<String> {
    let mut said = Vec::new();
    let requeued = match next.map(|next| requeue(session, next)) {
        Some(Err(why)) => {
            said.push(format!("not requeued: {why}"));
            false
        }
        Some(Ok(())) => true,
        None => false,
    };
    let Some(path) = &session.handover.config.summary else {
        return said;
    };
    let status = match ending {
        Ending::Like(exit) => exit.shell_code(),
        Ending::Code(code) => code,
    };
    let line = format!("{}\n", outcome_json(&session.state, status, requeued));
    // One write to the end: several sessions may share the file.
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path.0);
    if let Err(error) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
        let path = Path::new(&path.0).display();
        said.push(format!("cannot write the summary to {path} ({error})"));
    }
    said
}

fn requeue(session: &Session, next: &NextRun) -> Result<(), String> {
    let header = &session.handover.header;
    let job = header.job.clone().ok_or("this is no job of SLURM's")?;
    if !next.files.is_empty() {
        return Err(
            "the remedy needs an edited copy of a config file, which would not be carried along"
                .into(),
        );
    }
    let directory = session.handover.directories().state;
    let directory = directory.ok_or("the session has no directory to keep the remedy in")?;
    let first = session.state.runs.first().ok_or("nothing was started")?;
    let carried = CarriedRun {
        session: header.id.clone(),
        typed: first.command.without_secrets(),
        command: next.command.without_secrets(),
        remedies: next.remedies.clone(),
        prediction: next.prediction.clone(),
        job: job.clone(),
    };
    let text = serde_json::to_string(&carried).map_err(|error| error.to_string())?;
    whole_file::replace(&directory.join(CARRIED), Readers::Owner, text.as_bytes())
        .map_err(|error| format!("the remedy cannot be kept ({error})"))?;
    let asked = Command::new("scontrol")
        .args(["requeue", &job.id])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("scontrol requeue {} failed ({status})", job.id)),
        Err(error) => Err(format!("scontrol cannot be run ({error})")),
    }
}

/// For a job that was requeued by an earlier session of it: the same words as then begin with the remedy that was chosen.
pub(crate) fn carried_on(config: SessionConfig) -> SessionConfig {
    let job = Job::read(|name| std::env::var(name).ok());
    let Some(job) = job.filter(|job| config.auto.requeue && job.restart > 0) else {
        return config;
    };
    let typed = config.command.without_secrets();
    let stored = recording::list(&BaseDirs::of_this_user());
    let carried = stored.iter().find_map(|stored| {
        let carried = read(&stored.directory.join(CARRIED))?;
        let is_ours = carried.job.id == job.id && carried.job.restart + 1 == job.restart;
        (is_ours && carried.typed == typed).then_some(carried)
    });
    let Some(carried) = carried else {
        return config;
    };
    let mut command = carried.command;
    ui::restore_masked(&mut command, &config.command);
    print::complain(&format!(
        "job {job}: requeued by session {}; starting with {}",
        carried.session,
        carried.remedies.join(" and ")
    ));
    SessionConfig {
        command,
        start_again: Some(StartAgain {
            session: carried.session,
            remedies: carried.remedies,
            prediction: carried.prediction,
            ..StartAgain::default()
        }),
        ..config
    }
}

fn read(path: &Path) -> Option<CarriedRun> {
    use std::io::Read;
    let file = recording::open_stored(path).ok()?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
