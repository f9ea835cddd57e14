//! The settings of PyTorch's allocator as text: read, merged, checked against torch's version.
//!
//! A bad key or value ends a training seconds after its start, at its first use of the device, so
//! nothing is written that the version in question may refuse, and what the user has there stays.
//! Names, keys and their versions were read in PyTorch's wheels 2.9.1 to 2.15.0; keys from before
//! 2.9 whose first version is not certain carry a later one that is.

mod keys;

use keys::{check, check_together};
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
                        "`{piece}` isn't an allocator setting: write `{mended}`"
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
    if let (Some(torch), Some(_), Some(_)) = (torch, cuda, hip)
        && torch.rocm
        && !torch.is_at_least((2, 9))
    {
        return Err(format!(
            "{CUDA} and {HIP} are both set; which one applies is not known"
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
    let Some(torch) = torch else {
        return vec![(CUDA, text)];
    };
    if torch.rocm && source == Some(HIP) && !torch.is_at_least((2, 9)) {
        return vec![(HIP, text)];
    }
    let mut assignments = vec![(CUDA, text.clone())];
    // 2.9 reads the first name alone but warns where the other does not say the same. What a user
    // says there is theirs, though it has no effect.
    let is_free = inherited.general.is_none() || inherited.general == inherited.cuda;
    if (torch.major, torch.minor) == (2, 9) && is_free {
        assignments.push((GENERAL, text));
    }
    assignments
}

/// What to write for `key:value` beside what is already set, and the value that was in force.
pub fn merge(
    key: &str,
    value: &str,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<Vec<Assignment>, String> {
    check(key, value, torch)?;
    let (source, mut conf) = in_force(inherited, torch)?;
    if conf.value(key) == Some(value) {
        return Err(format!("{key}:{value} is already set"));
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
            "no allocator setting given: write KEY:VALUE, as in expandable_segments:True".into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn torch(text: &str) -> Option<TorchVersion> {
        TorchVersion::parse(text)
    }

    fn set(cuda: Option<&'static str>, general: Option<&'static str>) -> Inherited<'static> {
        Inherited {
            cuda,
            hip: None,
            general,
        }
    }

    fn expandable(inherited: Inherited<'_>, version: &str) -> Result<Vec<Assignment>, String> {
        merge("expandable_segments", "True", inherited, torch(version))
    }

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

    #[test]
    fn the_name_that_counts_is_written_in_every_version() {
        const ON: &str = "expandable_segments:True";
        let both = vec![(CUDA, ON.to_string()), (GENERAL, ON.to_string())];
        let one = vec![(CUDA, ON.to_string())];
        assert_eq!(expandable(set(None, None), "2.4.1"), Ok(one.clone()));
        assert_eq!(expandable(set(None, None), "2.9.1"), Ok(both));
        assert_eq!(expandable(set(None, None), "2.11.0"), Ok(one.clone()));
        assert_eq!(
            merge("expandable_segments", "True", set(None, None), None),
            Ok(one)
        );
        assert!(
            expandable(set(None, None), "2.0.1")
                .unwrap_err()
                .contains("needs torch 2.1")
        );
    }

    #[test]
    fn what_the_user_set_stays() {
        let merged = |inherited, version| expandable(inherited, version).unwrap()[0].1.clone();
        let gc = "garbage_collection_threshold:0.7";
        assert_eq!(
            merged(set(Some(gc), None), "2.6"),
            format!("{gc},expandable_segments:True")
        );
        // Since 2.10 the general name counts where the other is not set, and is hidden by it.
        assert_eq!(
            merged(set(None, Some(gc)), "2.10"),
            format!("{gc},expandable_segments:True")
        );
        assert_eq!(
            merged(set(None, Some(gc)), "2.8"),
            "expandable_segments:True"
        );
        let on_2_9 = expandable(set(None, Some(gc)), "2.9.0").unwrap();
        assert_eq!(on_2_9, [(CUDA, "expandable_segments:True".to_string())]);
        let unknown = merge("expandable_segments", "True", set(None, Some(gc)), None);
        assert!(unknown.unwrap_err().contains("depends on its version"));
        assert_eq!(
            merged(set(Some("expandable_segments:False"), None), "2.6"),
            "expandable_segments:True"
        );
    }

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        for conf in ["max_split_size_mb:64", "backend:cudaMallocAsync"] {
            let refused = expandable(set(Some(conf), None), "2.6").unwrap_err();
            assert!(refused.contains("cannot be combined"), "{refused}");
        }
        assert!(
            expandable(set(Some("expandable_segments:True"), None), "2.6")
                .unwrap_err()
                .contains("already")
        );
        assert!(
            expandable(set(Some("a=b"), None), "2.6")
                .unwrap_err()
                .contains("cannot be read")
        );
    }

    #[test]
    fn rocm_keeps_the_name_that_its_user_chose() {
        let inherited = Inherited {
            hip: Some("max_split_size_mb:64"),
            ..Inherited::default()
        };
        let merged = merge(
            "garbage_collection_threshold",
            "0.8",
            inherited,
            torch("2.6.0+rocm6.2"),
        );
        assert_eq!(
            merged,
            Ok(vec![(
                HIP,
                "max_split_size_mb:64,garbage_collection_threshold:0.8".to_string()
            )])
        );
    }

    #[test]
    fn a_users_own_settings_are_checked_with_the_mend() {
        let given = |conf, version| {
            merge_user(
                conf,
                set(Some("max_split_size_mb:64"), None),
                torch(version),
            )
        };
        assert_eq!(
            given(
                "garbage_collection_threshold:0.6,max_split_size_mb:128",
                "2.6"
            ),
            Ok(vec![(
                CUDA,
                "max_split_size_mb:128,garbage_collection_threshold:0.6".to_string()
            )])
        );
        for (conf, version, mend) in [
            (
                "expandable_segments=True",
                "2.6",
                "write `expandable_segments:True`",
            ),
            (
                "expandable_segment:True",
                "2.6",
                "did you mean expandable_segments?",
            ),
            ("frobnicate:1", "2.6", "the keys are"),
            ("expandable_segments:true", "2.6", "True or False"),
            ("max_split_size_mb:20", "2.6", "at least 21"),
            ("garbage_collection_threshold:1", "2.6", "between 0 and 1"),
            ("backend:malloc", "2.6", "native or cudaMallocAsync"),
            ("per_process_memory_fraction:0.5", "2.6", "needs torch 2.10"),
            ("expandable_segments:True", "2.6", "cannot be combined"),
            ("", "2.6", "KEY:VALUE"),
        ] {
            let error = given(conf, version).unwrap_err();
            assert!(error.contains(mend), "{conf}: {error}");
        }
        assert!(
            merge_user(
                "per_process_memory_fraction:1.0",
                set(None, None),
                torch("2.12")
            )
            .is_ok()
        );
    }
}
