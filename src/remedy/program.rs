//! Known training programs, as data: what they call their batch, how they count accumulation, how
//! they are told a precision. `programs.toml` holds the entries and explains their words; entries of
//! a user have the same shape and go before them.
//!
//! Here they are only read and recognised; what follows from an entry is the remedies' business.

use super::argument::{Arguments, Name, is_like};
use super::launcher::{Anatomy, Kind, file_name};
use serde::Deserialize;
use std::sync::OnceLock;

/// One program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name, for the eye.
    pub name: String,
    #[serde(default)]
    sure_scripts: Vec<String>,
    #[serde(default)]
    scripts: Vec<String>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    consoles: Vec<String>,
    #[serde(default)]
    launchers: Vec<String>,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default = "one")]
    least: usize,
    #[serde(default)]
    telling: Vec<String>,
    #[serde(default)]
    least_telling: usize,
    #[serde(default)]
    equals_only: bool,
    #[serde(default)]
    all: Vec<String>,
    #[serde(default)]
    none: Vec<String>,
    #[serde(default)]
    valued: Vec<(String, String)>,
    #[serde(default)]
    positional: Vec<String>,
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    priority: i32,
    /// Words of which one must stand among the arguments, or this is no training.
    #[serde(default)]
    pub trains_with: Vec<String>,
    /// Arguments that mean that it only evaluates.
    #[serde(default)]
    pub evaluates_with: Vec<String>,
    /// Why nothing is offered for this program at all.
    #[serde(default)]
    pub refuse: Option<String>,
    /// Arguments, or `*.yaml` for positional words, that name a file which may set what the
    /// command does not.
    #[serde(default)]
    pub config: Vec<String>,
    /// Whether it takes abbreviated options, as argparse does.
    #[serde(default = "yes")]
    pub abbreviates: bool,
    /// Options that look like one of those named here but are not.
    #[serde(default)]
    pub look_alikes: Vec<String>,
    /// Options whose value is itself a list of arguments; where there are any, the batch and the
    /// precision stand in such a value and nowhere else.
    #[serde(default)]
    pub nested: Vec<String>,
    /// What separates the arguments in such a value.
    #[serde(default = "space")]
    pub separator: char,
    /// Its batch argument.
    #[serde(default)]
    pub batch: Batch,
    /// How it accumulates gradients.
    #[serde(default)]
    pub accumulation: Accumulation,
    /// How it is told a precision.
    #[serde(default)]
    pub precision: Precision,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn space() -> char {
    ' '
}

/// What one number of a batch argument counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each device or process takes so many at once.
    #[default]
    Micro,
    /// All devices together do; the program splits it.
    Global,
}

/// The batch argument of a program.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Its names, the one that counts first.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whether all of the names that are there bound the batch, so that all are made smaller.
    #[serde(default)]
    pub together: bool,
    /// What it counts for.
    #[serde(default)]
    pub scope: Scope,
    /// What it counts, where that is not samples.
    #[serde(default)]
    pub unit: Option<String>,
    /// Why there is nothing to edit.
    #[serde(default)]
    pub none: Option<String>,
    /// Arguments with which the batch argument is not what counts, and why.
    #[serde(default)]
    pub refused_with: Vec<(String, String)>,
    /// An argument that the new value must not fall below (a sample must fit).
    #[serde(default)]
    pub floor: Option<String>,
    /// There where the new value must be a multiple of the number of devices: arguments that say
    /// the number, the launcher's processes coming after them.
    #[serde(default)]
    pub devices: Option<Vec<String>>,
    /// The same, by arguments that list the devices (`0,1,2,3`).
    #[serde(default)]
    pub device_list: Vec<String>,
}

/// How gradients are accumulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// By an argument that counts micro-batches.
    Flag,
    /// The program works it out from a total that stays.
    Implicit,
    /// By an argument that divides the batch: raising it makes the micro-batch smaller.
    Divides,
    /// By an argument that gives the micro-batch's size, the batch staying.
    MicroSize,
    /// Not at all.
    #[default]
    None,
}

