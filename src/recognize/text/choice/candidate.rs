//! A number that may set the batch by its name, and which of several counts.

use super::{BatchSpot, HowSure};
use crate::recognize::argument::Hit;
use crate::recognize::spellings::BatchArgument;
use crate::recognize::text::{SourceRole, TextNumber, TextSetting};

/// A number that may set the batch by its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextCandidate<'a> {
    pub(super) number: &'a TextNumber,
    pub(super) level: BatchArgument,
    /// Whether its name is a listed one.
    pub(super) is_listed: bool,
    /// Whether only a number could tell.
    pub(super) is_weak: bool,
    /// As it is in the command, if it is.
    pub(super) typed: Option<Hit<'a>>,
    /// 0 where it has no number.
    pub(super) value: u64,
}

impl TextCandidate<'_> {
    /// The batch of one device before a total.
    pub(super) fn rank(&self) -> u8 {
        match self.level {
            BatchArgument::Micro => 0,
            BatchArgument::Plain | BatchArgument::Divided => 1,
            BatchArgument::Unsure => 2,
            BatchArgument::Total => 3,
        }
    }

    /// Whether the command sets it, or can.
    pub(super) fn is_argument(&self) -> bool {
        self.typed.is_some() || matches!(self.number.set, TextSetting::Argument(_))
    }

    pub(super) fn is_same(&self, other: &TextCandidate<'_>) -> bool {
        if let (Some(one), Some(two)) = (self.typed, other.typed) {
            return one.token == two.token;
        }
        match (&self.number.set, &other.number.set) {
            (TextSetting::Argument(one), TextSetting::Argument(two)) => {
                one.options == two.options && self.value == other.value
            }
            (TextSetting::Constant(one), TextSetting::Constant(two)) => {
                (&one.file, one.line, one.column) == (&two.file, two.line, two.column)
            }
            (TextSetting::Argument(_), TextSetting::Constant(_))
            | (TextSetting::Constant(_), TextSetting::Argument(_)) => false,
        }
    }
}

/// What the text says of the batch.
pub(super) enum TextChoice<'a> {
    One(TextCandidate<'a>, HowSure),
    Several(Vec<TextCandidate<'a>>),
    Nothing(Option<String>),
}

pub(super) fn leaf(number: &TextNumber) -> &str {
    let name = number.name();
    name.rsplit('.').next().unwrap_or(name)
}

/// The one of several candidates that counts.
pub(super) fn best(mut all: Vec<TextCandidate<'_>>) -> TextChoice<'_> {
    let Some(missing) = all.first().map(|one| BatchSpot::new(one).name) else {
        return TextChoice::Nothing(None);
    };
    all.retain(|one| one.value > 0);
    if all.is_empty() {
        return TextChoice::Nothing(Some(format!(
            "the program's text has no number for {missing}"
        )));
    }
    let keep_least = |all: &mut Vec<TextCandidate<'_>>, key: &dyn Fn(&TextCandidate<'_>) -> u8| {
        let least = all.iter().map(key).min();
        all.retain(|one| Some(key(one)) == least);
    };
    keep_least(&mut all, &|one| one.rank());
    keep_least(&mut all, &|one| u8::from(one.is_weak));
    keep_least(&mut all, &|one| u8::from(!one.is_listed));
    // What an imported file has is less likely to be meant than what the script has.
    keep_least(&mut all, &|one| {
        u8::from(matches!(
            one.number.role,
            SourceRole::Imported | SourceRole::Distant
        ))
    });
    let mut different: Vec<TextCandidate<'_>> = Vec::new();
    for one in all {
        if !different.iter().any(|other| other.is_same(&one)) {
            different.push(one);
        }
    }
    match different.as_slice() {
        [one] if one.is_weak => TextChoice::Several(different),
        [one] => {
            let is_sure = one.is_listed && one.level != BatchArgument::Unsure;
            TextChoice::One(
                *one,
                if is_sure {
                    HowSure::Sure
                } else {
                    HowSure::Likely
                },
            )
        }
        _ => TextChoice::Several(different),
    }
}
