//! The settings of a config file in Python: what is assigned at its left margin, what the calls and dicts there are given
//! (`train_dataloader = dict(batch_size=8)`, `dataloader.train = L(build)(total_batch_size=16)`), and the files that it
//! builds on. Nothing is run.

use super::file_settings::{FileSetting, FileSettings};
use super::python_number::python_number;
use super::source_tokens::{DEEPEST, SourceTokens};
use std::ops::Range;

/// What configs import without taking settings from it.
const LIBRARIES: [&str; 16] = [
    "addict",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "easydict",
    "json",
    "math",
    "ml_collections",
    "numpy",
    "omegaconf",
    "os",
    "pathlib",
    "sys",
    "torch",
    "typing",
];

/// In lists, numbers and texts are no settings that anybody would look for.
const MOST_SETTINGS: usize = 20_000;

/// A value that is computed from other names, or assigned in a block, is unclear: it isn't plain.
pub(super) fn python_settings(text: &str) -> FileSettings {
    let tokens = SourceTokens::new(text);
    let mut reader = SettingReader {
        tokens: &tokens,
        settings: FileSettings::default(),
    };
    for statement in &tokens.statements {
        let range = statement.tokens.clone();
        match tokens.text(range.start) {
            // A library's own types and numbers say nothing of this config.
            "import" | "from" => {
                let module = tokens.text(range.start + 1);
                let mut all = range.clone();
                let is_list = tokens.text(range.start) == "import"
                    && all.any(|at| tokens.is_operator(at, ","));
                reader.settings.may_hide |= is_list || !LIBRARIES.contains(&module);
            }
            _ => reader.statement(range, statement.indent == 0),
        }
    }
    reader.settings
}

struct SettingReader<'s, 't> {
    tokens: &'s SourceTokens<'t>,
    settings: FileSettings,
}

impl SettingReader<'_, '_> {
    fn statement(&mut self, range: Range<usize>, is_certain: bool) {
        let tokens = self.tokens;
        let Some((name, behind)) = tokens.dotted(range.start, range.end) else {
            return;
        };
        let mut name = name.replace(' ', "");
        if is_certain && tokens.is_operator(behind, "(") {
            // `train_dataloader.update(batch_size=8)`
            if let Some(of) = name.strip_suffix(".update") {
                self.inside(of, behind);
            }
            return;
        }
        let mut at = behind;
        while tokens.is_operator(at, "[") && at < range.end {
            let inside = tokens.parts(at);
            let [key] = inside.as_slice() else { return };
            let Some(key) = tokens.string(key.start).filter(|_| key.len() == 1) else {
                return;
            };
            name = format!("{name}.{key}");
            at = tokens.after(at);
        }
        if tokens.is_operator(at, ":") {
            let parts = tokens.split(at..range.end, "=");
            at = parts.first().map_or(range.end, |annotation| annotation.end);
        }
        let operator = tokens.text(at);
        let is_assigned = operator == "=";
        let is_changed = matches!(operator, "+=" | "-=" | "*=" | "/=" | "//=");
        if at >= range.end || !is_assigned && !is_changed {
            return;
        }
        // `a = b = 3`
        let value = tokens.split(at + 1..range.end, "=").pop();
        if let Some(value) = value {
            self.value(&name, value, is_certain && is_assigned, 0);
        }
    }

    /// `is_certain`: whether it has this value whatever happens.
    fn value(&mut self, name: &str, value: Range<usize>, is_certain: bool, depth: usize) {
        let tokens = self.tokens;
        let Some(first) = tokens.all.get(value.start) else {
            return;
        };
        let Some(last) = tokens.all.get(value.end.wrapping_sub(1)) else {
            return;
        };
        let written = tokens.text_of(&value);
        let is_literal = matches!(written, "True" | "False") || python_number(written).is_some();
        let quoted = tokens
            .string(value.start)
            .filter(|inner| value.len() == 1 && !inner.contains(['\'', '"', '\\', '\n']));
        let (from, to) = match quoted.and_then(|inner| Some((inner, written.find(inner)?))) {
            Some((inner, at)) => (first.from + at, first.from + at + inner.len()),
            None => (first.from, last.to),
        };
        if self.settings.all.len() < MOST_SETTINGS {
            self.settings.all.push(FileSetting {
                name: name.to_string(),
                from,
                // What is assigned in a block is not its value for sure, whatever it is.
                to: if is_certain { to } else { from },
                is_plain: is_certain && (is_literal || quoted.is_some()),
            });
        }
        // The bracket that ends it says what it is given: `dict(`, `{`, `L(build)(`.
        let opens = (value.start..value.end).find(|at| tokens.after(*at) == value.end);
        if let Some(open) = opens.filter(|at| *at + 1 < value.end && is_certain && depth < DEEPEST)
        {
            self.inside_of(name, open, depth);
        }
    }

    fn inside(&mut self, name: &str, open: usize) {
        for part in self.tokens.parts(open) {
            let is_call = self.tokens.is_operator(part.end.wrapping_sub(1), ")");
            let inner = part.start + 1;
            match is_call && self.tokens.text(part.start) == "dict" {
                true => self.inside_of(name, inner, 0),
                false if self.tokens.is_operator(part.start, "{") => {
                    self.inside_of(name, part.start, 0);
                }
                false => self.part(name, part, 0),
            }
        }
    }

    fn inside_of(&mut self, name: &str, open: usize, depth: usize) {
        for part in self.tokens.parts(open) {
            self.part(name, part, depth);
        }
    }

