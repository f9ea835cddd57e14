//! What a step asks of the host whose activations wait in its RAM.

use super::RemedyPredictor;
use crate::event::{Relief, ReliefMoment};
use crate::forecast::{Estimate, Forecast, Target};
use crate::remedy::plan::Expectation;
use crate::units::Bytes;

/// Pinned memory is given in powers of two, so that a size takes 1.44 times as much on average.
const ROUNDED: f64 = 1.44;

/// What the ranks of this host move to RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::remedy) struct ToRam {
    /// What it has to hold at the most, of all ranks.
    pub takes: Bytes,
    /// What one rank copies in a step, there and back.
    pub copied: Bytes,
    /// What of it goes there: no more than the activations.
    pub one_way: Bytes,
    /// What one rank moves.
    each: Bytes,
    ranks: u64,
    is_rehearsed: bool,
}

impl ToRam {
    /// `11.2 GiB`, `some 45.0 GiB (4 ranks)`
    pub fn shown(&self) -> String {
        let some = if self.is_rehearsed { "" } else { "some " };
        match self.ranks {
            0 | 1 => format!("{some}{}", self.takes),
            ranks => format!("{some}{} ({ranks} ranks)", self.takes),
        }
    }
}

impl RemedyPredictor<'_> {
    /// What goes to RAM if nothing else is changed.
    pub fn to_ram_alone(&self) -> Option<ToRam> {
        let mut target = self.target(&[]);
        target.treatment.offloaded = true;
        self.to_ram(&target)
    }

    fn to_ram(&self, target: &Target) -> Option<ToRam> {
        let ranks = self.ranks_here();
        let of_each = |takes: Bytes, (out, back): (Bytes, Bytes), is_rehearsed| ToRam {
            takes: takes.scale(ranks as f64),
            copied: out + back,
            one_way: out,
            each: takes,
            ranks,
            is_rehearsed,
        };
        if let Some(ram) = self.model.saved_in_ram(target) {
            return Some(of_each(ram.takes, (ram.out, ram.back), true));
        }
        let moved = self.likely_peak(&kept(target))? - self.likely_peak(target)?;
        (moved > Bytes::ZERO).then(|| of_each(moved.scale(ROUNDED), (moved, moved), false))
    }

    /// Of the training's steps, without an evaluation before them.
    fn likely_step(&self, target: &Target) -> Option<Bytes> {
        let of_step = self.model.peak_of_steps(target);
        of_step.or_else(|| self.likely_peak(target))
    }

    fn likely_peak(&self, target: &Target) -> Option<Bytes> {
        let likely = |peak: Estimate| peak.likely;
        match self.model.peak(target) {
            Forecast::Within(peak) | Forecast::Extrapolated(peak, _) => Some(likely(peak)),
            Forecast::AtLeast(..) | Forecast::Unknown => None,
        }
    }

    /// The processes of this host that train.
    fn ranks_here(&self) -> u64 {
        let run = self.inputs.forecast.state.and_then(|state| state.run());
        let ranks = run.map_or(0, |run| {
            let here = run.ranks.iter().filter(|rank| rank.hello.pid.is_here());
            here.filter(|rank| rank.hello.rank.is_some()).count()
        });
        ranks.max(1) as u64
    }

    /// What is said of RAM, and what the patch's measurement of it is held to.
    pub(super) fn beside_ram(&self, target: &Target, expectation: &mut Expectation) {
        let Some(moved) = self.to_ram(target) else {
            return;
        };
        let host = self.inputs.forecast.state;
        let host = host.and_then(|state| state.host.latest());
        let goes = format!("{} to RAM", moved.shown());
        expectation.words.push(
            "; ",
            match host {
                Some((_, host)) => {
                    format!("{goes}, {} is available", host.limit - host.used)
                }
                None => goes,
            },
        );
        expectation.relief = Some(Relief {
            at: ReliefMoment::Step,
            allocated: None,
            to_ram: moved.is_rehearsed.then_some(moved.each),
            without: None,
            time: None,
        });
    }

    /// What it saves, which the run's peak is held to: `without` is the same without what saves it.
    pub(super) fn hold_to(&self, of: &Target, without: &Target, expectation: &mut Expectation) {
        // Of the steps alone: whether there was an evaluation before the first one is only guessed.
        let (Some(peak), Some(without)) = (self.likely_step(of), self.likely_step(without)) else {
            return;
        };
        expectation.relief = Some(Relief {
            at: ReliefMoment::Step,
            allocated: Some(peak),
            to_ram: expectation.relief.and_then(|relief| relief.to_ram),
            without: Some(without),
            time: None,
        });
    }
}

/// The same with what forward saves on the GPU.
fn kept(target: &Target) -> Target {
    let mut kept = *target;
    kept.treatment.offloaded = false;
    kept
}
