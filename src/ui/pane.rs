//! The names of the panes; `panes` has what layout, keys and drawing need to know of each.

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
}
