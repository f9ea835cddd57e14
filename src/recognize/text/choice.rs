//! Which number of the program's text is the batch, and how sure that is. Names decide; that a number is typed, a default or
//! a constant only says where to edit. Where two are as good, "not sure" is the answer.

mod beside;
mod candidate;
mod device;
mod doubt;
mod edit;
mod finding;
mod lines;
mod reached;
mod shares;
mod spot;
#[cfg(test)]
mod tests;
mod trial;

pub(crate) use doubt::{possible, sure};
pub use spot::{BatchFinding, BatchSpot, HowSure, SpotKind};

use super::{ProgramText, TextNumber, TextSetting};
use crate::event::SourceNumberKind;
use crate::recognize::argument::{Arguments, Hit, Name, same};
use crate::recognize::batch::{BatchSource, WholeBatch};
use crate::recognize::family;
use crate::recognize::learned::{KnobPlace, KnobStanding, standing};
use crate::recognize::program_settings::Scope;
use crate::recognize::recognized::Recognized;
use crate::recognize::spellings::BatchArgument;
use candidate::{TextCandidate, TextChoice, best, leaf};

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
    let reading = TextReading::new(recognized, text, &arguments);
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

/// Whether a number stands in a file of settings.
fn is_setting(number: &TextNumber) -> bool {
    match &number.set {
        TextSetting::Constant(constant) => constant.kind == SourceNumberKind::Setting,
        TextSetting::Argument(argument) => argument.by == "hydra",
    }
}

/// Whether a setting is below what is called the training's: `data.train_dataloader.batch_size`.
fn is_of_training(number: &TextNumber) -> bool {
    let front = number.name().rsplit_once('.').map(|(front, _)| front);
    let mut words = front
        .into_iter()
        .flat_map(|front| front.split(['.', '_', '-']));
    is_setting(number) && words.any(|word| matches!(word, "train" | "training"))
}

fn not_sure(rivals: &[TextCandidate<'_>]) -> String {
    let named: Vec<String> = rivals
        .iter()
        .map(BatchSpot::new)
        .map(|spot| format!("{} {} ({})", spot.name, spot.value, spot.stands_at()))
        .collect();
    format!("not sure which sets the batch: {}", named.join(", "))
}

struct TextReading<'r, 'a> {
    recognized: &'r Recognized<'a>,
    text: &'a ProgramText,
    arguments: &'r Arguments<'a>,
}

impl<'r, 'a> TextReading<'r, 'a> {
    fn new(
        recognized: &'r Recognized<'a>,
        text: &'a ProgramText,
        arguments: &'r Arguments<'a>,
    ) -> TextReading<'r, 'a> {
        TextReading {
            recognized,
            text,
            arguments,
        }
    }

    fn choice(&self) -> TextChoice<'a> {
        let found = match self.by_text_alone() {
            TextChoice::Nothing(why) => self.of_episodes().unwrap_or(TextChoice::Nothing(why)),
            found => found,
        };
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
        // `--minibatch_size 32 --batch_size 512`, typed or by default: either may be what is on the device at once.
        let all = self.text.numbers.iter();
        let parts: Vec<TextCandidate<'a>> = all
            .filter_map(|number| self.candidate(number))
            .filter(|one| one.level == BatchArgument::Unsure && one.is_argument())
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
                && one.number.place.is_none()
                && totals.any(|total| self.text.shares(leaf(total.number), leaf(one.number)))
        };
        match declared.iter().all(is_limit) {
            false => self.beside_made_file(self.taken_first(best(declared))),
            true => self.taken_first(best(constants)),
        }
    }

    /// The classes that an episode of few-shot learning draws, where the text has the samples of each as well.
    fn of_episodes(&self) -> Option<TextChoice<'a>> {
        let others = || self.text.others.iter().filter(|number| number.value() > 0);
        let is_drawn = |number: &TextNumber| {
            let mut names = number.names().into_iter();
            names.any(family::counts_samples_of_a_class)
        };
        let counts = |number: &&TextNumber| {
            let mut names = number.names().into_iter();
            names.any(family::counts_classes) && self.is_reached(number)
        };
        let mut counted = others().filter(counts);
        let number = counted.next().filter(|_| counted.next().is_none())?;
        let is_known = self.recognized.known.is_some();
        let is_without_effect = self.standing(number) == KnobStanding::WithoutEffect;
        let found = TextCandidate {
            number,
            level: BatchArgument::Plain,
            is_listed: false,
            is_weak: false,
            typed: self.typed(number),
            value: self.value(number),
        };
        (!is_known && !is_without_effect && others().any(is_drawn))
            .then_some(TextChoice::One(found, HowSure::Likely))
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
        let rivals = self.in_read_sections(rivals);
        let mut of_training = rivals.iter().filter(|one| is_of_training(one.number));
        if let (Some(one), None) = (of_training.next(), of_training.next())
            && !one.is_weak
        {
            return TextChoice::One(*one, HowSure::Likely);
        }
        if let [one] = rivals.as_slice()
            && (!one.is_weak || self.text.takes_as_batch(leaf(one.number)))
        {
            return TextChoice::One(*one, HowSure::Likely);
        }
        let is_first = |one: &&TextCandidate<'_>| {
            let mut others = rivals.iter().filter(|other| !other.is_same(one));
            others.all(|other| self.text.leaves(leaf(other.number), leaf(one.number)))
        };
        match rivals.iter().find(is_first).filter(|_| rivals.len() > 1) {
            Some(first) => TextChoice::One(*first, HowSure::Likely),
            None => TextChoice::Several(rivals),
        }
    }

    /// Of numbers in several sections of a file those of sections that the command or the text names: a file may have a
    /// section for each experiment.
    fn in_read_sections(&self, rivals: Vec<TextCandidate<'a>>) -> Vec<TextCandidate<'a>> {
        let is_read = |one: &TextCandidate<'_>| {
            let name = one.number.name();
            let section = name.split_once('.').map(|(section, _)| section);
            let mut words = self.arguments.tokens.iter();
            !is_setting(one.number)
                || section.is_none_or(|section| {
                    self.text.names_section(section) || words.any(|word| word.text == section)
                })
        };
        match rivals
            .iter()
            .any(|one| is_setting(one.number) && is_read(one))
        {
            true => rivals.into_iter().filter(is_read).collect(),
            false => rivals,
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
        let hits: Vec<Hit<'a>> = match (&number.set, number.place) {
            (TextSetting::Argument(argument), Some(place)) => {
                self.by_place(&argument.name, place).into_iter().collect()
            }
            (TextSetting::Argument(argument), None) => {
                let options = argument.options.iter();
                let hits = options.flat_map(|option| self.arguments.find(Name::new(option)));
                let hits: Vec<Hit<'a>> = hits.collect();
                match hits.is_empty() && argument.by == "argparse" {
                    true => self.cut_short(&argument.options),
                    false => hits,
                }
            }
            // What the program declares out of a dict, or replaces among its names: the word goes before the number.
            (TextSetting::Constant(constant), _) if constant.file.ends_with(".py") => {
                let option = format!("--{}", constant.name);
                self.arguments.find(Name::new(&option))
            }
            (TextSetting::Constant(_), _) => Vec::new(),
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
}
