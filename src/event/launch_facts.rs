//! What a session's first run was started with beside its command: which Python, which torch, the variables that
//! decide where and how memory is taken, and checksums of the program's files. So a later start can say what has
//! changed since.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The variables that are recorded: they decide which GPUs there are and how PyTorch allocates. None of them
/// holds a secret; others are never recorded.
pub const LAUNCH_VARIABLES: [&str; 10] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_MODULE_LOADING",
];

/// Those of the allocator's settings, as torch asks for them: the first that is set counts.
pub const ALLOCATOR_VARIABLES: [&str; 3] = [
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
];

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaunchFacts {
    /// The path of the command's interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// torch's version as installed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// Those of [`LAUNCH_VARIABLES`] that were set, as the command would inherit them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// The script, the files of its own that it imports, and the configs that the command names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProgramFile>,
}

/// A file of the program as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFile {
    pub path: String,
    pub length: u64,
    /// As `knobs` has it: that of zlib.
    pub crc: u32,
}

impl LaunchFacts {
    /// What is different in `now`, in words, each with its subject. What one of them does not know is no difference.
    pub fn changes(&self, now: &LaunchFacts) -> Vec<String> {
        let mut changes = Vec::new();
        let mut compare = |what: &str, then: &Option<String>, now: &Option<String>| {
            if let (Some(then), Some(now)) = (then, now)
                && then != now
            {
                changes.push(format!("{what}: {then} then, {now} now"));
            }
        };
        compare("the interpreter", &self.interpreter, &now.interpreter);
        compare("torch", &self.torch, &now.torch);
        for name in LAUNCH_VARIABLES {
            let said = |facts: &LaunchFacts| {
                let value = facts.variables.get(name);
                Some(value.map_or("not set".to_string(), |value| format!("{value:?}")))
            };
            compare(name, &said(self), &said(now));
        }
        changes.extend(self.changed_files(now));
        changes
    }

    fn changed_files(&self, now: &LaunchFacts) -> Vec<String> {
        if self.files.is_empty() {
            return Vec::new();
        }
        let of = |facts: &'_ LaunchFacts, path: &str| -> Option<(u64, u32)> {
            let file = facts.files.iter().find(|file| file.path == path)?;
            Some((file.length, file.crc))
        };
        let mut changes = Vec::new();
        for file in &self.files {
            match of(now, &file.path) {
                None => changes.push(format!("{} is gone, or no longer read", file.path)),
                Some(found) if found != (file.length, file.crc) => {
                    changes.push(format!("{} has changed", file.path));
                }
                Some(_) => {}
            }
        }
        let new = now.files.iter();
        let new = new.filter(|file| of(self, &file.path).is_none());
        changes.extend(new.map(|file| format!("{} is new", file.path)));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(torch: Option<&str>, conf: Option<&str>, files: &[(&str, u32)]) -> LaunchFacts {
        let conf = conf.map(|conf| ("PYTORCH_CUDA_ALLOC_CONF".to_string(), conf.to_string()));
        LaunchFacts {
            torch: torch.map(String::from),
            variables: conf.into_iter().collect(),
            files: files
                .iter()
                .map(|(path, crc)| ProgramFile {
                    path: path.to_string(),
                    length: 7,
                    crc: *crc,
                })
                .collect(),
            ..LaunchFacts::default()
        }
    }

    #[test]
    fn each_difference_is_named_and_what_is_not_known_is_none() {
        let then = facts(Some("2.9.0"), None, &[("/w/train.py", 1), ("/w/net.py", 2)]);
        assert_eq!(then.changes(&then), [] as [String; 0]);
        let now = facts(
            Some("2.11.0"),
            Some("expandable_segments:True"),
            &[("/w/train.py", 3), ("/w/data.py", 4)],
        );
        assert_eq!(
            then.changes(&now),
            [
                "torch: 2.9.0 then, 2.11.0 now",
                "PYTORCH_CUDA_ALLOC_CONF: not set then, \"expandable_segments:True\" now",
                "/w/train.py has changed",
                "/w/net.py is gone, or no longer read",
                "/w/data.py is new",
            ]
        );
        assert_eq!(
            facts(None, None, &[]).changes(&facts(Some("2.9.0"), None, &[("/w/a.py", 1)])),
            [] as [String; 0]
        );
    }
}
