//! Losses in text: what a program prints of its first steps, each with the step that it is of.
//!
//! A loss without its step is left out: bars are drawn by the clock, so that two runs print other steps. So is a smoothed
//! or rounded one no less than the program itself rounds it: two runs are compared by what is printed.

use crate::oom::{LineReader, LineSplitter, RawLine, Words};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Steps whose losses are taken.
pub const FIRST: usize = 8;

/// A program that has printed so much without a loss prints none.
const SEARCHED: usize = 16 << 20;

/// A line is looked at no further.
const LOOKED_AT: usize = 1_024;

/// A loss of the training as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossMention {
    /// "12", of the step 12 of a run; "0.25" of its epochs.
    pub step: String,
    pub loss: String,
}

fn compiled(text: &str) -> Regex {
    Regex::new(text).expect("it is an expression")
}

static HINT: LazyLock<Words> = LazyLock::new(|| Words::of(compiled("(?i-u)loss")));

/// `loss: 2.31`, `'loss': 2.31`, `loss=2.31`, `train loss 2.31`; not `eval_loss`, `val loss`, `loss_scale`.
static LOSS: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r#"(?i-u)(?:^|[^\w.-])(?:(?:train|training|simulated)[ _/])?loss['"]?\s*[:=]?\s*(?<n>-?\d+\.\d+(?:e[+-]?\d+)?)"#,
    )
});

/// `step 3/60`, `iter 12:`, `Iteration: 4`, `global_step=7`; of an epoch's own count only where the line says the epoch as well.
static STEP: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r#"(?i-u)(?:^|[^\w.-])(?:global[ _])?(?:step|iter|iteration)s?['"]?\s*[:=]?\s*\[?(?<n>\d{1,9})"#,
    )
});

/// What transformers' Trainer prints instead: `'epoch': 0.25`.
static SHARE: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(?-u)['"]epoch['"]: ['"]?(?<n>\d+\.\d+)"#));

/// Losses of something else.
static OTHER: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i-u)\b(?:val|valid|validation|eval|test)"));

/// From chunks of a byte stream to the losses of the first steps.
#[derive(Debug)]
pub struct LossLines {
    lines: LineSplitter,
    searched: usize,
}

impl Default for LossLines {
    fn default() -> LossLines {
        LossLines {
            lines: LineSplitter::new(&HINT),
            searched: 0,
        }
    }
}

impl LossLines {
    /// Takes the stream's next chunk, unless enough was seen of it.
    pub fn feed(&mut self, chunk: &[u8], told: &mut dyn FnMut(LossMention)) {
        if self.searched < SEARCHED {
            self.searched += chunk.len();
            self.lines.feed(chunk, &mut LossReader { told });
        }
    }

    /// The stream has ended, and with it its last line.
    pub fn finish(&mut self, told: &mut dyn FnMut(LossMention)) {
        self.lines.finish(&mut LossReader { told });
    }
}

struct LossReader<'a> {
    told: &'a mut dyn FnMut(LossMention),
}

impl LineReader for LossReader<'_> {
    fn wants_every_line(&self) -> bool {
        false
    }

    fn read(&mut self, line: RawLine<'_>) {
        let line = &line.bytes[..line.bytes.len().min(LOOKED_AT)];
        if let Some(mention) = read(line) {
            (self.told)(mention);
        }
    }
}

/// The step that a line is of.
pub(super) fn step_of(line: &[u8]) -> Option<u64> {
    let number = STEP.captures(line)?.name("n")?.as_bytes();
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// What a line without escapes says.
fn read(line: &[u8]) -> Option<LossMention> {
    let of = |found: &Regex| {
        let number = found.captures(line)?.name("n")?.as_bytes();
        Some(String::from_utf8_lossy(number).into_owned())
    };
    if OTHER.is_match(line) {
        return None;
    }
    Some(LossMention {
        loss: of(&LOSS)?,
        step: of(&STEP).or_else(|| of(&SHARE))?,
    })
}

/// Which of them are news: the first steps of a run, each once.
#[derive(Debug, Default)]
pub struct FirstLosses {
    seen: Vec<String>,
    /// A step that came before has come again: a second epoch counts anew, and nothing later is of a step of its own.
    is_over: bool,
}

impl FirstLosses {
    /// Those of a run that have been taken already.
    pub fn from(seen: impl Iterator<Item = String>) -> FirstLosses {
        FirstLosses {
            seen: seen.collect(),
            is_over: false,
        }
    }

    pub fn is_over(&self) -> bool {
        self.is_over || self.seen.len() >= FIRST
    }

    /// Whether this is the first loss of one of the first steps.
    pub fn take(&mut self, mention: &LossMention) -> bool {
        if self.is_over() || self.seen.last() == Some(&mention.step) {
            return false;
        }
        if self.seen.contains(&mention.step) {
            self.is_over = true;
            return false;
        }
        self.seen.push(mention.step.clone());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<(String, String)> {
        let (mut found, mut first) = (Vec::new(), FirstLosses::default());
        let mut lines = LossLines::default();
        let mut take = |mention: LossMention| {
            if first.take(&mention) {
                found.push((mention.step, mention.loss));
            }
        };
        for chunk in text.as_bytes().chunks(7) {
            lines.feed(chunk, &mut take);
        }
        lines.finish(&mut take);
        found
    }

    fn pairs(said: &[(String, String)]) -> Vec<(&str, &str)> {
        said.iter()
            .map(|(step, loss)| (step.as_str(), loss.as_str()))
            .collect()
    }

    #[test]
    fn a_loss_is_read_with_the_step_that_it_is_of() {
        for (line, step, loss) in [
            ("step 3/60, simulated loss 10.204, 2.31 it/s", "3", "10.204"),
            ("step 3/60, 2.31 it/s, simulated loss 10.204", "3", "10.204"),
            (
                "iter 12: loss 2.3100, time 88.02ms, mfu 12.1%",
                "12",
                "2.3100",
            ),
            (
                "{'loss': 1.2034, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.25}",
                "0.25",
                "1.2034",
            ),
            ("[rank0]: global_step=7 train_loss=1.25e-2", "7", "1.25e-2"),
            ("Iteration: 4 | Loss: 0.693", "4", "0.693"),
        ] {
            assert_eq!(pairs(&said(line)), [(step, loss)], "{line}");
        }
    }

    #[test]
    fn what_is_no_loss_of_a_step_is_left_out() {
        for line in [
            "loss: 2.31",
            "step 10: val loss 2.31",
            "eval_loss: 0.5 step 3",
            "step 5 loss_scale 65536.0",
            "Epoch 3 loss 0.2",
            "step 4 loss nan",
        ] {
            assert_eq!(pairs(&said(line)), [], "{line}");
        }
    }

    #[test]
    fn the_first_steps_are_taken_each_once() {
        let drawn = "step 1, loss 3.0\rstep 1, loss 3.0\rstep 2, loss 2.5\n";
        assert_eq!(pairs(&said(drawn)), [("1", "3.0"), ("2", "2.5")]);
        let epochs = "step 1, loss 3.0\nstep 2, loss 2.5\nstep 1, loss 2.0\nstep 3, loss 1.9\n";
        assert_eq!(said(epochs).len(), 2, "a second epoch counts anew");
        let many: String = (1..99).map(|n| format!("step {n} loss {n}.5\n")).collect();
        assert_eq!(said(&many).len(), FIRST);
    }
}
