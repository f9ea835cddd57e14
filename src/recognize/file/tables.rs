//! The settings of a TOML file, with their places.

use super::{FileSetting, FileSettings};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// All scalars of a document.
pub(super) fn settings(text: &str) -> Result<FileSettings, String> {
    let document = DeTable::parse(text).map_err(|error| {
        format!(
            "it isn't valid TOML ({})",
            error.message().replace('\n', "; ")
        )
    })?;
    let mut found = Vec::new();
    table("", document.get_ref(), &mut found);
    found.sort_by_key(|setting| setting.from);
    Ok(FileSettings {
        all: found,
        may_hide: false,
    })
}

fn table(name: &str, table: &DeTable<'_>, found: &mut Vec<FileSetting>) {
    for (key, inner) in table.iter() {
        let dot = if name.is_empty() { "" } else { "." };
        value(format!("{name}{dot}{}", key.get_ref()), inner, found);
    }
}

fn value(name: String, value_here: &Spanned<DeValue<'_>>, found: &mut Vec<FileSetting>) {
    let span = value_here.span();
    let mut push = |from, to, is_plain| {
        found.push(FileSetting {
            name: name.clone(),
            from,
            to,
            is_plain,
        });
    };
    match value_here.get_ref() {
        DeValue::Table(inner) => table(&name, inner, found),
        DeValue::Array(inner) => {
            for (index, part) in inner.iter().enumerate() {
                value(format!("{name}.{index}"), part, found);
            }
        }
        // Without quotes, of which a multi-line string has three.
        DeValue::String(text) => {
            let short = span.len() == text.len() + 2;
            push(span.start + 1, span.end.saturating_sub(1), short);
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            push(span.start, span.end, true);
        }
    }
}
