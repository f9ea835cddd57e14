//! The running sessions: of this machine found by their files and queried at their keepers' sockets, of
//! others told by what they write into a shared state directory (they can only be watched from here, and it is
//! said where they run and what to type there); chosen by their ID's start or their job.

use crate::cli::NamedSessions;
use crate::event::Job;
use crate::live::print;
use crate::live::session::summary::Summary;
use crate::recording::{self, BaseDirs, FoundSession, Life, RemoteSession, Stored};
use crate::supervise::{self, SessionStatus};
use crate::units::clock_face;
use std::fmt;
use std::io;
use std::time::Duration;

/// How long a keeper may take to answer. It waits for nobody, so one that doesn't answer at once is
/// suspended, or the machine is.
const ANSWER: Duration = Duration::from_secs(2);

/// A session that is alive on this machine.
pub struct Living {
    pub found: FoundSession,
    /// The keeper's answer, if any.
    pub status: Option<SessionStatus>,
    /// The latest summary of its front.
    pub summary: Option<Summary>,
}

/// The sessions that are alive on this machine, by name. Removes what dead ones left.
pub fn living() -> Vec<Living> {
    let places = BaseDirs::of_this_user();
    recording::clear_dead(&places);
    recording::find(&places)
        .into_iter()
        .filter_map(|found| {
            let answer = supervise::look(&found.socket(), ANSWER);
            if !runs(found.life, || is_listened(&answer)) {
                return None;
            }
            let status = answer.ok();
            let summary = (status.as_ref())
                .and_then(|status| status.described.as_deref())
                .and_then(|text| serde_json::from_str(text).ok());
            Some(Living {
                found,
                status,
                summary,
            })
        })
        .collect()
}

/// Whether a session is running; one that can't be judged is if somebody listens on its socket.
fn runs(life: Life, is_listened: impl FnOnce() -> bool) -> bool {
    match life {
        Life::Alive => true,
        Life::Dead => false,
        Life::Unknown => is_listened(),
    }
}

/// Whether it is running, asked now.
pub fn is_running(found: &FoundSession) -> bool {
    runs(found.life, || {
        is_listened(&supervise::look(&found.socket(), ANSWER))
    })
}

/// Whether a keeper has answered, or is there and suspended.
fn is_listened(answer: &io::Result<SessionStatus>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ),
    }
}

/// Why no session could be chosen; the message says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoChoice {
    /// None is running.
    Nobody,
    /// Several match.
    Several {
        name: Option<String>,
        /// What to type, for each.
        commands: Vec<String>,
    },
    Dead(String),
    /// It has ended, and is recorded.
    Ended {
        id: String,
    },
    /// Several that have ended match.
    SeveralEnded {
        name: String,
        /// What to type, for each.
        commands: Vec<String>,
    },
    Unknown(String),
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoChoice::Nobody => f.write_str("you have no running session on this machine"),
            NoChoice::Several { name, commands } => {
                match name {
                    None => f.write_str("several sessions are running; choose one: ")?,
                    Some(name) => {
                        write!(f, "{name} matches several sessions; type more of the ID: ")?;
                    }
                }
                list(f, commands)
            }
            NoChoice::Dead(words) => f.write_str(words),
            NoChoice::Ended { id } => write!(
                f,
                "session {id} has ended; oomph replay {id} plays it, oomph report {id} is a page about it"
            ),
            NoChoice::SeveralEnded { name, commands } => {
                write!(
                    f,
                    "{name} matches several sessions that have ended; type more of the ID: "
                )?;
                list(f, commands)
            }
            NoChoice::Unknown(name) => write!(
                f,
                "no session of yours begins with {name}, running or ended; `oomph ls --all` lists them"
            ),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, commands: &[String]) -> fmt::Result {
    let (shown, others) = commands.split_at(commands.len().min(LISTED));
    f.write_str(&shown.join(", "))?;
    match others.len() {
        0 => Ok(()),
        more => write!(f, " and {more} more (`oomph ls --all`)"),
    }
}

impl std::error::Error for NoChoice {}

/// A session that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// Its keeper can be asked.
    Here(FoundSession),
    /// It can be watched, by its files.
    Elsewhere(RemoteSession),
}

