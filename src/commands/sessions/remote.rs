//! Sessions that can only be watched from here, in words: where they run, and what to type there.

use crate::live::print;
use crate::session::RemoteSession;
use crate::units::clock_face;
use std::time::Duration;

/// What is to be done to a session where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Verb {
    Attach,
    Stop,
    Kill,
}

/// Where it runs: `gpu-7`, or what is different on this machine.
pub(in crate::commands) fn place(session: &RemoteSession) -> String {
    match session.is_here {
        true => "this machine, in a container or with another OOMPH_RUNTIME_DIR".into(),
        false => print::line(session.file.host()).into_owned(),
    }
}

/// What to type for it there: into the job's allocation where there is one, or else by ssh.
pub(in crate::commands) fn command(session: &RemoteSession, verb: Verb) -> String {
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
pub(in crate::commands) fn heard(session: &RemoteSession) -> String {
    ago(session.heard, session.is_silent())
}

fn ago(heard: Duration, is_silent: bool) -> String {
    match is_silent {
        true => format!("silent for {}", clock_face(heard)),
        false => format!("heard {} s ago", heard.as_secs()),
    }
}

/// Why nothing can be done to it from here, and what to type.
pub(in crate::commands) fn refusal(session: &RemoteSession, verb: Verb) -> String {
    let (id, place) = (&session.id, place(session));
    let command = command(session, verb);
    match session.is_here {
        true => format!(
            "session {id} runs on {place}, where its keeper is not reached from: run `{command}` there"
        ),
        false => {
            format!("session {id} runs on {place}, and only oomph there can end it: {command}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Job;
    use crate::session::SessionFile;
    use crate::units::Pid;

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
            command(&session(None), Verb::Attach),
            "ssh -t gpu-7.cluster oomph attach 20261121-1-python"
        );
        let here = RemoteSession {
            is_here: true,
            ..session(None)
        };
        assert!(refusal(&here, Verb::Kill).contains("`oomph stop --kill"));
        assert_eq!(heard(&here), "heard 12 s ago");
    }
}
