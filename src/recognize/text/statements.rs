//! What a Python source says, statement by statement: what is assigned, called, defined and imported, and inside of what.
//! A statement that is not understood is left out.

use crate::recognize::source_tokens::{DEEPEST, SourceTokens, TokenKind};
use std::collections::BTreeSet;
use std::ops::Range;

/// More of one kind are not kept.
const MOST: usize = 50_000;

/// Of a value that replaces another so many tokens are looked at.
const LONGEST_VALUE: usize = 100;

/// Tokens, as the source has them in a row.
pub(super) type TokenRange = Range<usize>;

/// What a source says.
#[derive(Debug, Default)]
pub(super) struct SourceStatements<'t> {
    pub tokens: SourceTokens<'t>,
    pub assigned: Vec<AssignedValue<'t>>,
    /// `total += one`.
    pub augmented: Vec<AssignedValue<'t>>,
    pub calls: Vec<CallSite<'t>>,
    /// Of `{"batch": 64}`: the key and the value.
    pub entries: Vec<(&'t str, TokenRange)>,
    pub functions: Vec<FunctionHead<'t>>,
    pub classes: Vec<ClassHead<'t>>,
    pub imports: Vec<ImportedModule>,
    /// The conditions of each branch, and whether they must hold, those around it first.
    branches: Vec<Vec<(TokenRange, bool)>>,
    /// What each statement is inside of, by its number.
    enclosing: Vec<EnclosingBlocks<'t>>,
}

/// `batch_size = 64`, `config.train.batch: int = 64`, `config["batch"] = 64`.
#[derive(Debug)]
pub(super) struct AssignedValue<'t> {
    /// Dotted.
    pub target: &'t str,
    pub annotation: Option<TokenRange>,
    pub value: TokenRange,
    pub at: usize,
}

#[derive(Debug)]
pub(super) struct CallSite<'t> {
    /// Dotted: `parser.add_argument`.
    pub callee: &'t str,
    pub positional: Vec<TokenRange>,
    pub keywords: Vec<(&'t str, TokenRange)>,
    /// Whether it is given what cannot be counted: `*args`, `**kwargs`.
    pub is_starred: bool,
    pub at: usize,
    /// Its closing bracket.
    pub end: usize,
}

#[derive(Debug)]
pub(super) struct FunctionHead<'t> {
    pub name: &'t str,
    pub parameters: Vec<Parameter<'t>>,
    pub decorators: Vec<&'t str>,
    pub at: usize,
}

#[derive(Debug)]
pub(super) struct Parameter<'t> {
    pub name: &'t str,
    pub annotation: Option<TokenRange>,
    pub default: Option<TokenRange>,
}

#[derive(Debug)]
pub(super) struct ClassHead<'t> {
    pub name: &'t str,
    pub bases: Vec<&'t str>,
}

/// `from ..package.module import name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImportedModule {
    /// Leading dots.
    pub level: usize,
    /// The parts of its name.
    pub parts: Vec<String>,
    /// `from module import *`: what the module itself imports is passed on as well.
    pub is_whole: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct EnclosingBlocks<'t> {
    pub function: Option<&'t str>,
    pub class: Option<&'t str>,
    /// In `if __name__ == "__main__"`.
    pub is_guarded: bool,
    /// The innermost branch, by its number.
    branch: Option<usize>,
}

/// An open block, by the indentation of its head.
struct OpenBlock<'t> {
    indent: u32,
    inside: EnclosingBlocks<'t>,
    /// Of an `if` or an `elif`, all conditions up to here: an `else` has none of them.
    tried: Vec<TokenRange>,
}

