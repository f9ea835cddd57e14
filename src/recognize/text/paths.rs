//! The files of settings that a program's text names: an option's default, a path that is written down, and one that is made of
//! what options say. Which of them there are is looked up elsewhere.

use super::statements::{CallSite, SourceStatements, TokenRange};
use crate::recognize::config_formats::SETTINGS_FILES;
use crate::recognize::spellings::{is_one, spellings};

/// How deep a part of a path may be inside of others.
const DEEPEST: usize = 4;

/// The words that stand by themselves in a call: an option's names, where it declares one.
fn words_of<'s>(
    said: &'s SourceStatements<'_>,
    call: &'s CallSite<'_>,
) -> impl Iterator<Item = &'s str> + 's {
    let positional = call.positional.iter();
    positional.filter_map(|part| said.tokens.string(part.start))
}

/// Options whose defaults are files of settings: the option and the file.
pub(crate) fn default_files(source: &str) -> Vec<(Vec<String>, String)> {
    let said = SourceStatements::new(source);
    let calls = said.calls.iter().filter_map(|call| {
        let words = words_of(&said, call);
        let options: Vec<String> = words.map(String::from).collect();
        let names_config = |option: &String| is_one(&spellings().config_files, option);
        let file = said.tokens.string(call.keyword("default")?.start)?;
        let is_settings = SETTINGS_FILES.iter().any(|ending| file.ends_with(ending));
        (is_settings && options.iter().any(names_config)).then(|| (options, file.to_string()))
    });
    calls.take(4).collect()
}

/// What an option of a file with hyperparameters is called, beside those of configs.
const HYPERPARAMETERS: [&str; 4] = ["--hp", "--hp-file", "--hparams", "--hparams-file"];

/// Options of settings whose defaults are Python files: the option and the file.
pub(crate) fn default_modules(source: &str) -> Vec<(Vec<String>, String)> {
    let said = SourceStatements::new(source);
    let calls = said.calls.iter().filter_map(|call| {
        let options: Vec<String> = words_of(&said, call).map(String::from).collect();
        let file = said.tokens.string(call.keyword("default")?.start)?;
        let names_settings = |option: &String| {
            let is_hyper = HYPERPARAMETERS.contains(&option.replace('_', "-").as_str());
            is_hyper || is_one(&spellings().config_files, option)
        };
        (options.iter().any(names_settings) && file.ends_with(".py"))
            .then(|| (options, file.to_string()))
    });
    calls.take(4).collect()
}

/// A part of a path that a program makes: as it is written, or what an option says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathPart {
    Written(String),
    /// The attribute: `config` of `args.config`.
    Option(String),
}

/// The files of settings whose paths a source makes of what is written and of what options say: `args.folder + "/config.yaml"`,
/// `"config/" + args.config`, `os.path.join("configs", args.config)`, `os.path.join(args.folder, args.dataset + ".json")`.
pub(crate) fn made_files(source: &str) -> Vec<Vec<PathPart>> {
    let said = SourceStatements::new(source);
    let tokens = &said.tokens;
    let joined = said.calls.iter().filter(|call| call.name() == "join");
    let joined = joined.filter_map(|call| path_of(&said, &call_range(&said, call.at, call.end), 0));
    let added = (2..tokens.all.len()).filter(|at| tokens.is_operator(*at - 1, "+"));
    let added = added.filter_map(|at| {
        let mut from = at - 2;
        while from >= 2 && tokens.is_operator(from - 1, ".") && tokens.is_name(from - 2) {
            from -= 2;
        }
        tokens.string(at)?.strip_prefix('/')?;
        path_of(&said, &(from..at + 1), 0)
    });
    // The other way round: `"config/" + args.config`, and what is added to that.
    let below = (2..tokens.all.len()).filter(|at| tokens.is_operator(*at - 1, "+"));
    let below = below.filter_map(|at| {
        tokens.string(at - 2)?.strip_suffix('/')?;
        let (_, mut end) = tokens.dotted(at, tokens.all.len())?;
        let is_added = tokens.is_operator(end, "+") && tokens.string(end + 1).is_some();
        end += if is_added { 2 } else { 0 };
        path_of(&said, &(at - 2..end), 0)
    });
    let names_settings = |parts: &Vec<PathPart>| {
        let is_asked = parts.iter().any(|part| matches!(part, PathPart::Option(_)));
        let is_settings = match parts.last() {
            Some(PathPart::Written(last)) => SETTINGS_FILES.iter().any(|end| last.ends_with(end)),
            Some(PathPart::Option(_)) => parts.len() <= 3,
            None => false,
        };
        is_asked && is_settings
    };
    let mut all: Vec<Vec<PathPart>> = Vec::new();
    for parts in joined.chain(added).chain(below).filter(names_settings) {
        if !all.contains(&parts) {
            all.push(parts);
        }
    }
    all.truncate(8);
    all
}

