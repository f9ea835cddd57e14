//! How runs end, and how they fail to begin.

use crate::supervise::stage::*;
use nix::libc;
use oomph::event::Exit;
use oomph::supervise::{KeeperReport, exit_like};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

#[test]
fn every_exit_code_comes_through() {
    let mut stage = Casting::silent().start();
    for code in 0..=255 {
        let outcome = stage.run(&["sh", "-c", &format!("exit {code}")]);
        assert_eq!(outcome.exit, Some(Exit::Code(code)));
    }
    stage.finish();
}

#[test]
fn every_deadly_signal_comes_through() {
    let mut stage = Casting::silent().start();
    for signal in [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15] {
        let outcome = stage.run(&[
            "sh",
            "-c",
            &format!("ulimit -c 0; kill -{signal} $$; sleep 60"),
        ]);
        assert_eq!(outcome.exit, Some(Exit::Signal(signal)));
    }
    stage.finish();
}

#[test]
fn a_stop_is_no_end() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = format!(
        "kill -STOP $$; while ! test -e {}; do sleep 0.02; done; exit 7",
        go.display()
    );
    let mut stage = Casting::silent().start();
    let pid = stage.launch_and_see(&["sh", "-c", &script]);
    stage.until(|report| match report {
        KeeperReport::Suspended { signal } => (*signal == libc::SIGSTOP).then_some(()),
        _ => None,
    });
    kill(pid.0, libc::SIGCONT);
    stage.until(|report| matches!(report, KeeperReport::Resumed).then_some(()));
    std::fs::write(go, "").unwrap();
    assert_eq!(stage.outcome().exit, Some(Exit::Code(7)));
    stage.finish();
}

/// The end of this very process, for the test below.
#[test]
#[ignore = "ends the process; run by the test of exit_like"]
fn end_as_told() {
    let Ok(told) = std::env::var("END_AS") else {
        return;
    };
    exit_like(serde_json::from_str(&told).unwrap());
}

#[test]
fn we_end_as_the_trainer_ended() {
    let ends = [0, 1, 2, 125, 126, 127, 128, 255].map(Exit::Code);
    let signals = [1, 2, 3, 6, 9, 11, 13, 15].map(Exit::Signal);
    for exit in ends.into_iter().chain(signals) {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "supervise::ends::end_as_told",
                "--ignored",
                "--nocapture",
            ])
            .env("END_AS", serde_json::to_string(&exit).unwrap())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(Exit::from_raw(status.into_raw()), Some(exit));
        assert!(!status.core_dumped());
    }
}

#[test]
fn what_cannot_be_executed_is_told_from_what_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str, content: &str, mode: u32| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_string()
    };
    let here = directory.path().to_str().unwrap().to_string();
    let plain = make("plain.py", "", 0o644);
    let orphan = make("orphan", "#!/no/such/python\n", 0o755);
    let binary = make("binary", "\x7fELF\x01\0\0\0", 0o755);
    let mut stage = Casting::silent().start();
    for (program, errno, status, words) in [
        (
            "no-such-program-anywhere",
            libc::ENOENT,
            127,
            "not found in PATH",
        ),
        ("/no/such/file", libc::ENOENT, 127, "no such file"),
        (&here, libc::EACCES, 126, "is a directory"),
        (&plain, libc::EACCES, 126, "put python before it"),
        (
            &orphan,
            libc::ENOENT,
            127,
            "its interpreter /no/such/python is missing",
        ),
        (
            &binary,
            libc::ENOEXEC,
            126,
            "not a program that this machine can run",
        ),
    ] {
        let outcome = stage.run(&[program]);
        let (found_errno, found_status, reason) = outcome.failed.unwrap();
        assert_eq!((found_errno, found_status), (errno, status), "{reason}");
        assert!(reason.contains(words), "{reason}");
        assert!(reason.contains(program), "{reason}");
    }
    // None of that was anything but a failure to begin: the keeper goes on.
    assert_eq!(stage.run(&["true"]).exit, Some(Exit::Code(0)));
    stage.finish();
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    std::fs::write(&path, "exit $1\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut stage = Casting::silent().start();
    let outcome = stage.run(&[path.to_str().unwrap(), "9"]);
    assert_eq!(outcome.exit, Some(Exit::Code(9)));
    stage.finish();
}
