//! Messages that are not of PyTorch's caching allocators: NCCL's, whose buffers are outside of it, those of PyTorch on
//! Apple's GPUs, and TensorFlow's, which has a shape and a type instead of a size.

use crate::oom::report::{OomKind, OomReport};
use crate::oom::wording::{
    CompactLine, Continuation, MessageForm, OomReading, find, form_at, is_prose, number_after,
    number_at_start, size_after,
};
use crate::units::Bytes;

/// checks.h: `Cuda failure 'out of memory'` (2.18), `Cuda failure 2 'out of memory'` (later).
const FAILURES: [&str; 2] = ["Cudafailure'outofmemory'", "Cudafailure2'outofmemory'"];

/// alloc.h: `Failed to CUDA calloc %ld bytes`, `malloc`, `host alloc`, `calloc async`.
const REFUSED: &str = "FailedtoCUDA";

/// NCCL's own warnings, or the last error that PyTorch's `DistBackendError` repeats.
pub(super) fn read_nccl(text: &CompactLine) -> Option<OomReading> {
    let warning = text.compact.contains("NCCLWARN");
    let failure = FAILURES.iter().find_map(|words| find(&text.compact, words));
    // PyTorch repeats the warning without NCCL's mark, on a line of its own.
    let refused = find(&text.compact, REFUSED).filter(|at| warning || *at == 0);
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

/// MPSAllocator.mm, 1.12 to 2.15. `MB`/`GB` until about 2.7 are powers of two like `MiB`/`GiB`
/// since; without a watermark its parts are missing.
const HEAD: &str = "MPSbackendoutofmemory";

pub(super) fn read_mps(text: &CompactLine) -> Option<OomReading> {
    let at = find(&text.compact, HEAD)?;
    let form = form_at(text, at)?;
    let end = at + HEAD.len();
    let clause = &text.compact[end..];
    let mut found = OomReading::whole(OomKind::MpsOom, form);
    let report = &mut found.report;
    report.requested = size_after(clause, "Triedtoallocate");
    report.allocated = size_after(clause, "MPSallocated:");
    report.limit = size_after(clause, "maxallowed:");
    report.outside = size_after(clause, "otherallocations:");
    if report.requested.is_none() && (form == MessageForm::Logged || is_prose(text, at, end)) {
        return None;
    }
    let finished = ["privatepool", "sharedpool"]
        .iter()
        .any(|pool| clause.contains(pool));
    found.more = (!finished).then_some(Continuation::Allocator);
    Some(found)
}

const TENSORFLOW: &str = "OOMwhenallocatingtensorwithshape[";

/// `OOM when allocating tensor with shape[8,16] and type float on
/// /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc` (TensorFlow's
/// op_kernel.cc). `device:CPU:0 by allocator cpu` is the host's memory.
pub(super) fn read_tensor(text: &CompactLine) -> Option<OomReading> {
    let at = find(&text.compact, TENSORFLOW)?;
    let clause = &text.compact[at..];
    let on_host = clause.contains("device:CPU:") || clause.contains("byallocatorcpu");
    let kind = if on_host {
        OomKind::HostOom
    } else {
        OomKind::Tf
    };
    let mut found = OomReading::whole(kind, form_at(text, at)?);
    found.report.requested = tensor_bytes(clause);
    found.report.device = number_after(clause, "device:GPU:");
    found.more = (!clause.contains("byallocator")).then_some(Continuation::Tensor);
    Some(found)
}

/// The shape times the size of the type.
fn tensor_bytes(clause: &str) -> Option<Bytes> {
    let (_, shape) = clause.split_once("shape[")?;
    let (shape, after) = shape.split_once(']')?;
    let (_, kind) = after.split_once("andtype")?;
    let (kind, _) = kind.split_once("on/")?;
    // TensorFlow's DataTypeString (types.cc).
    let width: u64 = match kind {
        "bool" | "int8" | "uint8" | "qint8" | "quint8" => 1,
        "half" | "bfloat16" | "int16" | "uint16" => 2,
        "float" | "int32" | "uint32" => 4,
        "double" | "int64" | "uint64" | "complex64" => 8,
        "complex128" => 16,
        _ => return None,
    };
    shape
        .split(',')
        .filter(|side| !side.is_empty())
        .try_fold(width, |bytes, side| bytes.checked_mul(side.parse().ok()?))
        .map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::tests::{none, one, reports, size};
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

    #[test]
    fn units_of_both_ages_are_powers_of_two() {
        let expected = OomReport {
            kind: OomKind::MpsOom,
            requested: size("192.25 MiB"),
            allocated: size("6.25 GiB"),
            limit: size("18.13 GiB"),
            outside: size("11.50 GiB"),
            ..OomReport::default()
        };
        let text = "RuntimeError: MPS backend out of memory (MPS allocated: 6.25 GB, other allocations: 11.50 GB, max allowed: 18.13 GB). Tried to allocate 192.25 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).";
        assert_eq!(one(text), expected);
        let newer = text
            .replace(" GB", " GiB")
            .replace(" MB", " MiB")
            .replace("private", "shared");
        assert_eq!(one(&newer), expected);
        let wrapped = newer
            .replace(", other", ",\nother")
            .replace("on shared", "on\nshared");
        assert_eq!(one(&wrapped), expected);
        let unlimited = "RuntimeError: MPS backend out of memory (MPS allocated: 6.25 GB, other allocations: 11.50 GB). Tried to allocate 192.25 MB on private pool.";
        let no_limit = OomReport {
            limit: None,
            ..expected
        };
        assert_eq!(one(unlimited), no_limit);
    }

    #[test]
    fn source_and_prose_are_no_message() {
        none("    if \"MPS backend out of memory\" in str(e):");
        none("accelerate looks for MPS backend out of memory in the text");
    }
}
