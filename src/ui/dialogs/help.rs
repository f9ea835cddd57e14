//! The help: the keys of what it was opened over, by what they are about, and those of them whose words are
//! searched for.

use super::place::{place, width_within};
use crate::remedy::RemedyId;
use crate::ui::available::is_listed;
use crate::ui::canvas::{Canvas, columns};
use crate::ui::dialog::HelpDialog;
use crate::ui::keymap::{self, InputMode, KeyRow};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::glossary;
use ratatui::layout::{Position, Rect};

/// Columns of the keys' names.
const KEYS: u16 = 14;

/// Columns of one list of keys.
const WIDTH: u16 = 72;

/// Columns of each of two lists beside each other, where one would be too long for the screen.
const HALF: u16 = 57;

/// The title of the words that the screen uses.
const TERMS: &str = "words";

/// The title of the remedies' keys, each of which is there where its remedy is offered.
const REMEDIES: &str = "remedies when memory runs out, where they are offered";

/// A row of the help.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HelpRow {
    Blank,
    Title(&'static str),
    Keys(String, String),
}

/// Returns the cursor's position, where a text is typed.
pub(super) fn draw(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    help: &HelpDialog,
) -> Option<Position> {
    let (area, glyphs) = (canvas.area, canvas.theme.glyphs);
    let one = rows(
        view,
        scene,
        help,
        width_within(area, WIDTH + 4).saturating_sub(KEYS + 4),
    );
    let fits = one.len() + 5 <= usize::from(area.height);
    let (wanted, lists) = match !fits && area.width >= 2 * HALF + 4 {
        true => (2 * HALF, 2),
        false => (WIDTH, 1),
    };
    let lines = match lists {
        2 => in_two(rows(view, scene, help, HALF - KEYS - 2)),
        _ => vec![one],
    };
    let tallest = lines.iter().map(Vec::len).max().unwrap_or(0);
    let rect = place(area, width_within(area, wanted + 4), tallest as u16 + 3);
    let mut inside = canvas.boxed(rect, "keys", Tone::Accent);
    // The last row is the search's, or says how many are hidden.
    let height = usize::from(inside.area.height).saturating_sub(1);
    let most = tallest.saturating_sub(height);
    let first = help.scrolled.min(most);
    for (list, lines) in (0..).zip(&lines) {
        let column = Rect {
            x: inside.area.x + list * HALF,
            width: inside.area.width.saturating_sub(list * HALF),
            ..inside.area
        };
        for (row, line) in (0..).zip(lines.iter().skip(first).take(height)) {
            let mut part = inside.at(column);
            let mut pen = part.pen(row);
            match line {
                HelpRow::Blank => {}
                HelpRow::Title(title) => drop(pen.text(title, Tone::Strong)),
                HelpRow::Keys(keys, words) => {
                    pen.cut(keys, KEYS - 1, Tone::Accent)
                        .to(KEYS)
                        .rest(words, Tone::Text);
                }
            }
        }
    }
    let [up, down, ..] = glyphs.arrow_keys;
    let hidden = match most {
        0 => String::new(),
        _ => format!("{up} {first} above  {down} {} below  ", most - first),
    };
    last_row(&mut inside, help, &hidden, lines.iter().all(Vec::is_empty))
}

/// The search, and how much is hidden.
fn last_row(
    inside: &mut Canvas,
    help: &HelpDialog,
    hidden: &str,
    is_empty: bool,
) -> Option<Position> {
    let area = inside.area;
    let row = area.height.checked_sub(1)?;
    let mut pen = inside.pen(row);
    pen.text(hidden, Tone::Dim);
    let (before, after) = help.searched().halves();
    if !help.is_typed && before.is_empty() && after.is_empty() {
        pen.text("/", Tone::Accent)
            .text(" search the keys", Tone::Dim);
        return None;
    }
    pen.text("/", Tone::Accent).text(before, Tone::Strong);
    let cursor = Position::new(area.x + pen.column(), area.y + row);
    pen.text(after, Tone::Strong);
    if is_empty {
        pen.text("  no key has these words", Tone::Warning);
    }
    (help.is_typed && area.contains(cursor)).then_some(cursor)
}

