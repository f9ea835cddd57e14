//! How far off predictions were: each relaunch that was predicted, beside what came of it.

use crate::event::{Basis, Prediction, PredictionOutcome, Relief, RunEnd};
use crate::forecast::Estimate;
use crate::state::{Run, RunOutcome};
use crate::units::{Bytes, RunNumber};

/// A run that ends after fewer steps has not shown its peak: the optimizer's state comes with the first.
const WHOLE: u64 = 2;

/// What lies above the end of a need by no more than this share counts as met: a segment of 2 or 20 MiB more.
const SAME_NEED: f64 = 0.002;

/// A prediction and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    pub run: RunNumber,
    pub prediction: Prediction,
    pub outcome: PredictionOutcome,
    /// The peak's share above the predicted one (0.01 is 1 % more), where it was seen.
    pub off: Option<f64>,
    /// Where only a need was predicted: by how much it missed what that can have been, between the peak and what was reserved.
    pub need_off: Option<f64>,
    /// Whether the need was within what was said of it; `None` where none was said, or it has not shown its peak.
    pub need: Option<NeedShown>,
    /// The same of the host's memory, of a run that ended well and whose need was no lower bound.
    pub ram_off: Option<f64>,
    /// The same of the moment that a remedy takes the cause away from: of what was allocated then, else of what went to RAM.
    pub relief_off: Option<f64>,
    /// Whether it was right that it fits, or does not; `None` where that was not said, or is not shown.
    pub held: Option<bool>,
}

impl Score {
    /// Of a run that was predicted and has ended.
    pub fn new(run: &Run) -> Option<Score> {
        let prediction = match (&run.prediction, run.predicted_peak) {
            (Some(prediction), _) => prediction.clone(),
            // Of a recording before predictions were recorded whole.
            (None, Some(peak)) => Prediction {
                peak: Some(peak),
                ..Prediction::default()
            },
            (None, None) => return None,
        };
        let outcome = run.prediction_outcome.clone().or_else(|| outcome(run))?;
        let is_whole = outcome.steps >= WHOLE;
        let off = (outcome.peak)
            .filter(|_| is_whole && outcome.end != RunEnd::OutOfMemory)
            .and_then(|peak| peak.fraction_of(prediction.peak?));
        let need_off = predicted_need(&prediction)
            .filter(|_| prediction.peak.is_none())
            .filter(|_| is_whole && outcome.end != RunEnd::OutOfMemory)
            .and_then(|needs| missed_by(needs, outcome.peak?, outcome.reserved));
        let ram = prediction.ram.filter(|ram| !ram.at_least);
        let ram_off = (outcome.ram)
            .filter(|_| outcome.end == RunEnd::Finished)
            .and_then(|peak| peak.fraction_of(ram?.needs));
        let relief_off = prediction
            .relief
            .zip(outcome.relief)
            .and_then(|(said, is)| {
                let share = |is: Option<Bytes>, said: Option<Bytes>| is?.fraction_of(said?);
                share(is.allocated, said.allocated).or_else(|| share(is.to_ram, said.to_ram))
            });
        let fitted = match outcome.end {
            RunEnd::OutOfMemory => Some(false),
            RunEnd::Finished => Some(true),
            RunEnd::Stopped | RunEnd::Failed => is_whole.then_some(true),
        };
        Some(Score {
            run: run.number,
            off: off.map(|share| share - 1.0),
            need_off,
            need: (is_whole && outcome.end != RunEnd::OutOfMemory)
                .then(|| NeedShown::new(&prediction, &outcome))
                .flatten(),
            ram_off: ram_off.map(|share| share - 1.0),
            relief_off: relief_off.map(|share| share - 1.0),
            held: (prediction.expected_to_fit().zip(fitted)).map(|(said, is)| said == is),
            prediction,
            outcome,
        })
    }
}

/// What a run that went well showed of a predicted need's upper end. It needs no less than it had allocated and no more than it
/// had reserved: what it reserves beyond the predicted end may be cache that it can do without, or pieces that it cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedShown {
    /// It reserved no more, or no more than was said beside the need.
    Within,
    /// It allocated no more, and reserved more.
    Open,
    /// It allocated more.
    Above,
}

