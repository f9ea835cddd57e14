//! torch's version, parsed from `torch.__version__`.

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

    pub(super) fn is_at_least(self, (major, minor): (u32, u32)) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}
