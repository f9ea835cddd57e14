//! Somebody else on the machine: what is named and never touched.

use std::process::{Child, Command, Stdio};

/// A process of somebody else's, gone with the test.
pub struct Stranger(pub Child);

impl Stranger {
    pub fn start() -> Stranger {
        let child = Command::new("sleep")
            .arg("1000")
            .stdout(Stdio::null())
            .spawn();
        Stranger(child.expect("a stranger"))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
