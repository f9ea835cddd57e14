//! Several numbers of the program's text of which none is surer than the others: what each would change, and how one names
//! it.

use super::{BatchSpot, HowSure, TextCandidate, TextChoice, TextReading, leaf};
use crate::recognize::batch::BatchSource;
use crate::recognize::family;
use crate::recognize::knob::PossibleBatch;
use crate::recognize::launch::ConfigFile;
use crate::recognize::layout::file_name;
use crate::recognize::learned::KnobStanding;
use crate::recognize::recognized::Recognized;
use crate::recognize::text::{ProgramText, TextNumber};
use std::path::Path;

/// Of several that are as good, each as what sets the batch.
pub(crate) fn possible<'a>(
    recognized: &Recognized<'a>,
    text: &'a ProgramText,
) -> Vec<PossibleBatch<'a>> {
    let Ok(arguments) = recognized.opened() else {
        return Vec::new();
    };
    let reading = TextReading::new(recognized, text, &arguments);
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
    let reading = TextReading::new(recognized, text, &arguments);
    match reading.choice() {
        TextChoice::One(found, HowSure::Sure) => reading.source(found).ok(),
        TextChoice::One(..) | TextChoice::Several(_) | TextChoice::Nothing(_) => None,
    }
}

impl TextReading<'_, '_> {
    /// Whether a word of the command binds a number of this name otherwise than as an argument of it:
    /// `--gin_bindings="Config.batch_size = 64"`.
    pub(super) fn is_said_in_a_word(&self, number: &TextNumber) -> bool {
        let bound = format!(".{}=", leaf(number));
        let mut words = self
            .recognized
            .command
            .argv
            .iter()
            .filter_map(|word| word.as_str());
        words.any(|word| word.replace(' ', "").contains(&bound))
    }

    /// Whether a file that the command names may set the batch that this number only is the default of.
    pub(super) fn is_in_a_file(&self, found: &TextCandidate<'_>) -> bool {
        let name = family::plain(leaf(found.number));
        let is_it = |setting: &str| {
            let leaf = setting.rsplit('.').next().unwrap_or(setting);
            family::plain(leaf) == name || family::batch_level(setting).is_some()
        };
        let says = |file: &ConfigFile| match file.names() {
            Ok(names) => names.iter().any(|setting| {
                is_it(setting)
                    && match file.scalar(setting) {
                        // `auto`, or none: the program's own.
                        Ok(said) => said.is_some_and(|said| {
                            said.text.parse::<u64>().is_ok() || said.text.contains('$')
                        }),
                        Err(_) => true,
                    }
            }),
            // It cannot be taken apart.
            Err(_) => file.text.contains(leaf(found.number)),
        };
        let is_default = found.typed.is_none()
            && !self.is_in_force(found.number)
            && self.line_of_file(found.number).is_none()
            && self.standing(found.number) != KnobStanding::Confirmed
            && !self
                .recognized
                .launch
                .files
                .iter()
                .any(|file| file.name == Path::new(&found.number.file));
        is_default && self.recognized.launch.files.iter().any(says)
    }
}
