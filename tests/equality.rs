//! Programs bare and under oomph, byte for byte: the part of `equality/compare.py` that needs only python3, perl, bash and make,
//! and a few seconds.

use std::path::Path;
use std::process::Command;

#[test]
fn programs_are_the_same_under_oomph_byte_for_byte() {
    let compare = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/equality/compare.py");
    let compared = Command::new("python3")
        .arg(compare)
        .args(["--fast", "--jobs=4", "--oomph"])
        .arg(env!("CARGO_BIN_EXE_oomph"))
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&compared.stdout);
    let failed = String::from_utf8_lossy(&compared.stderr);
    assert!(compared.status.success(), "{said}{failed}");
    // Not fewer, because rows were lost.
    let programs = said.lines().last().and_then(|line| line.split(' ').next());
    let programs: usize = programs.and_then(|number| number.parse().ok()).unwrap_or(0);
    assert!(programs >= 20, "{said}");
}