impl Chosen {
    pub fn id(&self) -> &String {
        match self {
            Chosen::Here(found) => &found.id,
            Chosen::Elsewhere(session) => &session.id,
        }
    }

    fn job(&self) -> Option<Job> {
        match self {
            Chosen::Here(found) => found.file.as_ref()?.job.clone(),
            Chosen::Elsewhere(session) => session.file.job.clone(),
        }
    }
}

/// The sessions that run out of reach of this machine, by name.
pub fn elsewhere(here: &[String]) -> Vec<RemoteSession> {
    recording::elsewhere(&BaseDirs::of_this_user(), here)
}

/// The session that is meant: by a beginning of its name, by its job, or the only one; one of this
/// machine rather than of another. `verb` is the subcommand that is to be typed with a name where there
/// are several.
///
/// # Errors
/// There is none, or there are several; with what to do.
pub fn choose(name: Option<&str>, verb: &str) -> Result<Chosen, NoChoice> {
    let places = BaseDirs::of_this_user();
    let (dead, others): (Vec<FoundSession>, Vec<FoundSession>) = recording::find(&places)
        .into_iter()
        .partition(|found| found.life == Life::Dead);
    recording::clear_dead(&places);
    let alive: Vec<FoundSession> = others.into_iter().filter(is_running).collect();
    let reached: Vec<String> = alive.iter().map(|found| found.id.clone()).collect();
    let here: Vec<Chosen> = alive.into_iter().map(Chosen::Here).collect();
    let remote = elsewhere(&reached).into_iter().map(Chosen::Elsewhere);
    let several = |sessions: &[Chosen]| NoChoice::Several {
        name: name.map(str::to_string),
        commands: (sessions.iter())
            .map(|found| format!("`oomph {verb} {}`", found.id()))
            .collect(),
    };
    let Some(name) = name else {
        let all = match here.is_empty() {
            true => remote.collect(),
            false => here,
        };
        return match <[Chosen; 1]>::try_from(all) {
            Ok([only]) => Ok(only),
            Err(none) if none.is_empty() => Err(NoChoice::Nobody),
            Err(all) => Err(several(&all)),
        };
    };
    let alive: Vec<Chosen> = here.into_iter().chain(remote).collect();
    let dead_one = |found: FoundSession| NoChoice::Dead(words_of_the_dead(&found));
    let ended_one = |stored: Stored| NoChoice::Ended { id: stored.id };
    let mut stored = recording::list(&places);
    // A complete name means that session, even if it is dead: `…-python3` isn't `…-python3-2`.
    if alive.iter().all(|found| found.id() != name) {
        if let Some(found) = dead.iter().find(|found| found.id == name) {
            return Err(dead_one(found.clone()));
        }
        let whole = |is_asked: bool| {
            let is_whole = move |one: &Stored| one.id == name && one.is_asked == is_asked;
            stored.iter().position(is_whole)
        };
        if let Some(at) = whole(true).or_else(|| whole(false)) {
            return Err(ended_one(stored.swap_remove(at)));
        }
    }
    match meant(name, alive, Chosen::id, Chosen::job) {
        Meant::One(found) => return Ok(found),
        Meant::Several(found) => return Err(several(&found)),
        Meant::None => {}
    }
    let job_of = |found: &FoundSession| found.file.as_ref()?.job.clone();
    if let Meant::One(found) = meant(name, dead, |found| &found.id, job_of) {
        return Err(dead_one(found));
    }
    let is_asked = |stored: &Stored| stored.is_asked;
    match meant_here(name, stored, |stored| &stored.id, job_of_stored, is_asked) {
        Meant::One(stored) => Err(ended_one(stored)),
        Meant::Several(stored) => Err(several_ended(name, verb, &stored)),
        Meant::None => Err(NoChoice::Unknown(name.to_string())),
    }
}

/// Sessions listed by name, at most.
const LISTED: usize = 8;

/// Several that have ended match a name.
pub fn several_ended(name: &str, verb: &str, stored: &[Stored]) -> NoChoice {
    NoChoice::SeveralEnded {
        name: name.to_string(),
        commands: (stored.iter())
            .map(|stored| format!("`oomph {verb} {}`", stored.id))
            .collect(),
    }
}

