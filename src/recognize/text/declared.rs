//! Arguments that a program declares, with their defaults: argparse and what builds on it, click and typer, absl, fire,
//! and dataclasses that a parser is made of.

use super::docopt::{UsageOption, usage_options};
use super::statements::{CallSite, ClassHead, FunctionHead, SourceStatements, TokenRange};
use super::{ProgramSource, ReadSource, SourceRole, TextNumber, TextSetting, described};
use super::{branches, learning_rate, places, two_parsers};
use crate::event::{ParsedNumber, SourceNumber, SourceNumberKind};
use crate::recognize::python_number::python_number;
use crate::recognize::spellings::{LibraryFields, is_one, spellings};
use std::collections::{BTreeMap, BTreeSet};

/// Fields inside of fields, up to which they are followed.
const DEEPEST_FIELD: usize = 4;

/// Choices that are kept.
const MOST_CHOICES: usize = 64;

/// What makes arguments of a function's parameters or of a class's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandParser {
    Argparse,
    Click,
    Absl,
    Fire,
    Typer,
    Tyro,
    /// `--a.b 64`, with the names of the fields as they are (draccus, pyrallis).
    Fields,
    /// `a.b=64`.
    Hydra,
    /// By the text of its usage.
    Docopt,
    /// None: a word is taken by its place.
    Place,
}

impl CommandParser {
    fn name(self) -> &'static str {
        match self {
            CommandParser::Argparse => "argparse",
            CommandParser::Click => "click",
            CommandParser::Absl => "absl",
            CommandParser::Fire => "fire",
            CommandParser::Typer => "typer",
            CommandParser::Tyro => "tyro",
            CommandParser::Fields => "fields",
            CommandParser::Hydra => "hydra",
            CommandParser::Docopt => "docopt",
            CommandParser::Place => "argv",
        }
    }

    /// How an argument of this name is typed.
    fn option(self, name: &str) -> String {
        match self {
            CommandParser::Argparse
            | CommandParser::Click
            | CommandParser::Absl
            | CommandParser::Fields
            | CommandParser::Docopt
            | CommandParser::Fire => format!("--{name}"),
            CommandParser::Typer | CommandParser::Tyro => format!("--{}", name.replace('_', "-")),
            CommandParser::Hydra => format!("{name}="),
            CommandParser::Place => name.to_string(),
        }
    }
}

/// The declared arguments of all sources: those of what the script imports, or where there is none of those further away.
pub(super) fn arguments(sources: &[ReadSource<'_, '_>], found: &mut Vec<TextNumber>) {
    let is_near = |source: &ProgramSource| source.role != SourceRole::Distant;
    of_sources(sources, is_near, found);
    if found.is_empty() {
        of_sources(sources, |source| !is_near(source), found);
    } else {
        of_bases(sources, found);
    }
    leave_unnamed_classes(sources, found);
}

/// The options of classes further away that a nearer one is made from: `class TrainOptions(BaseOptions)`.
fn of_bases(sources: &[ReadSource<'_, '_>], found: &mut Vec<TextNumber>) {
    let is_distant = |source: &ProgramSource| source.role == SourceRole::Distant;
    let near = sources.iter().filter(|(source, _)| !is_distant(source));
    let classes = near.flat_map(|(_, said)| &said.classes);
    let bases: BTreeSet<&str> = classes
        .flat_map(|class| class.bases.iter().copied())
        .collect();
    let mut further = Vec::new();
    of_sources(sources, is_distant, &mut further);
    further.retain(|number| {
        let mut of_file = sources
            .iter()
            .filter(|(source, _)| source.path == number.file);
        let class = of_file.find_map(|(_, said)| said.class_at(number.line));
        class.is_some_and(|class| bases.contains(class))
    });
    found.extend(further);
}

/// Of options of one name that several classes declare, those of a class that nothing names are another program's:
/// `SearchConfig` and `AugmentConfig` in one file.
fn leave_unnamed_classes(sources: &[ReadSource<'_, '_>], found: &mut Vec<TextNumber>) {
    let is_named = |number: &TextNumber| {
        let mut of_file = sources
            .iter()
            .filter(|(source, _)| source.path == number.file);
        let class = of_file.find_map(|(_, said)| said.class_at(number.line));
        class.is_none_or(|class| sources.iter().any(|(_, said)| said.names_class(class)))
    };
    let mut again = BTreeMap::<&str, usize>::new();
    for number in found.iter() {
        *again.entry(number.name()).or_default() += 1;
    }
    let several: BTreeSet<String> = (again.into_iter())
        .filter(|(_, count)| *count > 1)
        .map(|(name, _)| name.to_string())
        .collect();
    for name in several {
        let is_it = |number: &TextNumber| number.name() == name;
        if found.iter().any(|number| is_it(number) && is_named(number)) {
            found.retain(|number| !is_it(number) || is_named(number));
        }
    }
}

