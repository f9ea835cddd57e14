//! The settings of a config file with their byte ranges: YAML, JSON, TOML, gin, INI, HOCON, and Python (`python_config.rs`). Whatever isn't surely understood is reported as unclear and never edited.

use super::file_settings::{FileSetting, FileSettings};
use super::hocon::hocon_settings;
use super::python_config::python_settings;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How the names of files of settings end, but for those in Python.
pub(super) const SETTINGS_FILES: [&str; 8] = [
    ".yaml", ".yml", ".json", ".toml", ".gin", ".ini", ".cfg", ".conf",
];

/// The settings of a file, by how its name ends.
pub(super) fn settings_of(extension: &str, text: &str) -> Result<FileSettings, String> {
    match extension {
        // Python's parser takes a bracket that closes at the start of a line, which YAML does not allow.
        "yaml" | "yml" => yaml_settings(text).or_else(|error| {
            let joined = with_brackets_joined(text).ok_or(error)?;
            yaml_settings(&joined)
        }),
        "json" => json_settings(text),
        "toml" => toml_settings(text),
        "gin" => Ok(gin_settings(text)),
        "ini" | "cfg" | "conf" => {
            let plain = || plain_settings(text).or_else(|| hocon_settings(text));
            ini_settings(text).or_else(|error| plain().ok_or(error))
        }
        "py" => Ok(python_settings(text)),
        _ => by_content(text).ok_or_else(|| "its format is unknown".into()),
    }
}

/// The settings of a file whose name does not say what it is: `train.config`, `params.txt`.
fn by_content(text: &str) -> Option<FileSettings> {
    let has_settings =
        |read: Result<FileSettings, String>| read.ok().filter(|settings| !settings.all.is_empty());
    has_settings(json_settings(text))
        .or_else(|| has_settings(ini_settings(text)))
        .or_else(|| plain_settings(text))
        .or_else(|| has_settings(yaml_settings(text)))
}

/// The setting of a line that begins at byte `from` of its file, with the value behind the sign at `sign`.
fn behind_sign(name: String, line: &str, sign: usize, from: usize) -> FileSetting {
    // What follows a blank may be a comment, but need not be one.
    let value = &line[sign + 1..];
    let written = value.split([';', '#']).next().unwrap_or(value);
    let at = from + sign + 1 + (written.len() - written.trim_start().len());
    let trimmed = written.trim();
    FileSetting {
        name,
        from: at,
        to: at + trimmed.len(),
        is_plain: !trimmed.is_empty(),
    }
}

/// The settings of a file of lines `name = value` without sections; `None` where a line is something else.
fn plain_settings(text: &str) -> Option<FileSettings> {
    let mut settings = FileSettings::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        let sign = line.find(['=', ':'])?;
        let name = line[..sign].trim();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if !is_name || !name.bytes().all(is_part) || line.starts_with([' ', '\t']) {
            return None;
        }
        settings
            .all
            .push(behind_sign(name.to_string(), line, sign, from));
    }
    (!settings.all.is_empty()).then_some(settings)
}

/// The bindings of a gin file: `train.batch_size = 64`, `scope/train.batch_size = 64`, and macros.
fn gin_settings(text: &str) -> FileSettings {
    let mut settings = FileSettings::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        settings.may_hide |= line.starts_with("include ");
        let Some((name, rest)) = line.split_once('=') else {
            continue;
        };
        let bare = name.trim_end();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/');
        // What is indented goes on with a value that began before.
        if bare.is_empty() || !bare.bytes().all(is_part) || rest.starts_with('=') {
            continue;
        }
        let value = rest.split('#').next().unwrap_or(rest);
        let trimmed = value.trim();
        let at = from + name.len() + 1 + (value.len() - value.trim_start().len());
        settings.all.push(FileSetting {
            name: bare.rsplit('/').next().unwrap_or(bare).into(),
            from: at,
            to: at + trimmed.len(),
            is_plain: !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()),
        });
    }
    settings
}