/// Accumulation of a program.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accumulation {
    /// How.
    #[serde(default)]
    pub rule: Rule,
    /// The argument's names, in the order of preference for an addition.
    #[serde(default)]
    pub names: Vec<String>,
    /// What it is where the command does not say it.
    #[serde(default)]
    pub default: Option<u64>,
    /// Whether a config file named by the command may set it, so that nothing is added.
    #[serde(default = "yes")]
    pub in_config: bool,
    /// Arguments with which the program refuses to accumulate.
    #[serde(default)]
    pub refused_with: Vec<String>,
    /// For [`Rule::MicroSize`]: the argument that divides the batch among devices.
    #[serde(default)]
    pub shared_among: Option<String>,
    /// For [`Rule::MicroSize`]: the argument below which the size must not fall, and its default.
    #[serde(default)]
    pub floor: Option<(String, u64)>,
}

/// What a program's precision is where the command does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsaid {
    /// Full.
    Off,
    /// Mixed.
    On,
    /// What its config file says.
    Config,
    /// There is no argument for it.
    #[default]
    None,
}

/// Precision of a program.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// What it is where the command does not say it.
    #[serde(default)]
    pub unsaid: Unsaid,
    /// Why there is nothing to add, in words of its own.
    #[serde(default)]
    pub note: Option<String>,
    /// Arguments that switch it on.
    #[serde(default)]
    pub on: Vec<String>,
    /// Arguments whose value is the precision.
    #[serde(default)]
    pub valued: Vec<String>,
    /// Arguments that switch it off.
    #[serde(default)]
    pub off: Vec<String>,
    /// What to add for bf16, its last word being the value.
    #[serde(default)]
    pub bf16: Vec<String>,
    /// What to add for fp16, where the program scales its loss.
    #[serde(default)]
    pub fp16: Vec<String>,
    /// What to add where one of the arguments named first is there (older versions).
    #[serde(default)]
    pub older: Vec<(Vec<String>, Vec<String>)>,
    /// Where it goes.
    #[serde(default)]
    pub place: Place,
    /// Whether it is written with a space whatever the rest of the command does.
    #[serde(default)]
    pub spaced: bool,
    /// Whether the launcher's own precision (`accelerate launch --mixed_precision`) counts.
    #[serde(default)]
    pub by_launcher: bool,
}

/// Where an addition goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// After the program's last argument.
    #[default]
    End,
    /// Before its first: the rest is swallowed by a parser that takes "all that remains".
    Start,
    /// Among the launcher's options.
    Launcher,
}

/// The entries that are known.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    #[serde(rename = "program")]
    programs: Vec<Entry>,
}

impl Catalogue {
    /// The entries in the binary.
    pub fn built_in() -> &'static Catalogue {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        CATALOGUE.get_or_init(|| {
            Catalogue::read(include_str!("programs.toml"))
                .expect("programs.toml is part of the binary and read by a test")
        })
    }

    /// Entries from text, in the words of `programs.toml`; the error says line and key.
    pub fn read(text: &str) -> Result<Catalogue, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The entry that a command is of; none where no entry fits, or two fit equally well.
    pub(super) fn entry(&self, anatomy: &Anatomy, seen: &Seen<'_>) -> Option<&Entry> {
        let mut best: Option<(i32, &Entry)> = None;
        let mut tied = false;
        for entry in &self.programs {
            let Some(score) = entry.score(anatomy, seen) else {
                continue;
            };
            match best {
                Some((of_best, _)) if score < of_best => {}
                Some((of_best, _)) if score == of_best => tied = true,
                _ => (best, tied) = (Some((score, entry)), false),
            }
        }
        best.filter(|_| !tied).map(|(_, entry)| entry)
    }

    /// The names of the entries.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|entry| entry.name.as_str())
    }
}

/// What an entry is compared with.
pub(super) struct Seen<'a> {
    /// The word that names the program.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a Arguments<'a>,
}

/// How much of an entry's shape a command has.
struct Shape {
    points: usize,
    telling: usize,
}

/// What an argument counts for that hardly any other program has.
const TELLING_WEIGHT: usize = 3;

