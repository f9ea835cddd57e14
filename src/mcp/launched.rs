//! Sessions that were started on an agent's behalf: each by an oomph of its own, in a session of its own, so that it goes on
//! when the server ends. Only these may be stopped from here.

use crate::query::{recordings, sessions};
use crate::{recording, supervise};
use nix::unistd::setsid;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is read of an oomph's words before its session begins.
const MOST_WORDS: u64 = 64 << 10;

/// How long a session may take, once it has a name, until others find it.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// Whether others find a session: its keeper answers, and its recording has begun.
fn is_found(id: &str) -> bool {
    let recorded = recordings::find_session(id);
    let has_begun = recorded.is_ok_and(|path| recording::header(&path).is_some());
    let mut living = sessions::living().into_iter();
    has_begun && living.any(|living| living.found.id == id && living.status.is_some())
}

#[derive(Default)]
pub(super) struct LaunchedSessions(Mutex<Vec<String>>);

impl LaunchedSessions {
    pub fn has(&self, session: &str) -> bool {
        let started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.iter().any(|id| id == session)
    }

    /// Starts this binary with these words behind `--headless --announce`, in a directory; returns the session's name.
    ///
    /// # Errors
    /// No session began: what it said.
    pub fn start<W: AsRef<OsStr>>(&self, words: &[W], directory: &Path) -> Result<String, String> {
        if supervise::is_below_another() {
            return Err("the server runs below another oomph, which watches all that it starts; start the server by itself".into());
        }
        if let Some(lack) = supervise::lacking() {
            return Err(format!("{lack}; nothing was started"));
        }
        let itself = match std::fs::exists("/proc/self/exe") {
            Ok(true) => PathBuf::from("/proc/self/exe"),
            Ok(false) | Err(_) => std::env::current_exe().map_err(|error| error.to_string())?,
        };
        let mut command = Command::new(itself);
        command
            .arg0("oomph")
            .args(["--headless", "--announce", "--on-oom", "exit"])
            .args(words)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // SAFETY: one system call, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| setsid().map(drop).map_err(Into::into));
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("oomph could not be started: {error}"))?;
        let mut said = Vec::new();
        let mut session = None;
        if let Some(stderr) = child.stderr.take() {
            for line in BufReader::new(stderr.take(MOST_WORDS))
                .lines()
                .map_while(Result::ok)
            {
                match line.strip_prefix(crate::live::ANNOUNCES) {
                    Some(id) => session = Some(id.trim().to_string()),
                    None => said.push(line),
                }
            }
        }
        if let Some(id) = &session {
            let began = Instant::now();
            while !is_found(id)
                && began.elapsed() < FOUND_WITHIN
                && matches!(child.try_wait(), Ok(None))
            {
                std::thread::sleep(LOOK);
            }
        }
        // Whoever starts a process waits for it, or it stays as a zombie.
        let reaped = std::thread::Builder::new().name("mcp-started".into());
        let _ = reaped.spawn(move || child.wait());
        match session {
            Some(id) => {
                self.0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(id.clone());
                Ok(id)
            }
            None if said.is_empty() => Err("no session began, and oomph did not say why".into()),
            None => Err(said.join("\n")),
        }
    }
}
