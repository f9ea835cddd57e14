//! What a program's own text says of the numbers that set its sizes, before anything ran: the arguments that it declares with
//! their defaults, its constants, and its config's settings. Read as text; nothing of the user's is run.
//!
//! `source_tokens` cuts a source into tokens, `statements` says what is assigned, called and defined, `declared` and `constants`
//! find the numbers, and `choice` says which one is the batch and how sure that is. No I/O: which files a source imports is
//! said here, and read elsewhere.

mod branches;
mod by_place;
pub(crate) mod choice;
pub(crate) mod computed;
mod constants;
mod declared;
mod divisions;
mod docopt;
mod hydra;
mod learning_rate;
mod module_path;
mod names_in;
mod overruling;
mod paths;
mod places;
mod shares;
mod statements;
mod two_parsers;

use super::config_formats::settings_of;
use super::family;
use super::python_number::python_number;
use super::spellings::BatchArgument;
use crate::event::{ParsedNumber, SourceNumber, SourceNumberKind, crc32};
use branches::{BranchCondition, BranchSwitches};
pub use choice::{BatchFinding, BatchSpot, HowSure, SpotKind};
pub use computed::BatchRules;
use divisions::Divisions;
pub(crate) use hydra::{ConfigRoot, hydra_config, hydra_files};
pub(crate) use module_path::{added_directories, asked_packages};
pub(crate) use paths::{
    PathPart, default_files, default_modules, default_words, files_beside, made_files,
    written_files,
};
use shares::Shares;
pub(crate) use statements::ImportedModule;
use statements::{SourceStatements, is_overwritten};
use std::collections::BTreeSet;
use std::ops::Range;

/// Numbers that have nothing to do with batches, of which so many are kept.
const MOST_OTHERS: usize = 4000;

/// Names of parts that are looked at, and how long they may be.
const MOST_PARTS: usize = 100_000;
const LONGEST_PART: usize = 40;

/// A parser with fewer may be another one than the training's.
const FEWEST_OPTIONS: usize = 3;

/// A file of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramSource {
    /// Absolute, links resolved.
    pub path: String,
    pub text: String,
    pub role: SourceRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceRole {
    /// What the command starts.
    Script,
    /// A config in Python that the command names.
    Config,
    /// Imported by one of these.
    Imported,
    /// Imported by what these import: only its classes and functions are looked up.
    Distant,
}

/// A file of settings that the program itself names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSettingsFile {
    pub path: String,
    pub text: String,
    pub names: SettingsNames,
}

/// A file, and what it says.
type ReadSource<'a, 't> = (&'a ProgramSource, SourceStatements<'t>);

/// How the settings of a file are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingsNames {
    /// Typed as hydra's, behind what precedes them: `data.`.
    Hydra(String),
    /// In the file, as the program reads it: its path is an option's default, or written down.
    InFile,
    /// In the file, beside others of the program whose paths it makes: they may say it again.
    Among,
    /// In the file, whose path the program makes of what options say.
    Made,
    /// In one of the files that the command's config builds on, or in that itself: the last one that has a setting counts.
    Chain,
}

/// The numbers of a program's text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgramText {
    /// Those that have to do with batches.
    pub(crate) numbers: Vec<TextNumber>,
    /// The other ones that have a name.
    pub(crate) others: Vec<TextNumber>,
    /// What the script and what it imports name as a part of something: `.train`, `"train"`.
    parts: BTreeSet<String>,
    divisions: Divisions,
    shares: Shares,
    /// Names that the text takes as its batch: `batch_size = hp.voc_batch_size`.
    taken_as_batch: BTreeSet<String>,
    /// Pairs of names of which the text takes the first and leaves the second, at least to begin with.
    chosen: Vec<(String, String)>,
    /// Whether the script computes gradients, itself or in a function that it calls.
    pub(crate) trains: bool,
    pub(crate) batch_rules: BatchRules,
    /// The options that argparse takes cut short as well.
    abbreviated: BTreeSet<String>,
    /// Whether what a file says goes over the arguments that were parsed.
    pub(crate) file_goes_over: bool,
    /// What branches depend on.
    switches: BranchSwitches,
    /// The options that the text declares to a parser; none where it may have others too.
    options: BTreeSet<String>,
    /// Whether it makes what a file says the defaults of its arguments, which then go before it.
    pub(crate) sets_defaults: bool,
    /// The option behind which the program takes settings of its config: `--options batch_size=8`.
    pub(crate) group_option: Option<String>,
    /// Whether its parser takes a file's lines for arguments that are not typed (ConfigArgParse).
    pub(crate) takes_lines: bool,
}

