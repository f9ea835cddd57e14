//! Words that begin a sentence, and words that are one.

/// Capitalizes the text and adds a full stop.
pub(super) fn sentence(words: &str) -> String {
    match words.is_empty() {
        true => String::new(),
        false => capitalized(words) + ".",
    }
}

pub(super) fn capitalized(words: &str) -> String {
    let mut chars = words.chars();
    match chars.next() {
        Some(first) => format!("{}{}", first.to_uppercase(), chars.as_str()),
        None => String::new(),
    }
}
