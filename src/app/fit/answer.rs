//! What `fit` found: words and a table, or JSON.

use super::{Answer, Fitting, Trial};
use crate::command::{CommandLine, Word};
use serde_json::{Value, json};

/// Prints what was found on standard output; a reason for finding nothing goes to standard error.
/// The exit status: 0 where something was found.
pub fn say(fitting: &Fitting) -> i32 {
    let found = match fitting.answer {
        Some(Answer::Proven(value)) => Some((value, true)),
        Some(Answer::Expected(value)) => Some((value, false)),
        Some(Answer::None) | None => None,
    };
    if let Some(reason) = &fitting.given_up {
        eprintln!("oomph: fit: {reason}");
    }
    let text = match fitting.options.json {
        true => format!("{:#}\n", in_json(fitting, found)),
        false => in_words(fitting, found),
    };
    // Who closed the pipe has read enough.
    if let Some(out) = &fitting.standard_output {
        let mut left = text.as_bytes();
        while let Ok(written @ 1..) = nix::unistd::write(out, left) {
            left = &left[written..];
        }
    }
    i32::from(found.is_none())
}

fn in_json(fitting: &Fitting, found: Option<(u64, bool)>) -> Value {
    let argv = found.map(|(value, _)| words(&fitting.fitted(value)));
    let runs: Vec<Value> = fitting
        .search
        .trials
        .iter()
        .map(|trial| {
            json!({
                "batch": trial.value,
                "peak": trial.peak,
                "fits": trial.fits,
            })
        })
        .collect();
    json!({
        "argument": fitting.setting.name,
        "batch": found.map(|(value, _)| value),
        "proven": found.map(|(_, proven)| proven),
        "argv": argv,
        "failed_before": fitting.failed_before,
        "room": fitting.search.room,
        "runs": runs,
    })
}

/// The command as words to run, those of the environment in front.
fn words(command: &CommandLine) -> Vec<String> {
    let assignment = |change: &crate::command::EnvChange| {
        let value = change.value.as_ref().map(Word::to_string_lossy);
        format!(
            "{}={}",
            change.name.to_string_lossy(),
            value.unwrap_or_default()
        )
    };
    let typed = command.env.iter().map(assignment);
    typed
        .chain(command.argv.iter().map(Word::to_string_lossy))
        .collect()
}

fn in_words(fitting: &Fitting, found: Option<(u64, bool)>) -> String {
    let name = &fitting.setting.name;
    let mut text = String::new();
    match found {
        Some((value, proven)) => {
            text.push_str(&headline(fitting, value, proven));
            text.push_str(&format!("\n  {}\n\n", fitting.fitted(value).shown()));
            text.push_str(&caveats(fitting, value));
        }
        None => text.push_str(&format!("no {name} was found that fits\n\n")),
    }
    text.push_str(&format!("run  {name:>14}          peak  \n"));
    for (number, trial) in fitting.search.trials.iter().enumerate() {
        text.push_str(&row(number + 1, trial));
    }
    if let Some(room) = fitting.search.room {
        text.push_str(&format!(
            "room for PyTorch on the device: {room}; {:.0} % of the need is left free\n",
            fitting.options.margin * 100.0
        ));
    }
    if fitting.options.which != crate::remedy::Which::Batch {
        text.push_str(
            "memory may grow faster than this argument: a line through the runs is assumed\n",
        );
    }
    text
}

/// The answer in one line.
fn headline(fitting: &Fitting, value: u64, proven: bool) -> String {
    let name = &fitting.setting.name;
    let trials = &fitting.search.trials;
    if trials.iter().all(|trial| trial.peak.is_none()) {
        return format!(
            "{name} {value} ran; how much more would is not known: none of its memory was seen (no PyTorch on a GPU, or no probe)"
        );
    }
    let ran = trials
        .iter()
        .filter(|trial| trial.value == value && trial.fits);
    let how = match ran.map(|trial| trial.steps).max() {
        Some(0) => "it ran to its end; no optimizer step of it was seen".to_string(),
        Some(steps) if proven => format!("it ran for {steps} steps"),
        Some(_) | None => "expected: the run that was to prove more ran out of memory".to_string(),
    };
    // What failed before outweighs a few steps that went well.
    let fits = match fitting.failed_before {
        Some(failed) if failed <= value => "that fits these steps",
        Some(_) | None => "that fits",
    };
    format!("largest {name} {fits}: {value} ({how})")
}

/// What the answer does not hold for.
fn caveats(fitting: &Fitting, value: u64) -> String {
    let name = &fitting.setting.name;
    let mut text = "a later step that takes more (longer inputs, an evaluation) may still run out; --steps looks further\n".to_string();
    if let Some(failed) = fitting.failed_before.filter(|failed| *failed <= value) {
        text.push_str(&format!(
            "an earlier session ran out of memory with {name} {failed}: a later step did take more, or something else held the device\n"
        ));
    }
    text.push('\n');
    text
}

fn row(number: usize, trial: &Trial) -> String {
    let peak = trial.peak.map_or("?".to_string(), |peak| peak.to_string());
    let verdict = if trial.fits { "fits" } else { "out of memory" };
    format!("{number:<4} {:>14}  {peak:>12}  {verdict}\n", trial.value)
}
