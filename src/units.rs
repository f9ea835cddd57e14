//! Typed quantities, parsed and printed here only.
//!
//! A bare `u64` in a signature does not say what it counts, and a number printed in two places is
//! printed in two ways. Units are binary, as in PyTorch (1 GiB = 2^30 bytes).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub const fn mib(n: u64) -> Bytes {
        Bytes(n * MIB)
    }

    pub const fn gib(n: u64) -> Bytes {
        Bytes(n * GIB)
    }

    /// In GiB, for axes and ratios.
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / GIB as f64
    }

    /// `self - other`, or zero if `other` is larger: two sources read at different times may
    /// disagree.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// `self * factor`, rounded to the nearest byte; zero for a negative factor.
    pub fn scale(self, factor: f64) -> Bytes {
        Bytes((self.0 as f64 * factor).round().max(0.0) as u64)
    }

    /// `self / whole`; `None` if `whole` is zero.
    pub fn fraction_of(self, whole: Bytes) -> Option<f64> {
        (whole.0 > 0).then(|| self.0 as f64 / whole.0 as f64)
    }

    /// Parses `12`, `12.5 GiB`, `512MiB`, `2 GB`, `7 bytes`.
    ///
    /// `KB`, `MB`, `GB` are powers of two as well: the frameworks that print them mean that
    /// (PyTorch's MPS backend, unlike Apple's own tools). Returns `None` for anything else, and for
    /// figures of 2^63 and above, which mean "not available" (NVML under WDDM and WSL2).
    pub fn parse(text: &str) -> Option<Bytes> {
        let text = text.trim();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" | "byte" | "bytes" => 1,
            "k" | "kb" | "kib" => KIB,
            "m" | "mb" | "mib" => MIB,
            "g" | "gb" | "gib" => GIB,
            "t" | "tb" | "tib" => TIB,
            _ => return None,
        };
        let value: f64 = number.parse().ok()?;
        let bytes = (value * unit as f64).round();
        (bytes < 9.223_372_036_854_775e18).then_some(Bytes(bytes as u64))
    }

    /// Parses the size of a memory that a user writes: with its unit, and of a MiB at least. A bare number is
    /// refused, since `24` is meant as GiB.
    pub fn parse_size(text: &str) -> Option<Bytes> {
        let has_unit = text.trim_end().ends_with(|c: char| c.is_ascii_alphabetic());
        Bytes::parse(text).filter(|bytes| has_unit && *bytes >= Bytes::mib(1))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        self.saturating_sub(other)
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, |a, b| a + b)
    }
}

impl Bytes {
    /// Both figures with the digits that show which is larger: `23.52 GiB` beside `23.48 GiB`, and `23.5 GiB` beside `14.7 GiB`.
    pub fn apart(self, other: Bytes) -> [String; 2] {
        let as_usual = [self, other].map(|bytes| bytes.to_string());
        match self != other && as_usual[0] == as_usual[1] {
            true => [self, other].map(Bytes::with_a_digit_more),
            false => as_usual,
        }
    }

    /// `14.71 GiB`, `512.4 MiB`: where figures are compared that are nearly the same.
    pub fn with_a_digit_more(self) -> String {
        let n = self.0 as f64;
        match self.0 {
            b if b < 10 * MIB => format!("{:.2} MiB", n / MIB as f64),
            b if b < GIB => format!("{:.1} MiB", n / MIB as f64),
            b if b < 10 * GIB => format!("{:.3} GiB", n / GIB as f64),
            b if b < TIB => format!("{:.2} GiB", n / GIB as f64),
            _ => format!("{:.3} TiB", n / TIB as f64),
        }
    }
}

impl fmt::Display for Bytes {
    /// `14.7 GiB`, `512 MiB`, `6.0 KiB`, `7 B`: at most four digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        let text = match self.0 {
            b if b < KIB => format!("{b} B"),
            b if b < MIB => format!("{:.1} KiB", n / KIB as f64),
            b if b < 10 * MIB => format!("{:.1} MiB", n / MIB as f64),
            b if b < GIB => format!("{:.0} MiB", n / MIB as f64),
            b if b < 10 * GIB => format!("{:.2} GiB", n / GIB as f64),
            b if b < TIB => format!("{:.1} GiB", n / GIB as f64),
            _ => format!("{:.2} TiB", n / TIB as f64),
        };
        f.pad(&text)
    }
}

/// An instant of a session, in microseconds of the monotonic clock since it began.
///
/// A changed wall clock has no effect; the recording's header has the wall clock at zero.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The start of the session.
    pub const ZERO: Moment = Moment(0);

    pub fn from_secs_f64(seconds: f64) -> Moment {
        Moment((seconds * 1e6).max(0.0) as u64)
    }

    /// Seconds since the session began.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, later: Duration) -> Moment {
        Moment(self.0.saturating_add(later.as_micros() as u64))
    }
}