impl NeedShown {
    fn new(said: &Prediction, outcome: &PredictionOutcome) -> Option<NeedShown> {
        let most = said.within.map_or(said.needs?, |(_, most)| most);
        let is_above = |is: Bytes, most: Bytes| is > most.scale(1.0 + SAME_NEED);
        if is_above(outcome.peak?, most) {
            return Some(NeedShown::Above);
        }
        // Where it was also said what it would reserve, and that came true, so is what it needs.
        let reserves = said.reserved_within.map_or(most, |(_, reserves)| reserves);
        Some(match is_above(outcome.reserved?, reserves.max(most)) {
            true => NeedShown::Open,
            false => NeedShown::Within,
        })
    }
}

/// The need that was predicted: a figure, or the ends of a rough estimate, between which nobody has worked out any.
pub fn predicted_need(prediction: &Prediction) -> Option<Estimate> {
    let needs = prediction.needs?;
    let figure = Estimate::exact(needs);
    let is_figure = matches!(prediction.basis, Some(Basis::Measured | Basis::Rehearsed));
    let ends = prediction
        .within
        .map(|(low, high)| Estimate::new(low, needs, high));
    let rough = ends.filter(|ends| !is_figure && ends.is_rough());
    Some(rough.unwrap_or(figure))
}

/// A run that went well needed at least what was allocated at its peak, and at most what it had reserved: the share by which a
/// predicted need lies outside. Of a rough one that does not, there is no figure to be off from.
fn missed_by(needs: Estimate, peak: Bytes, reserved: Option<Bytes>) -> Option<f64> {
    let most = reserved.map_or(peak, |reserved| reserved.max(peak));
    let is_met = needs.low <= most && peak <= needs.high;
    match (is_met, needs.low > most) {
        (true, _) => (needs.low == needs.high).then_some(0.0),
        (false, true) => Some(most.fraction_of(needs.low)? - 1.0),
        (false, false) => Some(peak.fraction_of(needs.high)? - 1.0),
    }
}

/// What came of a run's prediction, once it has ended.
pub fn outcome(run: &Run) -> Option<PredictionOutcome> {
    let end = match run.outcome() {
        RunOutcome::Running => return None,
        RunOutcome::Finished if run.is_hidden_failure() => RunEnd::OutOfMemory,
        RunOutcome::Finished => RunEnd::Finished,
        RunOutcome::OutOfMemory => RunEnd::OutOfMemory,
        RunOutcome::Stopped => RunEnd::Stopped,
        RunOutcome::TrainedNothing | RunOutcome::Failed(_) => RunEnd::Failed,
    };
    Some(PredictionOutcome {
        run: run.number,
        end,
        steps: run.steps(),
        peak: run.peak(),
        reserved: run.ranks.iter().map(|rank| rank.reserved_peak).max(),
        ram: run.host_peak,
        relief: relief(run),
    })
}

/// What the patches of a run's processes measured of what its prediction says.
pub fn relief(run: &Run) -> Option<Relief> {
    let at = run.prediction.as_ref()?.relief?.at;
    let patches = run.ranks.iter().flat_map(|rank| &rank.patches);
    let measured = patches.filter_map(|patched| patched.relief);
    (measured.filter(|measured| measured.at == at)).reduce(Relief::max)
}

/// Many of them together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScoreSheet {
    /// Predictions.
    pub count: usize,
    /// Those of which it was said whether they fit and which showed it, and how many of these were right.
    pub judged: usize,
    pub held: usize,
    /// Of the needs that were predicted, and of which runs showed something: those that were within what was said, and those that
    /// may have been more.
    pub needs_within: usize,
    pub needs_open: usize,
    /// Of the peaks and needs that were predicted and seen, of a run or of the moment that a remedy is for: how many, the median of how far off they were without
    /// its sign, and the one that was furthest off.
    pub peaks: usize,
    pub median: Option<f64>,
    pub worst: Option<f64>,
    /// How many rested on what; `None` where that was not recorded, as of a mere bound.
    pub bases: Vec<(Option<Basis>, usize)>,
}

