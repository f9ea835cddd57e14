//! Whether the floor climbs: allocated after each step, the latest steps against those before.

use crate::units::Bytes;

/// How the floor moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// It stays.
    Steady,
    /// It grows by so much from step to step.
    Climbing(Bytes),
}

/// With fewer steps nothing is said: gradients and optimizer state come in the first ones.
const STEPS: usize = 12;

/// The first steps of a run, which are no measure of the rest.
const WARM_UP: u64 = 3;

/// A climb that would take longer than this many steps to fill the device is none: buffers and
/// caches settle for a while.
const STEPS_TO_FILL: u64 = 20_000;

/// The trend of floors by step, oldest first. Medians of the first and the last third, so that a
/// single evaluation or logging step does not count.
pub fn of(floors: &[(u64, Bytes)], capacity: Option<Bytes>) -> Option<Trend> {
    let settled: Vec<(u64, Bytes)> = floors
        .iter()
        .copied()
        .filter(|(step, _)| *step > WARM_UP)
        .collect();
    if settled.len() < STEPS {
        return None;
    }
    let third = settled.len() / 3;
    let median = |part: &[(u64, Bytes)]| {
        let mut values: Vec<Bytes> = part.iter().map(|(_, floor)| *floor).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (first, last) = (&settled[..third], &settled[settled.len() - third..]);
    let grown = median(last) - median(first);
    let steps = last[third / 2].0.saturating_sub(first[third / 2].0).max(1);
    let per_step = Bytes(grown.0 / steps);
    let capacity = capacity.unwrap_or(Bytes::gib(16));
    if per_step.0.saturating_mul(STEPS_TO_FILL) > capacity.0 {
        Some(Trend::Climbing(per_step))
    } else {
        Some(Trend::Steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors(step_bytes: u64, n: u64) -> Vec<(u64, Bytes)> {
        (1..=n)
            .map(|step| (step, Bytes::gib(2) + Bytes(step * step_bytes)))
            .collect()
    }

    #[test]
    fn a_climb_is_told_from_a_floor_that_stays() {
        let capacity = Some(Bytes::gib(24));
        assert_eq!(of(&floors(0, 5), capacity), None, "too early");
        assert_eq!(of(&floors(0, 60), capacity), Some(Trend::Steady));
        assert_eq!(
            of(&floors(12 << 20, 60), capacity),
            Some(Trend::Climbing(Bytes::mib(12)))
        );
        assert_eq!(
            of(&floors(1 << 10, 60), capacity),
            Some(Trend::Steady),
            "would take weeks"
        );
    }

    #[test]
    fn one_odd_step_is_no_climb() {
        let mut floors = floors(0, 40);
        floors[38].1 = Bytes::gib(20);
        assert_eq!(of(&floors, Some(Bytes::gib(24))), Some(Trend::Steady));
    }
}
