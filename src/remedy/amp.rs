//! Mixed precision by argument: bf16 if the device supports it, else fp16 if the program scales its
//! loss itself. Without an argument, bf16 autocast at runtime.

use super::plan::Alteration;
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, by_the_launcher, turn_around, turn_on};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::command::CommandLine;
use crate::event::{Patch, Patchable};
use crate::recognize::argument::{Arguments, Name};
use crate::recognize::family::{self, SwitchReading};
use crate::recognize::program::SwitchSpec;
use crate::recognize::recognized::Recognized;
use crate::recognize::spellings::is_off;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    alters: Some(Alteration::Precision),
    rejects: Some(RejectedThing::Precision),
    ..RemedySpec::new(
        'a',
        "mixed precision",
        RemedyEffect::LessAllocated,
        NeedFrom::Forecast(|_, target| target.treatment.mixed = true),
        propose,
    )
};

/// The edits that turn mixed precision on, or why there are none.
fn mixed(offering: &Offering<'_>) -> Result<Draft, String> {
    let (command, recognized) = (offering.command, offering.recognized);
    recognized.check_open()?;
    let has_bf16 = offering.inputs.bf16 != Some(false);
    let arguments = recognized.arguments();
    let by_launcher = launcher_precision(command, recognized);
    let Some(entry) = recognized.known else {
        let reading = family::precision(&arguments, has_bf16);
        return match (by_launcher, &reading) {
            (Some(value), SwitchReading::Nothing) if !is_off(value) => Err(by_the_launcher(value)),
            _ => turn_around(reading, &arguments, "precision"),
        };
    };
    let spec = &entry.precision;
    let switch = Switch {
        what: "mixed precision",
        spec,
        words: words(spec, &arguments, has_bf16),
        of_launcher: by_launcher.filter(|_| spec.by_launcher),
        means_off: is_off,
        in_file: &entry.file.precision,
    };
    turn_on(switch, offering, entry, arguments)
}

const NO_BF16: &str = "the GPU has no bf16, and the program does not scale its loss for fp16";

/// The words to add, depending on the device and on the version of the program.
fn words<'e>(
    precision: &'e SwitchSpec,
    arguments: &Arguments<'_>,
    has_bf16: bool,
) -> Result<&'e [String], &'static str> {
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

/// The precision that `accelerate launch` is given.
fn launcher_precision<'a>(
    command: &'a CommandLine,
    recognized: &Recognized<'_>,
) -> Option<&'a str> {
    recognized
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

/// bf16 autocast around the program's model.
fn patched(offering: &Offering<'_>, found: &Patchable) -> Result<Draft, String> {
    offering.check_patch(Patch::Amp)?;
    if let Some(own) = &found.precision {
        return Err(format!("it sets its own precision: {own}"));
    }
    if let Some(why) = &found.amp_left {
        return Err(why.clone());
    }
    if !found.bf16 || offering.inputs.bf16 == Some(false) {
        return Err("the GPU has no bf16".into());
    }
    if found.models.is_empty() {
        return Err("no model in training was found".into());
    }
    let models = found.models.join(", ");
    let shown = format!("bf16 autocast around {models}");
    Ok(Draft::patching(Patch::Amp, &shown))
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let draft = offering.or_patched(mixed(offering), |found| patched(offering, found));
    Some(Proposal::new(draft, "lower precision, results change"))
}
