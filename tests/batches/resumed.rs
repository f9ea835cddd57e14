//! A run that goes on from a checkpoint which restores the batch that memory ran out with.

use super::{COMMON, oomph};
use std::fs;
use tempfile::TempDir;

/// Like an earlier Trainer: the checkpoint has the batch of the run that wrote it.
const RESTORES: &str = "\
import os, sys
from common import train
words = sys.argv
batch = int(words[words.index('--per_device_train_batch_size') + 1])
if '--resume_from_checkpoint' in words:
    batch = int(open('o/checkpoint-7/batch').read())
else:
    os.makedirs('o/checkpoint-7', exist_ok=True)
    open('o/checkpoint-7/batch', 'w').write(str(batch))
    open('o/checkpoint-7/trainer_state.json', 'w').write('{}')
train(batch)
";

#[test]
fn a_checkpoint_that_restores_the_old_batch_is_said_and_the_run_begins_anew() {
    let home = TempDir::new().expect("a directory");
    let project = TempDir::new().expect("a directory");
    for (name, text) in [("common.py", COMMON), ("run_clm.py", RESTORES)] {
        fs::write(project.path().join(name), text).expect("a file");
    }
    let done = oomph(project.path(), home.path())
        .args(["--allow", "restart", "--", "python3", "run_clm.py"])
        .args(["--output_dir", "o", "--per_device_train_batch_size", "128"])
        .output()
        .expect("oomph runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let restored = "which has restored the old batch: the model is still given 128×1024×256";
    assert!(said.contains(restored), "{said}");
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(stdout.ends_with("trained with 64 x 1\n"), "{stdout}{said}");
}
