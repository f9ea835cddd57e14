//! The config files that a command names, and the settings in them.
//!
//! No I/O: the text was read by others ([`ConfigFile`]).

use super::argument::{Arguments, Name, Value, is_like};
use super::config_formats::{SETTINGS_FILES, settings_of};
use super::family;
use super::file_settings::FileSettings;
use super::launch::{ConfigFile, LaunchEnvironment};
use super::program::{InFile, ProgramEntry};
use super::python_config::python_bases;
use super::python_number::python_number;
use super::recognized::Recognized;
use super::spellings::{is_one, spellings};
use std::path::{Path, PathBuf};

/// A word of a command that names a config file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The index of the word.
    pub at: usize,
    /// The first byte of the name in it.
    pub from: usize,
    /// As typed.
    pub name: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundValue {
    /// Dotted.
    pub name: String,
    pub text: String,
    /// The byte range, without quotes.
    pub from: usize,
    pub to: usize,
    /// Whether it stands in a file that this one builds on, or is another setting's value: it can't be replaced here.
    pub is_elsewhere: bool,
}

/// The paths of the files that a config file says it builds on, relative to its own directory, and whether there are others.
pub fn named_bases(name: &Path, text: &str) -> (Vec<String>, bool) {
    if ending(name) == "py" {
        return python_bases(text);
    }
    let settings = settings_of(ending(name), text).unwrap_or_default();
    let is_base = |name: &str| {
        let key = name.split('.').next().unwrap_or(name);
        matches!(key, "_BASE_" | "_base_" | "__include__")
    };
    let (plain, others): (Vec<_>, Vec<_>) = (settings.all.iter())
        .filter(|setting| is_base(&setting.name))
        .partition(|setting| setting.is_plain);
    let written = plain.iter().filter_map(|one| text.get(one.from..one.to));
    let has_others = others.iter().any(|one| !text[one.from..].starts_with('['));
    (written.map(String::from).collect(), has_others)
}

fn ending(name: &Path) -> &str {
    name.extension().and_then(|e| e.to_str()).unwrap_or("")
}

/// What one file says of a setting.
enum SettingHere {
    Value(FoundValue),
    /// The value of the setting of this name.
    Of(String),
    /// It isn't set, whatever the files say that it builds on (mmengine's `_delete_=True`).
    NotHere,
    Nothing {
        may_hide: bool,
    },
}

/// The only item of a list, which stands for it: `accum_count: [8]`.
fn only_item(settings: &FileSettings, name: &str) -> Option<String> {
    let has = |item: &str| settings.all.iter().any(|s| s.is_plain && s.name == item);
    let first = format!("{name}.0");
    (has(&first) && !settings.all.iter().any(|s| s.name == format!("{name}.1"))).then_some(first)
}

/// What the text of a file says of the setting of a dotted name, in which `*` stands for anything.
fn said_in(file: &Path, text: &str, name: &str) -> Result<SettingHere, String> {
    let settings = settings_of(ending(file), text)?;
    let item = only_item(&settings, name);
    let wanted = item.as_deref().unwrap_or(name);
    let mut named = settings.all.iter().filter(|s| is_like(&s.name, wanted));
    let one = match (named.next(), named.next()) {
        (None, _) => {
            let replaced = name.split_once('.').map(|(of, _)| format!("{of}._delete_"));
            let is_replaced = settings
                .all
                .iter()
                .any(|s| Some(&s.name) == replaced.as_ref());
            return Ok(match is_replaced {
                true => SettingHere::NotHere,
                false => SettingHere::Nothing {
                    may_hide: settings.may_hide,
                },
            });
        }
        (Some(_), Some(_)) => return Err("it appears more than once".into()),
        (Some(one), None) => one,
    };
    let written = text.get(one.from..one.to).ok_or("it isn't text")?;
    let is_python = ending(file) == "py";
    if one.is_plain {
        // Python computes `5 * 8`.
        let number = python_number(written).filter(|_| is_python);
        return Ok(SettingHere::Value(FoundValue {
            name: item.map_or_else(|| one.name.clone(), |_| name.to_string()),
            text: number.map_or_else(|| written.to_string(), |number| number.to_string()),
            from: one.from,
            to: one.to,
            is_elsewhere: false,
        }));
    }
    let other = written.strip_prefix("_base_.").unwrap_or(written);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let is_name = other.bytes().all(is_part)
        && other.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match is_python && is_name {
        true => Ok(SettingHere::Of(other.to_string())),
        false => Err("it isn't a plain value".into()),
    }
}