/// The settings of a file with sections, as Python's configparser reads it: `batch_size=64` below `[optimization]`. Other
/// files have the same endings (YAML, words of a command line): one without a section, or with lines of another kind, is none.
fn ini_settings(text: &str) -> Result<FileSettings, String> {
    let mut settings = FileSettings::default();
    let mut section: Option<String> = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        let bare = line.trim();
        // What is indented goes on with a value that began before.
        let goes_on = line.starts_with([' ', '\t']) && !settings.all.is_empty();
        if bare.is_empty() || bare.starts_with(['#', ';']) || goes_on {
            continue;
        }
        if let Some(name) = bare.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or("a section of it has no end")?;
            section = Some(name.to_string());
            continue;
        }
        let section = section.as_ref().ok_or("it has no sections")?;
        let Some(sign) = line.find(['=', ':']) else {
            // A name without a value.
            continue;
        };
        let name = format!("{section}.{}", line[..sign].trim());
        settings.all.push(behind_sign(name, line, sign, from));
    }
    match section {
        Some(_) => Ok(settings),
        None => Err("it has no sections".into()),
    }
}

/// The same bytes, but for the ends of lines before a closing bracket that begins one; `None` where there are none, or what
/// stands before is a comment.
fn with_brackets_joined(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let mut is_changed = false;
    let mut from = 0;
    for at in 0..bytes.len().saturating_sub(1) {
        if bytes[at] != b'\n' {
            continue;
        }
        if matches!(bytes[at + 1], b']' | b'}') {
            if bytes[from..at].contains(&b'#') {
                return None;
            }
            bytes[at] = b' ';
            is_changed = true;
        }
        from = at + 1;
    }
    is_changed.then(|| String::from_utf8(bytes).ok())?
}

/// All scalars of a YAML document, and the collections in brackets.
fn yaml_settings(text: &str) -> Result<FileSettings, String> {
    let mut reader = YamlReader::default();
    // The parser counts characters.
    let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(text.len());
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| format!("it isn't valid YAML ({error})"))?;
        let range = byte(span.start.index())..byte(span.end.index());
        reader.event(text, &event, range)?;
    }
    let settings = reader.settings;
    // Programs that read several documents lay them together.
    let mut names: Vec<&str> = settings.all.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    if reader.documents > 1 && names.windows(2).any(|two| two[0] == two[1]) {
        return Err("its documents say the same twice".into());
    }
    Ok(settings)
}

/// All scalars of a JSON document. Programs that take out comments before they parse it are as common as the comments.
fn json_settings(text: &str) -> Result<FileSettings, String> {
    let text = &without_comments(text);
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map_err(|error| format!("it isn't valid JSON ({error})"))?;
    let mut settings = yaml_settings(text)?;
    let is_collection = |setting: &FileSetting| text[setting.from..].starts_with(['{', '[']);
    settings
        .all
        .retain(|setting| setting.is_plain || !is_collection(setting));
    settings.may_hide = false;
    Ok(settings)
}

