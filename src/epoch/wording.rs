//! What one line says of the epoch: the wordings, each with who prints it, and what only looks like
//! one (options, settings that a program echoes, names of files, what is to come).

use regex::bytes::Regex;
use std::sync::LazyLock;

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMeaning {
    /// This is the epoch.
    Number(u64),
    /// So many have ended, and part of another: `1.37`, or a bar over epochs.
    Ended(u64),
    /// The head of a table whose first row says it.
    Head,
}

/// What every wording has.
static HINTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"poch|POCH|Train: |\|Loss: ").expect("literals"));

/// The length of the longest of them.
pub(super) const LONGEST_HINT: usize = "Train: ".len();

/// Where, from `from` on, the next hint stands that a line may say an epoch.
pub(super) fn hint(bytes: &[u8], from: usize) -> Option<usize> {
    HINTS.find_at(bytes, from).map(|found| found.start())
}

/// More are no epochs: a Unix time ("the epoch") has ten digits.
const MOST_DIGITS: usize = 5;

/// So many places of a line are looked at; prose and settings may be full of the word.
const MOST_HINTS: usize = 8;

/// What stands between the word and its number at most: ` : [`, or a table's blanks.
const LONGEST_GAP: usize = 32;

/// What `line`, which has no escapes, says, and where its words begin. What was `proved` to be of the
/// training's progress by the names beside it needs no second proof.
pub(super) fn read(line: &[u8], proved: &mut Option<LineMeaning>) -> Option<(LineMeaning, usize)> {
    read_at(line, hint(line, 0)?, proved)
}

/// The same, of a line whose first hint is known.
pub(super) fn read_at(
    line: &[u8],
    mut at: usize,
    proved: &mut Option<LineMeaning>,
) -> Option<(LineMeaning, usize)> {
    for _ in 0..MOST_HINTS {
        let (before, from) = line.split_at(at);
        let said = match from {
            [b'T', after @ ..] => {
                train(before, &after["rain: ".len()..]).map(|said| (said, before.len()))
            }
            [b'|', ..] => fields(before).map(|said| (said, 0)),
            _ => {
                let after = &from["poch".len()..];
                let (begin, e) = before.split_last().map_or((before, b' '), |(e, b)| (b, *e));
                let is_word = matches!(e, b'e' | b'E') && is_own_word(line, begin);
                let said = is_word.then(|| epoch(line, e, after, proved)).flatten();
                said.map(|said| (said, begin.len()))
            }
        };
        if said.is_some() {
            return said;
        }
        at = hint(line, at + 1)?;
    }
    None
}

/// What the first row below a [`LineMeaning::Head`] says: `      3/50     4.21G   1.108 …` (Ultralytics and
/// YOLOv5, which prints the head anew in each epoch).
pub(super) fn row(line: &[u8]) -> Option<(LineMeaning, usize)> {
    let (number, rest) = digits(line.trim_ascii_start())?;
    let (_, rest) = digits(rest.strip_prefix(b"/")?)?;
    let memory = rest.strip_prefix(b" ")?.trim_ascii_start();
    let unit = memory
        .iter()
        .find(|byte| !(byte.is_ascii_digit() || **byte == b'.'))?;
    (*unit == b'G' && memory[0].is_ascii_digit()).then_some((LineMeaning::Number(number), 0))
}

/// `Train: 3 [ 100/1251 (  8%)]` (timm), `Train: [3/300][10/1251]` (Swin Transformer and many
/// after it); a fold or a split in the same place has no such brackets.
fn train(before: &[u8], after: &[u8]) -> Option<LineMeaning> {
    if before
        .last()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/'))
    {
        return None;
    }
    let after = after.trim_ascii_start();
    if let Some(inside) = after.strip_prefix(b"[") {
        let (number, rest) = digits(inside.trim_ascii_start())?;
        let (_, rest) = digits(rest.strip_prefix(b"/")?)?;
        return rest
            .starts_with(b"][")
            .then_some(LineMeaning::Number(number));
    }
    let (number, rest) = digits(after)?;
    let (_, rest) = digits(
        rest.trim_ascii_start()
            .strip_prefix(b"[")?
            .trim_ascii_start(),
    )?;
    rest.starts_with(b"/")
        .then_some(LineMeaning::Number(number))
}

