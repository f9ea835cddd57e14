//! Messages of PyTorch's caching allocators: CUDA, HIP and XPU share one text, in several versions.

use super::report::{OomReport, OtherProcess};
use super::wording::{CompactLine, Continuation, MessageForm, OomReading, form_at, is_prose};
use crate::oom::report::{OomKind, OomSign};
use crate::oom::wording::{
    find, number_after, number_at_start, size_after, size_at_start, size_before,
};
use crate::units::Pid;
use std::borrow::Cow;

/// The words, compact, with which such a message begins, and its kind.
pub(super) type AllocatorHeads = [(String, OomKind)];

/// Bounds the time spent on one line.
const MOST_MESSAGES_IN_A_LINE: usize = 16;

/// `backend:cudaMallocAsync` has a text of its own (CUDAMallocAsyncAllocator.cpp, 2.0 to 2.15).
const ASYNC_HEAD: &str = "Allocationondevice";
const ASYNC_WORDS: &str = "wouldexceedallowedmemory";

/// The messages in `text`: several if the output of ranks was glued together.
pub(super) fn read(text: &CompactLine, heads: &AllocatorHeads) -> Vec<OomReading> {
    let mut heads: Vec<(usize, usize, OomKind)> = heads
        .iter()
        .flat_map(|(head, kind)| {
            text.compact
                .match_indices(head.as_str())
                .take(MOST_MESSAGES_IN_A_LINE)
                .map(move |(at, _)| (at, at + head.len(), *kind))
        })
        .collect();
    heads.sort_unstable_by_key(|&(at, _, _)| at);
    let mut found = Vec::new();
    for (index, &(at, end, kind)) in heads.iter().enumerate() {
        let until = heads
            .get(index + 1)
            .map_or(text.compact.len(), |&(next, _, _)| next);
        let Some(form) = form_at(text, at) else {
            continue;
        };
        let body = &text.compact[end..until];
        if let Some(message) = read_body(body, kind, form)
            && (message.report.device.is_some() || !is_prose(text, at, end))
        {
            found.push(message);
        }
    }
    found
}

/// The last message in `text`, in any of the forms.
pub(super) fn read_any(text: &CompactLine, heads: &AllocatorHeads) -> Option<OomReading> {
    let last = read(text, heads).pop();
    last.or_else(|| read_async(text))
        .or_else(|| read_class(text, heads))
}

/// The exception's public names: 2.4 (pull request 121702), 1.13 (83146).
const CLASSES: [&str; 2] = ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"];

/// The exception's class with any other message: shortened by ComfyUI (`torch.OutOfMemoryError:
/// Allocation on device`), reworded by a framework, or wrapped.
pub(super) fn read_class(text: &CompactLine, heads: &AllocatorHeads) -> Option<OomReading> {
    let (at, end) = CLASSES.iter().find_map(|class| {
        let at = find(&text.compact, &format!("{class}:"))?;
        Some((at, at + class.len() + 1))
    })?;
    let before = &text.compact[..at];
    // `except torch.OutOfMemoryError:` and other source code; or a message that was rejected
    // before.
    let source =
        before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '(' | '\'' | '"'));
    let refused = heads
        .iter()
        .any(|(head, _)| text.compact[end..].contains(head));
    if source || refused || form_at(text, end)? != MessageForm::Exception {
        return None;
    }
    Some(OomReading {
        report: OomReport {
            device: number_after(&text.compact[end..], ASYNC_HEAD),
            ..OomReport::default()
        },
        form: MessageForm::Exception,
        more: Some(Continuation::Allocator),
    })
}

fn read_body(body: &str, kind: OomKind, form: MessageForm) -> Option<OomReading> {
    let mut found = OomReading::whole(kind, form);
    let clause = body.trim_start_matches(['.', ',', ':']);
    if clause.starts_with("Triedtoallocatemorethan1EB") {
        // 2.x's check of `kMaxAllocSize` (CUDACachingAllocator.cpp): a size that overflowed.
        found.report.sign = Some(OomSign::Overflow);
        return Some(found);
    }
    // torch_npu has an allocator of its own for workspaces.
    let clause = clause.strip_prefix("NPUWorkspaceAllocatort").map_or_else(
        || Cow::Borrowed(clause),
        |after| Cow::Owned(format!("T{after}")),
    );
    let clause = clause.as_ref();
    if let Some(after) = clause.strip_prefix("Allocationwaspreemptivelyrejected") {
        // Pull request 179473 (2.12): over the memory fraction; without "Tried to allocate".
        found.report.requested = size_after(after, "Requestedsize:");
        found.more = found
            .report
            .requested
            .is_none()
            .then_some(Continuation::Allocator);
        return Some(found);
    }
    if !clause.starts_with("Triedtoallocate") {
        // There is only the head, or the line was wrapped in it.
        let ended = clause
            .trim_matches(['"', '\'', '`', ')', '\\', '.', '!'])
            .is_empty();
        let cut = ["Triedtoallocate", "Allocationwaspreemptivelyrejected"]
            .iter()
            .any(|next| next.starts_with(clause));
        found.more = Some(Continuation::Allocator);
        return (ended || cut).then_some(found);
    }
    let report = &mut found.report;
    report.requested = size_after(clause, "Triedtoallocate");
    read_figures(clause, report);
    if report.requested.is_none() && clause.len() > "Triedtoallocate99999999.99MiB".len() {
        // `Tried to allocate {size}`, `XX MiB`, `...`: source code or documentation.
        return None;
    }
    let finished = [
        "reservedintotal",
        "cached",
        "reservedbyPyTorchbutunallocated",
    ]
    .iter()
    .any(|last| clause.contains(last));
    found.more = (!finished).then_some(Continuation::Allocator);
    Some(found)
}

