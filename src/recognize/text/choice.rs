//! Which number of the program's text is the batch, and how sure that is. Names decide; that a number is typed, a default or
//! a constant only says where to edit. Where two are as good, "not sure" is the answer.

mod beside;
mod device;
mod doubt;
mod lines;
mod reached;
mod spot;
#[cfg(test)]
mod tests;

pub(crate) use doubt::{possible, sure};
pub use spot::{BatchFinding, BatchSpot, HowSure, SpotKind};

use super::{ProgramText, SourceRole, TextNumber, TextSetting};
use crate::event::SourceNumber;
use crate::recognize::argument::{Arguments, Hit, Name, same};
use crate::recognize::batch::{Addition, BatchSource, Knob, Place, WholeBatch};
use crate::recognize::family;
use crate::recognize::knob;
use crate::recognize::launch::ConfigFile;
use crate::recognize::learned::{KnobPlace, KnobStanding, standing};
use crate::recognize::overrides;
use crate::recognize::program_settings::{AccumulationRule, Scope};
use crate::recognize::recognized::Recognized;
use crate::recognize::spellings::BatchArgument;
use beside::is_for_each_part;
use std::path::Path;

/// A number that may set the batch by its name.
#[derive(Debug, Clone, Copy)]
struct TextCandidate<'a> {
    number: &'a TextNumber,
    level: BatchArgument,
    /// Whether its name is a listed one.
    is_listed: bool,
    /// Whether only a number could tell.
    is_weak: bool,
    /// As it is in the command, if it is.
    typed: Option<Hit<'a>>,
    /// 0 where it has no number.
    value: u64,
}

impl TextCandidate<'_> {
    /// The batch of one device before a total.
    fn rank(&self) -> u8 {
        match self.level {
            BatchArgument::Micro => 0,
            BatchArgument::Plain | BatchArgument::Divided => 1,
            BatchArgument::Unsure => 2,
            BatchArgument::Total => 3,
        }
    }

    /// Whether the command sets it, or can.
    fn is_argument(&self) -> bool {
        self.typed.is_some() || matches!(self.number.set, TextSetting::Argument(_))
    }

    fn is_same(&self, other: &TextCandidate<'_>) -> bool {
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
enum TextChoice<'a> {
    One(TextCandidate<'a>, HowSure),
    Several(Vec<TextCandidate<'a>>),
    Nothing(Option<String>),
}

/// Where the text has the batch; `by_words` is what the command itself says, which is kept where the text knows no better.
pub(crate) fn source<'a>(
    recognized: &Recognized<'a>,
    text: &'a ProgramText,
    by_words: Result<BatchSource<'a>, String>,
) -> Result<BatchSource<'a>, String> {
    let by_words = match (by_words, recognized.known) {
        (Ok(source), Some(_)) => return Ok(source),
        (Ok(source), None)
            if source.sizes.iter().any(|knob| knob.name == "-b") && text.has_another("-b") =>
        {
            Err("no batch size in the command".into())
        }
        (Err(why), Some(entry))
            if entry.batch.none.is_some() && entry.batch.constants.is_empty() =>
        {
            return Err(why);
        }
        (by_words, _) => by_words,
    };
    let arguments = recognized.opened()?;
    let is_configured = recognized
        .known
        .is_some_and(|entry| entry.is_configured(&arguments));
    let reading = TextReading {
        recognized,
        text,
        arguments: &arguments,
    };
    let by_words = match by_words {
        Ok(source) if reading.is_overruled(&source) => {
            Err("what the command says of the batch is replaced".into())
        }
        by_words => by_words,
    };
    match (reading.choice(), by_words) {
        (_, by_words) if is_configured => by_words,
        (TextChoice::One(found, _), Ok(source)) if !reading.knows_better(&found, &source) => {
            Ok(source)
        }
        // What the file that the command names says goes before a default, and it says something that is not clear.
        (TextChoice::One(found, _), Err(by_words)) if reading.is_in_a_file(&found) => Err(by_words),
        (TextChoice::One(found, _), _) => reading.source(found),
        (TextChoice::Several(_) | TextChoice::Nothing(_), Ok(source)) => {
            Ok(reading.beside_typed(&source).unwrap_or(source))
        }
        (TextChoice::Several(rivals), Err(_)) => {
            let beside = reading.beside_equals(&rivals);
            beside.ok_or_else(|| not_sure(&rivals))
        }
        (TextChoice::Nothing(why), Err(by_words)) => Err(why.unwrap_or(by_words)),
    }
}

