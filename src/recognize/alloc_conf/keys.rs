//! Which settings the allocator takes, since which version of torch, and with which values.

use super::TorchVersion;
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
    later: Option<Later>,
    #[serde(default)]
    most: u64,
    #[serde(default)]
    one_of: Vec<String>,
    #[serde(default)]
    rocm: Vec<String>,
}

/// A bound that newer versions have eased.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    since: (u32, u32),
    least: u64,
}

impl AllocatorKey {
    fn least(&self, torch: Option<TorchVersion>) -> u64 {
        let is_later = |later: &&Later| torch.is_some_and(|torch| torch.is_at_least(later.since));
        let later = self.later.as_ref().filter(is_later);
        later.map_or(self.least, |later| later.least)
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Takes {
    Bool,
    Count,
    PowerOfTwo,
    Divisions,
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
        Takes::Count => {
            let least = known.least(torch);
            (
                value.parse::<u64>().is_ok_and(|n| n >= least),
                format!("a whole number of at least {least}"),
            )
        }
        Takes::PowerOfTwo => (
            is_power_of_two(value).is_some_and(|n| n <= known.most),
            format!("a power of two up to {}", known.most),
        ),
        Takes::Divisions => (
            are_divisions(value),
            "a power of two, 0, or a list like [256:1,512:2,>:8]".into(),
        ),
        Takes::OpenFraction | Takes::Fraction => {
            let ends = matches!(known.takes, Takes::Fraction);
            let fits = |x: f64| x > 0.0 && x < 1.0 || ends && (x == 0.0 || x == 1.0);
            (
                fraction.is_ok_and(fits),
                "a fraction between 0 and 1".into(),
            )
        }
        Takes::OneOf => {
            let rocm = torch.is_none_or(|torch| torch.rocm);
            let extra: &[String] = if rocm { &known.rocm } else { &[] };
            let mut allowed = known.one_of.iter().chain(extra);
            (allowed.any(|one| one == value), known.one_of.join(" or "))
        }
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{key} takes {takes}, not `{value}`")),
    }
}

fn is_power_of_two(value: &str) -> Option<u64> {
    value.parse::<u64>().ok().filter(|n| n.is_power_of_two())
}

/// `4`, `0`, or `[256:1,512:2,>:8]`: sizes are powers of two as well.
fn are_divisions(value: &str) -> bool {
    let is_division = |text: &str| text == "0" || is_power_of_two(text).is_some();
    let is_size = |text: &str| text == ">" || is_power_of_two(text).is_some();
    let list = value
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match list {
        None => is_division(value),
        Some(list) => list.split(',').all(|piece| {
            let pair = piece.split_once(':');
            pair.is_some_and(|(size, n)| is_size(size.trim()) && is_division(n.trim()))
        }),
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
    Ok(match known {
        Some(known) if matches!(known.takes, Takes::Bool) && value == "False" => {
            "off, as it is by default"
        }
        Some(known) => &known.means,
        None => "",
    })
}
