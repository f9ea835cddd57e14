//! NCCL, whose buffers lie outside PyTorch's allocator.

use super::report::{Kind, Report};
use super::squeezed::{number_at_start, size_after};
use super::wording::{Form, Found, More, Text, form_at};

/// The message in `text`: NCCL's own warnings, or the last error that PyTorch's
/// `DistBackendError` repeats.
pub(super) fn read(text: &Text) -> Option<Found> {
    let warning = text.squeezed.contains("NCCLWARN");
    // checks.h: `Cuda failure 'out of memory'` (2.18), `Cuda failure 2 'out of memory'` (later).
    let failure = ["Cudafailure'outofmemory'", "Cudafailure2'outofmemory'"]
        .iter()
        .find_map(|words| text.squeezed.find(words));
    // alloc.h: `Failed to CUDA calloc %ld bytes`, `malloc`, `host alloc`, `calloc async`.
    let refused = text.squeezed.find("FailedtoCUDA").filter(|_| warning);
    let at = failure.or(refused)?;
    let form = form_at(text, at)?;
    Some(Found {
        report: Report {
            kind: Kind::Nccl,
            device: device(&text.squeezed),
            requested: refused.and_then(|at| {
                let clause = &text.squeezed[at..];
                ["async", "calloc", "malloc", "hostalloc"]
                    .iter()
                    .find_map(|verb| size_after(clause, verb))
            }),
            ..Report::default()
        },
        form,
        more: (warning && refused.is_none()).then_some(More::Nccl),
    })
}

/// `host:pid:tid [3] …`: the device in brackets.
fn device(squeezed: &str) -> Option<u32> {
    squeezed.match_indices('[').find_map(|(at, _)| {
        let before = squeezed[..at].bytes().rev();
        let after_thread = before.clone().next().is_some_and(|b| b.is_ascii_digit())
            && before
                .skip_while(u8::is_ascii_digit)
                .next()
                .is_some_and(|b| b == b':');
        let (device, after) = number_at_start(&squeezed[at + 1..])?;
        (after_thread && after.starts_with(']')).then_some(device)
    })
}

/// Whether the line is a CUDA failure of NCCL with another reason: the refused allocation that it
/// reports next is then no shortage (`Cuda failure 1 'invalid argument'`).
pub(super) fn failed_otherwise(text: &Text) -> bool {
    text.squeezed.contains("Cudafailure") && !text.squeezed.contains("'outofmemory'")
}

/// Whether `found` is nothing but a refused allocation, whose reason the line before says.
pub(super) fn is_refusal(found: &Found) -> bool {
    found.report.kind == Kind::Nccl
        && found.report.requested.is_some()
        && found.form == Form::Logged
}
