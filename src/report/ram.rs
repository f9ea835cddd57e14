//! Who held the host's memory where a run used most of it, for tables of reports.

use crate::event::{HostMemory, LimitedBy};
use crate::units::Bytes;

/// From this share of what was used on, the rest has a row.
const NOTABLE: f64 = 0.05;

/// A row: "8 data loader workers", and what they held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldRam {
    pub who: String,
    pub bytes: Bytes,
}

/// The roles, largest first, then what is no process's: shared memory, the cache of files, swap.
pub(super) fn held_at_peak(memory: &HostMemory) -> Vec<HeldRam> {
    let mut rows: Vec<HeldRam> = (memory.roles.iter())
        .map(|role| HeldRam {
            who: match role.exact {
                true => role.role.words(role.count),
                // Pages that they share count in each.
                false => format!("{}, at most", role.role.words(role.count)),
            },
            bytes: role.held,
        })
        .collect();
    let own: Bytes =
        rows.iter().map(|row| row.bytes).sum::<Bytes>() + memory.shared.unwrap_or_default();
    let elsewhere = match memory.limited_by {
        LimitedBy::Machine => "everything else on this machine",
        _ => "everything else in the group",
    };
    // What is left of the sum in the heading.
    let rest = memory.used - own;
    let rest = Some(rest).filter(|rest| *rest > memory.used.scale(NOTABLE));
    let others = [
        (elsewhere, rest),
        ("shared memory", memory.shared),
        (
            "cache of files, which is given back and not counted",
            memory.cache,
        ),
        ("swap", memory.swap),
    ];
    let others = others.into_iter().filter_map(|(who, bytes)| {
        let bytes = bytes.filter(|bytes| *bytes > Bytes::ZERO)?;
        Some(HeldRam {
            who: who.into(),
            bytes,
        })
    });
    rows.extend(others);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{HostRole, RoleUse};

    #[test]
    fn what_is_shared_is_said_to_be_a_bound() {
        let memory = HostMemory {
            shared: Some(Bytes::mib(64)),
            swap: Some(Bytes::ZERO),
            roles: vec![
                RoleUse {
                    role: HostRole::LoaderWorker,
                    count: 4,
                    held: Bytes::gib(3),
                    ..RoleUse::default()
                },
                RoleUse {
                    role: HostRole::Rank,
                    count: 1,
                    held: Bytes::gib(2),
                    exact: true,
                    ..RoleUse::default()
                },
            ],
            ..HostMemory::default()
        };
        let rows = held_at_peak(&memory);
        let words: Vec<&str> = rows.iter().map(|row| row.who.as_str()).collect();
        assert_eq!(
            words,
            [
                "4 data loader workers, at most",
                "the training process",
                "shared memory"
            ]
        );
    }
}
