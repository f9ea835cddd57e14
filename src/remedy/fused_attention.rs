//! A fused kernel of attention (PyTorch's `scaled_dot_product_attention`), which never makes the matrix of scores, where the
//! command or its config file asks for the written-out one: transformers' `attn_implementation` and LLaMA-Factory's `flash_attn`.

use super::optimizer::in_copy;
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::switch::shown;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Cause;
use crate::recognize::argument::Name;
use crate::recognize::config_file;

pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'T',
    "fused attention",
    RemedyEffect::RemovesCause,
    NeedFrom::Itself,
    propose,
);

/// An option's names, the key in a file, what asks for the written-out form, and the word for the fused one.
struct AttentionOption {
    names: [&'static str; 3],
    keys: [&'static str; 2],
    written_out: &'static str,
    fused: &'static str,
}

const OPTIONS: [AttentionOption; 2] = [
    AttentionOption {
        names: [
            "--attn_implementation",
            "attn_implementation=",
            "*.attn_implementation=",
        ],
        keys: ["attn_implementation", "*.attn_implementation"],
        written_out: "eager",
        fused: "sdpa",
    },
    AttentionOption {
        names: ["--flash_attn", "flash_attn=", "*.flash_attn="],
        keys: ["flash_attn", "*.flash_attn"],
        written_out: "disabled",
        fused: "sdpa",
    },
];

/// The edit that asks for the fused one, or why there is none; `None` where nothing in the command is about it.
fn asked(offering: &Offering<'_>) -> Option<Result<Draft, String>> {
    let recognized = offering.recognized;
    let arguments = recognized.arguments();
    let launch = &offering.inputs.launch;
    for option in &OPTIONS {
        let hits = option.names.iter().map(|name| Name::new(name));
        let last = hits
            .filter_map(|name| arguments.find(name).pop())
            .next_back();
        let Some(hit) = last else { continue };
        return Some(match hit.value {
            Some(value) if value.text == option.written_out => {
                let mut draft = Draft::default();
                draft.set(hit.name, value, option.fused);
                Ok(draft)
            }
            _ => Err(format!("already on: {}", shown(&hit))),
        });
    }
    let file = match recognized.known {
        Some(entry) => config_file::of_command(&arguments, entry, launch),
        None => config_file::of_unknown(&arguments, launch),
    }?;
    let set = OPTIONS.iter().find_map(|option| {
        let keys = option.keys.iter();
        let mut values = keys.filter_map(|key| file.scalar(key).ok().flatten());
        Some((option, values.next()?))
    });
    let (option, value) = set?;
    Some(match value.text == option.written_out {
        true => in_copy(offering, file, &value, option.fused, &[] as &[&str]),
        false => Err(format!(
            "already on: {} is {} in {}",
            value.name,
            value.text,
            file.shown()
        )),
    })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    if offering.inputs.cause() != Some(Cause::AttentionScores) {
        return None;
    }
    let draft = asked(offering)?;
    let cost = ["equal to rounding", "attention weights cannot be returned"];
    let unknown =
        "no layer makes its matrix of scores; how much less the step needs was not rehearsed";
    Some(Proposal::new(draft, cost).expecting(Expectation::unknown(unknown)))
}