fn not_sure(rivals: &[TextCandidate<'_>]) -> String {
    let named: Vec<String> = rivals
        .iter()
        .map(BatchSpot::new)
        .map(|spot| format!("{} {} ({})", spot.name, spot.value, spot.stands_at()))
        .collect();
    format!("not sure which sets the batch: {}", named.join(", "))
}

impl<'c> Recognized<'c> {
    /// What sets the batch, for a person: the number that would be changed and how sure that is, or those that remain.
    pub fn batch_finding(&self) -> BatchFinding {
        let source = self.batch_source();
        let choice = self
            .launch
            .text
            .zip(self.opened().ok())
            .map(|(text, arguments)| {
                let reading = TextReading {
                    recognized: self,
                    text,
                    arguments: &arguments,
                };
                match reading.choice() {
                    TextChoice::One(found, _)
                        if source.is_err() && reading.is_in_a_file(&found) =>
                    {
                        (HowSure::NotSure, vec![reading.spot(&found)])
                    }
                    TextChoice::One(..) if self.cut_by_another_number().is_some() => {
                        (HowSure::Nothing, Vec::new())
                    }
                    TextChoice::One(found, sure) => (sure, vec![reading.spot(&found)]),
                    TextChoice::Several(rivals) => (
                        HowSure::NotSure,
                        doubt::with_args(rivals.iter().map(BatchSpot::new).collect()),
                    ),
                    TextChoice::Nothing(_) => (HowSure::Nothing, Vec::new()),
                }
            });
        let (how_sure, of_text) = choice.unwrap_or((HowSure::Nothing, Vec::new()));
        match source {
            Ok(source) => {
                let knobs = match source.sizes.is_empty() {
                    true => &source.steps,
                    false => &source.sizes,
                };
                // The size of a micro-batch that is off until it is given: the total beside it has the number.
                let is_micro = self
                    .known
                    .is_some_and(|entry| entry.accumulation.rule == AccumulationRule::MicroSize);
                let added = match is_micro {
                    true => SpotKind::Unset,
                    false => SpotKind::Default,
                };
                // As is one that the text declares without a number.
                let is_unset = |knob: &Knob<'_>| {
                    let is_it = |name: &str| same(name, &knob.variable());
                    let value = self.launch.text.and_then(|text| text.value_called(is_it));
                    let mut shown = of_text.iter();
                    value == Some(0) && !shown.any(|spot| same(&spot.name, &knob.name))
                };
                let spot = |knob: &Knob<'_>| {
                    let added = match is_unset(knob) {
                        true => SpotKind::Unset,
                        false => added,
                    };
                    spot_of(knob, &of_text, source.file, added)
                };
                let spots: Vec<BatchSpot> = knobs.iter().map(spot).collect();
                let is_of_text = spots.first().is_some_and(|spot| of_text.contains(spot));
                BatchFinding {
                    how_sure: if is_of_text { how_sure } else { HowSure::Sure },
                    candidates: spots,
                    why: None,
                }
            }
            // Known, but not edited; or one of several.
            Err(why) if !of_text.is_empty() && self.check_open().is_ok() => BatchFinding {
                how_sure,
                candidates: of_text,
                why: Some(why),
            },
            Err(why) => BatchFinding {
                how_sure: HowSure::Nothing,
                candidates: Vec::new(),
                why: Some(why),
            },
        }
    }
}

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
        let reading = TextReading {
            recognized: self,
            text,
            arguments: &arguments,
        };
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
        let reading = TextReading {
            recognized: self,
            text,
            arguments: &arguments,
        };
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

