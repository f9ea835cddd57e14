//! Whole runs: peaks at several batches, and the smallest memory in which they really ran.

use super::{Training, gib, measured};
use oomph::forecast::*;

impl Training {
    /// What the probe would have shown of it at a batch.
    fn seen(&self, (batch, peak): (u64, f64)) -> Observation {
        let (parameters, floor) = (gib(self.parameters), gib(self.floor));
        let without = floor - parameters;
        Observation {
            seen_in: SeenIn::EarlierSession,
            batch,
            base: Estimate::new(
                without.min(parameters.scale(3.0)),
                without,
                floor.max(without + parameters.scale(0.5)),
            ),
            gradients: Some(parameters),
            parameters: Some(parameters),
            keeps_gradients: false,
            passes: ForwardBackwardPeak::Seen(gib(peak)),
            optimizer: Estimate::new(floor, floor + parameters, floor + parameters),
            steps: 30,
            varies: self.varies,
            spread: None,
            overhead: None,
            pieces: None,
            partial_step: None,
            left_over: None,
            in_small_holes: false,
        }
    }
}

fn training(name: &str) -> Training {
    let mut all = measured().training.into_iter();
    all.find(|training| training.name == name)
        .expect("it is there")
}

fn target(batch: u64) -> Target {
    Target {
        batch,
        keeps_gradients: false,
        treatment: ActivationReduction::default(),
        allocator: Allocator::Expandable,
    }
}

fn forecast(model: &Model, batch: u64) -> Estimate {
    match model.peak(&target(batch)) {
        Forecast::Within(peak) => peak,
        other => panic!("{other:?}"),
    }
}

/// Errors of all forecasts, and how many intervals hold the truth.
#[derive(Default)]
struct Score {
    errors: Vec<f64>,
    held: usize,
}

impl Score {
    fn take(&mut self, name: &str, forecast: Estimate, truth: f64) {
        let error = (forecast.likely.as_gib() / truth - 1.0).abs();
        assert!(error < 0.09, "{name}: {} for {truth}", forecast.shown());
        self.errors.push(error);
        self.held += usize::from(forecast.holds(gib(truth)));
    }

    fn quantile(&mut self, share: f64) -> f64 {
        self.errors.sort_by(f64::total_cmp);
        self.errors[((self.errors.len() - 1) as f64 * share).round() as usize]
    }

    fn held(&self) -> f64 {
        self.held as f64 / self.errors.len() as f64
    }
}

#[test]
fn from_one_run_other_batches_are_foretold() {
    let mut score = Score::default();
    for training in measured().training {
        for from in &training.peaks {
            let model = Model::new(vec![training.seen(*from)]);
            for (batch, truth) in training.peaks.iter().filter(|to| to.0 != from.0) {
                score.take(&training.name, forecast(&model, *batch), *truth);
            }
        }
    }
    let (median, worst) = (score.quantile(0.5), score.quantile(0.95));
    assert!(median <= 0.02, "median {median}");
    assert!(worst <= 0.08, "95th percentile {worst}");
    assert!(score.held() >= 0.95, "{} of intervals hold", score.held());
}

#[test]
fn from_two_runs_the_others_are_foretold() {
    let mut score = Score::default();
    for training in measured().training {
        for a in &training.peaks {
            for b in training.peaks.iter().filter(|b| b.0 > a.0) {
                let model = Model::new(vec![training.seen(*a), training.seen(*b)]);
                let others = |to: &&(u64, f64)| to.0 != a.0 && to.0 != b.0;
                for (batch, truth) in training.peaks.iter().filter(others) {
                    score.take(&training.name, forecast(&model, *batch), *truth);
                }
            }
        }
    }
    let (median, worst) = (score.quantile(0.5), score.quantile(0.95));
    assert!(median <= 0.01, "median {median}");
    assert!(worst <= 0.03, "95th percentile {worst}");
    assert!(score.held() >= 0.95, "{} of intervals hold", score.held());
}

