//! Arguments that a script takes by their place, without a parser: `MICRO_BATCH = int(sys.argv[2])`.

use super::declared::argument_by_place;
use super::statements::{AssignedValue, SourceStatements};
use super::{ReadSource, SourceRole, TextNumber};

/// Places further behind are no list of arguments.
const LAST_PLACE: usize = 99;

/// What the script assigns of the words of its command.
pub(super) fn arguments(sources: &[ReadSource<'_, '_>], found: &mut Vec<TextNumber>) {
    let scripts = sources
        .iter()
        .filter(|(source, _)| source.role == SourceRole::Script);
    for (source, said) in scripts {
        found.extend(said.assigned.iter().filter_map(|one| {
            let place = place(said, one)?;
            Some(TextNumber {
                place: Some(place),
                ..argument_by_place(source, said, one.at, one.target)
            })
        }));
    }
}

/// The place of the word that a value is made of.
fn place(said: &SourceStatements<'_>, one: &AssignedValue<'_>) -> Option<usize> {
    let tokens = &said.tokens;
    let written: String = one.value.clone().map(|at| tokens.text(at)).collect();
    let word = written.strip_prefix("int(")?.strip_suffix(")")?;
    let word = word.strip_prefix("sys.").unwrap_or(word);
    let place = word.strip_prefix("argv[")?.strip_suffix(']')?;
    let place = place.parse().ok()?;
    (1..=LAST_PLACE).contains(&place).then_some(place)
}