/// An argument without an option, which a source takes by its place.
pub(super) fn argument_by_place<'t>(
    source: &ProgramSource,
    said: &SourceStatements<'t>,
    at: usize,
    name: &str,
) -> TextNumber {
    let reader = ArgumentReader {
        source,
        said,
        sources: &[],
    };
    let (by, name) = (CommandParser::Place, name.to_string());
    reader.argument(at, by, name, Vec::new(), None, Vec::new())
}

fn of_sources(
    sources: &[ReadSource<'_, '_>],
    is_asked: impl Fn(&ProgramSource) -> bool,
    found: &mut Vec<TextNumber>,
) {
    for (source, said) in sources.iter().filter(|(source, _)| is_asked(source)) {
        let reader = ArgumentReader {
            source,
            said,
            sources,
        };
        for call in &said.calls {
            if reader.is_used(call) {
                reader.of_call(call, found);
            }
        }
        found.extend(
            usage_options(said)
                .iter()
                .filter_map(|one| reader.of_usage(one)),
        );
        for function in &said.functions {
            let is_command =
                |name: &&str| name.ends_with(".command") || name.ends_with(".callback");
            if function
                .decorators
                .iter()
                .any(|name| name.ends_with(".wrap"))
            {
                reader.of_wrapped(function, found);
            }
            let is_typer = said.imports.iter().any(|one| one.parts == ["typer"]);
            if is_typer && function.decorators.iter().any(is_command) {
                reader.of_function(function, CommandParser::Typer, found);
            }
        }
    }
}

struct ArgumentReader<'a, 't> {
    source: &'a ProgramSource,
    said: &'a SourceStatements<'t>,
    sources: &'a [ReadSource<'a, 't>],
}

impl<'a, 't> ArgumentReader<'a, 't> {
    /// Whether the program gets to a call: not in an imported file where that is run itself, or in a function of one that
    /// nothing else calls.
    fn is_used(&self, call: &CallSite<'t>) -> bool {
        let inside = self.said.enclosing(call.at);
        if !matches!(self.source.role, SourceRole::Imported | SourceRole::Distant) {
            return true;
        }
        let function = inside.function.filter(|_| inside.class.is_none());
        !inside.is_guarded && function.is_none_or(|name| self.is_called(name))
    }

