//! Which settings the allocator has, since which version of torch, with which values.

use super::{AllocConf, TorchVersion};

/// What a key's value must look like.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Bool,
    /// A whole number, at least this one.
    Count(u64),
    /// A fraction between 0 and 1; whether the ends belong to it.
    Fraction(bool),
    OneOf(&'static [&'static str]),
    Anything,
}

/// Keys, the first version that certainly takes them, and their values.
const KEYS: [(&str, (u32, u32), Takes); 20] = [
    // At least 21 is accepted by every version: until 2.9 it must be more than 20.
    ("max_split_size_mb", (1, 10), Takes::Count(21)),
    ("roundup_power2_divisions", (1, 12), Takes::Anything),
    (
        "garbage_collection_threshold",
        (1, 12),
        Takes::Fraction(false),
    ),
    (
        "backend",
        (2, 0),
        Takes::OneOf(&["native", "cudaMallocAsync"]),
    ),
    ("expandable_segments", (2, 1), Takes::Bool),
    ("release_lock_on_cudamalloc", (2, 1), Takes::Bool),
    ("release_lock_on_hipmalloc", (2, 1), Takes::Bool),
    ("pinned_use_cuda_host_register", (2, 1), Takes::Bool),
    ("pinned_use_hip_host_register", (2, 1), Takes::Bool),
    ("pinned_num_register_threads", (2, 1), Takes::Count(1)),
    ("pinned_use_background_threads", (2, 6), Takes::Bool),
    ("max_non_split_rounding_mb", (2, 7), Takes::Count(21)),
    ("graph_capture_record_stream_reuse", (2, 9), Takes::Bool),
    (
        "per_process_memory_fraction",
        (2, 10),
        Takes::Fraction(true),
    ),
    ("pinned_reserve_segment_size_mb", (2, 10), Takes::Count(1)),
    ("large_segment_size_mb", (2, 12), Takes::Count(11)),
    ("throw_on_cudamalloc_oom", (2, 12), Takes::Bool),
    ("pinned_free_catch_all", (2, 12), Takes::Bool),
    ("expandable_segments_reserve", (2, 15), Takes::Anything),
    (
        "expandable_segments_reserve_by_class",
        (2, 15),
        Takes::Anything,
    ),
];

/// Whether this version takes `key:value`; the error says what it takes.
pub(super) fn check(key: &str, value: &str, torch: Option<TorchVersion>) -> Result<(), String> {
    let Some((_, since, takes)) = KEYS.iter().find(|(name, _, _)| *name == key) else {
        let near = KEYS
            .iter()
            .map(|(name, _, _)| *name)
            .find(|name| name.contains(key) || key.contains(name));
        let mend = near.map_or_else(
            || format!("the keys are {}", KEYS.map(|(name, _, _)| name).join(", ")),
            |near| format!("did you mean {near}?"),
        );
        return Err(format!(
            "PyTorch's allocator has no setting `{key}`: {mend}"
        ));
    };
    if let Some(torch) = torch
        && !torch.is_at_least(*since)
    {
        return Err(format!(
            "{key} needs torch {}.{}; the command has {}.{}",
            since.0, since.1, torch.major, torch.minor
        ));
    }
    let wrong = |takes: String| Err(format!("{key} takes {takes}, not `{value}`"));
    match takes {
        Takes::Bool if !matches!(value, "True" | "False") => wrong("True or False".into()),
        Takes::Count(least) if value.parse::<u64>().map_or(true, |n| n < *least) => {
            wrong(format!("a whole number of at least {least}"))
        }
        Takes::Fraction(ends) => match value.parse::<f64>() {
            Ok(x) if x > 0.0 && x < 1.0 || *ends && (x == 0.0 || x == 1.0) => Ok(()),
            _ => wrong("a fraction between 0 and 1".into()),
        },
        Takes::OneOf(names) if !names.contains(&value) => wrong(names.join(" or ")),
        Takes::Bool | Takes::Count(_) | Takes::OneOf(_) | Takes::Anything => Ok(()),
    }
}

/// Settings that do not go together.
pub(super) fn check_together(conf: &AllocConf) -> Result<(), String> {
    if conf.value("expandable_segments") != Some("True") {
        return Ok(());
    }
    if let Some(value) = conf.value("max_split_size_mb") {
        // PyTorch issue 123548: cudaFree on a mapped block.
        return Err(format!(
            "expandable_segments cannot be combined with max_split_size_mb:{value}, which is set: remove that first"
        ));
    }
    if conf.value("backend") == Some("cudaMallocAsync") {
        return Err(
            "expandable_segments cannot be combined with backend:cudaMallocAsync, which is set"
                .into(),
        );
    }
    Ok(())
}
