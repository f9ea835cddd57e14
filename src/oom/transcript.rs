//! Reads a whole text, whose end is known: the scanner's reports with their outcomes, which the lines after a message tell.

use crate::oom::report::{OomKind, OomOutcome, OomReport};
use crate::oom::scanner::{MessageSink, OomMessage, Scanner};
use crate::oom::wording::PHRASES;
use crate::oom::wording::{CompactLine, MessageForm};
use crate::units::Rank;
use regex::Regex;
use std::sync::LazyLock;

/// Reports kept; a program with more catches them.
const MOST_REPORTS: usize = 1_000;

/// Lines between a message and the program's words that it continues, at most.
const HANDLED_WITHIN_LINES: u64 = 20;

/// A text that is read to its end, in bounded memory.
#[derive(Debug, Default)]
pub struct Transcript {
    scanner: Scanner,
    aftermath: OutcomeTracker,
}

impl Transcript {
    pub fn new() -> Transcript {
        Transcript::default()
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.scanner.feed_into(bytes, &mut self.aftermath);
    }

    /// The text has ended: its OOMs in order.
    pub fn finish(mut self) -> Vec<OomReport> {
        self.scanner.finish_into(&mut self.aftermath);
        self.aftermath.settle()
    }
}

/// The OOMs of `text` with their outcomes, as far as the text tells.
pub fn read(text: &[u8]) -> Vec<OomReport> {
    let mut transcript = Transcript::new();
    transcript.feed(text);
    transcript.finish()
}

/// Lines after a message that are all read. A program that continues shows it by then; later only
/// words about its exit matter, which the scanner searches for anyway.
const NEAR_LINES: u64 = 20_000;

/// What the lines after each message tell.
#[derive(Debug, Default)]
struct OutcomeTracker {
    /// Lines since the last message.
    lines: u64,
    cases: Vec<TrackedOom>,
    /// Counters since the first message, by rank and word.
    counters: Vec<(Option<Rank>, ProgressCounter)>,
}

#[derive(Debug)]
struct TrackedOom {
    report: OomReport,
    is_notice: bool,
    /// It is the last line of a traceback.
    is_uncaught_form: bool,
    /// It was logged as a warning or less.
    is_warning: bool,
    /// How often a counter rose after it.
    rises: u32,
    /// A counter was printed after it.
    is_counted: bool,
    /// An exit status other than 0 was reported.
    ended_badly: bool,
    /// Another error followed, of which the program may have died.
    other_exception: bool,
    /// The next exception is a consequence.
    chained: bool,
    /// Other output came.
    output: bool,
    /// The class of the last other error, if nothing but its traces follows.
    later_error: Option<String>,
}

impl MessageSink for OutcomeTracker {
    fn wants_lines(&self) -> bool {
        !self.cases.is_empty() && self.lines < NEAR_LINES
    }

    fn message(&mut self, message: OomMessage<'_>) {
        self.lines = 0;
        if !message.is_notice {
            let of = |report: &OomReport| (report.kind, report.rank, report.requested);
            self.cases
                .retain(|case| !case.is_notice || of(&case.report) != of(&message.report));
        }
        if self.cases.len() == MOST_REPORTS {
            return;
        }
        let (before, after) = around(message.text);
        let rank = message.report.rank;
        let is_exception = message.form == MessageForm::Exception;
        self.count(rank, before);
        self.cases.push(TrackedOom {
            is_uncaught_form: is_exception && message.after_traceback,
            // NCCL logs fatal errors as warnings.
            is_warning: !is_exception && message.report.kind != OomKind::Nccl && is_warning(before),
            is_notice: message.is_notice,
            report: message.report,
            rises: 0,
            is_counted: false,
            ended_badly: false,
            other_exception: false,
            chained: false,
            output: false,
            later_error: None,
        });
        self.count(rank, after);
    }

    /// A logger wrote it first, and the traceback follows: that shows where it was, and that nobody caught it.
    fn repeated(&mut self, message: OomMessage<'_>) {
        let of = |report: &OomReport| (report.kind, report.requested, report.allocated);
        let mut cases = self.cases.iter_mut().rev();
        let Some(case) = cases.find(|case| of(&case.report) == of(&message.report)) else {
            return;
        };
        let went_on =
            case.rises > 0 || case.is_counted && case.report.outcome == OomOutcome::Caught;
        if went_on && message.form == MessageForm::Exception && message.after_traceback {
            // Its next one just needed as much.
            return self.message(message);
        }
        // Whoever sees that a process was killed speaks first, then whoever did it.
        if case.report.is_guess() && !message.report.is_guess() {
            (case.report.sign, case.report.hearsay) = (message.report.sign, false);
        }
        if !case.report.stack.is_empty() || message.report.stack.is_empty() {
            return;
        }
        case.report.stack = message.report.stack;
        if message.form == MessageForm::Exception && message.after_traceback {
            case.is_uncaught_form = true;
            (case.output, case.other_exception) = (false, false);
        }
    }

    fn line(&mut self, rank: Option<Rank>, number: u64, text: &CompactLine) {
        if self.cases.is_empty() {
            return;
        }
        self.lines += 1;
        let sign = survival_sign(text);
        if sign == SurvivalSign::Progress {
            for case in &mut self.cases {
                (case.is_counted, case.later_error) = (true, None);
            }
            return self.count(rank, &text.plain);
        }
        for case in &mut self.cases {
            let launcher = rank.is_none();
            if launcher || case.report.rank == rank || case.report.rank.is_none() {
                case.take(sign, number, text);
            }
        }
    }
}

