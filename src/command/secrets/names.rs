//! Names of secrets, by the words in them.

/// Words that mean a secret anywhere in a name.
const ALWAYS: [&str; 27] = [
    "apikey",
    "apitoken",
    "auth",
    "authn",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "creds",
    "jwt",
    "mnemonic",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pat",
    "pswd",
    "pwd",
    "secret",
    "secrets",
    "sig",
    "signature",
    "webhook",
    "webhooks",
];

/// Ends of compound names: `PGPASSWORD`, `WANDBAPIKEY`, `HFTOKEN`.
const ENDS: [&str; 19] = [
    "accesskey",
    "accesskeys",
    "apikey",
    "apikeys",
    "apitokens",
    "authkey",
    "authtoken",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "pswd",
    "pwd",
    "secret",
    "secretkey",
    "secrets",
    "sshkey",
    "token",
];

/// Words before `token` or `key` that make it one of the vocabulary, or a column's name.
const ORDINARY: [&str; 115] = [
    "add",
    "answer",
    "assistant",
    "attn",
    "audio",
    "begin",
    "blank",
    "boi",
    "bos",
    "by",
    "caption",
    "checkpoint",
    "chosen",
    "class",
    "cls",
    "column",
    "concept",
    "cond",
    "conditioning",
    "content",
    "context",
    "data",
    "decoder",
    "depth",
    "dict",
    "dist",
    "doc",
    "document",
    "end",
    "eoi",
    "eos",
    "eot",
    "eval",
    "feature",
    "fim",
    "first",
    "fn",
    "group",
    "history",
    "image",
    "img",
    "index",
    "init",
    "initializer",
    "input",
    "instance",
    "item",
    "label",
    "lang",
    "language",
    "last",
    "loss",
    "map",
    "mask",
    "max",
    "messages",
    "metric",
    "min",
    "model",
    "modifier",
    "monitor",
    "n",
    "new",
    "next",
    "num",
    "obs",
    "output",
    "pad",
    "padding",
    "params",
    "partition",
    "patch",
    "per",
    "placeholder",
    "pooling",
    "prefix",
    "primary",
    "prompt",
    "query",
    "question",
    "ref",
    "reference",
    "rejected",
    "response",
    "reward",
    "rgb",
    "role",
    "score",
    "sep",
    "sequence",
    "sort",
    "sot",
    "speaker",
    "special",
    "src",
    "stage",
    "start",
    "state",
    "step",
    "stop",
    "stratify",
    "suffix",
    "target",
    "text",
    "tgt",
    "think",
    "title",
    "tokenizer",
    "trigger",
    "unk",
    "video",
    "vision",
    "vocab",
    "weights",
    "word",
];

/// Words after `token` or `key` that make it one of the vocabulary, of a sequence or of an attention.
const ORDINARY_AFTER: [&str; 96] = [
    "acc",
    "accuracy",
    "batch",
    "bias",
    "bucket",
    "budget",
    "cache",
    "classification",
    "column",
    "compression",
    "count",
    "counts",
    "dim",
    "dims",
    "drop",
    "dropout",
    "embed",
    "embedding",
    "embeddings",
    "entropy",
    "error",
    "f1",
    "field",
    "filter",
    "frame",
    "frames",
    "frequency",
    "heads",
    "hidden",
    "ids",
    "idx",
    "index",
    "indices",
    "keep",
    "label",
    "labeling",
    "labels",
    "layer",
    "layers",
    "len",
    "length",
    "lengths",
    "level",
    "limit",
    "limits",
    "list",
    "loss",
    "mask",
    "masking",
    "merge",
    "merging",
    "metric",
    "mixer",
    "mixing",
    "mlp",
    "name",
    "noise",
    "norm",
    "num",
    "padding",
    "parallel",
    "per",
    "perplexity",
    "point",
    "points",
    "pool",
    "pooling",
    "pos",
    "position",
    "positions",
    "probs",
    "proj",
    "pruning",
    "rate",
    "ratio",
    "reduction",
    "sampling",
    "score",
    "scores",
    "select",
    "selection",
    "sep",
    "shift",
    "size",
    "stats",
    "std",
    "strategy",
    "temperature",
    "throughput",
    "throughputs",
    "type",
    "types",
    "usage",
    "weights",
    "width",
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

/// Words before `pw` that make it the weight of positives in a loss.
const WEIGHTED: [&str; 6] = ["box", "cls", "dfl", "loss", "obj", "pos"];

/// Parameters of URLs that are credentials, though an option of the same name would be none.
const PARAMETERS: [&str; 23] = [
    "assertion",
    "client_assertion",
    "code",
    "code_verifier",
    "hdnea",
    "hdntl",
    "hdnts",
    "hmac",
    "jsessionid",
    "nonce",
    "oauth_verifier",
    "otp",
    "phpsessid",
    "policy",
    "resourcekey",
    "rlkey",
    "samlresponse",
    "sas",
    "session",
    "session_id",
    "sessionid",
    "sid",
    "ticket",
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
    let follows = |list: &[&str]| before.is_some_and(|before| among(list, before));
    if is("token") || is("key") || is("keys") {
        let ordinary_after = after.is_some_and(|after| among(&ORDINARY_AFTER, after));
        return !follows(&ORDINARY) && (!ordinary_after || follows(&HELD));
    }
    if is("tokens") {
        return after.is_none() && follows(&HELD);
    }
    // `--auth-type` and `use_auth` say how to authenticate, not with what.
    if is("auth") {
        return after.is_none() && !follows(&["use"]);
    }
    if is("pass") {
        return after.is_none() && !follows(&PASSES);
    }
    if is("pw") {
        return after.is_none() && !follows(&WEIGHTED);
    }
    among(&ALWAYS, word)
        || ENDS.iter().any(|end| {
            let from = word.len().saturating_sub(end.len());
            from > 0 && word[from..].eq_ignore_ascii_case(end) && !among(&ORDINARY, &word[..from])
        })
}

fn among(list: &[&str], word: &str) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// Whether a parameter of a URL has this name and is a credential.
pub(super) fn is_secret_parameter(name: &str) -> bool {
    among(&PARAMETERS, name)
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
    let name = name.as_bytes();
    plurals.iter().any(|plural| {
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
