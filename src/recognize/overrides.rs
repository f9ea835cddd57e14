//! Arguments that are added to a command since they override what its config file says.

use super::argument::{Arguments, InsertPoint, Name};
use super::batch::{Addition, Knob, Place};

/// An argument in the notation of the data files, before the word at `end`. It may begin with the option that such
/// arguments follow: `--cfg-options train_dataloader.batch_size=`.
pub(super) fn addition(
    arguments: &Arguments<'_>,
    spec: &str,
    end: usize,
) -> Result<Addition, String> {
    let inside = || "its arguments are inside one word".to_string();
    if arguments.nested.is_some() {
        return Err(inside());
    }
    let Some((option, key)) = spec.split_once(' ') else {
        return Ok(Addition::new(spec, InsertPoint::Before(end)));
    };
    // Given twice, the second option would take the place of the first.
    if let Some(hit) = arguments.find(Name::new(option)).pop() {
        let group = arguments.tokens.iter().skip(hit.token + 1);
        let length = group.take_while(|token| is_key_value(token.text)).count();
        let gap = arguments.gap(hit.token + 1 + length).ok_or_else(inside)?;
        return Ok(Addition::new(key, gap));
    }
    let mut addition = Addition::new(key, InsertPoint::Before(end));
    addition.words.insert(0, option.into());
    Ok(addition)
}

/// Whether it is one of a group's words: `train_dataloader.batch_size=4`.
fn is_key_value(word: &str) -> bool {
    !word.starts_with('-') && word.contains('=')
}

/// Two arguments that follow the same option, which the command does not have yet, share it.
pub(super) fn share_option(first: &Knob<'_>, second: &mut Knob<'_>) {
    if let (Place::Added(first), Place::Added(second)) = (&first.place, &mut second.place)
        && first.gap == second.gap
        && first.words.len() == 2
        && first.words[0].starts_with("--")
        && first.words[0] == second.words[0]
    {
        second.words.remove(0);
    }
}
