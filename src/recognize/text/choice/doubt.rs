//! Several numbers of the program's text of which none is surer than the others: what each would change, and how one names
//! it.

use super::{BatchSpot, HowSure, TextChoice, TextReading};
use crate::recognize::batch::BatchSource;
use crate::recognize::family;
use crate::recognize::knob::PossibleBatch;
use crate::recognize::layout::file_name;
use crate::recognize::recognized::Recognized;
use crate::recognize::text::ProgramText;

/// Of several that are as good, each as what sets the batch.
pub(crate) fn possible<'a>(
    recognized: &Recognized<'a>,
    text: &'a ProgramText,
) -> Vec<PossibleBatch<'a>> {
    let Ok(arguments) = recognized.opened() else {
        return Vec::new();
    };
    let reading = TextReading {
        recognized,
        text,
        arguments: &arguments,
    };
    let TextChoice::Several(rivals) = reading.choice() else {
        return Vec::new();
    };
    let each = rivals.into_iter().filter_map(|rival| {
        let evidence = format!("{}, {}", rival.value, BatchSpot::new(&rival).stands_at());
        let source = reading.source(rival).ok()?;
        Some(PossibleBatch { source, evidence })
    });
    each.collect()
}

/// Each with what names it on a command line: its name, or its file and line where another one has that name.
pub(super) fn with_args(mut spots: Vec<BatchSpot>) -> Vec<BatchSpot> {
    let names: Vec<String> = spots.iter().map(|spot| family::plain(&spot.name)).collect();
    for (at, spot) in spots.iter_mut().enumerate() {
        let is_only = names.iter().filter(|name| **name == names[at]).count() == 1;
        spot.arg = match (is_only, &spot.file, spot.line) {
            (false, Some(file), Some(line)) => Some(format!("{}:{line}", file_name(file))),
            _ => Some(spot.name.clone()),
        };
    }
    spots
}

/// The number that the text is sure of.
pub(crate) fn sure<'a>(
    recognized: &Recognized<'a>,
    text: &'a ProgramText,
) -> Option<BatchSource<'a>> {
    let arguments = recognized.opened().ok()?;
    let reading = TextReading {
        recognized,
        text,
        arguments: &arguments,
    };
    match reading.choice() {
        TextChoice::One(found, HowSure::Sure) => reading.source(found).ok(),
        TextChoice::One(..) | TextChoice::Several(_) | TextChoice::Nothing(_) => None,
    }
}
