//! The user's settings: `oomph.toml`, in the project first, then in the configuration directory.
//!
//! ```toml
//! theme = "dark"            # default, dark, light, contrast
//! mouse = "off"             # on, off
//! alert = "bell"            # bell, osc9, osc777: how the terminal tells; in the user's file alone
//! notify = "my-script"      # a command that is run for news; in the user's file alone
//!
//! [[program]]               # entries like those of src/recognize/programs.toml, tried before them
//! name = "our trainer"
//! ```
//!
//! A project's file comes with somebody's repository: it may add arguments to commands, which are
//! shown before they run, but never name a program to be run unasked.
//!
//! The settings are only read here; what a theme or a program's entry means is known where it is
//! used. An unusable file never keeps a training from starting: a one-line message says where the
//! problem is and how to fix it, and the file is ignored.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use nix::libc;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The file's name, in a project and in the configuration directory.
pub const FILE: &str = "oomph.toml";

/// A longer file isn't a config: the path is a device, or a mistake.
const LONGEST: u64 = 1 << 20;

const WRITE_FOR_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// The contents of all files, the project's first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// As written; it may not exist.
    pub theme: Option<UserSetting>,
    /// As written.
    pub mouse: Option<UserSetting>,
    /// How the terminal tells of an OOM, as written; only from the user's own file.
    pub alert: Option<UserSetting>,
    /// The shell command that is run for news; only from the user's own file.
    pub notify: Option<UserSetting>,
    /// Files with program entries, by precedence.
    pub programs: Vec<Programs>,
    /// What was wrong with the files and how to fix it, one line each.
    pub problems: Vec<String>,
}

/// A value, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSetting {
    pub value: String,
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

impl UserSetting {
    /// For display: `oomph.toml:3`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }
}

/// A file with `[[program]]` entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    pub path: PathBuf,
    /// Its whole text, including other settings, so that an error in an entry can name the line.
    pub text: String,
}

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

/// Reads the settings for a command that is started in `cwd`.
pub fn read(cwd: &Path) -> UserSettings {
    of_files(&files(cwd, configuration_directory().as_deref()))
}

/// Reads these files; for each setting the first file that has it counts.
pub fn of_files(files: &[SettingsFile]) -> UserSettings {
    let mut settings = UserSettings::default();
    for file in files {
        read_file(file, nix::unistd::geteuid().as_raw(), &mut settings);
    }
    settings
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
fn configuration_directory() -> Option<PathBuf> {
    Xdg::new().ok().map(|xdg| xdg.config_dir())
}

/// The keys. A misspelled one is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    theme: Option<Spanned<String>>,
    mouse: Option<Spanned<String>>,
    alert: Option<Spanned<String>>,
    notify: Option<Spanned<String>>,
    #[serde(default)]
    program: Vec<IgnoredAny>,
}

/// Adds the settings of a file to those of the files before it.
fn read_file(file: &SettingsFile, owner: u32, settings: &mut UserSettings) {
    match text_of(&file.path, owner) {
        Ok(text) => take(file, text, settings),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => settings
            .problems
            .push(format!("{}: {error}; ignoring it", file.path.display())),
    }
}