/// Where a number stands that would be changed.
///
/// `of_file` is the file that has it, and `added` what an argument is that neither the command nor the text has.
fn spot_of(
    knob: &Knob<'_>,
    of_text: &[BatchSpot],
    of_file: Option<&ConfigFile>,
    added: SpotKind,
) -> BatchSpot {
    let place = |stands, file: Option<String>, line| BatchSpot {
        name: knob.name.clone(),
        value: knob.value,
        stands,
        file,
        line,
        arg: None,
    };
    match &knob.place {
        Place::Word(_) | Place::Variable(_) => place(SpotKind::Typed, None, None),
        Place::File(file, found) => {
            let before = file.text.get(..found.from).unwrap_or_default();
            let line = u32::try_from(before.matches('\n').count() + 1).ok();
            place(
                SpotKind::Config,
                Some(file.name.display().to_string()),
                line,
            )
        }
        Place::Literal(edit) => {
            let stands = match edit.file.ends_with(".py") {
                true => SpotKind::Constant,
                false => SpotKind::Config,
            };
            place(stands, Some(edit.file.clone()), Some(edit.line))
        }
        // Its own name, not that of the total beside it, whose number it has.
        Place::Added(addition) if added == SpotKind::Unset => {
            let word = addition.words.first().unwrap_or(&knob.name);
            BatchSpot {
                name: word.trim_end_matches('=').into(),
                ..place(added, None, None)
            }
        }
        Place::Added(_) => {
            let same = |spot: &&BatchSpot| family::plain(&spot.name) == family::plain(&knob.name);
            let known = of_text.iter().find(same).cloned();
            known.unwrap_or_else(|| match of_file {
                Some(file) => {
                    let file = file.name.display().to_string();
                    place(SpotKind::Config, Some(file), None)
                }
                None => place(added, None, None),
            })
        }
    }
}

struct TextReading<'r, 'a> {
    recognized: &'r Recognized<'a>,
    text: &'a ProgramText,
    arguments: &'r Arguments<'a>,
}