impl InFile {
    /// The batch of a program whose file says nothing of it.
    pub(super) fn default(&self) -> Option<FoundValue> {
        Some(FoundValue {
            name: self.batch.first()?.clone(),
            text: self.batch_default?.to_string(),
            from: 0,
            to: 0,
            is_elsewhere: true,
        })
    }
}

/// A setting whose value is another's, and so on.
const MOST_NAMES: usize = 4;

impl ConfigFile {
    /// The file name, for display.
    pub(crate) fn shown(&self) -> String {
        self.name
            .file_name()
            .unwrap_or(self.name.as_os_str())
            .to_string_lossy()
            .into_owned()
    }

    fn settings(&self) -> Result<FileSettings, String> {
        settings_of(ending(&self.name), &self.text)
    }

    /// Whether one of its settings is called like a batch.
    fn has_batch(&self) -> bool {
        let settings = self.settings().unwrap_or_default();
        let mut names = settings.all.iter();
        names.any(|setting| family::batch_level(&setting.name).is_some())
    }

    /// The dotted names of its settings; an error if they are unclear.
    pub(crate) fn names(&self) -> Result<Vec<String>, String> {
        let settings = self
            .settings()
            .map_err(|why| format!("{}: {why}", self.shown()))?;
        if settings.may_hide {
            return Err(format!("{}: another file may say more", self.shown()));
        }
        let of_list = |name: &str| {
            let list = name.strip_suffix(".0")?;
            only_item(&settings, list).map(|_| list.to_string())
        };
        let all = settings.all.iter();
        let mut names: Vec<String> = all
            .map(|setting| of_list(&setting.name).unwrap_or_else(|| setting.name.clone()))
            .collect();
        names.dedup();
        Ok(names)
    }

    /// The key with which it says that other files belong to it, if it does.
    pub(crate) fn builds_on(&self) -> Option<String> {
        let settings = self.settings().ok()?;
        let mut names = (settings.all.iter()).filter_map(|setting| setting.name.split('.').next());
        let found = names.find(|name| is_one(&spellings().includes, name));
        found.map(str::to_string)
    }

    /// The setting of a dotted name, in which `*` stands for anything; `None` if there is none. The
    /// error says why that is unclear.
    pub(crate) fn scalar(&self, name: &str) -> Result<Option<FoundValue>, String> {
        match self.scalar_anywhere(name)? {
            Some(found) if found.is_elsewhere => Err(format!(
                "{name} in {}: it isn't a plain value there",
                self.shown()
            )),
            found => Ok(found),
        }
    }

    /// The same where it need not be replaced: it may stand in a file that this one builds on, or be another's value.
    pub(crate) fn scalar_anywhere(&self, name: &str) -> Result<Option<FoundValue>, String> {
        self.look_for(name, MOST_NAMES)
            .map_err(|why| format!("{name} in {}: {why}", self.shown()))
    }

    /// In the file, and then in those that it builds on. `names` is how many settings may be the values of others.
    fn look_for(&self, name: &str, names: usize) -> Result<Option<FoundValue>, String> {
        let mut may_be_hidden = self.bases.has_others;
        let bases = self.bases.read.iter().map(|base| (&base.name, &base.text));
        for (at, (file, text)) in std::iter::once((&self.name, &self.text))
            .chain(bases)
            .enumerate()
        {
            match said_in(file, text, name)? {
                SettingHere::Value(found) => {
                    return Ok(Some(FoundValue {
                        is_elsewhere: at > 0,
                        ..found
                    }));
                }
                SettingHere::Of(other) if names > 0 => {
                    let found = self.look_for(&other, names - 1)?;
                    let found = found.ok_or("it isn't a plain value")?;
                    return Ok(Some(FoundValue {
                        name: name.to_string(),
                        is_elsewhere: true,
                        ..found
                    }));
                }
                SettingHere::Of(_) => return Err("it isn't a plain value".into()),
                SettingHere::NotHere => return Ok(None),
                SettingHere::Nothing { may_hide } => {
                    may_be_hidden |= may_hide && self.bases.read.is_empty();
                }
            }
        }
        match may_be_hidden {
            true => Err("another file may set it".into()),
            false => Ok(None),
        }
    }
}

