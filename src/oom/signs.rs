//! What lines after a message say about whether the program survived it.

use super::not_oom::is_handled;
use super::wording::Text;
use regex::Regex;
use std::sync::LazyLock;

/// What one line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// The program says that it goes on.
    Handled,
    /// A process of the program ended badly, as its launcher or shell reports.
    EndedBadly,
    /// It ended well.
    EndedWell,
    /// An exception that is no out-of-memory.
    OtherException,
    /// Python's words between an exception and the one that it led to.
    Chain,
    /// A counter of the training stands at this number.
    Progress(Counter),
    /// Part of a traceback, an after-effect of the end, or decoration: says nothing.
    Nothing,
    /// Other output.
    Output,
}

/// A counter that training programs print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counter {
    /// Which of the words it stood behind; bars have a number of their own.
    pub(super) of: u8,
    /// Where it stands.
    pub(super) at: u64,
}

/// What the line says.
pub(super) fn read(text: &Text) -> Sign {
    let squeezed = &text.squeezed;
    if let Some(ours) = squeezed.strip_prefix("oomph:") {
        // Our own last words (report/text.rs): said when a program has died of it, and only then.
        return match ours.starts_with("outofmemory:") {
            true => Sign::EndedBadly,
            false => Sign::Nothing,
        };
    }
    if is_handled(squeezed) {
        return Sign::Handled;
    }
    if text.has_any(&["xit", "XIT"])
        && let Some(status) = exit_status(&squeezed.to_ascii_lowercase())
    {
        return match status {
            // torchrun ends the ranks that are left with SIGTERM: collateral, no sign.
            -15 => Sign::Nothing,
            0 => Sign::EndedWell,
            _ => Sign::EndedBadly,
        };
    }
    if text.has_any(&["ChildFailedError", "CANCELLEDAT"]) {
        return Sign::EndedBadly;
    }
    let chain = [
        "Duringhandlingoftheaboveexception",
        "Theaboveexceptionwasthedirectcause",
    ]
    .iter()
    .any(|words| squeezed.starts_with(words));
    if chain {
        return Sign::Chain;
    }
    if let Some(counter) = counter(&text.plain) {
        return Sign::Progress(counter);
    }
    match text.plain.trim_end() {
        line if is_exception(line) => Sign::OtherException,
        line if is_after_effect(line, squeezed) => Sign::Nothing,
        _ => Sign::Output,
    }
}

/// The exit status that a launcher, a shell or an IDE reports; in lower case, squeezed.
fn exit_status(line: &str) -> Option<i32> {
    const WORDS: [&str; 11] = [
        // torch/distributed/elastic: `failed (exitcode: 1) local_rank: 0`, `exitcode  : 1 (pid: …)`.
        "(exitcode:",
        "exitcode:",
        // DeepSpeed's launcher.
        "exitswithreturncode=",
        // subprocess, accelerate.
        "returnednon-zeroexitstatus",
        // time(1).
        "exitedwithnon-zerostatus",
        // PyCharm, GitHub, GitLab, srun, Docker, make and shells' wrappers.
        "finishedwithexitcode",
        "completedwithexitcode",
        "exitedwithexitcode",
        "exitedwithcode",
        "exitedwithstatus",
        "exitstatus:",
    ];
    WORDS.iter().find_map(|words| {
        let status = &line[line.find(words)? + words.len()..];
        let end = status
            .char_indices()
            .find(|&(at, c)| !(c.is_ascii_digit() || at == 0 && c == '-'))
            .map_or(status.len(), |(at, _)| at);
        status[..end].parse().ok()
    })
}

/// The words that training programs print a number behind.
const COUNTED: [&str; 6] = ["iteration", "iter", "step", "epoch", "batch", "update"];

static COUNTERS: LazyLock<Regex> = LazyLock::new(|| {
    let words = COUNTED.join("|");
    // tqdm's bar, `12/345 [00:01<…`, or a number behind one of the words.
    Regex::new(&format!(
        r#"(?-u)([0-9]+)/[0-9]+ \[|\b(?i:({words}))[ :=#|'"\[-]{{0,6}}([0-9]+)"#
    ))
    .expect("the words have nothing special")
});

