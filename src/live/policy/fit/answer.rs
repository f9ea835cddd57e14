//! The result of `fit`, as text or JSON.

use super::Fit;
use super::search::{SearchAnswer, Trial};
use crate::command::{CommandLine, Word};
use crate::live::print;
use crate::units::Bytes;
use serde_json::{Value, json};

/// Prints the result on standard output, or on standard error why there is none. Returns the exit code: 0
/// with a result.
pub(crate) fn say(fit: &Fit) -> i32 {
    let found = match fit.answer {
        Some(SearchAnswer::Proven(value)) => Some((value, true)),
        Some(SearchAnswer::Expected(value)) => Some((value, false)),
        Some(SearchAnswer::None) | None => None,
    };
    if let Some(rooms) = fit.rooms().filter(|rooms| !rooms.is_empty()) {
        write(fit, &on_others(fit, &rooms));
        return i32::from(rooms.iter().all(|(_, value)| value.is_none()));
    }
    if let Some(reason) = &fit.given_up {
        print::complain(&format!("fit: {reason}"));
    }
    let text = match fit.options.json {
        true => format!("{:#}\n", in_json(fit, found)),
        false => in_words(fit, found),
    };
    write(fit, &text);
    i32::from(found.is_none())
}

fn write(fit: &Fit, text: &str) {
    // The reader has closed the pipe: it has read enough.
    if let Some(out) = &fit.standard_output {
        let text = print::text(text);
        let mut left = text.as_bytes();
        while let Ok(written @ 1..) = nix::unistd::write(out, left) {
            left = &left[written..];
        }
    }
}

fn on_others(fit: &Fit, rooms: &[(Bytes, Option<u64>)]) -> String {
    let name = &fit.setting.name;
    if fit.options.json {
        let each = |(room, value): &(Bytes, Option<u64>)| json!({"room": room, "batch": value});
        let rooms: Vec<Value> = rooms.iter().map(each).collect();
        return format!("{:#}\n", json!({"argument": name, "rooms": rooms}));
    }
    let each = rooms.iter().map(|(room, value)| match value {
        Some(value) => format!("{room}: {name} {value} (rehearsed)\n"),
        None => format!("{room}: no {name} fits (rehearsed)\n"),
    });
    each.collect()
}

fn in_json(fit: &Fit, found: Option<(u64, bool)>) -> Value {
    let argv = found.map(|(value, _)| words(&fit.fitted(value)));
    let runs: Vec<Value> = fit
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
        "argument": fit.setting.name,
        "batch": found.map(|(value, _)| value),
        "proven": found.map(|(_, proven)| proven),
        "argv": argv,
        "failed_before": fit.failed_before,
        "room": fit.search.room,
        "runs": runs,
    })
}

/// The command to run, with its environment in front.
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

fn in_words(fit: &Fit, found: Option<(u64, bool)>) -> String {
    let name = &fit.setting.name;
    let mut text = String::new();
    match found {
        Some((value, proven)) => {
            text.push_str(&headline(fit, value, proven));
            text.push_str(&format!("\n  {}\n\n", fit.fitted(value).shown()));
            text.push_str(&caveats(fit, value));
        }
        None => text.push_str(&format!("no {name} that fits was found\n\n")),
    }
    if !fit.search.trials.is_empty() {
        text.push_str(&format!("run  {name:>14}          peak  \n"));
    }
    for (number, trial) in fit.search.trials.iter().enumerate() {
        text.push_str(&row(number + 1, trial));
    }
    if let Some(room) = fit.search.room {
        text.push_str(&format!(
            "available to PyTorch on the device: {room}; margin: {:.0} % of the need\n",
            fit.options.margin * 100.0
        ));
    }
    if fit.options.which != crate::remedy::Which::Batch {
        text.push_str(
            "memory is assumed to grow linearly with this argument; it may grow faster\n",
        );
    }
    text
}

fn headline(fit: &Fit, value: u64, proven: bool) -> String {
    let name = &fit.setting.name;
    let trials = &fit.search.trials;
    if trials.iter().all(|trial| trial.peak.is_none()) {
        return format!(
            "{name} {value} ran; whether more would fit is unknown: its memory was not measured (no PyTorch on a GPU, or no probe)"
        );
    }
    let ran = trials
        .iter()
        .filter(|trial| trial.value == value && trial.fits);
    let how = match ran.map(|trial| trial.steps).max() {
        Some(0) => "it ran to its end; no optimizer step was seen".to_string(),
        Some(steps) if proven => format!("it ran for {steps} steps"),
        Some(_) | None => {
            "expected: the run that should have confirmed more ran out of memory".to_string()
        }
    };
    // An earlier failure outweighs a few successful steps.
    let fits = match fit.failed_before {
        Some(failed) if failed <= value => "that fits these steps",
        Some(_) | None => "that fits",
    };
    format!("largest {name} {fits}: {value} ({how})")
}

/// The limits of the answer.
fn caveats(fit: &Fit, value: u64) -> String {
    let name = &fit.setting.name;
    let mut text = "a later step that needs more (longer inputs, an evaluation) may still run out of memory; --steps runs more of them\n".to_string();
    if let Some(failed) = fit.failed_before.filter(|failed| *failed <= value) {
        text.push_str(&format!(
            "an earlier session ran out of memory with {name} {failed}: a later step needed more, or something else was using the GPU\n"
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
