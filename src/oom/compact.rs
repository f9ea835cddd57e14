//! Text without white space, and the figures in it.
//!
//! Terminals and loggers wrap a long message anywhere, even in the middle of a number. Without
//! white space it does not matter where, so wordings are searched in this form:
//! `Triedtoallocate2.00GiB`.

use crate::units::Bytes;
use std::str::FromStr;

/// The units that frameworks print behind a figure; longer ones before those they end with.
const UNITS: [&str; 9] = ["bytes", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"];

/// `text` without white space, escaped line ends (`\n`) and the borders of a box around it.
pub(super) fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let mut word = word;
        while let Some(at) = memchr::memchr(b'\\', word.as_bytes()) {
            let written_end = matches!(word.as_bytes().get(at + 1), Some(b'n' | b'r' | b't'));
            let (kept, skipped) = if written_end { (at, 2) } else { (at + 1, 1) };
            out.push_str(&word[..kept]);
            word = &word[at + skipped..];
        }
        out.push_str(word);
    }
    // rich and others draw boxes around wrapped text.
    if memchr::memmem::find(out.as_bytes(), "│".as_bytes()).is_some() {
        out.retain(|c| c != '│');
    }
    out
}

/// Like [`str::find`], but without its setup for long texts.
pub(super) fn find(text: &str, words: &str) -> Option<usize> {
    memchr::memmem::find(text.as_bytes(), words.as_bytes())
}

/// The figure behind the first `words`. `None` also for figures that mean "not available".
pub(super) fn size_after(text: &str, words: &str) -> Option<Bytes> {
    size_at_start(&text[find(text, words)? + words.len()..])?.0
}

/// The figure before the first `words` that have one.
pub(super) fn size_before(text: &str, words: &str) -> Option<Bytes> {
    memchr::memmem::find_iter(text.as_bytes(), words.as_bytes())
        .find_map(|at| size_at_end(&text[..at]))
}

/// The figure at the start of `text` and the rest; the figure is `None` if it means "not
/// available".
pub(super) fn size_at_start(text: &str) -> Option<(Option<Bytes>, &str)> {
    let number = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .unwrap_or(text.len());
    let unit = UNITS
        .iter()
        .find(|unit| text[number..].starts_with(**unit))?;
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let end = number + unit.len();
    Some((parse(&text[..end]), &text[end..]))
}

fn size_at_end(text: &str) -> Option<Bytes> {
    let unit = UNITS.iter().find(|unit| text.ends_with(**unit))?;
    let number = &text[..text.len() - unit.len()];
    let start = number
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |at| {
            at + number[at..].chars().next().map_or(1, char::len_utf8)
        });
    // `free.1.20GiBallowed`: the first full stop ends a sentence.
    let number = &number[start..];
    let dots = if *unit == "bytes" { 1 } else { 2 };
    let number = match number.rmatch_indices('.').nth(dots - 1) {
        Some((stop, _)) => &number[stop + 1..],
        None => number.trim_start_matches('.'),
    };
    parse(&text[text.len() - unit.len() - number.len()..])
}

/// CuPy prints commas between thousands.
fn parse(figure: &str) -> Option<Bytes> {
    if figure.contains(',') {
        Bytes::parse(&figure.replace(',', ""))
    } else {
        Bytes::parse(figure)
    }
}

/// The integer behind the first `words`.
pub(super) fn number_after(text: &str, words: &str) -> Option<u32> {
    number_at_start(&text[find(text, words)? + words.len()..]).map(|(number, _)| number)
}

/// The integer at the start of `text`, and the rest.
pub(super) fn number_at_start<T: FromStr>(text: &str) -> Option<(T, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_of_every_kind_goes() {
        assert_eq!(squeeze(" a b\t\u{a0}c\r\nd\\n e \\x"), "abcde\\x");
    }

    #[test]
    fn figures_are_read_on_either_side_of_words() {
        let text = "Triedtoallocate1.50GiB.Ofwhich0bytesisfree.Processhas3.25MiBcached";
        assert_eq!(size_after(text, "Triedtoallocate"), Some(Bytes::mib(1536)));
        assert_eq!(size_after(text, "Ofwhich"), Some(Bytes(0)));
        assert_eq!(size_before(text, "cached"), Some(Bytes(3_407_872)));
        assert_eq!(size_before(text, "isfree"), Some(Bytes(0)));
        assert_eq!(size_after(text, "Process"), None);
        assert_eq!(size_before(text, "Of"), None);
        assert_eq!(size_after(text, "absent"), None);
    }

    #[test]
    fn odd_figures_are_refused_or_read() {
        assert_eq!(size_after("x1,234,567bytes", "x"), Some(Bytes(1_234_567)));
        assert_eq!(size_after("x184.MiB", "x"), Some(Bytes::mib(184)));
        assert_eq!(size_after("x17179869184.00GiB", "x"), None);
        assert_eq!(size_after("x.GiB", "x"), None);
        assert_eq!(size_after("x1.2.3GiB", "x"), None);
        assert_eq!(size_before("\u{e9}GiBx", "x"), None);
        assert_eq!(size_before("\u{e9}2GiBx", "x"), Some(Bytes::gib(2)));
        assert_eq!(size_before("free.1.50GiBx", "x"), Some(Bytes::mib(1536)));
        assert_eq!(size_before("free.17bytesx", "x"), Some(Bytes(17)));
        assert_eq!(size_before("free.3GiBx", "x"), Some(Bytes::gib(3)));
        assert_eq!(number_after("GPU99999999999", "GPU"), None);
        assert_eq!(number_after("GPU3;", "GPU"), Some(3));
    }
}