impl<'t> SourceStatements<'t> {
    pub fn new(source: &'t str) -> SourceStatements<'t> {
        let tokens = SourceTokens::new(source);
        let mut said = SourceStatements::default();
        let mut open: Vec<OpenBlock<'t>> = Vec::new();
        let mut decorators: Vec<&'t str> = Vec::new();
        for line in &tokens.statements {
            let mut tried = Vec::new();
            while open.last().is_some_and(|block| block.indent >= line.indent) {
                let closed = open.pop().filter(|block| block.indent == line.indent);
                tried = closed.map(|block| block.tried).unwrap_or_default();
            }
            let inside = open
                .last()
                .map(|block| block.inside.clone())
                .unwrap_or_default();
            said.enclosing.push(inside.clone());
            let (from, end) = (line.tokens.start, line.tokens.end);
            let first = match tokens.text(from) {
                "async" => from + 1,
                _ => from,
            };
            let colon = tokens
                .split(first..end, ":")
                .first()
                .map_or(end, |head| head.end);
            let outer = inside.branch;
            if !matches!(tokens.text(first), "elif" | "else") {
                tried.clear();
            }
            let head = match tokens.text(first) {
                "@" => {
                    decorators.extend(tokens.dotted(first + 1, end).map(|(name, _)| name));
                    continue;
                }
                "def" => {
                    let found = function_head(&tokens, first, &mut decorators);
                    let name = found.as_ref().map(|head| head.name);
                    said.functions.extend(found);
                    Some(EnclosingBlocks {
                        function: name,
                        ..inside
                    })
                }
                "class" => {
                    let found = class_head(&tokens, first);
                    let name = found.as_ref().map(|head| head.name);
                    said.classes.extend(found);
                    Some(EnclosingBlocks {
                        class: name,
                        function: None,
                        ..inside
                    })
                }
                "if" if tokens.text(first + 1) == "__name__" => Some(EnclosingBlocks {
                    is_guarded: true,
                    ..inside
                }),
                word @ ("if" | "elif" | "else") => {
                    let own = (word != "else").then_some(first + 1..colon);
                    let around = outer.map(|branch| said.branches[branch].clone());
                    let mut all = around.unwrap_or_default();
                    let others = tried.iter().map(|other| (other.clone(), false));
                    all.extend(others);
                    all.extend(own.clone().map(|own| (own, true)));
                    tried.extend(own);
                    said.branches.push(all);
                    let branch = Some(said.branches.len() - 1);
                    // What stands in the same line is in it already.
                    if let Some(whole) = said.enclosing.last_mut().filter(|_| colon + 1 < end) {
                        whole.branch = branch;
                        assignments(&tokens, colon + 1..end, &mut said.assigned);
                    }
                    Some(EnclosingBlocks { branch, ..inside })
                }
                "import" | "from" => {
                    said.imports.extend(imported(&tokens, first, end));
                    None
                }
                _ => {
                    assignments(&tokens, from..end, &mut said.assigned);
                    said.augmented.extend(augmented(&tokens, from..end));
                    None
                }
            };
            decorators.clear();
            if let Some(inside) = head {
                let indent = line.indent;
                open.push(OpenBlock {
                    indent,
                    inside,
                    tried,
                });
            }
        }
        for at in 0..tokens.all.len() {
            if said.calls.len() + said.entries.len() < MOST {
                said.calls.extend(call(&tokens, at));
                entries(&tokens, at, &mut said.entries);
            }
        }
        said.tokens = tokens;
        said
    }

    /// What the statement that this token is of is inside of.
    pub fn enclosing(&self, at: usize) -> &EnclosingBlocks<'t> {
        &self.enclosing[self.statement(at)]
    }

    /// The conditions of the branches that this token is in, and whether they must hold.
    pub fn branch(&self, at: usize) -> &[(TokenRange, bool)] {
        let branch = self.enclosing(at).branch;
        branch.map_or(&[], |branch| &self.branches[branch])
    }