/// A name that means a session that runs is the beginning of others' as well, which have ended.
pub fn several_with(name: &str, verb: &str, found: &Chosen, stored: &[Stored]) -> NoChoice {
    let ended = stored.iter().map(|stored| &stored.id);
    let ended = ended.filter(|id| *id != found.id());
    let ids = std::iter::once(found.id()).chain(ended);
    NoChoice::Several {
        name: Some(name.to_string()),
        commands: ids.map(|id| format!("`oomph {verb} {id}`")).collect(),
    }
}

/// The job that a recorded session was part of.
pub fn job_of_stored(stored: &Stored) -> Option<Job> {
    recording::header(&stored.directory.join(recording::RECORDING))?.job
}

/// What a name matches.
pub enum Meant<T> {
    None,
    /// It has that name, is the latest of that job, or is the only one whose name starts so.
    One(T),
    Several(Vec<T>),
}

/// What a name means among sessions, of which those in another state directory are found by their whole names alone: no list
/// shows them.
pub fn meant_here<T>(
    name: &str,
    of: Vec<T>,
    id: impl Fn(&T) -> &String,
    job: impl Fn(&T) -> Option<Job>,
    is_asked: impl Fn(&T) -> bool,
) -> Meant<T> {
    // Two state directories may each have had one of that name in the same second.
    let is_here = of.iter().any(|one| is_asked(one) && id(one) == name);
    let is_meant = |one: &T| is_asked(one) || (!is_here && id(one) == name);
    let of = of.into_iter().filter(is_meant).collect();
    meant(name, of, id, job)
}

/// What `name` means among sessions: a whole ID, then a job (its latest restart, unless `-rN` says
/// another), then the start of an ID.
pub fn meant<T>(
    name: &str,
    of: Vec<T>,
    id: impl Fn(&T) -> &String,
    job: impl Fn(&T) -> Option<Job>,
) -> Meant<T> {
    let chosen = |fitting: Vec<T>| match <[T; 1]>::try_from(fitting) {
        Ok([only]) => Meant::One(only),
        Err(none) if none.is_empty() => Meant::None,
        Err(several) => Meant::Several(several),
    };
    let (whole, others): (Vec<T>, Vec<T>) = of.into_iter().partition(|one| id(one) == name);
    if !whole.is_empty() {
        return chosen(whole);
    }
    // A recording is opened for its job: only where the name can be one.
    let is_job = name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_digit() || "_-r".contains(c));
    let jobs: Vec<Option<Job>> = match is_job {
        true => others.iter().map(job).collect(),
        false => others.iter().map(|_| None).collect(),
    };
    let is_latest = |of: &Job| {
        let same = jobs.iter().flatten().filter(|job| job.name() == of.name());
        let same = same.filter(|job| job.is_meant(name));
        same.map(|job| job.restart).max() == Some(of.restart)
    };
    let by_job: Vec<bool> = (jobs.iter())
        .map(|job| (job.as_ref()).is_some_and(|job| job.is_meant(name) && is_latest(job)))
        .collect();
    let any = by_job.contains(&true);
    let fits = |(one, is_by_job): &(T, bool)| match any {
        true => *is_by_job,
        false => id(one).starts_with(name),
    };
    let fitting = others.into_iter().zip(by_job).filter(fits);
    chosen(fitting.map(|(one, _)| one).collect())
}

fn words_of_the_dead(found: &FoundSession) -> String {
    let mut words = format!("session {} is dead", found.id);
    if let Some(file) = &found.file {
        words.push_str(&format!(": its keeper (pid {}) is gone", file.keeper));
        if let Some(recording) = &file.recording {
            words.push_str(&format!(
                "; its recording: oomph replay {}",
                recording.to_string_lossy()
            ));
        }
    }
    words
}

/// Why a session's keeper could not be reached, and what to do.
pub fn explain(found: &FoundSession, error: io::Error) -> anyhow::Error {
    let keeper = found.file.as_ref().map(|file| file.keeper);
    let pid = keeper.map_or("?".to_string(), |pid| pid.to_string());
    let id = &found.id;
    anyhow::anyhow!(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the socket of session {id} is gone, so nobody can attach to it; its training continues under the keeper (pid {pid}), and `kill {pid}` does not end it: signal the training itself"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("session {id} is dead: nothing listens on its socket")
        }
        io::ErrorKind::PermissionDenied =>
            format!("session {id} is not yours ({error}); only the user who started it can attach"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "the keeper of session {id} (pid {pid}) does not answer; if it is stopped, `kill -CONT {pid}` resumes it"
        ),
        _ => format!("cannot talk to session {id}: {error}"),
    })
}

