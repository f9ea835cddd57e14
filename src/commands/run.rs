//! `oomph COMMAND`: runs the command to the end of its last run.

use super::{Mistake, meant};
use crate::command::{CommandLine, Word};
use crate::live::{
    self, AutoOptions, Ending, OnOom, SESSION_VARIABLE, SessionConfig, print, torch,
};
use crate::supervise;

/// Sets what the words alone do not say.
pub(super) fn configure(
    mut config: SessionConfig,
    command: CommandLine,
) -> Result<SessionConfig, Mistake> {
    if config.auto != AutoOptions::default() && config.on_oom != Some(OnOom::Auto) {
        return Err(Mistake(
            "--allow, --order, --max-relaunches, --min-time and --requeue are for --on-oom auto; add that".into(),
        ));
    }
    config.command = live::with_edits(&command, &config.edit).map_err(Mistake)?;
    config.spool = config.spool.or_else(|| {
        let inherited = std::env::var_os("OOMPH_SPOOL");
        inherited.filter(|path| !path.is_empty()).map(Word)
    });
    Ok(config)
}

/// Runs a command to the end of its last run.
///
/// # Errors
/// What kept oomph itself from starting the command.
pub(super) fn run(config: SessionConfig, command: CommandLine) -> anyhow::Result<Ending> {
    let options = configure(config, command)?;
    let path = std::env::var_os("PATH");
    if let Err(missing) = supervise::resolve(&options.command, path.as_deref()) {
        print::complain(&match (missing.unknown_name(), meant(&options.command)) {
            (Some(name), Some(subcommand)) => format!(
                "{}: no such subcommand, nor a program in PATH; did you mean: oomph {subcommand}?",
                name.display()
            ),
            _ => missing.to_string(),
        });
        return Ok(Ending::Code(missing.status()));
    }
    if supervise::is_below_another() {
        return run_through(&options);
    }
    if let Some(lack) = supervise::lacking() {
        return Ok(become_command(&lack, &options.command));
    }
    let options = live::requeue::carried_on(options);
    let command = options.command.clone();
    match live::run_to_end(options, None) {
        // Others may have taken the last process since; nothing of the command was started.
        Err(error) if error.is::<live::NotBegun>() => {
            Ok(become_command(&format!("{error:#}"), &command))
        }
        ended => ended,
    }
}

/// Below another oomph the command runs as it was typed: two would both wait at a dialog, the inner one
/// for keys that never come. The outer one watches it, by its output and by the probe that it has put in
/// front of everything, and alone asks what follows an out-of-memory. Returns only if that isn't possible.
///
/// # Errors
/// `--alloc-conf` is wrong.
fn run_through(options: &SessionConfig) -> anyhow::Result<Ending> {
    let command = torch::configured(&options.command, options.alloc_conf.as_deref())?;
    let session = std::env::var(SESSION_VARIABLE).map_or(String::new(), |id| format!(" ({id})"));
    let unused = match unused(options).as_slice() {
        [] => String::new(),
        options => format!("; not used here: {}", options.join(", ")),
    };
    print::complain(&format!(
        "started below another oomph{session}, which watches this command and asks; running it without a second one{unused}"
    ));
    let missing = supervise::become_command(&command);
    print::complain(&missing.to_string());
    Ok(Ending::Code(missing.status()))
}

/// The options that ask for something which nobody does now.
fn unused(options: &SessionConfig) -> Vec<&'static str> {
    let asked = [
        (options.record.is_some(), "--record"),
        (options.metrics.is_some(), "--metrics"),
        (options.snapshot.is_some(), "--snapshot"),
        (options.on_oom.is_some(), "--on-oom"),
    ];
    let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
    asked.map(|(_, name)| name).collect()
}

/// Runs the command without oomph: the training does not depend on us.
fn become_command(lack: &str, command: &CommandLine) -> Ending {
    print::complain(&format!("{lack}; running the command without oomph"));
    let missing = supervise::become_command(command);
    print::complain(&missing.to_string());
    Ending::Code(missing.status())
}