/// `3|1024|Loss: 0.81: …` (torchtune's bar: epoch, step, loss).
fn fields(before: &[u8]) -> Option<LineMeaning> {
    let (number, rest) = digits(before.trim_ascii_start())?;
    let (_, rest) = digits(rest.strip_prefix(b"|")?)?;
    rest.is_empty().then_some(LineMeaning::Number(number))
}

/// Whether the word that begins behind `before` is one, and says where the program stands: it begins
/// the line, or stands behind a prefix, a mark, or a word such as `Train` or `Starting`.
fn is_own_word(line: &[u8], before: &[u8]) -> bool {
    // Echoes what was logged in the end.
    if line.starts_with(b"wandb:") {
        return false;
    }
    let Some(last) = before.last() else {
        return true;
    };
    let run_of = |byte: u8| before.iter().rev().take_while(|b| **b == byte).count();
    match last {
        b' ' | b'\t' => {}
        b'-' => return run_of(b'-') > 2,
        b'=' => return run_of(b'=') > 1,
        b'_' | b'/' | b'.' | b'\\' | b'@' | b'$' | b'%' | b'+' | b'~' => return false,
        byte => return !byte.is_ascii_alphanumeric(),
    }
    let before = before.trim_ascii_end();
    let (words, word) = last_word(before);
    if word.is_empty() {
        // A number is a time of day; what else ends a prefix is a mark.
        return !matches!(before.last(), Some(b'_' | b'/'));
    }
    match word.eq_ignore_ascii_case(b"of") {
        true => is_in(last_word(words.trim_ascii_end()).1, &EDGES),
        false => is_in(word, &EDGES) || is_in(word, &MODES),
    }
}

/// `end of epoch 3`, `Starting epoch 3`.
const EDGES: [&str; 15] = [
    "begin",
    "begins",
    "beginning",
    "start",
    "starts",
    "started",
    "starting",
    "end",
    "ends",
    "ended",
    "ending",
    "finished",
    "completed",
    "done",
    "running",
];

/// `Train Epoch: 3`, `Validation Epoch 3`, `current epoch 3`, and the levels of loggers. Not among
/// them: best, last, max, total, every, until, at, for, from, before, after.
const MODES: [&str; 20] = [
    "train",
    "training",
    "trainer",
    "pretrain",
    "pretraining",
    "finetune",
    "finetuning",
    "val",
    "valid",
    "validation",
    "validating",
    "eval",
    "evaluating",
    "evaluation",
    "test",
    "testing",
    "current",
    "new",
    "info",
    "debug",
];

fn is_in(word: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// The letters that `text` ends with, and what stands before them. A word with an underscore in it is
/// a name, and is none of ours.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let letters = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let length = text.iter().rev().take_while(|byte| letters(byte)).count();
    text.split_at(text.len() - length)
}

