//! Figures and words that several parts of the screen share. Figures keep their width, so that nothing on
//! the screen jumps: one unit and one number of decimals for all figures of a device.

use crate::state::{DeviceState, Patching, RankState, Run, RunOutcome, State};
use crate::ui::canvas::columns;
use crate::ui::keymap::InputMode;
use crate::ui::theme::Tone;
use crate::units::{Bytes, clock_face};
use std::borrow::Cow;
use std::time::Duration;

/// The format of a device's figures: GiB with one decimal, two on a small device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figures {
    decimals: usize,
}

impl Figures {
    pub fn new(capacity: Option<Bytes>) -> Figures {
        Figures {
            decimals: match capacity {
                Some(capacity) if capacity < Bytes::gib(10) => 2,
                Some(_) | None => 1,
            },
        }
    }

    /// Of a device, or of the limit below it that the process has.
    pub fn of(device: &DeviceState) -> Figures {
        let room = device.capacity.into_iter().chain(device.limit).min();
        Figures::new(room)
    }

    /// In GiB, without the unit.
    pub fn gib(self, bytes: Bytes) -> String {
        // What is far above a limit needs no hundredths, and has no room for them.
        let decimals = match bytes < Bytes::gib(100) {
            true => self.decimals,
            false => self.decimals.min(1),
        };
        format!("{:.*}", decimals, bytes.as_gib())
    }

    /// Right-aligned in five columns (`141.0`); `?` if unknown.
    pub fn column(self, bytes: Option<Bytes>) -> String {
        match bytes {
            Some(bytes) => format!("{:>5}", self.gib(bytes)),
            None => format!("{:>5}", "?"),
        }
    }
}

/// Where there is no room for the command, the script and the batch: it is the batch that is changed from run to run.
pub(super) fn short_command<'a>(command: &'a str, room: u16, ellipsis: &str) -> Cow<'a, str> {
    if columns(command) <= room {
        return Cow::Borrowed(command);
    }
    let Some((script, batch)) = script_and_batch(command) else {
        return Cow::Borrowed(command);
    };
    let shorter = with_what_follows(command, script, ellipsis);
    let shorter = shorter.chain([
        format!("{script} {ellipsis} {batch}"),
        format!("{script} {batch}"),
    ]);
    let fitting = shorter.into_iter().find(|short| columns(short) <= room);
    Cow::Owned(fitting.unwrap_or(batch))
}

/// The script with all of its options, or from the batch on with ever fewer of those behind it: remedies add theirs at the end.
fn with_what_follows<'a>(
    command: &'a str,
    script: &'a str,
    ellipsis: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let words: Vec<&str> = command.split(' ').collect();
    let of_script = words.iter().position(|word| word.ends_with(script));
    let behind = of_script.map_or(0, |at| at + 1);
    let batch = words.iter().position(names_batch).unwrap_or(words.len());
    let is_start = |at: &usize| words[*at].starts_with('-');
    let ends: Vec<usize> = (batch + 1..words.len())
        .filter(is_start)
        .chain([words.len()])
        .collect();
    let gap = match batch == behind {
        true => String::new(),
        false => format!("{ellipsis} "),
    };
    let whole = format!("{script} {}", words[behind..].join(" "));
    let shorter: Vec<String> = (ends.into_iter().rev())
        .map(|end| {
            let more = match end < words.len() {
                true => format!(" {ellipsis}"),
                false => String::new(),
            };
            format!(
                "{script} {gap}{}{more}",
                words[batch.min(end)..end].join(" ")
            )
        })
        .collect();
    std::iter::once(whole).chain(shorter)
}

fn names_batch(word: &&str) -> bool {
    word.starts_with('-') && word.contains("batch")
}

/// The fewest words that name both.
pub(super) fn shortest_with_name(command: &str) -> Option<String> {
    let (script, batch) = script_and_batch(command)?;
    Some(format!("{script} {batch}"))
}

fn script_and_batch(command: &str) -> Option<(&str, String)> {
    let words: Vec<&str> = command.split(' ').collect();
    let at = words.iter().position(names_batch)?;
    let batch = match (words[at].contains('='), words.get(at + 1)) {
        (false, Some(value)) => format!("{} {value}", words[at]),
        (true, _) | (false, None) => words[at].to_string(),
    };
    let script = words.iter().find(|word| word.ends_with(".py"));
    let script = script
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or(words[0]);
    Some((script, batch))
}

