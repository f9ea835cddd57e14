//! Automatic mixed precision by argument: bf16 where the device has it, fp16 where not and the
//! program scales its loss itself.

use super::draft::Draft;
use super::inputs::RemedyInputs;
use super::patch;
use super::proposal::{Offering, Proposal, or_patched};
use super::switch::{Switch, shown, turn_on};
use crate::command::CommandLine;
use crate::recognize::argument::{Arguments, Name};
use crate::recognize::family::{self, SwitchReading};
use crate::recognize::program::ProgramEntry;
use crate::recognize::recognition::{Recognised, arguments_of};
use crate::recognize::spellings::is_off;

/// The edits that switch mixed precision on, or why there are none.
fn mixed(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Result<Draft, String> {
    if let Some(reason) = &recognised.closed {
        return Err(reason.clone());
    }
    let has_bf16 = inputs.bf16 != Some(false);
    let arguments = arguments_of(command, &recognised.anatomy);
    let Some(entry) = recognised.known else {
        return of_unknown(command, recognised, &arguments, has_bf16);
    };
    let precision = &entry.precision;
    let switch = Switch {
        what: "mixed precision",
        default: precision.default,
        note: precision.note.as_deref(),
        on: &precision.on,
        valued: &precision.valued,
        off: &precision.off,
        words: words(entry, &arguments, has_bf16),
        place: precision.place,
        spaced: precision.spaced,
        of_launcher: precision
            .by_launcher
            .then(|| launcher_precision(command, recognised))
            .flatten(),
        means_off: is_off,
        in_file: &entry.file.precision,
        inputs,
    };
    turn_on(switch, command, recognised, entry, arguments)
}

const NO_BF16: &str = "the GPU has no bf16, and the program does not scale its loss for fp16";

/// The words to add, by what the device has and how old the command looks.
fn words<'e>(
    entry: &'e ProgramEntry,
    arguments: &Arguments<'_>,
    has_bf16: bool,
) -> Result<&'e [String], &'static str> {
    let precision = &entry.precision;
    let words = if has_bf16 {
        let older = precision
            .older
            .iter()
            .find(|(signs, _)| signs.iter().any(|sign| arguments.has(Name::new(sign))));
        older.map_or(&precision.bf16, |(_, words)| words)
    } else {
        &precision.fp16
    };
    if words.is_empty() {
        return Err(NO_BF16);
    }
    Ok(words)
}

/// What `accelerate launch` is told.
fn launcher_precision<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
) -> Option<&'a str> {
    recognised
        .launchers()
        .iter()
        .filter(|launcher| launcher.name.starts_with("accelerate"))
        .find_map(|launcher| {
            let words = &command.argv[launcher.words.clone()];
            let options = Arguments::of_words(words, launcher.words.start);
            if options.has(Name::new("--fp16")) {
                return Some("fp16");
            }
            options.value_of("--mixed_precision")
        })
}

fn of_unknown(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    arguments: &Arguments<'_>,
    has_bf16: bool,
) -> Result<Draft, String> {
    let mut draft = Draft::default();
    match family::precision(arguments, has_bf16) {
        SwitchReading::On(hit) => Err(format!("already on: {}", shown(&hit))),
        SwitchReading::Unclear(hit) => Err(format!(
            "which values {} takes in this program is not known",
            hit.name
        )),
        SwitchReading::Off(off) => {
            match (off.with, off.hit.value) {
                (Some(with), Some(value)) => draft.set(off.hit.name, value, with),
                _ => draft.remove(arguments, &off.hit, false),
            }
            Ok(draft)
        }
        SwitchReading::Nothing => Err(match launcher_precision(command, recognised) {
            Some(value) if !is_off(value) => {
                format!("already on: the launcher's --mixed_precision {value}")
            }
            _ => "no precision option is known for this program".into(),
        }),
    }
}

/// Sentences about a device or a library without bf16.
pub(super) const REJECTIONS: &[&str] = &[
    "doesn't support bf16",
    "does not support bf16",
    "bf16 mixed precision requires",
    "not compiled with bf16",
];

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let (command, inputs) = (offering.command, offering.inputs);
    let by_argument = mixed(command, offering.recognised, inputs);
    let draft = or_patched(inputs, by_argument, |found| {
        patch::amp(command, inputs, found)
    });
    let cost = "lower precision, results change";
    Some(Proposal::of(draft, cost))
}
