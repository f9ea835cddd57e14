//! The files that hydra's config is composed of: what the script is told to read, and what the lists of defaults in these files
//! name in turn, each with the package that its settings belong to.
//!
//! As hydra has it since its first release: a group in a list is below the group of the file that has the list, or absolute
//! behind a slash; a package is below that of the file that has the list, and `_global_` begins anew. Before that release
//! `config_path` named the one file, and a group's file said itself where its settings belong. Nothing is read here.

use super::statements::{SourceStatements, TokenRange};
use crate::recognize::config_formats::settings_of;

/// Files of one config, and how deep a list may be below another.
const MOST_FILES: usize = 64;
const DEEPEST: usize = 8;

/// What hydra is told to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HydraConfig {
    /// Below where `root` says.
    pub directory: String,
    pub root: ConfigRoot,
    /// A directory of the command's that may have its files as well, below the working directory.
    pub added: Option<String>,
    pub name: String,
    /// Before its first release `config_path` named the file, and a group's file said itself where its settings belong.
    pub is_early: bool,
}

/// What a config's directory is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigRoot {
    /// The source's own directory.
    Source,
    /// A directory that the program has a name for: `PROJECT_ROOT / "conf"`.
    Project,
}

/// A file of a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HydraFile {
    /// Below the config's directory, without its ending: `data/mnist`.
    pub name: String,
    /// What precedes the names of its settings: `data.`, or nothing.
    pub prefix: String,
}

/// What a source tells hydra to read, and the command's words in place of it (`--config-name`, `--config-path`).
pub(crate) fn hydra_config(source: &str, words: &[&str]) -> Option<HydraConfig> {
    let said = SourceStatements::new(source);
    let text = |range: Option<&TokenRange>| Some(said.tokens.string(range?.start)?.to_string());
    let mut calls = said.calls.iter();
    calls.find_map(|call| {
        let is_main = call.callee == "hydra.main"
            || call.callee.ends_with(".hydra.main")
            // NeMo's own name of it.
            || call.name() == "hydra_runner";
        let directory = call.keyword("config_path").or(call.positional.first());
        let directory = directory.and_then(|part| directory_of(&said, part));
        let (root, directory) = directory.unzip();
        let name = text(call.keyword("config_name").or(call.positional.get(1)));
        is_main.then_some(())?;
        let name = typed(words, ["--config-name", "-cn"]).or(name);
        let (root, directory) = match (typed(words, ["--config-path", "-cp"]), directory) {
            (Some(typed), _) => (ConfigRoot::Source, typed),
            (None, directory) => (
                root.unwrap_or(ConfigRoot::Source),
                directory.unwrap_or_default(),
            ),
        };
        let added = typed(words, ["--config-dir", "-cd"]);
        match (name, directory.rsplit_once('/')) {
            (Some(name), _) => Some(HydraConfig {
                directory,
                root,
                added,
                name,
                is_early: false,
            }),
            (None, split) if directory.ends_with(".yaml") => {
                let (before, name) = split.unwrap_or(("", &directory));
                Some(HydraConfig {
                    directory: before.into(),
                    root,
                    added,
                    name: name.into(),
                    is_early: true,
                })
            }
            (None, _) => None,
        }
    })
}

/// A directory beside the source, as it is written or made of `__file__`: `str(Path(__file__).parent.joinpath("a", "b"))`,
/// `os.path.join(os.path.dirname(__file__), "conf")`; or below what has a name.
fn directory_of(said: &SourceStatements<'_>, part: &TokenRange) -> Option<(ConfigRoot, String)> {
    let tokens = &said.tokens;
    if part.len() == 1 {
        let written = tokens.string(part.start)?;
        return Some((ConfigRoot::Source, written.into()));
    }
    if let Some(below) = below_a_name(said, part) {
        return Some((ConfigRoot::Project, below.into()));
    }
    let is_of_file = part.clone().any(|at| tokens.text(at) == "__file__");
    let is_up = |at: &usize| matches!(tokens.text(*at), "parent" | "dirname");
    let up = part.clone().filter(is_up).count();
    if !is_of_file || up == 0 {
        return None;
    }
    let above = (1..up).map(|_| "..".to_string());
    let below = part
        .clone()
        .filter_map(|at| tokens.string(at).map(String::from));
    let parts: Vec<String> = above.chain(below).collect();
    Some((ConfigRoot::Source, parts.join("/")))
}

/// `str(PROJECT_ROOT / "conf")`, `ROOT / "conf"`.
fn below_a_name<'t>(said: &SourceStatements<'t>, part: &TokenRange) -> Option<&'t str> {
    let tokens = &said.tokens;
    let is_text = tokens.text(part.start) == "str" && tokens.is_operator(part.start + 1, "(");
    let (from, end) = match is_text {
        true => (part.start + 2, part.end - 1),
        false => (part.start, part.end),
    };
    let is_it = tokens.is_name(from)
        && tokens.text(from) != "__file__"
        && tokens.is_operator(from + 1, "/")
        && from + 3 == end;
    tokens.string(from + 2).filter(|_| is_it)
}

