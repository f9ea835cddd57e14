//! The rows of the program's terminal with its scrollback, by their distance from the last one, and
//! what is searched or selected among them.
//!
//! A row's distance grows with every row added below it. The emulator tells how many those are only
//! while the view is scrolled back, so searching and selecting scroll back by at least one row.

use std::num::NonZeroU16;
use std::ops::{Range, RangeInclusive};
use vt100::Screen;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputSearch {
    pub needle: String,
    /// The current match, by its distance.
    pub at: Option<usize>,
    /// The current match's place, counted from the newest, and the number of matches at the time of
    /// the search.
    pub count: (usize, usize),
}

/// Selected rows, by their distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selection {
    pub anchor: usize,
    pub head: usize,
}

impl Selection {
    pub fn rows(self) -> RangeInclusive<usize> {
        self.anchor.min(self.head)..=self.anchor.max(self.head)
    }
}

/// A row's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputRow {
    /// Without trailing blanks.
    pub text: String,
    /// The line goes on in the next row.
    pub goes_on: bool,
}

/// All rows, oldest first.
pub(super) fn all(screen: &mut Screen) -> Vec<OutputRow> {
    each(screen, |screen| {
        let texts = (0..).zip(screen.rows(0, screen.size().1.get()));
        let rows = texts.map(|(row, text)| OutputRow {
            text,
            goes_on: screen.row_wrapped(row),
        });
        rows.collect()
    })
}

/// A function's results for all rows, oldest first, screen by screen. The view is restored.
pub(super) fn each<T>(screen: &mut Screen, in_view: impl Fn(&Screen) -> Vec<T>) -> Vec<T> {
    let kept = screen.scrollback_len();
    let all = kept + usize::from(screen.size().0.get());
    let was = screen.scrollback();
    let mut made = Vec::with_capacity(all);
    while made.len() < all {
        let top = made.len().min(kept);
        screen.set_scrollback(kept - top);
        made.extend(in_view(screen).into_iter().skip(made.len() - top));
    }
    screen.set_scrollback(was);
    made
}

/// Whether the needle begins in the first of these rows; it may end in the rows that the line goes
/// on in. Lowercase letters match uppercase ones too, as in less and vi.
pub(super) fn begins_in(rows: &[OutputRow], needle: &str) -> bool {
    let Some((first, more)) = rows.split_first() else {
        return false;
    };
    let mut text = first.text.clone();
    let mut goes_on = first.goes_on;
    for row in more {
        if !goes_on || text.len() >= first.text.len() + needle.len() {
            break;
        }
        text.push_str(&row.text);
        goes_on = row.goes_on;
    }
    let mut found = found_in(&text, needle).into_iter();
    found.any(|range| range.start < first.text.len())
}

/// The byte ranges of the needle in a text.
fn found_in(text: &str, needle: &str) -> Vec<Range<usize>> {
    if needle.is_empty() {
        return Vec::new();
    }
    let exact = needle.chars().any(char::is_uppercase);
    let same = |a: char, b: char| a == b || !exact && a.to_lowercase().eq(std::iter::once(b));
    let mut found = Vec::new();
    let mut rest = text.char_indices();
    while let Some((at, _)) = rest.clone().next() {
        let mut here = rest.clone();
        let fits = needle
            .chars()
            .all(|wanted| here.next().is_some_and(|(_, c)| same(c, wanted)));
        if fits {
            let end = here.clone().next().map_or(text.len(), |(end, _)| end);
            found.push(at..end);
            rest = here;
        } else {
            rest.next();
        }
    }
    found
}

/// The columns of the needle in a row of the view, even if only a part of it is in this row.
pub(super) fn marks(screen: &Screen, row: u16, needle: &str) -> Vec<Range<u16>> {
    let (_, width) = screen.size();
    let mut text = String::new();
    // The column of each byte of this row.
    let mut here = Vec::new();
    let first = match row.checked_sub(1) {
        Some(before) if screen.row_wrapped(before) => before,
        Some(_) | None => row,
    };
    let last = if screen.row_wrapped(row) {
        row + 1
    } else {
        row
    };
    let mut begin = 0;
    for each in first..=last {
        if each == row {
            begin = text.len();
        }
        for column in 0..width.get() {
            let Some(cell) = screen.cell(each, column) else {
                break;
            };
            if cell.is_wide_continuation() {
                continue;
            }
            let contents = if cell.has_contents() {
                cell.contents()
            } else {
                " "
            };
            if each == row {
                here.extend(std::iter::repeat_n(column, contents.len()));
            }
            text.push_str(contents);
        }
    }
    let end = begin + here.len();
    let column = |byte: usize| here.get(byte - begin).copied().unwrap_or(width.get());
    let found = found_in(&text, needle).into_iter();
    found
        .filter(|range| range.start < end && range.end > begin)
        .map(|range| column(range.start.max(begin))..column(range.end.min(end)))
        .collect()
}

