//! Settings of PyTorch's allocator as text: parsed, merged, checked against torch's version.
//!
//! A bad key or value ends a training seconds after its start, at the first use of the device. So
//! nothing is written that this version may reject, and the user's own settings are kept.

mod conflict;
mod keys;
mod settings;
#[cfg(test)]
mod tests;
mod version;

pub use settings::AllocConf;
pub use version::TorchVersion;

pub(crate) use conflict::{Conflict, conflict};
pub(crate) use keys::meaning;

use conflict::check_together;
use keys::check;

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

/// The variables to set for `key:value` beside what is already set, and the old value.
pub fn merge(
    key: &str,
    value: &str,
    inherited: Inherited<'_>,
    torch: Option<TorchVersion>,
) -> Result<Vec<Assignment>, String> {
    let (_, conf) = in_force(inherited, torch)?;
    if conf.value(key) == Some(value) {
        return Err(format!("{key}:{value} is already set"));
    }
    merge_user(&format!("{key}:{value}"), inherited, torch)
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
