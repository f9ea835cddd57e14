//! Resuming the run that ended instead of starting again: the words that make a known program start
//! from its newest checkpoint.

use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{mostly_equals, shown};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::recognize::argument::{Hit, InsertPoint, Name};
use crate::recognize::program::{InsertPlace, Resumes};
use crate::recognize::{Checkpoint, Recognized, directory};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    rejects: Some(RejectedThing::Checkpoint),
    ..RemedySpec::new('c', "resume", RemedyEffect::None, NeedFrom::Itself, propose)
};

/// Values with which a program finds its latest checkpoint itself.
const BY_ITSELF: [&str; 9] = [
    "latest", "last", "auto", "true", "True", "1", "yes", "must", "allow",
];

/// The edits with which the next run resumes, or why there are none.
fn resume(offering: &Offering<'_>) -> Result<Draft, String> {
    let (recognized, inputs) = (offering.recognized, offering.inputs);
    recognized.check_open()?;
    let entry = recognized.known.ok_or(
        "no way to resume this program is known: a relaunch restarts from step 0 and writes to its files again",
    )?;
    let resume = &entry.resume;
    let arguments = recognized.arguments();
    let overwritten = directory(&arguments, entry, &inputs.launch)
        .or_else(|| resume.default_directory.clone())
        .unwrap_or_else(|| "its files".into());
    let again = format!("a relaunch restarts from step 0 and writes to {overwritten} again");
    let mut refusals = resume.refused_with.iter();
    if let Some((_, why)) = refusals.find(|(option, _)| arguments.has(Name::new(option))) {
        return Err(why.clone());
    }
    let (name, note) = (entry.shown(), resume.note.clone());
    match resume.rule {
        Resumes::Told => {}
        Resumes::Automatic => {
            let by_itself = || format!("{name} resumes from its last checkpoint by itself");
            return Err(note.unwrap_or_else(by_itself));
        }
        Resumes::Not => {
            let why = note.unwrap_or_else(|| format!("no way to resume {name} is known"));
            return Err(format!("{why}: {again}"));
        }
    }
    let last = |name: &String| arguments.find(Name::new(name)).pop();
    let present = resume.names.iter().find_map(last);
    let already = |hit: &Hit<'_>| Err(format!("it already resumes: {}", shown(hit)));
    if let Some(hit) = present.filter(is_by_itself) {
        return already(&hit);
    }
    let Some(checkpoint) = inputs.launch.checkpoint else {
        return Err(format!("this run has no complete checkpoint: {again}"));
    };
    let Some(path) = checkpoint.path.to_str() else {
        return Err(format!("the checkpoint's path isn't valid text: {again}"));
    };
    let mut words = Vec::new();
    for word in &resume.add {
        let word = word.replace("{path}", path);
        words.push(match (checkpoint.number, word.contains("{number}")) {
            (Some(number), true) => word.replace("{number}", &number.to_string()),
            (None, true) => return Err(format!("the checkpoint has no number: {again}")),
            (_, false) => word,
        });
    }
    let mut draft = Draft::default();
    for name in &resume.replaced {
        match last(name).and_then(|hit| Some((hit, hit.value?))) {
            Some((hit, value)) => draft.set(hit.name, value, path),
            None => return Err(format!("{name} is not in the command: {again}")),
        }
    }
    if let Some((hit, value)) = present.and_then(|hit| Some((hit, hit.value?))) {
        let new = match words.as_slice() {
            [_, new] => new.as_str(),
            [one] => one.split_once('=').map_or(one.as_str(), |(_, new)| new),
            _ => return Err(format!("{} is already set", shown(&hit))),
        };
        if value.text == new || new.starts_with("--") {
            return already(&hit);
        }
        draft.set(hit.name, value, new);
        return Ok(draft);
    }
    if let [name, value] = words.as_slice()
        && name.starts_with("--")
        && mostly_equals(&arguments)
    {
        words = vec![format!("{name}={value}")];
    }
    let place = match resume.place {
        InsertPlace::Start => recognized.layout.arguments.start,
        InsertPlace::End | InsertPlace::Launcher => recognized.layout.arguments.end,
    };
    if arguments.nested.is_some() {
        return Err("its arguments are inside one word".into());
    }
    draft.insert(InsertPoint::Before(place), &words);
    Ok(draft)
}

fn is_by_itself(hit: &Hit<'_>) -> bool {
    hit.value
        .is_none_or(|value| BY_ITSELF.contains(&value.text))
}

/// Where the next run starts, for display.
fn begins(recognized: &Recognized<'_>, checkpoint: &Checkpoint) -> String {
    let counts = recognized
        .known
        .and_then(|entry| entry.resume.counts.as_deref());
    let counts = counts.unwrap_or("step");
    match checkpoint.number {
        Some(number) => format!("resumes from {counts} {number}"),
        None => {
            let name = checkpoint.path.file_name().unwrap_or_default();
            format!("resumes from {}", name.to_string_lossy())
        }
    }
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let (recognized, inputs) = (offering.recognized, offering.inputs);
    let draft = resume(offering);
    let cost = match inputs.launch.checkpoint {
        Some(checkpoint) => begins(recognized, checkpoint),
        None => String::new(),
    };
    let expectation = match inputs.forecast.oom {
        // It would run out of memory again.
        Some(_) => Expectation {
            fits: Some(false),
            words: "it needs as much memory as before: combine it with another remedy".into(),
            ..Expectation::default()
        },
        None => Expectation::unknown("known only once memory has run out"),
    };
    Some(Proposal::new(draft, cost).expecting(expectation))
}