/// The last value of an option of hydra's own.
fn typed(words: &[&str], names: [&str; 2]) -> Option<String> {
    let mut found = None;
    for (at, word) in words.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (*word, words.get(at + 1).copied()),
        };
        if names.contains(&name) {
            found = value.map(String::from);
        }
    }
    found
}

/// The files of a config in the order in which hydra lays them over each other: the last one that has a setting counts.
/// `words` are the command's, and `read` has the text of a file by its name.
pub(crate) fn hydra_files(
    config: &HydraConfig,
    words: &[&str],
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<HydraFile> {
    let typed = words.iter().filter_map(|word| {
        let (group, option) = word.split_once('=')?;
        let group = group.trim_start_matches('+').split('@').next()?;
        Some((group.to_string(), option.to_string()))
    });
    let mut composer = Composer {
        is_early: config.is_early,
        read,
        // The last word of a group counts.
        chosen: typed.collect::<Vec<_>>().into_iter().rev().collect(),
        files: Vec::new(),
    };
    let main = config.name.trim_end_matches(".yaml");
    let added = words.iter().filter_map(|word| {
        let (group, option) = word.strip_prefix('+')?.split_once('=')?;
        let group = group.trim_start_matches('+');
        is_option(option).then(|| DefaultsEntry {
            group: Some(format!("/{group}")),
            option: option.into(),
            package: None,
        })
    });
    let added: Vec<DefaultsEntry> = added.collect();
    // What a list overrides may stand in a list that was looked at before: once more with what is known by then.
    for _ in 0..3 {
        let known = composer.chosen.len();
        composer.files.clear();
        composer.visit(main, "", "", None, 0);
        for entry in &added {
            composer.follow(entry, "", "", 0);
        }
        if composer.chosen.len() == known {
            break;
        }
    }
    composer.files
}

/// An entry of a list of defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DefaultsEntry {
    /// None for a file of the same group: `- base`.
    group: Option<String>,
    option: String,
    /// Behind an `@`.
    package: Option<String>,
}

struct Composer<'r> {
    is_early: bool,
    read: &'r dyn Fn(&str) -> Option<String>,
    /// Groups by their whole paths, and which option of them; the first one counts.
    chosen: Vec<(String, String)>,
    files: Vec<HydraFile>,
}

impl Composer<'_> {
    /// Takes in a file and what its list names. `own_package` is what the list that names it says of its package.
    fn visit(
        &mut self,
        name: &str,
        group: &str,
        parent_package: &str,
        own_package: Option<&str>,
        depth: usize,
    ) {
        if depth > DEEPEST || self.files.len() >= MOST_FILES {
            return;
        }
        let Some(text) = (self.read)(name) else {
            return;
        };
        let header = header(&text).map(|package| package.replace("_group_", &dotted(group)));
        let own = header.as_deref().or(own_package).unwrap_or_default();
        let package = match self.is_early {
            true => String::new(),
            false => package(parent_package, own),
        };
        let own_file = HydraFile {
            name: name.into(),
            prefix: match package.is_empty() {
                true => String::new(),
                false => format!("{package}."),
            },
        };
        let (overrides, entries) = defaults(&text);
        for entry in overrides {
            let Some(of_entry) = &entry.group else {
                continue;
            };
            let path = path(group, of_entry);
            if !self.chosen.iter().any(|(known, _)| *known == path) {
                self.chosen.push((path, entry.option));
            }
        }
        let mut own_file = Some(own_file);
        for entry in entries {
            if entry.group.is_none() && entry.option == "_self_" {
                self.files.extend(own_file.take());
                continue;
            }
            self.follow(&entry, group, &package, depth);
        }
        self.files.extend(own_file);
    }

    fn follow(&mut self, entry: &DefaultsEntry, group: &str, package: &str, depth: usize) {
        let Some(of_entry) = &entry.group else {
            let name = path(group, &entry.option);
            self.visit(&name, group, package, entry.package.as_deref(), depth + 1);
            return;
        };
        let whole = path(group, of_entry);
        let chosen = self.chosen.iter().find(|(known, _)| *known == whole);
        let option = chosen.map_or(entry.option.clone(), |(_, option)| option.clone());
        if !is_option(&option) {
            return;
        }
        let by_group = dotted(of_entry.trim_start_matches('/'));
        let own = entry.package.clone().unwrap_or(by_group);
        let name = format!("{whole}/{}", option.trim_end_matches(".yaml"));
        self.visit(&name, &whole, package, Some(&own), depth + 1);
    }
}