#[test]
fn a_small_batch_is_ruled_by_the_optimizer() {
    // gpt2 with checkpointing at batch 2: by the line its passes reach 2.09 GiB, its optimizer
    // 2.39 (the floor and one more set of parameters). The first step, without state, shows it.
    let training = training("gpt2 with checkpointing");
    let mut seen = training.seen((2, 2.39));
    seen.passes = ForwardBackwardPeak::Within(gib(2.09), gib(2.39));
    seen.optimizer = Estimate::exact(gib(2.39));
    let model = Model::new(vec![seen]);
    let large = forecast(&model, 32);
    assert!(large.holds(gib(11.34)), "{}", large.shown());
    assert!(
        (large.likely.as_gib() / 11.34 - 1.0).abs() < 0.05,
        "{}",
        large.shown()
    );
    assert_eq!(forecast(&model, 1).likely, gib(2.39));
}

#[test]
fn what_a_run_really_needs_lies_within() {
    // Allocated peak, reserved peak without a cap and the smallest cap, as shares of the peak.
    for need in measured().need {
        let (name, peak) = (need.name, need.peak);
        let training = Training {
            name: name.clone(),
            parameters: 0.1,
            floor: 0.4,
            varies: false,
            peaks: Vec::new(),
        };
        let mut seen = training.seen((8, peak));
        seen.overhead = Some(need.reserved);
        let model = Model::new(vec![seen.clone()]);
        let needs = |model: &Model, allocator| match model.needs(&Target {
            allocator,
            ..target(8)
        }) {
            Forecast::Within(needs) => needs,
            other => panic!("{other:?}"),
        };
        let (by_fixed, by_expandable) = (
            needs(&model, Allocator::Fixed),
            needs(&model, Allocator::Expandable),
        );
        assert!(
            by_fixed.holds(gib(peak * need.fixed)),
            "{name}: {}",
            by_fixed.shown()
        );
        assert!(
            by_expandable.holds(gib(peak * need.expandable)),
            "{name}: {}",
            by_expandable.shown()
        );
        // Without a figure of its own reservations it may be as much as any.
        seen.overhead = None;
        assert!(needs(&Model::new(vec![seen]), Allocator::Fixed).holds(gib(peak * need.fixed)));
    }
}

#[test]
fn a_run_that_failed_is_a_bound() {
    let training = training("gpt2 fp32");
    let mut failed = training.seen((64, 40.0));
    failed.passes = ForwardBackwardPeak::AtLeast(gib(40.0), Unseen::NoStep);
    let alone = Model::new(vec![failed.clone()]);
    let Forecast::AtLeast(least, Unseen::NoStep) = alone.peak(&target(32)) else {
        panic!("{:?}", alone.peak(&target(32)));
    };
    assert!(least < gib(27.94) && least > gib(20.0), "{least}");
    assert_eq!(Model::default().peak(&target(8)), Forecast::Unknown);
    // Together with a whole run it counts where the line says less than it wanted.
    let mut higher = failed;
    higher.passes = ForwardBackwardPeak::AtLeast(gib(60.0), Unseen::NoStep);
    let both = Model::new(vec![training.seen((16, 14.69)), higher]);
    assert!(forecast(&both, 64).likely >= gib(60.0));
}

#[test]
fn accumulation_keeps_the_gradients() {
    let training = training("gpt2 fp32");
    let model = Model::new(vec![training.seen((16, 14.69))]);
    let kept = Target {
        keeps_gradients: true,
        ..target(8)
    };
    let (Forecast::Within(with), Forecast::Within(without)) =
        (model.peak(&kept), model.peak(&target(8)))
    else {
        panic!("known");
    };
    assert_eq!(with.likely, without.likely + gib(training.parameters));
}

#[test]
fn the_largest_batch_is_just_below_the_room() {
    let training = training("gpt2 fp32");
    let model = Model::new(vec![training.seen((16, 14.69)), training.seen((32, 27.94))]);
    // 141 GiB: the line says 168, upper end, 4 % and 2 % more.
    let largest = model
        .largest(&target(1), gib(141.0), MARGIN, u64::MAX)
        .unwrap();
    assert!((148..=168).contains(&largest), "{largest}");
    assert_eq!(model.largest(&target(1), gib(1.0), MARGIN, u64::MAX), None);
    assert_eq!(model.largest(&target(1), gib(141.0), MARGIN, 64), Some(64));
}
