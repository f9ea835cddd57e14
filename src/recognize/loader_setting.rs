//! The argument of the program for a setting of DataLoader that the command leaves at its default, by the program's own text.

use super::batch::{Addition, Place};
use super::family::{LoaderFlag, is_like_workers, is_of_loader};
use super::knob;
use super::recognized::Recognized;
use super::text::TextSetting;
use crate::event::ParsedNumber;

impl Recognized<'_> {
    /// What to add to the command for another number than the default, and that default; `seen` is what a DataLoader had.
    /// `None` where the text declares none, or several, or the program used another number than it declares.
    pub(crate) fn default_of_loader(
        &self,
        flag: LoaderFlag,
        seen: Option<u32>,
    ) -> Option<(Addition, u32)> {
        let text = self.launch.text?;
        let numbers = text.others.iter().chain(&text.numbers);
        let declared: Vec<(&ParsedNumber, u32)> = numbers
            .filter_map(|number| match &number.set {
                TextSetting::Argument(argument) => Some((number, argument)),
                TextSetting::Constant(_) => None,
            })
            .filter_map(|(number, argument)| {
                let value = u32::try_from(argument.value).ok().filter(|n| *n > 0)?;
                let names = number.names();
                let is_named = names.iter().any(|name| is_of_loader(flag, name));
                let is_like = flag == LoaderFlag::Workers
                    && seen.is_some()
                    && names.iter().any(|name| is_like_workers(name));
                let is_seen = seen.is_none_or(|seen| seen == value);
                ((is_named || is_like) && is_seen).then_some((argument, value))
            })
            .collect();
        let [(argument, value)] = declared.as_slice() else {
            return None;
        };
        let knob = knob::knob_of_parsed(argument, &self.arguments(), self).ok()?;
        match knob.place {
            Place::Added(addition) => Some((addition, *value)),
            Place::Word(_) | Place::File(..) | Place::Variable(_) | Place::Literal(_) => None,
        }
    }
}
