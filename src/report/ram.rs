//! Who held the host's memory where a run used most of it, for tables of reports.

use crate::event::{HostMemory, LimitedBy};
use crate::units::Bytes;

/// From this share of what was used on, what is missing in a sum or too much in it has a row.
const NOTABLE: f64 = 0.001;

/// A row: "8 data loader workers", and what they held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldRam {
    pub who: String,
    pub held: String,
}

impl HeldRam {
    fn new(who: impl Into<String>, held: impl ToString) -> HeldRam {
        HeldRam {
            who: who.into(),
            held: held.to_string(),
        }
    }
}

/// The roles, largest first, what is no process's, and their sum; then what does not count: the cache of files, swap.
pub(super) fn held_at_peak(memory: &HostMemory) -> Vec<HeldRam> {
    let HostMemory { used, shared, .. } = memory;
    let shared = shared.filter(|shared| *shared > Bytes::ZERO);
    let mut rows: Vec<HeldRam> = (memory.roles.iter())
        .map(|role| {
            let who = role.role.words(role.count);
            match role.exact {
                true => HeldRam::new(who, role.held),
                // Pages that they share count in each.
                false => HeldRam::new(format!("{who}, at most"), role.held),
            }
        })
        .collect();
    rows.extend(shared.map(|shared| HeldRam::new("shared memory", shared)));
    let of_roles: Bytes = memory.roles.iter().map(|role| role.held).sum();
    let counted = of_roles + shared.unwrap_or_default();
    let is_notable = |bytes: Bytes| bytes > used.scale(NOTABLE);
    // A difference of bytes is never below zero.
    let (rest, too_much) = (*used - counted, counted - *used);
    if is_notable(rest) {
        let elsewhere = match memory.limited_by {
            LimitedBy::Machine => "everything else on this machine",
            _ => "everything else in the group",
        };
        rows.push(HeldRam::new(elsewhere, rest));
    }
    if is_notable(too_much) {
        let words = "counted more than once, or no longer there";
        rows.push(HeldRam::new(words, format!("\u{2212}{too_much}")));
    }
    rows.push(HeldRam::new("in all", used));
    let beside = [
        (
            "cache of files, which is given back and not counted",
            memory.cache,
        ),
        ("swap, which is not counted", memory.swap),
    ];
    rows.extend(beside.into_iter().filter_map(|(who, bytes)| {
        let bytes = bytes.filter(|bytes| *bytes > Bytes::ZERO)?;
        Some(HeldRam::new(who, bytes))
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{HostRole, RoleUse};

    fn memory(used: Bytes) -> HostMemory {
        let role = |role, count, held, exact| RoleUse {
            role,
            count,
            held,
            exact,
            ..RoleUse::default()
        };
        HostMemory {
            used,
            shared: Some(Bytes::mib(512)),
            swap: Some(Bytes::ZERO),
            cache: Some(Bytes::gib(3)),
            roles: vec![
                role(HostRole::LoaderWorker, 4, Bytes::gib(3), false),
                role(HostRole::Rank, 1, Bytes::gib(2), true),
            ],
            ..HostMemory::default()
        }
    }

    fn rows(memory: &HostMemory) -> Vec<String> {
        let rows = held_at_peak(memory).into_iter();
        rows.map(|row| format!("{}: {}", row.who, row.held))
            .collect()
    }

    #[test]
    fn the_parts_add_up_to_what_was_used() {
        let mut expected = vec![
            "4 data loader workers, at most: 3.00 GiB",
            "the training process: 2.00 GiB",
            "shared memory: 512 MiB",
            "everything else on this machine: 128 MiB",
            "in all: 5.62 GiB",
            "cache of files, which is given back and not counted: 3.00 GiB",
        ];
        assert_eq!(rows(&memory(Bytes::mib(5_760))), expected);
        // What the workers share counts in each of them.
        expected[3] = "counted more than once, or no longer there: \u{2212}1.50 GiB";
        expected[4] = "in all: 4.00 GiB";
        assert_eq!(rows(&memory(Bytes::gib(4))), expected);
        expected.remove(3);
        expected[3] = "in all: 5.50 GiB";
        assert_eq!(rows(&memory(Bytes::mib(5_632))), expected);
    }
}
