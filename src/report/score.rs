//! What came of predictions, in words: of one relaunch, and of all on this machine.

use crate::document::{RunProof, proof_words};
use crate::event::{Basis, CopyTime, Prediction, Relief, ReliefMoment, RunEnd};
use crate::forecast::Estimate;
use crate::forecast::score::{self, NeedShown, Score, ScoreSheet};
use crate::remedy::NumericsProof;
use crate::state::{Run, State};
use crate::units::{Bytes, RunNumber};

/// A peak within this of the predicted one counts as met.
const SAME: f64 = 0.0005;

/// Of a run that has ended, for its end: "run 2: peak 10.4 GiB, as predicted (rehearsed)". `None` where
/// nothing was predicted, or nothing was seen of it.
pub fn verdict(run: &Run) -> Option<String> {
    let score = Score::new(run)?;
    let (number, prediction) = (run.number, &score.prediction);
    let rests_on = rests_on(prediction.basis);
    if let (Some(false), RunEnd::OutOfMemory) = (score.held, score.outcome.end) {
        let needs = prediction.needs.map_or(String::new(), |needs| {
            let of = prediction
                .room
                .map_or(String::new(), |room| format!(" of {room}"));
            format!(" in {needs}{of}")
        });
        return Some(format!(
            "run {number}: ran out of memory again, though it was predicted to fit{needs}{rests_on}"
        ));
    }
    let relieved = relieved(run);
    let Some((off, (peak, predicted))) = (score.off).zip(score.outcome.peak.zip(prediction.peak))
    else {
        let need = need_words(&score).map(|words| format!("run {number}: {words}{rests_on}"));
        if need.is_some() && relieved.is_none() {
            return need;
        }
        return match relieved {
            Some(words) => Some(format!("run {number}: {words}{rests_on}")),
            None => ram_verdict(number, &score),
        };
    };
    let relieved = relieved.map_or(String::new(), |words| format!("; {words}"));
    let met = met(predicted, off);
    let open = open_need(&score).map_or(String::new(), |words| format!("; {words}"));
    Some(format!(
        "run {number}: peak {peak}{met}{rests_on}{open}{relieved}"
    ))
}

/// "22.2 GiB reserved, above the 17.3–21.4 GiB that it was to need: whether it needs more is not shown"
fn open_need(score: &Score) -> Option<String> {
    if score.need != Some(NeedShown::Open) {
        return None;
    }
    let (reserved, needs) = (score.outcome.reserved?, score.prediction.needs?);
    let (low, high) = score.prediction.within.unwrap_or((needs, needs));
    let said = Estimate::new(low, needs, high).ends();
    Some(format!(
        "{reserved} reserved, above the {said} that it was to need: whether it needs more is not shown"
    ))
}

/// "peak 2.65 GiB, at most 2.94 GiB reserved, -43.5 % of the need of 5.20 GiB predicted"
fn need_words(score: &Score) -> Option<String> {
    let (needs, peak) = (need_of(&score.prediction)?, score.outcome.peak?);
    let off = score.need_off?;
    let reserved = score.outcome.reserved.filter(|reserved| *reserved > peak);
    let reserved = reserved.map_or(String::new(), |reserved| {
        format!(", at most {reserved} reserved")
    });
    Some(match off.abs() < SAME {
        true => format!("peak {peak}{reserved}, as predicted (a need of {needs})"),
        false => format!(
            "peak {peak}{reserved}, {} of the need of {needs} predicted",
            percent(off)
        ),
    })
}

/// "5.20 GiB"; of a rough estimate the end that says something.
fn need_of(prediction: &Prediction) -> Option<String> {
    let needs = score::predicted_need(prediction)?;
    Some(match needs.is_rough() {
        true => needs.bound(prediction.room),
        false => needs.likely.to_string(),
    })
}

/// The same with what became of the training's numbers: "run 2: peak 10.4 GiB, as predicted (rehearsed); losses of 7 steps
/// are the same, bit for bit". `runs` are those of the session.
pub fn at_end(runs: &[Run], run: &Run) -> Option<String> {
    let proof = RunProof::new(runs, run);
    match (verdict(run), proof) {
        (Some(verdict), Some(proof)) => Some(format!("{verdict}; {}", proof.words)),
        (None, Some(proof)) => Some(format!("run {}: {}", run.number, proof.words)),
        (verdict, None) => verdict,
    }
}

/// Of a relaunched run that goes on, once all was compared that can be: "run 2: losses of 7 steps are the same, bit for bit".
pub fn proved(state: &State) -> Option<String> {
    let run = state.run()?;
    let proof = NumericsProof::new(&state.runs, run).filter(NumericsProof::is_whole)?;
    Some(format!("run {}: {}", run.number, proof_words(&proof)))
}

