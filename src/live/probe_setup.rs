//! The command's environment: the private directory, the probe and its socket, variables. If any of it
//! fails, that is reported and the training starts without it.

use crate::command::{CommandLine, EnvChange, Word};
use crate::live::SESSION_VARIABLE;
use crate::live::config::{HandoverState, SessionConfig};
use crate::probe::{self, Installed, ProbeOptions, ProbeWays, RehearsedStep};
use crate::recognize::CommandLayout;
use crate::recording::PidScope;
use crate::units::RunNumber;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where Python looks for modules first.
const PYTHON_PATH: &str = "PYTHONPATH";

/// The probe's part of a launch; in all runs of a session the same except for the run's number.
pub(crate) struct ProbeSetup {
    probe: Option<ProbeInPlace>,
    /// The directory for ranks of other nodes.
    spool: Option<PathBuf>,
    /// Where the modules are for a command that may run on other nodes.
    modules: Option<PathBuf>,
    /// This machine's boot ID, by which they know that they are elsewhere.
    boot: String,
    session: String,
    lines: bool,
    snapshot: Option<PathBuf>,
    interval: std::time::Duration,
    /// The `PYTHONPATH` that the command inherits.
    python_path: Option<OsString>,
}

struct ProbeInPlace {
    installed: Installed,
    socket: PathBuf,
}

impl ProbeSetup {
    /// Writes the probe into the directory of `place`, from where it connects to the socket there; without
    /// a place there is no probe. If writing fails, returns the reason for display.
    pub(crate) fn prepare(
        options: &SessionConfig,
        session: &str,
        place: Option<(&Path, &Path)>,
        spool: Option<&Path>,
        modules: Option<&Path>,
    ) -> (ProbeSetup, Option<String>) {
        let mut problem = None;
        let probe = place.and_then(|(directory, socket)| match probe::install(directory) {
            Ok(installed) => Some(ProbeInPlace {
                installed,
                socket: socket.to_path_buf(),
            }),
            Err(error) => {
                problem = Some(format!(
                    "the probe could not be written to {} ({error}); continuing without it",
                    directory.display()
                ));
                None
            }
        });
        let surround = ProbeSetup {
            probe,
            spool: spool.map(Path::to_path_buf),
            modules: modules.map(Path::to_path_buf),
            boot: PidScope::here().boot().to_string(),
            session: session.to_string(),
            lines: options.lines,
            // The program may change its directory.
            snapshot: options
                .snapshot
                .as_ref()
                .map(|word| PathBuf::from(&word.0))
                .map(|path| std::path::absolute(&path).unwrap_or(path)),
            interval: options.interval,
            python_path: std::env::var_os("PYTHONPATH"),
        };
        (surround, problem)
    }

    /// As an earlier front of the session has set it up.
    pub(crate) fn found(memory: &HandoverState) -> ProbeSetup {
        let directories = memory.directories();
        let place = directories
            .runtime
            .as_deref()
            .zip(directories.probe_socket());
        ProbeSetup {
            probe: place
                .filter(|_| memory.config.probe)
                .map(|(directory, socket)| ProbeInPlace {
                    installed: Installed::found(directory),
                    socket,
                }),
            spool: memory
                .config
                .spool
                .as_ref()
                .map(|word| PathBuf::from(&word.0)),
            modules: memory.modules.as_ref().map(|word| PathBuf::from(&word.0)),
            boot: PidScope::here().boot().to_string(),
            session: memory.header.id.clone(),
            lines: memory.config.lines,
            snapshot: memory
                .config
                .snapshot
                .as_ref()
                .map(|word| PathBuf::from(&word.0)),
            interval: memory.config.interval,
            python_path: memory.python_path.clone().map(|word| word.0),
        }
    }

    /// The absolute path for snapshots.
    pub(crate) fn snapshot(&self) -> Option<&Path> {
        self.snapshot.as_deref()
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// The command that is really started: `shown` with the probe's variables.
    pub(crate) fn around(
        &self,
        shown: &CommandLine,
        run: RunNumber,
        rehearses: RehearsedStep,
    ) -> CommandLine {
        let mut command = shown.clone();
        // Without `site` nothing would remove the probe's directory from sys.path.
        if let Some(probe) = self.probe.as_ref().filter(|_| !is_without_site(shown)) {
            let inherited = shown
                .env_value(PYTHON_PATH)
                .map(|word| word.0.clone())
                .or_else(|| self.python_path.clone());
            let changes = |inherited: Option<&OsStr>| {
                probe.installed.environment(
                    ProbeWays {
                        socket: &probe.socket,
                        spool: self.spool.as_deref(),
                        modules: (self.modules.as_deref())
                            .map(|modules| (modules, self.boot.as_str())),
                    },
                    run,
                    ProbeOptions {
                        interval: self.interval,
                        lines: self.lines,
                        rehearses,
                    },
                    inherited,
                )
            };
            for EnvChange { name, value } in changes(inherited.as_deref()) {
                command.set_env(&name.to_string_lossy(), value);
            }
            // `env PYTHONPATH=src python …` would put its own in the place of ours.
            for at in CommandLayout::new(shown).assignments {
                let word = command.argv[at].as_bytes();
                let Some(theirs) = word.strip_prefix(b"PYTHONPATH=") else {
                    continue;
                };
                let ours = changes(Some(OsStr::from_bytes(theirs))).into_iter();
                let path = ours.filter(|change| change.name == *PYTHON_PATH);
                if let Some(path) = path.filter_map(|change| change.value).next() {
                    let whole = [b"PYTHONPATH=", path.as_bytes()].concat();
                    command.argv[at] = Word(OsString::from_vec(whole));
                }
            }
            let snapshot = self.snapshot.as_deref().map(Word::from);
            command.set_env(probe::SNAPSHOT_VARIABLE, snapshot);
        }
        command.set_env(SESSION_VARIABLE, Some(Word::from(&self.session)));
        command
    }
}

/// Whether the command's Python doesn't import `site` (`python -S`).
fn is_without_site(command: &CommandLine) -> bool {
    let Some(at) = CommandLayout::new(command).python_word() else {
        return false;
    };
    let mut words = command.argv.iter().skip(at + 1).map(Word::to_string_lossy);
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            return false;
        };
        // The rest of the word, or the next word, is the value of these options.
        let end = letters.find(['c', 'm', 'W', 'X']);
        if letters[..end.unwrap_or(letters.len())].contains('S') {
            return true;
        }
        match end.map(|end| (&letters[end..end + 1], letters.len() == end + 1)) {
            Some(("c" | "m", _)) => return false,
            Some((_, true)) => drop(words.next()),
            Some((_, false)) | None => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_without_site_is_left_alone() {
        for (line, without) in [
            ("python -S train.py", true),
            ("python3 -uS train.py", true),
            ("python -X dev -S -m train", true),
            ("python train.py -S", false),
            ("python -c S -S", false),
            ("python -W Sort train.py", false),
            ("torchrun train.py", false),
        ] {
            let command = CommandLine {
                argv: line.split(' ').map(Word::from).collect(),
                ..CommandLine::default()
            };
            assert_eq!(is_without_site(&command), without, "{line}");
        }
    }
}