/// Whether an option of a group is one file.
fn is_option(option: &str) -> bool {
    let is_other = matches!(option, "null" | "~" | "???") || option.contains(['$', '[', '?']);
    !option.is_empty() && !is_other
}

/// The whole path of a group or a file that a list of `group` names.
fn path(group: &str, named: &str) -> String {
    match named.strip_prefix('/') {
        Some(absolute) => absolute.into(),
        None if group.is_empty() => named.into(),
        None => format!("{group}/{named}"),
    }
}

fn dotted(group: &str) -> String {
    group.replace('/', ".")
}

/// A package below another one; what precedes `_global_` is left.
fn package(parent: &str, own: &str) -> String {
    let own = match own {
        "_here_" => "",
        own => own,
    };
    let whole = match (parent.is_empty(), own.is_empty()) {
        (true, _) => own.to_string(),
        (false, true) => parent.to_string(),
        (false, false) => format!("{parent}.{own}"),
    };
    match whole.rfind("_global_") {
        Some(at) => whole[at + "_global_".len()..]
            .trim_start_matches('.')
            .into(),
        None => whole,
    }
}

/// What a file says of its own package: `# @package _global_`.
fn header(text: &str) -> Option<&str> {
    let comments = text.lines().map(str::trim);
    let mut comments = comments.take_while(|line| line.is_empty() || line.starts_with('#'));
    comments.find_map(|line| {
        let said = line.trim_start_matches('#').trim_start();
        let package = said.strip_prefix("@package")?.trim();
        Some(package.trim_start_matches(':').trim()).filter(|package| !package.is_empty())
    })
}

/// What a file's list of defaults overrides, and what it names.
fn defaults(text: &str) -> (Vec<DefaultsEntry>, Vec<DefaultsEntry>) {
    let Ok(settings) = settings_of("yaml", text) else {
        return Default::default();
    };
    let (mut overrides, mut named) = (Vec::new(), Vec::new());
    for setting in &settings.all {
        let Some(place) = setting.name.strip_prefix("defaults.") else {
            continue;
        };
        let option = text.get(setting.from..setting.to).unwrap_or_default();
        let option = option.trim_matches(['"', '\'']);
        let Some((_, group)) = place.split_once('.') else {
            named.extend(is_option(option).then(|| {
                let (option, package) = parted(option.trim_end_matches(".yaml"));
                DefaultsEntry {
                    group: None,
                    option,
                    package,
                }
            }));
            continue;
        };
        let is_override = group.starts_with("override ");
        let group = group.trim_start_matches("override ").trim_start();
        let (group, package) = parted(group.trim_start_matches("optional ").trim_start());
        let entry = DefaultsEntry {
            group: Some(group),
            option: option.into(),
            package,
        };
        match is_override {
            true => overrides.push(entry),
            false => named.push(entry),
        }
    }
    (overrides, named)
}