/// What follows the word `epoch`, whose first letter was `e`:
///
/// * `Epoch 3/10` (Keras, and most programs), `Epoch: [3]  [ 10/5005]` (PyTorch's examples, torchvision),
///   `Train Epoch: 3 [640/60000]` (PyTorch's examples, OpenCLIP), `epoch 003:` and `| epoch 003 |`
///   (fairseq), `Epoch 3:  45%|` (Lightning; tqdm), `Epoch(train)  [3][ 50/100]` (mmengine),
///   `Epoch [3][50/100]` (mmcv), `Epoch[3] Complete` (Ignite), `=> epoch 3`, `|  Epoch |  3 |`
///   (Spinning Up)
/// * `{'loss': 1.9, 'epoch': 1.02}`, since transformers 5 `'epoch': '1.02'` (its Trainer);
///   `{"epoch": 3, "train_loss": …}` (logs in JSON lines); `step=100 epoch=3 loss=0.2` (logfmt)
/// * `Epoch:  33%|███      | 1/3 [` (tqdm over epochs, as in the examples of transformers)
/// * the head of a table: `Epoch    GPU_mem   box_loss` (Ultralytics, YOLOv5)
fn epoch(
    line: &[u8],
    e: u8,
    after: &[u8],
    proved: &mut Option<LineMeaning>,
) -> Option<LineMeaning> {
    let plural = matches!(after.first(), Some(b's' | b'S'));
    let after = &after[usize::from(plural)..];
    let after = after.strip_prefix(b"(train)").unwrap_or(after);
    let gap = after
        .iter()
        .take(LONGEST_GAP)
        .take_while(|byte| !byte.is_ascii_digit())
        .count();
    let (between, rest) = after.split_at(gap);
    if !between.iter().all(|byte| b" \t:=#[(|'\"".contains(byte)) {
        let head = after.trim_ascii_start();
        let is_head = head.starts_with(b"GPU_mem") || head.starts_with(b"gpu_mem");
        return is_head.then_some(LineMeaning::Head);
    }
    let marks = between.iter().filter(|byte| !byte.is_ascii_whitespace());
    if between.is_empty() || marks.count() > 4 {
        return None;
    }
    // `'epoch': 3` and `epoch=3` are what a program's settings look like too, `epoch 3.2` a version.
    let quoted = matches!(between[0], b'\'' | b'"');
    let is_setting = quoted || e == b'e' && between.contains(&b'=');
    let (number, rest) = digits(rest)?;
    let said = match rest {
        [b'%', bar @ ..] => return over_epochs(bar),
        [b'/', total @ ..] => {
            digits(total.trim_ascii_start())?;
            LineMeaning::Number(number)
        }
        [b'.', fraction @ ..] if fraction.first().is_some_and(u8::is_ascii_digit) => {
            let end = fraction.iter().position(|byte| !byte.is_ascii_digit());
            let rest = &fraction[end.unwrap_or(fraction.len())..];
            if !ends_number(rest) {
                return None;
            }
            LineMeaning::Ended(number)
        }
        rest if ends_number(rest) => LineMeaning::Number(number),
        _ => return None,
    };
    // `epochs 3/10`, but not `epochs: 10`.
    let fits = !plural || rest.trim_ascii_start().starts_with(b"/");
    if !fits {
        return None;
    }
    let is_clear = !is_setting && said == LineMeaning::Number(number);
    if !is_clear && *proved != Some(said) {
        if !tells_of_training(line) {
            return None;
        }
        *proved = Some(said);
    }
    Some(said)
}

/// `|███      | 1/3 [00:12<…` behind the percentage: one has ended.
fn over_epochs(bar: &[u8]) -> Option<LineMeaning> {
    let bar = bar.strip_prefix(b"|")?;
    let end = bar.iter().position(|byte| *byte == b'|')?;
    let (number, rest) = digits(bar[end + 1..].trim_ascii_start())?;
    let (_, rest) = digits(rest.strip_prefix(b"/")?)?;
    rest.starts_with(b" [")
        .then_some(LineMeaning::Ended(number))
}

/// Whether a number may end here: not in `3-step.ckpt`, `3_last`, `3e4`, `3.1.2`.
fn ends_number(rest: &[u8]) -> bool {
    match rest {
        // The end of a sentence, an ellipsis, a rule.
        [mark @ (b'.' | b'-'), ..] => {
            let end = rest.iter().find(|byte| *byte != mark);
            end.is_none_or(u8::is_ascii_whitespace)
        }
        [byte, ..] => byte.is_ascii_whitespace() || b":,;)]}|'\"!".contains(byte),
        [] => true,
    }
}

/// Whether a line of names and values is of the training's progress, and no echo of its settings.
fn tells_of_training(line: &[u8]) -> bool {
    static PROGRESS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("loss|accuracy|runtime|it/s|grad_norm").expect("literals"));
    static SETTINGS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("batch_size|Namespace|onfig|rguments|args").expect("literals"));
    PROGRESS.is_match(line) && !SETTINGS.is_match(line)
}

/// The number that `text` begins with, and what follows it.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let leading = digits.iter().take_while(|byte| **byte == b'0').count();
    if length == 0 || length - leading > MOST_DIGITS {
        return None;
    }
    let number = digits
        .iter()
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some((number, rest))
}

#[cfg(test)]
mod tests;