impl ScoreSheet {
    pub fn new<'a>(scores: impl IntoIterator<Item = &'a Score>) -> ScoreSheet {
        let mut sheet = ScoreSheet::default();
        let mut offs = Vec::new();
        for score in scores {
            sheet.count += 1;
            sheet.judged += usize::from(score.held.is_some());
            sheet.held += usize::from(score.held == Some(true));
            sheet.needs_within += usize::from(score.need == Some(NeedShown::Within));
            sheet.needs_open += usize::from(score.need == Some(NeedShown::Open));
            offs.extend(score.off.or(score.need_off).or(score.relief_off));
            let basis = score.prediction.basis;
            match sheet.bases.iter_mut().find(|(known, _)| *known == basis) {
                Some((_, count)) => *count += 1,
                None => sheet.bases.push((basis, 1)),
            }
        }
        sheet
            .bases
            .sort_unstable_by_key(|(basis, _)| (basis.is_none(), *basis));
        offs.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        sheet.peaks = offs.len();
        sheet.worst = offs.last().copied();
        sheet.median = match offs.len() {
            0 => None,
            n if n % 2 == 1 => Some(offs[n / 2].abs()),
            n => Some((offs[n / 2 - 1].abs() + offs[n / 2].abs()) / 2.0),
        };
        sheet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, Started};
    use crate::state::tests::staged::{
        StagedSession, command, exited, gib, hello, record, sample, step,
    };
    use crate::units::Pid;

    fn prediction(peak: f64, fits: Option<bool>, basis: Basis) -> Prediction {
        Prediction {
            basis: Some(basis),
            peak: Some(gib(peak)),
            fits,
            ..Prediction::default()
        }
    }

    /// A run of so many steps with this peak that was predicted so.
    fn ran(prediction: Option<Prediction>, steps: u64, peak: f64, end: EventKind) -> Score {
        let mut scene = StagedSession::default();
        let started = Started {
            run: RunNumber(1),
            pid: Pid(100),
            command: command("python train.py"),
            remedies: Vec::new(),
            predicted_peak: prediction
                .as_ref()
                .map_or(Some(gib(10.0)), |said| said.peak),
            prediction,
            numerics: None,
        };
        scene.add(0.0, EventKind::Started(started));
        scene.add(1.0, hello(1, 100, None));
        for count in 1..=steps {
            scene.add(1.0 + count as f64, step(100, count, gib(3.0), gib(peak)));
            let reading = sample(100, 0, gib(peak), gib(peak + 1.0));
            scene.add(1.5 + count as f64, EventKind::Sample(reading));
        }
        if let EventKind::Oom(_) = end {
            scene.add(90.0, end);
            scene.add(91.0, exited(1, Exit::Code(1)));
        } else {
            scene.add(90.0, end);
        }
        Score::new(scene.state.run().expect("a run")).expect("a score")
    }

    fn finished() -> EventKind {
        exited(1, Exit::Code(0))
    }

    fn oom() -> EventKind {
        EventKind::Oom(record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0)))
    }

    #[test]
    fn each_is_held_to_what_it_said() {
        let fits = || Some(prediction(10.0, Some(true), Basis::Rehearsed));
        let right = ran(fits(), 5, 10.1, finished());
        assert_eq!(
            (right.held, right.outcome.end),
            (Some(true), RunEnd::Finished)
        );
        assert!((right.off.expect("a peak") - 0.01).abs() < 1e-6);
        assert_eq!(right.outcome.reserved, Some(gib(11.1)));
        let wrong = ran(fits(), 5, 10.0, oom());
        assert_eq!((wrong.held, wrong.off), (Some(false), None));
        // A program that fails in its first step shows nothing.
        let broken = ran(fits(), 1, 9.0, exited(1, Exit::Code(2)));
        assert_eq!((broken.held, broken.off), (None, None));
        let unsure = ran(
            Some(prediction(10.0, None, Basis::Estimated)),
            5,
            9.0,
            finished(),
        );
        assert_eq!(unsure.held, None);
        let likely = Prediction {
            within: Some((gib(8.0), gib(12.0))),
            room: Some(gib(12.0)),
            ..prediction(10.0, None, Basis::Estimated)
        };
        assert_eq!(ran(Some(likely), 5, 10.0, oom()).held, Some(false));
        assert!((unsure.off.expect("a peak") + 0.1).abs() < 1e-6);
        let old = ran(None, 5, 10.0, finished());
        assert_eq!((old.held, old.off), (None, Some(0.0)));
    }

    #[test]
    fn what_was_recorded_of_the_outcome_counts() {
        let said = prediction(10.0, Some(true), Basis::Measured);
        let run = Run {
            number: RunNumber(2),
            prediction: Some(said),
            prediction_outcome: Some(PredictionOutcome {
                run: RunNumber(2),
                end: RunEnd::Finished,
                steps: 9,
                peak: Some(gib(12.0)),
                reserved: None,
                ram: None,
                relief: None,
            }),
            ..Run::default()
        };
        assert!((Score::new(&run).expect("a score").off.expect("a peak") - 0.2).abs() < 1e-6);
    }

    /// As of several remedies together: what was not said as a peak counts too.
    #[test]
    fn a_need_alone_is_held_against_what_it_can_have_been() {
        let need = |needs: f64, within: Option<(f64, f64)>| Prediction {
            basis: Some(Basis::Estimated),
            needs: Some(gib(needs)),
            within: within.map(|(low, high)| (gib(low), gib(high))),
            ..Prediction::default()
        };
        // Each run reserved 1 GiB beside its peak.
        let off = |said: Prediction, peak: f64| ran(Some(said), 5, peak, finished()).need_off;
        let near = |off: Option<f64>, share: f64| (off.expect("a miss") - share).abs() < 1e-6;
        assert!(near(off(need(10.0, None), 4.0), -0.5));
        assert!(near(off(need(5.0, None), 6.0), 0.2));
        assert_eq!(off(need(5.0, None), 4.5), Some(0.0));
        // A rough estimate has no figure between its ends.
        assert_eq!(off(need(9.0, Some((8.0, 29.0))), 10.0), None);
        assert!(near(off(need(9.0, Some((8.0, 29.0))), 5.0), -0.25));
        // What ran out again is told as that.
        assert_eq!(ran(Some(need(5.0, None)), 5, 6.0, oom()).need_off, None);
        let missed = ran(Some(need(10.0, None)), 5, 4.0, finished());
        let unsaid = ran(
            Some(Prediction {
                basis: None,
                ..need(5.0, None)
            }),
            5,
            4.5,
            finished(),
        );
        let sheet = ScoreSheet::new([&missed, &unsaid]);
        assert_eq!((sheet.count, sheet.peaks), (2, 2));
        assert!(near(sheet.worst, -0.5));
        assert_eq!(sheet.bases, [(Some(Basis::Estimated), 1), (None, 1)]);
    }

    /// What was promised as a need is held against a need: a run that reserved more than the promised end has not shown that it
    /// needs no more.
    #[test]
    fn a_run_that_reserved_more_than_its_need_was_to_be_has_not_shown_it() {
        let said = |most: f64| Prediction {
            basis: Some(Basis::Estimated),
            peak: Some(gib(18.0)),
            needs: Some(gib(19.0)),
            within: Some((gib(17.3), gib(most))),
            ..Prediction::default()
        };
        // Each run reserved 1 GiB beside its peak.
        let shown = |most: f64, end| ran(Some(said(most)), 5, 19.5, end);
        assert_eq!(shown(21.4, finished()).need, Some(NeedShown::Within));
        assert_eq!(shown(20.0, finished()).need, Some(NeedShown::Open));
        assert_eq!(shown(19.0, finished()).need, Some(NeedShown::Above));
        assert_eq!(shown(20.0, oom()).need, None);
        let sheet = ScoreSheet::new(&[shown(20.0, finished()), shown(21.4, finished())]);
        assert_eq!((sheet.needs_within, sheet.needs_open), (1, 1));
    }

    #[test]
    fn the_sheet_has_the_median_and_the_worst() {
        let fits = |basis| Some(prediction(10.0, Some(true), basis));
        let scores = [
            ran(fits(Basis::Rehearsed), 5, 10.1, finished()),
            ran(fits(Basis::Rehearsed), 5, 9.5, finished()),
            ran(fits(Basis::Measured), 5, 10.0, finished()),
            ran(fits(Basis::Estimated), 5, 10.0, oom()),
        ];
        let sheet = ScoreSheet::new(&scores);
        assert_eq!((sheet.count, sheet.judged, sheet.held), (4, 4, 3));
        assert_eq!(sheet.peaks, 3);
        assert!((sheet.median.expect("one") - 0.01).abs() < 1e-6);
        assert!((sheet.worst.expect("one") + 0.05).abs() < 1e-6);
        let bases = [
            (Some(Basis::Measured), 1),
            (Some(Basis::Rehearsed), 2),
            (Some(Basis::Estimated), 1),
        ];
        assert_eq!(sheet.bases, bases);
        assert_eq!(ScoreSheet::new([]), ScoreSheet::default());
    }
}