    /// `key=value` or `"key": value`.
    fn part(&mut self, name: &str, part: Range<usize>, depth: usize) {
        let tokens = self.tokens;
        let key = match tokens.text(part.start + 1) {
            "=" if tokens.is_name(part.start) => Some(tokens.text(part.start)),
            ":" => tokens.string(part.start),
            _ => None,
        };
        if let Some(key) = key.filter(|_| part.len() > 2) {
            self.value(
                &format!("{name}.{key}"),
                part.start + 2..part.end,
                true,
                depth + 1,
            );
        }
    }
}

/// The files that a Python config builds on, relative to its directory, and whether there are others that
/// its text does not name so: `_base_ = ["../a.py"]`, `from .._base_.a import *`.
pub(super) fn python_bases(text: &str) -> (Vec<String>, bool) {
    let tokens = SourceTokens::new(text);
    let mut found = Vec::new();
    let mut has_others = tokens.has_name("get_config") || tokens.has_name("fromfile");
    for statement in &tokens.statements {
        let range = statement.tokens.clone();
        let start = range.start;
        if tokens.text(start) == "_base_" && tokens.is_operator(start + 1, "=") {
            let named: Vec<&str> = (start + 2..range.end)
                .filter_map(|at| tokens.string(at))
                .collect();
            has_others |= named.iter().any(|name| name.contains("::"));
            let files = named.into_iter().filter(|name| !name.contains("::"));
            found.extend(files.map(String::from));
        }
        if tokens.text(start) == "from"
            && let Some(file) = imported_file(&tokens, range)
        {
            found.push(file);
        }
    }
    (found, has_others)
}

/// `from ..common.data import loader`: `../common/data.py`; none of a package elsewhere.
fn imported_file(tokens: &SourceTokens<'_>, range: Range<usize>) -> Option<String> {
    let mut at = range.start + 1;
    let mut level = 0;
    while at < range.end && tokens.text(at).bytes().all(|byte| byte == b'.') {
        level += tokens.text(at).len();
        at += 1;
    }
    let (module, _) = tokens.dotted(at, range.end)?;
    (level > 0).then(|| {
        let up = "../".repeat(level - 1);
        format!("{up}{}.py", module.replace(' ', "").replace('.', "/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String, bool)> {
        let found = python_settings(text).all.into_iter();
        found
            .map(|one| {
                let value = text[one.from..one.to].to_string();
                (one.name, value, one.is_plain)
            })
            .collect()
    }

    fn value(text: &str, name: &str) -> Option<(String, bool)> {
        let mut all = values(text).into_iter();
        let found = all.find(|(each, _, _)| each == name)?;
        Some((found.1, found.2))
    }

    #[test]
    fn dicts_and_calls_are_read_as_sections() {
        let text = "n = 4\ndata = dict(\n    samples_per_gpu=2,  # each\n    train=dict(type='A', batch={'size': n}))\n\
                    loader.train = L(build)(\n    dataset=L(get)(names=\"a\"),\n    total=16)\n\
                    model[\"head\"][\"width\"] = 8\ndata.update(dict(more=3))\nif n:\n    data.samples_per_gpu = 5\n";
        for (name, said) in [
            ("n", Some(("4", true))),
            ("data.samples_per_gpu", Some(("2", true))),
            ("data.train.type", Some(("A", true))),
            ("data.train.batch.size", Some(("n", false))),
            ("loader.train.dataset.names", Some(("a", true))),
            ("loader.train.total", Some(("16", true))),
            ("model.head.width", Some(("8", true))),
            ("data.more", Some(("3", true))),
            ("names", None),
        ] {
            let said = said.map(|(value, is_plain)| (value.to_string(), is_plain));
            assert_eq!(value(text, name), said, "{name}");
        }
        let twice = values(text).into_iter();
        let twice: Vec<bool> = twice
            .filter(|(name, _, _)| name == "data.samples_per_gpu")
            .map(|(_, _, is_plain)| is_plain)
            .collect();
        assert_eq!(twice, [true, false], "in a block it is unclear");
    }

    #[test]
    fn the_files_that_it_builds_on_are_named() {
        for (text, bases, has_others) in [
            ("_base_ = './a.py'\n", vec!["./a.py"], false),
            (
                "_base_ = ['../a.py', '../b/c.py']\n",
                vec!["../a.py", "../b/c.py"],
                false,
            ),
            ("_base_ = 'mmdet::a.py'\n", vec![], true),
            (
                "with read_base():\n    from .._base_.a import *\n",
                vec!["../_base_/a.py"],
                false,
            ),
            (
                "from .a import (\n    x,\n)\nfrom torch import nn\n",
                vec!["a.py"],
                false,
            ),
            ("from ...b.c import d\n", vec!["../../b/c.py"], false),
            ("d = model_zoo.get_config('a.py').d\n", vec![], true),
            ("x = 1\n", vec![], false),
        ] {
            let bases: Vec<String> = bases.into_iter().map(String::from).collect();
            assert_eq!(python_bases(text), (bases, has_others), "{text}");
        }
    }

    #[test]
    fn a_library_says_nothing_of_a_config() {
        for (text, may_hide) in [
            ("import ml_collections\nfrom copy import deepcopy\n", false),
            ("import numpy as np\n", false),
            ("import os, base\n", true),
            ("import base\n", true),
            ("from .base import config\n", true),
        ] {
            assert_eq!(python_settings(text).may_hide, may_hide, "{text}");
        }
    }

    #[test]
    fn anything_ends() {
        for text in [
            "a = ",
            "a = dict(",
            "a.b = {'c':",
            "a[",
            "a['b'",
            "x.update(",
            "x.update(dict(",
            "_base_ =",
            "from . import",
            "from .",
            "a: int",
            "a = b =",
        ] {
            let _ = (python_settings(text), python_bases(text));
        }
        let deep = format!("a = {}", "dict(b=".repeat(10_000));
        let _ = python_settings(&deep);
    }
}
