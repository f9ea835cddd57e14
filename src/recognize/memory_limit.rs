//! The sizes in a command that limit the host's memory of what it starts: `srun --mem`, `docker run --memory` and
//! `--shm-size`, `systemd-run -p MemoryMax`. How each is written, and which larger one can stand in its place.

use crate::units::Bytes;
use serde::Deserialize;

/// How a launcher writes sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SizeStyle {
    /// srun(1): K, M, G, T; without one of them MiB.
    Slurm,
    /// go-units' RAMInBytes, of Docker and Podman: b, k, m, g, t, also `gb` and `GiB`; without one bytes.
    Docker,
    /// systemd.resource-control(5): K, M, G, T to the base 1024; without one bytes. Also `infinity`, and shares of all RAM.
    Systemd,
}

/// What a size is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitedMemory {
    Ram,
    /// RAM for each CPU or GPU.
    RamOfEach,
    /// RAM and swap together.
    RamAndSwap,
    /// /dev/shm.
    Shm,
}

/// A size in a word of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    /// `--mem`, `-p MemoryMax=`.
    pub option: String,
    pub what: LimitedMemory,
    pub style: SizeStyle,
    /// The index of its word, and its first byte in that.
    pub at: usize,
    pub from: usize,
    /// As typed.
    pub text: String,
}

impl SizeLimit {
    /// What it allows; `None` where that is everything, or cannot be read.
    pub fn size(&self) -> Option<Bytes> {
        let (number, unit) = self.parts()?;
        let number: f64 = number.parse().ok()?;
        (number > 0.0).then_some(Bytes((number * unit as f64) as u64))
    }

    /// The number, and the bytes of its unit.
    fn parts(&self) -> Option<(&str, u64)> {
        let end = self.text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = self.text.split_at(end.unwrap_or(self.text.len()));
        let shift = match (suffix.to_ascii_lowercase().as_str(), self.style) {
            ("", SizeStyle::Slurm) => 20,
            ("" | "b", _) => 0,
            ("k" | "kb" | "kib", _) => 10,
            ("m" | "mb" | "mib", _) => 20,
            ("g" | "gb" | "gib", _) => 30,
            ("t" | "tb" | "tib", _) => 40,
            _ => return None,
        };
        Some((number, 1 << shift))
    }

    /// At least so much, in the unit that is typed, as a number that a person would write. `None` if it has no unit to keep.
    pub fn raised(&self, least: Bytes) -> Option<String> {
        let (old, unit) = self.parts()?;
        let suffix = &self.text[old.len()..];
        let number = friendly(least.0.div_ceil(unit), old.parse().ok());
        Some(format!("{number}{suffix}"))
    }

    /// The same option with another size.
    pub fn with(&self, text: String) -> SizeLimit {
        SizeLimit {
            text,
            ..self.clone()
        }
    }

    /// "--mem 8G", "-p MemoryMax=8G"
    pub fn shown(&self) -> String {
        let joint = if self.option.ends_with('=') { "" } else { " " };
        format!("{}{joint}{}", self.option, self.text)
    }
}

