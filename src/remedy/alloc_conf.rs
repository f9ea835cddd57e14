//! The settings of PyTorch's allocator as text: read, merged, checked against torch's version.
//!
//! A bad key or value ends a training seconds after its start, at its first use of the device, so
//! nothing is written that the version in question may refuse, and what the user has there stays.
//! Names, keys and their versions were read in PyTorch's wheels 2.9.1 to 2.15.0; keys from before
//! 2.9 whose first version is not certain carry a later one that is.

use std::fmt;

/// The variable that every version reads.
pub const CUDA: &str = "PYTORCH_CUDA_ALLOC_CONF";
/// What builds for ROCm read beside it until 2.8, and all builds as second choice since 2.10.
pub const HIP: &str = "PYTORCH_HIP_ALLOC_CONF";
/// What versions since 2.10 read where neither of the others is set.
pub const GENERAL: &str = "PYTORCH_ALLOC_CONF";

/// torch's version, as far as it decides anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TorchVersion {
    /// 2 of 2.11.
    pub major: u32,
    /// 11 of 2.11.
    pub minor: u32,
    /// Whether it is built for ROCm (`+rocm6.3`).
    pub rocm: bool,
}

impl TorchVersion {
    /// Reads `2.11.0+cu130`, `2.4.0a0+git1234`; nothing where it does not begin so.
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

/// The variables as a process would inherit them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inherited<'a> {
    /// [`CUDA`].
    pub cuda: Option<&'a str>,
    /// [`HIP`].
    pub hip: Option<&'a str>,
    /// [`GENERAL`].
    pub general: Option<&'a str>,
}

/// Settings, in the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocConf {
    settings: Vec<(String, String)>,
}

impl AllocConf {
    /// Reads `key:value,key:[a:1,b:2]`. Spaces and a comma at the end are accepted, as the
    /// allocator does; the error says what is wrong and how it is written right.
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
                        "`{piece}` is no allocator setting: write `{mended}`"
                    ));
                }
            }
        }
        Ok(AllocConf { settings })
    }

    /// The value of a key; of several the last counts.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.settings
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Sets a key where it stands, or at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.settings.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value.to_string(),
            None => self.settings.push((key.to_string(), value.to_string())),
        }
    }

    /// The keys and their values.
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

/// The settings of a text, split at the commas that stand in no brackets.
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
fn check(key: &str, value: &str, torch: Option<TorchVersion>) -> Result<(), String> {
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
fn check_together(conf: &AllocConf) -> Result<(), String> {
    if conf.value("expandable_segments") != Some("True") {
        return Ok(());
    }
    if let Some(value) = conf.value("max_split_size_mb") {
        // PyTorch issue 123548: cudaFree on a mapped block.
        return Err(format!(
            "expandable_segments does not go together with max_split_size_mb:{value}, which is set: take that out first"
        ));
    }
    if conf.value("backend") == Some("cudaMallocAsync") {
        return Err(
            "expandable_segments does not go together with backend:cudaMallocAsync, which is set"
                .into(),
        );
    }
    Ok(())
}

/// A variable and its new value.
pub type Assignment = (&'static str, String);

/// The settings in force for a process with these variables, and the variable that they are in.
fn in_force(
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<(Option<&'static str>, AllocConf), String> {
    let cuda = inherited.cuda.map(|text| (CUDA, text));
    let hip = inherited.hip.map(|text| (HIP, text));
    let general = inherited.general.map(|text| (GENERAL, text));
    let chosen = match torch {
        Some(torch) if torch.is_at_least((2, 10)) => cuda.or(hip).or(general),
        Some(torch) if torch.is_at_least((2, 9)) => cuda,
        Some(torch) if torch.rocm => cuda.or(hip),
        Some(_) => cuda,
        None => match (cuda, general) {
            (Some(cuda), _) => Some(cuda),
            (None, Some((_, text))) => {
                return Err(format!(
                    "{GENERAL}={text} is set, and whether torch reads it depends on its version, which is not known"
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

/// The variables to write so that `conf` is in force.
fn assignments(
    conf: &AllocConf,
    source: Option<&'static str>,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Vec<Assignment> {
    let text = conf.to_string();
    let mut assignments = vec![(CUDA, text.clone())];
    match torch {
        // There the other name is not read, but without it a warning is printed.
        Some(torch) if (torch.major, torch.minor) == (2, 9) => assignments.push((GENERAL, text)),
        Some(torch) if torch.rocm && !torch.is_at_least((2, 9)) && source == Some(HIP) => {
            assignments = vec![(HIP, text)];
        }
        // A value there would win or be read by another part: both say the same.
        Some(_) | None if inherited.general.is_some() && inherited.cuda.is_some() => {}
        Some(_) | None => {}
    }
    assignments
}

/// What to write for `key:value` beside what is set already, and the value that was in force.
pub fn merge(
    key: &str,
    value: &str,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<Vec<Assignment>, String> {
    check(key, value, torch)?;
    let (source, mut conf) = in_force(inherited, torch)?;
    if conf.value(key) == Some(value) {
        return Err(format!("{key}:{value} is set already"));
    }
    conf.set(key, value);
    check_together(&conf)?;
    Ok(assignments(&conf, source, inherited, torch))
}

/// What to write for the settings that a user gave oomph (`--alloc-conf KEY:VALUE[,…]`) beside those
/// that the command inherits; of one key the user's word counts. The error says the mend.
pub fn merge_user(
    conf: &str,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<Vec<Assignment>, String> {
    let given = AllocConf::parse(conf)?;
    if given.settings.is_empty() {
        return Err(
            "no allocator setting is given: write KEY:VALUE, as in expandable_segments:True".into(),
        );
    }
    for (key, value) in given.settings() {
        check(key, value, torch)?;
    }
    check_together(&given)?;
    let (source, mut merged) = in_force(inherited, torch)?;
    for (key, value) in given.settings() {
        merged.set(key, value);
    }
    check_together(&merged)?;
    Ok(assignments(&merged, source, inherited, torch))
}
