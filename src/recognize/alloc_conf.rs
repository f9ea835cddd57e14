//! Settings of PyTorch's allocator as text: parsed, merged, checked against torch's version.
//!
//! A bad key or value ends a training seconds after its start, at the first use of the device. So
//! nothing is written that this version may reject, and the user's own settings are kept.

use serde::Deserialize;
use std::fmt;
use std::sync::OnceLock;

/// Read by every version.
pub const CUDA: &str = "PYTORCH_CUDA_ALLOC_CONF";
/// Builds for ROCm read it too up to 2.8; since 2.10 all builds do if [`CUDA`] isn't set.
pub const HIP: &str = "PYTORCH_HIP_ALLOC_CONF";
/// Since 2.10: read if neither of the others is set.
pub const GENERAL: &str = "PYTORCH_ALLOC_CONF";

/// The variables as a process inherits them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inherited<'a> {
    pub cuda: Option<&'a str>,
    pub hip: Option<&'a str>,
    pub general: Option<&'a str>,
}

/// A variable and its new value.
pub type Assignment = (&'static str, String);

/// The settings in force with these variables, and the variable that they come from.
pub(crate) fn in_force(
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<(Option<&'static str>, AllocConf), String> {
    let cuda = inherited.cuda.map(|text| (CUDA, text));
    let hip = inherited.hip.map(|text| (HIP, text));
    let general = inherited.general.map(|text| (GENERAL, text));
    if let (Some(torch), Some(_), Some(_)) = (torch, cuda, hip)
        && torch.rocm
        && !torch.is_at_least((2, 9))
    {
        return Err(format!(
            "{CUDA} and {HIP} are both set; it is unknown which one applies"
        ));
    }
    let chosen = match torch {
        Some(torch) if torch.is_at_least((2, 10)) => cuda.or(hip).or(general),
        Some(torch) if torch.is_at_least((2, 9)) => cuda,
        Some(torch) if torch.rocm => cuda.or(hip),
        Some(_) => cuda,
        None => match (cuda, general) {
            (Some(cuda), _) => Some(cuda),
            (None, Some((_, text))) => {
                return Err(format!(
                    "{GENERAL}={text} is set; whether torch reads it depends on its version, which is unknown"
                ));
            }
            (None, None) => None,
        },
    };
    match chosen {
        None => Ok((None, AllocConf::default())),
        Some((name, text)) => AllocConf::parse(text)
            .map(|conf| (Some(name), conf))
            .map_err(|error| format!("{name} cannot be read: {error}")),
    }
}

/// The variables to set so that `conf` is in force.
fn assignments(
    conf: &AllocConf,
    source: Option<&'static str>,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Vec<Assignment> {
    let text = conf.to_string();
    let Some(torch) = torch else {
        return vec![(CUDA, text)];
    };
    if torch.rocm && source == Some(HIP) && !torch.is_at_least((2, 9)) {
        return vec![(HIP, text)];
    }
    let mut assignments = vec![(CUDA, text.clone())];
    // 2.9 reads only the first name, but warns if the other one differs. A user's own value is
    // kept, even though it has no effect.
    let is_free = inherited.general.is_none() || inherited.general == inherited.cuda;
    if (torch.major, torch.minor) == (2, 9) && is_free {
        assignments.push((GENERAL, text));
    }
    assignments
}

/// The variables to set for settings beside what is already set.
///
/// # Errors
/// All of them are set so already, or they do not go with the others.
pub fn merge(
    settings: &[(&str, &str)],
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<Vec<Assignment>, String> {
    let (_, conf) = in_force(inherited, torch)?;
    let shown = settings.iter().map(|(key, value)| format!("{key}:{value}"));
    let shown = shown.collect::<Vec<_>>().join(",");
    let is_set = |(key, value): &(&str, &str)| conf.value(key) == Some(*value);
    if settings.iter().all(is_set) {
        return Err(format!("{shown} is already set"));
    }
    merge_user(&shown, inherited, torch)
}

/// The variables to set for a user's settings (`--alloc-conf KEY:VALUE[,…]`) beside those that the
/// command inherits; for a key in both the user's value counts. The error says how to fix it.
pub fn merge_user(
    conf: &str,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<Vec<Assignment>, String> {
    let given = AllocConf::parse(conf)?;
    if given.settings().next().is_none() {
        return Err(
            "no allocator setting given: write KEY:VALUE, as in expandable_segments:True".into(),
        );
    }
    for (key, value) in given.settings() {
        check(key, value, torch)?;
    }
    check_together(&given, torch)?;
    let (source, mut merged) = in_force(inherited, torch)?;
    for (key, value) in given.settings() {
        merged.set(key, value);
    }
    check_together(&merged, torch)?;
    Ok(assignments(&merged, source, inherited, torch))
}

/// In the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocConf {
    settings: Vec<(String, String)>,
}

impl AllocConf {
    /// Parses `key:value,key:[a:1,b:2]`. Like the allocator it accepts spaces and a trailing comma;
    /// the error says what is wrong and how to write it.
    pub fn parse(text: &str) -> Result<AllocConf, String> {
        let mut settings = Vec::new();
        for piece in pieces(text) {
            let piece = piece.trim();
            if piece.is_empty() {
                continue;
            }
            match piece.split_once(':') {
                Some((key, value))
                    if !key.trim().is_empty() && !value.trim().is_empty() && !key.contains('=') =>
                {
                    settings.push((key.trim().to_string(), value.trim().to_string()));
                }
                _ => {
                    let mended = piece.replacen('=', ":", 1);
                    let mended = if mended.contains(':') && mended != piece {
                        mended
                    } else {
                        "key:value".into()
                    };
                    return Err(format!(
                        "`{piece}` isn't an allocator setting: write `{mended}`"
                    ));
                }
            }
        }
        Ok(AllocConf { settings })
    }

    /// The last value counts if a key is set twice.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.settings
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Sets a key in place, or at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.settings.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value.to_string(),
            None => self.settings.push((key.to_string(), value.to_string())),
        }
    }

    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl fmt::Display for AllocConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, (key, value)) in self.settings.iter().enumerate() {
            let comma = if k == 0 { "" } else { "," };
            write!(f, "{comma}{key}:{value}")?;
        }
        Ok(())
    }
}