/// A title for each group, where there are several, and words on as many rows as they need.
fn rows(view: &View, scene: &Scene, help: &HelpDialog, words_room: u16) -> Vec<HelpRow> {
    let listed = keymap::bindings(help.mode());
    let glyphs = view.theme.glyphs;
    let listed: Vec<_> = listed
        .filter(|binding| is_listed(view, binding.action, scene))
        .collect();
    let is_grouped = keymap::groups(listed.iter().copied(), glyphs).len() > 1;
    let found = listed.into_iter();
    let found = found.filter(|binding| help.finds(&keymap::said_of(binding, glyphs)));
    let groups = keymap::groups(found, glyphs);
    let elsewhere = match help.searched().text().trim() {
        "" => Vec::new(),
        _ => found_elsewhere(view, scene, help),
    };
    let is_meant = |term: &&(&str, &str)| help.finds(&format!("{TERMS} {} {}", term.0, term.1));
    let terms: Vec<_> = glossary(help.mode()).iter().filter(is_meant).collect();
    let mut rows = Vec::new();
    for (group, keys) in groups {
        if is_grouped {
            rows.extend((!rows.is_empty()).then_some(HelpRow::Blank));
            rows.push(HelpRow::Title(group.title()));
        }
        let keys = keys.into_iter();
        rows.extend(keys.flat_map(|(keys, words)| wrapped(keys, words, words_room)));
    }
    for (title, keys) in elsewhere {
        rows.extend((!rows.is_empty()).then_some(HelpRow::Blank));
        rows.push(HelpRow::Title(title));
        let keys = keys.into_iter();
        rows.extend(keys.flat_map(|(keys, words)| wrapped(keys, words, words_room)));
    }
    if !terms.is_empty() {
        rows.extend((!rows.is_empty()).then_some(HelpRow::Blank));
        rows.push(HelpRow::Title(TERMS));
        let terms = terms.into_iter();
        rows.extend(terms.flat_map(|(term, says)| wrapped((*term).into(), says, words_room)));
    }
    rows
}

/// What is searched for among the keys that do nothing here and now, by where they do.
fn found_elsewhere(
    view: &View,
    scene: &Scene,
    help: &HelpDialog,
) -> Vec<(&'static str, Vec<KeyRow>)> {
    let places = [
        (InputMode::Watching, "on the chart"),
        (InputMode::Step, "in the view of a step (s)"),
        (InputMode::Oom, "in the dialog when memory runs out (o)"),
    ];
    let mut all = Vec::new();
    for (mode, title) in places {
        let is_here = mode == help.mode();
        let bindings = keymap::bindings(mode);
        let glyphs = view.theme.glyphs;
        let bindings =
            bindings.filter(|binding| !is_here || !is_listed(view, binding.action, scene));
        let found = bindings.filter(|binding| help.finds(&keymap::said_of(binding, glyphs)));
        let groups = keymap::groups(found, glyphs).into_iter();
        let keys: Vec<KeyRow> = groups.flat_map(|(_, rows)| rows).collect();
        let title = if is_here { "here, but not now" } else { title };
        if !keys.is_empty() {
            all.push((title, keys));
        }
    }
    let remedies = RemedyId::all().map(|id| (id.spec().key.to_string(), id.spec().title));
    let remedies = remedies.filter(|(key, title)| help.finds(&format!("{REMEDIES} {key} {title}")));
    let remedies: Vec<KeyRow> = remedies.collect();
    if !remedies.is_empty() {
        all.push((REMEDIES, remedies));
    }
    all
}

/// Two lists of about the same height; a group begins the second where one begins near the middle.
fn in_two(mut rows: Vec<HelpRow>) -> Vec<Vec<HelpRow>> {
    let middle = rows.len().div_ceil(2);
    let begins = |at: &usize| matches!(rows[*at], HelpRow::Blank);
    let blank = (0..rows.len()).filter(begins);
    let nearest = blank.min_by_key(|at| at.abs_diff(middle));
    let at = nearest.filter(|at| at.abs_diff(middle) <= rows.len() / 6);
    let mut second = rows.split_off(at.unwrap_or(middle));
    if second.first() == Some(&HelpRow::Blank) {
        second.remove(0);
    }
    vec![rows, second]
}

/// One key's words on as many rows as they need.
fn wrapped(keys: String, words: &str, width: u16) -> Vec<HelpRow> {
    let mut rows = vec![(keys, String::new())];
    for word in words.split(' ') {
        if let Some((_, row)) = rows.last_mut()
            && (row.is_empty() || columns(row) + 1 + columns(word) <= width)
        {
            let gap = if row.is_empty() { "" } else { " " };
            row.push_str(gap);
            row.push_str(word);
        } else {
            rows.push((String::new(), word.into()));
        }
    }
    let rows = rows.into_iter();
    rows.map(|(keys, words)| HelpRow::Keys(keys, words))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_too_long_go_on_below() {
        let rows = wrapped("q".into(), "quit (asks while it runs)", 12);
        let row = |keys: &str, words: &str| HelpRow::Keys(keys.into(), words.into());
        assert_eq!(
            rows,
            [
                row("q", "quit (asks"),
                row("", "while it"),
                row("", "runs)")
            ]
        );
        assert_eq!(wrapped("q".into(), "quit", 12).len(), 1);
    }

    #[test]
    fn a_group_stays_together_where_it_can() {
        let keys = |n: usize| (0..n).map(|n| HelpRow::Keys(n.to_string(), String::new()));
        let mut rows: Vec<HelpRow> = keys(7).collect();
        rows.push(HelpRow::Blank);
        rows.extend(keys(5));
        let lists = in_two(rows);
        assert_eq!([lists[0].len(), lists[1].len()], [7, 5]);
        assert_eq!(in_two(keys(9).collect())[1].len(), 4);
    }
}
