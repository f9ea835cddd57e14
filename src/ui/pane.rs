//! The names of the panes, and how far the list in one is scrolled; `panes` has what layout, keys and drawing need to know of each.

use crate::ui::action::Scroll;

/// Makes the enum and the list of all panes from one list.
macro_rules! panes {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// A part of the screen that shows one thing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum Pane {
            $($(#[$attribute])* $name,)*
        }

        impl Pane {
            /// In the order of Tab.
            pub const ALL: &[Pane] = &[$(Pane::$name,)*];
        }
    };
}

panes! {
    /// The chart of a device's memory over time.
    Memory,
    /// The program's own output.
    #[default]
    Output,
    /// What a device's memory is made of.
    Breakdown,
    /// Devices and ranks.
    Devices,
    /// The runs so far.
    Runs,
    /// Events.
    Events,
    /// What is alive at the peak of the last traced step.
    Step,
    /// PyTorch's caching allocator.
    Allocator,
}

impl Pane {
    /// Panes that can be shown below the chart.
    pub fn below() -> impl Iterator<Item = Pane> {
        let all = Pane::ALL.iter().copied();
        all.filter(|pane| *pane != Pane::Memory)
    }

    /// Panes that may have a place of their own beside the chart, from top to bottom.
    pub const BESIDE: [Pane; 4] = [Pane::Breakdown, Pane::Allocator, Pane::Runs, Pane::Events];
}

/// The pane so many places after `pane`, wrapping around; the first if `pane` is not in the row.
pub(super) fn step(row: &[Pane], pane: Pane, by: usize) -> Pane {
    let at = row.iter().position(|other| *other == pane);
    let next = at.map_or(0, |at| (at + by) % row.len().max(1));
    row.get(next).copied().unwrap_or(pane)
}

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
    fn stepping_goes_round() {
        let row = [Pane::Output, Pane::Runs, Pane::Events];
        assert_eq!(step(&row, Pane::Output, 1), Pane::Runs);
        assert_eq!(step(&row, Pane::Events, 1), Pane::Output);
        assert_eq!(step(&row, Pane::Output, row.len() - 1), Pane::Events);
        assert_eq!(step(&row, Pane::Devices, 1), Pane::Output);
        assert_eq!(step(&[], Pane::Devices, 1), Pane::Devices);
    }

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
