//! torch's version for a command that hasn't run yet, from its interpreter's installation.

use crate::command::CommandLine;
use crate::project_files::{self, Starter};
use crate::recognize::CommandLayout;
use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

/// torch's version in the interpreter that `command` would run, if it can be found.
pub(crate) fn version_for(command: &CommandLine) -> Option<String> {
    project_files::torch_version(&interpreter_of(command)?)
}

/// The interpreter that `command` would run.
pub(crate) fn interpreter_of(command: &CommandLine) -> Option<PathBuf> {
    let layout = CommandLayout::new(command);
    let at = layout.python_word()?;
    let program = layout.program.min(command.argv.len());
    let inherited_path = env::var_os("PATH");
    let path = command
        .env_value("PATH")
        .map(|word| word.0.as_os_str())
        .or(inherited_path.as_deref());
    let conda_roots = conda_roots(path);
    project_files::interpreter(Starter {
        word: command.argv.get(at)?,
        before: &command.argv[..program],
        cwd: &command.cwd,
        path,
        conda_roots: &conda_roots,
    })
}

/// Where conda and its kin keep their environments: `CONDA_EXE` is `ROOT/bin/conda`, and so is a
/// `conda` in `PATH` (or `ROOT/condabin/conda`); who may not write there has `~/.conda`.
fn conda_roots(path: Option<&OsStr>) -> Vec<PathBuf> {
    let root = |program: PathBuf| Some(program.parent()?.parent()?.to_path_buf());
    let named = env::var_os("CONDA_EXE").map(PathBuf::from);
    let in_path = path.into_iter().flat_map(env::split_paths);
    let in_path = in_path
        .map(|directory| directory.join("conda"))
        .find(|program| program.exists());
    let mut roots: Vec<PathBuf> = named.into_iter().chain(in_path).filter_map(root).collect();
    roots.extend(env::var_os("MAMBA_ROOT_PREFIX").map(PathBuf::from));
    roots.extend(env::home_dir().map(|home| home.join(".conda")));
    roots
}
