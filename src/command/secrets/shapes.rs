//! Secrets recognized by their own form.

use serde::Deserialize;
use std::sync::LazyLock;

/// What `shapes.toml` has, which explains each list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownForms {
    beginnings: Vec<(String, usize)>,
    addresses: Vec<String>,
}

static FORMS: LazyLock<KnownForms> =
    LazyLock::new(|| toml::from_str(include_str!("shapes.toml")).expect("shapes.toml is valid"));

/// The byte ranges of secrets in a text.
pub(super) fn find(text: &str) -> Vec<(usize, usize)> {
    let mut found = users(text);
    // Most words have neither a blank nor a slash.
    if text.contains(' ') {
        found.extend(sentences(text));
    }
    if text.contains('/') {
        found.extend(addresses(text));
    }
    found.extend(tokens(text));
    found.retain(|(start, end)| start < end);
    found
}

/// A private key, and what a header says behind its scheme.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    if let Some(at) = text
        .find("-----BEGIN ")
        .filter(|_| text.contains("PRIVATE KEY"))
    {
        found.push((at, text.len()));
    }
    for scheme in ["Bearer ", "Basic "] {
        found.extend(text.match_indices(scheme).filter_map(|(at, _)| {
            let from = at + scheme.len();
            let length = text[from..]
                .find(['"', '\'', ' ', '\n'])
                .unwrap_or(text.len() - from);
            // Two words of a sentence are no secret.
            (length >= 8 || scheme == "Bearer ").then_some((from, from + length))
        }));
    }
    found
}

/// The rest of addresses that are secrets themselves.
fn addresses(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for address in &FORMS.addresses {
        let mut seen = 0;
        found.extend(text.match_indices(address.as_str()).filter_map(|(at, _)| {
            let from = at + address.len();
            if from < seen {
                return None;
            }
            let length = text[from..].find(['"', '\'', ' ', '\n']);
            seen = length.map_or(text.len(), |length| from + length);
            Some((from, seen))
        }));
    }
    found
}

/// Who asks, before the host of a URL: `user:password`, and for the web a token alone.
fn users(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut schemes = text.match_indices("://").map(|(at, _)| at).peekable();
    while let Some(scheme) = schemes.next() {
        let from = scheme + 3;
        // What comes before the next address is all that is looked at: each is looked at once.
        let next = schemes.peek().map_or(text.len(), |next| *next);
        let rest = text.get(from..next).unwrap_or_default();
        let Some(user) = user(rest) else {
            continue;
        };
        let is_secret = user.contains(':')
            || is_of_the_web(&text[..scheme])
            || user.len() >= 16
                && is_random(user, "")
                && user.contains(|c: char| c.is_ascii_digit());
        if is_secret {
            found.push((from, from + user.len()));
        }
    }
    found
}

/// What stands before the host of an address without its scheme.
fn user(rest: &str) -> Option<&str> {
    let end = rest.find(['/', '?', '#', ' ', '"', '\'']);
    let authority = &rest[..end.unwrap_or(rest.len())];
    let at = match authority.rfind('@') {
        Some(at) => at,
        None => after_what_is_no_port(rest, authority)?,
    };
    Some(&rest[..at])
}

/// Where a password ends that is not written as a URL wants it: with a slash or a blank in it.
fn after_what_is_no_port(rest: &str, authority: &str) -> Option<usize> {
    let (_, port) = authority
        .split_once(':')
        .filter(|_| !authority.starts_with('['))?;
    if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let line = rest.find(['"', '\'', '\n']).unwrap_or(rest.len());
    rest[..line].rfind('@')
}

/// Whether a text ends with a scheme whose user is a token, not a name (`ssh://git@host`).
fn is_of_the_web(before: &str) -> bool {
    let before = before.as_bytes();
    [&b"http"[..], b"https"].iter().any(|scheme| {
        let from = before.len().saturating_sub(scheme.len());
        before[from..].eq_ignore_ascii_case(scheme)
    })
}

fn tokens(text: &str) -> Vec<(usize, usize)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..].find(is_part).map(|offset| at + offset) {
        let end = text[from..]
            .find(|c| !is_part(c))
            .map_or(text.len(), |n| from + n);
        at = end;
        let piece = &text[from..end];
        let begins = FORMS.beginnings.iter().any(|(beginning, least)| {
            piece.len() >= *least && piece.starts_with(beginning) && is_random(piece, beginning)
        });
        if begins || is_web_token(piece) {
            found.push((from, end));
        }
    }
    found
}

/// Whether the text after the prefix is random and not made of words: `sk-learn-estimators`.
fn is_random(piece: &str, beginning: &str) -> bool {
    let rest = &piece[beginning.len()..];
    let longest = rest.split(['-', '_', '.']).map(str::len).max();
    longest.is_some_and(|longest| longest >= 12)
}

/// A JSON Web Token: three parts, the first of which begins with `{"` in base 64.
fn is_web_token(piece: &str) -> bool {
    let mut parts = piece.split('.').map(str::len);
    piece.starts_with("eyJ") && parts.next() >= Some(8) && parts.next() >= Some(8)
}
