//! The result of `fit`, as text or JSON.

use super::search::{Beyond, SearchAnswer};
use super::seen_inputs::shape;
use super::{FARTHEST, Fit, GivenUp};
use crate::command::{CommandLine, Word};
use crate::event::{Exit, to_paste};
use crate::live::print;
use crate::units::Bytes;
use serde_json::{Value, json};

/// What the runs have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FitResult {
    /// The largest that fits; it ran.
    Largest(u64),
    /// The largest that is expected to fit.
    Expected(u64),
    /// This one ran. Whether more would is not known: the search ended early.
    AtLeast(u64),
    Nothing,
}

impl FitResult {
    fn new(fit: &Fit) -> FitResult {
        match (fit.answer, fit.ran()) {
            (Some(SearchAnswer::Proven(value)), _) => FitResult::Largest(value),
            (Some(SearchAnswer::Expected(value)), _) => FitResult::Expected(value),
            (Some(SearchAnswer::None) | None, Some(ran)) => FitResult::AtLeast(ran.value),
            (Some(SearchAnswer::None) | None, None) => FitResult::Nothing,
        }
    }

    fn value(self) -> Option<u64> {
        match self {
            FitResult::Largest(value) | FitResult::Expected(value) | FitResult::AtLeast(value) => {
                Some(value)
            }
            FitResult::Nothing => None,
        }
    }
}

/// Prints the result on standard output, or on standard error why there is none. Returns the exit code: 0
/// with a result.
pub(crate) fn say(fit: &Fit) -> i32 {
    let found = FitResult::new(fit);
    if let Some(rooms) = fit.rooms().filter(|rooms| !rooms.is_empty()) {
        write(fit, &on_others(fit, &rooms));
        return i32::from(rooms.iter().all(|(_, value)| value.is_none()));
    }
    if let Some(reason) = given_up(fit) {
        print::complain(&format!("fit: {reason}"));
    }
    if !fit.options.room.is_empty() {
        write(fit, &no_others(fit));
        return 1;
    }
    let text = match fit.options.json {
        true => format!("{:#}\n", in_json(fit, found)),
        false => in_words(fit, found),
    };
    write(fit, &text);
    i32::from(found == FitResult::Nothing)
}

/// The result in a few words, for the recording.
pub(crate) fn recorded(fit: &Fit) -> Option<String> {
    let name = &fit.setting.name;
    if let Some(rooms) = fit.rooms().filter(|rooms| !rooms.is_empty()) {
        let each = rooms.iter().map(|(room, value)| match value {
            Some(value) => format!("{name} {value} on {room}"),
            None => format!("no {name} on {room}"),
        });
        let each: Vec<String> = each.collect();
        return Some(format!("rehearsed to fit: {}", each.join(", ")));
    }
    match FitResult::new(fit) {
        FitResult::Largest(value) => Some(format!("{name} {value} fits, measured")),
        FitResult::Expected(value) => Some(format!("{name} {value} is expected to fit")),
        FitResult::AtLeast(value) => Some(format!(
            "{name} {value} fits, measured; the search ended before a larger one ran"
        )),
        FitResult::Nothing => None,
    }
}

fn given_up(fit: &Fit) -> Option<&str> {
    fit.given_up.as_ref().map(|why| match why {
        GivenUp::Stopped => "stopped",
        GivenUp::Because(reason) => reason,
    })
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
        return format!(
            "{:#}\n",
            json!({"version": 1, "argument": name, "rooms": rooms})
        );
    }
    let each = rooms.iter().map(|(room, value)| match value {
        Some(value) => format!("{room}: {name} {value} (rehearsed)\n"),
        None => format!("{room}: no {name} fits (rehearsed)\n"),
    });
    each.collect()
}

/// For GPUs that are not here there is no answer, whatever ran here.
fn no_others(fit: &Fit) -> String {
    let why = given_up(fit).unwrap_or("the run here showed too little");
    if fit.options.json {
        let each = |room: &Bytes| json!({"room": room, "batch": null});
        let rooms: Vec<Value> = fit.options.room.iter().map(each).collect();
        let answer =
            json!({"version": 1, "argument": fit.setting.name, "rooms": rooms, "ended_early": why});
        return format!("{answer:#}\n");
    }
    let rooms: Vec<String> = fit.options.room.iter().map(Bytes::to_string).collect();
    format!("no answer for {}: {why}\n", rooms.join(", "))
}

