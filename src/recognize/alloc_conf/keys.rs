//! Which settings the allocator takes, since which version of torch, and with which values.

use super::{AllocConf, TorchVersion};
use serde::Deserialize;
use std::sync::OnceLock;

/// A row of `keys.toml`, where the columns are explained.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllocatorKey {
    name: String,
    since: (u32, u32),
    means: String,
    takes: Takes,
    #[serde(default)]
    least: u64,
    #[serde(default)]
    one_of: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Takes {
    Bool,
    Count,
    OpenFraction,
    Fraction,
    OneOf,
    Anything,
}

fn keys() -> &'static [AllocatorKey] {
    #[derive(Deserialize)]
    struct Keys {
        key: Vec<AllocatorKey>,
    }
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let read = || toml::from_str(include_str!("keys.toml"));
    &KEYS
        .get_or_init(|| read().expect("keys.toml is part of the binary and read by a test"))
        .key
}

/// Whether this version of torch takes `key:value`; the error says what it takes.
pub(super) fn check(key: &str, value: &str, torch: Option<TorchVersion>) -> Result<(), String> {
    let names = || keys().iter().map(|known| known.name.as_str());
    let Some(known) = keys().iter().find(|known| known.name == key) else {
        let near = names().find(|name| name.contains(key) || key.contains(name));
        let mend = near.map_or_else(
            || format!("the keys are {}", names().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean {near}?"),
        );
        return Err(format!(
            "PyTorch's allocator has no setting `{key}`: {mend}"
        ));
    };
    let (major, minor) = known.since;
    if let Some(torch) = torch.filter(|torch| !torch.is_at_least(known.since)) {
        return Err(format!(
            "{key} needs torch {major}.{minor}; the command has {}.{}",
            torch.major, torch.minor
        ));
    }
    let fraction = value.parse::<f64>();
    let (fits, takes) = match known.takes {
        Takes::Anything => return Ok(()),
        Takes::Bool => (matches!(value, "True" | "False"), "True or False".into()),
        Takes::Count => (
            value.parse::<u64>().is_ok_and(|n| n >= known.least),
            format!("a whole number of at least {}", known.least),
        ),
        Takes::OpenFraction | Takes::Fraction => {
            let ends = matches!(known.takes, Takes::Fraction);
            let fits = |x: f64| x > 0.0 && x < 1.0 || ends && (x == 0.0 || x == 1.0);
            (
                fraction.is_ok_and(fits),
                "a fraction between 0 and 1".into(),
            )
        }
        Takes::OneOf => (
            known.one_of.iter().any(|one| one == value),
            known.one_of.join(" or "),
        ),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{key} takes {takes}, not `{value}`")),
    }
}

/// What `key:value` does.
///
/// # Errors
/// This version of torch does not take it; the error says what it takes.
pub(crate) fn meaning(
    key: &str,
    value: &str,
    torch: Option<TorchVersion>,
) -> Result<&'static str, String> {
    check(key, value, torch)?;
    let known = keys().iter().find(|known| known.name == key);
    Ok(known.map_or("", |known| &known.means))
}

/// Rejects settings that exclude each other.
pub(crate) fn check_together(conf: &AllocConf) -> Result<(), String> {
    if conf.value("expandable_segments") != Some("True") {
        return Ok(());
    }
    if let Some(value) = conf.value("max_split_size_mb") {
        // PyTorch would call cudaFree on a mapped block.
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
