//! `oomph COMMAND`: runs the command to the end of its last run.

use super::{Mistake, meant};
use crate::command::{CommandLine, Word};
use crate::live::{
    self, AutoOptions, Ending, OnOom, SESSION_VARIABLE, SessionConfig, print, torch,
};
use crate::supervise;
use std::ffi::OsStr;

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
        let name = missing.unknown_name();
        let near = || near_program(name?.to_str()?, path.as_deref()?);
        print::complain(&match (name, meant(&options.command), near()) {
            (Some(name), Some(subcommand), _) => format!(
                "{}: no such subcommand, nor a program in PATH; did you mean: oomph {subcommand}?",
                name.display()
            ),
            (Some(name), None, Some(program)) => format!(
                "{}: not found in PATH; did you mean {program}?",
                name.display()
            ),
            (_, _, _) => missing.to_string(),
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

/// Names shorter than this have too many others near them.
const LONG_ENOUGH: usize = 4;

/// The program in PATH whose name is a slip of the keyboard away.
fn near_program(typed: &str, path: &OsStr) -> Option<String> {
    if typed.len() < LONG_ENOUGH || typed.contains('/') || typed.ends_with(".py") {
        return None;
    }
    let names = std::env::split_paths(path)
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let near = names.filter(|name| strsim::osa_distance(name, typed) == 1);
    // Of several the one that is as long, and then always the same.
    near.min_by_key(|name| (name.len().abs_diff(typed.len() + 1), name.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_programs_name_finds_the_program() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["python3", "torchrun", "ls"] {
            std::fs::write(directory.path().join(name), "").expect("a file");
        }
        let path = directory.path().as_os_str();
        let near = |typed: &str| near_program(typed, path);
        assert_eq!(near("pyton3").as_deref(), Some("python3"));
        assert_eq!(near("trochrun").as_deref(), Some("torchrun"));
        assert_eq!(near("lss"), None, "too short");
        assert_eq!(near("perl5"), None);
        assert_eq!(near("pyton3.py"), None);
    }
}