    /// The class that a line is inside of.
    pub fn class_at(&self, line: u32) -> Option<&'t str> {
        let tokens = &self.tokens.all;
        let at = tokens.partition_point(|token| token.line < line);
        (at < tokens.len())
            .then(|| self.enclosing(at).class)
            .flatten()
    }

    /// Whether a class is named, but where it is defined.
    pub fn names_class(&self, class: &str) -> bool {
        let tokens = &self.tokens;
        (0..tokens.all.len()).any(|at| {
            tokens.is_name(at)
                && tokens.text(at) == class
                && !(at > 0 && tokens.text(at - 1) == "class")
        })
    }

    /// The number of the statement that this token is of.
    fn statement(&self, at: usize) -> usize {
        let lines = &self.tokens.statements;
        lines
            .partition_point(|line| line.tokens.start <= at)
            .saturating_sub(1)
    }

    /// The first call among these tokens.
    pub fn first_call(&self, tokens: &TokenRange) -> Option<&CallSite<'t>> {
        let before = self.calls.partition_point(|call| call.at < tokens.start);
        self.calls.get(before).filter(|call| call.at < tokens.end)
    }

    /// The name that the value of a call is assigned to.
    pub fn target_of(&self, call: &CallSite<'_>) -> Option<&'t str> {
        let line = &self.tokens.statements[self.statement(call.at)];
        let (name, behind) = self.tokens.dotted(line.tokens.start, line.tokens.end)?;
        self.tokens.is_operator(behind, "=").then_some(name)
    }

    /// The names of what is computed from one of these.
    fn derived_from(&self, names: &BTreeSet<&'t str>) -> Vec<&'t str> {
        let all = self.assigned.iter().chain(&self.augmented);
        let derived = all.filter(|one| self.reads(&one.value, names));
        derived
            .filter_map(|one| one.target.rsplit('.').next())
            .collect()
    }

    /// Whether an attribute of this name is assigned what comes of something else.
    fn overwrites(&self, name: &str, derived: &BTreeSet<&str>) -> bool {
        self.overwriting(name)
            .any(|one| !self.reads(&one.value, derived))
    }

    fn overwriting<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n AssignedValue<'t>> {
        self.assigned.iter().filter(move |one| {
            let parts = one.target.rsplit_once('.');
            let is_it = parts.is_some_and(|(owner, leaf)| leaf == name && owner != "self");
            is_it && !self.is_number(&one.value)
        })
    }

    /// What `a if condition else b` is where the condition is a name that this source sets to `True` or `False` and nothing
    /// else: the name that is taken and the one that is not.
    pub fn chosen(&self) -> Vec<(&'t str, &'t str)> {
        let chosen = self.assigned.iter().filter_map(|one| {
            let at = one.value.start;
            let is_choice = one.value.len() == 5
                && self.tokens.text(at + 1) == "if"
                && self.tokens.text(at + 3) == "else";
            let [taken, condition, other] = [0, 2, 4].map(|k| self.tokens.text(at + k));
            let mut set = self.assigned.iter().filter(|one| one.target == condition);
            let only = set.next().filter(|_| is_choice && set.next().is_none())?;
            match self.tokens.text_of(&only.value) {
                "True" => Some((taken, other)),
                "False" => Some((other, taken)),
                _ => None,
            }
        });
        chosen.collect()
    }

    fn reads(&self, value: &TokenRange, names: &BTreeSet<&str>) -> bool {
        let mut tokens = value.clone().take(LONGEST_VALUE);
        // `options["batch"]` reads it as well.
        let is_read = |at: usize| {
            let key = self.tokens.string(at);
            names.contains(self.tokens.text(at)) || key.is_some_and(|key| names.contains(key))
        };
        tokens.any(is_read)
    }

    fn is_number(&self, value: &TokenRange) -> bool {
        let mut kinds = value.clone().filter_map(|at| self.tokens.all.get(at));
        kinds.any(|token| token.kind == TokenKind::Number) && value.len() == 1
    }
}

/// Whether these sources replace what an attribute of this name is: `args.batch_size = args.total // ranks` says that what
/// was parsed does not count. What is computed from it does not replace it.
pub(super) fn is_overwritten<'t>(sources: &[&SourceStatements<'t>], name: &'t str) -> bool {
    if !sources
        .iter()
        .any(|said| said.overwriting(name).next().is_some())
    {
        return false;
    }
    let mut derived = BTreeSet::from([name]);
    for _ in 0..4 {
        let before = derived.len();
        let more: Vec<&str> = sources
            .iter()
            .flat_map(|said| said.derived_from(&derived))
            .collect();
        derived.extend(more);
        if derived.len() == before {
            break;
        }
    }
    sources.iter().any(|said| said.overwrites(name, &derived))
}

/// `@decorated def name(parameters)`; takes the decorators.
fn function_head<'t>(
    tokens: &SourceTokens<'t>,
    at: usize,
    decorators: &mut Vec<&'t str>,
) -> Option<FunctionHead<'t>> {
    let decorators = std::mem::take(decorators);
    if !tokens.is_name(at + 1) {
        return None;
    }
    // Type parameters may stand between.
    let open = match tokens.is_operator(at + 2, "[") {
        true => tokens.after(at + 2),
        false => at + 2,
    };
    let parameters = tokens.parts(open).into_iter().filter_map(|part| {
        if !tokens.is_name(part.start) {
            return None;
        }
        let sides = tokens.split(part.clone(), "=");
        let named = tokens.split(sides.first()?.clone(), ":");
        Some(Parameter {
            name: tokens.text(part.start),
            annotation: named.get(1).cloned(),
            default: sides.get(1).cloned(),
        })
    });
    Some(FunctionHead {
        name: tokens.text(at + 1),
        parameters: parameters.collect(),
        decorators,
        at,
    })
}

