//! The program's place among process groups and sessions: that of a command of a script, or of a shell's job.

use crate::faults::staging::{Scene, Training};
use crate::harness::{Key, PATIENCE};
use oomph::event::Exit;

const SUCCESS: Exit = Exit::Code(0);

/// Without a terminal, on one without the screen, on the screen.
const WAYS: [fn(Scene, &[&str]) -> Training; 3] = [
    |scene, words| scene.run_headless(words),
    |scene, words| scene.option("--headless").run_at_terminal(words),
    |scene, words| scene.run_at_terminal(words),
];

/// As a line of a script, which tells its status.
fn in_a_script() -> Scene {
    Scene::new().before("set -- sh -c '\"$@\"; exit $?' sh \"$@\"")
}

/// A program that says what it leads, and makes something of its own.
fn making(call: &str) -> String {
    format!(
        "import os\n\
         print('leads', os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0))\n\
         os.{call}\n\
         print('made')"
    )
}

/// Launchers of DDP do this first, under cron, CI or SLURM.
#[test]
fn fault_115_a_program_of_a_script_may_make_a_group_or_a_session() {
    for call in ["setpgrp()", "setpgid(0, 0)", "setsid()"] {
        for way in WAYS {
            let mut training = way(in_a_script(), &["python3", "-c", &making(call)]);
            training.finish(SUCCESS);
            let said = String::from_utf8(training.log()).expect("text");
            assert_eq!(said, "leads False False\nmade\n", "{call}");
        }
    }
}

#[test]
fn fault_115_a_job_of_a_shell_has_a_group_of_its_own() {
    for way in WAYS {
        let mut training = way(Scene::new(), &["python3", "-c", &making("setpgrp()")]);
        training.finish(SUCCESS);
        let said = String::from_utf8(training.log()).expect("text");
        assert_eq!(said, "leads True False\nmade\n");
    }
}

/// It waits for its command only where it doesn't lead a group.
#[test]
fn fault_115_setsid_in_a_script_tells_its_commands_status() {
    let waits = "until [ -e go ]; do sleep 0.01; done; exit 3";
    for way in WAYS {
        let mut training = way(in_a_script(), &["setsid", "sh", "-c", waits]);
        training.make("go");
        training.finish(Exit::Code(3));
    }
}

/// The terminal's foreground is the group that it has left.
#[test]
fn fault_115_ctrl_c_reaches_a_program_that_has_left_its_group() {
    let program = "import os, time\n\
                   os.setpgrp()\n\
                   try:\n print('<<HERE>>', flush=True); time.sleep(600)\n\
                   except KeyboardInterrupt: print('interrupted')";
    let mut training = in_a_script().run_at_terminal(&["python3", "-c", program]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.finish(SUCCESS);
    assert_eq!(training.log(), b"<<HERE>>\ninterrupted\n");
}

/// The leader of the session is in that group.
#[test]
fn fault_115_a_program_may_kill_its_group() {
    for way in WAYS {
        let killing = "echo first; kill -KILL 0";
        let mut training = way(in_a_script(), &["sh", "-c", killing]);
        training.finish(Exit::Code(137));
        assert_eq!(training.log(), b"first\n");
    }
}