/// The settings, split at commas outside of brackets.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut from, mut depth) = (0, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pieces.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}

/// torch's version, as far as anything here depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TorchVersion {
    pub major: u32,
    pub minor: u32,
    /// Built for ROCm (`+rocm6.3`).
    pub rocm: bool,
}

impl TorchVersion {
    /// Parses `2.11.0+cu130`, `2.4.0a0+git1234`; `None` for anything else.
    pub fn parse(text: &str) -> Option<TorchVersion> {
        let (number, build) = text.trim().split_once('+').unwrap_or((text.trim(), ""));
        let mut parts = number.split('.');
        Some(TorchVersion {
            major: parts.next()?.parse().ok()?,
            minor: parts.next()?.parse().ok()?,
            rocm: build.starts_with("rocm"),
        })
    }

    fn is_at_least(self, (major, minor): (u32, u32)) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

/// A row of `allocator_keys.toml`, where the columns are explained.
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
    let read = || toml::from_str(include_str!("allocator_keys.toml"));
    &KEYS
        .get_or_init(|| {
            read().expect("allocator_keys.toml is part of the binary and read by a test")
        })
        .key
}

/// Whether this version of torch takes `key:value`; the error says what it takes.
fn check(key: &str, value: &str, torch: Option<TorchVersion>) -> Result<(), String> {
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
fn check_together(conf: &AllocConf, torch: Option<TorchVersion>) -> Result<(), String> {
    match conflict(conf, torch) {
        None => Ok(()),
        Some(Conflict::Fails(words) | Conflict::Hinders(words)) => {
            Err(format!("{words}; remove that first"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let version = |text| TorchVersion::parse(text).map(|v| (v.major, v.minor, v.rocm));
        assert_eq!(version("2.11.0+cu130"), Some((2, 11, false)));
        assert_eq!(version("2.6.0+rocm6.2.4"), Some((2, 6, true)));
        assert_eq!(version("2.4.0a0+git12ab"), Some((2, 4, false)));
        assert_eq!(version("nightly"), None);
    }

    #[test]
    fn settings_are_read_as_the_allocator_reads_them() {
        let text = " max_split_size_mb : 64 ,roundup_power2_divisions:[256:1,>:4],";
        let conf = AllocConf::parse(text).unwrap();
        assert_eq!(conf.value("roundup_power2_divisions"), Some("[256:1,>:4]"));
        assert_eq!(
            conf.to_string(),
            "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:4]"
        );
        assert_eq!(AllocConf::parse("").unwrap(), AllocConf::default());
        let error = AllocConf::parse("expandable_segments=True").unwrap_err();
        assert!(
            error.contains("write `expandable_segments:True`"),
            "{error}"
        );
        assert!(AllocConf::parse("max_split_size_mb").is_err());
    }

    fn torch(text: &str) -> Option<TorchVersion> {
        Some(TorchVersion::parse(text).expect("a version"))
    }

    #[test]
    fn a_key_is_taken_from_its_first_version_on() {
        for (key, value, before, since) in [
            ("roundup_power2_divisions", "4", "1.11.0", "1.12.1"),
            ("expandable_segments", "True", "2.0.1", "2.1.2"),
            ("release_lock_on_cudamalloc", "True", "2.1.2", "2.2.2"),
            ("pinned_use_cuda_host_register", "True", "2.1.2", "2.2.2"),
            ("pinned_use_background_threads", "True", "2.5.1", "2.6.0"),
            ("max_non_split_rounding_mb", "64", "2.5.1", "2.6.0"),
            ("large_segment_size_mb", "64", "2.10.0", "2.11.0"),
            ("throw_on_cudamalloc_oom", "True", "2.11.0", "2.12.1"),
            ("pinned_max_cached_size_mb", "64", "2.12.1", "2.13.0"),
        ] {
            let error = meaning(key, value, torch(before)).expect_err(key);
            assert!(error.contains("needs torch"), "{error}");
            meaning(key, value, torch(since)).expect(key);
        }
    }

    #[test]
    fn values_are_those_that_the_version_takes() {
        let is_taken =
            |key: &str, value: &str, version| meaning(key, value, torch(version)).is_ok();
        assert!(!is_taken("max_split_size_mb", "20", "2.9.1"));
        assert!(is_taken("max_split_size_mb", "20", "2.10.0"));
        for (value, expected) in [("8", true), ("6", false), ("256", false), ("x", false)] {
            let taken = is_taken("pinned_num_register_threads", value, "2.9.1");
            assert_eq!(taken, expected, "{value}");
        }
        for (value, expected) in [
            ("4", true),
            ("0", true),
            ("3", false),
            ("[256:1,512:2,1024:4,>:8]", true),
            ("[256:1, >:3]", false),
            ("[256]", false),
        ] {
            let taken = is_taken("roundup_power2_divisions", value, "2.9.1");
            assert_eq!(taken, expected, "{value}");
        }
        assert!(!is_taken("backend", "hipMallocAsync", "2.9.1+cu130"));
        assert!(is_taken("backend", "hipMallocAsync", "2.9.1+rocm6.4"));
        let off = meaning("expandable_segments", "False", torch("2.9.1"));
        assert_eq!(off, Ok("off, as it is by default"));
    }

    #[test]
    fn what_fails_together_fails_until_the_version_that_mended_it() {
        let found = |text: &str, version| {
            let conf = AllocConf::parse(text).expect("settings");
            conflict(&conf, TorchVersion::parse(version))
        };
        for other in ["max_split_size_mb:64", "garbage_collection_threshold:0.8"] {
            let both = format!("expandable_segments:True,{other}");
            let old = found(&both, "2.4.1");
            assert!(matches!(old, Some(Conflict::Fails(_))), "{both}: {old:?}");
            assert_eq!(found(other, "2.4.1"), None);
        }
        let both = "expandable_segments:True,max_split_size_mb:64";
        assert!(matches!(found(both, "2.5.0"), Some(Conflict::Hinders(_))));
        let both = "expandable_segments:True,garbage_collection_threshold:0.8";
        assert_eq!(found(both, "2.5.0"), None);
        let both = "expandable_segments:True,backend:cudaMallocAsync";
        assert!(matches!(found(both, "2.9.1"), Some(Conflict::Hinders(_))));
    }
}
