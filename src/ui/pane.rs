//! The panes: a row of one list for each, and a file that draws it and has its `PANE`: what layout, keys and drawing need to know of it.
//! The place in the list is the place for Tab and the number of its key. How far the list in a pane is scrolled.

pub(super) mod allocator;
pub(super) mod breakdown;
pub(super) mod devices;
pub(super) mod events;
pub(super) mod host;
pub(super) mod memory;
pub(super) mod output;
pub(super) mod rank_map;
pub(super) mod ranks;
pub(super) mod runs;
pub(super) mod spec;
mod standing_out;
pub(super) mod step;

use crate::ui::action::Scroll;

/// Makes the enum, the list of all panes and the table of their specs from one list of names and files.
macro_rules! panes {
    ($($(#[$attribute:meta])* $name:ident: $file:ident,)*) => {
        /// A part of the screen that shows one thing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum Pane {
            $($(#[$attribute])* $name,)*
        }

        impl Pane {
            /// In the order of Tab.
            pub const ALL: &[Pane] = &[$(Pane::$name,)*];
        }

        /// A pane's `PANE`, from its file. Expanded in `panes.rs`: this file knows nothing of what panes draw, because a `View` names one.
        macro_rules! spec_of_pane {
            ($pane:expr) => {
                match $pane {
                    $(Pane::$name => &crate::ui::pane::$file::PANE,)*
                }
            };
        }
        pub(super) use spec_of_pane;
    };
}

panes! {
    /// The chart of a device's memory over time.
    Memory: memory,
    /// The program's own output.
    #[default]
    Output: output,
    /// What a device's memory is made of.
    Breakdown: breakdown,
    /// Devices and ranks.
    Devices: devices,
    /// The runs so far.
    Runs: runs,
    /// What happened: runs, their phases, OOMs, notes.
    Events: events,
    /// What is alive at the peak of the last traced step.
    Step: step,
    /// PyTorch's caching allocator.
    Allocator: allocator,
    /// The host's memory, by process.
    Host: host,
    /// The ranks by what their memory consists of.
    Ranks: ranks,
}

impl Pane {
    /// Panes that can be shown below the chart.
    pub fn below() -> impl Iterator<Item = Pane> {
        let all = Pane::ALL.iter().copied();
        all.filter(|pane| *pane != Pane::Memory)
    }

    /// The number of its key, which is the same on every screen.
    pub fn number(self) -> u8 {
        let place = Pane::below().position(|pane| pane == self);
        place.map_or(0, |place| place as u8 + 1)
    }

    /// Panes that may have a place of their own beside the chart, from top to bottom.
    pub const BESIDE: [Pane; 5] = [
        Pane::Breakdown,
        Pane::Allocator,
        Pane::Runs,
        Pane::Step,
        Pane::Events,
    ];
}

/// The scroll position of a list, counted from its end, so that it follows new entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListScroll {
    /// Rows between the last one in view and the end of the list.
    back: usize,
}

impl ListScroll {
    /// Scrolls a list of `rows` rows of which `shown` fit.
    pub fn scroll(&mut self, scroll: Scroll, rows: usize, shown: usize) {
        let most = rows.saturating_sub(shown);
        let back = self.back.min(most);
        self.back = match scroll {
            Scroll::Up(n) => back.saturating_add(n).min(most),
            Scroll::Down(n) => back.saturating_sub(n),
            Scroll::Start => most,
            Scroll::End => 0,
        };
    }

    /// The first row in view of a list of `rows` rows of which `shown` fit.
    pub fn first(&self, rows: usize, shown: usize) -> usize {
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