fn read_figures(clause: &str, report: &mut OomReport) {
    report.limit = size_before(clause, "allowed;");
    if let Some(at) = find(clause, "hasatotalcapac") {
        // 2.1 and later. 2.1 itself prints `capacty` (pull request 99699).
        let after = &clause[at..];
        report.device = clause[..at]
            .rfind("GPU")
            .and_then(|gpu| number_after(&clause[gpu..at], "GPU"));
        report.total = size_after(after, "capacityof").or_else(|| size_after(after, "capactyof"));
        report.free = size_after(after, "ofwhich");
        report.allocated = size_after(after, "Oftheallocatedmemory");
        report.private_pools = size_before(after, "allocatedinprivatepools");
        report.unallocated = size_before(after, "isreservedbyPyTorch");
        report.process_used = size_after(after, "thisprocesshas");
        report.others = other_processes(after);
        // CUDACachingAllocator.cpp: allocated (with what is free in private pools) plus "reserved
        // but unallocated" (without it) is reserved.
        if let (Some(allocated), Some(unallocated)) = (report.allocated, report.unallocated) {
            report.reserved = Some(allocated + unallocated);
        }
    } else if let Some(device) = old_device(clause) {
        // 1.0 to 2.0.
        report.before_2_1 = true;
        report.device = Some(device);
        report.total = size_before(clause, "totalcapacity");
        report.allocated = size_before(clause, "alreadyallocated");
        report.free = size_before(clause, "free");
        report.reserved = size_before(clause, "reservedintotal");
        match (report.reserved, report.allocated) {
            // 1.4 (pull request 27361): reserved includes allocated.
            (Some(reserved), Some(allocated)) if reserved >= allocated => {
                report.unallocated = Some(reserved - allocated);
            }
            // 1.0 to 1.3 (pull request 13751): "cached" is reserved but unallocated.
            (None, Some(allocated)) => {
                report.unallocated = size_before(clause, "cached");
                report.reserved = report.unallocated.map(|cached| allocated + cached);
            }
            (Some(_), _) | (None, None) => {}
        }
    }
}

/// `(GPU 0; 14.76 GiB total capacity; …`, of which people sometimes lose the bracket.
fn old_device(clause: &str) -> Option<u32> {
    ["GPU", "NPU"].iter().find_map(|word| {
        clause.match_indices(word).find_map(|(at, _)| {
            let (device, after) = number_at_start(&clause[at + word.len()..])?;
            after.starts_with(';').then_some(device)
        })
    })
}

/// `Process 745 has 1.20 GiB memory in use.`, for each process that NVML lists.
fn other_processes(clause: &str) -> Vec<OtherProcess> {
    clause
        .match_indices("Process")
        .filter_map(|(at, word)| {
            let (pid, after) = number_at_start(&clause[at + word.len()..])?;
            let (used, after) = size_at_start(after.strip_prefix("has")?)?;
            after.starts_with("memoryinuse").then_some(OtherProcess {
                pid: Pid(pid),
                used,
            })
        })
        .collect()
}

/// `Allocation on device 0 would exceed allowed memory. (out of memory)`, then a line per figure.
pub(super) fn read_async(text: &CompactLine) -> Option<OomReading> {
    let words = find(&text.compact, ASYNC_WORDS)?;
    let at = text.compact[..words].rfind(ASYNC_HEAD)?;
    let form = form_at(text, at)?;
    let clause = &text.compact[at..];
    let mut found = OomReading::whole(OomKind::CudaOom, form);
    let report = &mut found.report;
    report.device = number_after(clause, ASYNC_HEAD);
    report.allocated = size_after(clause, "Currentlyallocated:");
    report.requested = size_after(clause, "Requested:");
    report.total = size_after(clause, "Devicelimit:");
    report.free = size_after(clause, "Free(accordingtoCUDA):");
    let limit = "user-suppliedmemoryfraction):";
    report.limit = size_after(clause, limit);
    // No limit is printed as 2^64 - 1 and read as `None`.
    let ended = clause
        .find(limit)
        .is_some_and(|at| size_at_start(&clause[at + limit.len()..]).is_some());
    found.more = (!ended).then_some(Continuation::Allocator);
    Some(found)
}

/// Whether a message is one without a continuation: a line that only ends in the words is not.
pub(super) fn stands_alone(found: &OomReading) -> bool {
    let report = &found.report;
    let has_figures = report.sizes().iter().any(Option::is_some)
        || report.device.is_some()
        || !report.others.is_empty();
    found.form != MessageForm::Logged || has_figures
}

#[cfg(test)]
mod tests;