/// The next number of which a person would think: two digits and zeros; where the old number is one of powers of two, a multiple
/// of such a power from 1024 on, and 128 or 256 before.
fn friendly(least: u64, old: Option<u64>) -> u64 {
    let least = least.max(1);
    let decimal = least.next_multiple_of(10_u64.pow(least.ilog10().saturating_sub(1)));
    let is_of_two = |old: u64| old.is_power_of_two() || old > 0 && old.is_multiple_of(1024);
    if !old.is_none_or(is_of_two) {
        return decimal;
    }
    if least < 1024 {
        return decimal.min(least.next_power_of_two());
    }
    let power = 1024_u64.pow(least.ilog(1024));
    // Below eight of them whole steps would be steep.
    least.next_multiple_of(if least < power * 8 { power / 4 } else { power })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::recognize::CommandLayout;

    /// The limits of a command, as they are shown, with what they are of.
    fn limits(line: &str) -> Vec<(LimitedMemory, String, Option<Bytes>)> {
        let command = CommandLine::typed(line);
        let launchers = CommandLayout::new(&command).launchers;
        let limits = launchers.into_iter().flat_map(|launcher| launcher.limits);
        limits
            .inspect(|limit| {
                let word = command.argv[limit.at].to_string_lossy();
                assert_eq!(word[limit.from..], limit.text, "{line}");
            })
            .map(|limit| (limit.what, limit.shown(), limit.size()))
            .collect()
    }

    #[test]
    fn sizes_are_found_in_the_launchers_own_options() {
        use LimitedMemory::{Ram, RamAndSwap, RamOfEach, Shm};
        let gib = |n| Some(Bytes::gib(n));
        for (line, expected) in [
            ("srun --mem=8G python t.py", vec![(Ram, "--mem 8G", gib(8))]),
            (
                "srun --mem 8192 -n1 python t.py",
                vec![(Ram, "--mem 8192", gib(8))],
            ),
            ("srun --mem=0 python t.py", vec![(Ram, "--mem 0", None)]),
            (
                "srun -N1 --mem-per-cpu=2G python t.py",
                vec![(RamOfEach, "--mem-per-cpu 2G", gib(2))],
            ),
            (
                "salloc --mem-per-gpu 2g srun --mem=1T python t.py",
                vec![(RamOfEach, "--mem-per-gpu 2g", gib(2))],
            ),
            ("srun --mem-bind=local python t.py", vec![]),
            (
                "docker run --rm -m 8g --memory-swap=9g --shm-size 1gb img python t.py",
                vec![
                    (Ram, "-m 8g", gib(8)),
                    (RamAndSwap, "--memory-swap 9g", gib(9)),
                    (Shm, "--shm-size 1gb", gib(1)),
                ],
            ),
            (
                "podman run -m8g img python t.py",
                vec![(Ram, "-m 8g", gib(8))],
            ),
            (
                "docker run --memory=8589934592 img python t.py",
                vec![(Ram, "--memory 8589934592", gib(8))],
            ),
            ("docker run --memory-reservation=1g img python t.py", vec![]),
            (
                "systemd-run --scope -p MemoryMax=8G python t.py",
                vec![(Ram, "-p MemoryMax=8G", gib(8))],
            ),
            (
                "systemd-run --user -pMemoryMax=8G --property=MemoryLimit=4G python t.py",
                vec![
                    (Ram, "-p MemoryMax=8G", gib(8)),
                    (Ram, "--property MemoryLimit=4G", gib(4)),
                ],
            ),
            (
                "systemd-run -p MemoryMax=infinity -p MemoryHigh=1G python t.py",
                vec![(Ram, "-p MemoryMax=infinity", None)],
            ),
            (
                "systemd-run -p MemoryMax=40% a",
                vec![(Ram, "-p MemoryMax=40%", None)],
            ),
            // The program's own arguments are not the launcher's.
            ("srun python t.py --mem=8G", vec![]),
            ("python t.py --shm-size=1g", vec![]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(what, shown, size)| (what, shown.to_string(), size))
                .collect();
            assert_eq!(limits(line), expected, "{line}");
        }
    }

    #[test]
    fn a_glued_size_is_no_reason_to_take_the_next_word_for_it() {
        let command = CommandLine::typed("docker run -m8g img python t.py --lr 1");
        let layout = CommandLayout::new(&command);
        assert_eq!(command.argv[layout.program].to_string_lossy(), "t.py");
    }

    #[test]
    fn a_larger_size_keeps_its_unit_and_is_one_that_a_person_would_write() {
        for (style, typed, least, raised) in [
            (SizeStyle::Slurm, "8G", Bytes::gib(10), "10G"),
            (SizeStyle::Slurm, "8G", Bytes::mib(10_241), "11G"),
            (SizeStyle::Slurm, "8000", Bytes::mib(10_240), "11000"),
            (SizeStyle::Slurm, "8192M", Bytes::gib(10), "10240M"),
            (SizeStyle::Slurm, "120G", Bytes::gib(151), "160G"),
            (SizeStyle::Docker, "1.5g", Bytes::mib(2_000), "2g"),
            (SizeStyle::Docker, "64m", Bytes::mib(612), "620m"),
            (SizeStyle::Docker, "64m", Bytes::mib(128), "128m"),
            (SizeStyle::Docker, "64m", Bytes::gib(8), "8192m"),
            (SizeStyle::Docker, "1024m", Bytes::mib(1_270), "1280m"),
            (SizeStyle::Docker, "8GiB", Bytes::gib(12), "12GiB"),
            (
                SizeStyle::Docker,
                "8589934592",
                Bytes::gib(10),
                "10737418240",
            ),
            (SizeStyle::Systemd, "8388608K", Bytes::gib(9), "9437184K"),
        ] {
            let limit = SizeLimit {
                option: "--mem".into(),
                what: LimitedMemory::Ram,
                style,
                at: 0,
                from: 0,
                text: typed.into(),
            };
            let new = limit.raised(least);
            assert_eq!(new.as_deref(), Some(raised), "{typed}");
            let size = limit.with(raised.into()).size();
            assert!(size >= Some(least), "{typed}: {size:?}");
        }
    }
}