/// What is to be done to a session where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Attach,
    Stop,
    Kill,
}

/// Where a session runs: `gpu-7`, or what is different on this machine.
pub fn place_of(session: &RemoteSession) -> String {
    match session.is_here {
        true => "this machine, in a container or with another OOMPH_RUNTIME_DIR".into(),
        false => print::line(session.file.host()).into_owned(),
    }
}

/// What to type for a session where it runs: into the job's allocation where there is one, or else by ssh.
pub fn command_there(session: &RemoteSession, verb: Verb) -> String {
    let id = &session.id;
    let words = match verb {
        Verb::Attach => format!("oomph attach {id}"),
        Verb::Stop => format!("oomph stop {id}"),
        Verb::Kill => format!("oomph stop --kill {id}"),
    };
    let host = print::line(session.file.host());
    let needs_terminal = verb == Verb::Attach;
    match &session.file.job {
        _ if session.is_here => words,
        Some(job) => {
            let terminal = if needs_terminal { " --pty" } else { "" };
            let node = host.split('.').next().unwrap_or_default();
            format!(
                "srun --jobid={} --overlap -N1 -n1 -w {node}{terminal} {words}",
                job.id
            )
        }
        None => {
            let terminal = if needs_terminal { " -t" } else { "" };
            format!("ssh{terminal} {host} {words}")
        }
    }
}

/// `heard 12 s ago`, `silent for 3:05:00`.
pub fn heard_words(session: &RemoteSession) -> String {
    match session.is_silent() {
        true => format!("silent for {}", clock_face(session.heard)),
        false => format!("heard {} s ago", session.heard.as_secs()),
    }
}

/// Why nothing can be done to a session from here, and what to type.
pub fn refusal(session: &RemoteSession, verb: Verb) -> String {
    let (id, place) = (&session.id, place_of(session));
    let command = command_there(session, verb);
    match session.is_here {
        true => format!(
            "session {id} runs on {place}, where its keeper is not reached from: run `{command}` there"
        ),
        false => {
            format!("session {id} runs on {place}, and only oomph there can end it: {command}")
        }
    }
}

/// How long a keeper may take to say what it runs, when a key was pressed.
const PATIENCE: Duration = Duration::from_millis(200);

/// Ended sessions that completions name, latest first.
const ENDED: usize = 20;

