//! Messages of PyTorch on Apple's GPUs.

use super::compact::{find, size_after};
use super::kind::OomKind;
use super::wording::{CompactLine, Continuation, MessageForm, OomReading, form_at, is_prose};

/// MPSAllocator.mm, 1.12 to 2.15. `MB`/`GB` until about 2.7 are powers of two like `MiB`/`GiB`
/// since; without a watermark its parts are missing.
const HEAD: &str = "MPSbackendoutofmemory";

pub(super) fn read(text: &CompactLine) -> Option<OomReading> {
    let at = find(&text.compact, HEAD)?;
    let form = form_at(text, at)?;
    let end = at + HEAD.len();
    let clause = &text.compact[end..];
    let mut found = OomReading::whole(OomKind::MpsOom, form);
    let report = &mut found.report;
    report.requested = size_after(clause, "Triedtoallocate");
    report.allocated = size_after(clause, "MPSallocated:");
    report.limit = size_after(clause, "maxallowed:");
    if report.requested.is_none() && (form == MessageForm::Logged || is_prose(text, at, end)) {
        return None;
    }
    let finished = ["privatepool", "sharedpool"]
        .iter()
        .any(|pool| clause.contains(pool));
    found.more = (!finished).then_some(Continuation::Allocator);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one, size};

    #[test]
    fn units_of_both_ages_are_powers_of_two() {
        let expected = OomReport {
            kind: OomKind::MpsOom,
            requested: size("192.25 MiB"),
            allocated: size("6.25 GiB"),
            limit: size("18.13 GiB"),
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