/// A duration for display: `0:14:32`, `3:07`, `2d 04:10:00`.
pub fn clock_face(duration: Duration) -> String {
    let total = duration.as_secs();
    let (days, hours, minutes, seconds) = (
        total / 86_400,
        total / 3_600 % 24,
        total / 60 % 60,
        total % 60,
    );
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}d {hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// A PID in our own PID namespace, or that of a process on another node, which has the node's number
/// in the bits above [`PID_BITS`]: no process here has such a PID, so that nothing that asks the
/// kernel about it finds a stranger.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Pid(pub i32);

/// Linux has at most 2^22 processes (`PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;

impl Pid {
    /// The largest number of another node.
    pub const MOST_NODES: u32 = (1 << (31 - PID_BITS)) - 1;

    /// A process of another node, which are numbered from 1; `None` for numbers out of range.
    pub fn elsewhere(node: u32, pid: i32) -> Option<Pid> {
        let fits = (1..=Pid::MOST_NODES).contains(&node) && (1..1 << PID_BITS).contains(&pid);
        fits.then_some(Pid((node as i32) << PID_BITS | pid))
    }

    /// The number of its node; 0 for this one.
    pub fn node(self) -> u32 {
        self.0.max(0) as u32 >> PID_BITS
    }

    /// Whether it is a process of this node, which signals can reach.
    pub fn is_here(self) -> bool {
        self.node() == 0
    }

    /// Its number on its own node.
    pub fn there(self) -> i32 {
        match self.is_here() {
            true => self.0,
            false => self.0 & ((1 << PID_BITS) - 1),
        }
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.there().fmt(f)
    }
}

/// A rank of a distributed training, as numbered by the launcher (`RANK`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of the session: the first one is 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RunNumber(pub u32);

impl RunNumber {
    pub const FIRST: RunNumber = RunNumber(1);

    pub const fn next(self) -> RunNumber {
        RunNumber(self.0 + 1)
    }
}

impl fmt::Display for RunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A device's UUID without the leading `GPU-`, as in PyTorch: the one name common to the probe and
/// NVML. A simulated device's begins with `SIM`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uuid(String);

impl Uuid {
    /// From `GPU-4f2a…` (NVML) or `4f2a…` (PyTorch); MIG's prefix is kept.
    pub fn new(text: &str) -> Uuid {
        let text = text.trim();
        Uuid(text.strip_prefix("GPU-").unwrap_or(text).to_string())
    }

    /// Whether this is one of the demo's simulated devices.
    pub fn is_simulated(&self) -> bool {
        self.0.starts_with("SIM")
    }

    /// Whether this is an instance of a GPU that is divided by MIG.
    pub fn is_mig_instance(&self) -> bool {
        self.0.starts_with("MIG-")
    }

    /// Without `GPU-`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_are_compared_show_which_is_larger() {
        let gib = |gib: f64| Bytes((gib * GIB as f64) as u64);
        assert_eq!(gib(23.52).apart(gib(23.46)), ["23.52 GiB", "23.46 GiB"]);
        assert_eq!(gib(23.5).apart(gib(14.7)), ["23.5 GiB", "14.7 GiB"]);
        assert_eq!(gib(23.5).apart(gib(23.5)), ["23.5 GiB", "23.5 GiB"]);
    }

    #[test]
    fn bytes_read_what_frameworks_print() {
        for (text, bytes) in [
            ("7 bytes", Some(7)),
            ("1024.00 KiB", Some(MIB)),
            ("2.00 MiB", Some(2 * MIB)),
            ("1.50GiB", Some(3 << 29)),
            ("9 GB", Some(9 * GIB)),
            ("42", Some(42)),
            ("17179869184.00 GiB", None),
            ("3 parsecs", None),
            ("", None),
            ("1.2.3 GiB", None),
        ] {
            assert_eq!(Bytes::parse(text), bytes.map(Bytes), "{text:?}");
        }
    }

    #[test]
    fn a_size_of_a_memory_has_its_unit() {
        assert_eq!(Bytes::parse_size("24 GiB"), Some(Bytes(24 * GIB)));
        assert_eq!(Bytes::parse_size("512m "), Some(Bytes::mib(512)));
        for text in ["24", "25769803776", "24 B", "12 parsecs", ""] {
            assert_eq!(Bytes::parse_size(text), None, "{text:?}");
        }
    }

    #[test]
    fn bytes_print_with_few_figures() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (6 * KIB, "6.0 KiB"),
            (2 * MIB, "2.0 MiB"),
            (512 * MIB, "512 MiB"),
            (GIB, "1.00 GiB"),
            (14 * GIB + 7 * GIB / 10, "14.7 GiB"),
            (141 * GIB, "141.0 GiB"),
            (3 * TIB, "3.00 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn readings_that_disagree_give_nothing_rather_than_wrap() {
        assert_eq!(Bytes(3) - Bytes(5), Bytes::ZERO);
        assert_eq!(Bytes(1).fraction_of(Bytes::ZERO), None);
        assert_eq!(Moment(3).since(Moment(9)), Duration::ZERO);
    }

    #[test]
    fn clocks_read_well_after_a_day() {
        assert_eq!(clock_face(Duration::from_secs(187)), "3:07");
        assert_eq!(clock_face(Duration::from_secs(872)), "14:32");
        assert_eq!(clock_face(Duration::from_secs(4_000)), "1:06:40");
        assert_eq!(clock_face(Duration::from_secs(187_800)), "2d 04:10:00");
    }

    #[test]
    fn processes_of_other_nodes_are_nobodys_here() {
        let pid = Pid::elsewhere(511, 4_194_303).unwrap();
        assert_eq!(
            (pid.node(), pid.there(), pid.is_here()),
            (511, 4_194_303, false)
        );
        assert_eq!(pid.to_string(), "4194303");
        assert_ne!(Pid::elsewhere(1, 7), Pid::elsewhere(2, 7));
        assert!(Pid(4_194_303).is_here() && Pid(-1).is_here());
        for (node, pid) in [(0, 7), (512, 7), (1, 0), (1, -1), (1, 1 << 22)] {
            assert_eq!(Pid::elsewhere(node, pid), None);
        }
    }

    #[test]
    fn uuids_of_both_sources_are_one() {
        assert_eq!(Uuid::new("GPU-ab-cd"), Uuid::new("ab-cd"));
        assert!(Uuid::new("SIM-24").is_simulated());
        assert!(Uuid::new("MIG-4f2a").is_mig_instance());
    }
}