impl Entry {
    /// How well a command fits, or nothing where it does not.
    fn score(&self, anatomy: &Anatomy, seen: &Seen<'_>) -> Option<i32> {
        let of_shape = self.shape(seen)?;
        let is_script = matches!(anatomy.kind, Kind::Script | Kind::ShellScript);
        let by_path = |patterns: &[String]| {
            is_script
                && patterns.iter().any(|pattern| {
                    if pattern.contains('/') {
                        is_like(&format!("/{}", seen.program), &format!("*/{pattern}"))
                    } else {
                        is_like(file_name(seen.program), pattern)
                    }
                })
        };
        let is_any = |names: &[String], name: &str| names.iter().any(|n| is_like(name, n));
        let by_name = by_path(&self.sure_scripts)
            || anatomy.kind == Kind::Module && is_any(&self.modules, seen.program)
            || anatomy.kind == Kind::Executable && is_any(&self.consoles, file_name(seen.program))
            || anatomy
                .launchers
                .iter()
                .any(|launcher| is_any(&self.launchers, &launcher.name));
        let has_shape = !(self.any.is_empty()
            && self.telling.is_empty()
            && self.all.is_empty()
            && self.valued.is_empty()
            && self.positional.is_empty());
        let nothing_to_count = self.any.is_empty() && self.telling.is_empty();
        let enough = nothing_to_count
            || of_shape.points >= self.least && of_shape.telling >= self.least_telling;
        let base = if by_name {
            100
        } else if by_path(&self.scripts) && has_shape && enough {
            50
        } else if self.alone && has_shape && enough {
            20
        } else {
            return None;
        };
        Some(base + self.priority + of_shape.points.min(9) as i32)
    }

    /// How much of the shape is there; nothing where a condition fails.
    fn shape(&self, seen: &Seen<'_>) -> Option<Shape> {
        let arguments = seen.arguments;
        let has = |spec: &String| arguments.has(Name::new(spec));
        let count = |specs: &[String]| specs.iter().filter(|spec| has(spec)).count();
        let is_any_of =
            |text: &str, patterns: &str| patterns.split('|').any(|pattern| is_like(text, pattern));
        let valued = self.valued.iter().all(|(spec, patterns)| {
            arguments
                .value_of(spec)
                .is_some_and(|value| is_any_of(value, patterns))
        });
        let positional = self.positional.iter().all(|patterns| {
            let mut tokens = arguments.tokens.iter().enumerate();
            tokens.any(|(k, token)| {
                !token.is_option() && arguments.is_positional(k) && is_any_of(token.text, patterns)
            })
        });
        let spelled = !self.equals_only
            || arguments
                .tokens
                .iter()
                .all(|token| !token.is_option() || token.text.contains('='));
        let fits = self.all.iter().all(has)
            && !self.none.iter().any(has)
            && valued
            && positional
            && spelled;
        fits.then(|| {
            let telling = count(&self.telling);
            Shape {
                points: TELLING_WEIGHT * telling + count(&self.any),
                telling,
            }
        })
    }

    /// Whether the command names a config file that may say more.
    pub(super) fn is_configured(&self, arguments: &Arguments<'_>) -> bool {
        self.config.iter().any(|spec| {
            if spec.contains('*') {
                arguments
                    .tokens
                    .iter()
                    .any(|token| !token.is_option() && is_like(token.text, spec))
            } else {
                arguments.has(Name::new(spec))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_in_the_binary_can_be_read_and_say_what_they_must() {
        let catalogue = Catalogue::built_in();
        let mut names: Vec<&str> = catalogue.names().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "two entries have one name");
        for entry in &catalogue.programs {
            let precision = &entry.precision;
            assert!(
                precision.unsaid != Unsaid::Off || !precision.bf16.is_empty(),
                "{}: nothing to add",
                entry.name
            );
            let counts =
                entry.accumulation.rule != Rule::None && entry.accumulation.rule != Rule::Implicit;
            assert!(
                !counts || !entry.accumulation.names.is_empty(),
                "{}: accumulation has no name",
                entry.name
            );
            for spec in entry.batch.names.iter().chain(&entry.accumulation.names) {
                assert!(
                    !matches!(Name::new(spec), Name::Pair(body) if !body.contains('.')),
                    "{}: {spec}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn an_entry_of_a_user_has_the_same_words_and_mistakes_are_named() {
        let own = "[[program]]\nname = \"mine\"\nscripts = [\"fit.py\"]\nany = [\"--n\"]\n[program.batch]\nnames = [\"--n\"]\n";
        assert_eq!(
            Catalogue::read(own).unwrap().names().collect::<Vec<_>>(),
            ["mine"]
        );
        let wrong =
            Catalogue::read("[[program]]\nname = \"mine\"\nscript = [\"fit.py\"]\n").unwrap_err();
        assert!(wrong.contains("script"), "{wrong}");
    }
}