fn in_json(fit: &Fit, found: FitResult) -> Value {
    let argv = found.value().map(|value| words(&fit.fitted(value)));
    let proven = match found {
        FitResult::Largest(_) | FitResult::AtLeast(_) => Some(true),
        FitResult::Expected(_) => Some(false),
        FitResult::Nothing => None,
    };
    let trials = fit.search.trials.iter().map(|trial| {
        json!({
            "batch": trial.value,
            "peak": trial.peak,
            "fits": trial.fits,
            "steps": trial.steps,
            "largest_input": trial.inputs.as_ref().map(|inputs| inputs.largest.clone()),
        })
    });
    let unanswered = fit.unanswered.iter().map(|run| {
        json!({
            "batch": run.value,
            "peak": null,
            "fits": null,
            "ended": run.exit.to_string(),
        })
    });
    let runs: Vec<Value> = trials.chain(unanswered).collect();
    json!({
        "version": 1,
        "argument": fit.setting.name,
        "batch": found.value(),
        "proven": proven,
        "ended_early": given_up(fit),
        "argv": argv,
        "in_file": fit.setting.config_line().map(|(file, line)| json!({"file": file, "line": line})),
        "failed_before": fit.failed_before.map(|failed| failed.value),
        "failed_in_step": fit.failed_before.map(|failed| failed.step),
        "grows_by": fit.grows_by,
        "margin": fit.search.margin,
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

fn in_words(fit: &Fit, found: FitResult) -> String {
    let name = &fit.setting.name;
    let mut text = headline(fit, found);
    if let Some(by) = fit.grows_by {
        text.push_str(&format!(
            "\nbut what is allocated after each step grows by {by} a step: if that goes on (a leak), no value lasts;\n\
             `oomph -- COMMAND` shows what grows (s, then w)\n"
        ));
    }
    match found.value() {
        Some(value) => {
            text.push_str(&format!("\n  {}\n", to_paste(&fit.fitted(value))));
            if let Some((file, line)) = fit.setting.config_line() {
                text.push_str(&format!("  with {name} {value} in {file}:{line}\n"));
            }
            text.push('\n');
            text.push_str(&caveats(fit, value));
        }
        None => text.push_str("\n\n"),
    }
    if !fit.search.trials.is_empty() || fit.unanswered.is_some() {
        text.push_str(&format!("run  {name:>14}          peak      reserved  \n"));
    }
    for (number, trial) in fit.search.trials.iter().enumerate() {
        let verdict = if trial.fits { "fits" } else { "out of memory" };
        let figures = [trial.peak, trial.reserved];
        text.push_str(&row(number + 1, trial.value, figures, verdict));
    }
    if let Some(run) = &fit.unanswered {
        let verdict = match run.exit {
            Exit::Signal(_) => format!("no answer: ended by {}", run.exit),
            Exit::Code(_) => format!("no answer: ended by itself ({})", run.exit),
        };
        let number = fit.search.trials.len() + 1;
        text.push_str(&row(number, run.value, [None, None], &verdict));
    }
    if let Some(room) = fit.search.room {
        text.push_str(&format!(
            "it fits where what is reserved, and {:.0} % more as a margin, is within the {room} that PyTorch can have of the device\n",
            fit.search.margin * 100.0
        ));
    }
    if fit.options.which() != crate::remedy::Which::Batch {
        text.push_str(
            "memory is assumed to grow linearly with this argument; it may grow faster\n",
        );
    }
    text
}

fn headline(fit: &Fit, found: FitResult) -> String {
    let name = &fit.setting.name;
    let steps = |value: u64| {
        let trials = fit.search.trials.iter();
        let ran = trials.filter(|trial| trial.value == value && trial.fits);
        ran.map(|trial| trial.steps).max().unwrap_or(0)
    };
    let (value, how) = match found {
        FitResult::Largest(value) => {
            let further = match (fit.search.further(), fit.search.beyond()) {
                (Some(further), _) => {
                    format!("; by these runs {further} likely fits too, which was not run")
                }
                (None, Some(Beyond::MayFit(further))) => {
                    format!("; by these runs {further} may fit too, which was not run")
                }
                (None, Some(Beyond::TooLarge { next, needs })) => {
                    format!("; {next} would need about {needs} with the margin")
                }
                (None, None) => String::new(),
            };
            (value, format!("it ran for {} steps{further}", steps(value)))
        }
        FitResult::Expected(value) => (
            value,
            "expected: the run that should have confirmed more ran out of memory".to_string(),
        ),
        FitResult::AtLeast(value) => {
            let (steps, why) = (steps(value), given_up(fit).unwrap_or("it was not tried"));
            let failed = fit.failed_before();
            let failed = failed.map_or(String::new(), |failed| format!("{failed}; "));
            return format!(
                "{failed}{name} {value} fits (it ran for {steps} steps); whether more would is not known: {why}"
            );
        }
        FitResult::Nothing => {
            return match given_up(fit) {
                Some(why) => format!("no answer: {why}"),
                None => format!("no {name} that fits was found"),
            };
        }
    };
    // An earlier failure outweighs a few successful steps.
    match fit.failed_before() {
        Some(failed) => format!("{failed}; the largest below it that fits: {value} ({how})"),
        None => format!("largest {name} that fits: {value} ({how})"),
    }
}

/// The limits of the answer.
fn caveats(fit: &Fit, value: u64) -> String {
    let mut text = seen(fit, value);
    text.push_str("a later step that needs more (longer inputs, an evaluation) may still run out of memory; --steps runs more of them\n");
    let ran = fit.search.trials.iter().filter(|trial| trial.fits);
    let most = ran.map(|trial| trial.steps).max().unwrap_or(0);
    if let Some(failed) = fit.failed_before.filter(|failed| failed.step > most) {
        let limit = match failed.step < FARTHEST {
            true => "these runs ended before it".to_string(),
            false => format!("these runs stopped after {most}"),
        };
        text.push_str(&format!(
            "step {} failed in the earlier session, {limit}: what that step needs was not seen\n",
            failed.step
        ));
    }
    text.push('\n');
    text
}

/// The steps that were seen, and the largest input of the run with this value, or else of the largest that ran.
fn seen(fit: &Fit, value: u64) -> String {
    // How many more a run makes until it has ended differs from time to time.
    let ran = fit.search.trials.iter().filter(|trial| trial.fits);
    let least = ran.clone().map(|trial| trial.steps).min().unwrap_or(0);
    let seen = match ran.count() {
        1 => format!("{least} steps of a run were seen"),
        count => format!("at least {least} steps of {count} runs each were seen"),
    };
    let trials = fit.search.trials.iter();
    let shown = trials
        .filter(|trial| trial.fits && trial.value <= value && trial.inputs.is_some())
        .max_by_key(|trial| trial.value);
    let Some((value, inputs)) = shown.and_then(|trial| Some((trial.value, trial.inputs.as_ref()?)))
    else {
        return format!("{seen}\n");
    };
    let (name, largest) = (&fit.setting.name, shape(&inputs.largest));
    let varied = match &inputs.smallest {
        Some(smallest) => format!(
            " (the smallest was {}: later ones may be larger, so the margin is {:.0} % instead of {:.0} %)",
            shape(smallest),
            fit.search.margin * 100.0,
            fit.options.margin
        ),
        None => String::new(),
    };
    format!("{seen}; with {name} {value} the largest input was {largest}{varied}\n")
}

/// `figures` are its peak and the most that it reserved.
fn row(number: usize, value: u64, figures: [Option<Bytes>; 2], verdict: &str) -> String {
    let [peak, reserved] =
        figures.map(|figure| figure.map_or("?".to_string(), |bytes| bytes.to_string()));
    format!("{number:<4} {value:>14}  {peak:>12}  {reserved:>12}  {verdict}\n")
}
