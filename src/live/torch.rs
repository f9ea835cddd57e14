//! What a command's torch will be, before it has run: its version, from its interpreter's installation,
//! and its allocator's settings, from oomph's own environment and `--alloc-conf`.

use crate::command::{CommandLine, Word};
use crate::project_files::{self, Starter};
use crate::recognize::CommandLayout;
use crate::recognize::alloc_conf::{self, CUDA, GENERAL, HIP, Inherited, TorchVersion};
use serde::{Deserialize, Serialize};
use std::env;
use std::ffi::{OsStr, OsString};
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

/// The values of the allocator's variables when oomph was started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct InheritedSettings {
    cuda: Option<String>,
    hip: Option<String>,
    general: Option<String>,
}

impl InheritedSettings {
    /// A value that isn't UTF-8 counts as unset: PyTorch couldn't read it either.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> InheritedSettings {
        let text = |name| variable(name).and_then(|value| value.into_string().ok());
        InheritedSettings {
            cuda: text(CUDA),
            hip: text(HIP),
            general: text(GENERAL),
        }
    }

    pub(crate) fn as_inherited(&self) -> Inherited<'_> {
        Inherited {
            cuda: self.cuda.as_deref(),
            hip: self.hip.as_deref(),
            general: self.general.as_deref(),
        }
    }

    /// Adds the settings of `--alloc-conf` to `command`, merged with those that it would inherit.
    ///
    /// # Errors
    /// How to correct them.
    pub(crate) fn merge_into(
        &self,
        command: &mut CommandLine,
        typed: &str,
        torch: Option<&str>,
    ) -> Result<(), String> {
        let said = |name: &str| command.env_value(name).and_then(Word::as_str);
        let inherited = Inherited {
            cuda: said(CUDA).or(self.cuda.as_deref()),
            hip: said(HIP).or(self.hip.as_deref()),
            general: said(GENERAL).or(self.general.as_deref()),
        };
        let torch = torch.and_then(TorchVersion::parse);
        let assignments = alloc_conf::merge_user(typed, inherited, torch)?;
        for (name, value) in assignments {
            command.set_env(name, Some(Word::from(value)));
        }
        Ok(())
    }
}

/// The command to start: as typed, with the settings of `--alloc-conf` if there are any.
///
/// # Errors
/// `--alloc-conf` is wrong, and how to correct it.
pub(crate) fn configured(
    command: &CommandLine,
    alloc_conf: Option<&str>,
) -> anyhow::Result<CommandLine> {
    let mut command = command.clone();
    if let Some(conf) = alloc_conf {
        let torch = version_for(&command);
        InheritedSettings::read(|name| std::env::var_os(name))
            .merge_into(&mut command, conf, torch.as_deref())
            .map_err(|mend| anyhow::anyhow!("--alloc-conf {conf}: {mend}"))?;
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_settings_join_those_of_the_environment() {
        let settings = InheritedSettings::read(|name| {
            (name == CUDA).then(|| "garbage_collection_threshold:0.8".into())
        });
        let mut command = CommandLine {
            argv: vec!["python".into()],
            env: Vec::new(),
            cwd: "/".into(),
        };
        settings
            .merge_into(&mut command, "expandable_segments:True", Some("2.11.0"))
            .unwrap();
        assert_eq!(
            command.env_value(CUDA).unwrap(),
            &Word::from("garbage_collection_threshold:0.8,expandable_segments:True")
        );
        let mend = settings
            .merge_into(&mut command, "expandable_segments=True", Some("2.11.0"))
            .unwrap_err();
        assert!(mend.contains(':'), "{mend}");
    }
}
