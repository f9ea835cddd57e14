//! Runs the command without oomph if the system doesn't have enough resources for oomph beside it:
//! the training comes first. This process becomes the command, as `env` and `nohup` do.

use super::inherited::inherited;
use super::keeper::environment;
use super::missing::Missing;
use super::resolve::resolve;
use crate::command::CommandLine;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::execve;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The minimum that front, screen, recording and probe need; the keeper has its own.
const DESCRIPTORS: usize = 28;

/// The processes and threads of front, keeper and probe, and a few for the command's own.
const TASKS: usize = 24;

/// The stack of a thread that only waits.
const TASK_STACK: usize = 32 << 10;

/// The main thread's stack: the screen and the command line's parser need some hundred KiB.
const STACK: u64 = 1 << 20;

/// What oomph needs and the system doesn't have; `None` if nothing is missing. Call it before any thread
/// is started.
pub fn lacking() -> Option<String> {
    if std::fs::metadata("/proc/self/exe").is_err() {
        return Some("/proc is not mounted".into());
    }
    // Tried rather than read from the limit, because those that are already open count as well.
    let mut opened = Vec::with_capacity(DESCRIPTORS);
    while opened.len() < DESCRIPTORS {
        match File::open("/dev/null") {
            Ok(file) => opened.push(file),
            Err(error) => return Some(format!("{error}; `ulimit -n` says how many")),
        }
    }
    drop(opened);
    if has_small_stack() {
        return Some("the stack is too small for oomph (see `ulimit -s`)".into());
    }
    let error = begin_tasks().err()?;
    Some(format!(
        "too few processes for oomph beside the command ({error}; see `ulimit -u`)"
    ))
}

/// Whether this process's stack is too small for the front.
pub fn has_small_stack() -> bool {
    getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(soft, _)| soft < STACK)
}

/// Tries whether as many tasks may exist at a time as oomph needs. Threads, because they count like
/// processes and cost less.
fn begin_tasks() -> io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let mut begun = Vec::with_capacity(TASKS);
    let mut outcome = Ok(());
    while begun.len() < TASKS && outcome.is_ok() {
        let gate = gate.clone();
        let task = std::thread::Builder::new().stack_size(TASK_STACK);
        match task.spawn(move || drop(gate.lock())) {
            Ok(thread) => begun.push(thread),
            Err(error) => outcome = Err(error),
        }
    }
    drop(closed);
    for thread in begun {
        let _ = thread.join();
    }
    outcome
}

/// Becomes the command. Returns only if that isn't possible, with the reason.
pub fn become_command(command: &CommandLine) -> Missing {
    let search = std::env::var_os("PATH");
    let path = match resolve(command, search.as_deref()) {
        Ok(path) => path,
        Err(missing) => return missing,
    };
    let c_string = |word: &OsStr| CString::new(word.as_bytes()).unwrap_or_default();
    let file = c_string(path.as_os_str());
    let argv: Vec<CString> = command.argv.iter().map(|word| c_string(&word.0)).collect();
    let environment = environment::for_exec(environment::changed(
        std::env::vars_os().collect(),
        &command.env,
    ));
    inherited().ignore_again();
    inherited().block_again();
    // SAFETY: this process does nothing more with its streams.
    unsafe { inherited().close_again([false; 3]) };
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
