//! The directories that a source adds to where Python looks for modules: `sys.path.insert(0, osp.join(here, "lib"))`. Which of
//! them there are is looked up elsewhere.

use super::statements::SourceStatements;
use std::ops::Range;

/// A source that names more adds them one by one for something else.
const MOST: usize = 16;
/// How far up a source goes from where it is.
const HIGHEST: usize = 4;
/// A longer string is a text.
const LONGEST: usize = 80;

/// The directories that a source may add, relative to its own; nothing where it does not touch `sys.path`.
pub(crate) fn added_directories(source: &str) -> Vec<String> {
    if !source.contains("sys.path") {
        return Vec::new();
    }
    let said = SourceStatements::new(source);
    let tokens = &said.tokens;
    let mut below: Vec<String> = Vec::new();
    for call in said.calls.iter().filter(|call| call.name() == "join") {
        let parts = call.positional.iter();
        let written: Vec<&str> = parts
            .filter(|part| part.len() == 1)
            .filter_map(|part| tokens.string(part.start))
            .collect();
        below.push(written.join("/"));
    }
    for at in 1..tokens.all.len() {
        let in_call = tokens.text(at - 1) == "(" || tokens.text(at - 1) == ",";
        let is_part = in_call || tokens.is_operator(at - 1, "/") || tokens.is_operator(at - 1, "+");
        below.extend(tokens.string(at).filter(|_| is_part).map(String::from));
    }
    below.retain(|path| {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
        !path.is_empty() && path.len() <= LONGEST && path.bytes().all(is_word)
    });
    let ups = tokens
        .statements
        .iter()
        .map(|line| ups(&said, &line.tokens));
    let ups = ups.max().unwrap_or(0).min(HIGHEST);
    let mut all: Vec<String> = Vec::new();
    for up in 0..=ups {
        let up = "../".repeat(up);
        all.extend(
            below
                .iter()
                .map(|path| format!("{up}{}", path.trim_start_matches('/'))),
        );
        all.extend((!up.is_empty()).then_some(up));
    }
    let mut distinct: Vec<String> = Vec::new();
    for path in all {
        if distinct.len() < MOST && !distinct.contains(&path) {
            distinct.push(path);
        }
    }
    distinct
}

/// The packages of which a source imports the module that is called like something it was told:
/// `import_module("models." + args.model)`, `import_module(f"models.{name}")`.
pub(crate) fn asked_packages(source: &str) -> Vec<String> {
    if !source.contains("import_module") && !source.contains("__import__") {
        return Vec::new();
    }
    let said = SourceStatements::new(source);
    let tokens = &said.tokens;
    let calls = said.calls.iter();
    let calls = calls.filter(|call| matches!(call.name(), "import_module" | "__import__"));
    let packages = calls.filter_map(|call| {
        let first = call.positional.first()?;
        let package = match tokens.string(first.start) {
            Some(written) if tokens.is_operator(first.start + 1, "+") => written,
            Some(written) => written
                .split(['{', '%'])
                .next()
                .filter(|part| *part != written)?,
            None => {
                let formatted = tokens.text(first.start).strip_prefix(['f', 'F'])?;
                formatted
                    .trim_start_matches(['"', '\''])
                    .split('{')
                    .next()?
            }
        };
        let package = package.strip_suffix('.')?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        package.bytes().all(is_name).then(|| package.to_string())
    });
    packages.take(MOST).collect()
}

/// How many directories above its own a statement names: the first `dirname` and the first `parent` of a file is its own.
fn ups(said: &SourceStatements<'_>, statement: &Range<usize>) -> usize {
    let tokens = &said.tokens;
    let is_of_file = statement.clone().any(|at| tokens.text(at) == "__file__");
    let named = |name: &str| {
        statement
            .clone()
            .filter(|at| tokens.text(*at) == name)
            .count()
    };
    let above = named("dirname")
        .max(named("parent"))
        .saturating_sub(usize::from(is_of_file));
    let mut parents = statement.clone().filter(|at| tokens.text(*at) == "parents");
    let counted = parents.find_map(|at| tokens.text(at + 2).parse().ok());
    above.max(counted.unwrap_or(0)).max(named("pardir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_which_a_word_names_the_module_is_found_however_it_is_written() {
        for (call, wanted) in [
            ("import_module('models.' + name)", Some("models")),
            (
                "importlib.import_module('src.nets.' + args.model)",
                Some("src.nets"),
            ),
            ("import_module(f'models.{args.model}')", Some("models")),
            ("import_module('models.{}'.format(name))", Some("models")),
            ("import_module('models.%s' % name)", Some("models")),
            ("__import__('models.' + name)", Some("models")),
            ("import_module(name)", None),
            ("import_module('models')", None),
            ("import_module(f'{root}.nets')", None),
        ] {
            let found = asked_packages(&format!("x = {call}\n"));
            assert_eq!(found, Vec::from_iter(wanted), "{call}");
        }
    }

    #[test]
    fn what_is_added_to_the_module_path_is_found_however_it_is_written() {
        for (source, has) in [
            ("import sys\nsys.path.insert(0, 'lib')\n", "lib"),
            (
                "import os.path as osp, sys\ndef add(p):\n    sys.path.insert(0, p)\nhere = osp.dirname(__file__)\nadd(osp.join(here, 'lib'))\n",
                "lib",
            ),
            ("import sys\nsys.path.append('../')\n", "../"),
            (
                "import sys\nsys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\n",
                "../",
            ),
            (
                "import sys\nsys.path.append(str(Path(__file__).resolve().parents[2] / 'src'))\n",
                "../../src",
            ),
            (
                "import sys\nROOT = Path(__file__).parent.parent\nsys.path.append(ROOT / 'core')\n",
                "../core",
            ),
            (
                "import sys\nsys.path.insert(0, os.path.join(BASE, 'utils', 'data'))\n",
                "utils/data",
            ),
            (
                "import sys\nsys.path.append(BASE_DIR + '/models')\n",
                "models",
            ),
        ] {
            let found = added_directories(source);
            assert!(
                found.iter().any(|path| path == has),
                "{has} of {found:?} in {source}"
            );
        }
        for source in ["open('lib')\n", "import sys\nprint(sys.argv, 'lib')\n", ""] {
            assert_eq!(added_directories(source), Vec::<String>::new(), "{source}");
        }
    }
}
