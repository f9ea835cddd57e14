//! What a command that somebody has edited by hand would need: by the figures of the dialog, where the edit is one that
//! they tell of. Of any other edit nothing is known, and that is said.

use super::RemedyId;
use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::measured;
use super::offer::expectation;
use super::plan::{BatchChange, Expectation, Plan, Remedy};
use crate::command::{CommandLine, EnvChange, Word};
use crate::event::EDITS;
use crate::recognize::{WorkloadKey, family};

/// What an edited command would need.
#[derive(Debug, Clone, PartialEq)]
pub struct EditedNeed {
    /// As it was typed; secrets may be masked.
    pub command: CommandLine,
    /// What a device takes at once, where the command has another batch than the one that ran, and no other change.
    pub batch: Option<u64>,
    /// Or why that is not known.
    pub need: Result<Expectation, String>,
}

/// Remedies whose combinations are compared with an edit, at most: each doubles the work.
const MOST: usize = 8;

/// What the tensors depend on beside [`WorkloadKey`].
const SETTINGS: [&str; 3] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", EDITS];

/// Variables that begin so may change what is needed.
const KNOWN: [&str; 5] = ["PYTORCH_", "TORCH_", "CUDA_", "NCCL_", "OOMPH_"];

impl EditedNeed {
    /// `edited` is a change of the command that ran last, `remedies` are those that are offered for that one.
    pub fn new(
        command: &CommandLine,
        edited: CommandLine,
        inputs: &RemedyInputs<'_>,
        remedies: &[Remedy],
    ) -> EditedNeed {
        let need = need(command, &edited, inputs, remedies);
        EditedNeed {
            batch: batch_alone(command, &edited, inputs),
            need: or_as_it_ran(command, &edited, inputs, need),
            command: edited,
        }
    }
}

/// What an edit took in an earlier session, where it is a command that ran there: any edit may be one.
fn or_as_it_ran(
    command: &CommandLine,
    edited: &CommandLine,
    inputs: &RemedyInputs<'_>,
    said: Result<Expectation, String>,
) -> Result<Expectation, String> {
    let is_open = said.as_ref().is_ok_and(|said| said.futile.is_some());
    if inputs.forecast.earlier_runs.is_empty() || is_open {
        return said;
    }
    let room = match inputs.forecast.oom {
        Some(_) => RemedyPredictor::new(command, inputs).room(),
        None => RemedyPredictor::of_whole_run(command, inputs).and_then(|of| of.room()),
    };
    match said {
        Ok(said) => Ok(measured::of_command(edited, inputs, room, said)),
        Err(why) => {
            let ran = measured::of_command(edited, inputs, room, Expectation::default());
            let is_told = ran.ran_before.is_some();
            is_told.then_some(ran).ok_or(why)
        }
    }
}

fn need(
    command: &CommandLine,
    edited: &CommandLine,
    inputs: &RemedyInputs<'_>,
    remedies: &[Remedy],
) -> Result<Expectation, String> {
    let edited = edited.without_secrets();
    if let Some(words) = batch_without_number(command, &edited) {
        return Err(format!("{words} is no number"));
    }
    let key = |command: &CommandLine| WorkloadKey::new(command, &inputs.launch);
    let wanted = key(&edited);
    let offered: Vec<&Remedy> = remedies
        .iter()
        .filter(|remedy| remedy.is_offered() && remedy.parts.is_empty())
        .filter(|remedy| !remedy.edits.is_empty())
        .take(MOST)
        .collect();
    let all = subsets(&offered);
    let ran_out = inputs.forecast.oom.is_some();
    // What the dialog offers word for word needs what the dialog says, which may have been measured.
    let whole = remedies
        .iter()
        .filter(|remedy| remedy.is_offered() && !remedy.parts.is_empty());
    let whole: Vec<Vec<&Remedy>> = whole.map(|remedy| vec![remedy]).collect();
    let makes_it = |chosen: &&Vec<&Remedy>| {
        !chosen.is_empty() && Plan::new(command, chosen).command.without_secrets() == edited
    };
    if let Some(chosen) = whole.iter().chain(&all).find(makes_it).filter(|_| ran_out) {
        return Ok(expectation(command, inputs, chosen));
    }
    let with_more = whole.iter().chain(all.iter().rev()).find_map(|chosen| {
        let planned = Plan::new(command, chosen).command.without_secrets();
        let added = added(&planned, &edited).filter(|_| !chosen.is_empty())?;
        Some((chosen, added))
    });
    for chosen in &all {
        let planned = Plan::new(command, chosen).command.without_secrets();
        let reading = key(&planned);
        if reading.likeness != wanted.likeness || settings(&planned) != settings(&edited) {
            continue;
        }
        let is_same = reading.at_once == wanted.at_once
            && reading.keeps_gradients() == wanted.keeps_gradients();
        if is_same && ran_out && !chosen.is_empty() {
            return Ok(expectation(command, inputs, chosen));
        }
        let batch = match is_same {
            true => None,
            false => Some(other_batch(&reading, &wanted, chosen)?),
        };
        let others = chosen
            .iter()
            .copied()
            .filter(|remedy| is_same || remedy.id != RemedyId::Batch && !remedy.id.is_candidate());
        let together: Vec<&Remedy> = others.chain(batch.as_ref()).collect();
        return match ran_out {
            true => Ok(RemedyPredictor::new(command, inputs).together(&together)),
            false => RemedyPredictor::of_whole_run(command, inputs)
                .map(|predictor| predictor.of_whole(&together))
                .ok_or_else(|| "no process of PyTorch was seen yet".into()),
        };
    }
    if let Some((chosen, added)) = with_more.filter(|_| ran_out) {
        let mut said = expectation(command, inputs, chosen);
        said.words
            .push("; ", format!("what {added} changes is not counted"));
        return Ok(said);
    }
    Err("no run has shown what this change needs".into())
}