/// Behind a figure: ", as predicted", ", +10.0 % of the 10.0 GiB predicted".
fn met(predicted: Bytes, off: f64) -> String {
    match off.abs() < SAME {
        true => ", as predicted".into(),
        false => format!(", {} of the {predicted} predicted", percent(off)),
    }
}

/// What a patch measured of the moment that it takes the cause away from, beside what was predicted: "loading the checkpoint
/// came to 19.0 GiB, as predicted; 6.00 GiB went to RAM, as predicted". `None` where nothing was measured.
pub fn relieved(run: &Run) -> Option<String> {
    let said = run.prediction.as_ref()?.relief?;
    let is = match &run.prediction_outcome {
        Some(outcome) => outcome.relief,
        None => score::relief(run),
    };
    // What a step takes less shows in the run's peak, whatever a patch has measured.
    let is = is.or((said.at == ReliefMoment::Step).then_some(Relief {
        allocated: None,
        to_ram: None,
        ..said
    }))?;
    let beside = |is: Bytes, said: Option<Bytes>| {
        let off = said.and_then(|said| Some((said, is.fraction_of(said)? - 1.0)));
        off.map_or(String::new(), |(said, off)| met(said, off))
    };
    let (at, below) = match said.at {
        ReliefMoment::Loading => ("loading the checkpoint", None),
        ReliefMoment::Evaluation => (
            "the evaluation",
            Some("the evaluation stayed below the peak of training"),
        ),
        ReliefMoment::Step => ("the step", None),
    };
    let allocated = match is.allocated {
        Some(most) => Some(format!(
            "{at} came to {most}{}",
            beside(most, said.allocated)
        )),
        None => below.map(String::from),
    };
    let to_ram =
        (is.to_ram).map(|moved| format!("{moved} went to RAM{}", beside(moved, said.to_ram)));
    let saved = said.without.zip(peak_of(run)).and_then(|(without, peak)| {
        let less = format!(
            "{} less than the {without} predicted without",
            without - peak
        );
        (peak < without).then_some(less)
    });
    let time = is.time.map(slower);
    let parts: Vec<String> = [allocated, saved, to_ram, time]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The most that was allocated once its steps were whole.
fn peak_of(run: &Run) -> Option<Bytes> {
    match &run.prediction_outcome {
        Some(outcome) => outcome.peak,
        None => score::outcome(run)?.peak,
    }
}

/// "copying takes 0.41 of the 1.20 s of a step, which is 1.5 times as long"
fn slower(time: CopyTime) -> String {
    let seconds = |micros: u64| micros as f64 / 1e6;
    let rest = time.step.saturating_sub(time.copying).max(1);
    format!(
        "copying takes {:.2} of the {:.2} s of a step, which is {:.1} times as long",
        seconds(time.copying),
        seconds(time.step),
        time.step as f64 / rest as f64
    )
}

/// "run 2: RAM at most 812 MiB, -5.1 % of the 856 MiB predicted"
fn ram_verdict(number: RunNumber, score: &Score) -> Option<String> {
    let (ram, peak) = (score.prediction.ram?, score.outcome.ram?);
    if score.outcome.end != RunEnd::Finished {
        return None;
    }
    Some(match score.ram_off {
        Some(off) if off.abs() < SAME => format!("run {number}: RAM at most {peak}, as predicted"),
        Some(off) => format!(
            "run {number}: RAM at most {peak}, {} of the {} predicted",
            percent(off),
            ram.needs
        ),
        None => format!(
            "run {number}: RAM at most {peak}; at least {} was predicted",
            ram.needs
        ),
    })
}

/// What was predicted of a run, by itself: "a peak of 14.6 GiB (rehearsed)", "a need of at least 3.50 GiB (estimated)".
pub fn predicted(run: &Run) -> Option<String> {
    let said = run.prediction.as_ref();
    let basis = rests_on(said.and_then(|said| said.basis));
    let figure = match (run.predicted_peak, said.and_then(need_of)) {
        (Some(peak), _) => format!("a peak of {peak}"),
        (None, Some(needs)) => format!("a need of {needs}"),
        (None, None) => return None,
    };
    Some(figure + &basis)
}

/// For a table: "14.6 GiB (rehearsed), off by +0.7 %"; `None` where nothing was predicted. Also of a run
/// that goes on.
pub fn beside(run: &Run) -> Option<String> {
    let said = run.prediction.as_ref();
    let basis = rests_on(said.and_then(|said| said.basis));
    let figure = match (run.predicted_peak, said.and_then(need_of)) {
        (Some(peak), _) => peak.to_string(),
        (None, Some(needs)) => format!("a need of {needs}"),
        (None, None) if said?.relief.is_some() => {
            let relief = said?.relief?;
            let what = match relief.at {
                ReliefMoment::Loading => "while the checkpoint is loaded",
                ReliefMoment::Evaluation => "in the evaluation",
                ReliefMoment::Step => "in a step",
            };
            let off = Score::new(run).and_then(|score| score.relief_off);
            let off = off.map_or(String::new(), |off| format!(", off by {}", percent(off)));
            return Some(format!("{} {what}{off}", relief.allocated?));
        }
        (None, None) => {
            let ram = said?.ram?;
            let least = if ram.at_least { "at least " } else { "" };
            let off = Score::new(run).and_then(|score| score.ram_off);
            let off = off.map_or(String::new(), |off| format!(", off by {}", percent(off)));
            return Some(format!("{least}{} of RAM{off}", ram.needs));
        }
    };
    Some(figure + &basis + &outcome(Score::new(run).as_ref()))
}

fn outcome(score: Option<&Score>) -> String {
    match score.map(|score| (score.off.or(score.need_off), score.held, score.outcome.end)) {
        Some((_, Some(false), RunEnd::OutOfMemory)) => ", but it ran out again".into(),
        Some((Some(off), _, _)) => format!(", off by {}", percent(off)),
        Some((None, _, _)) | None => String::new(),
    }
}

/// All together in a sentence or two; `None` where there are none.
pub fn summary(sheet: &ScoreSheet) -> Option<String> {
    let relaunches = match sheet.count {
        0 => return None,
        1 => "1 relaunch was predicted".to_string(),
        n => format!("{n} relaunches were predicted"),
    };
    let bases: Vec<String> = (sheet.bases.iter())
        .map(|(basis, count)| match basis {
            Some(basis) => format!("{count} {}", basis.word()),
            None => format!("{count} on no recorded basis"),
        })
        .collect();
    let is_known = sheet.bases.iter().any(|(basis, _)| basis.is_some());
    let bases = match is_known {
        false => String::new(),
        true => format!(" ({})", bases.join(", ")),
    };
    let held = match sheet.judged {
        0 => String::new(),
        1 if sheet.count == 1 && sheet.held == 1 => "; right about whether it fits".into(),
        1 if sheet.count == 1 => "; wrong about whether it fits".into(),
        // Of the others it was not said, or not seen.
        judged => format!(
            "; right about whether it fits in {} of {judged} cases",
            sheet.held
        ),
    };
    // What is reserved is more than what is needed, and by how much nobody has seen.
    let open = match sheet.needs_open {
        0 => String::new(),
        1 => "; one reserved more than predicted: whether it needed that much is not known".into(),
        n => format!(
            "; {n} reserved more than predicted: whether they needed that much is not known"
        ),
    };
    let off = match (sheet.peaks, sheet.median, sheet.worst) {
        (1, _, Some(worst)) if sheet.count == 1 => {
            format!("; its peak was off by {}", percent(worst))
        }
        (1, _, Some(worst)) => format!("; the peak of one was off by {}", percent(worst)),
        (_, Some(median), Some(worst)) => format!(
            "; peaks were off by {:.1} % (median), {} (worst)",
            median * 100.0,
            percent(worst)
        ),
        _ => String::new(),
    };
    Some(format!("{relaunches}{bases}{held}{off}{open}"))
}

fn rests_on(basis: Option<Basis>) -> String {
    basis.map_or(String::new(), |basis| format!(" ({})", basis.word()))
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// " (predicted 14.0 GiB, rehearsed, off by +1.4 %)": after a peak.
pub fn after_peak(run: &Run, predicted: Bytes) -> String {
    let basis = run.prediction.as_ref().and_then(|said| said.basis);
    let basis = basis.map_or(String::new(), |basis| format!(", {}", basis.word()));
    let off = outcome(Score::new(run).as_ref());
    format!(" (predicted {predicted} allocated{basis}{off})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{PredictionOutcome, RamPrediction};

    fn run(fits: bool, end: RunEnd, peak: f64) -> Run {
        let gib = |gib: f64| Bytes::gib(1).scale(gib);
        Run {
            number: RunNumber(2),
            predicted_peak: Some(gib(10.0)),
            prediction: Some(Prediction {
                basis: Some(Basis::Rehearsed),
                peak: Some(gib(10.0)),
                needs: Some(gib(11.0)),
                within: None,
                room: Some(gib(23.5)),
                reserved: None,
                reserved_within: None,
                fits: Some(fits),
                ram: None,
                relief: None,
            }),
            prediction_outcome: Some(PredictionOutcome {
                run: RunNumber(2),
                end,
                steps: 5,
                peak: Some(gib(peak)),
                reserved: None,
                ram: None,
                relief: None,
            }),
            ..Run::default()
        }
    }

    #[test]
    fn a_prediction_stands_beside_what_came_of_it() {
        let met = run(true, RunEnd::Finished, 10.0);
        let verdict = |run: &Run| super::verdict(run).expect("a verdict");
        assert_eq!(
            verdict(&met),
            "run 2: peak 10.0 GiB, as predicted (rehearsed)"
        );
        let more = run(true, RunEnd::Finished, 11.0);
        assert_eq!(
            verdict(&more),
            "run 2: peak 11.0 GiB, +10.0 % of the 10.0 GiB predicted (rehearsed)"
        );
        assert_eq!(
            beside(&more).expect("words"),
            "10.0 GiB (rehearsed), off by +10.0 %"
        );
        // What was said of the need is held against what can be needed, not against all that was reserved.
        let mut open = run(true, RunEnd::Finished, 10.0);
        open.prediction_outcome.as_mut().expect("one").reserved = Some(Bytes::gib(12));
        assert_eq!(
            verdict(&open),
            "run 2: peak 10.0 GiB, as predicted (rehearsed); 12.0 GiB reserved, above the 11.0 GiB that it was to need: whether it needs more is not shown"
        );
        let again = run(true, RunEnd::OutOfMemory, 23.0);
        assert_eq!(
            verdict(&again),
            "run 2: ran out of memory again, though it was predicted to fit in 11.0 GiB of 23.5 GiB (rehearsed)"
        );
        assert!(
            beside(&again)
                .expect("words")
                .ends_with("but it ran out again")
        );
        let expected = run(false, RunEnd::OutOfMemory, 23.0);
        assert_eq!(super::verdict(&expected), None);
        assert_eq!(super::verdict(&Run::default()), None);
    }

    /// As of several remedies together.
    #[test]
    fn a_need_that_missed_is_told_with_its_miss() {
        let mut run = run(true, RunEnd::Finished, 2.5);
        run.predicted_peak = None;
        run.prediction = Some(Prediction {
            basis: Some(Basis::Estimated),
            needs: Some(Bytes::gib(5)),
            ..Prediction::default()
        });
        let outcome = run.prediction_outcome.as_mut().expect("an outcome");
        outcome.reserved = Some(Bytes::gib(3));
        let said = verdict(&run).expect("a verdict");
        assert_eq!(
            said,
            "run 2: peak 2.50 GiB, at most 3.00 GiB reserved, -40.0 % of the need of 5.00 GiB predicted (estimated)"
        );
        assert_eq!(
            beside(&run).expect("words"),
            "a need of 5.00 GiB (estimated), off by -40.0 %"
        );
        let scores = [Score::new(&run).expect("a score")];
        assert_eq!(
            summary(&ScoreSheet::new(&scores)).expect("words"),
            "1 relaunch was predicted (1 estimated); its peak was off by -40.0 %"
        );
        // An open interval is told by its ends, and nothing was off.
        let said = run.prediction.as_mut().expect("a prediction");
        said.within = Some((Bytes::gib(2), Bytes::gib(29)));
        assert_eq!(
            beside(&run).expect("words"),
            "a need of at least 2.00 GiB (estimated)"
        );
        assert_eq!(verdict(&run), None);
    }

    #[test]
    fn what_was_predicted_of_the_ram_stands_beside_what_it_came_to() {
        let run = |at_least, end, peak| Run {
            number: RunNumber(2),
            prediction: Some(Prediction {
                ram: Some(RamPrediction {
                    needs: Bytes::mib(800),
                    limit: Bytes::mib(1400),
                    at_least,
                }),
                ..Prediction::default()
            }),
            prediction_outcome: Some(PredictionOutcome {
                run: RunNumber(2),
                end,
                steps: 0,
                peak: None,
                reserved: None,
                ram: Some(Bytes::mib(peak)),
                relief: None,
            }),
            ..Run::default()
        };
        let met = run(false, RunEnd::Finished, 820);
        assert_eq!(
            super::verdict(&met).expect("a verdict"),
            "run 2: RAM at most 820 MiB, +2.5 % of the 800 MiB predicted"
        );
        assert_eq!(
            beside(&met).expect("words"),
            "800 MiB of RAM, off by +2.5 %"
        );
        let bound = run(true, RunEnd::Finished, 900);
        assert_eq!(
            super::verdict(&bound).expect("a verdict"),
            "run 2: RAM at most 900 MiB; at least 800 MiB was predicted"
        );
        assert_eq!(beside(&bound).expect("words"), "at least 800 MiB of RAM");
        assert_eq!(super::verdict(&run(false, RunEnd::Failed, 820)), None);
    }

    #[test]
    fn what_a_patch_took_away_stands_beside_what_was_predicted_of_that_moment() {
        let relief = |at, allocated: Option<u64>, to_ram: u64| Relief {
            at,
            allocated: allocated.map(Bytes::mib),
            to_ram: Some(Bytes::mib(to_ram)),
            without: None,
            time: None,
        };
        let run = |said: Relief, is: Option<Relief>, peak: Option<u64>| {
            let mut run = run(false, RunEnd::Finished, 9.0);
            run.predicted_peak = peak.map(Bytes::mib);
            run.prediction = Some(Prediction {
                peak: peak.map(Bytes::mib),
                relief: Some(said),
                ..Prediction::default()
            });
            let outcome = run.prediction_outcome.as_mut().expect("an outcome");
            outcome.peak = peak.map(Bytes::mib);
            outcome.relief = is;
            run
        };
        use ReliefMoment::{Evaluation, Loading, Step};
        let mut promised = relief(Step, None, 40_960);
        promised.without = Some(Bytes::mib(46_080));
        let mut measured = relief(Step, None, 40_960);
        measured.time = Some(CopyTime {
            copying: 410_000,
            step: 1_200_000,
        });
        assert_eq!(
            verdict(&run(promised, Some(measured), Some(10_240))).expect("a verdict"),
            "run 2: peak 10.0 GiB, as predicted; 35.0 GiB less than the 45.0 GiB predicted without; 40.0 GiB went to RAM, as predicted; copying takes 0.41 of the 1.20 s of a step, which is 1.5 times as long"
        );
        let loaded = run(
            relief(Loading, Some(19_456), 6_144),
            Some(relief(Loading, Some(19_456), 6_450)),
            None,
        );
        assert_eq!(
            verdict(&loaded).expect("a verdict"),
            "run 2: loading the checkpoint came to 19.0 GiB, as predicted; 6.30 GiB went to RAM, +5.0 % of the 6.00 GiB predicted"
        );
        assert_eq!(
            beside(&loaded).expect("words"),
            "19.0 GiB while the checkpoint is loaded, off by +0.0 %"
        );
        let evaluated = run(
            relief(Evaluation, Some(3_072), 40_960),
            Some(relief(Evaluation, None, 40_960)),
            Some(10_240),
        );
        assert_eq!(
            verdict(&evaluated).expect("a verdict"),
            "run 2: peak 10.0 GiB, as predicted; the evaluation stayed below the peak of training; 40.0 GiB went to RAM, as predicted"
        );
        promised.to_ram = None;
        assert_eq!(
            verdict(&run(promised, None, Some(10_240))).expect("a verdict"),
            "run 2: peak 10.0 GiB, as predicted; 35.0 GiB less than the 45.0 GiB predicted without"
        );
        // The program's own argument is nothing that the probe measures.
        let by_argument = run(relief(Evaluation, Some(3_072), 40_960), None, Some(10_240));
        assert_eq!(
            verdict(&by_argument).expect("a verdict"),
            "run 2: peak 10.0 GiB, as predicted"
        );
        let score = Score::new(&loaded).expect("a score");
        assert_eq!((score.off, score.relief_off), (None, Some(0.0)));
        assert_eq!(ScoreSheet::new(&[score]).peaks, 1);
    }

    #[test]
    fn all_together_are_a_sentence() {
        let runs = [
            run(true, RunEnd::Finished, 10.1),
            run(true, RunEnd::Finished, 9.5),
            run(true, RunEnd::OutOfMemory, 23.0),
        ];
        let scores: Vec<Score> = runs.iter().filter_map(Score::new).collect();
        assert_eq!(
            summary(&ScoreSheet::new(&scores)).expect("words"),
            "3 relaunches were predicted (3 rehearsed); right about whether it fits in 2 of 3 cases; peaks were off by 3.0 % (median), -5.0 % (worst)"
        );
        assert_eq!(
            summary(&ScoreSheet::new(&scores[..1])).expect("words"),
            "1 relaunch was predicted (1 rehearsed); right about whether it fits; its peak was off by +1.0 %"
        );
        assert_eq!(summary(&ScoreSheet::default()), None);
    }
}