impl Recognized<'_> {
    /// The files that the command names whose contents its remedies depend on.
    pub fn named_files(&self) -> Vec<NamedFile> {
        let arguments = self.arguments();
        let specs: Vec<&str> = match self.known {
            Some(entry) => entry.file.named.iter().map(String::as_str).collect(),
            None => of_no_entry().collect(),
        };
        let with_deepspeed = specs.iter().chain(&DEEPSPEED);
        let mut files: Vec<NamedFile> = with_deepspeed
            .flat_map(|spec| named_by(&arguments, spec))
            .collect();
        // Where a known program's own options name none, it may be another of the same name.
        if self.known.is_none() || files.is_empty() {
            files.extend(by_ending(&arguments));
        }
        files.extend(
            self.known
                .into_iter()
                .flat_map(|entry| by_name(&arguments, entry)),
        );
        files.sort_by_key(|file| (file.at, file.from));
        files.dedup();
        files
    }
}

impl Recognized<'_> {
    /// Whether an option for the config file names one that was not read.
    pub(crate) fn has_unread_config(&self) -> bool {
        let arguments = self.arguments();
        let specs: Vec<&str> = match self.known {
            Some(entry) => entry
                .file
                .named
                .iter()
                .chain(&entry.config)
                .map(String::as_str)
                .collect(),
            None => of_no_entry().collect(),
        };
        let options = specs.into_iter().filter(|spec| spec.starts_with('-'));
        let named: Vec<NamedFile> = options
            .flat_map(|spec| named_by(&arguments, spec))
            .collect();
        named.iter().any(|named| {
            let is_settings = SETTINGS_FILES
                .iter()
                .any(|ending| named.name.to_string_lossy().ends_with(ending));
            is_settings && read(named, &self.launch).is_none()
        })
    }
}

/// Options for the config file of DeepSpeed's engine.
pub(crate) const DEEPSPEED: [&str; 3] = ["--deepspeed_config", "--deepspeed", "--ds_config"];

/// Options for the config file of programs without an entry.
fn of_no_entry() -> impl Iterator<Item = &'static str> {
    spellings().config_files.iter().map(String::as_str)
}

fn named_by(arguments: &Arguments<'_>, spec: &str) -> Vec<NamedFile> {
    let file = |at: usize, from: usize, text: &str| NamedFile {
        at,
        from,
        name: PathBuf::from(text),
    };
    if spec.contains('*') {
        let tokens = arguments.tokens.iter().enumerate();
        return tokens
            .filter(|(k, token)| {
                !token.is_option()
                    && !token.text.contains('=')
                    && arguments.is_positional(*k)
                    && is_like(token.text, spec)
            })
            .map(|(_, token)| file(token.at, token.from, token.text))
            .collect();
    }
    let hits = arguments.find(Name::new(spec));
    let values = hits.iter().filter_map(|hit| hit.value);
    values
        .filter(|value| value.text.contains('.'))
        .map(|value| file(value.at, value.from, value.text))
        .collect()
}

/// The file that a known program finds by a name alone: `--config llama3_1/8B_lora`.
fn by_name(arguments: &Arguments<'_>, entry: &ProgramEntry) -> Vec<NamedFile> {
    let Some(pattern) = &entry.file.by_name else {
        return Vec::new();
    };
    let hits = entry.file.named.iter();
    let hits = hits.flat_map(|spec| arguments.find(Name::new(spec)));
    let values = hits.filter_map(|hit| hit.value);
    let values = values.filter(|value| !value.text.is_empty() && !value.text.contains(".y"));
    let named = values.map(|value| NamedFile {
        at: value.at,
        from: value.from,
        name: PathBuf::from(pattern.replace("{name}", value.text)),
    });
    named.collect()
}

/// Files of settings that a command names by an option of any name, or by none: `-t train.yaml`, `train.gin`.
fn by_ending(arguments: &Arguments<'_>) -> Vec<NamedFile> {
    let is_settings = |text: &str| SETTINGS_FILES.iter().any(|ending| text.ends_with(ending));
    let values = arguments.all().filter_map(|hit| hit.value);
    let tokens = arguments.tokens.iter().enumerate();
    let words = tokens.filter(|(k, token)| !token.is_option() && arguments.is_positional(*k));
    let words = words.map(|(_, token)| token.value());
    let named = values
        .chain(words)
        .filter(|value| is_settings(value.text))
        .map(behind_a_label);
    // The first words of a shell's own `NAME=VALUE` are no files.
    let named = named.filter(|value| !value.text.contains(['=', ',', ' ']));
    let mut files: Vec<NamedFile> = named
        .take(MOST_NAMED)
        .map(|value| NamedFile {
            at: value.at,
            from: value.from,
            name: PathBuf::from(value.text),
        })
        .collect();
    files.sort_by_key(|file| (file.at, file.from));
    files.dedup();
    files
}

