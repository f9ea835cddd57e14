//! Below another oomph the command runs as it was typed: two would both wait at a dialog, the inner one
//! for keys that never come. The outer one watches it, by its output and by the probe that it has put in
//! front of everything, and alone asks what follows an out-of-memory.

use super::{Ending, Recording, RunOptions, SESSION_VARIABLE, allocator, complain};
use crate::supervise;

/// Becomes the command. Returns only if that isn't possible.
///
/// # Errors
/// `--alloc-conf` is wrong.
pub(crate) fn run_through(options: &RunOptions) -> anyhow::Result<Ending> {
    let command = allocator::configured(&options.command, options.alloc_conf.as_deref())?;
    let session = std::env::var(SESSION_VARIABLE).map_or(String::new(), |id| format!(" ({id})"));
    let unused = match unused(options).as_slice() {
        [] => String::new(),
        options => format!("; not used here: {}", options.join(", ")),
    };
    complain(&format!(
        "started below another oomph{session}, which watches this command and asks; running it without a second one{unused}"
    ));
    let missing = supervise::become_command(&command);
    complain(&missing.to_string());
    Ok(Ending::Code(missing.status()))
}

/// The options that ask for something which nobody does now.
fn unused(options: &RunOptions) -> Vec<&'static str> {
    let asked = [
        (matches!(options.recording, Recording::To(_)), "--record"),
        (options.metrics.is_some(), "--metrics"),
        (options.snapshot.is_some(), "--snapshot"),
        (options.on_oom.is_some(), "--on-oom"),
    ];
    let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
    asked.map(|(_, name)| name).collect()
}