/// The words that an edit has beside those of a command, which it has all in their order: of options and variables that nobody
/// knows.
fn added(planned: &CommandLine, edited: &CommandLine) -> Option<String> {
    let mut left = planned.argv.iter().peekable();
    let words = edited.argv.iter();
    let argv = words.filter(|word| left.next_if_eq(word).is_none());
    let argv: Vec<String> = argv.map(Word::to_string_lossy).collect();
    let (more, kept): (Vec<_>, Vec<_>) =
        (edited.env.iter()).partition(|change| !planned.env.contains(change));
    let is_known = |change: &&EnvChange| {
        let name = change.name.to_string_lossy();
        planned.env.iter().any(|other| other.name == change.name)
            || KNOWN.iter().any(|known| name.starts_with(known))
    };
    let has_all = left.peek().is_none() && kept.len() == planned.env.len();
    if !has_all || more.iter().any(is_known) || more.len() + argv.len() == 0 {
        return None;
    }
    let env = more.iter().map(|change| change.name.to_string_lossy());
    Some(env.chain(argv).collect::<Vec<_>>().join(" "))
}

/// A batch that was typed and is no number: `--batch-size x`. A word that ran before is one that the program knows.
fn batch_without_number(command: &CommandLine, edited: &CommandLine) -> Option<String> {
    let text = |word: &Word| word.to_string_lossy();
    let words: Vec<String> = edited.argv.iter().map(text).collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value),
            None if word.starts_with('-') => (word.as_str(), words.get(at + 1)?.as_str()),
            None => return None,
        };
        let is_batch = family::like_a_batch(name).is_some() && family::is_plainly_a_batch(name);
        let is_typed = !command.argv.iter().map(text).any(|known| {
            known == value
                || known
                    .split_once('=')
                    .is_some_and(|(_, known)| known == value)
        });
        let is_number = value.parse::<f64>().is_ok();
        (is_batch && is_typed && !is_number).then(|| format!("{name} {value}"))
    })
}

/// The batch of an edit that changes nothing else of what the tensors depend on.
fn batch_alone(
    command: &CommandLine,
    edited: &CommandLine,
    inputs: &RemedyInputs<'_>,
) -> Option<u64> {
    let [ran, edited] = [command, edited].map(CommandLine::without_secrets);
    let [before, after] = [&ran, &edited].map(|command| WorkloadKey::new(command, &inputs.launch));
    let is_alone = before.likeness == after.likeness
        && before.keeps_gradients() == after.keeps_gradients()
        && settings(&ran) == settings(&edited)
        && after.batch.is_some();
    (is_alone && before.at_once != after.at_once).then_some(after.at_once)
}

/// A batch that somebody has typed.
fn other_batch(
    reading: &WorkloadKey,
    wanted: &WorkloadKey,
    chosen: &[&Remedy],
) -> Result<Remedy, String> {
    let offered = chosen.iter().find_map(|remedy| remedy.takes);
    if wanted.batch.is_none() {
        return Err("the command does not say its batch".into());
    }
    Ok(Remedy {
        takes: Some(BatchChange {
            from: offered.map_or(reading.at_once, |takes| takes.from),
            at_once: wanted.at_once,
            accumulates: wanted.keeps_gradients(),
        }),
        ..Remedy::new(RemedyId::Batch)
    })
}

fn settings(command: &CommandLine) -> [Option<&Word>; 3] {
    SETTINGS.map(|name| command.env_value(name))
}

/// All combinations, the smallest first.
fn subsets<'r>(of: &[&'r Remedy]) -> Vec<Vec<&'r Remedy>> {
    let mut all: Vec<Vec<&Remedy>> = (0..1_usize << of.len())
        .map(|bits| {
            let each = of.iter().enumerate();
            each.filter(|(place, _)| bits >> place & 1 == 1)
                .map(|(_, remedy)| *remedy)
                .collect()
        })
        .collect();
    all.sort_by_key(Vec::len);
    all
}
