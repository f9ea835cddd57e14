//! What whoever has started oomph learns of the training, and what its neighbours in a pipeline do: as without oomph.

use crate::harness::{PATIENCE, at_home, wait_until};
use nix::libc;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn oomph(state: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    at_home(&mut command, state).stdin(Stdio::null());
    command.args(["--no-nvml", "--no-probe"]).args(words);
    command
}

/// Waits for it; the CPU time in microseconds and the most memory in KiB that it and its children have had.
fn usage(child: &Child) -> (i64, i64) {
    // SAFETY: a zeroed structure of numbers, which the kernel fills.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        let mut status = 0;
        let pid = child.id() as i32;
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut used), pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        used
    };
    let micros = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    (
        micros(used.ru_utime) + micros(used.ru_stime),
        used.ru_maxrss,
    )
}

/// By `time`, a scheduler's accounting, a harness of benchmarks. A process that the training leaves behind changes
/// nothing, where it has no output to be waited for.
#[test]
fn what_the_training_has_used_counts_for_who_waits() {
    let state = TempDir::new().expect("a directory");
    let script = "x = bytearray(200 << 20)
import subprocess, time
none = subprocess.DEVNULL
subprocess.Popen(['sleep', '5'], stdin=none, stdout=none, stderr=none)
while time.process_time() < 1: pass";
    let child = oomph(state.path(), &["python3", "-c", script]).spawn();
    let (cpu, memory) = usage(&child.expect("oomph runs"));
    assert!(cpu >= 1_000_000, "{cpu} µs");
    assert!(memory >= 200 << 10, "{memory} KiB");
}

/// In a container process 1 may not reap what falls to it.
#[test]
fn no_process_of_oomphs_is_left_to_be_reaped() {
    let state = TempDir::new().expect("a directory");
    let script = "
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(sys.argv[1:])
print(open('/proc/self/task/%d/children' % __import__('os').getpid()).read())";
    let mut command = Command::new("python3");
    at_home(&mut command, state.path())
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_oomph"),
            "--no-nvml",
            "true",
        ])
        .stdin(Stdio::null());
    let done = command.output().expect("python runs");
    assert!(done.status.success());
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "");
}

/// As without oomph: it is told by SIGPIPE, while the program goes on.
#[test]
fn who_writes_to_a_program_that_has_closed_its_input_is_told() {
    let state = TempDir::new().expect("a directory");
    let path = |name: &str| state.path().join(name);
    let script = "read line; exec </dev/null; touch closed; while ! test -e go; do sleep 0.02; done; echo $line";
    let mut yes = Command::new("yes")
        .stdout(Stdio::piped())
        .spawn()
        .expect("yes runs");
    let mut child = oomph(state.path(), &["sh", "-c", script])
        .current_dir(state.path())
        .stdin(yes.stdout.take().expect("a pipe"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    wait_until("the input is closed", PATIENCE, || path("closed").exists());
    let mut status = None;
    wait_until("the writer is told", PATIENCE, || {
        status = yes.try_wait().expect("it is ours");
        status.is_some()
    });
    assert_eq!(
        status.and_then(|status| status.signal()),
        Some(libc::SIGPIPE)
    );
    assert!(child.try_wait().expect("it is ours").is_none());
    fs::write(path("go"), "").expect("a file");
    let done = child.wait_with_output().expect("it ends");
    assert!(done.status.success());
    assert_eq!(done.stdout, b"y\n");
}
