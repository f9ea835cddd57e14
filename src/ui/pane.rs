//! The panes by name: one enum that layout, keys and drawing go by. `panes` has
//! what there is to know of each.

/// Makes the enum and the list of all panes from one table.
macro_rules! panes {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// A part of the screen that shows one thing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum Pane {
            $($(#[$attribute])* $name,)*
        }

        impl Pane {
            /// All of them; those below the chart in the order of Tab.
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
    /// PyTorch's caching allocator.
    Allocator,
}

impl Pane {
    /// Those that share the place below the chart.
    pub fn below() -> impl Iterator<Item = Pane> {
        let all = Pane::ALL.iter().copied();
        all.filter(|pane| *pane != Pane::Memory)
    }

    /// Those that may have a place of their own beside the chart, from above.
    pub const BESIDE: [Pane; 4] = [Pane::Breakdown, Pane::Allocator, Pane::Runs, Pane::Events];
}

/// The pane so many places after `pane` in a row, round its end; the first for one that is not in
/// it.
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
