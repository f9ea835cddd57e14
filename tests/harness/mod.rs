//! A terminal of our own for the real binary, and eyes for its processes.
//!
//! A [`Terminal`] is a pseudo-terminal with an emulator
//! behind it: a test waits for what a person would see, presses keys, resizes, hangs up, and looks
//! whether the terminal was left as it was found. Nothing here waits for ever, and nothing that was
//! started outlives the test: every process carries a marker in its environment.

pub mod frames;
pub mod keys;
pub mod processes;
pub mod schema;
mod signals;
mod stranger;
pub mod terminal;

pub use keys::Key;
pub use processes::Marker;
pub use stranger::Stranger;
pub use terminal::Terminal;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that is busy with other things; what is waited for
/// usually comes within milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Gives oomph directories of its own in `home`, whatever is set where the tests are started.
pub fn at_home<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command
        .env("XDG_STATE_HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("OOMPH_STATE_DIR")
        .env("OOMPH_RUNTIME_DIR", home.join("run"))
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
}

/// Looks again and again until `condition` holds; fails with `what` where it does not in time.
pub fn wait_until(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "waited {patience:?} in vain for: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