/// The path of `app:apps/train.yml`; a letter alone is a drive of Windows.
fn behind_a_label(value: Value<'_>) -> Value<'_> {
    let is_label =
        |label: &str| label.len() > 1 && label.chars().all(|c| c.is_alphanumeric() || c == '_');
    match value
        .text
        .split_once(':')
        .filter(|(label, _)| is_label(label))
    {
        Some((label, text)) => Value {
            from: value.from + label.len() + 1,
            text,
            ..value
        },
        None => value,
    }
}

/// More files are not looked into.
const MOST_NAMED: usize = 16;

/// The file of a known program that sets what its command does not; `None` if several are named.
pub(crate) fn of_command<'c>(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    let by_path = only_of(
        arguments,
        entry.file.named.iter().map(String::as_str),
        launch,
    );
    by_path.or_else(|| {
        let named = by_name(arguments, entry);
        named.iter().find_map(|named| read(named, launch))
    })
}

/// The file of a program without an entry that sets what its command does not: the one that an option for it names, or else
/// the only one among those named in the command that has a batch; `None` if several do.
pub(crate) fn of_unknown<'c>(
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    let by_option = only_of(arguments, of_no_entry(), launch);
    if by_option.is_some_and(ConfigFile::has_batch) {
        return by_option;
    }
    let named = by_ending(arguments);
    let read = named.iter().filter_map(|named| read(named, launch));
    let with_batch: Vec<&ConfigFile> = read.filter(|file| file.has_batch()).collect();
    match with_batch.as_slice() {
        [one] => Some(one),
        _ => by_option,
    }
}

fn only_of<'c, 's>(
    arguments: &Arguments<'_>,
    specs: impl Iterator<Item = &'s str>,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    let named: Vec<NamedFile> = specs.flat_map(|spec| named_by(arguments, spec)).collect();
    let [one] = named.as_slice() else { return None };
    read(one, launch)
}

/// DeepSpeed's file, if the command names one and it was read.
pub(crate) fn of_deepspeed<'c>(
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    let mut named = DEEPSPEED.iter().flat_map(|spec| named_by(arguments, spec));
    named.find_map(|named| read(&named, launch))
}

fn read<'c>(named: &NamedFile, launch: &LaunchEnvironment<'c>) -> Option<&'c ConfigFile> {
    let mut files = launch.files.iter();
    files.find(|file| (file.at, file.from, &file.name) == (named.at, named.from, &named.name))
}

#[cfg(test)]
mod tests {
    use super::super::launch::{BaseFile, BaseFiles};
    use super::*;

    fn file(name: &str, text: &str) -> ConfigFile {
        ConfigFile {
            at: 0,
            from: 0,
            name: name.into(),
            text: text.into(),
            bases: BaseFiles::default(),
        }
    }

    fn found(file: &ConfigFile, name: &str) -> Option<String> {
        match file.scalar_anywhere(name) {
            Ok(Some(value)) => {
                let written = file.text.get(value.from..value.to).unwrap_or_default();
                let number = python_number(written).map(|number| number.to_string());
                let is_it = written == value.text || number.as_ref() == Some(&value.text);
                assert!(is_it || value.is_elsewhere, "{name}: {written}");
                Some(value.text)
            }
            Ok(None) => None,
            Err(why) => Some(format!("? {why}")),
        }
    }

    #[test]
    fn yaml_is_read_as_it_is_mostly_written() {
        let file = file(
            "a.yaml",
            concat!(
                "# one\n---\nmicro_batch_size: 4   # per GPU\n\"bf16\": auto\nname: 'x y'  # n\n",
                "train:\n  batch_size: 16\n  note: |\n    batch_size: 99\n    # text\n  lr: 1e-4\n",
                "datasets:\n- path: a\n  type: b:c\n- path: d\nlist:\n  - 1\n  - 2\n",
                "flow: {batch_size: 3,\n  more: 4}\nlong: this goes\n  on here\nbase: &x 3\nref: *x\nempty:\nlast: 7\nsingle: [5]\nalone:\n- 6\n",
            ),
        );
        for (name, value) in [
            ("micro_batch_size", Some("4")),
            ("bf16", Some("auto")),
            ("name", Some("x y")),
            ("train.batch_size", Some("16")),
            ("train.lr", Some("1e-4")),
            ("batch_size", None),
            ("datasets.0.type", Some("b:c")),
            ("datasets.1.path", Some("d")),
            ("list.1", Some("2")),
            ("last", Some("7")),
            ("flow.batch_size", Some("3")),
            ("empty", None),
            ("single", Some("5")),
            ("alone", Some("6")),
        ] {
            assert_eq!(found(&file, name).as_deref(), value, "{name}");
        }
        for name in ["long", "base", "ref", "flow", "train.note"] {
            assert!(found(&file, name).unwrap().starts_with('?'), "{name}");
        }
    }

