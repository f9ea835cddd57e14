//! Known training programs as data: their arguments for batch, accumulation, precision and so on.
//! `programs.toml` has the entries and explains the keys; a user's own entries have the same format
//! and take precedence.
//!
//! This parses entries and says how well a command matches one; the remedies use them.

pub(crate) use super::program_settings::{
    Accumulation, AccumulationRule, BatchSpec, InFile, InsertPlace, OptimizerChoice, OptimizerKind,
    Resume, Resumes, Scope, SwitchDefault, SwitchSpec,
};

use super::argument::{Arguments, Name, is_like};
use super::layout::{CommandLayout, ProgramKind, file_name};
use serde::Deserialize;
use std::sync::OnceLock;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProgramEntry {
    /// For display.
    pub name: String,
    /// The entry to copy from: fields that are missing here are taken from it.
    like: Option<String>,
    #[serde(alias = "sure_scripts")]
    unique_scripts: Vec<String>,
    scripts: Vec<String>,
    modules: Vec<String>,
    consoles: Vec<String>,
    launchers: Vec<String>,
    any: Vec<String>,
    #[serde(alias = "least")]
    min_score: Option<usize>,
    #[serde(alias = "telling")]
    strong_hints: Vec<String>,
    #[serde(alias = "least_telling")]
    min_strong_hints: usize,
    equals_only: bool,
    all: Vec<String>,
    none: Vec<String>,
    valued: Vec<(String, String)>,
    positional: Vec<String>,
    alone: bool,
    priority: i32,
    /// One of these must be among the arguments, or it isn't a training.
    pub trains_with: Vec<String>,
    /// Arguments with which it only evaluates.
    pub evaluates_with: Vec<String>,
    /// Why there are no remedies for this program.
    pub refuse: Option<String>,
    /// Arguments, or `*.yaml` for positional words, that name a file which may set what the command
    /// does not.
    pub config: Vec<String>,
    /// Whether it takes abbreviated options, as argparse does; the default is yes.
    pub abbreviates: Option<bool>,
    /// Options that look like those in this entry but are others.
    pub look_alikes: Vec<String>,
    /// Options whose value is a list of arguments; if there are any, batch and precision are in
    /// such a value and nowhere else.
    pub nested: Vec<String>,
    /// The separator of arguments in such a value, if not a space.
    pub separator: Option<char>,
    pub batch: BatchSpec,
    pub accumulation: Accumulation,
    pub precision: SwitchSpec,
    /// Activation checkpointing.
    pub recompute: SwitchSpec,
    /// An evaluation's outputs moved to RAM every few batches; what is added takes their number.
    pub outputs: SwitchSpec,
    /// A cross-entropy that is fused with the model's head.
    pub fused_loss: SwitchSpec,
    /// Optimizers with a smaller state than Adam's, the one that changes least first.
    pub optimizers: Vec<OptimizerChoice>,
    /// What FSDP divides among the ranks kept in RAM.
    pub offload: SwitchSpec,
    pub resume: Resume,
    /// Where its config file has batch, accumulation, precision and so on.
    pub file: InFile,
    /// Arguments for the number of DataLoader workers.
    pub workers: Vec<String>,
    /// Arguments that choose its device by an index, in the program's own way.
    pub devices: Vec<String>,
    /// The file of a user's entry.
    #[serde(skip)]
    pub source: Option<String>,
}

impl ProgramEntry {
    /// Its name without what distinguishes several entries of a program.
    pub(crate) fn shown(&self) -> &str {
        self.name.split(" (").next().unwrap_or(&self.name)
    }

    fn can_be_recognized(&self) -> bool {
        let names = [
            &self.unique_scripts,
            &self.scripts,
            &self.modules,
            &self.consoles,
            &self.launchers,
        ];
        self.alone || names.iter().any(|names| !names.is_empty())
    }

    /// Copies what this entry leaves out, except how a command is recognized.
    fn fill_from(&mut self, other: &ProgramEntry) {
        fn fill<T: Clone + Default + PartialEq>(mine: &mut T, theirs: &T) {
            if *mine == T::default() {
                *mine = theirs.clone();
            }
        }
        fill(&mut self.trains_with, &other.trains_with);
        fill(&mut self.evaluates_with, &other.evaluates_with);
        fill(&mut self.config, &other.config);
        fill(&mut self.look_alikes, &other.look_alikes);
        fill(&mut self.nested, &other.nested);
        fill(&mut self.batch, &other.batch);
        fill(&mut self.accumulation, &other.accumulation);
        fill(&mut self.precision, &other.precision);
        fill(&mut self.recompute, &other.recompute);
        fill(&mut self.outputs, &other.outputs);
        fill(&mut self.fused_loss, &other.fused_loss);
        fill(&mut self.optimizers, &other.optimizers);
        fill(&mut self.offload, &other.offload);
        fill(&mut self.resume, &other.resume);
        fill(&mut self.file, &other.file);
        fill(&mut self.workers, &other.workers);
        fill(&mut self.devices, &other.devices);
        fill(&mut self.abbreviates, &other.abbreviates);
        fill(&mut self.separator, &other.separator);
    }