fn class_head<'t>(tokens: &SourceTokens<'t>, at: usize) -> Option<ClassHead<'t>> {
    if !tokens.is_name(at + 1) {
        return None;
    }
    let bases = match tokens.is_operator(at + 2, "(") {
        true => tokens.parts(at + 2),
        false => Vec::new(),
    };
    let names = bases.into_iter().filter_map(|part| {
        let (name, _) = tokens.dotted(part.start, part.end)?;
        Some(name)
    });
    Some(ClassHead {
        name: tokens.text(at + 1),
        bases: names.collect(),
    })
}

/// `import a.b, c as d`, `from .a import b, c`. What is imported from a package may be a module.
fn imported(tokens: &SourceTokens<'_>, at: usize, end: usize) -> Vec<ImportedModule> {
    let parts = |name: &str| -> Vec<String> {
        let parts = name.split('.').map(|part| part.trim().to_string());
        parts.filter(|part| !part.is_empty()).collect()
    };
    let names = |range: TokenRange| -> Vec<&str> {
        let range = match tokens.is_operator(range.start, "(") {
            true => range.start + 1..tokens.after(range.start).saturating_sub(1),
            false => range,
        };
        let each = tokens.split(range, ",").into_iter();
        each.filter_map(|part| Some(tokens.dotted(part.start, part.end)?.0))
            .collect()
    };
    if tokens.text(at) == "import" {
        let all = names(at + 1..end).into_iter();
        return all
            .map(|name| ImportedModule {
                level: 0,
                parts: parts(name),
                is_whole: false,
            })
            .collect();
    }
    let mut from = at + 1;
    let mut level = 0;
    while from < end && matches!(tokens.text(from), "." | "..") {
        level += tokens.text(from).len();
        from += 1;
    }
    let (module, from) = match tokens.dotted(from, end) {
        Some((name, behind)) if tokens.text(from) != "import" => (parts(name), behind),
        Some(_) | None => (Vec::new(), from),
    };
    let mut all = vec![ImportedModule {
        level,
        parts: module.clone(),
        is_whole: tokens.is_operator(from + 1, "*"),
    }];
    for name in names(from + 1..end) {
        let inside = [module.clone(), parts(name)].concat();
        all.push(ImportedModule {
            level,
            parts: inside,
            is_whole: false,
        });
    }
    all
}

/// `a = b = 64`, `a: int = 64`, `a, b = 64, 128`, `a["b"] = 64`.
fn assignments<'t>(
    tokens: &SourceTokens<'t>,
    line: TokenRange,
    found: &mut Vec<AssignedValue<'t>>,
) {
    if found.len() >= MOST || !tokens.is_name(line.start) {
        return;
    }
    let sides = tokens.split(line.clone(), "=");
    let Some((value, targets)) = sides
        .split_last()
        .filter(|(_, targets)| !targets.is_empty())
    else {
        return;
    };
    for target in targets {
        let several = tokens.split(target.clone(), ",");
        let values = tokens.split(value.clone(), ",");
        match (several.len(), values.len()) {
            (1, 1) => found.extend(one_assignment(tokens, target, value)),
            (left, right) if left == right => {
                let pairs = several.iter().zip(&values);
                found.extend(
                    pairs.filter_map(|(target, value)| one_assignment(tokens, target, value)),
                );
            }
            _ => {}
        }
    }
}

/// `total += one`.
fn augmented<'t>(tokens: &SourceTokens<'t>, line: TokenRange) -> Option<AssignedValue<'t>> {
    let (target, behind) = tokens.dotted(line.start, line.end)?;
    let is_it = ["+=", "-=", "*=", "//=", "/="]
        .iter()
        .any(|op| tokens.is_operator(behind, op));
    is_it.then(|| AssignedValue {
        target,
        annotation: None,
        value: behind + 1..line.end,
        at: line.start,
    })
}

fn one_assignment<'t>(
    tokens: &SourceTokens<'t>,
    target: &TokenRange,
    value: &TokenRange,
) -> Option<AssignedValue<'t>> {
    let (name, behind) = tokens.dotted(target.start, target.end)?;
    let is_key = tokens.is_operator(behind, "[") && tokens.after(behind) == target.end;
    let (name, annotation) = match () {
        () if behind == target.end => (name, None),
        () if tokens.is_operator(behind, ":") => (name, Some(behind + 1..target.end)),
        () if is_key && target.end == behind + 3 => (tokens.string(behind + 1)?, None),
        () => return None,
    };
    Some(AssignedValue {
        target: name,
        annotation,
        value: value.clone(),
        at: target.start,
    })
}

