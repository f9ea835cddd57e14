//! torch's version for a command that hasn't run yet, from its interpreter's installation.

use crate::command::CommandLine;
use crate::recognize::{LaunchEnvironment, recognise};
use crate::surroundings::{self, Starter};
use std::env;
use std::path::PathBuf;

/// torch's version in the interpreter that `command` would run, if it can be found.
pub(super) fn version_for(command: &CommandLine) -> Option<String> {
    surroundings::torch_version(&interpreter_of(command)?)
}

/// The interpreter that `command` would run.
pub(super) fn interpreter_of(command: &CommandLine) -> Option<PathBuf> {
    let recognised = recognise(command, &LaunchEnvironment::default());
    let at = recognised.anatomy.interpreter?;
    let inherited_path = env::var_os("PATH");
    let path = command
        .env_value("PATH")
        .map(|word| word.0.as_os_str())
        .or(inherited_path.as_deref());
    let conda_root = conda_root();
    surroundings::interpreter(Starter {
        word: command.argv.get(at)?,
        before: &command.argv[..at],
        cwd: &command.cwd,
        path,
        conda_root: conda_root.as_deref(),
    })
}

/// `CONDA_EXE` is `ROOT/bin/conda`.
fn conda_root() -> Option<PathBuf> {
    let exe = PathBuf::from(env::var_os("CONDA_EXE")?);
    Some(exe.parent()?.parent()?.to_path_buf())
}
