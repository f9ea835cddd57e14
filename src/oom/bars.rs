//! The line above a traceback, where it is a progress bar or a counter: what it counts says whether an evaluation was running.
//! A program that trains and evaluates in one function has no name of a function that would say so.
//!
//! tqdm leaves its bar as it stood when the error came: `Epoch 3 (valid):  30%|███       | 3/10 [00:01<00:03, 2.1it/s]`. One that
//! had come to its end is no evidence: what it counted is over.

use regex::Regex;
use std::sync::LazyLock;

/// A bar or a counter without white space: what it says of itself, how far it is, and of how many.
static COUNTED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(?<says>.{0,120}?)(?:\d{1,3}%\|[^|]*\||[:\[(|]+)(?<at>\d+)/(?<of>\d+)(?:[\[\]),:|]|$)",
    )
    .expect("the expression is valid")
});

/// Words of an evaluation. What goes before is no letter, so that `invalid` and `best` are none.
static EVALUATES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?:^|[^a-z])",
        r"(?:val|valid|validate|validation|validating|eval|evaluate|evaluation|evaluating|test|testing|dev|infer|inference)",
        r"(?:set|split|epoch|step|batch|loader|dataloader|dataset|loop)?(?:[^a-z]|$)",
    ))
    .expect("the expression is valid")
});

static TRAINS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"train|fit|epochs?$").expect("the expression is valid"));

/// Whether this line, without white space, is the bar of an evaluation that has not come to its end.
pub(super) fn shows_an_evaluation(line: &str) -> bool {
    let Some(found) = COUNTED.captures(line) else {
        return false;
    };
    let number = |name: &str| found[name].parse::<u64>().ok();
    let is_unfinished = number("at")
        .zip(number("of"))
        .is_some_and(|(at, of)| at < of);
    // In lower case: expressions of this program know no other way to take both.
    let says = found["says"].to_lowercase();
    is_unfinished && EVALUATES.is_match(&says) && !TRAINS.is_match(&says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::read;

    fn squeezed(line: &str) -> String {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_bar_that_names_an_evaluation_and_has_not_ended_is_one() {
        for line in [
            "Epoch 3 (valid):  30%|███       | 3/10 [00:01<00:03,  2.1it/s]",
            "Validating:   0%|          | 0/25 [00:00<?, ?it/s]",
            "eval: 4/50",
            "[valid] [12/80] loss 0.31",
            "Val epoch 2:  12%|█▏        | 12/100 [00:09<01:10,  1.25it/s, loss=0.4]",
            "Test: [ 10/196]",
        ] {
            assert!(shows_an_evaluation(&squeezed(line)), "{line}");
        }
    }

    #[test]
    fn a_trainings_bar_and_one_that_has_ended_are_none() {
        for line in [
            "Epoch 3 (train):  30%|███       | 3/10 [00:01<00:03,  2.1it/s]",
            "Epoch 3 (valid): 100%|██████████| 10/10 [00:04<00:00,  2.1it/s]",
            "30%|███       | 3/10 [00:01<00:03,  2.1it/s]",
            "Training with validation split 2/10",
            "invalid: 3/10 rows",
            "tests/data/valid/3/10.png",
            "valid loss 0.31",
        ] {
            assert!(!shows_an_evaluation(&squeezed(line)), "{line}");
        }
    }

    const TRACEBACK: &str = "\
Traceback (most recent call last):
  File \"/srv/train.py\", line 70, in main
    logits = model(images)
  File \"/v/lib/python3.12/site-packages/torch/nn/modules/module.py\", line 1773, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.57 GiB of which 310.00 MiB is free. Including non-PyTorch memory, this process has 23.26 GiB memory in use. Of the allocated memory 22.41 GiB is allocated by PyTorch, and 330.00 MiB is reserved by PyTorch but unallocated.
";

    #[test]
    fn the_line_above_a_traceback_is_what_its_report_says() {
        let said = |above: &str| {
            let text = format!("loaded\n{above}\n{TRACEBACK}");
            read(text.as_bytes()).first().map(|report| report.evaluates)
        };
        assert_eq!(
            said("\r(valid):  30%|███       | 3/10 [00:01<00:03,  2.1it/s]"),
            Some(true)
        );
        assert_eq!(
            said("\r(train):  30%|███       | 3/10 [00:01<00:03,  2.1it/s]"),
            Some(false)
        );
        assert_eq!(said("epoch 3"), Some(false));
    }
}