/// The first counter in a line.
pub(super) fn counter(plain: &str) -> Option<Counter> {
    // Most lines have none, and finding that out is cheaper than taking one apart.
    let found = COUNTERS.captures(COUNTERS.find(plain)?.as_str())?;
    let number = |group: usize| found.get(group)?.as_str().parse().ok();
    match found.get(2) {
        None => Some(Counter {
            of: 0,
            at: number(1)?,
        }),
        Some(word) => {
            let of = COUNTED
                .iter()
                .position(|known| known.eq_ignore_ascii_case(word.as_str()))?;
            Some(Counter {
                of: of as u8 + 1,
                at: number(3)?,
            })
        }
    }
}

/// `package.module.SomeError: words` at the start of a line.
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
fn is_after_effect(line: &str, squeezed: &str) -> bool {
    const BEGINNINGS: [&str; 22] = [
        "Traceback(",
        "[W",
        "wandb:",
        "Exceptionignored",
        "sys:1:",
        "Killingsubprocess",
        "terminatecalled",
        "what():",
        "Aborted",
        "srun:",
        "slurmstepd",
        "documentationforMemory",
        "reservedmemoryis",
        "resource_tracker:",
        "Rootcause",
        // What torch adds to an error of the runtime (CUDAException.cpp).
        "Searchfor`",
        "SettheenvironmentvariableHYDRA_FULL_ERROR",
        "CUDAkernelerrors",
        "HIPkernelerrors",
        "Fordebuggingconsider",
        "Compilewith`",
        "[TheCUDAdriver",
    ];
    const ANYWHERE: [&str; 9] = [
        "resource_tracker:",
        "UserWarning:",
        "warnings.warn(",
        "processgrouphasNOTbeendestroyed",
        "sigkill_handler",
        "Sendingprocess",
        "torch.distributed.elastic",
        "PYTORCH_CUDA_ALLOC_CONF",
        "MemoryManagement",
    ];
    line.starts_with([' ', '\t', '=', '-', '*', '~', '^', '|', '╭', '│', '╰', '`'])
        || BEGINNINGS.iter().any(|words| squeezed.starts_with(words))
        || ANYWHERE.iter().any(|words| squeezed.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(line: &str) -> Sign {
        read(&Text::new(line.to_owned(), ""))
    }

    #[test]
    fn ends_are_read_from_whoever_reports_them() {
        let cases = [
            (
                "E ...api:failed (exitcode: 1) local_rank: 0 (pid: 71) of binary: /usr/bin/python",
                Sign::EndedBadly,
            ),
            ("  exitcode  : 1 (pid: 71)", Sign::EndedBadly),
            ("  exitcode  : -15 (pid: 72)", Sign::Nothing),
            ("Process finished with exit code 0", Sign::EndedWell),
            ("Process finished with exit code 1", Sign::EndedBadly),
            (
                "##[error]Process completed with exit code 137.",
                Sign::EndedBadly,
            ),
            (
                "[launch.py:3:sigkill_handler] ['python'] exits with return code = 1",
                Sign::EndedBadly,
            ),
            (
                "subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.",
                Sign::EndedBadly,
            ),
            (
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                Sign::EndedBadly,
            ),
            (
                "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02 ***",
                Sign::EndedBadly,
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
            ("    loss.backward()", Sign::Nothing),
            ("Traceback (most recent call last):", Sign::Nothing),
            (
                "During handling of the above exception, another exception occurred:",
                Sign::Chain,
            ),
            ("ValueError: cannot reshape", Sign::OtherException),
            ("KeyboardInterrupt", Sign::OtherException),
            ("wandb: run ended", Sign::Nothing),
            ("Saved the mesh", Sign::Output),
            ("skipping batch 3", Sign::Handled),
        ];
        for (line, expected) in cases {
            assert_eq!(sign(line), expected, "{line}");
        }
    }
}
