//! Where to look for `oomph.toml`. The only file in this module that reads the environment.

use super::FILE;
use etcetera::base_strategy::{BaseStrategy, Xdg};
use std::path::{Path, PathBuf};

/// The candidates for a command started in `cwd`, by precedence: that directory, those above it up
/// to the root of its repository (the one with `.git`), then oomph's in the configuration
/// directory. Without a repository only the directory itself is searched: a file further up was not
/// put there for this project.
pub fn files(cwd: &Path, configuration: Option<&Path>) -> Vec<PathBuf> {
    let root = cwd.ancestors().position(|dir| dir.join(".git").exists());
    let project = cwd.ancestors().take(root.unwrap_or(0) + 1);
    // A deleted directory has no name, and no file.
    let project = project.filter(|dir| dir.is_absolute());
    let user = configuration.map(|dir| dir.join("oomph"));
    project
        .map(Path::to_path_buf)
        .chain(user)
        .map(|dir| dir.join(FILE))
        .collect()
}

/// `$XDG_CONFIG_HOME`, else `~/.config`; `None` without a home directory.
pub(super) fn configuration_directory() -> Option<PathBuf> {
    Xdg::new().ok().map(|xdg| xdg.config_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_project_goes_before_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let names = |configuration: Option<&str>| {
            let files = files(&inner, configuration.map(Path::new));
            let relative = |path: PathBuf| match path.strip_prefix(dir.path()) {
                Ok(inside) => inside.display().to_string(),
                Err(_) => path.display().to_string(),
            };
            files.into_iter().map(relative).collect::<Vec<_>>()
        };
        assert_eq!(
            names(Some("/etc/xdg")),
            ["a/b/oomph.toml", "/etc/xdg/oomph/oomph.toml"]
        );
        fs::create_dir(dir.path().join(".git")).unwrap();
        assert_eq!(
            names(None),
            ["a/b/oomph.toml", "a/oomph.toml", "oomph.toml"]
        );
        assert_eq!(files(Path::new(""), None), [] as [PathBuf; 0]);
    }
}
