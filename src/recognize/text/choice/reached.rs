//! Whether the program comes to a number with this command, and whether it keeps it: a branch, a subcommand, and what goes over
//! an argument.

use super::TextReading;
use crate::event::SourceNumberKind;
use crate::recognize::argument::{ArgumentForm, Hit, same};
use crate::recognize::batch::BatchSource;
use crate::recognize::text::{TextNumber, TextSetting};

impl<'a> TextReading<'_, 'a> {
    /// Whether the command may take the branches that a number stands in.
    pub(super) fn is_reached(&self, number: &TextNumber) -> bool {
        let taken = self
            .text
            .switches
            .are_taken(&number.conditions, self.arguments);
        let mut words = self.arguments.tokens.iter();
        let mut is_of_command = |name: &String| words.any(|word| word.text == name);
        taken != Some(false) && number.subcommand.as_ref().is_none_or(&mut is_of_command)
    }

    /// Whether a branch that the command takes puts a number of its own in the place of an argument: `args.batch_size = 2`.
    pub(super) fn is_replaced(&self, number: &TextNumber) -> bool {
        let TextSetting::Argument(argument) = &number.set else {
            return false;
        };
        // A file of settings that goes over what was parsed.
        let is_of_file = |other: &TextNumber| match &other.set {
            TextSetting::Constant(constant) => {
                constant.kind == SourceNumberKind::Setting && constant.name == argument.name
            }
            TextSetting::Argument(_) => false,
        };
        let files = self.recognized.launch.files;
        let is_in_files = || {
            let mut found = files.iter().map(|file| file.scalar(&argument.name));
            found.any(|found| found.is_ok_and(|found| found.is_some()))
        };
        if self.text.file_goes_over && (self.text.numbers.iter().any(is_of_file) || is_in_files()) {
            return true;
        }
        let is_replacing = |other: &TextNumber| {
            let TextSetting::Constant(constant) = &other.set else {
                return false;
            };
            let parts = constant.name.rsplit_once('.');
            constant.kind == SourceNumberKind::Assignment
                && parts.is_some_and(|(_, leaf)| leaf == argument.name)
                && !other.conditions.is_empty()
                && self
                    .text
                    .switches
                    .are_taken(&other.conditions, self.arguments)
                    == Some(true)
        };
        self.text.numbers.iter().any(is_replacing)
    }

    /// Whether what the command says is not what counts in the program.
    pub(super) fn is_overruled(&self, source: &BatchSource<'_>) -> bool {
        let mut numbers = self.text.numbers.iter();
        let first = source.sizes.first();
        first.is_some_and(|knob| {
            let is_it = |name: &&str| same(name, &knob.name);
            numbers.any(|number| number.names().iter().any(is_it) && self.is_replaced(number))
        })
    }

    /// The words that are these options cut short, where no other option begins so.
    pub(super) fn cut_short(&self, options: &[String]) -> Vec<Hit<'a>> {
        let declared = &self.text.abbreviated;
        let known = options.iter().filter(|option| declared.contains(*option));
        let hits = known.flat_map(|option| {
            let others = || declared.iter().filter(|other| !options.contains(other));
            let is_of_another = |typed: &str| others().any(|other| other.starts_with(typed));
            self.arguments.find_cut_short(option, is_of_another)
        });
        hits.collect()
    }

    /// The word at a place, where there is one and it is a number.
    pub(super) fn by_place(&self, name: &'a str, place: usize) -> Option<Hit<'a>> {
        let token = place.checked_sub(1)?;
        let word = self.arguments.tokens.get(token)?;
        word.text.parse::<u64>().ok()?;
        Some(Hit {
            name,
            form: ArgumentForm::Place,
            token,
            value: Some(word.value()),
        })
    }
}
