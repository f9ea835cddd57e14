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