/// The call whose bracket opens here.
fn call<'t>(tokens: &SourceTokens<'t>, open: usize) -> Option<CallSite<'t>> {
    let bracket = tokens.all.get(open)?;
    let is_open = tokens.is_operator(open, "(") && bracket.other > open;
    if !is_open || bracket.depth as usize > DEEPEST || open == 0 || !tokens.is_name(open - 1) {
        return None;
    }
    let mut first = open - 1;
    while first >= 2 && tokens.is_operator(first - 1, ".") && tokens.is_name(first - 2) {
        first -= 2;
    }
    let before = first.checked_sub(1).map_or("", |at| tokens.text(at));
    if matches!(before, "def" | "class") || KEYWORDS.contains(&tokens.text(open - 1)) {
        return None;
    }
    let mut site = CallSite {
        callee: tokens.text_of(&(first..open)),
        positional: Vec::new(),
        keywords: Vec::new(),
        is_starred: false,
        at: open,
        end: bracket.other,
    };
    for part in tokens.parts(open) {
        let is_keyword = tokens.is_name(part.start) && tokens.is_operator(part.start + 1, "=");
        match tokens.text(part.start) {
            "*" | "**" => site.is_starred = true,
            name if is_keyword => site.keywords.push((name, part.start + 2..part.end)),
            _ => site.positional.push(part),
        }
    }
    Some(site)
}

/// Words that may stand before a bracket and call nothing.
const KEYWORDS: [&str; 18] = [
    "and", "assert", "await", "elif", "else", "for", "if", "in", "is", "lambda", "not", "or",
    "print", "raise", "return", "while", "with", "yield",
];

/// The entries of a dict that opens here.
fn entries<'t>(tokens: &SourceTokens<'t>, open: usize, found: &mut Vec<(&'t str, TokenRange)>) {
    let is_deep = |depth: u32| depth as usize > DEEPEST;
    let is_dict = tokens.is_operator(open, "{") && !is_deep(tokens.all[open].depth);
    if !is_dict {
        return;
    }
    for part in tokens.parts(open) {
        let key = tokens.string(part.start);
        let is_entry = tokens.is_operator(part.start + 1, ":") && part.len() > 2;
        found.extend(
            key.filter(|_| is_entry)
                .map(|key| (key, part.start + 2..part.end)),
        );
    }
}

impl<'t> CallSite<'t> {
    /// The last part of what is called.
    pub fn name(&self) -> &'t str {
        self.callee.rsplit('.').next().unwrap_or(self.callee)
    }

    pub fn keyword(&self, name: &str) -> Option<&TokenRange> {
        let mut found = self.keywords.iter().filter(|(keyword, _)| *keyword == name);
        found.next().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_say_what_is_set_where() {
        let source = "\
from .options import a, b
import x.y as z
@dataclass
class Config(Base):
    batch: int = 64
@click.command()
@click.option('-b', '--batch', default=8)
async def main(data, *, batch: int = 8, **rest):
    a, b = 1, 2
    cfg['size'] = 3
if __name__ == '__main__':
    args.batch = args.total // ranks
    run(x, batch=5, **kw)['k']({'batch': 6})
";
        let said = SourceStatements::new(source);
        let imports: Vec<String> = (said.imports.iter())
            .map(|one| format!("{}{}", ".".repeat(one.level), one.parts.join(".")))
            .collect();
        assert_eq!(imports, [".options", ".options.a", ".options.b", "x.y"]);
        let assigned: Vec<(&str, &str, Option<&str>)> = (said.assigned.iter())
            .map(|one| {
                let inside = said.enclosing(one.at);
                (
                    one.target,
                    said.tokens.text_of(&one.value),
                    inside.function.or(inside.class),
                )
            })
            .collect();
        assert_eq!(
            assigned,
            [
                ("batch", "64", Some("Config")),
                ("a", "1", Some("main")),
                ("b", "2", Some("main")),
                ("size", "3", Some("main")),
                ("args.batch", "args.total // ranks", None),
            ]
        );
        assert!(is_overwritten(&[&said], "batch") && !is_overwritten(&[&said], "total"));
        let calls: Vec<&str> = said.calls.iter().map(|call| call.callee).collect();
        assert_eq!(calls, ["click.command", "click.option", "run"]);
        assert!(said.calls[2].is_starred && said.enclosing(said.calls[2].at).is_guarded);
        let main = &said.functions[0];
        let names: Vec<&str> = main.parameters.iter().map(|one| one.name).collect();
        assert_eq!((main.name, names), ("main", vec!["data", "batch"]));
        assert_eq!(main.decorators, ["click.command", "click.option"]);
        assert_eq!(said.entries, [("batch", said.entries[0].1.clone())]);
        assert_eq!(said.classes[0].bases, ["Base"]);
    }
}