/// The file's text, if it and its directory belong to `owner`.
fn text_of(path: &Path, owner: u32) -> io::Result<String> {
    // A FIFO would block otherwise.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // The file may have come with another user's repository, and it adds arguments to commands. As
    // git's safe.directory has it, the directory counts as well: who may write to it can swap files.
    let directory = path.canonicalize()?.parent().map(Path::metadata);
    for about in [Some(about), directory.transpose()?].into_iter().flatten() {
        if let Some(reason) = distrust(about.is_dir(), about.uid(), about.mode(), owner) {
            return Err(io::Error::other(reason));
        }
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    Ok(text)
}

/// Why a file, or the directory of one, is not to be believed, and what to do.
fn distrust(is_directory: bool, uid: u32, mode: u32, owner: u32) -> Option<String> {
    let what = if is_directory { "its directory" } else { "it" };
    // Root may write anywhere; in a sticky directory nobody else can replace the file.
    if uid != owner && !(is_directory && uid == ROOT) {
        return Some(format!(
            "{what} belongs to user {uid}, not to you; copy it, or put yours into ~/.config/oomph"
        ));
    }
    let others_write = mode & WRITE_FOR_ALL != 0 && !(is_directory && mode & STICKY != 0);
    others_write.then(|| format!("{what} is world-writable; chmod o-w"))
}

fn take(file: &SettingsFile, text: String, settings: &mut UserSettings) {
    let path = file.path.as_path();
    let content: Content = match toml::from_str(&text) {
        Ok(content) => content,
        Err(error) => {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            settings.problems.push(format!(
                "{}:{line}: {}; ignoring this file",
                path.display(),
                error.message().replace('\n', "; ")
            ));
            return;
        }
    };
    let setting = |value: Spanned<String>| UserSetting {
        line: line_of(&text, value.span().start),
        value: value.into_inner(),
        path: path.to_path_buf(),
    };
    if let Some(theme) = content.theme.map(setting) {
        settings.theme.get_or_insert(theme);
    }
    if let Some(mouse) = content.mouse.map(setting) {
        settings.mouse.get_or_insert(mouse);
    }
    let of_user_alone = [
        ("alert", content.alert, &mut settings.alert),
        ("notify", content.notify, &mut settings.notify),
    ];
    for (name, value, place) in of_user_alone {
        match (value.map(setting), file.whose) {
            (Some(value), Whose::User) => *place = Some(value),
            (Some(value), Whose::Project) => settings.problems.push(format!(
                "{}: {name} counts only in your own ~/.config/oomph/oomph.toml; ignoring it here",
                value.place()
            )),
            (None, Whose::Project | Whose::User) => {}
        }
    }
    if !content.program.is_empty() {
        settings.programs.push(Programs {
            path: path.to_path_buf(),
            text,
        });
    }
}

/// The line, from 1, of a byte.
fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    1 + before.filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::{of_files, *};
    use std::fs;
    use std::path::PathBuf;

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

    fn of_project(path: &Path) -> SettingsFile {
        SettingsFile {
            path: path.to_path_buf(),
            whose: Whose::Project,
        }
    }

    /// Whoever clones a repository must not run what its author likes.
    #[test]
    fn a_project_never_names_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oomph.toml");
        let text = "theme = 'dark'\nnotify = 'rm -rf ~'\nalert = 'bell'\n";
        fs::write(&path, text).unwrap();
        let settings = of_files(&[of_project(&path)]);
        assert_eq!((settings.notify, settings.alert), (None, None));
        assert_eq!(settings.theme.unwrap().value, "dark", "the rest counts");
        let [alert, notify] = &settings.problems[..] else {
            panic!("{:?}", settings.problems);
        };
        assert!(alert.contains(":3: alert counts only"), "{alert}");
        assert!(notify.contains(":2: notify counts only"), "{notify}");
        let own = SettingsFile {
            path: path.clone(),
            whose: Whose::User,
        };
        let settings = of_files(&[own]);
        assert_eq!(settings.problems, [""; 0]);
        assert_eq!(settings.notify.unwrap().value, "rm -rf ~");
        assert_eq!(settings.alert.unwrap().line, 3);
    }

    #[test]
    fn the_first_file_that_says_something_counts() {
        let dir = tempfile::tempdir().unwrap();
        let [project, user] = ["project.toml", "user.toml"].map(|name| dir.path().join(name));
        fs::write(&project, "[[program]]\nname = 'ours'\n").unwrap();
        fs::write(&user, "\ntheme = 'dark'\n[[program]]\nname = 'mine'\n").unwrap();
        let missing = dir.path().join("missing.toml");
        let in_order = |paths: &[&PathBuf]| -> Vec<SettingsFile> {
            paths.iter().map(|path| of_project(path)).collect()
        };
        let settings = of_files(&in_order(&[&missing, &project, &user]));
        assert_eq!(settings.problems, [""; 0]);
        let theme = settings.theme.unwrap();
        assert_eq!((theme.value.as_str(), theme.line), ("dark", 2));
        let paths: Vec<_> = settings.programs.iter().map(|p| &p.path).collect();
        assert_eq!(paths, [&project, &user]);
        fs::write(&project, "theme = 'light'").unwrap();
        let theme = of_files(&in_order(&[&project, &user])).theme.unwrap();
        assert_eq!(theme.value, "light");
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line_and_done_without() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oomph.toml");
        for (text, said) in [
            (
                "\n\nthem = 'dark'",
                ":3: unknown field `them`, expected one of `theme`",
            ),
            ("theme = 3", ":1: invalid type"),
            ("theme = 'dark", ":1: "),
            ("[[program]\n", ":1: "),
        ] {
            fs::write(&path, text).unwrap();
            let settings = of_files(&[of_project(&path)]);
            let [problem] = &settings.problems[..] else {
                panic!("{text:?}: {:?}", settings.problems);
            };
            assert!(problem.contains(said), "{problem}");
            assert!(problem.ends_with("; ignoring this file"));
            assert!(!problem.contains('\n'), "{problem}");
            assert_eq!(settings.theme, None);
        }
    }

    #[test]
    fn a_file_of_somebody_elses_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oomph.toml");
        fs::write(&path, "theme = 'dark'").unwrap();
        let mut settings = UserSettings::default();
        let me = nix::unistd::geteuid().as_raw();
        read_file(&of_project(&path), me + 1, &mut settings);
        assert_eq!(settings.theme, None);
        assert!(settings.problems[0].contains(&format!("belongs to user {me}")));
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&path, all).unwrap();
        let settings = of_files(&[of_project(&path)]);
        assert_eq!(settings.theme, None);
        assert!(settings.problems[0].contains("world-writable"));
    }

    #[test]
    fn a_file_that_somebody_else_can_swap_is_not_read() {
        let (me, stranger) = (1000, 1001);
        for (is_directory, uid, mode, says) in [
            (false, me, 0o664, None),
            (false, ROOT, 0o644, Some("it belongs to user 0")),
            (true, me, 0o775, None),
            (true, ROOT, 0o755, None),
            (true, ROOT, 0o1777, None),
            (true, me, 0o777, Some("its directory is world-writable")),
            (
                true,
                stranger,
                0o755,
                Some("its directory belongs to user 1001"),
            ),
            (
                true,
                stranger,
                0o1777,
                Some("its directory belongs to user 1001"),
            ),
        ] {
            let reason = distrust(is_directory, uid, mode, me);
            assert_eq!(reason.is_some(), says.is_some(), "{reason:?}");
            assert!(says.is_none_or(|says| reason.unwrap().starts_with(says)));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oomph.toml");
        fs::write(&path, "theme = 'dark'").unwrap();
        let all: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(dir.path(), all).unwrap();
        // A link elsewhere does not help.
        let other = tempfile::tempdir().unwrap();
        let link = other.path().join("oomph.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for path in [path, link] {
            let settings = of_files(&[of_project(&path)]);
            assert_eq!(settings.theme, None);
            assert!(settings.problems[0].contains("its directory is world-writable"));
        }
    }

    #[test]
    fn what_is_no_text_file_harms_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oomph.toml");
        fs::create_dir(&path).unwrap();
        let problems = |path: &Path| of_files(&[of_project(path)]).problems;
        assert_eq!(problems(&path).len(), 1);
        fs::remove_dir(&path).unwrap();
        fs::write(&path, b"theme = '\xff'").unwrap();
        assert_eq!(problems(&path).len(), 1);
        fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(problems(&path)[0].contains("longer than"));
        assert_eq!(problems(Path::new("/dev/zero")).len(), 1);
        // A FIFO that nobody writes to.
        let pipe = dir.path().join("pipe.toml");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(problems(&pipe)[0].contains("not a regular file"));
    }
}
