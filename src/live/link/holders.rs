//! Names the processes of an ended run that still hold a GPU. Nothing is killed after a normal end (a
//! program may leave an upload or a server behind on purpose).

use crate::units::Pid;
use std::fs;

/// A note about those of `left` that have an NVIDIA device open.
pub(crate) fn words(left: &[Pid]) -> Option<String> {
    let holders: Vec<String> = (left.iter())
        .filter(|pid| holds_gpu(**pid))
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{pid} ({})", name.trim())
        })
        .collect();
    (!holders.is_empty()).then(|| {
        format!(
            "left over from the training and still using a GPU: {}; not ended",
            holders.join(", ")
        )
    })
}

fn holds_gpu(pid: Pid) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.to_string_lossy().starts_with("/dev/nvidia"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_no_gpu_is_not_named() {
        assert_eq!(
            words(&[Pid(std::process::id() as i32), Pid(i32::MAX)]),
            None
        );
    }
}
