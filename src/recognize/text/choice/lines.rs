//! A number that the config says which the command names: it stands in that file or in one that this builds on, or in a line
//! that the program's parser takes for an argument which is not typed.

use super::{TextReading, leaf};
use crate::event::SourceNumberKind;
use crate::recognize::family;
use crate::recognize::text::{TextNumber, TextSetting};
use std::path::Path;

/// A line of a file that says what an argument is.
pub(super) struct ArgumentLine<'a> {
    pub file: &'a Path,
    pub line: u32,
    pub value: u64,
}

impl<'a> TextReading<'_, 'a> {
    /// Whether a number stands where nothing of the command's config goes over it: in the named file itself, or in one of the
    /// files that it is made of, all of which were read.
    pub(super) fn is_in_force(&self, number: &TextNumber) -> bool {
        number.is_of_chain || self.overriding(number).is_some()
    }

    /// The words that go over a number of the config in Python that the command names, where the program has an option for
    /// such: `--options batch_size=`. Programs of that kind copy their config before they read it, and an edited one would
    /// not be seen.
    pub(super) fn overriding(&self, number: &TextNumber) -> Option<String> {
        let TextSetting::Constant(constant) = &number.set else {
            return None;
        };
        let option = self.text.group_option.as_ref()?;
        let cwd = &self.recognized.command.cwd;
        let mut files = self.recognized.launch.files.iter();
        let is_named = files.any(|named| cwd.join(&named.name) == Path::new(&number.file));
        let is_python =
            constant.file.ends_with(".py") && constant.kind != SourceNumberKind::Keyword;
        (is_named && is_python).then(|| format!("{option} {}=", constant.name))
    }

    /// The line of the command's file that is an argument of this name, where the program's parser reads such lines:
    /// `N_rand = 2048`.
    pub(super) fn line_of_file(&self, number: &TextNumber) -> Option<ArgumentLine<'a>> {
        if !self.text.takes_lines || !matches!(number.set, TextSetting::Argument(_)) {
            return None;
        }
        let wanted = family::plain(leaf(number));
        self.recognized.launch.files.iter().find_map(|file| {
            let mut lines = file.text.lines().zip(1..);
            lines.find_map(|(text, line)| {
                let text = text.split('#').next().unwrap_or(text);
                let (name, value) = text.split_once(['=', ':'])?;
                let value = value.trim().parse().ok()?;
                (family::plain(name.trim()) == wanted).then_some(ArgumentLine {
                    file: &file.name,
                    line,
                    value,
                })
            })
        })
    }
}