/// What words of the screen mean, for its help.
pub(super) fn glossary(mode: InputMode) -> &'static [(&'static str, &'static str)] {
    match mode {
        InputMode::Watching => &[
            (
                "lowest, peak",
                "of the chart's band: what stays allocated after each step, and what a step reaches",
            ),
            (
                "peak ≥",
                "a step reached at least so much: it was read in part only",
            ),
            (
                "bottom of it",
                "the colours of the memory bar: parameters, and the optimizer's state above them",
            ),
            (
                "solid, dashed",
                "lines of the chart: reserved, and in use on the whole GPU",
            ),
            ("allocated", "live tensors, in the chart's band"),
            (
                "reserved",
                "what PyTorch has taken from CUDA: allocated and cached",
            ),
            (
                "cached",
                "reserved and not allocated: PyTorch uses it again",
            ),
            (
                "cache flushed",
                "no room: PyTorch gave its cache back and tried again",
            ),
            ("device", "in use on the GPU, by any process"),
            (
                "fragments",
                "cached, and of no use for a larger block (inactive split)",
            ),
            (
                "probe",
                "oomph inside the training: it reads PyTorch's allocator",
            ),
            ("NVML", "NVIDIA's library, which knows the whole GPU"),
        ],
        InputMode::Step => &[
            ("live", "allocated and not freed yet, at the cursor"),
            (
                "alloc/free",
                "the place in the step: allocations and frees up to the cursor",
            ),
            (
                "temporaries",
                "freed again in the phase that allocated them",
            ),
        ],
        _ => &[],
    }
}

/// `1,204`.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in at most eight columns: `0:07`, `6:23:59`, `6d 23h`.
pub(super) fn age(duration: Duration) -> String {
    let hours = duration.as_secs() / 3_600;
    match hours / 24 {
        0 => clock_face(duration),
        days => format!("{days}d {:>2}h", hours % 24),
    }
}

/// Steps per second, `6.31/s`, or `12.4 s/step` below one in five seconds.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 100.0 => format!("{r:.0}/s"),
        r if r >= 10.0 => format!("{r:.1}/s"),
        r if r >= 0.2 => format!("{r:.2}/s"),
        r if r > 0.0 => format!("{:.1} s/step", 1.0 / r),
        _ => String::from("?"),
    }
}

pub(super) fn patching_words(patching: Patching) -> (&'static str, Tone) {
    match patching {
        Patching::Asked => ("patches requested", Tone::Warning),
        Patching::Applied => ("patched at runtime", Tone::Warning),
        Patching::Declined => ("not patched", Tone::Warning),
        Patching::Edited => ("edited copy", Tone::Warning),
    }
}

pub(super) fn outcome_words(run: &Run) -> (String, Tone) {
    let tone = match run.outcome() {
        RunOutcome::Finished if run.is_hidden_failure() => Tone::Wrong,
        RunOutcome::Running => Tone::Accent,
        RunOutcome::Finished => Tone::Good,
        RunOutcome::Failed(_) if run.measured.is_some() => Tone::Good,
        RunOutcome::TrainedNothing | RunOutcome::OutOfMemory | RunOutcome::Failed(_) => Tone::Wrong,
        RunOutcome::Stopped => Tone::Dim,
    };
    (run.outcome_words(), tone)
}

/// The slowest rank's rate, at which a distributed training runs; after the run, the last one.
pub(super) fn steps_per_second(run: &Run) -> Option<f64> {
    run.ranks
        .iter()
        .filter(|rank| rank.disconnected.is_none() || run.ended.is_some())
        .filter_map(|rank| rank.steps.rate)
        .min_by(f64::total_cmp)
}

/// The ranks of a run that use a device.
pub(super) fn ranks_on<'a>(
    run: &'a Run,
    device: &'a DeviceState,
) -> impl Iterator<Item = &'a RankState> + use<'a> {
    run.ranks
        .iter()
        .filter(|rank| rank.device.as_ref() == Some(&device.uuid))
}

/// The process of a device that is shown where there is room for one: the one with the most reserved
/// on it.
pub(super) fn rank_on<'a>(state: &'a State, device: &'a DeviceState) -> Option<&'a RankState> {
    ranks_on(state.run()?, device)
        .max_by_key(|rank| rank.sample.as_ref().map(|(_, sample)| sample.reserved))
}

/// A process's name, if there are several.
pub(super) fn rank_name(run: &Run, rank: &RankState) -> Option<String> {
    match rank.hello.rank {
        Some(number) => Some(format!("rank {number}")),
        None if run.ranks.len() > 1 => Some(format!("process {}", rank.hello.pid)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_width() {
        let large = Figures::new(Some(Bytes::gib(141)));
        assert_eq!(large.column(Some(Bytes::mib(512))), "  0.5");
        assert_eq!(large.column(Some(Bytes::gib(141))), "141.0");
        assert_eq!(large.column(None), "    ?");
        let small = Figures::new(Some(Bytes::gib(8)));
        assert_eq!(small.column(Some(Bytes::mib(512))), " 0.50");
    }

    #[test]
    fn ages_keep_their_width() {
        for (seconds, expected) in [
            (7, "0:07"),
            (86_399, "23:59:59"),
            (86_400, "1d  0h"),
            (604_791, "6d 23h"),
            (999 * 86_400, "999d  0h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn counts_and_rates_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_204), "1,204");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(6.314), "6.31/s");
        assert_eq!(rate(123.4), "123/s");
        assert_eq!(rate(0.05), "20.0 s/step");
        assert_eq!(rate(0.0), "?");
    }
}