    #[test]
    fn yaml_that_is_more_than_that_is_unclear() {
        for text in [
            "a: 1\n---\na: 2\n",
            "a: 1\n---\nb: 2\n---\na: 3\n",
            "a:\n\tb: 1\n",
            "a: \"one\n  two\"\n",
            "just words\n",
            "b: {x: 1\n",
        ] {
            assert!(file("a.yml", text).scalar("a").is_err(), "{text}");
        }
        let merged = file("a.yml", "<<: *base\nb: 1\n");
        assert!(merged.scalar("a").is_err());
        assert!(file("a.yml", "a: 1\na: 2\n").scalar("a").is_err());
    }

    #[test]
    fn a_file_whose_name_says_nothing_is_read_by_what_is_in_it() {
        for (name, text) in [
            (
                "train.config",
                "### sizes ###\n#batch_size=1\nbatch_size=10\noptimizer=SGD\n",
            ),
            ("train.config", "{\"lr\": 1e-3, \"batch_size\": 10}"),
            ("params.txt", "batch_size: 10\nlr: 0.1\n"),
            ("params", "lr: 0.1\nbatch_size: 10\nmodel:\n  depth: 3\n"),
            ("args.conf", "batch_size = 10 ; each\n"),
        ] {
            let file = file(name, text);
            assert_eq!(found(&file, "batch_size").as_deref(), Some("10"), "{text}");
        }
        let sections = file("run.config", "[train]\nbatch_size = 10\n");
        assert_eq!(found(&sections, "train.batch_size").as_deref(), Some("10"));
        for text in ["see the notes\n", "", "# nothing\n", "\u{7f}ELF\0\u{1}"] {
            assert!(file("x.bin", text).scalar("batch_size").is_err(), "{text}");
        }
    }

