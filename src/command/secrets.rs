//! What is nobody's business: told by the name that it is given to, or by its own look. Masked
//! wherever a command is shown or stored.

use super::Word;

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// Whether a name means that its value is nobody's business.
///
/// Whole words between `_`, `-`, `.` are compared, so that `--tokenizer`, `max_tokens` and
/// `--keyframes` are no secrets while `--hf_token` and `WANDB_API_KEY` are.
pub fn is_secret(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|part| {
            matches!(
                part.to_ascii_lowercase().as_str(),
                "token"
                    | "key"
                    | "apikey"
                    | "secret"
                    | "password"
                    | "passwd"
                    | "credential"
                    | "credentials"
            )
        })
}

/// The words as text, values of secret options masked (`--token X`, `--token=X`, `hub.token=X`).
pub fn masked(argv: &[Word]) -> Vec<String> {
    masked_words(argv)
        .iter()
        .map(Word::to_string_lossy)
        .collect()
}

pub(super) fn masked_words(argv: &[Word]) -> Vec<Word> {
    let mut value_of_secret = false;
    argv.iter()
        .map(|word| {
            let text = word.to_string_lossy();
            if std::mem::take(&mut value_of_secret) && !text.starts_with("--") {
                return Word::from(MASK);
            }
            match text.split_once('=') {
                Some((name, _)) if is_secret(name) => return Word::from(format!("{name}={MASK}")),
                Some(_) => {}
                None => value_of_secret = text.starts_with('-') && is_secret(&text),
            }
            match without_tokens(&text) {
                Some(masked) => Word::from(masked),
                None => word.clone(),
            }
        })
        .collect()
}

/// Beginnings by which the services that issue them have tokens recognised: Hugging Face, OpenAI
/// and Anthropic, GitHub, GitLab.
const TOKEN_BEGINNINGS: [&str; 8] = [
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "api_org_",
];
/// A word that is shorter is a name that happens to begin so (`hf_hub`, `sk-learn`).
const TOKEN_LENGTH: usize = 20;

/// `text` with what looks like a secret masked, or `None` where nothing does: a token by its
/// beginning, `user:password@` in a URL, what follows `Bearer`.
fn without_tokens(text: &str) -> Option<String> {
    if let Some((before, after)) = text.split_once("://")
        && let Some((user, rest)) = after.split_once('@')
        && user.contains(':')
        && !user.contains('/')
    {
        return Some(format!("{before}://{MASK}@{rest}"));
    }
    if let Some((before, _)) = text.split_once("Bearer ") {
        return Some(format!("{before}Bearer {MASK}"));
    }
    let value = text.rsplit(['=', ':', ' ']).next().unwrap_or(text);
    let is_token = value.len() >= TOKEN_LENGTH
        && TOKEN_BEGINNINGS
            .iter()
            .any(|beginning| value.starts_with(beginning));
    is_token.then(|| text.replacen(value, MASK, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_look_too() {
        for (word, shown) in [
            ("https://ada:pw@host/x", "https://***@host/x"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("hf_abcdefghijklmnopqrstuvwx", "***"),
            ("hub=hf_abcdefghijklmnopqrstuvwx", "hub=***"),
            ("hf_hub", "hf_hub"),
            ("https://host/a@b", "https://host/a@b"),
            ("tcp://10.0.0.1:29500", "tcp://10.0.0.1:29500"),
        ] {
            assert_eq!(masked(&[Word::from(word)]), [shown]);
        }
    }
}
