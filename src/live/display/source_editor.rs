//! The user's editor at a line of source, in the place of the screen. As with Ctrl-Z this process waits meanwhile, and
//! the keeper goes on with the training. The editor is a job of its own in the terminal's foreground, as a shell would start
//! it: its Ctrl-C is not the training's.

use super::keyboard;
use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, killpg, pthread_sigmask, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, setpgid, tcsetpgrp};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What opens a line where nothing is set.
const USUAL: &str = "vi";

/// Opens a file at a line and returns when the editor has ended. The screen must have left the terminal.
///
/// # Errors
/// Why nothing was opened, in words.
pub(crate) fn open(file: &str, line: u32) -> Result<(), String> {
    if !Path::new(file).is_file() {
        return Err(format!("{file}:{line} is not on this machine"));
    }
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = set("VISUAL")
        .or_else(|| set("EDITOR"))
        .unwrap_or(USUAL.into());
    let words =
        words(&editor, file, line).ok_or_else(|| format!("$EDITOR is no command: {editor}"))?;
    run(&words).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{}: not found; set $EDITOR to open {file}:{line}", words[0])
        }
        _ => format!("{}: {error}; the line is {file}:{line}", words[0]),
    })
}

/// The editor's command: most take `+LINE FILE`, as vi does.
fn words(editor: &str, file: &str, line: u32) -> Option<Vec<String>> {
    let mut words = shlex::split(editor).filter(|words| !words.is_empty())?;
    let name = Path::new(&words[0]).file_name().and_then(OsStr::to_str)?;
    let at = format!("{file}:{line}");
    match name {
        "hx" | "helix" | "zed" | "subl" => words.push(at),
        "code" | "codium" | "code-insiders" | "cursor" => words.extend(["--goto".into(), at]),
        _ => words.extend([format!("+{line}"), file.to_string()]),
    }
    Some(words)
}

fn run(words: &[String]) -> io::Result<()> {
    let tty = File::options().read(true).write(true).open("/dev/tty")?;
    // Until it is over no key is ours.
    let _resting = keyboard::rest();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(tty.try_clone()?)
        .stdout(tty.try_clone()?)
        .stderr(tty.try_clone()?);
    let for_child = tty.try_clone()?;
    // SAFETY: only system calls that are safe after a fork: its own group, the foreground, and the signals that this
    // process handles by itself.
    unsafe {
        command.pre_exec(move || {
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
            // From the background this would stop it.
            let stops = SigSet::from(Signal::SIGTTOU);
            pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&stops), None)?;
            tcsetpgrp(&for_child, nix::unistd::getpid())?;
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
            signal(Signal::SIGTSTP, SigHandler::SigDfl)?;
            Ok(())
        });
    }
    let child = command.spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    wait(pid);
    take_foreground(&tty);
    Ok(())
}

/// Waits for its end. Nobody could continue it once it has stopped itself, so it goes on.
fn wait(pid: Pid) {
    loop {
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(..)) => {
                let _ = killpg(pid, Signal::SIGCONT);
            }
            Err(Errno::EINTR) => {}
            // Where the kernel reaps for process 1 the end is an error.
            Ok(_) | Err(_) => return,
        }
    }
}

/// Takes the terminal back from the background, which needs SIGTTOU blocked.
fn take_foreground(tty: &File) {
    let stops = SigSet::from(Signal::SIGTTOU);
    let mut before = SigSet::empty();
    let blocked = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&stops), Some(&mut before));
    let _ = tcsetpgrp(tty.as_fd(), getpgrp());
    if blocked.is_ok() {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_editor_is_told_the_line_as_it_wants_to_be() {
        for (editor, expected) in [
            ("vim", &["vim", "+88", "/w/a b.py"][..]),
            (
                "emacsclient -nw",
                &["emacsclient", "-nw", "+88", "/w/a b.py"],
            ),
            ("/usr/bin/hx", &["/usr/bin/hx", "/w/a b.py:88"]),
            ("code --wait", &["code", "--wait", "--goto", "/w/a b.py:88"]),
        ] {
            let words = words(editor, "/w/a b.py", 88);
            assert_eq!(words.expect("a command"), expected, "{editor}");
        }
        assert_eq!(words("vim 'x", "/w/a.py", 1), None);
        assert_eq!(words("''", "/w/a.py", 1), None);
    }

    #[test]
    fn a_file_that_is_not_here_is_said_so() {
        let why = open("/no/such/file.py", 3).expect_err("a reason");
        assert_eq!(why, "/no/such/file.py:3 is not on this machine");
    }
}
