//! The only way of a string into the page: secrets masked, controls taken out, markup made text.

use crate::command;
use serde::Serialize;

/// The string as text of HTML, in an element or a quoted attribute.
pub(super) fn text(value: &str) -> String {
    let value = command::without_secrets(value);
    let mut whole = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            '&' => whole.push_str("&amp;"),
            '<' => whole.push_str("&lt;"),
            '>' => whole.push_str("&gt;"),
            '"' => whole.push_str("&quot;"),
            '\'' => whole.push_str("&#39;"),
            c if acts(c) => whole.push(' '),
            c => whole.push(c),
        }
    }
    whole
}

/// The same for a command: a line is broken between words, not after the dash of an option.
pub(super) fn words(value: &str) -> String {
    let value = command::without_secrets(value);
    let words: Vec<String> = (value.split(' '))
        .map(|word| format!("<span>{}</span>", text(word)))
        .collect();
    words.join(" ")
}

/// Controls, separators of lines, and marks that turn the direction of text, and so its meaning.
fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON that stands inside a `<script>`: no `<` ends it early. A control is spelled out in JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    json.replace(acts, " ").replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text_and_secrets_do_not_come_in() {
        let hostile = "</script><b onclick=\"x\">'&\u{1b}[2J\u{202e}";
        let shown = text(hostile);
        assert!(
            !shown.contains(['<', '>', '"', '\'', '\u{1b}', '\u{202e}']),
            "{shown}"
        );
        assert!(json(&hostile).contains("\\u003c/script>"));
        assert!(!text("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH").contains("abcdef"));
    }
}
