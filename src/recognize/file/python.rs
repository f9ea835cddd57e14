//! FileSettings of a Python file that is nothing but assignments (nanoGPT's config files). What is
//! computed, assigned twice or inside a block is unclear.

use super::{FileSetting, FileSettings};

/// The assignments at the left margin.
pub(super) fn settings(text: &str) -> Result<FileSettings, String> {
    let mut settings = FileSettings::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        if line.contains("\"\"\"") || line.contains("'''") {
            return Err("it has text over several lines".into());
        }
        let content = line.trim_end();
        if content.starts_with("import ") || content.starts_with("from ") {
            settings.may_hide = true;
        }
        let Some((name, rest)) = content.split_once('=') else {
            continue;
        };
        let name = name.trim_end();
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        // Inside a block, or `+=`: assigned under conditions.
        let bare = name
            .trim_start()
            .trim_end_matches(['+', '-', '*', '/'])
            .trim_end();
        if !is_name(bare) || rest.starts_with('=') {
            continue;
        }
        let value = rest.split('#').next().unwrap_or(rest);
        let trimmed = value.trim();
        let at = from + content.len() - rest.len() + (value.len() - value.trim_start().len());
        let is_literal = !trimmed.is_empty()
            && (trimmed.bytes().all(|b| b.is_ascii_digit()) || matches!(trimmed, "True" | "False"));
        let quoted = ['\'', '"'].iter().find_map(|quote| {
            let inner = trimmed.strip_prefix(*quote)?.strip_suffix(*quote)?;
            (!inner.contains(['\'', '"', '\\'])).then_some(inner)
        });
        let (from, to) = match quoted {
            Some(inner) => (at + 1, at + 1 + inner.len()),
            None => (at, at + trimmed.len()),
        };
        settings.all.push(FileSetting {
            name: bare.to_string(),
            from,
            to,
            is_plain: name == bare && (is_literal || quoted.is_some()),
        });
    }
    Ok(settings)
}
