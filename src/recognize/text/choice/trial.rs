//! What a trial run changes: the number that is the batch or may be it, and one that somebody names.

use super::{TextChoice, TextReading};
use crate::recognize::batch::Knob;
use crate::recognize::family;
use crate::recognize::program_settings::AccumulationRule;
use crate::recognize::recognized::Recognized;
use crate::recognize::text::{TextNumber, TextSetting};
use std::path::Path;

impl<'c> Recognized<'c> {
    /// What a trial run changes to change the batch; several where only the first run can tell which one it is.
    pub(crate) fn batch_knobs(&self) -> Vec<Knob<'c>> {
        let is_split = self.known.is_some_and(|entry| {
            let rule = &entry.accumulation.rule;
            matches!(
                rule,
                AccumulationRule::MicroSize | AccumulationRule::Divides
            )
        });
        if is_split || self.check_open().is_err() {
            return Vec::new();
        }
        if let Ok(source) = self.batch_source() {
            return source.sizes.into_iter().take(1).collect();
        }
        let (Some(text), Ok(arguments)) = (self.launch.text, self.opened()) else {
            return Vec::new();
        };
        let reading = TextReading::new(self, text, &arguments);
        match reading.choice() {
            TextChoice::Several(rivals) => {
                let knobs = rivals.iter().map(|rival| reading.knob(rival.number));
                knobs.filter_map(Result::ok).collect()
            }
            TextChoice::One(..) | TextChoice::Nothing(_) => Vec::new(),
        }
    }

    /// The number of this name in the program's text, or at this place of it (`train.py:30`); none where there are several.
    pub(crate) fn named_in_text(&self, name: &str) -> Vec<Knob<'c>> {
        let (Some(text), Ok(arguments)) = (self.launch.text, self.opened()) else {
            return Vec::new();
        };
        let reading = TextReading::new(self, text, &arguments);
        let wanted = family::plain(name.trim_end_matches('='));
        let place =
            (name.rsplit_once(':')).and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let is_it = |number: &&TextNumber| {
            let is_there = |(file, line): (&str, u32)| {
                Path::new(&number.file).ends_with(file) && number.line == line
            };
            let mut names = number.names().into_iter();
            number.value() > 0
                && place.map_or_else(|| names.any(|name| family::plain(name) == wanted), is_there)
        };
        let all = text.numbers.iter().chain(&text.others);
        let (declared, constants): (Vec<&TextNumber>, Vec<&TextNumber>) = all
            .filter(is_it)
            .partition(|one| matches!(one.set, TextSetting::Argument(_)));
        let found = if declared.is_empty() {
            constants
        } else {
            declared
        };
        match found.as_slice() {
            [one] => reading.knob(one).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}