/// A number that the text gives a name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextNumber {
    pub set: TextSetting,
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    pub role: SourceRole,
    /// What its description says that it is.
    pub described: Option<BatchArgument>,
    /// Whether the text replaces it before it is used.
    pub is_overwritten: bool,
    /// Whether it is likely about something else, though its name is a batch's.
    pub is_weak: bool,
    /// Whether it stands in a file whose path the program makes: it may go before an argument of the same name.
    pub is_of_made_file: bool,
    /// Whether it stands in the files that the command's config is made of, which were all read.
    pub is_of_chain: bool,
    /// Whether a loader takes it as its batch, whatever it is called.
    pub is_of_loader: bool,
    /// Why it cannot be edited, if it cannot.
    pub fixed: Option<String>,
    /// What the branches ask for that it stands in.
    pub conditions: Vec<BranchCondition>,
    /// The subcommand that it is an option of.
    pub subcommand: Option<String>,
    /// Of an argument without an option, which word of the program's own it is, counted from 1.
    pub place: Option<usize>,
}

/// Where a number is set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TextSetting {
    /// An argument with a default; a value of 0 where it has none.
    Argument(ParsedNumber),
    /// A number in the text itself, or in a file of settings.
    Constant(SourceNumber),
}

impl ProgramText {
    pub(crate) fn read(sources: &[ProgramSource], settings: &[NamedSettingsFile]) -> ProgramText {
        let read: Vec<(&ProgramSource, SourceStatements<'_>)> = sources
            .iter()
            .map(|source| (source, SourceStatements::new(&source.text)))
            .collect();
        let mut text = ProgramText::default();
        declared::arguments(&read, &mut text.numbers);
        by_place::arguments(&read, &mut text.numbers);
        text.trains = trains(&read);
        let mut calls = read.iter().flat_map(|(_, said)| &said.calls);
        text.sets_defaults = calls.any(|call| call.name() == "set_defaults");
        let mut imports = read.iter().flat_map(|(_, said)| &said.imports);
        text.takes_lines = imports.any(|one| one.parts == ["configargparse"]);
        text.group_option = read.iter().find_map(|(_, said)| places::group_option(said));
        text.batch_rules = BatchRules::read(sources.iter().map(|one| one.text.as_str()), settings);
        text.parts = parts(&read);
        text.switches = BranchSwitches::read(&read);
        text.abbreviated = places::abbreviated(&read);
        let mut all = read.iter().map(|(_, said)| said);
        text.file_goes_over = all.any(overruling::goes_over_arguments);
        text.options = options(&read);
        constants::constants(&read, &mut text.numbers);
        for file in settings {
            let numbers = of_settings(file);
            // Of the files of one config the last one that has a setting counts.
            let is_again = |known: &TextNumber| {
                let mut numbers = numbers.iter();
                let is_laid_over = |new: &TextNumber| new.is_option_of_hydra() || new.is_of_chain;
                numbers.any(|new| is_laid_over(new) && new.names() == known.names())
            };
            text.numbers.retain(|known| !is_again(known));
            text.numbers.extend(numbers);
        }
        let near = text.numbers.iter().filter(|number| number.is_near());
        let names: BTreeSet<String> = near.map(|number| number.attribute().to_string()).collect();
        for number in &mut text.numbers {
            let name = number.attribute();
            let undescribed = number.described.is_none();
            let Some(steps) = text.batch_rules.follows(name).filter(|_| undescribed) else {
                continue;
            };
            // `B` is what a total is divided by: the batch, without a word that says so.
            if matches!(number.name(), "B" | "b" | "bs" | "BS") {
                number.described = Some(BatchArgument::Plain);
            } else if steps.is_of_a_total_in(&names) && steps.is_of(name) && !family::is_ranks(name)
            {
                // Of a batch that the text has as well: it is what the device takes at once.
                number.described = Some(BatchArgument::Micro);
            }
        }
        let (near, others) = text.numbers.into_iter().partition(TextNumber::is_near);
        (text.numbers, text.others) = (near, others);
        text.others.truncate(MOST_OTHERS);
        let all: Vec<&SourceStatements<'_>> = read.iter().map(|(_, said)| said).collect();
        for number in &mut text.numbers {
            let name = number.attribute().to_string();
            number.is_overwritten = is_overwritten(&all, &name);
        }
        let chosen = all.iter().flat_map(|said| said.chosen());
        text.chosen = chosen.map(|(a, b)| (a.into(), b.into())).collect();
        text.taken_as_batch = taken_as_batch(&read);
        text.divisions = Divisions::read(read.iter().map(|(_, said)| said));
        text.shares = Shares::read(&read);
        // A number of a file has the file's checksum.
        for (source, _) in &read {
            let mut crc = None;
            for number in text.numbers.iter_mut().chain(&mut text.others) {
                if let TextSetting::Constant(constant) = &mut number.set
                    && constant.file == source.path
                {
                    constant.crc = *crc.get_or_insert_with(|| crc32(source.text.as_bytes()));
                }
            }
        }
        text
    }

    /// The value of the first number whose name is such a one, arguments first; 0 where it has none.
    pub(crate) fn value_called(&self, is_it: impl Fn(&str) -> bool) -> Option<u64> {
        let all = || {
            self.numbers
                .iter()
                .chain(&self.others)
                .filter(|number| is_it(number.name()))
        };
        let argument = all().find(|number| matches!(number.set, TextSetting::Argument(_)));
        argument.or_else(|| all().next()).map(TextNumber::value)
    }

    /// Whether the text has an option of this name that is about something else than batches.
    fn has_another(&self, option: &str) -> bool {
        self.others
            .iter()
            .any(|number| number.names().contains(&option))
    }

    /// Whether the text declares an option of this name.
    pub(crate) fn declares(&self, option: &str) -> bool {
        self.abbreviated.contains(option)
    }

    /// Whether the program's own parser refuses this option, as one that it was not told of.
    pub(crate) fn refuses(&self, option: &str) -> bool {
        option.starts_with("--") && !self.options.is_empty() && !self.options.contains(option)
    }

    /// Whether there are options among these names and the program's own parser has none of them.
    pub(crate) fn lacks_options(&self, names: &[String]) -> bool {
        let mut options = names
            .iter()
            .filter(|name| name.starts_with("--"))
            .peekable();
        options.peek().is_some() && options.all(|option| self.refuses(option))
    }

    /// Whether the text takes the settings of a section by its name: `config.train`, `config["train"]`.
    pub(crate) fn names_section(&self, section: &str) -> bool {
        self.parts.contains(section)
    }

    /// Whether the text takes another number in the place of this one, to begin with.
    pub(crate) fn leaves(&self, name: &str, for_another: &str) -> bool {
        let mut chosen = self.chosen.iter();
        chosen.any(|(taken, left)| taken == for_another && left == name)
    }

    /// Whether the text divides a total among devices, or something by a device's batch, and so counts micro-batches.
    pub(crate) fn shares(&self, total: &str, of_device: &str) -> bool {
        self.divisions.shares(total, of_device)
    }

    /// Whether the text takes the number of this name as its batch, whatever it is called.
    pub(crate) fn takes_as_batch(&self, name: &str) -> bool {
        self.taken_as_batch.contains(name)
    }

    /// Whether the text divides one number by another.
    pub(crate) fn divides(&self, name: &str, by: &str) -> bool {
        self.divisions.divides(name, by)
    }
}

impl TextNumber {
    /// As the program knows it: dotted where it is a field.
    pub fn name(&self) -> &str {
        match &self.set {
            TextSetting::Argument(number) => &number.name,
            TextSetting::Constant(number) => &number.name,
        }
    }

