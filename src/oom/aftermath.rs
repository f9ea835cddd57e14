//! What the lines after an OOM message say about whether the program survived it.

use super::phrases::PHRASES;
use super::wording::CompactLine;
use regex::Regex;
use std::sync::LazyLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurvivalSign {
    /// The program says that it continues.
    Handled,
    /// A launcher or shell reports a failed process.
    EndedBadly,
    /// A launcher or shell reports success.
    EndedWell,
    /// An exception that is no OOM.
    OtherException,
    /// Python's words between an exception and the one raised while handling it.
    Chain,
    /// A counter of the training.
    Progress(ProgressCounter),
    /// Part of a traceback, noise of a dying program, or decoration.
    Nothing,
    /// Other output.
    Output,
}

/// A counter that training programs print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProgressCounter {
    /// Which word it followed; 0 for a progress bar.
    pub(super) of: u8,
    /// Its value.
    pub(super) at: u64,
}

pub(super) fn read(text: &CompactLine) -> SurvivalSign {
    let compact = &text.compact;
    if let Some(ours) = compact.strip_prefix("oomph:") {
        // Our own last words, printed only if the program died of it.
        return match ours.starts_with("outofmemory:") {
            true => SurvivalSign::EndedBadly,
            false => SurvivalSign::Nothing,
        };
    }
    let phrases = &PHRASES.aftermath;
    if phrases.handled.is_in(compact) {
        return SurvivalSign::Handled;
    }
    if text.has_any(&["xit", "XIT"])
        && let Some(status) = exit_status(&compact.to_ascii_lowercase())
    {
        return match status {
            // torchrun ends the remaining ranks with SIGTERM.
            -15 => SurvivalSign::Nothing,
            0 => SurvivalSign::EndedWell,
            _ => SurvivalSign::EndedBadly,
        };
    }
    if phrases.ended_badly.is_in(compact) {
        return SurvivalSign::EndedBadly;
    }
    if phrases.chain.begins(compact) {
        return SurvivalSign::Chain;
    }
    if let Some(counter) = counter(&text.plain) {
        return SurvivalSign::Progress(counter);
    }
    match text.plain.trim_end() {
        line if is_exception(line) => SurvivalSign::OtherException,
        line if is_after_effect(line, compact) => SurvivalSign::Nothing,
        _ => SurvivalSign::Output,
    }
}

/// The exit status in a compact line in lower case.
fn exit_status(line: &str) -> Option<i32> {
    PHRASES.aftermath.exit_status.iter().find_map(|words| {
        let status = &line[line.find(words)? + words.len()..];
        let end = status
            .char_indices()
            .find(|&(at, c)| !(c.is_ascii_digit() || at == 0 && c == '-'))
            .map_or(status.len(), |(at, _)| at);
        status[..end].parse().ok()
    })
}

/// Words that training programs print a number behind.
const COUNTED: [&str; 6] = ["iteration", "iter", "step", "epoch", "batch", "update"];

static COUNTERS: LazyLock<Regex> = LazyLock::new(|| {
    let words = COUNTED.join("|");
    // tqdm's `12/345 [00:01<…`, or a number behind one of the words.
    Regex::new(&format!(
        r#"(?-u)([0-9]+)/[0-9]+ \[|\b(?i:({words}))[ :=#|'"\[-]{{0,6}}([0-9]+)"#
    ))
    .expect("the words have nothing special")
});

/// The first counter in a line.
pub(super) fn counter(plain: &str) -> Option<ProgressCounter> {
    // Most lines have none: searching is cheaper than capturing.
    let found = COUNTERS.captures(COUNTERS.find(plain)?.as_str())?;
    let number = |group: usize| found.get(group)?.as_str().parse().ok();
    match found.get(2) {
        None => Some(ProgressCounter {
            of: 0,
            at: number(1)?,
        }),
        Some(word) => {
            let of = COUNTED
                .iter()
                .position(|known| known.eq_ignore_ascii_case(word.as_str()))?;
            Some(ProgressCounter {
                of: of as u8 + 1,
                at: number(3)?,
            })
        }
    }
}

/// A line that starts with `package.module.SomeError:`.
fn is_exception(line: &str) -> bool {
    let class = line.split([':', ' ']).next().unwrap_or_default();
    let named = ["Error", "Exception", "Interrupt"]
        .iter()
        .any(|suffix| class.ends_with(suffix));
    named
        && class
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

/// What a dying program prints beside its traceback.
fn is_after_effect(line: &str, compact: &str) -> bool {
    line.starts_with([' ', '\t', '=', '-', '*', '~', '^', '|', '╭', '│', '╰', '`'])
        || PHRASES.aftermath.after_effect_begins.begins(compact)
        || PHRASES.aftermath.after_effect_has.is_in(compact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(line: &str) -> SurvivalSign {
        read(&CompactLine::new(line.to_owned(), ""))
    }

    #[test]
    fn ends_are_read_from_whoever_reports_them() {
        let cases = [
            (
                "E ...api:failed (exitcode: 1) local_rank: 0 (pid: 71) of binary: /usr/bin/python",
                SurvivalSign::EndedBadly,
            ),
            ("  exitcode  : 1 (pid: 71)", SurvivalSign::EndedBadly),
            ("  exitcode  : -15 (pid: 72)", SurvivalSign::Nothing),
            ("Process finished with exit code 0", SurvivalSign::EndedWell),
            (
                "Process finished with exit code 1",
                SurvivalSign::EndedBadly,
            ),
            (
                "##[error]Process completed with exit code 137.",
                SurvivalSign::EndedBadly,
            ),
            (
                "[launch.py:3:sigkill_handler] ['python'] exits with return code = 1",
                SurvivalSign::EndedBadly,
            ),
            (
                "subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.",
                SurvivalSign::EndedBadly,
            ),
            (
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                SurvivalSign::EndedBadly,
            ),
            (
                "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02 ***",
                SurvivalSign::EndedBadly,
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(sign(line), expected, "{line}");
        }
    }

    #[test]
    fn counters_are_read() {
        let cases = [
            (" 12%|██ | 7/60 [00:01<00:09,  5.1it/s]", Some((0, 7))),
            ("Epoch 3: loss 0.25", Some((4, 3))),
            ("epoch: [4][10/20] loss", Some((4, 4))),
            ("{'step': 120, 'loss': 1.5}", Some((3, 120))),
            ("iter=77 lr=0.1", Some((2, 77))),
            ("timestep 3", None),
            ("stepping over", None),
            ("step by step", None),
            ("files 3/ [a]", None),
        ];
        for (line, expected) in cases {
            let found = counter(line).map(|counter| (counter.of, counter.at));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn tracebacks_say_nothing_and_output_does() {
        let cases = [
            ("    loss.backward()", SurvivalSign::Nothing),
            ("Traceback (most recent call last):", SurvivalSign::Nothing),
            (
                "During handling of the above exception, another exception occurred:",
                SurvivalSign::Chain,
            ),
            ("ValueError: cannot reshape", SurvivalSign::OtherException),
            ("KeyboardInterrupt", SurvivalSign::OtherException),
            ("wandb: run ended", SurvivalSign::Nothing),
            ("Saved the mesh", SurvivalSign::Output),
            ("skipping batch 3", SurvivalSign::Handled),
        ];
        for (line, expected) in cases {
            assert_eq!(sign(line), expected, "{line}");
        }
    }
}
