//! Reads a whole text, whose end is known: the scanner's reports with their outcomes.
//!
//! A message does not prove that the program died of it: many catch the error and continue. What
//! follows tells: an exit status, progress, or nothing after the traceback.

use super::aftermath::{self, ProgressCounter, SurvivalSign};
use super::kind::OomKind;
use super::messages::{MessageSink, OomMessage};
use super::report::{OomOutcome, OomReport};
use super::scanner::Scanner;
use super::wording::{CompactLine, MessageForm};
use crate::units::Rank;

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
    /// An exit status other than 0 was reported.
    ended_badly: bool,
    /// Another error followed, of which the program may have died.
    other_exception: bool,
    /// The next exception is a consequence.
    chained: bool,
    /// Other output came.
    output: bool,
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
            ended_badly: false,
            other_exception: false,
            chained: false,
            output: false,
        });
        self.count(rank, after);
    }

    fn line(&mut self, rank: Option<Rank>, number: u64, text: &CompactLine) {
        if self.cases.is_empty() {
            return;
        }
        self.lines += 1;
        let sign = aftermath::read(text);
        if let SurvivalSign::Progress(_) = sign {
            return self.count(rank, &text.plain);
        }
        for case in &mut self.cases {
            let launcher = rank.is_none();
            if launcher || case.report.rank == rank || case.report.rank.is_none() {
                case.take(sign, number);
            }
        }
    }
}

impl OutcomeTracker {
    /// Takes a counter in `text`; if it rose, the OOMs of its rank were survived.
    fn count(&mut self, rank: Option<Rank>, text: &str) {
        let Some(counter) = aftermath::counter(text) else {
            return;
        };
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
    fn take(&mut self, sign: SurvivalSign, number: u64) {
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
                self.chained = false;
            }
            SurvivalSign::Chain => self.chained = true,
            SurvivalSign::Progress(_) | SurvivalSign::Nothing => {}
            SurvivalSign::Output => self.output = true,
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
        OomReport {
            outcome,
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
    ["WARNING", "WARN", "Warning", "warning", "INFO", "DEBUG"]
        .iter()
        .any(|level| before.contains(level))
}

#[cfg(test)]
mod tests;
