//! The scroll position of a list, counted from its end, so that it follows new entries.

use super::action::Scroll;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListScroll {
    back: usize,
}

impl ListScroll {
    /// Scrolls a list of `rows` rows of which `shown` fit.
    pub(super) fn scroll(&mut self, scroll: Scroll, rows: usize, shown: usize) {
        let most = rows.saturating_sub(shown);
        let back = self.back.min(most);
        self.back = match scroll {
            Scroll::Up(n) => back.saturating_add(n).min(most),
            Scroll::Down(n) => back.saturating_sub(n),
            Scroll::Start => most,
            Scroll::End => 0,
        };
    }

    pub(super) fn first(&self, rows: usize, shown: usize) -> usize {
        let most = rows.saturating_sub(shown);
        most - self.back.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stay_inside() {
        let mut list = ListScroll::default();
        assert_eq!(list.first(20, 5), 15, "at its end");
        list.scroll(Scroll::Up(3), 20, 5);
        assert_eq!(list.first(20, 5), 12);
        list.scroll(Scroll::Up(300), 20, 5);
        assert_eq!(list.first(20, 5), 0);
        list.scroll(Scroll::Down(1), 20, 5);
        assert_eq!(list.first(20, 5), 1);
        list.scroll(Scroll::Start, 3, 5);
        assert_eq!(list.first(3, 5), 0);
        list.scroll(Scroll::End, 20, 5);
        assert_eq!(list.first(20, 5), 15);
    }
}