    /// Whether this is a script of a program that also installs a command: it does nothing but train, whereas the command
    /// takes a word for that.
    pub(crate) fn is_script_beside_a_console(&self, program: &str) -> bool {
        !self.consoles.is_empty() && self.scripts.iter().any(|script| program.ends_with(script))
    }

    /// Whether the command names a config file, which may set more.
    pub(crate) fn is_configured(&self, arguments: &Arguments<'_>) -> bool {
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

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Catalogue {
    #[serde(rename = "program", default)]
    programs: Vec<ProgramEntry>,
}

impl Catalogue {
    /// The entries in the binary.
    pub fn built_in() -> &'static Catalogue {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        CATALOGUE.get_or_init(|| {
            let mut catalogue = Catalogue::read(include_str!("programs.toml"))
                .expect("programs.toml is part of the binary and read by a test");
            catalogue
                .resolve(&Catalogue::default())
                .expect("each `like` in programs.toml names an entry");
            catalogue
        })
    }

    /// Fills entries that are `like` another one, of this catalogue or of `others`. The error names
    /// an entry that doesn't exist.
    fn resolve(&mut self, others: &Catalogue) -> Result<(), String> {
        for k in 0..self.programs.len() {
            let Some(like) = self.programs[k].like.clone() else {
                continue;
            };
            let all = self.programs.iter().chain(&others.programs);
            let other = all.clone().find(|e| e.name == like && e.like.is_none());
            let Some(other) = other.cloned() else {
                let name = &self.programs[k].name;
                return Err(format!(
                    "the program \"{name}\" is like \"{like}\", which does not exist or is itself like another"
                ));
            };
            self.programs[k].fill_from(&other);
        }
        Ok(())
    }

    /// Parses entries in the format of `programs.toml`; the error says line and key.
    pub fn read(text: &str) -> Result<Catalogue, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The entries in a user's file, which may contain other settings too. `source` is the file's
    /// name for display; the error is one line that says where and how to fix it.
    pub fn of_user(text: &str, source: &str) -> Result<Catalogue, String> {
        let mut catalogue: Catalogue = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text.get(..span.start).unwrap_or("").matches('\n').count()
            });
            let what = error.message().replace('\n', "; ");
            format!("{source}:{line}: {what}; ignoring this file's programs")
        })?;
        for entry in &mut catalogue.programs {
            if entry.name.is_empty() {
                return Err(format!(
                    "{source}: a program has no `name`; ignoring this file's programs"
                ));
            }
            if !entry.can_be_recognized() {
                return Err(format!(
                    "{source}: the program \"{}\" has nothing to be recognized by (scripts, modules, \
                     consoles, launchers); ignoring this file's programs",
                    entry.name
                ));
            }
            entry.source = Some(source.to_string());
        }
        catalogue
            .resolve(Catalogue::built_in())
            .map_err(|why| format!("{source}: {why}; ignoring this file's programs"))?;
        Ok(catalogue)
    }

    /// The entry that a command matches; `None` if no entry fits, or two fit equally well.
    pub(crate) fn entry(
        &self,
        layout: &CommandLayout,
        seen: &ProgramClues<'_>,
    ) -> Option<&ProgramEntry> {
        let mut best: Option<(i32, &ProgramEntry)> = None;
        let mut tied = false;
        for entry in &self.programs {
            let Some(score) = entry.score(layout, seen) else {
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

    /// Whether an entry is one of these.
    pub(crate) fn has(&self, entry: &ProgramEntry) -> bool {
        self.programs.iter().any(|one| std::ptr::eq(one, entry))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|entry| entry.name.as_str())
    }
}

/// What an entry is compared with.
pub(crate) struct ProgramClues<'a> {
    /// The word that names the program.
    pub program: &'a str,
    pub arguments: &'a Arguments<'a>,
}

/// How many of an entry's typical arguments a command has.
struct ShapePoints {
    points: usize,
    strong_hints: usize,
}

/// The score of an argument that hardly any other program has.
const STRONG_HINT_SCORE: usize = 3;

