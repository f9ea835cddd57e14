//! File descriptors ran out, not memory: workers pass each tensor on as an open file.

use super::finding::because;
use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::oom::OomSign;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("open files", examine).of_host("file descriptors ran out, not GPU memory");

fn examine(case: &OomContext) -> Option<Finding> {
    case.host_sign()
        .filter(|sign| *sign == OomSign::Descriptors)?;
    let what = "File descriptors ran out, not memory";
    let finding = HostFigures::of_or_text(case, Cause::OpenFiles, Certainty::Certain, what);
    Some(
        finding
            .says("Each tensor that a worker passes on is an open file of the main process until it is freed.")
            .advises([
                because(
                    "torch.multiprocessing.set_sharing_strategy(\"file_system\")",
                    "it shares by names, without open files; it takes as much of /dev/shm",
                ),
                "a higher limit: ulimit -n 65536, or docker run --ulimit nofile=65536".into(),
                "no tensors kept in lists by the main process as the workers passed them on".into(),
            ]),
    )
}
