//! Names of secrets, by the words in them.

use serde::Deserialize;
use std::sync::LazyLock;

/// What `names.toml` has, which explains each list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameWords {
    always: Vec<String>,
    ends: Vec<String>,
    ordinary: Vec<String>,
    ordinary_after: Vec<String>,
    held: Vec<String>,
    passes: Vec<String>,
    weighted: Vec<String>,
    parameters: Vec<String>,
    plurals: Vec<String>,
}

static WORDS: LazyLock<NameWords> =
    LazyLock::new(|| toml::from_str(include_str!("names.toml")).expect("names.toml is valid"));

/// Whether a name means that its value is a secret.
///
/// Whole words are compared, split at other characters than letters and digits and at a change of
/// case: `--tokenizer`, `max_tokens` and `--keyframes` are no secrets, `--hf_token`, `accessToken`
/// and `WANDB_API_KEY` are.
pub fn is_secret(name: &str) -> bool {
    // The shell's own: the working directory.
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let mut words = words(name).peekable();
    let mut before = None;
    while let Some(word) = words.next() {
        if means_a_secret(before, word, words.peek().copied()) {
            return true;
        }
        before = Some(word);
    }
    false
}

/// Whether a word of a name means a secret between its neighbours.
fn means_a_secret(before: Option<&str>, word: &str, after: Option<&str>) -> bool {
    let is = |one: &str| word.eq_ignore_ascii_case(one);
    let follows = |list: &[String]| before.is_some_and(|before| among(list, before));
    if is("token") || is("key") || is("keys") {
        let ordinary_after = after.is_some_and(|after| among(&WORDS.ordinary_after, after));
        return !follows(&WORDS.ordinary) && (!ordinary_after || follows(&WORDS.held));
    }
    if is("tokens") {
        return after.is_none() && follows(&WORDS.held);
    }
    // `--auth-type` and `use_auth` say how to authenticate, not with what.
    if is("auth") {
        return after.is_none() && !before.is_some_and(|before| before.eq_ignore_ascii_case("use"));
    }
    if is("pass") {
        return after.is_none() && !follows(&WORDS.passes);
    }
    if is("pw") {
        return after.is_none() && !follows(&WORDS.weighted);
    }
    among(&WORDS.always, word)
        || WORDS.ends.iter().any(|end| {
            let from = word.len().saturating_sub(end.len());
            from > 0
                && word[from..].eq_ignore_ascii_case(end)
                && !among(&WORDS.ordinary, &word[..from])
        })
}

fn among<S: AsRef<str>>(list: &[S], word: &str) -> bool {
    list.iter()
        .any(|one| one.as_ref().eq_ignore_ascii_case(word))
}

/// Whether a parameter of a URL has this name and is a credential.
pub(super) fn is_secret_parameter(name: &str) -> bool {
    among(&WORDS.parameters, name)
}

/// Whether a name has several words: `hf_token`. One alone (`key`, `secret`) may be a word of a sentence.
pub(super) fn is_compound(name: &str) -> bool {
    words(name).nth(1).is_some()
}

/// Whether an option's name ends with a word for somebody, who may be given with a password: `--proxy-user`.
pub(super) fn is_of_user(name: &str) -> bool {
    let last = words(name).last();
    last.is_some_and(|last| among(&["u", "user", "username", "userpwd", "login"], last))
}

/// Whether a secret's name is one of several, which may all be given to one option.
pub(super) fn is_plural(name: &str) -> bool {
    let name = name.as_bytes();
    WORDS.plurals.iter().any(|plural| {
        let from = name.len().saturating_sub(plural.len());
        name[from..].eq_ignore_ascii_case(plural.as_bytes())
    })
}

/// A value that is no secret: `--use_auth_token True`.
pub(super) fn is_plain_value(value: &str) -> bool {
    ["", "true", "false", "none", "null", "yes", "no", "0", "1"]
        .iter()
        .any(|plain| value.eq_ignore_ascii_case(plain))
}

/// The words of a name: `accessToken` has two, `WANDB_API_KEY` three.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let mut before_is_small = false;
        let ends = |c: u8| {
            let begins_another = before_is_small && c.is_ascii_uppercase();
            before_is_small = c.is_ascii_lowercase() || c.is_ascii_digit();
            begins_another || !c.is_ascii_alphanumeric()
        };
        let end = rest.bytes().position(ends).unwrap_or(rest.len());
        let (word, others) = rest.split_at(end);
        rest = others;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whether_they_are_given_to_secrets() {
        for name in [
            "--token",
            "hf_token",
            "accessToken",
            "PGPASSWORD",
            "WANDBAPIKEY",
            "HFTOKEN",
            "--pwd",
            "api_key",
            "X-Api-Key",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASS",
            "--passphrase",
            "hub.token",
            "--private-key",
            "clientSecret",
            "MYSQL_PWD",
            "--api_keys",
            "hf_tokens",
            "db.passwords",
            "AWS_ACCESS_KEY_ID",
            "--pw",
            "db_pw",
            "api_key_list",
            "GITHUB_TOKEN_NAME",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "--tokenizer",
            "max_tokens",
            "--keyframes",
            "--eos_token",
            "pad_token",
            "--image_key",
            "--placeholder_token",
            "PWD",
            "--monkey",
            "--forward_pass",
            "--pass-through",
            "secretary",
            "--tokens_per_batch",
            "--n_token",
            "--keyword",
            "hockey",
            "--auth-type",
            "--token-type-ids",
            "--token_dropout",
            "tokens",
            "--key_padding_mask",
            "key_points",
            "--cls_pw",
            "data.reward_fn_key",
            "--checkpoint_key",
            "query_key_value",
            "--token_list",
            "token_accuracy",
            "--num_key_value_heads",
            "--sort-key",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
