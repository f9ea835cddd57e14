//! Faults that need a process namespace: where the kernel gives an ordinary user none, these tests
//! say so and nothing is shown by them; `TABLE.md` names the unit tests of the same rules.

use crate::faults::staging::{OOMPH, Scene, trainer};
use std::process::{Command, Output, Stdio};

/// Runs a script as the first processes of a namespace of its own; `None` where there is none.
fn in_namespace(argv: &[&str], place: &std::path::Path) -> Option<Output> {
    let unshare = |rest: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-Urpf", "--mount-proc", "--kill-child", "--"]);
        command.args(rest).current_dir(place).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", place.join("state"));
        command.env("OOMPH", OOMPH).env("TRAINER", trainer());
        command.output()
    };
    if !unshare(&["true"]).is_ok_and(|done| done.status.success()) {
        eprintln!("the kernel gives no namespace: not tried");
        return None;
    }
    Some(unshare(argv).expect("unshare runs"))
}

#[test]
fn fault_36_as_the_first_process_of_a_container() {
    let place = tempfile::tempdir().expect("a directory");
    let trainer = trainer().display().to_string();
    for (end, status) in [("exit:7", 7), ("die:TERM", 128 + 15), ("die:KILL", 128 + 9)] {
        let argv = [
            OOMPH,
            "--no-nvml",
            "--no-record",
            &trainer,
            "storm:200",
            "say:done",
            end,
        ];
        let Some(done) = in_namespace(&argv, place.path()) else {
            return;
        };
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        // A process that is its namespace's first cannot die of its own signal.
        assert_eq!(done.status.code(), Some(status), "{said}");
        assert_eq!(done.stdout, b"done\n", "{said}");
    }
}

#[test]
fn fault_60_a_number_that_another_process_has_by_now() {
    let place = tempfile::tempdir().expect("a directory");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/pid_reuse.sh");
    if let Some(done) = in_namespace(&["sh", script], place.path()) {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            "the stranger lives\n",
            "{said}"
        );
    }
}

#[test]
fn fault_56_without_proc_the_command_runs_without_oomph() {
    let scene = Scene::new();
    let script = "mount -t tmpfs none /proc && exec \"$@\"";
    let words = ["sh", "-c", script, "sh", OOMPH, "--no-nvml", "NAME=value"];
    let argv = [
        &words[..],
        &["sh", "-c", "echo trained; test $NAME = value && exit 6"],
    ]
    .concat();
    let Some(done) = in_namespace(&argv, scene.place.path()) else {
        return;
    };
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.stdout, b"trained\n", "{said}");
    assert_eq!(done.status.code(), Some(6), "{said}");
    assert!(said.contains("running the command without oomph"), "{said}");
}

/// `systemctl stop`, the end of a login, a shutdown: each process gets it, so the training has it already.
#[test]
fn fault_138_what_a_service_manager_has_sent_to_every_process_is_not_sent_again() {
    let place = tempfile::tempdir().expect("a directory");
    let script = r#"
        soon() { n=0; until "$@"; do n=$((n + 1)); [ $n -lt 200 ] || exit 99; sleep 0.05; done; }
        has() { [ "$(cat "$2" 2>/dev/null)" = "$1" ]; }
        "$OOMPH" --no-nvml --record record.jsonl "$TRAINER" catch:TERM:count touch:ready until:go &
        soon [ -e ready ]
        kill -TERM -1
        soon has 1 count-15
        soon grep -q 'signal 15 was not passed on' record.jsonl
        : >go
        wait $!
        status=$?
        echo "$(cat count-15) $status"
    "#;
    if let Some(done) = in_namespace(&["sh", "-c", script], place.path()) {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(told, "1 0\n", "{said}");
    }
}

/// A signal of the first process to oomph alone, as of a container's script that ends its command.
#[test]
fn fault_138_what_the_first_process_sends_to_oomph_alone_is_passed_on() {
    let place = tempfile::tempdir().expect("a directory");
    let script = r#"
        "$OOMPH" --no-nvml --no-record "$TRAINER" touch:ready until:never &
        n=0; until [ -e ready ]; do n=$((n + 1)); [ $n -lt 200 ] || exit 99; sleep 0.05; done
        kill -TERM $!
        wait $!
        echo $?
    "#;
    if let Some(done) = in_namespace(&["sh", "-c", script], place.path()) {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&done.stdout), "143\n", "{said}");
    }
}