/// A call from its first name to its closing bracket.
fn call_range(said: &SourceStatements<'_>, at: usize, end: usize) -> TokenRange {
    let mut from = match said.tokens.is_operator(at, "(") {
        true => at.saturating_sub(1),
        false => at,
    };
    while from >= 2 && said.tokens.is_operator(from - 1, ".") && said.tokens.is_name(from - 2) {
        from -= 2;
    }
    from..end + 1
}

/// The parts of a path; `None` where one is neither written nor an option's.
fn path_of(said: &SourceStatements<'_>, range: &TokenRange, depth: usize) -> Option<Vec<PathPart>> {
    let tokens = &said.tokens;
    let level = tokens
        .all
        .get(range.start)
        .filter(|_| depth < DEEPEST)?
        .depth;
    let is_plus = |at: &usize| {
        tokens.is_operator(*at, "+") && tokens.all.get(*at).is_some_and(|one| one.depth == level)
    };
    let signs: Vec<usize> = range.clone().filter(is_plus).collect();
    let starts = std::iter::once(range.start).chain(signs.iter().map(|at| at + 1));
    let ends = signs.iter().copied().chain([range.end]);
    let mut parts = Vec::new();
    for (from, end) in starts.zip(ends) {
        if let Some(written) = tokens.string(from).filter(|_| end == from + 1) {
            parts.push(PathPart::Written(written.into()));
            continue;
        }
        let (dotted, behind) = tokens.dotted(from, end)?;
        let (_, attribute) = dotted.rsplit_once('.').unwrap_or(("", dotted));
        if behind == end {
            dotted.contains('.').then_some(())?;
            parts.push(PathPart::Option(attribute.into()));
            continue;
        }
        let mut calls = said.calls.iter();
        let call = calls.find(|call| (from..end).contains(&call.at) && call.end + 1 == end)?;
        if call.name() != "join" || !call.keywords.is_empty() || call.is_starred {
            return None;
        }
        for (place, part) in call.positional.iter().enumerate() {
            if place > 0 {
                parts.push(PathPart::Written("/".into()));
            }
            parts.extend(path_of(said, part, depth + 1)?);
        }
    }
    Some(parts)
}

/// Options that have words as their defaults: the attribute and the word.
pub(crate) fn default_words(source: &str) -> Vec<(String, String)> {
    let said = SourceStatements::new(source);
    let calls = said.calls.iter().filter_map(|call| {
        let words = words_of(&said, call);
        let longest = words
            .filter(|word| word.starts_with("--"))
            .max_by_key(|word| word.len())?;
        let default = call
            .keyword("default")
            .filter(|default| default.len() == 1)?;
        let default = said.tokens.string(default.start)?;
        let name = longest.trim_start_matches('-').replace('-', "_");
        Some((name, default.to_string()))
    });
    calls.collect()
}

/// The files of settings whose paths are written where a source calls something with them: `open("config.yaml")`. Not those
/// that are written to, nor an option's default.
pub(crate) fn written_files(source: &str) -> Vec<String> {
    let said = SourceStatements::new(source);
    let is_settings = |file: &&str| SETTINGS_FILES.iter().any(|ending| file.ends_with(ending));
    let is_mode_of_writing = |mode: &str| mode.starts_with(['w', 'a', 'x']);
    let files = said.calls.iter().filter_map(|call| {
        let first = call.positional.first().filter(|range| range.len() == 1)?;
        let file = said.tokens.string(first.start).filter(is_settings)?;
        let mode = call.positional.get(1).or(call.keyword("mode"));
        let mode = mode.and_then(|range| said.tokens.string(range.start));
        let is_read = !mode.is_some_and(is_mode_of_writing)
            && !matches!(
                call.name(),
                "add_argument" | "join" | "Argument" | "Option" | "option"
            );
        is_read.then(|| file.to_string())
    });
    files.take(8).collect()
}

/// The files of settings beside a source, whose paths it makes of its own place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilesBeside {
    /// Below the source's own directory.
    pub files: Vec<String>,
    /// Whether it reads no others of which only a run tells what they are called.
    pub is_alone: bool,
}

