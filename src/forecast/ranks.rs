//! A training on several ranks needs what the rank needs that needs most: the one that ran out of memory first may be another.

use super::estimate::{Estimate, Target};
use super::memory::{Forecast, Model};
use super::other_rank::{OtherNeed, OtherRank};
use super::rehearsed::{OnCard, Rehearsed};
use crate::units::Bytes;

impl Model {
    /// The rank that the figures for a target are of, where it is not the one that ran out.
    pub fn decided_by(&self, target: &Target) -> Option<&OtherRank> {
        let own = self.own_needs(target);
        let (fullest, _) = self.fullest(own, |step| step.needs(target))?;
        Some(fullest)
    }

    /// A figure of the rank that ran out, or of the one of which it is the largest.
    pub(super) fn of_fullest(
        &self,
        own: Forecast,
        of: impl Fn(&Rehearsed) -> Option<Estimate>,
    ) -> Forecast {
        self.fullest(own, of).map_or(own, |(_, most)| most)
    }

    fn fullest(
        &self,
        own: Forecast,
        of: impl Fn(&Rehearsed) -> Option<Estimate>,
    ) -> Option<(&OtherRank, Forecast)> {
        let figure = |other: &OtherRank| match &other.need {
            // Where runs have shown more than a rehearsal says, they have of all ranks.
            OtherNeed::Rehearsed(step) => {
                let said = of(step).filter(|_| self.rehearsed().is_some())?;
                Some(Forecast::Within(said))
            }
            OtherNeed::Holds(more) => Some(own.and(*more)),
        };
        let each = (self.others().iter()).filter_map(|other| Some((other, figure(other)?)));
        let (other, most) = each.max_by_key(|(_, figure)| figure.likely())?;
        (most.likely() > own.likely()).then_some((other, most))
    }

    /// The rehearsal that a target's figures are of, and what its rank holds beside what was rehearsed.
    fn deciding(&self, target: &Target) -> Option<(&Rehearsed, Bytes)> {
        let own = self.rehearsed()?;
        Some(match self.decided_by(target).map(|other| &other.need) {
            None => (own, Bytes::ZERO),
            Some(OtherNeed::Holds(more)) => (own, *more),
            Some(OtherNeed::Rehearsed(step)) => (step, Bytes::ZERO),
        })
    }

    /// Whether the upper end of what a target needs fits on each rank with this margin, by their rehearsals.
    pub(super) fn rehearsed_fits(&self, target: &Target, room: Bytes, margin: f64) -> Option<bool> {
        let own = self.rehearsed()?;
        let fits = self.others().iter().all(|other| match &other.need {
            OtherNeed::Holds(_) => true,
            OtherNeed::Rehearsed(step) => step.fits(target, room, margin).unwrap_or(true),
        });
        let held = self.others().iter().map(|other| match &other.need {
            OtherNeed::Holds(more) => *more,
            OtherNeed::Rehearsed(_) => Bytes::ZERO,
        });
        let left = room - held.max().unwrap_or_default();
        Some(own.fits(target, left, margin)? && fits)
    }

    /// What a target needs with these settings of the allocator and this limit, by its rehearsal.
    pub fn needs_under(
        &self,
        target: &Target,
        alloc_conf: &str,
        cap: Option<Bytes>,
    ) -> Option<Estimate> {
        let (step, more) = self.deciding(target)?;
        let cap = cap.map(|cap| cap - more);
        let needs = step.clone().under(alloc_conf).capped(cap).needs(target)?;
        Some(needs + more)
    }

    /// Whether it runs so in this room, by the replay alone.
    pub fn runs_under(
        &self,
        target: &Target,
        alloc_conf: &str,
        cap: Option<Bytes>,
        room: Bytes,
    ) -> Option<bool> {
        let (step, more) = self.deciding(target)?;
        let cap = cap.map(|cap| cap - more);
        let step = step.clone().under(alloc_conf).capped(cap);
        step.runs_in(target, room - more)
    }

    /// What a target that was rehearsed does where PyTorch may reserve so much; `None` where memory runs out, or nothing is known.
    pub fn on_card(&self, target: &Target, room: Bytes) -> Option<OnCard> {
        let (step, more) = self.deciding(target)?;
        let on_card = step.on_card(target, room - more)?;
        Some(OnCard {
            reserved: on_card.reserved + more,
            ..on_card
        })
    }

    /// The likely peak of a target's steps by their rehearsal, without an evaluation before them.
    pub fn peak_of_steps(&self, target: &Target) -> Option<Bytes> {
        let (step, more) = self.deciding(target)?;
        Some(step.of_steps_alone().peak(target)?.likely + more)
    }
}

impl Forecast {
    fn likely(self) -> Option<Bytes> {
        match self {
            Forecast::Unknown => None,
            Forecast::AtLeast(bytes, _) => Some(bytes),
            Forecast::Within(estimate) | Forecast::Extrapolated(estimate, _) => {
                Some(estimate.likely)
            }
        }
    }

    /// The same of a rank that holds so much more.
    fn and(self, more: Bytes) -> Forecast {
        match self {
            Forecast::Unknown => Forecast::Unknown,
            Forecast::AtLeast(bytes, why) => Forecast::AtLeast(bytes + more, why),
            Forecast::Within(estimate) => Forecast::Within(estimate + more),
            Forecast::Extrapolated(estimate, how) => Forecast::Extrapolated(estimate + more, how),
        }
    }
}
