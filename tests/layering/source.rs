//! What a Rust source names: the paths in it and the types that it declares, by `proc_macro2`'s
//! tokens. Tokens and not syntax, so that paths inside macros count too.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A path of two segments or more, made absolute where it begins at the crate or climbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePath {
    /// `["crate", "units", "Bytes"]`, `["std", "fs", "File"]`.
    pub segments: Vec<String>,
    pub line: usize,
    /// Whether it stands in a module that only tests have.
    pub in_test: bool,
    /// Whether it is handed on: `pub use`.
    pub handed_on: bool,
}

#[derive(Debug, Default)]
pub struct Source {
    pub paths: Vec<SourcePath>,
    /// Each type that is declared, wherever, with its line.
    pub types: Vec<(String, usize)>,
}

#[derive(Clone)]
struct Scope {
    module: Vec<String>,
    in_test: bool,
    /// Within an `impl` or a trait, whose `type`s are no types of their own.
    in_impl: bool,
}

impl Source {
    /// Reads the file that is the module `module` (`["state", "run"]`).
    pub fn read(text: &str, module: &[String]) -> Source {
        let mut source = Source::default();
        let scope = Scope {
            module: module.to_vec(),
            in_test: false,
            in_impl: false,
        };
        source.take(text.parse().expect("Rust"), &scope);
        source
    }

    fn take(&mut self, stream: TokenStream, scope: &Scope) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let (mut at, mut test_next, mut impl_next) = (0, false, false);
        let mut handed_on = false;
        while at < tokens.len() {
            let word = name(tokens.get(at)).unwrap_or_default();
            match (word.as_str(), &tokens[at]) {
                (_, TokenTree::Group(group)) => {
                    let inside = Scope {
                        in_impl: impl_next && group.delimiter() == Delimiter::Brace,
                        ..scope.clone()
                    };
                    impl_next &= !inside.in_impl;
                    test_next |= group.to_string().replace(' ', "") == "[cfg(test)]";
                    self.take(group.stream(), &inside);
                }
                (_, TokenTree::Punct(mark)) if mark.as_char() == ';' => {
                    (test_next, handed_on) = (false, false);
                }
                ("mod", _) => {
                    if let Some(TokenTree::Group(group)) = tokens.get(at + 2) {
                        let mut inside = scope.clone();
                        inside.module.extend(name(tokens.get(at + 1)));
                        inside.in_test |= std::mem::take(&mut test_next);
                        self.take(group.stream(), &inside);
                        at += 2;
                    }
                }
                ("use", _) => handed_on = is_public(&tokens[..at]),
                ("struct" | "enum" | "trait" | "type", token) => {
                    if let Some(declared) = name(tokens.get(at + 1))
                        && !(word == "type" && scope.in_impl)
                    {
                        self.types.push((declared, token.span().start().line));
                    }
                    impl_next |= word == "trait";
                    at += 1;
                }
                ("impl", _) => impl_next = true,
                ("", _) => {}
                _ if at > 0 && is_joined(&tokens[..at]) => {}
                _ => {
                    let mut found = Vec::new();
                    at = tree(&tokens, at, &[], &mut found);
                    let long = found.into_iter().filter(|(segments, _)| segments.len() > 1);
                    self.paths.extend(long.map(|(segments, line)| SourcePath {
                        segments: absolute(segments, &scope.module),
                        line,
                        in_test: scope.in_test,
                        handed_on,
                    }));
                    continue;
                }
            }
            at += 1;
        }
    }
}

fn name(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Whether what stands before a `use` is `pub` or `pub(…)`.
fn is_public(before: &[TokenTree]) -> bool {
    let mut before = before.iter().rev();
    let nearest = before.find(|token| !matches!(token, TokenTree::Group(_)));
    name(nearest).is_some_and(|word| word == "pub")
}

/// Whether `before` ends in `::`.
fn is_joined(before: &[TokenTree]) -> bool {
    let colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    matches!(before, [.., first @ TokenTree::Punct(mark), last]
        if mark.spacing() == Spacing::Joint && colon(first) && colon(last))
}

/// Reads `a::b::{c, d::e}` from `at`; puts each leaf with its line into `found`; returns the end.
fn tree(
    tokens: &[TokenTree],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let mut segments = before.to_vec();
    let line = tokens[at].span().start().line;
    loop {
        match &tokens[at] {
            TokenTree::Ident(ident) => segments.push(ident.to_string()),
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
                for part in inside.split(comma).filter(|part| !part.is_empty()) {
                    tree(part, 0, &segments, found);
                }
                return at + 1;
            }
            _ => segments.push("*".into()),
        }
        at += 1;
        let goes_on = match tokens.get(at + 2) {
            Some(TokenTree::Ident(_)) => true,
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
            Some(TokenTree::Punct(mark)) => mark.as_char() == '*',
            _ => false,
        };
        if !goes_on || !is_joined(&tokens[..at + 2]) {
            break;
        }
        at += 2;
    }
    found.push((segments, line));
    at
}

/// `self` and `super` resolved from `here`; other paths as they are.
fn absolute(segments: Vec<String>, here: &[String]) -> Vec<String> {
    let mut rest = segments.as_slice();
    let mut base = here;
    while let [first, others @ ..] = rest {
        match first.as_str() {
            "super" => base = &base[..base.len().saturating_sub(1)],
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    if rest.len() == segments.len() {
        return segments;
    }
    let root = ["crate".to_string()];
    [&root, base, rest].concat()
}
