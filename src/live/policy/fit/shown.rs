//! When a run of `fit` has shown enough.
//!
//! If all steps are alike, memory doesn't grow after the second step, and the requested steps are enough.
//! If lengths vary, a later step may need more, and the allocator needs even more for blocks of varying
//! sizes: then a run continues until it has made as many steps without a new maximum as before it,
//! within limits.

use crate::units::Bytes;

/// More than this is a new maximum.
const NEW: f64 = 1.01;

/// At most this many times the requested steps.
pub(crate) const AT_MOST: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunShown {
    most: Bytes,
    step: u64,
}

impl RunShown {
    /// The largest reserved memory so far, and after how many steps.
    pub(crate) fn take(&mut self, step: u64, held: Bytes) {
        if held > self.most.scale(NEW) {
            *self = RunShown { most: held, step };
        }
    }

    /// Whether that is enough for this many requested steps.
    pub(crate) fn is_enough(&self, step: u64, asked: u64) -> bool {
        let quiet = step >= self.step * 2;
        step >= asked && quiet || step >= asked.saturating_mul(AT_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::staged::gib;

    /// The step after which a run with these maxima is stopped.
    fn stopped_after(asked: u64, held: impl Fn(u64) -> f64) -> u64 {
        let mut shown = RunShown::default();
        (1..)
            .find(|step| {
                shown.take(*step, gib(held(*step)));
                shown.is_enough(*step, asked)
            })
            .expect("an end")
    }

    #[test]
    fn steady_steps_are_enough_when_they_were_asked_for() {
        assert_eq!(stopped_after(4, |_| 8.0), 4);
        // The optimizer's state comes in the first step, so the second needs more.
        assert_eq!(stopped_after(4, |step| if step < 2 { 8.0 } else { 9.0 }), 4);
    }

    #[test]
    fn steps_that_vary_go_on_until_nothing_new_has_come_for_a_while() {
        let third = |step| if step < 3 { 8.0 } else { 9.0 };
        assert_eq!(stopped_after(4, third), 6);
        assert_eq!(stopped_after(4, |step| 8.0 + step.min(7) as f64), 14);
    }

    #[test]
    fn what_never_comes_to_rest_is_stopped_all_the_same() {
        assert_eq!(stopped_after(4, |step| 8.0 * 1.1f64.powi(step as i32)), 16);
        assert_eq!(stopped_after(2, |step| 8.0 * 1.1f64.powi(step as i32)), 8);
    }
}