    #[test]
    fn json_toml_and_assignments_are_read_too() {
        let json = file(
            "ds.json",
            r#"{ "a": {"b" : 8, "c": "x\"y"}, "list": [1, {"d": true}], "e": "auto" }"#,
        );
        for (name, value) in [
            ("a.b", "8"),
            ("list.1.d", "true"),
            ("e", "auto"),
            ("list.0", "1"),
        ] {
            assert_eq!(found(&json, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(found(&json, "b"), None);
        let tabs = file("ds.json", "{\n\t\"ü\": {},\n\t\"size\":8\n}\n");
        assert_eq!(found(&tabs, "size").as_deref(), Some("8"));
        assert_eq!(tabs.names(), Ok(vec!["size".into()]));
        assert!(
            found(&file("x.json", "{a: 1}"), "a")
                .unwrap()
                .starts_with('?')
        );
        let toml = file(
            "c.toml",
            "[training]\nlocal_batch_size = 8 # each\n[[datasets]]\nbatch_size = 2\n[[datasets.subsets]]\ndir = \"x\"\n",
        );
        for (name, value) in [
            ("training.local_batch_size", "8"),
            ("datasets.0.batch_size", "2"),
            ("datasets.0.subsets.0.dir", "x"),
        ] {
            assert_eq!(found(&toml, name).as_deref(), Some(value), "{name}");
        }
        let commented = file(
            "c.json",
            "{ // one: {\n \"url\": \"a//b\", /* \"a\": 1,\n */ \"a\": 8 // \"\n}",
        );
        assert_eq!(found(&commented, "a").as_deref(), Some("8"));
        assert_eq!(found(&commented, "url").as_deref(), Some("a//b"));
        let documents = file("d.yaml", "data:\n  a: 1\n---\ntrain:\n  batch_size: 16\n");
        assert_eq!(found(&documents, "train.batch_size").as_deref(), Some("16"));
        let gin = file(
            "c.gin",
            "import models\n# train.batch_size = 1\ntrain.batch_size = 640  # each\nb/train.dims = [512,\n  batch = 3]\n",
        );
        assert_eq!(found(&gin, "train.batch_size").as_deref(), Some("640"));
        assert_eq!(found(&gin, "batch"), None);
        assert!(found(&gin, "train.dims").unwrap().starts_with('?'));
        let ini = file(
            "a.cfg",
            "# batch_size=1\n[data]\nlist: a/b.scp\n[optimization]\nlr = 0.1\nbatch_size=128\nfolders = a\n  b=1\nflag\n",
        );
        assert_eq!(
            found(&ini, "optimization.batch_size").as_deref(),
            Some("128")
        );
        assert_eq!(found(&ini, "data.list").as_deref(), Some("a/b.scp"));
        assert_eq!(found(&ini, "optimization.b"), None);
        assert!(
            file("a.conf", "--batch_size=12\n")
                .scalar("batch_size")
                .is_err()
        );
        let python = file(
            "train.py",
            "# c\nbatch_size = 12 # n\nsteps = 5 * 8\nhalf = 5 * n\nname = 'a'\nif x:\n    lr = 1\nbatch == 3\n",
        );
        assert_eq!(found(&python, "batch_size").as_deref(), Some("12"));
        assert_eq!(found(&python, "name").as_deref(), Some("a"));
        assert_eq!(found(&python, "steps").as_deref(), Some("40"));
        for name in ["half", "lr"] {
            assert!(found(&python, name).unwrap().starts_with('?'), "{name}");
        }
        assert_eq!(found(&python, "batch"), None);
    }

    #[test]
    fn a_file_that_builds_on_others_says_what_they_say() {
        let base = |name: &str, text: &str| BaseFile {
            name: name.into(),
            text: text.into(),
        };
        let mut config = file(
            "a/b.py",
            "_base_ = ['../c.py']\nload = dict(batch_size=_base_.each, workers=n)\nn = 2\ntest = dict(_delete_=True, a=1)\n",
        );
        assert!(found(&config, "load.shuffle").is_none());
        config.bases.read = vec![
            base(
                "a/../c.py",
                "each = 4 * 2\nload = dict(batch_size=1, shuffle=True)\n",
            ),
            base("a/../d.py", "test = dict(b=3, a=2)\nmore = 5\n"),
        ];
        for (name, value) in [
            ("load.batch_size", Some("8")),
            ("load.workers", Some("2")),
            ("load.shuffle", Some("True")),
            ("more", Some("5")),
            ("test.b", None),
            ("other", None),
        ] {
            assert_eq!(found(&config, name).as_deref(), value, "{name}");
        }
        assert!(
            config.scalar("load.shuffle").is_err(),
            "it can't be replaced in this file"
        );
        config.bases.has_others = true;
        assert!(found(&config, "other").unwrap().starts_with('?'));
        let circle = file("a.py", "a = b\nb = a\n");
        assert!(found(&circle, "a").unwrap().starts_with('?'));
    }

    #[test]
    fn the_files_that_a_config_builds_on_are_named() {
        for (name, text, bases, has_others) in [
            (
                "a.yaml",
                "_BASE_: \"../Base.yaml\"\nx: 1\n",
                vec!["../Base.yaml"],
                false,
            ),
            (
                "a.yml",
                "_base_:\n  - b.yml\n  - c.yml\n",
                vec!["b.yml", "c.yml"],
                false,
            ),
            (
                "a.yml",
                "_base_: [b.yml, c.yml]\n",
                vec!["b.yml", "c.yml"],
                false,
            ),
            ("a.yml", "x: 1\n", vec![], false),
            ("a.py", "_base_ = 'b.py'\n", vec!["b.py"], false),
            ("a.toml", "x = [", vec![], false),
        ] {
            let (found, others) = named_bases(Path::new(name), text);
            assert_eq!(
                (found, others),
                (bases.into_iter().map(String::from).collect(), has_others),
                "{text}"
            );
        }
    }

    #[test]
    fn only_whole_constants_are_computed() {
        for (text, number) in [
            ("12", Some(12)),
            ("5 * 8", Some(40)),
            ("2 ** 3 ** 2 - (7 + 1) // 4 * 6", Some(500)),
            ("1_000", Some(1000)),
            ("1 - 2", None),
            ("1 // 0", None),
            ("8.0 * 2", None),
            ("(1", None),
            ("", None),
        ] {
            assert_eq!(python_number(text), number, "{text}");
        }
        assert_eq!(python_number(&"(".repeat(100_000)), None);
    }
}