impl OutcomeTracker {
    /// Takes the counters in `text`; if one rose, the OOMs of its rank were survived.
    fn count(&mut self, rank: Option<Rank>, text: &str) {
        counters(text).for_each(|counter| self.take(rank, counter));
    }

    fn take(&mut self, rank: Option<Rank>, counter: ProgressCounter) {
        let known = self
            .counters
            .iter()
            .position(|(of, known)| *of == rank && known.of == counter.of);
        match known {
            Some(at) => {
                let known = std::mem::replace(&mut self.counters[at].1, counter);
                let rose = counter.at > known.at;
                if rose {
                    let same_rank = |case: &&mut TrackedOom| case.report.rank == rank;
                    for case in self.cases.iter_mut().filter(same_rank) {
                        case.rises += 1;
                    }
                }
            }
            None if self.counters.len() < MOST_REPORTS => self.counters.push((rank, counter)),
            None => {}
        }
    }

    fn settle(self) -> Vec<OomReport> {
        let mut reports: Vec<OomReport> = self.cases.into_iter().map(TrackedOom::settle).collect();
        reports.sort_by_key(|report| report.line);
        reports
    }
}

impl TrackedOom {
    fn take(&mut self, sign: SurvivalSign, number: u64, text: &CompactLine) {
        match sign {
            SurvivalSign::Handled => {
                if number - self.report.line.min(number) <= HANDLED_WITHIN_LINES
                    && self.report.outcome == OomOutcome::Unknown
                {
                    self.report.outcome = OomOutcome::Caught;
                }
            }
            SurvivalSign::EndedBadly => self.ended_badly |= !self.other_exception,
            SurvivalSign::EndedWell => {
                if self.report.outcome == OomOutcome::Unknown && !self.ended_badly {
                    self.report.outcome = OomOutcome::Caught;
                }
            }
            SurvivalSign::OtherException => {
                self.other_exception |= !self.chained;
                self.later_error = (!self.chained).then(|| class_of(&text.plain).to_string());
                self.chained = false;
            }
            SurvivalSign::Chain => self.chained = true,
            SurvivalSign::Progress | SurvivalSign::Nothing => {}
            SurvivalSign::Output => (self.output, self.later_error) = (true, None),
        }
    }

    fn settle(self) -> OomReport {
        // A bar is drawn once more when a program dies.
        let went_on = self.rises >= if self.is_uncaught_form { 2 } else { 1 };
        let outcome = match self.report.outcome {
            known @ (OomOutcome::Fatal | OomOutcome::Caught) => known,
            OomOutcome::Unknown if went_on => OomOutcome::Caught,
            OomOutcome::Unknown if self.ended_badly => OomOutcome::Fatal,
            OomOutcome::Unknown
                if self.is_uncaught_form && !self.output && !self.other_exception =>
            {
                OomOutcome::Fatal
            }
            // It was caught and logged as a warning.
            OomOutcome::Unknown if self.is_warning => OomOutcome::Caught,
            OomOutcome::Unknown => OomOutcome::Unknown,
        };
        let later_error = match outcome {
            OomOutcome::Caught | OomOutcome::Unknown => self.later_error,
            OomOutcome::Fatal => None,
        };
        OomReport {
            outcome,
            later_error,
            ..self.report
        }
    }
}

/// What precedes and follows the message in its line.
fn around(text: &str) -> (&str, &str) {
    let words = ["out of memory", "Tried to allocate", "Requested"];
    let start = words.iter().filter_map(|word| text.find(word)).min();
    let end = words.iter().filter_map(|word| text.rfind(word)).max();
    (
        &text[..start.unwrap_or(text.len())],
        &text[end.unwrap_or(text.len())..],
    )
}

fn is_warning(before: &str) -> bool {
    // NCCL warns of whatever ends it.
    let before = before.replace("NCCL WARN", "");
    // A level is a word of its own, and no part of a name.
    let mut words = before.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| matches!(word, "WARNING" | "WARN" | "INFO" | "DEBUG"))
        || before.contains("Warning")
        || before.contains("warning")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SurvivalSign {
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
    Progress,
    /// Part of a traceback, noise of a dying program, or decoration.
    Nothing,
    /// Other output.
    Output,
}

/// A counter that training programs print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProgressCounter {
    /// Which word it followed; 0 for a progress bar.
    of: u8,
    /// Its value.
    pub at: u64,
}

fn survival_sign(text: &CompactLine) -> SurvivalSign {
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
    if counters(&text.plain).next().is_some() {
        return SurvivalSign::Progress;
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

/// The counters in a line: of its epoch, and of the step within.
fn counters(plain: &str) -> impl Iterator<Item = ProgressCounter> {
    // Most lines have none: searching is cheaper than capturing.
    let begin = COUNTERS
        .find(plain)
        .map_or(plain.len(), |found| found.start());
    COUNTERS.captures_iter(&plain[begin..]).filter_map(|found| {
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
    })
}

fn class_of(line: &str) -> &str {
    line.split([':', ' ']).next().unwrap_or_default().trim_end()
}

/// A line that starts with `package.module.SomeError:`.
fn is_exception(line: &str) -> bool {
    let class = class_of(line);
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
mod tests;
