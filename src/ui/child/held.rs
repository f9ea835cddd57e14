//! What the user holds on to in the program's output: a text that is looked for, rows that are
//! selected.

use super::ChildScreen;
use super::rows::{self, Search, Selection};
use crate::ui::action::{Find, Scroll, Select};
use std::ops::Range;

/// What is special of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// It is selected.
    pub selected: bool,
    /// The columns in which what is looked for stands.
    pub found: Vec<Range<u16>>,
    /// What was found there is what the view has gone to.
    pub current: bool,
}

/// Where to look on from what was found.
#[derive(Clone, Copy)]
enum Direction {
    /// Upwards.
    Older(Option<usize>),
    /// Downwards.
    Newer(Option<usize>),
}

impl ChildScreen {
    /// Looks for a text among all rows that are kept, or goes from what was found to the next.
    pub fn find(&mut self, find: Find) {
        let (needle, from) = match (find, self.search.take()) {
            (Find::End, _) => return self.scroll(Scroll::End),
            (Find::For(needle), _) => (needle, Direction::Older(None)),
            (_, None) => return,
            (Find::Older, Some(search)) => (search.needle, Direction::Older(search.at)),
            (Find::Newer, Some(search)) => (search.needle, Direction::Newer(search.at)),
        };
        let all = rows::all(&mut self.parser);
        // Distances, from the newest row.
        let found: Vec<usize> = (0..all.len())
            .filter(|distance| rows::begins_in(&all[all.len() - 1 - distance..], &needle))
            .collect();
        // Around at the ends, as in vi.
        let place = match from {
            Direction::Older(from) => found.iter().position(|row| from.is_none_or(|at| *row > at)),
            Direction::Newer(from) => found
                .iter()
                .rposition(|row| from.is_none_or(|at| *row < at)),
        };
        let around = match from {
            Direction::Older(_) => 0,
            Direction::Newer(_) => found.len().saturating_sub(1),
        };
        let place = place.unwrap_or(around);
        let at = found.get(place).copied();
        if let Some(row) = at {
            self.show_row(row);
        }
        let count = (if at.is_some() { place + 1 } else { 0 }, found.len());
        self.search = Some(Search { needle, at, count });
    }

    /// What is looked for, the place of the row that is shown among those that have it, from the
    /// newest, and how many they were.
    pub fn search(&self) -> Option<(&str, usize, usize)> {
        let search = self.search.as_ref()?;
        Some((&search.needle, search.count.0, search.count.1))
    }

    /// Selects rows.
    pub fn select(&mut self, select: Select) {
        let (height, _) = self.size();
        let last = usize::from(height) - 1;
        let of_view = |row: u16, scrolled: usize| scrolled + last.saturating_sub(row.into());
        let all = self.parser.screen().scrollback_len() + usize::from(height);
        let now = self.selection;
        let selection = match (select, now) {
            (Select::End, _) => {
                self.scroll(Scroll::End);
                None
            }
            (Select::Begin(row), _) => {
                let held = self
                    .scrolled()
                    .max(1)
                    .min(self.parser.screen().scrollback_len());
                let anchor = match row {
                    Some(row) => of_view(row, self.scrolled()),
                    None => self.newest_row_with_text(),
                };
                self.parser.screen_mut().set_scrollback(held);
                let head = anchor;
                Some(Selection { anchor, head })
            }
            (_, None) => None,
            (Select::To(row), Some(now)) => {
                let head = of_view(row, self.scrolled()).min(all - 1);
                Some(Selection { head, ..now })
            }
            (Select::By(scroll), Some(now)) => {
                let head = match scroll {
                    Scroll::Up(rows) => now.head.saturating_add(rows).min(all - 1),
                    Scroll::Down(rows) => now.head.saturating_sub(rows),
                    Scroll::Start => all - 1,
                    Scroll::End => 0,
                };
                self.show_row(head);
                Some(Selection { head, ..now })
            }
        };
        self.selection = selection;
    }

    /// How many rows are selected, if any.
    pub fn selected(&self) -> Option<usize> {
        let rows = self.selection?.rows();
        Some(rows.end() - rows.start() + 1)
    }