/// What stands before an `@`, and behind it.
fn parted(word: &str) -> (String, Option<String>) {
    match word.split_once('@') {
        Some((word, package)) => (word.into(), Some(package.into())),
        None => (word.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a config whose texts are given by name, as `name>prefix`.
    fn composed(files: &[(&str, &str)], words: &[&str]) -> Vec<String> {
        let config = HydraConfig {
            directory: "conf".into(),
            root: ConfigRoot::Source,
            added: None,
            name: "config".into(),
            is_early: false,
        };
        let read = |name: &str| {
            let mut files = files.iter();
            files.find_map(|(known, text)| (*known == name).then(|| text.to_string()))
        };
        let files = hydra_files(&config, words, &read);
        let shown = files
            .iter()
            .map(|file| format!("{}>{}", file.name, file.prefix));
        shown.collect()
    }

    #[test]
    fn a_directory_may_be_made_of_the_sources_own_place() {
        for (written, wanted) in [
            ("\"conf\"", Some("conf")),
            (
                "str(pathlib.Path(__file__).parent.joinpath('a', 'conf'))",
                Some("a/conf"),
            ),
            (
                "os.path.join(os.path.dirname(os.path.dirname(__file__)), 'conf')",
                Some("../conf"),
            ),
            ("os.environ['CONF'] + '/x'", None),
        ] {
            let source = format!(
                "@hydra.main(config_path={written}, config_name='c')\ndef main(cfg): pass\n"
            );
            let found = hydra_config(&source, &[]).map(|config| config.directory);
            assert_eq!(found.as_deref(), wanted.or(Some("")), "{written}");
        }
    }

    #[test]
    fn a_directory_may_be_below_what_the_program_has_a_name_for() {
        for (written, wanted) in [
            ("str(PROJECT_ROOT / 'conf')", (ConfigRoot::Project, "conf")),
            ("ROOT / 'a/conf'", (ConfigRoot::Project, "a/conf")),
            ("'conf'", (ConfigRoot::Source, "conf")),
        ] {
            let source = format!(
                "@hydra.main(config_path={written}, config_name='c')\ndef main(cfg): pass\n"
            );
            let config = hydra_config(&source, &[]).unwrap();
            assert_eq!((config.root, config.directory.as_str()), wanted);
            // A word of the command's is below the source again.
            let config = hydra_config(&source, &["--config-path=other"]).unwrap();
            assert_eq!(config.root, ConfigRoot::Source);
        }
    }

    #[test]
    fn a_script_says_which_config_it_reads() {
        let script =
            "@hydra.main(config_path='../conf', config_name='train.yaml')\ndef main(c): pass\n";
        assert_eq!(
            hydra_config(script, &[]),
            Some(HydraConfig {
                directory: "../conf".into(),
                root: ConfigRoot::Source,
                added: None,
                name: "train.yaml".into(),
                is_early: false
            })
        );
        assert_eq!(
            hydra_config(
                "@hydra.main(config_path='config/train.yaml', strict=True)\n",
                &[]
            ),
            Some(HydraConfig {
                directory: "config".into(),
                root: ConfigRoot::Source,
                added: None,
                name: "train.yaml".into(),
                is_early: true
            })
        );
    }

    #[test]
    fn the_commands_words_go_before_what_the_program_says() {
        let script = "@hydra.main(config_path='conf', config_name='config')\ndef main(c): pass\n";
        let read = |words: &[&str]| {
            let config = hydra_config(script, words).unwrap();
            (config.directory, config.name, config.added)
        };
        let said = |directory: &str, name: &str, added: Option<&str>| {
            (directory.into(), name.into(), added.map(String::from))
        };
        assert_eq!(read(&["a=1"]), said("conf", "config", None));
        assert_eq!(
            read(&["--config-name=big", "a=1"]),
            said("conf", "big", None)
        );
        assert_eq!(
            read(&["-cp", "other", "-cn", "big"]),
            said("other", "big", None)
        );
        assert_eq!(
            read(&["--config-dir", "mine"]),
            said("conf", "config", Some("mine"))
        );
        let unnamed = "@hydra.main(config_path='conf')\ndef main(c): pass\n";
        assert!(hydra_config(unnamed, &[]).is_none());
        assert!(hydra_config(unnamed, &["-cn", "big"]).is_some());
    }

    #[test]
    fn groups_are_of_their_own_package_and_may_be_chosen_by_a_word() {
        let files = [
            (
                "config",
                "defaults:\n  - _self_\n  - data: mnist\n  - logger: null\n  - optional local: here\nseed: 1\n",
            ),
            ("data/mnist", "batch_size: 128\n"),
            ("data/cifar", "batch_size: 64\n"),
        ];
        assert_eq!(composed(&files, &[]), ["config>", "data/mnist>data."]);
        assert_eq!(
            composed(&files, &["data=cifar"]),
            ["config>", "data/cifar>data."]
        );
        assert_eq!(
            composed(&[("config", "a: 1\n"), ("x/big", "b: 2\n")], &["+x=big"]),
            ["config>", "x/big>x."]
        );
    }

    #[test]
    fn a_list_of_a_list_is_followed_and_an_override_counts_wherever_it_stands() {
        let files = [
            ("config", "defaults:\n  - base: one\n  - recipe: small\n"),
            ("base/one", "# @package _global_\ndefaults:\n  - two\n"),
            (
                "base/two",
                "# @package _global_\ndefaults:\n  - /loader: default\n  - /task@other: plain\n",
            ),
            (
                "recipe/small",
                "# @package _global_\ndefaults:\n  - override /loader: long\n",
            ),
            ("loader/default", "batch_size: 50\n"),
            ("loader/long", "batch_size: 8\n"),
            ("task/plain", "batch_size: 3\n"),
        ];
        assert_eq!(
            composed(&files, &[]),
            [
                "loader/long>loader.",
                "task/plain>other.",
                "base/two>",
                "base/one>",
                "recipe/small>",
                "config>"
            ]
        );
        // A word goes before what a list overrides.
        assert!(
            composed(&files, &["loader=default"]).contains(&"loader/default>loader.".to_string())
        );
    }

    #[test]
    fn a_group_below_another_is_of_a_package_below_its_package_and_a_circle_ends() {
        let files = [
            ("config", "defaults:\n  - server: apache\n"),
            ("server/apache", "defaults:\n  - db: mysql\n  - apache\n"),
            ("server/db/mysql", "size: 2\n"),
        ];
        let all = composed(&files, &[]);
        assert_eq!(
            all.first().map(String::as_str),
            Some("server/db/mysql>server.db.")
        );
    }
}
