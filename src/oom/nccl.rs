//! Messages of NCCL, whose buffers are outside PyTorch's allocator.

use super::compact::{find, number_at_start, size_after};
use super::kind::OomKind;
use super::report::OomReport;
use super::wording::{CompactLine, Continuation, MessageForm, OomReading, form_at};

/// checks.h: `Cuda failure 'out of memory'` (2.18), `Cuda failure 2 'out of memory'` (later).
const FAILURES: [&str; 2] = ["Cudafailure'outofmemory'", "Cudafailure2'outofmemory'"];

/// alloc.h: `Failed to CUDA calloc %ld bytes`, `malloc`, `host alloc`, `calloc async`.
const REFUSED: &str = "FailedtoCUDA";

/// NCCL's own warnings, or the last error that PyTorch's `DistBackendError` repeats.
pub(super) fn read(text: &CompactLine) -> Option<OomReading> {
    let warning = text.compact.contains("NCCLWARN");
    let failure = FAILURES.iter().find_map(|words| find(&text.compact, words));
    let refused = find(&text.compact, REFUSED).filter(|_| warning);
    let at = failure.or(refused)?;
    let form = form_at(text, at)?;
    let requested = refused.and_then(|at| {
        let clause = &text.compact[at..];
        ["async", "calloc", "malloc", "hostalloc"]
            .iter()
            .find_map(|verb| size_after(clause, verb))
    });
    Some(OomReading {
        report: OomReport {
            kind: OomKind::Nccl,
            device: device(&text.compact),
            requested,
            ..OomReport::default()
        },
        form,
        more: (warning && requested.is_none()).then_some(Continuation::Nccl),
    })
}

/// The device in `host:pid:tid [3] …`.
fn device(compact: &str) -> Option<u32> {
    compact.match_indices('[').find_map(|(at, _)| {
        let thread = compact[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        let after_thread = thread.len() < at && thread.ends_with(':');
        let (device, after) = number_at_start(&compact[at + 1..])?;
        (after_thread && after.starts_with(']')).then_some(device)
    })
}

/// Whether NCCL reports a CUDA failure with another reason (`Cuda failure 1 'invalid argument'`):
/// the refused allocation that it reports next is then no OOM.
pub(super) fn failed_otherwise(text: &CompactLine) -> bool {
    let reason = find(&text.compact, "Cudafailure").map(|at| &text.compact[at..]);
    reason
        .is_some_and(|reason| reason.matches('\'').count() > 1 && !reason.contains("'outofmemory'"))
}

/// Whether `found` is only a refused allocation; the line before has the reason.
pub(super) fn is_refusal(found: &OomReading) -> bool {
    found.report.kind == OomKind::Nccl
        && found.report.requested.is_some()
        && found.form == MessageForm::Logged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::fixture::{none, one, reports, size};
    use crate::units::Rank;

    #[test]
    fn two_warnings_are_one_message() {
        let expected = OomReport {
            kind: OomKind::Nccl,
            device: Some(5),
            requested: size("10485760 bytes"),
            ..OomReport::default()
        };
        for failure in [
            "Cuda failure 'out of memory'",
            "Cuda failure 2 'out of memory'",
        ] {
            let text = format!(
                "node7:811:902 [5] include/alloc.h:178 NCCL WARN {failure}\n\nnode7:811:902 [5] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 10485760 bytes\nnode7:811:902 [5] NCCL INFO transport/p2p.cc:204 -> 1\n"
            );
            assert_eq!(one(&text), expected);
        }
        let alone = "node7:811:902 [5] include/alloc.h:185 NCCL WARN Failed to CUDA calloc async 10485760 bytes";
        assert_eq!(one(alone), expected);
    }

    #[test]
    fn torch_repeats_the_last_error() {
        let text = "[rank2]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:9, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n[rank2]: ncclUnhandledCudaError: Call to CUDA function failed.\n[rank2]: Last error:\n[rank2]: Cuda failure 2 'out of memory'\n";
        let expected = OomReport {
            kind: OomKind::Nccl,
            rank: Some(Rank(2)),
            ..OomReport::default()
        };
        assert_eq!(one(text), expected);
        let warned = format!(
            "node7:811:902 [5] include/alloc.h:178 NCCL WARN Cuda failure 2 'out of memory'\n{text}"
        );
        assert_eq!(reports(&warned).len(), 1);
    }

    #[test]
    fn another_failure_is_no_shortage() {
        none(
            "(w pid=7) node7:811:902 [0] include/alloc.h:102 NCCL WARN Cuda failure 1 'invalid argument'\n(w pid=7) node7:811:902 [0] include/alloc.h:110 NCCL WARN Failed to CUDA calloc 4096 bytes\n",
        );
        none(
            "node7:811:902 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer",
        );
    }
}