impl<'a> TextReading<'_, 'a> {
    fn choice(&self) -> TextChoice<'a> {
        let found = self.by_text_alone();
        let files = &self.recognized.launch.files;
        match found {
            // A file that belongs to the one that the command names, or that one itself, was not read: it may say another
            // number.
            TextChoice::One(one, _)
                if one.typed.is_none()
                    && self.standing(one.number) != KnobStanding::Confirmed
                    && (!self.is_in_force(one.number)
                        && files.iter().any(|file| file.builds_on().is_some())
                        || self.recognized.has_unread_config()
                        || self.is_said_in_a_word(one.number)) =>
            {
                TextChoice::Several(vec![one])
            }
            found => found,
        }
    }

    fn by_text_alone(&self) -> TextChoice<'a> {
        let all = self.text.numbers.iter().chain(&self.text.others);
        let mut confirmed = all.filter(|number| self.standing(number) == KnobStanding::Confirmed);
        if let Some(number) = confirmed.next() {
            let known = TextCandidate {
                number,
                level: BatchArgument::Plain,
                is_listed: true,
                is_weak: false,
                typed: self.typed(number),
                value: self.value(number),
            };
            return TextChoice::One(known, HowSure::Sure);
        }
        let numbers = self.text.numbers.iter().filter(|number| {
            !number.is_overwritten
                && self.standing(number) != KnobStanding::WithoutEffect
                && self.is_reached(number)
                && !self.is_replaced(number)
        });
        let all: Vec<TextCandidate<'a>> = numbers
            .filter_map(|number| self.candidate(number))
            .collect();
        let (declared, constants): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.is_argument());
        // `--minibatch_size 32 --batch_size 512`: either may be what is on the device at once.
        let all = self.text.numbers.iter();
        let parts: Vec<TextCandidate<'a>> = all
            .filter_map(|number| self.candidate(number))
            .filter(|one| one.level == BatchArgument::Unsure && one.typed.is_some())
            .collect();
        if let TextChoice::One(whole, _) = best(declared.clone())
            && whole.level == BatchArgument::Plain
            && parts
                .iter()
                .any(|part| (1..whole.value).contains(&part.value))
        {
            return TextChoice::Several([parts, vec![whole]].concat());
        }
        // What the program takes as an argument goes before what else stands in its text.
        // An option that only limits what a device takes of one of the constants.
        let is_limit = |one: &TextCandidate<'_>| {
            let mut totals = constants.iter();
            one.value == 0
                && totals.any(|total| self.text.shares(leaf(total.number), leaf(one.number)))
        };
        match declared.iter().all(is_limit) {
            false => self.beside_made_file(self.taken_first(best(declared))),
            true => self.taken_first(best(constants)),
        }
    }

    /// An argument that is not typed, beside a file of the program's that says the same: which of them has an effect only a run
    /// tells.
    fn beside_made_file(&self, choice: TextChoice<'a>) -> TextChoice<'a> {
        let TextChoice::One(found, _) = &choice else {
            return choice;
        };
        if found.typed.is_some() || self.text.sets_defaults {
            return choice;
        }
        let name = family::plain(leaf(found.number));
        let of_files = self.text.numbers.iter().filter(|number| {
            number.is_of_made_file && family::plain(leaf(number)) == name && number.value() > 0
        });
        let of_files: Vec<TextCandidate<'a>> = of_files
            .filter_map(|number| self.candidate(number))
            .collect();
        match of_files.is_empty() {
            true => choice,
            false => TextChoice::Several([vec![*found], of_files].concat()),
        }
    }

    /// Of several the one that the program takes to begin with, where its text says so.
    fn taken_first(&self, choice: TextChoice<'a>) -> TextChoice<'a> {
        let TextChoice::Several(rivals) = choice else {
            return choice;
        };
        let is_first = |one: &&TextCandidate<'_>| {
            let mut others = rivals.iter().filter(|other| !other.is_same(one));
            others.all(|other| self.text.leaves(leaf(other.number), leaf(one.number)))
        };
        match rivals.iter().find(is_first).filter(|_| rivals.len() > 1) {
            Some(first) => TextChoice::One(*first, HowSure::Likely),
            None => TextChoice::Several(rivals),
        }
    }

    /// Where the number stands that would be changed.
    fn spot(&self, found: &TextCandidate<'a>) -> BatchSpot {
        let Some((number, source)) = self.of_device(found) else {
            let spot = BatchSpot::new(found);
            return match self
                .line_of_file(found.number)
                .filter(|_| found.typed.is_none())
            {
                Some(line) => BatchSpot {
                    stands: SpotKind::Config,
                    file: Some(line.file.display().to_string()),
                    line: Some(line.line),
                    ..spot
                },
                None => spot,
            };
        };
        let added = TextCandidate {
            number,
            typed: None,
            value: source.at_once,
            ..*found
        };
        BatchSpot {
            stands: SpotKind::Unset,
            ..BatchSpot::new(&added)
        }
    }

    fn candidate(&self, number: &'a TextNumber) -> Option<TextCandidate<'a>> {
        let names = number.telling_names();
        let (level, is_listed) = self.level(number, &names)?;
        let mut named = names.iter();
        let is_plain = is_listed
            || number.described.is_some()
            || named.any(|name| {
                family::like_a_batch(name).is_some() && family::is_plainly_a_batch(name)
            });
        Some(TextCandidate {
            number,
            level,
            is_listed,
            is_weak: number.is_weak || !is_plain,
            typed: self.typed(number),
            value: self.value(number),
        })
    }

    /// What earlier sessions of the program have learned of a number.
    fn standing(&self, number: &TextNumber) -> KnobStanding {
        standing(self.recognized.launch.learned, |place| match place {
            KnobPlace::Argument { .. } => place.is_argument(&number.names()),
            KnobPlace::Setting { file, name } | KnobPlace::Literal { file, name, .. } => {
                let is_there = match place {
                    KnobPlace::Literal { line, .. } => *line == number.line,
                    KnobPlace::Setting { .. } | KnobPlace::Argument { .. } => true,
                };
                let cwd = &self.recognized.command.cwd;
                let is_same = cwd.join(file) == cwd.join(&number.file);
                is_there && is_same && number.names().contains(&name.as_str())
            }
        })
    }

    /// As it is typed, or else as it stands in the text.
    fn value(&self, number: &'a TextNumber) -> u64 {
        match self.typed(number) {
            Some(hit) => {
                let typed = hit.value.and_then(|value| value.text.parse().ok());
                typed.unwrap_or(0)
            }
            None => (self.line_of_file(number)).map_or(number.value(), |line| line.value),
        }
    }

    /// What a number's name says, and whether it is a well-known one.
    fn level(&self, number: &TextNumber, names: &[&str]) -> Option<(BatchArgument, bool)> {
        if let Some(entry) = self.recognized.known {
            let level = match entry.batch.scope {
                Scope::Micro => BatchArgument::Micro,
                Scope::Global => BatchArgument::Total,
            };
            let bare = |name: &str| family::plain(name.trim_end_matches('='));
            let mut spelled = entry.batch.names.iter().chain(&entry.batch.constants);
            let is_it = spelled.any(|spelled| names.iter().any(|name| bare(name) == bare(spelled)));
            return is_it.then_some((level, true));
        }
        if names.iter().any(|name| family::is_accumulation(name)) {
            return None;
        }
        let listed = names.iter().find_map(|name| family::batch_level(name));
        match (listed, number.described) {
            (None, Some(said)) if number.is_of_loader => Some((said, false)),
            // "Total batch size" of an argument that is called like any.
            (Some(BatchArgument::Plain | BatchArgument::Unsure), Some(said)) => Some((said, true)),
            (Some(level), _) => Some((level, true)),
            (None, Some(said))
                if !(names.iter()).any(|name| family::is_other_than_a_count(name)) =>
            {
                Some((said, false))
            }
            (None, _) => {
                let like = names.iter().find_map(|name| family::like_a_batch(name));
                like.map(|level| (number.described.unwrap_or(level), false))
            }
        }
    }

    /// The last word of the command that sets it.
    fn typed(&self, number: &'a TextNumber) -> Option<Hit<'a>> {
        let hits: Vec<Hit<'a>> = match &number.set {
            TextSetting::Argument(argument) => {
                let options = argument.options.iter();
                let hits = options.flat_map(|option| self.arguments.find(Name::new(option)));
                let hits: Vec<Hit<'a>> = hits.collect();
                match hits.is_empty() && argument.by == "argparse" {
                    true => self.cut_short(&argument.options),
                    false => hits,
                }
            }
            // What the program declares out of a dict, or replaces among its names: the word goes before the number.
            TextSetting::Constant(constant) if constant.file.ends_with(".py") => {
                let option = format!("--{}", constant.name);
                self.arguments.find(Name::new(&option))
            }
            TextSetting::Constant(_) => Vec::new(),
        };
        hits.into_iter().max_by_key(|hit| hit.token)
    }

    /// Whether the text has more to say than the command alone: another number, or the accumulation beside it.
    fn knows_better(&self, found: &TextCandidate<'_>, source: &BatchSource<'_>) -> bool {
        match (source.sizes.first(), found.typed) {
            (Some(knob), Some(hit)) if same(&knob.name, hit.name) => {
                source.steps.is_empty() && matches!(source.whole, WholeBatch::Follows)
            }
            // What a file says goes before what its program has by the same name.
            (Some(knob), None) if same(&knob.variable(), leaf(found.number)) => false,
            // Something else in the command that the text does not declare is somebody else's word for it.
            (Some(_), None) => found.rank() == 0,
            // The program divides its batch by the steps that the command says.
            (None, _) => source.steps.is_empty(),
            (Some(_), Some(_)) => true,
        }
    }

    fn source(&self, found: TextCandidate<'a>) -> Result<BatchSource<'a>, String> {
        if let Some((_, source)) = self.of_device(&found) {
            return Ok(source);
        }
        if let Some(batch) = self.computed_of(&found) {
            let (total, value) = (leaf(found.number), found.value);
            return Err(format!(
                "{batch} is computed of {total} {value} and the devices when it runs: where it is typed, the program takes more micro-batches and {total} stays"
            ));
        }
        let mut source = BatchSource::new(vec![self.knob(found.number)?]);
        let steps: Vec<&TextNumber> = self
            .text
            .numbers
            .iter()
            .filter(|number| {
                number
                    .names()
                    .iter()
                    .any(|name| family::is_accumulation(name))
            })
            .filter(|number| self.is_alike(number, found.number) && self.value(number) > 0)
            .collect();
        let divides = |steps: &&&TextNumber| self.text.divides(leaf(found.number), leaf(steps));
        if let Some(through) = steps.iter().find(divides) {
            // More steps alone make its parts smaller.
            let steps = self.knob(through)?;
            source.at_once = found.value / steps.value.max(1);
            source.sizes.clear();
            source.steps.push(steps);
            return Ok(source);
        }
        if let TextSetting::Argument(number) = &found.number.set {
            source.bounds.choices = &number.choices;
        }
        let later = self.of_later_phases(&found);
        for number in &later {
            source.sizes.push(self.knob(number)?);
        }
        if !later.is_empty() {
            let phases =
                "the program trains in phases with a batch each, which are all made smaller";
            source.remarks.push(phases.into());
        }
        let total = self.total(&found);
        match (found.level, total, steps.as_slice()) {
            (BatchArgument::Total, _, _) => {
                let ranks = self.recognized.processes().unwrap_or(1);
                source.bounds.multiple_of = u64::from(ranks.max(1));
            }
            (_, Some(total), _) => {
                let (name, value) = (total.number.name(), total.value);
                source.bounds.divisor_of = value.is_multiple_of(found.value).then_some(value);
                source.whole = WholeBatch::Kept(format!("{name} {value} stays"));
            }
            (_, None, [one]) => source.steps.extend(self.knob(one).ok()),
            (_, None, []) => source.steps.extend(self.steps_in_text(&found)),
            (_, None, several) if is_for_each_part(several) => {
                let knobs = several.iter().map(|steps| self.knob(steps));
                source.steps = knobs.collect::<Result<_, _>>()?;
            }
            (_, None, _) => {}
        }
        Ok(source)
    }

    fn knob(&self, number: &'a TextNumber) -> Result<Knob<'a>, String> {
        if let Some(why) = number
            .fixed
            .as_ref()
            .filter(|_| self.recognized.known.is_none() && self.typed(number).is_none())
        {
            return Err(why.clone());
        }
        match &number.set {
            TextSetting::Argument(argument) => match self.typed(number) {
                Some(hit) => Knob::of(&hit),
                None => {
                    let value = self.value(number);
                    let knob = knob::knob_of_parsed(argument, self.arguments, self.recognized)?;
                    Ok(Knob { value, ..knob })
                }
            },
            TextSetting::Constant(constant) => match self.typed(number) {
                Some(hit) => Knob::of(&hit),
                None => match self.overriding(number) {
                    Some(spec) => {
                        let end = self.recognized.layout.arguments.end;
                        let added = overrides::addition(self.arguments, &spec, end)?;
                        Ok(Knob {
                            name: constant.name.clone(),
                            value: constant.value,
                            place: Place::Added(added),
                            least: None,
                        })
                    }
                    None => self.knob_of_constant(constant),
                },
            },
        }
    }

    /// The argument that a known program makes of it, or its place in the text.
    fn knob_of_constant(&self, constant: &'a SourceNumber) -> Result<Knob<'a>, String> {
        let entry = self.recognized.known;
        let of_entry = entry
            .into_iter()
            .flat_map(|entry| entry.batch.names.iter().chain(&entry.accumulation.names));
        let mut of_entry = of_entry.filter(|name| {
            family::plain(name.trim_end_matches('=')) == family::plain(&constant.name)
        });
        if let Some(spec) = of_entry.next() {
            let end = self.recognized.place_for(spec);
            return Ok(Knob {
                name: constant.name.clone(),
                value: constant.value,
                place: Place::Added(Addition::new(spec, end)),
                least: None,
            });
        }
        knob::knob_of_literal(constant, self.recognized)
    }
}

fn leaf(number: &TextNumber) -> &str {
    let name = number.name();
    name.rsplit('.').next().unwrap_or(name)
}

/// The one of several candidates that counts.
fn best(mut all: Vec<TextCandidate<'_>>) -> TextChoice<'_> {
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