/// `os.path.join(os.path.dirname(__file__), "config", "default.yaml")`, `Path(__file__).parent / "config.yaml"`; also where a
/// name stands for the directory.
pub(crate) fn files_beside(source: &str) -> FilesBeside {
    // Few have one, and the rest need not be looked at.
    if !source.contains("__file__") && !source.contains("argv[0]") {
        return FilesBeside::default();
    }
    let said = SourceStatements::new(source);
    let tokens = &said.tokens;
    let joined = said.calls.iter().filter(|call| call.name() == "join");
    let joined = joined.filter_map(|call| {
        let (first, below) = call.positional.split_first()?;
        let written = below.iter().filter(|part| part.len() == 1);
        let written: Vec<&str> = written
            .filter_map(|part| tokens.string(part.start))
            .collect();
        let is_written = written.len() == below.len() && !written.is_empty();
        Some((own_directory(&said, first)?, written.join("/"))).filter(|_| is_written)
    });
    let divided = (2..tokens.all.len()).filter(|at| tokens.is_operator(*at - 1, "/"));
    let divided = divided.filter_map(|at| {
        let written = tokens.string(at)?;
        let line = tokens
            .statements
            .iter()
            .find(|line| line.tokens.contains(&at))?;
        // What stands before, up to a bracket or a sign that opens it.
        let is_open = |k: &usize| {
            tokens.is_operator(*k, "=") || tokens.is_operator(*k, ",") || is_bracket(&said, *k, at)
        };
        let from = (line.tokens.start..at - 1).rev().find(is_open);
        let from = from.map_or(line.tokens.start, |k| k + 1);
        Some((own_directory(&said, &(from..at - 1))?, written.to_string()))
    });
    let is_settings = |path: &str| SETTINGS_FILES.iter().any(|ending| path.ends_with(ending));
    let mut files: Vec<String> = joined
        .chain(divided)
        .map(|(up, below)| format!("{up}{below}"))
        .filter(|path| is_settings(path))
        .collect();
    files.dedup();
    files.truncate(4);
    // `"{}.yaml".format(name)`, `name + ".yaml"`.
    let is_made = |text: &str| is_settings(text) && (text.starts_with('.') || text.contains('{'));
    let mut all = (0..tokens.all.len()).filter_map(|at| tokens.string(at));
    FilesBeside {
        is_alone: !all.any(is_made),
        files,
    }
}

/// Whether a bracket opens at one token that is still open at another.
fn is_bracket(said: &SourceStatements<'_>, at: usize, behind: usize) -> bool {
    let tokens = &said.tokens;
    let opens = ["(", "[", "{"]
        .iter()
        .any(|sign| tokens.is_operator(at, sign));
    opens && tokens.after(at) > behind
}

/// What leads from a source's directory to the one that this value is, if it is made of the source's own place: nothing, `../`.
fn own_directory(said: &SourceStatements<'_>, value: &TokenRange) -> Option<String> {
    let tokens = &said.tokens;
    let is_of_source = |range: &TokenRange| {
        let mut all = range.clone();
        all.any(|at| tokens.text(at) == "__file__") || tokens.text_of(range).contains("argv[0]")
    };
    // A name that is set to nothing else.
    let named = || {
        let name = (value.len() == 1).then(|| tokens.text(value.start))?;
        let set = said.assigned.iter().filter(|one| one.target == name);
        let set: Vec<&TokenRange> = set.map(|one| &one.value).collect();
        let is_own = set.iter().all(|value| is_of_source(value));
        set.first().filter(|_| is_own).map(|value| (*value).clone())
    };
    let range = match is_of_source(value) {
        true => value.clone(),
        false => named()?,
    };
    let ups = range.filter(|at| matches!(tokens.text(*at), "parent" | "dirname"));
    let ups = ups.count().checked_sub(1)?;
    Some("../".repeat(ups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_source_is_found_by_its_own_place() {
        for (source, wanted, is_alone) in [
            (
                "with open(os.path.join(os.path.dirname(__file__), 'config', 'default.yaml')) as f: pass\n",
                "config/default.yaml",
                true,
            ),
            (
                "here = os.path.dirname(os.path.realpath(__file__))\npath = os.path.join(here, '../overall.yaml')\nother = os.path.join(here, 'of/' + model + '.yaml')\n",
                "../overall.yaml",
                false,
            ),
            (
                "all = yaml.safe_load((pathlib.Path(sys.argv[0]).parent / 'configs.yaml').read_text())\n",
                "configs.yaml",
                true,
            ),
            (
                "path = Path(__file__).resolve().parent.parent / 'a.toml'\nname = '{}.yaml'.format(a)\n",
                "../a.toml",
                false,
            ),
            ("path = ROOT / 'a.yaml'\nprint(__file__)\n", "", true),
            (
                "path = os.path.join(out, 'a.yaml')\nprint(__file__)\n",
                "",
                true,
            ),
        ] {
            let found = files_beside(source);
            assert_eq!(found.files.join(" "), wanted, "{source}");
            assert_eq!(found.is_alone, is_alone, "{source}");
        }
    }
}
