//! What a program says that it has handled.

use crate::oom::OomOutcome;
use crate::oom::fixture::one;

#[test]
fn what_the_line_says_is_handled_is_caught() {
    let message = "CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 29.25 GiB reserved in total by PyTorch)";
    for text in [
        format!("Runtime error during autotuning: \n{message}. \nIgnoring this choice."),
        format!("WARNING: {message}; skipping batch"),
        format!("attempting to recover from OOM: {message}"),
    ] {
        assert_eq!(one(&text).outcome, OomOutcome::Caught, "{text}");
    }
    assert_eq!(one(message).outcome, OomOutcome::Unknown);
}