    /// The last part of its name.
    fn attribute(&self) -> &str {
        let name = self.name();
        name.rsplit('.').next().unwrap_or(name)
    }

    /// Its name and how it is typed.
    pub fn names(&self) -> Vec<&str> {
        match &self.set {
            TextSetting::Argument(number) => {
                let options = number
                    .options
                    .iter()
                    .map(|option| option.trim_end_matches('='));
                options.chain([number.name.as_str()]).collect()
            }
            TextSetting::Constant(number) => vec![&number.name],
        }
    }

    /// Its names without a `-b` that is short for another name: that may be for anything.
    fn telling_names(&self) -> Vec<&str> {
        let mut names = self.names();
        if names.iter().any(|name| name.starts_with("--")) {
            names.retain(|name| *name != "-b");
        }
        names
    }

    fn is_option_of_hydra(&self) -> bool {
        matches!(&self.set, TextSetting::Argument(number) if number.by == "hydra")
            && self.role == SourceRole::Config
    }

    pub fn value(&self) -> u64 {
        match &self.set {
            TextSetting::Argument(number) => number.value,
            TextSetting::Constant(number) => number.value,
        }
    }

    /// Whether its name or its description has to do with batches.
    fn is_near(&self) -> bool {
        self.described.is_some() || self.telling_names().into_iter().any(is_near)
    }
}

/// Whether a name has to do with batches.
fn is_near(name: &str) -> bool {
    family::batch_level(name).is_some()
        || family::is_batch_of_device(name)
        || family::like_a_batch(name).is_some()
        || family::is_accumulation(name)
}

/// The modules that a source imports, by their names.
pub(crate) fn imports(source: &str) -> Vec<ImportedModule> {
    let mut all = SourceStatements::new(source).imports;
    all.sort();
    all.dedup();
    all
}

/// The names behind a dot, and the strings that are one word.
fn parts(read: &[ReadSource<'_, '_>]) -> BTreeSet<String> {
    let near = read
        .iter()
        .filter(|(source, _)| source.role != SourceRole::Distant);
    let all = near.flat_map(|(_, said)| {
        let tokens = &said.tokens;
        (1..tokens.all.len()).filter_map(|at| match tokens.string(at) {
            Some(word) => Some(word).filter(|word| word.len() < LONGEST_PART),
            None => {
                (tokens.is_name(at) && tokens.is_operator(at - 1, ".")).then(|| tokens.text(at))
            }
        })
    });
    all.take(MOST_PARTS).map(str::to_string).collect()
}

/// The last parts of the names of whose value near sources make what is plainly called the batch.
fn taken_as_batch(read: &[ReadSource<'_, '_>]) -> BTreeSet<String> {
    let is_batch = |name: &str| {
        let level = family::batch_level(name);
        matches!(level, Some(BatchArgument::Plain | BatchArgument::Micro))
    };
    let near = read
        .iter()
        .filter(|(source, _)| source.role != SourceRole::Distant);
    let all = near.flat_map(|(_, said)| {
        let assigned = said.assigned.iter().filter(|one| {
            let inside = said.enclosing(one.at);
            let mut named = inside.function.into_iter().chain(inside.class);
            is_batch(one.target) && !named.any(family::is_not_of_training)
        });
        let assigned = assigned.filter_map(|one| {
            let (name, behind) = said.tokens.dotted(one.value.start, one.value.end)?;
            (behind == one.value.end).then(|| names_in::leaf(name).to_string())
        });
        assigned.chain(taken_by_loaders(said))
    });
    all.collect()
}

/// `DataLoader(data, batch_size=config["autoencoder_batch_size"])`, for training.
fn taken_by_loaders<'s>(said: &'s SourceStatements<'_>) -> impl Iterator<Item = String> + 's {
    let loaders = said.calls.iter().filter(|call| {
        let inside = said.enclosing(call.at);
        let named = inside.function.into_iter().chain(inside.class);
        let mut named = named.chain(said.target_of(call));
        call.name().ends_with("DataLoader") && !named.any(family::is_not_of_training)
    });
    loaders.filter_map(|call| {
        let value = call.keyword("batch_size")?;
        let (_, open) = said.tokens.dotted(value.start, value.end)?;
        let is_entry = said.tokens.is_operator(open, "[") && open + 3 == value.end;
        said.tokens
            .string(open + 1)
            .filter(|_| is_entry)
            .map(String::from)
    })
}

/// The options of the script's parser; none unless the script declares all of them itself.
fn options(read: &[ReadSource<'_, '_>]) -> BTreeSet<String> {
    let Some((_, script)) = read.first() else {
        return BTreeSet::new();
    };
    let tokens = &script.tokens;
    let mut parsers = (script.calls.iter()).filter(|call| call.name() == "ArgumentParser");
    let (Some(parser), None) = (parsers.next(), parsers.next()) else {
        return BTreeSet::new();
    };
    let name = script.target_of(parser);
    let is_parser = |part: &Range<usize>| Some(tokens.text_of(part)) == name;
    let is_shared = script.calls.iter().any(|call| {
        let given = call.keywords.iter().map(|(_, value)| value);
        call.positional.iter().chain(given).any(is_parser)
            || matches!(
                call.name(),
                "parse_known_args" | "add_subparsers" | "add_arguments"
            )
    });
    if name.is_none() || is_shared || parser.keyword("parents").is_some() {
        return BTreeSet::new();
    }
    let declared = script
        .calls
        .iter()
        .filter(|call| call.name() == "add_argument");
    let words = declared.flat_map(|call| call.positional.iter());
    let options = words.filter_map(|word| tokens.string(word.start));
    let options: BTreeSet<String> = options.map(String::from).collect();
    // A few are no parser of a training's.
    match options.len() >= FEWEST_OPTIONS {
        true => options,
        false => BTreeSet::new(),
    }
}

/// Whether the script calls for gradients, or a function that does.
fn trains(read: &[ReadSource<'_, '_>]) -> bool {
    let Some((_, script)) = read.first() else {
        return false;
    };
    let mut all = read.iter().flat_map(|(_, said)| {
        let backward = said.calls.iter().filter(|call| call.name() == "backward");
        backward.map(move |call| (std::ptr::eq(said, script), said.enclosing(call.at)))
    });
    all.any(|(is_script, inside)| {
        let named = [inside.function, inside.class];
        is_script || (script.calls.iter()).any(|call| named.contains(&Some(call.name())))
    })
}

/// The numbers of a file that the program names itself.
fn of_settings(file: &NamedSettingsFile) -> Vec<TextNumber> {
    let extension = file.path.rsplit('.').next().unwrap_or_default();
    let settings = settings_of(extension, &file.text).unwrap_or_default();
    let crc = crc32(file.text.as_bytes());
    let numbers = settings.all.iter().filter_map(|setting| {
        let written = file.text.get(setting.from..setting.to)?;
        let value = python_number(written).filter(|_| setting.is_plain)?;
        let before = file.text.get(..setting.from)?;
        let line = u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX);
        let set = match &file.names {
            SettingsNames::Hydra(prefix) => {
                let name = format!("{prefix}{}", setting.name);
                let argument = ParsedNumber {
                    options: vec![format!("{name}=")],
                    name,
                    value,
                    default: Some(value),
                    reads_command: true,
                    by: "hydra".into(),
                    ..ParsedNumber::default()
                };
                TextSetting::Argument(argument)
            }
            SettingsNames::InFile
            | SettingsNames::Among
            | SettingsNames::Made
            | SettingsNames::Chain => {
                let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
                TextSetting::Constant(SourceNumber {
                    file: file.path.clone(),
                    line,
                    column: u32::try_from(column).unwrap_or(u32::MAX),
                    crc,
                    name: setting.name.clone(),
                    kind: SourceNumberKind::Setting,
                    value,
                })
            }
        };
        Some(TextNumber {
            set,
            file: file.path.clone(),
            line,
            role: SourceRole::Config,
            described: None,
            is_overwritten: false,
            is_of_loader: false,
            is_weak: file.names == SettingsNames::Among,
            is_of_made_file: file.names == SettingsNames::Made,
            is_of_chain: file.names == SettingsNames::Chain,
            fixed: None,
            conditions: Vec::new(),
            subcommand: None,
            place: None,
        })
    });
    numbers.collect()
}

