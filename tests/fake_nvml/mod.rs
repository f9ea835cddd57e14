//! Builds the made-up `libnvidia-ml.so.1` and tells it what to say.
//!
//! [`Fake::new`] makes one; the program under test is
//! pointed at [`Fake::library`]. The library reads its file `control` anew at every call, so a test
//! changes its mind with [`Fake::say`] while the program runs. One setting a line, numbers decimal:
//!
//! | line | meaning |
//! |---|---|
//! | `devices N` | how many devices there are (1) |
//! | `uuid DEVICE TEXT` | a device's UUID (`GPU-0…0DEVICE`) |
//! | `driver TEXT` | the driver's version |
//! | `total BYTES`, `reserved BYTES` | of every device (24 GiB, 600 MiB) |
//! | `used DEVICE BYTES` | what is in use (0) |
//! | `falls DEVICE MS BYTES` | so long after the file was written, BYTES is in use instead |
//! | `process DEVICE PID [BYTES]` | a computing process; without BYTES its memory is "not available" |
//! | `graphics DEVICE PID [BYTES]` | a drawing process |
//! | `holds DEVICE PID BYTES` | a computing process that is there, with its bytes in use, while PID lives |
//! | `processes N` | every list of processes claims to have N entries |
//! | `busy PERCENT` | utilization (50) |
//! | `lost DEVICE` | every call on that device says that it is lost |
//! | `unreachable DEVICE` | no handle for that device: it is lost |
//! | `mig DEVICE N` | the device is cut into N slices (0: MIG is off but known) |
//! | `error CALL CODE` | that call returns CODE (`nvmlReturn_t`: 4 no permission, 9 no driver, 18 mismatch, 999) |
//! | `hang CALL` | that call does not return while the line stands |
//! | `crash CALL` | that call writes through a null pointer |
//!
//! CALL is one of `init shutdown driver count handle uuid name memory processes graphics utilization
//! temperature power mig`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use tempfile::TempDir;

const SOURCE: &str = include_str!("libnvidia_ml.rs");

/// A library and its file, gone with this value.
pub struct Fake {
    directory: TempDir,
}

/// Functions that a library may lack, as old drivers' do.
#[derive(Clone, Copy)]
pub enum Lacking {
    /// It has all.
    Nothing,
    /// No `nvmlInit_v2`: no NVML at all.
    Init,
    /// No `nvmlDeviceGetMemoryInfo_v2`: a driver before 510.
    MemoryV2,
}

impl Fake {
    /// A library that works, with one idle device.
    pub fn new() -> Fake {
        Fake::lacking(Lacking::Nothing)
    }

    /// A library without some functions.
    pub fn lacking(lacking: Lacking) -> Fake {
        let directory = tempfile::tempdir().expect("a directory for the library");
        let fake = Fake { directory };
        // A copy, not a link: the loader takes two names of one file for one library.
        fs::copy(built(lacking), fake.library()).expect("a copy of the library");
        fake.say("");
        fake
    }

    /// The library's path.
    pub fn library(&self) -> PathBuf {
        self.directory.path().join("libnvidia-ml.so.1")
    }

    /// Tells the library what to say from now on: the whole file, all at once.
    pub fn say(&self, lines: &str) {
        let (new, control) = (self.path("control.new"), self.path("control"));
        fs::write(&new, lines).expect("the control file");
        fs::rename(new, control).expect("the control file in its place");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// The library as `rustc` built it, once for all tests of one version of its source.
fn built(lacking: Lacking) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _building = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|held| held.into_inner());
    let (name, cfg) = match lacking {
        Lacking::Nothing => ("whole", "whole"),
        Lacking::Init => ("no-init", "without_init"),
        Lacking::MemoryV2 => ("no-memory", "without_memory_v2"),
    };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = target.join(format!("fake-nvml-{name}-{:016x}.so", hash(SOURCE)));
    if library.exists() {
        return library;
    }
    // Several test binaries may come here at once: each builds its own, the last name wins.
    let workshop = tempfile::tempdir_in(target).expect("a directory to build in");
    let source = workshop.path().join("libnvidia_ml.rs");
    fs::write(&source, SOURCE).expect("the library's source");
    let output = workshop.path().join("library.so");
    let built = Command::new(rustc())
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--crate-name",
            "nvidia_ml",
        ])
        .args([
            "-C",
            "panic=abort",
            "-C",
            "debuginfo=0",
            "--cap-lints",
            "allow",
            "--cfg",
            cfg,
        ])
        .arg("-o")
        .args([&output, &source])
        .output()
        .expect("rustc builds the library");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "rustc on libnvidia_ml.rs: {said}");
    fs::rename(output, &library).expect("the library in its place");
    library
}

/// `$RUSTC`, else the one beside the cargo that runs the tests.
fn rustc() -> PathBuf {
    if let Some(rustc) = std::env::var_os("RUSTC") {
        return rustc.into();
    }
    let beside_cargo =
        std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
    beside_cargo
        .filter(|rustc| rustc.exists())
        .unwrap_or_else(|| "rustc".into())
}

/// FNV-1a: enough to tell versions of one file apart.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