    /// Whether a function of this file is called: by another file that has none of this name, or by this one as it is
    /// imported.
    fn is_called(&self, function: &str) -> bool {
        self.sources.iter().any(|(source, said)| {
            let is_own = source.path == self.source.path;
            let has_one = said.functions.iter().any(|one| one.name == function);
            let is_call = |call: &&CallSite<'_>| {
                call.name() == function && !(is_own && said.enclosing(call.at).is_guarded)
            };
            (is_own || !has_one) && said.calls.iter().any(|call| is_call(&call))
        })
    }

    fn of_call(&self, call: &CallSite<'t>, found: &mut Vec<TextNumber>) {
        let first = call.positional.first();
        let named = || first.and_then(|part| self.said.tokens.dotted(part.start, part.end));
        let named = || named().map(|(name, _)| name.rsplit('.').next().unwrap_or(name));
        match call.name() {
            "DEFINE_integer" => found.extend(self.of_flag(call)),
            "Fire" => self.of_callable(named(), CommandParser::Fire, found),
            // jsonargparse's and Lightning's; sensAI's, with which tianshou runs its examples.
            "CLI" | "auto_cli" | "run_cli" => {
                self.of_callable(named(), CommandParser::Argparse, found)
            }
            "run" if call.callee == "typer.run" => {
                self.of_callable(named(), CommandParser::Typer, found);
            }
            "cli" if call.callee.starts_with("tyro") => {
                let class = self.class(named());
                self.fields_of(class, CommandParser::Tyro, "", 0, found);
            }
            "HfArgumentParser" | "add_arguments" | "parse" | "TypedArgumentParser" => {
                for name in self.names_in(call) {
                    let class = self.class(Some(name));
                    self.fields_of(class, CommandParser::Argparse, "", 0, found);
                    self.fields_of_library(call, name, found);
                }
            }
            "store" if call.keyword("group").is_none() => {
                let node = call.keyword("node");
                let node = node.and_then(|part| self.said.tokens.dotted(part.start, part.end));
                let class = self.class(node.map(|(name, _)| name));
                self.fields_of(class, CommandParser::Hydra, "", 0, found);
            }
            _ => found.extend(self.of_options(call)),
        }
    }

    /// `add_argument("-b", "--batch", default=64)`, `@click.option("--batch", default=64)`.
    fn of_options(&self, call: &CallSite<'t>) -> Option<TextNumber> {
        let tokens = &self.said.tokens;
        let words = call.positional.iter().filter(|part| part.len() == 1);
        let words: Vec<&str> = words.filter_map(|part| tokens.string(part.start)).collect();
        let is_option =
            |word: &&&str| word.starts_with('-') && word.len() > 1 && !word.contains(' ');
        let options: Vec<String> = words
            .iter()
            .filter(is_option)
            .map(|w| w.to_string())
            .collect();
        let longest = options.iter().max_by_key(|option| option.len())?;
        let is_list = |nargs: &TokenRange| tokens.string(nargs.start) != Some("?");
        if call.keyword("nargs").is_some_and(is_list) || call.keyword("action").is_some() {
            return None;
        }
        let default = call.keyword("default");
        // A number in quotes that the program makes one of later.
        let quoted = default.filter(|default| default.len() == 1);
        let quoted = quoted.and_then(|default| tokens.string(default.start)?.parse().ok());
        let value = default.and_then(|default| self.number(default)).or(quoted);
        let is_none = default.is_none_or(|default| tokens.text_of(default) == "None");
        let kind = call.keyword("type").map_or("", |kind| tokens.text_of(kind));
        let is_integer = kind.to_lowercase().contains("int");
        if value.is_none() && !(is_none && is_integer) || kind == "float" || kind == "str" {
            return None;
        }
        let destination = call
            .keyword("dest")
            .and_then(|dest| tokens.string(dest.start));
        let name = destination.map_or_else(
            || longest.trim_start_matches('-').replace('-', "_"),
            str::to_string,
        );
        let by = match call.callee.ends_with("option") {
            true => CommandParser::Click,
            false => CommandParser::Argparse,
        };
        let choices = call.keyword("choices").map(|choices| self.choices(choices));
        let help = call
            .keyword("help")
            .and_then(|help| tokens.string(help.start));
        if help.is_some_and(learning_rate::is_only_for_it) {
            return None;
        }
        let typed = value.zip(default);
        let typed = typed.filter(|_| two_parsers::refuse(self.said, call, &options));
        let set = typed.and_then(|(value, default)| self.edited_default(&name, value, default));
        let argument = TextNumber {
            described: help.and_then(described),
            subcommand: self.subcommand(call),
            ..self.argument(
                call.at,
                by,
                name,
                options,
                value,
                choices.unwrap_or_default(),
            )
        };
        Some(match set {
            Some(set) => TextNumber { set, ..argument },
            None => argument,
        })
    }

    /// A default that is edited where it stands, since nobody can type its argument.
    fn edited_default(&self, name: &str, value: u64, default: &TokenRange) -> Option<TextSetting> {
        let token = self.said.tokens.all.get(default.start)?;
        Some(TextSetting::Constant(SourceNumber {
            file: self.source.path.clone(),
            crc: 0,
            line: token.line,
            column: token.column,
            name: name.into(),
            kind: SourceNumberKind::Declared,
            value,
        }))
    }

    /// `--batch-size=<int>  batch size [default: 32]`.
    fn of_usage(&self, one: &UsageOption) -> Option<TextNumber> {
        let value = python_number(&one.default)?;
        let longest = one.names.iter().max_by_key(|name| name.len())?;
        let name = longest.trim_start_matches('-').replace('-', "_");
        let (by, names) = (CommandParser::Docopt, one.names.clone());
        Some(TextNumber {
            line: one.line,
            described: described(&one.help),
            ..self.argument(one.token, by, name, names, Some(value), Vec::new())
        })
    }

    /// The subcommand whose parser is told of an option: `train = commands.add_parser("train")`.
    fn subcommand(&self, call: &CallSite<'t>) -> Option<String> {
        let owner = places::owner(call)?;
        let inside = self.said.enclosing(call.at).function;
        let mut made = self.said.calls.iter().filter(|one| {
            one.name() == "add_parser"
                && self.said.target_of(one) == Some(owner)
                && self.said.enclosing(one.at).function == inside
        });
        // One name for several of them says nothing.
        let one = made.next().filter(|_| made.next().is_none())?;
        let name = one.positional.first()?;
        self.said.tokens.string(name.start).map(String::from)
    }

    /// `flags.DEFINE_integer("batch", 64, "help")`.
    fn of_flag(&self, call: &CallSite<'t>) -> Option<TextNumber> {
        let tokens = &self.said.tokens;
        let part = |place: usize, name: &str| call.keyword(name).or(call.positional.get(place));
        let name = tokens.string(part(0, "name")?.start)?;
        let value = part(1, "default").and_then(|default| self.number(default));
        let help = part(2, "help").and_then(|help| tokens.string(help.start));
        let options = vec![CommandParser::Absl.option(name)];
        Some(TextNumber {
            described: help.and_then(described),
            ..self.argument(
                call.at,
                CommandParser::Absl,
                name.into(),
                options,
                value,
                Vec::new(),
            )
        })
    }

    /// The parameters of a function that is looked for by its name, or of a class.
    fn of_callable(&self, name: Option<&str>, parser: CommandParser, found: &mut Vec<TextNumber>) {
        let Some(name) = name else { return };
        for (source, said) in self.sources {
            let reader = ArgumentReader {
                source,
                said,
                sources: self.sources,
            };
            let functions = said.functions.iter().filter(|function| {
                let inside = said.enclosing(function.at);
                let is_made = function.name == "__init__" && inside.class == Some(name);
                is_made || function.name == name && inside.class.is_none()
            });
            for function in functions {
                reader.of_function(function, parser, found);
            }
        }
    }

    fn of_function(
        &self,
        function: &FunctionHead<'t>,
        parser: CommandParser,
        found: &mut Vec<TextNumber>,
    ) {
        for parameter in &function.parameters {
            let Some(default) = &parameter.default else {
                continue;
            };
            let declared = self.said.first_call(default);
            let declared = declared.filter(|call| matches!(call.name(), "Option" | "Argument"));
            let value = match declared {
                Some(call) => call.positional.first().or(call.keyword("default")),
                None => Some(default),
            };
            let Some(number) = value.and_then(|value| self.number(value)) else {
                continue;
            };
            let options = vec![parser.option(parameter.name)];
            let name = parameter.name.to_string();
            let line = default.start;
            found.push(self.argument(line, parser, name, options, Some(number), Vec::new()));
        }
    }

    /// `@parser.wrap() def train(config: TrainConfig)`: the fields of what the first parameter is.
    fn of_wrapped(&self, function: &FunctionHead<'t>, found: &mut Vec<TextNumber>) {
        let first = function.parameters.first();
        let annotation = first.and_then(|parameter| parameter.annotation.as_ref());
        let name = annotation.map(|annotation| self.said.tokens.text_of(annotation));
        let name = name.map(|name| name.rsplit('.').next().unwrap_or(name));
        self.fields_of(self.class(name), CommandParser::Fields, "", 0, found);
    }

    /// Classes that a parser is made of, as they are named among what it is given.
    fn names_in(&self, call: &CallSite<'t>) -> Vec<&'t str> {
        let tokens = &self.said.tokens;
        let inside = call.at + 1..call.end;
        let names = inside.filter(|at| tokens.is_name(*at) && !tokens.is_operator(at + 1, "="));
        names.map(|at| tokens.text(at)).take(16).collect()
    }

    fn class(&self, name: Option<&str>) -> Option<(&'a ReadSource<'a, 't>, &'a ClassHead<'t>)> {
        let name = name?;
        let mut all = self.sources.iter().flat_map(|read| {
            let classes = read.1.classes.iter();
            classes.map(move |class| (read, class))
        });
        all.find(|(_, class)| class.name == name)
    }

    /// The numbers of a library's class that a parser is given, as such or as what a class of the program is made from; not
    /// those that the program's own class sets.
    fn fields_of_library(&self, call: &CallSite<'t>, name: &str, found: &mut Vec<TextNumber>) {
        let is_own = |name: &str| self.class(Some(name)).is_some();
        // A class of the program's own that is called like the library's is not made from itself.
        let mut names = vec![(name, is_own(name))];
        for at in 0..DEEPEST_FIELD {
            let Some((name, true)) = names.get(at).copied() else {
                continue;
            };
            let class = self.class(Some(name));
            let bases = class.map_or(&[][..], |(_, class)| class.bases.as_slice());
            let bases = bases
                .iter()
                .map(|base| base.rsplit('.').next().unwrap_or(base));
            names.extend(bases.map(|base| (base, base != name && is_own(base))));
        }
        let is_librarys = |known: &&LibraryFields| {
            let mut foreign = names.iter().filter(|(_, is_own)| !is_own);
            foreign.any(|(name, _)| is_one(&known.classes, name))
        };
        let known = spellings().library_fields.iter().find(is_librarys);
        for (field, number) in known.into_iter().flat_map(|known| &known.numbers) {
            if found.iter().all(|one| one.name() != field) {
                let options = vec![CommandParser::Argparse.option(field)];
                let by = CommandParser::Argparse;
                let (name, number) = (field.clone(), Some(*number));
                found.push(self.argument(call.at, by, name, options, number, Vec::new()));
            }
        }
    }

    /// The numbers among a class's fields, and among those of the classes that its fields are of.
    fn fields_of(
        &self,
        class: Option<(&'a ReadSource<'a, 't>, &'a ClassHead<'t>)>,
        parser: CommandParser,
        prefix: &str,
        depth: usize,
        found: &mut Vec<TextNumber>,
    ) {
        let Some(((source, said), class)) = class.filter(|_| depth < DEEPEST_FIELD) else {
            return;
        };
        let reader = ArgumentReader {
            source,
            said,
            sources: self.sources,
        };
        for base in &class.bases {
            self.fields_of(self.class(Some(base)), parser, prefix, depth + 1, found);
        }
        for field in &said.assigned {
            let inside = said.enclosing(field.at);
            let Some(annotation) = &field.annotation else {
                continue;
            };
            if inside.class != Some(class.name) || inside.function.is_some() {
                continue;
            }
            let name = format!("{prefix}{}", field.target);
            if let Some(value) = reader.field_number(&field.value) {
                let options = vec![parser.option(&name)];
                found.push(reader.argument(
                    field.at,
                    parser,
                    name,
                    options,
                    Some(value),
                    Vec::new(),
                ));
                continue;
            }
            let of_field = reader.class(Some(said.tokens.text_of(annotation)));
            let below = match parser {
                CommandParser::Tyro | CommandParser::Fields | CommandParser::Hydra => {
                    format!("{name}.")
                }
                CommandParser::Argparse
                | CommandParser::Click
                | CommandParser::Absl
                | CommandParser::Fire
                | CommandParser::Docopt
                | CommandParser::Place
                | CommandParser::Typer => prefix.to_string(),
            };
            reader.fields_of(of_field, parser, &below, depth + 1, found);
        }
    }

    /// `64`, `field(default=64)`.
    fn field_number(&self, value: &TokenRange) -> Option<u64> {
        let declared = self.said.first_call(value);
        let default = declared.and_then(|call| call.keyword("default").or(call.positional.first()));
        match declared {
            Some(call) if call.end + 1 == value.end => self.number(default?),
            _ => self.number(value),
        }
    }

    /// A number as it is written, or that a name of this file stands for.
    fn number(&self, value: &TokenRange) -> Option<u64> {
        let tokens = &self.said.tokens;
        if value.len() == 1 && tokens.is_name(value.start) {
            let name = tokens.text(value.start);
            let mut set = self.said.assigned.iter().filter(|one| one.target == name);
            let one = set.next().filter(|_| set.next().is_none())?;
            return python_number(tokens.text_of(&one.value));
        }
        python_number(tokens.text_of(value))
    }

    fn choices(&self, choices: &TokenRange) -> Vec<u64> {
        let tokens = &self.said.tokens;
        if !tokens.is_operator(choices.start, "[") && !tokens.is_operator(choices.start, "(") {
            return Vec::new();
        }
        let parts = tokens.parts(choices.start).into_iter().take(MOST_CHOICES);
        parts.filter_map(|part| self.number(&part)).collect()
    }

    fn argument(
        &self,
        at: usize,
        by: CommandParser,
        name: String,
        options: Vec<String>,
        value: Option<u64>,
        choices: Vec<u64>,
    ) -> TextNumber {
        let tokens = &self.said.tokens;
        // The line of the option's own word, where one looks for it.
        let shown = options.iter().map(|option| option.trim_end_matches('='));
        let shown: Vec<&str> = shown.collect();
        let line = tokens.all.get(at).map_or(0, |token| token.line);
        let is_word = |at: &usize| tokens.string(*at).is_some_and(|word| shown.contains(&word));
        let of_word = (at..tokens.after(at)).find(is_word);
        TextNumber {
            line: of_word
                .and_then(|at| Some(tokens.all.get(at)?.line))
                .unwrap_or(line),
            set: TextSetting::Argument(ParsedNumber {
                name,
                options,
                value: value.unwrap_or(0),
                default: value,
                choices,
                typed: false,
                reads_command: true,
                by: by.name().into(),
            }),
            file: self.source.path.clone(),
            role: self.source.role,
            described: None,
            is_overwritten: false,
            is_weak: false,
            is_of_made_file: false,
            is_of_chain: false,
            is_of_loader: false,
            fixed: None,
            conditions: branches::around(self.said, at),
            subcommand: None,
            place: None,
        }
    }
}
