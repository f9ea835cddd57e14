//! The demo's own tests: the simulated allocator's arithmetic, its scenarios, where the demo runs.

use std::process::Command;

#[test]
fn the_simulated_gpu_passes_its_own_tests() {
    let done = Command::new("python3")
        .args(["-m", "unittest", "discover", "-s", "tests/demo"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}

#[test]
fn no_scenario_ends_with_an_error_of_the_probes_own() {
    for scenario in ["capacity", "eval", "fragmentation"] {
        let state = tempfile::tempdir().expect("a directory");
        let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
        let done = Command::new(env!("CARGO_BIN_EXE_oomph"))
            .args([
                "--headless",
                "--no-nvml",
                "--on-oom",
                "exit",
                "python3",
                demo,
            ])
            .args(["--simulated", "--batch-size", "64", "--scenario", scenario])
            .env("XDG_STATE_HOME", state.path())
            .env("OOMPH_SIMULATED_SPEED", "8")
            .output()
            .expect("oomph runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("out of memory"), "{scenario}: {said}");
        let sessions = std::fs::read_dir(state.path().join("oomph/sessions")).expect("sessions");
        let recording = sessions.flatten().next().expect("a session").path();
        let text = std::fs::read_to_string(recording.join("events.jsonl")).expect("a recording");
        let errors: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("\"probe_errors\""))
            .collect();
        assert!(errors.is_empty(), "{scenario}: {errors:?}");
    }
}

#[test]
fn activation_checkpointing_lets_the_demos_batch_fit() {
    let state = tempfile::tempdir().expect("a directory");
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
    let done = Command::new(env!("CARGO_BIN_EXE_oomph"))
        .args(["--headless", "--no-nvml", "OOMPH_PATCHES=recompute"])
        .args(["python3", demo, "--simulated", "--batch-size", "64"])
        .args(["--steps", "3"])
        .env("XDG_STATE_HOME", state.path())
        .env("OOMPH_SIMULATED_SPEED", "8")
        .output()
        .expect("oomph runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}
