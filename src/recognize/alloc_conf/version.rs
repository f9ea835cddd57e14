//! torch's version, read from its own text.

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

    pub(super) fn is_at_least(self, (major, minor): (u32, u32)) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}