/// JSON with blanks in the place of `// comments` and `/* comments */`, each byte where it was.
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match (byte, bytes.get(at + 1)) {
            (b'"', _) => {
                at += 1;
                while bytes.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                continue;
            }
            (b'/', Some(b'/')) => text[at..].find('\n').map(|length| at + length),
            (b'/', Some(b'*')) => text[at..].find("*/").map(|length| at + length + 2),
            _ => {
                at += 1;
                continue;
            }
        };
        let end = end.unwrap_or(bytes.len());
        for byte in &mut bytes[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[derive(Default)]
struct YamlReader {
    /// The mappings and lists around what is read, the innermost last.
    levels: Vec<YamlLevel>,
    settings: FileSettings,
    documents: usize,
}

struct YamlLevel {
    /// Dotted.
    name: String,
    at: LevelPart,
}

enum LevelPart {
    /// In a mapping; `None` before a key.
    Key(Option<String>),
    /// In a list, before the item of this number.
    Item(usize),
}

impl YamlReader {
    fn event(&mut self, text: &str, event: &Event<'_>, at: Range<usize>) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) => self.documents += 1,
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let name = match self.levels.is_empty() {
                    true => String::new(),
                    false => self.name(None)?.unwrap_or_default(),
                };
                if text[at.start..].starts_with(['{', '[']) {
                    self.push(name.clone(), at, false);
                }
                let at = match event {
                    Event::MappingStart(..) => LevelPart::Key(None),
                    _ => LevelPart::Item(0),
                };
                self.levels.push(YamlLevel { name, at });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.levels.pop();
            }
            Event::Alias(_) => {
                let name = self.name(None)?.unwrap_or_default();
                self.push(name, at, false);
            }
            Event::Scalar(value, style, anchor, tag) => {
                let Some(name) = self.name(Some(value))? else {
                    return Ok(());
                };
                let (at, is_block) = match style {
                    // There is no value.
                    ScalarStyle::Plain if at.is_empty() => return Ok(()),
                    ScalarStyle::Plain => (at, false),
                    // The parser counts what stands behind the quote up to the next value too.
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                        (at.start + 1..at.start + 1 + value.len(), false)
                    }
                    ScalarStyle::Literal | ScalarStyle::Folded => (at, true),
                };
                // Escapes, and text over several lines, are not read as they are written.
                let is_as_written = text.get(at.clone()) == Some(value.as_ref());
                let is_plain = is_as_written && !is_block && *anchor == 0 && tag.is_none();
                self.push(name, at, is_plain);
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    /// The dotted name of what comes here; `None` for the key of a mapping, which is `scalar`.
    fn name(&mut self, scalar: Option<&str>) -> Result<Option<String>, String> {
        let level = self.levels.last_mut().ok_or("it has no settings")?;
        let part = match &mut level.at {
            LevelPart::Item(next) => {
                *next += 1;
                (*next - 1).to_string()
            }
            LevelPart::Key(key) => match key.take() {
                Some(key) => key,
                None => {
                    let name = scalar.ok_or("a key of it is no text")?;
                    self.settings.may_hide |= name == "<<";
                    *key = Some(name.into());
                    return Ok(None);
                }
            },
        };
        let dot = if level.name.is_empty() { "" } else { "." };
        Ok(Some(format!("{}{dot}{part}", level.name)))
    }

    fn push(&mut self, name: String, at: Range<usize>, is_plain: bool) {
        self.settings.all.push(FileSetting {
            name,
            from: at.start,
            to: at.end,
            is_plain,
        });
    }
}

/// All scalars of a TOML document.
fn toml_settings(text: &str) -> Result<FileSettings, String> {
    let document = DeTable::parse(text).map_err(|error| {
        format!(
            "it isn't valid TOML ({})",
            error.message().replace('\n', "; ")
        )
    })?;
    let mut found = Vec::new();
    toml_table("", document.get_ref(), &mut found);
    found.sort_by_key(|setting| setting.from);
    Ok(FileSettings {
        all: found,
        may_hide: false,
    })
}

fn toml_table(name: &str, table: &DeTable<'_>, found: &mut Vec<FileSetting>) {
    for (key, inner) in table.iter() {
        let dot = if name.is_empty() { "" } else { "." };
        toml_value(format!("{name}{dot}{}", key.get_ref()), inner, found);
    }
}

fn toml_value(name: String, value_here: &Spanned<DeValue<'_>>, found: &mut Vec<FileSetting>) {
    let span = value_here.span();
    let mut push = |from, to, is_plain| {
        found.push(FileSetting {
            name: name.clone(),
            from,
            to,
            is_plain,
        });
    };
    match value_here.get_ref() {
        DeValue::Table(inner) => toml_table(&name, inner, found),
        DeValue::Array(inner) => {
            for (index, part) in inner.iter().enumerate() {
                toml_value(format!("{name}.{index}"), part, found);
            }
        }
        // Without quotes, of which a multi-line string has three.
        DeValue::String(text) => {
            let short = span.len() == text.len() + 2;
            push(span.start + 1, span.end.saturating_sub(1), short);
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            push(span.start, span.end, true);
        }
    }
}
