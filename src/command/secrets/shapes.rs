//! Secrets recognized by their own form.

/// Prefixes of tokens, and the minimum length of one: a shorter word is a name that happens to
/// begin so (`hf_hub`, `sk-learn`).
const BEGINNINGS: [(&str, usize); 36] = [
    // Hugging Face, OpenAI and Anthropic, NVIDIA, Replicate, Groq, xAI, Perplexity.
    ("hf_", 20),
    ("api_org_", 20),
    ("sk-", 20),
    ("nvapi-", 20),
    ("r8_", 20),
    ("gsk_", 20),
    ("xai-", 20),
    ("pplx-", 20),
    // GitHub, GitLab, Bitbucket and Atlassian.
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("glrt-", 20),
    ("ATATT", 20),
    ("ATBB", 20),
    // Clouds and registries.
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 30),
    ("ya29.", 20),
    ("dop_v1_", 20),
    ("npm_", 20),
    ("pypi-", 20),
    ("dckr_pat_", 20),
    ("hvs.", 20),
    // Messages, mail, money.
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxa-", 20),
    ("xapp-", 20),
    ("SG.", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("lin_api_", 20),
];

/// URLs whose rest is the secret.
const ADDRESSES: [&str; 7] = [
    "hooks.slack.com/services/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
    "hooks.zapier.com/hooks/catch/",
    "open-apis/bot/v2/hook/",
    "api.telegram.org/bot",
];

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
    for address in ADDRESSES {
        let mut seen = 0;
        found.extend(text.match_indices(address).filter_map(|(at, _)| {
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
        let begins = BEGINNINGS.iter().any(|(beginning, least)| {
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