impl ProgramEntry {
    /// `None` if the command does not fit.
    fn score(&self, layout: &CommandLayout, seen: &ProgramClues<'_>) -> Option<i32> {
        let of_shape = self.shape(seen)?;
        let is_script = matches!(layout.kind, ProgramKind::Script | ProgramKind::ShellScript);
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
        let by_name = by_path(&self.unique_scripts)
            || layout.kind == ProgramKind::Module && is_any(&self.modules, seen.program)
            || layout.kind == ProgramKind::Executable
                && is_any(&self.consoles, file_name(seen.program))
            || layout
                .launchers
                .iter()
                .any(|launcher| is_any(&self.launchers, &launcher.name));
        let has_shape = !(self.any.is_empty()
            && self.strong_hints.is_empty()
            && self.all.is_empty()
            && self.valued.is_empty()
            && self.positional.is_empty());
        let nothing_to_count = self.any.is_empty() && self.strong_hints.is_empty();
        let enough = nothing_to_count
            || of_shape.points >= self.min_score.unwrap_or(1)
                && of_shape.strong_hints >= self.min_strong_hints;
        let base = if by_name {
            100
        } else if by_path(&self.scripts)
            && (has_shape && enough || self.is_of_user_alone(has_shape))
        {
            50
        } else if self.alone && has_shape && enough {
            20
        } else {
            return None;
        };
        Some(base + self.priority + of_shape.points.min(9) as i32)
    }

    /// An entry by a user with a script and no typical arguments means every command with that
    /// script.
    fn is_of_user_alone(&self, has_shape: bool) -> bool {
        self.source.is_some() && !has_shape
    }

    /// `None` if a condition fails.
    fn shape(&self, seen: &ProgramClues<'_>) -> Option<ShapePoints> {
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
            let strong_hints = count(&self.strong_hints);
            ShapePoints {
                points: STRONG_HINT_SCORE * strong_hints + count(&self.any),
                strong_hints,
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
            let (precision, recompute) = (&entry.precision, &entry.recompute);
            assert!(!entry.name.is_empty());
            assert!(
                precision.add.is_empty() && recompute.bf16.is_empty(),
                "{}",
                entry.name
            );
            assert!(
                recompute.default != SwitchDefault::Off || !recompute.add.is_empty(),
                "{}: no recomputation to add",
                entry.name
            );
            let resume = &entry.resume;
            assert!(
                resume.rule != Resumes::Told || !resume.add.is_empty() && !resume.find.is_empty(),
                "{}: it resumes, but not how",
                entry.name
            );
            assert!(
                precision.default != SwitchDefault::Off || !precision.bf16.is_empty(),
                "{}: nothing to add",
                entry.name
            );
            let counts = entry.accumulation.rule != AccumulationRule::None
                && entry.accumulation.rule != AccumulationRule::Implicit;
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
    fn the_keys_of_older_versions_are_still_read() {
        let new = "[[program]]\nname = \"mine\"\nunique_scripts = [\"fit.py\"]\nstrong_hints = [\"--n\"]\n\
                   min_score = 2\nmin_strong_hints = 1\n[program.precision]\ndefault = \"on\"\n\
                   [program.recompute]\ndefault = \"config\"\n";
        let old = new
            .replace("unique_scripts", "sure_scripts")
            .replace("min_strong_hints", "least_telling")
            .replace("strong_hints", "telling")
            .replace("min_score", "least")
            .replace("default", "unsaid");
        let read = |text| Catalogue::of_user(text, "oomph.toml").unwrap().programs;
        assert_eq!(read(new), read(&old));
        assert_eq!(read(&old)[0].precision.default, SwitchDefault::On);
    }

    #[test]
    fn an_entry_that_is_like_another_says_only_what_differs() {
        let own = "[[program]]\nname = \"mine\"\nlike = \"timm\"\nscripts = [\"fit.py\"]\n\
                   [program.batch]\nnames = [\"--n\"]\n";
        let mine = &Catalogue::of_user(own, "oomph.toml").unwrap().programs[0];
        let all = &Catalogue::built_in().programs;
        let timm = all.iter().find(|entry| entry.name == "timm").unwrap();
        assert_eq!(mine.batch.names, ["--n"]);
        assert_eq!(mine.accumulation, timm.accumulation);
        assert_eq!(
            mine.strong_hints, [""; 0],
            "it is recognized by its own script alone"
        );
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
        for (text, said) in [
            (
                "theme = 1\n[[program]]\nname = \"mine\"\nscript = [\"fit.py\"]\n",
                "oomph.toml:4: unknown field `script`",
            ),
            ("[[program]]\nname = \"mine\"\n", "\"mine\" has nothing"),
            ("[[program]]\nscripts = [\"fit.py\"]\n", "no `name`"),
            (
                "[[program]]\nname = \"mine\"\nscripts = [\"fit.py\"]\nlike = \"their\"\n",
                "\"mine\" is like \"their\"",
            ),
        ] {
            let wrong = Catalogue::of_user(text, "oomph.toml").unwrap_err();
            assert!(wrong.contains(said) && !wrong.contains('\n'), "{wrong}");
        }
    }
}
