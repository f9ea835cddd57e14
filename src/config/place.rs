//! Where to look for `oomph.toml`. The only file in this module that reads the environment.

use super::FILE;
use etcetera::base_strategy::{BaseStrategy, Xdg};
use std::path::{Path, PathBuf};

/// A file that may exist, and whose settings it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    pub path: PathBuf,
    pub whose: Whose,
}

/// What a file may set depends on this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// It may have come with a repository.
    Project,
    /// In the configuration directory.
    User,
}

/// The candidates for a command started in `cwd`, by precedence: that directory, those above it up
/// to the root of its repository (the one with `.git`), then oomph's in the configuration
/// directory. Without a repository only the directory itself is searched: a file further up was not
/// put there for this project.
pub fn files(cwd: &Path, configuration: Option<&Path>) -> Vec<SettingsFile> {
    let root = cwd.ancestors().position(|dir| dir.join(".git").exists());
    let project = cwd.ancestors().take(root.unwrap_or(0) + 1);
    // A deleted directory has no name, and no file.
    let project = project.filter(|dir| dir.is_absolute());
    let user = configuration.map(|dir| dir.join("oomph").join(FILE));
    // A command that is started in the configuration directory has no other project.
    let is_users = |path: &Path| user.as_deref().is_some_and(|user| is_same(path, user));
    let project = project
        .map(|dir| dir.join(FILE))
        .filter(|path| !is_users(path))
        .map(|path| SettingsFile {
            path,
            whose: Whose::Project,
        });
    let mut files: Vec<SettingsFile> = project.collect();
    files.extend(user.map(|path| SettingsFile {
        path,
        whose: Whose::User,
    }));
    files
}

/// Whether two paths lead to one file.
fn is_same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
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
            let relative = |file: SettingsFile| match file.path.strip_prefix(dir.path()) {
                Ok(inside) => inside.display().to_string(),
                Err(_) => file.path.display().to_string(),
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
        assert_eq!(files(Path::new(""), None), []);
    }

    #[test]
    fn the_users_own_file_is_never_taken_for_a_projects() {
        let home = tempfile::tempdir().unwrap();
        let (configuration, own) = (home.path().join("config"), home.path().join("config/oomph"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join(FILE), "").unwrap();
        // Its directory is a repository of dotfiles, and reached by a link.
        fs::create_dir(configuration.join(".git")).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&configuration, &link).unwrap();
        for cwd in [own, link.join("oomph")] {
            let files = files(&cwd, Some(&configuration));
            let users: Vec<_> = files.iter().filter(|file| file.path.exists()).collect();
            assert_eq!(users.len(), 1, "{files:?}");
            assert_eq!(users[0].whose, Whose::User);
        }
    }
}