    /// The selected rows as text; a line that the terminal was too narrow for is one line.
    pub fn selected_text(&mut self) -> Option<String> {
        let rows = self.selection?.rows();
        let all = rows::all(&mut self.parser);
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

    /// What is special of a row of the view: whether it is selected, and the columns in which what
    /// is looked for stands, with whether this is the row that was gone to.
    pub fn marks(&self, row: u16) -> Marks {
        let distance = self.scrolled() + usize::from(self.size().0.saturating_sub(row + 1));
        let selected = self.selection.map(Selection::rows);
        let (found, current) = match &self.search {
            Some(search) => (
                rows::marks(self.screen(), row, &search.needle),
                search.at == Some(distance),
            ),
            None => (Vec::new(), false),
        };
        Marks {
            selected: selected.is_some_and(|rows| rows.contains(&distance)),
            found,
            current,
        }
    }

    fn show_row(&mut self, distance: usize) {
        let screen = self.parser.screen_mut();
        let (height, _) = screen.size();
        let view = rows::view_of(
            distance,
            screen.scrollback(),
            height,
            screen.scrollback_len(),
        );
        screen.set_scrollback(view);
    }

    /// Of the view; its last row where it is empty.
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
        screen.find(Find::For("loss".into()));
        for (find, place, row) in [
            (None, 1, "Loss 40"),
            (Some(Find::Older), 2, "Loss 30"),
            (Some(Find::Older), 3, "Loss 20"),
            (Some(Find::Newer), 2, "Loss 30"),
            (Some(Find::Newer), 1, "Loss 40"),
            (Some(Find::Newer), 4, "Loss 10"),
            (Some(Find::Older), 1, "Loss 40"),
        ] {
            find.into_iter().for_each(|find| screen.find(find));
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
        screen.find(Find::End);
        assert_eq!(screen.search(), None);
        assert!((0..5).all(|row| screen.marks(row) == Marks::default()));
    }

    #[test]
    fn a_line_that_the_terminal_is_too_narrow_for_is_one_line() {
        let mut screen = ChildScreen::new(6, 10);
        screen.feed(b"one two three four five\r\ntwo thr\r\neeble\r\n");
        screen.find(Find::For("two three four".into()));
        assert_eq!(screen.search(), Some(("two three four", 1, 1)));
        let ends = |range: &Range<u16>| (range.start, range.end);
        let found = |row| screen.marks(row).found.iter().map(ends).collect();
        let found: Vec<Vec<_>> = (0..3).map(found).collect();
        // "one two th" "ree four f" "ive"
        assert_eq!(found, [vec![(4, 10)], vec![(0, 8)], vec![]]);
        assert!(screen.marks(0).current && !screen.marks(1).current);
        // A line that ends where the terminal does is not the next one's beginning.
        screen.find(Find::For("threeble".into()));
        assert_eq!(screen.search(), Some(("threeble", 0, 0)));
        screen.select(Select::Begin(Some(0)));
        screen.select(Select::To(3));
        let text = screen.selected_text();
        assert_eq!(text.as_deref(), Some("one two three four five\ntwo thr\n"));
    }

    #[test]
    fn what_was_found_stays_while_output_goes_on() {
        let mut screen = counted(45);
        screen.find(Find::For("Loss 40".into()));
        let before = seen(&screen);
        for n in 46..300 {
            screen.feed(format!("more {n}\r\n").as_bytes());
        }
        assert_eq!(seen(&screen), before);
        assert!((0..5).any(|row| screen.marks(row).current));
        screen.find(Find::For("nowhere".into()));
        assert_eq!(screen.search(), Some(("nowhere", 0, 0)));
        assert_eq!(seen(&screen), before, "nothing found, nothing moved");
    }

    #[test]
    fn selected_rows_are_those_that_were_seen() {
        let mut screen = counted(45);
        screen.select(Select::Begin(None));
        assert_eq!(screen.selected_text().unwrap(), "step 45\n");
        screen.select(Select::By(Scroll::Up(2)));
        assert_eq!(screen.selected(), Some(3));
        screen.feed(b"and\r\nmore\r\nrows\r\n");
        assert_eq!(
            screen.selected_text().unwrap(),
            "step 43\nstep 44\nstep 45\n"
        );
        screen.select(Select::By(Scroll::Start));
        assert!(
            screen
                .selected_text()
                .unwrap()
                .starts_with("step 1\nstep 2\n")
        );
        assert!(seen(&screen).starts_with("step 1\n"), "the view goes along");
        screen.select(Select::End);
        assert_eq!(screen.selected_text(), None);
    }

    #[test]
    fn a_drag_selects_the_rows_under_it() {
        let mut screen = counted(45);
        screen.scroll(Scroll::Up(10));
        let rows: Vec<String> = seen(&screen).lines().map(String::from).collect();
        screen.select(Select::Begin(Some(1)));
        screen.select(Select::To(3));
        let expected = format!("{}\n{}\n{}\n", rows[1], rows[2], rows[3]);
        assert_eq!(screen.selected_text().unwrap(), expected);
        let selected: Vec<u16> = (0..5).filter(|row| screen.marks(*row).selected).collect();
        assert_eq!(selected, [1, 2, 3]);
    }

    #[test]
    fn an_empty_screen_can_be_searched_and_selected() {
        let mut screen = ChildScreen::new(3, 10);
        for find in [
            Find::Older,
            Find::For("x".into()),
            Find::Newer,
            Find::For(String::new()),
        ] {
            screen.find(find);
        }
        screen.select(Select::To(9));
        screen.select(Select::Begin(None));
        for select in [
            Select::By(Scroll::Up(9)),
            Select::By(Scroll::End),
            Select::To(99),
        ] {
            screen.select(select);
            screen.resize(2, 2);
            assert!(screen.selected_text().is_some());
        }
    }
}
