//! PyTorch on Apple's GPUs.

use super::report::Kind;
use super::squeezed::size_after;
use super::wording::{Form, Found, More, Text, form_at, is_prose};

/// MPSAllocator.mm, 1.12 to 2.15. Units are `MB`/`GB` until about 2.7 and `MiB`/`GiB` after,
/// powers of two both; the watermark's parts vanish when its ratio is 0.
const HEAD: &str = "MPSbackendoutofmemory";

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    let at = text.squeezed.find(HEAD)?;
    let form = form_at(text, at)?;
    let end = at + HEAD.len();
    let clause = &text.squeezed[end..];
    let mut found = Found::whole(Kind::MpsOom, form);
    let report = &mut found.report;
    report.requested = size_after(clause, "Triedtoallocate");
    report.allocated = size_after(clause, "MPSallocated:");
    report.limit = size_after(clause, "maxallowed:");
    if report.requested.is_none() && (form == Form::Logged || is_prose(text, at, end)) {
        return None;
    }
    let finished = ["privatepool", "sharedpool"]
        .iter()
        .any(|pool| clause.contains(pool));
    found.more = (!finished).then_some(More::Allocator);
    Some(found)
}
