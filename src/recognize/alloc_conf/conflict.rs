//! Settings that do not go together: which pairs, since or until which version of torch.

use super::{AllocConf, TorchVersion};

/// Two settings that do not go together, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The training may fail by them.
    Fails(String),
    /// One of them loses its effect.
    Hinders(String),
}

/// What is wrong with these settings together, or nothing.
pub(crate) fn conflict(conf: &AllocConf, torch: Option<TorchVersion>) -> Option<Conflict> {
    if conf.value("expandable_segments") != Some("True") {
        return None;
    }
    // Until 2.5, giving back unused blocks near the limit took mapped ones too, and ended in a failed
    // assertion (PyTorch's pull request 134338).
    let takes_mapped = torch.is_none_or(|torch| !torch.is_at_least((2, 5)));
    let pair = |key: &str, value: &str| {
        format!("expandable_segments cannot be combined with {key}:{value}, which is set")
    };
    if let Some(value) = conf.value("max_split_size_mb") {
        let words = pair("max_split_size_mb", value);
        return Some(match takes_mapped {
            true => Conflict::Fails(format!(
                "{words}: until torch 2.5 the allocator fails by it when memory is short"
            )),
            // `get_free_block` passes over a free block of that size for a smaller request; the free
            // rest of an expandable segment is such a block.
            false => Conflict::Hinders(format!(
                "{words}: free parts of a segment larger than that serve no smaller request"
            )),
        });
    }
    if let Some(value) = conf.value("garbage_collection_threshold")
        && torch.is_some()
        && takes_mapped
    {
        let words = pair("garbage_collection_threshold", value);
        return Some(Conflict::Fails(format!(
            "{words}: until torch 2.5 the allocator fails by it when memory is short"
        )));
    }
    let backend = conf.value("backend")?;
    (backend != "native").then(|| {
        Conflict::Hinders(format!(
            "{}: that backend ignores it",
            pair("backend", backend)
        ))
    })
}

/// Rejects settings that do not go together.
pub(super) fn check_together(conf: &AllocConf, torch: Option<TorchVersion>) -> Result<(), String> {
    match conflict(conf, torch) {
        None => Ok(()),
        Some(Conflict::Fails(words) | Conflict::Hinders(words)) => {
            Err(format!("{words}; remove that first"))
        }
    }
}
