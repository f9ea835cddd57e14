//! What is searched for or selected in the program's output: by lines, as they were printed, however wide the terminal is.

use super::ChildScreen;
use crate::ui::action::Scroll;
use crate::ui::output_rows::{self, OutputSearch, Selection};
use std::ops::Range;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowMarks {
    pub selected: bool,
    /// The columns of the matches.
    pub found: Vec<Range<u16>>,
    /// Whether the current match begins in this row.
    pub current: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchDirection {
    Older,
    Newer,
}

impl ChildScreen {
    /// Searches all rows, from the newest up.
    pub fn search_for(&mut self, needle: String) {
        self.search_from(needle, None, SearchDirection::Older);
    }

    /// Goes to the next match.
    pub fn search_next(&mut self, direction: SearchDirection) {
        if let Some(search) = self.search.take() {
            self.search_from(search.needle, search.at, direction);
        }
    }

    /// Clears the search and follows the output again.
    pub fn end_search(&mut self) {
        self.search = None;
        self.scroll(Scroll::End);
    }

    fn search_from(&mut self, needle: String, from: Option<usize>, direction: SearchDirection) {
        let all = output_rows::all(self.emulator.screen_mut());
        // Distances, from the newest row.
        let found: Vec<usize> = (0..all.len())
            .filter(|distance| output_rows::begins_in(&all[all.len() - 1 - distance..], &needle))
            .collect();
        // Wraps around, as in vi.
        let place = match direction {
            SearchDirection::Older => found
                .iter()
                .position(|row| from.is_none_or(|at| *row > at))
                .unwrap_or(0),
            SearchDirection::Newer => found
                .iter()
                .rposition(|row| from.is_none_or(|at| *row < at))
                .unwrap_or(found.len().saturating_sub(1)),
        };
        let at = found.get(place).copied();
        if let Some(row) = at {
            self.show_row(row);
        }
        // Counted from the oldest, so that the next one, further down, has the next number.
        let count = (
            if at.is_some() { found.len() - place } else { 0 },
            found.len(),
        );
        self.search = Some(OutputSearch { needle, at, count });
    }

    /// The text, the current match's place and the number of matches.
    pub fn search(&self) -> Option<(&str, usize, usize)> {
        let search = self.search.as_ref()?;
        Some((&search.needle, search.count.0, search.count.1))
    }

    /// Starts a selection at a row of the view, or at the newest row with text.
    pub fn begin_selection(&mut self, row: Option<u16>) {
        let held = self.scrolled().max(1);
        let anchor = match row {
            Some(row) => self.distance_of(row),
            None => self.newest_row_with_text(),
        };
        // vt100 limits it to the scrollback.
        self.emulator.screen_mut().set_scrollback(held);
        self.selection = Some(Selection {
            anchor,
            head: anchor,
        });
    }

    /// Extends the selection to a row of the view.
    pub fn select_to(&mut self, row: u16) {
        let head = self.distance_of(row).min(self.last_row());
        self.selection = self.selection.map(|now| Selection { head, ..now });
    }

    /// Moves the end of the selection, and the view with it.
    pub fn extend_selection(&mut self, scroll: Scroll) {
        let Some(now) = self.selection else { return };
        let head = match scroll {
            Scroll::Up(rows) => now.head.saturating_add(rows).min(self.last_row()),
            Scroll::Down(rows) => now.head.saturating_sub(rows),
            Scroll::Start => self.last_row(),
            Scroll::End => 0,
        };
        self.show_row(head);
        self.selection = Some(Selection { head, ..now });
    }

    /// Clears the selection and follows the output again.
    pub fn end_selection(&mut self) {
        self.selection = None;
        self.scroll(Scroll::End);
    }

    pub fn selected(&self) -> Option<usize> {
        let rows = self.selection?.rows();
        Some(rows.end() - rows.start() + 1)
    }

    /// The selected rows as text; a wrapped line is one line.
    pub fn selected_text(&mut self) -> Option<String> {
        let rows = self.selection?.rows();
        let all = output_rows::all(self.emulator.screen_mut());
        let newest = all.len() - 1;
        let mut text = String::new();
        for distance in rows.clone().rev() {
            let Some(row) = newest.checked_sub(distance).and_then(|at| all.get(at)) else {
                continue;
            };
            if row.goes_on && distance > *rows.start() {
                text.push_str(&row.text);
            } else {
                text.push_str(row.text.trim_end());
                text.push('\n');
            }
        }
        Some(text)
    }

    /// The selection and the matches in a row of the view.
    pub fn marks(&self, row: u16) -> RowMarks {
        let distance = self.distance_of(row);
        let selected = self.selection.map(Selection::rows);
        let (found, current) = match &self.search {
            Some(search) => (
                output_rows::marks(self.screen(), row, &search.needle),
                search.at == Some(distance),
            ),
            None => (Vec::new(), false),
        };
        RowMarks {
            selected: selected.is_some_and(|rows| rows.contains(&distance)),
            found,
            current,
        }
    }

    /// A view row's distance from the newest row.
    pub(super) fn distance_of(&self, row: u16) -> usize {
        self.scrolled() + usize::from(self.size().0.saturating_sub(row + 1))
    }

    /// The oldest row's distance.
    fn last_row(&self) -> usize {
        self.emulator.screen().scrollback_len() + usize::from(self.size().0) - 1
    }

    pub(super) fn show_row(&mut self, distance: usize) {
        let screen = self.emulator.screen_mut();
        let (height, _) = screen.size();
        let view = output_rows::view_of(
            distance,
            screen.scrollback(),
            height,
            screen.scrollback_len(),
        );
        screen.set_scrollback(view);
    }

    /// The distance of the newest row with text in the view; of the view's last row if all are empty.
    fn newest_row_with_text(&self) -> usize {
        let (_, width) = self.size();
        let rows: Vec<String> = self.screen().rows(0, width).collect();
        let empty = rows.iter().rev().take_while(|row| row.trim().is_empty());
        let below = empty.count();
        self.scrolled() + if below == rows.len() { 0 } else { below }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(rows: usize) -> ChildScreen {
        let mut screen = ChildScreen::new(5, 30);
        for n in 1..=rows {
            let word = if n % 10 == 0 { "Loss" } else { "step" };
            screen.feed(format!("{word} {n}\r\n").as_bytes());
        }
        screen
    }

    fn seen(screen: &ChildScreen) -> String {
        screen.screen().contents()
    }

    #[test]
    fn the_newest_is_found_first_and_the_ends_are_joined() {
        let mut screen = counted(45);
        screen.search_for("loss".into());
        for (next, place, row) in [
            (None, 4, "Loss 40"),
            (Some(SearchDirection::Older), 3, "Loss 30"),
            (Some(SearchDirection::Older), 2, "Loss 20"),
            (Some(SearchDirection::Newer), 3, "Loss 30"),
            (Some(SearchDirection::Newer), 4, "Loss 40"),
            (Some(SearchDirection::Newer), 1, "Loss 10"),
            (Some(SearchDirection::Older), 4, "Loss 40"),
        ] {
            next.into_iter().for_each(|next| screen.search_next(next));
            assert_eq!(screen.search(), Some(("loss", place, 4)));
            assert!(seen(&screen).contains(row), "{row} in {}", seen(&screen));
            let current = (0..5).find(|row| screen.marks(*row).current).unwrap();
            let line = seen(&screen)
                .lines()
                .nth(current.into())
                .unwrap()
                .to_string();
            assert_eq!(line, row);
            assert_eq!(screen.marks(current).found.first(), Some(&(0..4)));
        }
        screen.end_search();
        assert_eq!(screen.search(), None);
        assert!((0..5).all(|row| screen.marks(row) == RowMarks::default()));
    }

    #[test]
    fn a_line_that_the_terminal_is_too_narrow_for_is_one_line() {
        let mut screen = ChildScreen::new(6, 10);
        screen.feed(b"one two three four five\r\ntwo thr\r\neeble\r\n");
        screen.search_for("two three four".into());
        assert_eq!(screen.search(), Some(("two three four", 1, 1)));
        let ends = |range: &Range<u16>| (range.start, range.end);
        let found = |row| screen.marks(row).found.iter().map(ends).collect();
        let found: Vec<Vec<_>> = (0..3).map(found).collect();
        // "one two th" "ree four f" "ive"
        assert_eq!(found, [vec![(4, 10)], vec![(0, 8)], vec![]]);
        assert!(screen.marks(0).current && !screen.marks(1).current);
        // A line that ends where the terminal does is not the next one's beginning.
        screen.search_for("threeble".into());
        assert_eq!(screen.search(), Some(("threeble", 0, 0)));
        screen.begin_selection(Some(0));
        screen.select_to(3);
        let text = screen.selected_text();
        assert_eq!(text.as_deref(), Some("one two three four five\ntwo thr\n"));
    }

    #[test]
    fn what_was_found_stays_while_output_goes_on() {
        let mut screen = counted(45);
        screen.search_for("Loss 40".into());
        let before = seen(&screen);
        for n in 46..300 {
            screen.feed(format!("more {n}\r\n").as_bytes());
        }
        assert_eq!(seen(&screen), before);
        assert!((0..5).any(|row| screen.marks(row).current));
        screen.search_for("nowhere".into());
        assert_eq!(screen.search(), Some(("nowhere", 0, 0)));
        assert_eq!(seen(&screen), before, "nothing found, nothing moved");
    }

    #[test]
    fn selected_rows_are_those_that_were_seen() {
        let mut screen = counted(45);
        screen.begin_selection(None);
        assert_eq!(screen.selected_text().unwrap(), "step 45\n");
        screen.extend_selection(Scroll::Up(2));
        assert_eq!(screen.selected(), Some(3));
        screen.feed(b"and\r\nmore\r\nrows\r\n");
        assert_eq!(
            screen.selected_text().unwrap(),
            "step 43\nstep 44\nstep 45\n"
        );
        screen.extend_selection(Scroll::Start);
        assert!(
            screen
                .selected_text()
                .unwrap()
                .starts_with("step 1\nstep 2\n")
        );
        assert!(seen(&screen).starts_with("step 1\n"), "the view goes along");
        screen.end_selection();
        assert_eq!(screen.selected_text(), None);
    }

    #[test]
    fn a_drag_selects_the_rows_under_it() {
        let mut screen = counted(45);
        screen.scroll(Scroll::Up(10));
        let rows: Vec<String> = seen(&screen).lines().map(String::from).collect();
        screen.begin_selection(Some(1));
        screen.select_to(3);
        let expected = format!("{}\n{}\n{}\n", rows[1], rows[2], rows[3]);
        assert_eq!(screen.selected_text().unwrap(), expected);
        let selected: Vec<u16> = (0..5).filter(|row| screen.marks(*row).selected).collect();
        assert_eq!(selected, [1, 2, 3]);
    }

    #[test]
    fn an_empty_screen_can_be_searched_and_selected() {
        let mut screen = ChildScreen::new(3, 10);
        screen.search_next(SearchDirection::Older);
        screen.search_for("x".into());
        screen.search_next(SearchDirection::Newer);
        screen.search_for(String::new());
        screen.select_to(9);
        screen.begin_selection(None);
        let moves: [fn(&mut ChildScreen); 3] = [
            |screen| screen.extend_selection(Scroll::Up(9)),
            |screen| screen.extend_selection(Scroll::End),
            |screen| screen.select_to(99),
        ];
        for moved in moves {
            moved(&mut screen);
            screen.resize(2, 2);
            assert!(screen.selected_text().is_some());
        }
    }
}
