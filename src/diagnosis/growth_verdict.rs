//! Whether what is allocated between steps grows, in one sentence for whoever asks: also where nothing does, and where it cannot be told.

use super::baseline_growth::{
    FEWEST_OF_LITTLE, GrownSoFar, WARM_UP, has_risen_so_far, steady_baseline,
};
use super::fitted_growth::FittedGrowth;
use crate::state::RankState;
use crate::units::Bytes;

/// Of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthVerdict {
    /// No step has ended.
    NoStep,
    /// So few have that growth could not be told, and it has not risen with each.
    TooFew(u64),
    /// It has risen with each of the steps so far: a leak or a list that is not full yet.
    Rises(u64),
    Grows(GrownSoFar),
    /// It has stayed at this for a while.
    Steady(Bytes),
    /// It does not grow, and goes up and down.
    Varies,
}

impl GrowthVerdict {
    pub fn new(rank: &RankState, card: Option<Bytes>, fitted: &FittedGrowth) -> GrowthVerdict {
        let steps = &rank.steps;
        let count = steps.count;
        if let Some(growth) = fitted.growth(rank, card) {
            return GrowthVerdict::Grows(growth.so_far(steps));
        }
        if count == 0 {
            return GrowthVerdict::NoStep;
        }
        if has_risen_so_far(steps) {
            return GrowthVerdict::Rises(count);
        }
        if count < WARM_UP + FEWEST_OF_LITTLE as u64 {
            return GrowthVerdict::TooFew(count);
        }
        match steady_baseline(steps, card) {
            Some(level) => GrowthVerdict::Steady(level),
            None => GrowthVerdict::Varies,
        }
    }

    /// Of a process whose run has ended or goes on.
    pub fn words(self, has_ended: bool) -> String {
        let needed = WARM_UP + FEWEST_OF_LITTLE as u64;
        match (self, has_ended) {
            (GrowthVerdict::NoStep, true) => {
                "Not known whether anything grows: no step was finished.".into()
            }
            (GrowthVerdict::NoStep, false) => {
                "Not known yet whether anything grows: no step has ended.".into()
            }
            (GrowthVerdict::TooFew(steps), true) => {
                format!("Nothing grew in {}, too few to be certain.", of(steps))
            }
            (GrowthVerdict::TooFew(steps), false) => format!(
                "Nothing has grown in {}, too few to be certain: that takes {needed}.",
                of(steps)
            ),
            (GrowthVerdict::Rises(steps), true) => format!(
                "It grew with each step: a leak, or a list that was not full yet. {} are too few to tell.",
                of(steps)
            ),
            (GrowthVerdict::Rises(steps), false) => format!(
                "It has grown with each step so far: a leak, or a list that is not full yet. {} are too few to tell.",
                of(steps)
            ),
            (GrowthVerdict::Grows(grown), true) => format!("It grew: {}.", grown.sum()),
            (GrowthVerdict::Grows(grown), false) => format!("It grows: {}.", grown.sum()),
            (GrowthVerdict::Steady(level), _) => {
                format!("No leak: what is allocated after each step stays at {level}.")
            }
            (GrowthVerdict::Varies, _) => {
                "No leak: what is allocated after each step does not grow.".into()
            }
        }
    }

    /// Of lines that grew between two steps of a run that has ended: whether that went on; `None` where that is not the question.
    pub fn of_lines_that_grew(self) -> Option<String> {
        match self {
            GrowthVerdict::Rises(_) => Some(self.words(true)),
            GrowthVerdict::Steady(_) | GrowthVerdict::Varies => {
                Some("It has not gone on: bounded, no leak.".into())
            }
            GrowthVerdict::NoStep | GrowthVerdict::TooFew(_) | GrowthVerdict::Grows(_) => None,
        }
    }

    /// Whether memory that grew in some steps has stopped growing.
    pub fn is_bounded(self) -> bool {
        match self {
            GrowthVerdict::Steady(_) | GrowthVerdict::Varies => true,
            GrowthVerdict::NoStep
            | GrowthVerdict::TooFew(_)
            | GrowthVerdict::Rises(_)
            | GrowthVerdict::Grows(_) => false,
        }
    }
}

fn of(steps: u64) -> String {
    match steps {
        1 => "1 step".into(),
        steps => format!("{steps} steps"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::staged::{StagedSession, gib, step};

    /// A training with these baselines, in GiB.
    fn verdict(baselines: impl IntoIterator<Item = f64>) -> GrowthVerdict {
        let mut scene = StagedSession::training();
        scene.sampled(1.5, 1.0, 1.5);
        for (n, floor) in (1..).zip(baselines) {
            let at = 2.0 + n as f64;
            scene.add(at, step(100, n, gib(floor), gib(floor + 2.0)));
        }
        let rank = &scene.state.runs[0].ranks[0];
        let card = scene.state.devices[0].capacity;
        GrowthVerdict::new(rank, card, &FittedGrowth::default())
    }

    #[test]
    fn a_training_that_never_finished_a_step_is_no_all_clear() {
        let none = verdict([]);
        assert_eq!(none, GrowthVerdict::NoStep);
        let words = none.words(true);
        assert_eq!(
            words,
            "Not known whether anything grows: no step was finished."
        );
    }

    #[test]
    fn few_steps_are_called_few() {
        assert_eq!(verdict([1.0; 5]), GrowthVerdict::TooFew(5));
        let rising = (0..9).map(|n| 1.0 + f64::from(n));
        assert_eq!(verdict(rising), GrowthVerdict::Rises(9));
    }

    #[test]
    fn a_list_that_is_full_is_no_leak() {
        let fills = (0..80).map(|n| 1.0 + f64::from(n.min(12)));
        let full = verdict(fills);
        assert_eq!(full, GrowthVerdict::Steady(gib(13.0)));
        assert!(full.is_bounded());
        assert!(full.words(false).starts_with("No leak: "));
        let leaks = verdict((0..60).map(|n| 1.0 + 0.25 * f64::from(n)));
        assert!(matches!(leaks, GrowthVerdict::Grows(_)), "{leaks:?}");
        assert!(leaks.words(true).starts_with("It grew: +"));
    }
}
