//! Looks up what a command is started with beside its words: its Python, its torch, variables and files. For a
//! recording, on a thread of its own, and again before the recorded command is started once more.

use super::program_text::program_files;
use super::torch;
use crate::command::{self, CommandLine};
use crate::event::{Clock, Event, EventKind, LAUNCH_VARIABLES, LaunchFacts, ProgramFile, crc32};
use crate::project_files;
use crate::recognize::{LaunchEnvironment, Recognized};
use tokio::sync::mpsc::Sender;

/// What `command` would be started with now, by this process's environment and what is on the disk.
pub(crate) fn look(command: &CommandLine) -> LaunchFacts {
    let interpreter = torch::interpreter_of(command);
    let torch = interpreter
        .as_deref()
        .and_then(project_files::torch_version);
    let value = |name: &str| -> Option<String> {
        let typed = command.env.iter().rev().find(|change| change.name == *name);
        match typed {
            Some(change) => change.value.as_ref().map(|value| value.to_string_lossy()),
            None => std::env::var(name).ok(),
        }
    };
    let variables = LAUNCH_VARIABLES.iter().filter_map(|name| {
        let value = value(name)?;
        Some((
            name.to_string(),
            command::without_secrets(&value).into_owned(),
        ))
    });
    let recognized = Recognized::new(command, &LaunchEnvironment::default());
    let files = program_files(&recognized).into_iter();
    LaunchFacts {
        interpreter: interpreter.map(|path| path.to_string_lossy().into_owned()),
        torch,
        variables: variables.collect(),
        files: files
            .map(|(path, text)| ProgramFile {
                path,
                length: text.len() as u64,
                crc: crc32(text.as_bytes()),
            })
            .collect(),
    }
}

/// Looks, beside the loop, and sends what was found. A disk that hangs keeps nobody waiting: without the event a
/// later start only has less to compare with.
pub(super) fn tell(command: &CommandLine, clock: Clock, events: Sender<Event>) {
    let command = command.clone();
    let thread = std::thread::Builder::new().name("launch-facts".into());
    let _ = thread.spawn(move || {
        let what = EventKind::LaunchFacts(Box::new(look(&command)));
        let _ = events.blocking_send(Event {
            at: clock.now(),
            what,
        });
    });
}