/// Whether a source asks that something divides by the batch: a queue's length, a number of samples.
pub(crate) fn asks_to_divide(source: &str) -> bool {
    // Few do, and the rest need not be looked at.
    source.contains('%') && is_divided_by_batch(&SourceStatements::new(source))
}

/// `assert self.K % batch_size == 0`, `if n % args.batch_size != 0: raise`.
fn is_divided_by_batch(said: &SourceStatements<'_>) -> bool {
    let tokens = &said.tokens;
    let statements = &tokens.statements;
    let mut all = statements.iter().enumerate();
    all.any(|(at, statement)| {
        let first = tokens.text(statement.tokens.start);
        let is_refused = || {
            let next = statements.get(at + 1);
            next.is_some_and(|next| tokens.text(next.tokens.start) == "raise")
        };
        let divides = |sign: usize| {
            let (name, behind) = tokens.dotted(sign + 1, statement.tokens.end)?;
            let name = name.rsplit('.').next().unwrap_or(name);
            let behind = behind + usize::from(tokens.is_operator(behind, ")"));
            let wanted = if first == "assert" { "==" } else { "!=" };
            let is_zero = tokens.is_operator(behind, wanted) && tokens.text(behind + 1) == "0";
            Some(is_zero && (is_near(name) && !family::is_accumulation(name)))
        };
        let mut signs = statement.tokens.clone();
        (first == "assert" || first == "if" && is_refused())
            && signs.any(|sign| tokens.is_operator(sign, "%") && divides(sign) == Some(true))
    })
}

/// What the first words of a description say: "batch size per GPU", "the total batch size (default: 64)"; nothing where it
/// goes on about something else than training.
fn described(words: &str) -> Option<BatchArgument> {
    let mut name = String::new();
    let mut found = None;
    let is_about = |word: &str| {
        words
            .split(|c: char| !c.is_alphanumeric())
            .any(|w| w == word)
    };
    if family::is_not_of_training(words) && !["train", "training"].into_iter().any(is_about) {
        return None;
    }
    let words = words.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    let words =
        words.skip_while(|word| matches!(word.to_lowercase().as_str(), "the" | "a" | "meta"));
    for word in words.take(5) {
        name.push_str(&word.to_lowercase());
        found = family::batch_level(&name).or(found);
    }
    // One letter or two say nothing here: "b", "bs".
    found.filter(|_| name.len() > 2)
}

#[cfg(test)]
mod tests;