/// The sessions that an argument may name, for the shells' completions, each with a few words. It changes
/// nothing and waits for nobody for long.
pub fn session_names(which: NamedSessions) -> Vec<(String, String)> {
    let places = BaseDirs::of_this_user();
    let mut names: Vec<(String, String)> = recording::find(&places)
        .into_iter()
        .filter_map(|found| {
            let answer = supervise::look(&found.socket(), PATIENCE);
            if !runs(found.life, || is_listened(&answer)) {
                return None;
            }
            let summary: Option<Summary> = (answer.ok())
                .and_then(|status| status.described)
                .and_then(|text| serde_json::from_str(&text).ok());
            let about = summary.map_or("running".into(), |summary| {
                format!("{}: {}", summary.activity.word(), summary.command)
            });
            Some((found.id, print::line(&about).into_owned()))
        })
        .collect();
    if which == NamedSessions::All {
        let ended: Vec<String> = recording::list(&places)
            .into_iter()
            .map(|stored| stored.id)
            .filter(|id| names.iter().all(|(name, _)| name != id))
            .take(ENDED)
            .collect();
        names.extend(ended.into_iter().map(|id| (id, "ended".into())));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ArrayTask, Job};
    use crate::recording::SessionFile;
    use crate::units::Pid;

    #[test]
    fn a_beginning_is_enough_where_it_is_one_sessions() {
        let all = ["20261121-1-python", "20261121-1-python-2", "20261122-1-sh"];
        let find = |name: &str| {
            let all: Vec<String> = all.iter().map(|id| id.to_string()).collect();
            match meant(name, all, |id| id, |_| None) {
                Meant::None => "none".to_string(),
                Meant::One(id) => id,
                Meant::Several(ids) => format!("{} of them", ids.len()),
            }
        };
        assert_eq!(find("20261122"), all[2]);
        assert_eq!(find("2026112"), "3 of them");
        assert_eq!(find("20261121-1-python"), all[0], "a whole name is itself");
        assert_eq!(find("python"), "none");
    }

    #[test]
    fn of_two_state_directories_the_one_that_is_asked_has_the_name() {
        let find = |name: &str| {
            let all = [
                ("20261121-1-sh", 'o'),
                ("20261121-1-sh", 'a'),
                ("20261121-2-sh", 'o'),
            ];
            let all = all.map(|(id, of)| (id.to_string(), of)).to_vec();
            match meant_here(name, all, |(id, _)| id, |_| None, |(_, of)| *of == 'a') {
                Meant::None => "none".to_string(),
                Meant::One((id, of)) => format!("{id} {of}"),
                Meant::Several(found) => format!("{} of them", found.len()),
            }
        };
        assert_eq!(find("20261121-1-sh"), "20261121-1-sh a");
        assert_eq!(
            find("20261121"),
            "20261121-1-sh a",
            "no list shows the others"
        );
        assert_eq!(
            find("20261121-2-sh"),
            "20261121-2-sh o",
            "by its whole name"
        );
    }

    #[test]
    fn a_job_is_found_by_its_number_and_restart() {
        let task = |task: &str, restart| Job {
            id: format!("124{task}"),
            array: Some(ArrayTask {
                job: "1240".into(),
                task: task.into(),
            }),
            restart,
        };
        let all = [
            ("20261121-1-sh", task("7", 0)),
            ("20261121-2-sh", task("7", 1)),
            ("20261121-3-sh", task("8", 0)),
            ("12408888-4-sh", task("9", 0)),
        ];
        let find = |name: &str| {
            let all: Vec<(String, Job)> = (all.iter())
                .map(|(id, job)| (id.to_string(), job.clone()))
                .collect();
            match meant(name, all, |(id, _)| id, |(_, job)| Some(job.clone())) {
                Meant::None => "none".to_string(),
                Meant::One((id, _)) => id,
                Meant::Several(found) => format!("{} of them", found.len()),
            }
        };
        assert_eq!(find("1240_7"), "20261121-2-sh", "the latest restart");
        assert_eq!(find("1240_7-r0"), "20261121-1-sh");
        assert_eq!(find("1248"), "20261121-3-sh", "the task's own number");
        assert_eq!(find("1240"), "3 of them", "the array, each task once");
        assert_eq!(find("12408"), "12408888-4-sh", "no job: the start of an ID");
        assert_eq!(find("1240_6"), "none");
    }

    fn session(job: Option<&str>) -> RemoteSession {
        let job = job.map(|id| Job {
            id: id.into(),
            array: None,
            restart: 0,
        });
        let file = SessionFile::new("20261121-1-python", Pid(1), None, None);
        let mut file = serde_json::to_value(SessionFile { job, ..file }).unwrap();
        file["world"]["host"] = "gpu-7.cluster".into();
        RemoteSession {
            id: "20261121-1-python".into(),
            directory: "/none".into(),
            file: serde_json::from_value(file).unwrap(),
            heard: Duration::from_secs(12),
            is_here: false,
        }
    }

    #[test]
    fn it_is_said_what_to_type_where() {
        assert_eq!(
            refusal(&session(Some("1234")), Verb::Stop),
            "session 20261121-1-python runs on gpu-7.cluster, and only oomph there can end it: srun --jobid=1234 --overlap -N1 -n1 -w gpu-7 oomph stop 20261121-1-python"
        );
        assert_eq!(
            command_there(&session(None), Verb::Attach),
            "ssh -t gpu-7.cluster oomph attach 20261121-1-python"
        );
        let here = RemoteSession {
            is_here: true,
            ..session(None)
        };
        assert!(refusal(&here, Verb::Kill).contains("`oomph stop --kill"));
        assert_eq!(heard_words(&here), "heard 12 s ago");
    }
}
