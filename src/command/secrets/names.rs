//! Names of secrets, by the words in them.

/// Words that mean a secret anywhere in a name.
const ALWAYS: [&str; 24] = [
    "apikey",
    "apitoken",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "creds",
    "jwt",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pat",
    "pwd",
    "secret",
    "secrets",
    "sig",
    "signature",
    "webhook",
    "webhooks",
];

/// Ends of compound names: `PGPASSWORD`, `WANDBAPIKEY`, `HFTOKEN`.
const ENDS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passwords",
    "apikey",
    "apikeys",
    "apitokens",
    "accesskey",
    "accesskeys",
    "authkey",
    "privatekey",
    "secretkey",
    "sshkey",
    "secret",
    "secrets",
    "token",
    "pwd",
];

/// Words before `token` or `key` that make it one of the vocabulary, or a column's name.
const ORDINARY: [&str; 58] = [
    "add",
    "audio",
    "begin",
    "bos",
    "caption",
    "class",
    "cls",
    "column",
    "data",
    "decoder",
    "end",
    "eos",
    "feature",
    "fim",
    "first",
    "group",
    "image",
    "img",
    "index",
    "initializer",
    "input",
    "instance",
    "label",
    "last",
    "mask",
    "max",
    "metric",
    "min",
    "modifier",
    "monitor",
    "new",
    "next",
    "num",
    "output",
    "pad",
    "padding",
    "per",
    "placeholder",
    "prefix",
    "primary",
    "prompt",
    "sep",
    "sort",
    "special",
    "start",
    "state",
    "stop",
    "suffix",
    "target",
    "text",
    "trigger",
    "tokenizer",
    "unk",
    "video",
    "vision",
    "vocab",
    "word",
    "n",
];

/// Words after `token` or `key` that make it one of the vocabulary, of a sequence or of an attention.
const ORDINARY_AFTER: [&str; 48] = [
    "bias",
    "budget",
    "cache",
    "classification",
    "column",
    "count",
    "counts",
    "dim",
    "dims",
    "dropout",
    "embed",
    "embedding",
    "embeddings",
    "field",
    "frame",
    "frames",
    "heads",
    "idx",
    "ids",
    "index",
    "indices",
    "len",
    "length",
    "lengths",
    "level",
    "limit",
    "limits",
    "loss",
    "mask",
    "masking",
    "merging",
    "metric",
    "mixing",
    "norm",
    "padding",
    "per",
    "point",
    "points",
    "proj",
    "pruning",
    "rate",
    "shift",
    "size",
    "strategy",
    "type",
    "types",
    "weights",
    "window",
];

/// Words before `tokens` that make them secrets; without one they are counted.
const HELD: [&str; 10] = [
    "access", "api", "auth", "bearer", "gh", "github", "hf", "hub", "refresh", "wandb",
];

/// Words before `pass` that make it a pass over something.
const PASSES: [&str; 10] = [
    "backward", "eval", "first", "forward", "multi", "n", "num", "one", "second", "two",
];

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
    let words = words(name);
    words.iter().enumerate().any(|(n, word)| {
        let before = n.checked_sub(1).map(|n| words[n].as_str());
        let ordinary = before.is_some_and(|before| ORDINARY.contains(&before));
        match word.as_str() {
            "token" | "key" | "keys" => {
                let after = words.get(n + 1);
                !ordinary && after.is_none_or(|after| !ORDINARY_AFTER.contains(&after.as_str()))
            }
            "tokens" => n + 1 == words.len() && before.is_some_and(|before| HELD.contains(&before)),
            // `--auth-type` and `use_auth` say how to authenticate, not with what.
            "auth" => n + 1 == words.len() && before != Some("use"),
            "pass" => n + 1 == words.len() && before.is_none_or(|before| !PASSES.contains(&before)),
            word if ALWAYS.contains(&word) => true,
            word => ENDS.iter().any(|end| {
                (word.strip_suffix(end))
                    .is_some_and(|before| !before.is_empty() && !ORDINARY.contains(&before))
            }),
        }
    })
}

/// Whether a secret's name is one of several, which may all be given to one option.
pub(super) fn is_plural(name: &str) -> bool {
    let plurals = [
        "keys",
        "tokens",
        "words",
        "secrets",
        "credentials",
        "creds",
        "cookies",
        "hooks",
        "wds",
    ];
    let name = name.to_ascii_lowercase();
    plurals.iter().any(|plural| name.ends_with(plural))
}

/// A value that is no secret: `--use_auth_token True`.
pub(super) fn is_plain_value(value: &str) -> bool {
    ["", "true", "false", "none", "null", "yes", "no", "0", "1"]
        .iter()
        .any(|plain| value.eq_ignore_ascii_case(plain))
}

/// The words of a name in lower case: `accessToken` has two, `WANDB_API_KEY` three.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_small = false;
    for c in name.chars() {
        let begins = before_is_small && c.is_ascii_uppercase();
        before_is_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        if begins || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
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
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