/// Rows of the screen from the top to the last one that has something, or the cursor.
pub(super) fn used(screen: &Screen) -> u16 {
    let (rows, columns) = screen.size();
    if screen.scrollback_len() > 0 {
        return rows.get();
    }
    let cursor = screen.cursor_position().0 + 1;
    // A row without text or background is formatted as nothing.
    let below = screen.rows_formatted(0, columns.get()).skip(cursor.into());
    let last = (cursor + 1..)
        .zip(below)
        .filter(|(_, row)| !row.is_empty())
        .last();
    last.map_or(cursor, |(used, _)| used)
}

/// The same after text without escape sequences, where `before` were used: what is below the cursor is as it was.
pub(super) fn used_after(screen: &Screen, before: u16) -> u16 {
    match screen.scrollback_len() > 0 {
        true => screen.size().0.get(),
        false => before.max(screen.cursor_position().0 + 1),
    }
}

/// What a line says of the program's own pace, as it says it: `9.81 it/s` or `1.02 s/it`.
pub(super) fn pace_in(line: &str) -> Option<String> {
    const UNITS: [&str; 7] = [
        "it/s", "s/it", "steps/s", "step/s", "s/step", "iter/s", "batch/s",
    ];
    let found = UNITS
        .iter()
        .filter_map(|unit| Some((line.rfind(unit)?, unit)));
    let (at, unit) = found.max_by_key(|(at, _)| *at)?;
    let before = line[..at].trim_end();
    let is_figure = |c: char| c.is_ascii_digit() || c == '.';
    let begin = before.trim_end_matches(is_figure).len();
    let figure = before[begin..].parse::<f64>().ok()?;
    (figure > 0.0).then(|| format!("{} {unit}", &before[begin..]))
}

/// How far to scroll back so that a row is in the middle of the view, or unchanged if it is in view
/// already; at least by one row if there is scrollback.
pub(super) fn view_of(distance: usize, scrolled: usize, height: NonZeroU16, kept: usize) -> usize {
    let height = usize::from(height.get());
    let in_view = (scrolled..scrolled + height).contains(&distance);
    let wanted = if in_view {
        scrolled
    } else {
        distance.saturating_sub(height / 2)
    };
    wanted.clamp(kept.min(1), kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_letters_find_capitals_and_capitals_themselves() {
        for (text, needle, found) in [
            ("Loss: 1 loss", "loss", &[(0, 4), (8, 12)][..]),
            ("Loss: 1 loss", "Loss", &[(0, 4)]),
            ("aaaa", "aa", &[(0, 2), (2, 4)]),
            ("Größe ÄB", "äb", &[(8, 11)]),
            ("abc", "", &[]),
            ("", "x", &[]),
        ] {
            let seen = found_in(text, needle).into_iter();
            let seen: Vec<_> = seen.map(|range| (range.start, range.end)).collect();
            assert_eq!(seen, found, "{needle:?} in {text:?}");
        }
    }

    #[test]
    fn the_pace_is_read_as_bars_and_loggers_print_it() {
        for (line, pace) in [
            (
                " 40%|####      | 40/100 [00:04<00:06,  9.81it/s]",
                Some("9.81 it/s"),
            ),
            ("2/10 [00:02<00:08,  1.02s/it, loss=0.3]", Some("1.02 s/it")),
            (
                "step 7, loss 1.9, 9.81 it/s, peak 7.2 GiB",
                Some("9.81 it/s"),
            ),
            ("0%|          | 0/100 [00:00<?, ?it/s]", None),
            ("downloading 12.3MB/s", None),
            ("loss 3.2", None),
        ] {
            assert_eq!(pace_in(line).as_deref(), pace, "{line}");
        }
    }

    #[test]
    fn a_row_that_is_in_view_stays_where_it_is() {
        let height = NonZeroU16::new(10).unwrap();
        for (distance, scrolled, kept, expected) in [
            (3, 0, 100, 1),
            (3, 2, 100, 2),
            (50, 0, 100, 45),
            (109, 0, 100, 100),
            (3, 0, 0, 0),
        ] {
            assert_eq!(view_of(distance, scrolled, height, kept), expected);
        }
    }
}
