//! The result of `fit`, as text or JSON.

use super::search::{Beyond, SearchAnswer, Trial};
use super::seen_inputs::shape;
use super::{FARTHEST, Fit, GivenUp};
use crate::command::{CommandLine, Word};
use crate::event::{Exit, as_typed, to_paste};
use crate::forecast::Allocator;
use crate::live::print;
use crate::recognize::alloc_conf;
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
        match (fit.answer, fit.search.best()) {
            // By how much memory lies in pieces that are too small, no sum says.
            (Some(SearchAnswer::Expected(_)), Some(ran)) if fit.fragmented.is_some() => {
                FitResult::AtLeast(ran.value)
            }
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
        FitResult::Largest(value) => Some(format!("{name} {value} fits")),
        FitResult::Expected(value) => Some(format!("{name} {value} is expected to fit")),
        FitResult::AtLeast(value) => Some(format!(
            "{name} {value} fits; the search ended before a larger one ran"
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
            "keeps_margin": fit.search.keeps_margin(trial),
            "ran_to_its_end": trial.ended,
            "earlier": trial.began,
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
        "fragmented": fit.fragmented,
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
    if fit.fragmented.is_some() {
        text.push_str(&fragmentation(fit));
    } else if let Some(by) = fit.grows_by {
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
    let mut number = 0;
    for trial in &fit.search.trials {
        let steps = trial.steps;
        let verdict = match (&trial.began, trial.ended, trial.fits) {
            (Some(began), ..) => format!("ran to its end here at {began} ({steps} steps)"),
            (None, true, true) => format!("fits: ran to its end ({steps} steps)"),
            (None, _, false) => "out of memory".to_string(),
            (None, false, true) if fit.search.keeps_margin(trial) => "fits".to_string(),
            (None, false, true) => "ran, but leaves less than the margin".to_string(),
        };
        number += u64::from(trial.began.is_none());
        let label = match trial.began {
            Some(_) => "–".to_string(),
            None => number.to_string(),
        };
        text.push_str(&row(
            &label,
            trial.value,
            [trial.peak, trial.reserved],
            &verdict,
        ));
    }
    if let Some(run) = &fit.unanswered {
        let verdict = match run.exit {
            Exit::Signal(_) => format!("no answer: ended by {}", run.exit),
            Exit::Code(_) => format!("no answer: ended by itself ({})", run.exit),
        };
        text.push_str(&row(
            &(number + 1).to_string(),
            run.value,
            [None, None],
            &verdict,
        ));
    }
    if let Some(room) = fit.search.room {
        text.push_str(&rule(fit, found.value(), room));
    }
    if fit.options.which() != crate::remedy::Which::Batch {
        text.push_str(
            "memory is assumed to grow linearly with this argument; it may grow faster\n",
        );
    }
    text
}

/// What fits, with the sum of the answer.
fn rule(fit: &Fit, value: Option<u64>, room: Bytes) -> String {
    let margin = fit.search.margin;
    let mut trials = fit.search.trials.iter();
    let ended = trials.clone().any(|trial| trial.fits && trial.ended);
    let or = if ended { ", or it ran to its end" } else { "" };
    let answer = trials.find(|trial| Some(trial.value) == value && trial.fits && !trial.ended);
    let sum = answer.and_then(|trial| {
        let peak = trial.peak?;
        let with = peak.scale(1.0 + margin);
        Some(format!(" ({peak} + {} = {with})", with - peak))
    });
    format!(
        "fits: the peak and {:.0} % of it as a margin are within the {room} that PyTorch can have{}{or}\n",
        margin * 100.0,
        sum.unwrap_or_default()
    )
}

/// Memory ran out while there was enough of it: what helps is no smaller value.
fn fragmentation(fit: &Fit) -> String {
    if fit.search.allocator == Allocator::Expandable {
        return String::new();
    }
    let mut segments = fit.typed.clone();
    let set = (fit.typed.env_value(alloc_conf::CUDA)).and_then(Word::as_str);
    let settings = set.map_or(String::new(), |set| format!("{set},"));
    let with = Word::from(&format!("{settings}expandable_segments:True"));
    segments.set_env(alloc_conf::CUDA, Some(with));
    format!(
        "\nwith expandable segments more may fit:\n  oomph fit -- {}\n",
        as_typed(&segments)
    )
}

fn headline(fit: &Fit, found: FitResult) -> String {
    let name = &fit.setting.name;
    let steps = |value: u64| {
        let trials = fit.search.trials.iter();
        let ran = trials.filter(|trial| trial.value == value && trial.fits);
        ran.map(|trial| trial.steps).max().unwrap_or(0)
    };
    if let (Some(failed), Some(value)) = (fit.fragmented, found.value()) {
        return format!(
            "{name} {failed} ran out by fragmentation; {value} ran for {} steps, and a longer run may run out too",
            steps(value)
        );
    }
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
            let ran = match fit.search.best() {
                Some(Trial {
                    began: Some(began),
                    steps,
                    ..
                }) => format!("it ran to its end here at {began}: {steps} steps"),
                Some(Trial {
                    ended: true, steps, ..
                }) => format!("it ran to its end: {steps} steps"),
                Some(_) | None => format!("it ran for {} steps", steps(value)),
            };
            (value, format!("{ran}{further}"))
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
                None => match fit.search.trials.iter().find(|trial| trial.fits) {
                    Some(ran) => format!(
                        "no {name} leaves a margin of {:.0} %; {} ran for {} steps",
                        fit.search.margin * 100.0,
                        ran.value,
                        ran.steps
                    ),
                    None => format!("no {name} that fits was found"),
                },
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
    let ended = fit
        .search
        .best()
        .is_some_and(|trial| trial.ended && trial.value == value);
    text.push_str(match ended {
        true => "with other data (longer inputs) it may still run out of memory\n",
        false => "a later step that needs more (longer inputs, an evaluation) may still run out of memory; --steps runs more of them\n",
    });
    let ran = fit.search.trials.iter().filter(|trial| trial.fits);
    let most = ran.map(|trial| trial.steps).max().unwrap_or(0);
    if let Some(failed) = fit
        .failed_before
        .filter(|failed| failed.step > most && !ended)
    {
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
    if let Some(ended) = fit
        .search
        .best()
        .filter(|trial| trial.ended && trial.value == value)
    {
        let largest = ended.inputs.as_ref().map_or(String::new(), |inputs| {
            format!("; the largest input was {}", shape(&inputs.largest))
        });
        return format!("all its {} steps were seen{largest}\n", ended.steps);
    }
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
        Some(smallest) if fit.search.margin > fit.options.margin() => format!(
            " (the smallest was {}: later ones may be larger, so the margin is {:.0} % instead of {:.0} %)",
            shape(smallest),
            fit.search.margin * 100.0,
            fit.options.margin
        ),
        Some(_) | None => String::new(),
    };
    format!("{seen}; with {name} {value} the largest input was {largest}{varied}\n")
}

/// `figures` are its peak and the most that it reserved.
fn row(label: &str, value: u64, figures: [Option<Bytes>; 2], verdict: &str) -> String {
    let [peak, reserved] =
        figures.map(|figure| figure.map_or("?".to_string(), |bytes| bytes.to_string()));
    format!("{label:<4} {value:>14}  {peak:>12}  {reserved:>12}  {verdict}\n")
}
