//! The Python files parse where they must: the loader on every Python, the probe on 3.8.

use crate::probe::program::python;
use std::path::{Path, PathBuf};
use std::process::Command;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/probe/python")
}

/// Runs a check on files; it prints what it finds wrong.
#[track_caller]
fn check(text: &str, files: &[PathBuf]) {
    assert!(!files.is_empty());
    let checked = Command::new(python())
        .args(["-c", text])
        .args(files)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    assert_eq!(said.trim(), "");
}

#[test]
fn the_probe_is_python_3_8() {
    let package = sources().join("oomph_probe");
    let folders = std::fs::read_dir(&package).unwrap();
    let files: Vec<PathBuf> = folders
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .chain([package.clone()])
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "py"))
        .collect();
    assert!(files.len() > 50, "{files:?}");
    let text = "\
import ast, sys
for path in sys.argv[1:]:
    with open(path, encoding='utf-8') as file:
        ast.parse(file.read(), path, feature_version=(3, 8))
";
    check(text, &files);
}

/// There is no parser of 2.7 to be had everywhere, so this asks for more than 2.7 does: ASCII, and
/// only such pieces of grammar as have not changed since.
#[test]
fn the_loader_is_any_python() {
    let text = "\
import ast, sys
SAME_EVER_SINCE = {
    'Module', 'Expr', 'Import', 'ImportFrom', 'alias', 'FunctionDef', 'arguments', 'Assign', 'Call',
    'Attribute', 'Name', 'Load', 'Store', 'Del', 'If', 'Try', 'ExceptHandler', 'Pass', 'Raise',
    'ListComp', 'comprehension', 'Compare', 'Eq', 'NotEq', 'NotIn', 'In', 'GtE', 'BoolOp', 'And', 'Or',
    'Tuple', 'Constant', 'Subscript', 'Slice', 'Index',
}
with open(sys.argv[1], 'rb') as file:
    text = file.read().decode('ascii')
for node in ast.walk(ast.parse(text)):
    kind = type(node).__name__
    if kind not in SAME_EVER_SINCE:
        print(kind, 'in line', getattr(node, 'lineno', '?'))
    if kind == 'arguments' and (node.args or node.kwonlyargs or node.posonlyargs or node.kwarg):
        print('arguments')
    if kind == 'FunctionDef' and (node.returns or node.decorator_list):
        print('annotations')
    if kind == 'Raise' and node.cause:
        print('raise from')
    if kind == 'Constant' and not isinstance(node.value, (str, int, type(None))):
        print('constant', node.value)
    if kind == 'Call' and (node.keywords or any(type(a).__name__ == 'Starred' for a in node.args)):
        print('call')
if 'print' in text or '\\\\' in text:
    print('print, or an escape')
";
    check(text, &[sources().join("sitecustomize.py")]);
}
