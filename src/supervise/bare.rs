//! The command without oomph, for a system that gives oomph too little to run beside it: the
//! training comes first. This process becomes the command, as `env` and `nohup` do.

use super::inherited::inherited;
use super::missing::Missing;
use super::resolve::resolve;
use crate::command::CommandLine;
use nix::errno::Errno;
use nix::libc;
use nix::unistd::execve;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Descriptors that front, screen, recording and probe need at least; the keeper has its own.
const DESCRIPTORS: usize = 28;

/// What the system lacks for oomph to run beside a command; `None` where it has enough.
pub fn lacking() -> Option<String> {
    if std::fs::metadata("/proc/self/exe").is_err() {
        return Some("/proc is not mounted".into());
    }
    // Tried, not read from the limit: how many are open already counts as well.
    let mut opened = Vec::with_capacity(DESCRIPTORS);
    while opened.len() < DESCRIPTORS {
        match File::open("/dev/null") {
            Ok(file) => opened.push(file),
            Err(error) => return Some(format!("{error}; `ulimit -n` says how many")),
        }
    }
    None
}

/// Becomes the command. Returns only where that is not possible: why.
pub fn become_command(command: &CommandLine) -> Missing {
    let search = std::env::var_os("PATH");
    let path = match resolve(command, search.as_deref()) {
        Ok(path) => path,
        Err(missing) => return missing,
    };
    let c_string = |word: OsString| CString::new(word.into_vec()).unwrap_or_default();
    let file = c_string(path.clone().into());
    let argv: Vec<CString> = (command.argv.iter())
        .map(|word| c_string(word.0.clone()))
        .collect();
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for change in &command.env {
        environment.retain(|(name, _)| *name != change.name.0);
        if let Some(value) = &change.value {
            environment.push((change.name.0.clone(), value.0.clone()));
        }
    }
    let environment: Vec<CString> = environment
        .into_iter()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(name)
        })
        .collect();
    as_we_were_started();
    let Err(errno) = execve(&file, &argv, &environment);
    let errno = match errno {
        // As execvp: a file without a first line that says so is the shell's.
        Errno::ENOEXEC => {
            let mut words = vec![c"sh".to_owned(), file];
            words.extend(argv.into_iter().skip(1));
            let Err(errno) = execve(c"/bin/sh", &words, &environment);
            errno
        }
        errno => errno,
    };
    Missing::explain(Path::new(&command.cwd), &path, errno as i32)
}

/// Signals and streams as they were found: Rust's runtime and oomph have changed some.
fn as_we_were_started() {
    let found = inherited();
    // SAFETY: no handlers, and descriptors that nobody uses in what follows.
    unsafe {
        for signal in 1..=64 {
            let action = match found.is_ignored(signal) {
                true => libc::SIG_IGN,
                false => libc::SIG_DFL,
            };
            libc::signal(signal, action);
        }
        for (number, closed) in (0..).zip(found.closed()) {
            if closed {
                libc::close(number);
            }
        }
    }
}
