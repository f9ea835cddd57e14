//! Forecasts compared with the outcome: for generated sessions with a known end, the range
//! predicted at several moments must contain the step that fails.

use crate::diagnosis::*;
use crate::event::EventKind;
use crate::state::State;
use crate::state::tests::staged::*;
use crate::units::Bytes;

/// Pseudorandom numbers, the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    /// Between 0 and 1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.roll()
    }
}

/// How a generated training leaks.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// The same amount in each step.
    Even,
    /// In each step, in proportion to the length of its batch.
    ByLength,
    /// Every few steps.
    InBursts(u64),
}

/// A training that leaks, step by step, until an allocation does not fit.
struct Training {
    dice: Dice,
    manner: Manner,
    stays: f64,
    leaked: f64,
    per_step: f64,
    on_top: f64,
    /// How much the lengths of batches vary, as a share.
    varies: f64,
    /// The allocator's overhead, as a share.
    waste: f64,
    /// Memory outside of PyTorch.
    outside: f64,
    peak: f64,
}

const CARD: f64 = 23.6;

impl Training {
    fn generated(seed: u64) -> Training {
        let mut dice = Dice(seed);
        let manner = match seed % 3 {
            0 => Manner::Even,
            1 => Manner::ByLength,
            _ => Manner::InBursts(2 + seed % 5),
        };
        let varies = match seed % 4 {
            0 => 0.0,
            _ => dice.between(0.0, 0.5),
        };
        // Each tensor that is kept may leave a piece of its block behind that nothing fits into.
        let waste = match seed % 5 {
            4 => dice.between(0.08, 0.30),
            _ => dice.between(0.003, 0.05),
        };
        Training {
            manner,
            stays: dice.between(1.0, 4.0),
            leaked: 0.0,
            // From 0.1 % of the GPU on.
            per_step: CARD * 10_f64.powf(dice.between(-3.0, -1.6)),
            on_top: dice.between(2.0, 9.0),
            varies,
            waste: 1.0 + waste,
            outside: dice.between(0.3, 1.2),
            peak: 0.0,
            dice,
        }
    }

    /// Baseline and peak after the next step, in GiB; `None` if it runs out of memory.
    fn step(&mut self, n: u64) -> Option<(f64, f64)> {
        let length = 1.0 - self.varies * self.dice.roll();
        let top = self.stays + self.leaked + self.on_top * length;
        if top * self.waste > CARD - self.outside {
            return None;
        }
        self.leaked += match self.manner {
            Manner::Even => self.per_step,
            Manner::ByLength => self.per_step * length,
            Manner::InBursts(every) if n.is_multiple_of(every) => self.per_step * every as f64,
            Manner::InBursts(_) => 0.0,
        };
        self.peak = self.peak.max(top);
        // A loop keeps a little of the last batch.
        let held = 0.01 * self.dice.roll();
        Some((self.stays + self.leaked + held, self.peak))
    }

    fn reserved(&self) -> f64 {
        (self.peak * (self.waste + 0.01)).min(CARD - self.outside)
    }
}

/// The forecasts of a training, each with the step at which it was made, and the step that failed.
fn forecasts(seed: u64) -> (Vec<LeakForecast>, u64) {
    let mut training = Training::generated(seed);
    let mut scene = StagedSession::training();
    scene.sampled(1.5, 1.0, 1.5);
    let mut made = Vec::new();
    for n in 1..5_000 {
        let Some((baseline, peak)) = training.step(n) else {
            return (made, n);
        };
        let at = 2.0 + n as f64;
        scene.add(at, step(100, n, gib(baseline), gib(peak)));
        // Forecasts are made after thirty steps, and a few times later.
        if n >= 30 && n.is_power_of_two() || n == 30 || n % 97 == 0 {
            let reserved = gib(training.reserved());
            let used = reserved + gib(training.outside);
            let mut held = sample(100, 0, gib(baseline), reserved);
            held.allocated_peak = gib(peak);
            scene.add(at + 0.1, EventKind::Sample(held));
            let mut card = reading(&[(100, used)]);
            card.total = Some(gib(CARD));
            card.driver_reserved = Some(Bytes::ZERO);
            card.free = Some(gib(CARD) - used);
            scene.add(at + 0.2, EventKind::Device(card));
            made.extend(leak_forecast(&scene.state, &FittedGrowth::default()));
        }
    }
    (made, 5_000)
}

#[test]
fn the_true_step_is_in_the_range() {
    let (mut right, mut all, mut silent) = (0, 0, 0);
    let mut widths = Vec::new();
    let mut trainings = 0;
    for seed in 0..240 {
        let (made, failed) = forecasts(seed);
        trainings += 1;
        silent += u32::from(made.is_empty());
        for forecast in made {
            let left = failed - forecast.step;
            all += 1;
            right += u32::from((forecast.soonest..=forecast.latest).contains(&left));
            widths.push((forecast.latest - forecast.soonest) as f64 / left.max(1) as f64);
        }
    }
    widths.sort_by(f64::total_cmp);
    let share = f64::from(right) / f64::from(all);
    let width = widths[widths.len() / 2];
    println!(
        "{right} of {all} forecasts have the true step in their range ({:.1} %); half of the ranges \
         are narrower than {:.0} % of the steps that were left; no forecast in {silent} of {trainings} trainings",
        share * 100.0,
        width * 100.0
    );
    assert!(all > 300, "only {all} forecasts were made");
    assert!(share >= 0.9, "{share}");
    assert!(width <= 0.6, "the ranges say little: {width}");
    assert!(silent * 4 < trainings, "{silent} without any");
}

/// Steady is said once the later half of the steps stayed at one level.
#[test]
fn a_baseline_that_stays_is_steady() {
    let after = |steps: u64, level: fn(u64) -> f64| {
        let mut scene = StagedSession::training();
        scene.sampled(1.5, 1.0, 1.5);
        for n in 1..=steps {
            let baseline = gib(level(n));
            scene.add(2.0 + n as f64, step(100, n, baseline, baseline + gib(2.0)));
        }
        let rank = &scene.state.runs[0].ranks[0];
        steady_baseline(&rank.steps, scene.state.devices[0].capacity)
    };
    assert_eq!(after(60, |_| 3.0), Some(gib(3.0)));
    assert_eq!(after(30, |_| 3.0), None, "too few");
    assert_eq!(after(60, |n| 3.0 + 0.02 * n as f64), None, "it grows");
    let mut sparse = StagedSession::training();
    for n in 1..=12_u32 {
        let read = step(100, u64::from(n) * 8, gib(3.0), gib(5.0));
        sparse.add(2.0 + f64::from(n), read);
    }
    let rank = &sparse.state.runs[0].ranks[0];
    let level = steady_baseline(&rank.steps, Some(gib(24.0)));
    assert_eq!(level, Some(gib(3.0)), "few of the steps are read");
    let filled = |n: u64| 3.0 + 0.02 * n.min(60) as f64;
    assert_eq!(after(70, filled), None, "it grew a moment ago");
    assert_eq!(after(90, filled), Some(gib(4.2)), "it does not any more");
    let differs = |n: u64| 3.0 + 0.1 * n.min(60) as f64 + 0.03 * (n % 7) as f64;
    assert!(
        after(100, differs).is_some(),
        "a full buffer is not quite even"
    );
    assert_eq!(after(100, |n| 3.0 + 0.002 * n as f64), None, "it creeps");
    assert_eq!(after(200, filled), Some(gib(4.2)));
}

/// A buffer that fills, and stays so.
#[test]
fn growth_that_ends_is_withdrawn_and_one_that_goes_on_becomes_a_leak() {
    let told = |grows_until: u64, a_step: f64| {
        let mut scene = StagedSession::training();
        scene.sampled(1.5, 1.0, 1.5);
        let mut watch = LiveWarnings::default();
        let mut found = Vec::new();
        for n in 1..=260 {
            let baseline = gib(3.0 + a_step * n.min(grows_until) as f64);
            let at = 2.0 + n as f64;
            scene.add(at, step(100, n, baseline, baseline + gib(2.0)));
            let mut held = sample(100, 0, baseline, baseline + gib(2.2));
            held.allocated_peak = baseline + gib(2.0);
            scene.add(at + 0.1, EventKind::Sample(held));
            let used = baseline + gib(2.7);
            scene.add(at + 0.2, EventKind::Device(reading(&[(100, used)])));
            let looked = watch.look(&scene.state).into_iter();
            found.extend(looked.filter_map(|of| match of {
                LiveWarning::New(finding) => Some(finding.headline.to_string()),
                LiveWarning::Withdrawn(over) => Some(over.headline.to_string()),
                LiveWarning::FullSoon => None,
            }));
        }
        found
    };
    let filled = told(60, 0.02);
    assert!(
        filled[0].starts_with("Memory grows: +20 MiB per step"),
        "{filled:#?}"
    );
    let last = filled.last().unwrap();
    assert!(
        last.starts_with("Memory is steady again: 4.20 GiB after each step"),
        "{filled:#?}"
    );
    assert!(
        !filled.iter().any(|words| words.contains("leak")),
        "{filled:#?}"
    );
    // One that takes 9 GiB, and its time.
    let filled = told(150, 0.06);
    let last = filled.last().unwrap();
    assert!(
        last.starts_with("Memory is steady again: 12.0"),
        "{filled:#?}"
    );
    assert!(
        !filled.iter().any(|words| words.contains("leak")),
        "{filled:#?}"
    );
    let leaks = told(260, 0.06);
    assert!(leaks[0].starts_with("Memory grows"), "{leaks:#?}");
    assert!(
        leaks
            .last()
            .unwrap()
            .starts_with("Memory leak: +61 MiB per step; out of memory in about"),
        "{leaks:#?}"
    );
}

#[test]
fn a_forecast_is_said_in_words_once() {
    let mut scene = StagedSession::training();
    scene.sampled(1.5, 1.0, 1.5);
    let mut watch = LiveWarnings::default();
    let mut found = Vec::new();
    let train = |scene: &mut StagedSession, n: u32| {
        let baseline = gib(3.0 + 0.12 * f64::from(n));
        let at = 2.0 + f64::from(n);
        scene.add(at, step(100, n.into(), baseline, baseline + gib(8.0)));
        let mut held = sample(100, 0, baseline, baseline + gib(8.2));
        held.allocated_peak = baseline + gib(8.0);
        scene.add(at + 0.1, EventKind::Sample(held));
        let used = baseline + gib(8.7);
        scene.add(at + 0.2, EventKind::Device(reading(&[(100, used)])));
    };
    for n in 1..=60 {
        train(&mut scene, n);
        found.extend(watch.look(&scene.state));
    }
    let coming = leak_forecast(&scene.state, &FittedGrowth::default()).expect("a forecast");
    assert!(coming.soonest <= coming.in_steps && coming.in_steps <= coming.latest);
    // 23.60 GiB, 0.5 of it outside of PyTorch, 8.0 on top of the baseline: the baseline may reach
    // 15.1 GiB, which step 101 would exceed.
    assert!((37..=42).contains(&coming.in_steps), "{coming:?}");
    // It is not certain yet, but the rest of the GPU is less than what has grown.
    let [LiveWarning::New(grows), LiveWarning::FullSoon] = &found[..] else {
        panic!("one finding: {found:#?}");
    };
    assert_eq!(
        grows.headline.to_string(),
        "Memory grows: +123 MiB per step.",
        "not certain yet: no step is told"
    );
    let mut well = (watch.clone(), scene.state.clone());
    for n in 61..=96 {
        train(&mut scene, n);
        found.extend(watch.look(&scene.state));
    }
    let [_, _, LiveWarning::New(last)] = &found[..] else {
        panic!("one more: {found:#?}");
    };
    let last = &last.headline;
    assert!(
        last.starts_with("Memory leak: +123 MiB per step; out of memory in about"),
        "{last}"
    );
    let words = coming.words();
    let range = format!("({}–{})", coming.soonest, coming.latest);
    assert!(words.ends_with(&range), "{words}");
    scene.add(110.0, exited(1, crate::event::Exit::Code(1)));
    assert_eq!(
        leak_forecast(&scene.state, &FittedGrowth::default()),
        None,
        "it has ended"
    );
    assert_eq!(watch.ended(&scene.state), None, "and failed");
    // Where it ends well before that, the warning is withdrawn, once.
    let (watch, state) = &mut well;
    assert_eq!(watch.ended(state), None, "it still runs");
    state.apply(&crate::event::Event {
        at: crate::units::Moment::from_secs_f64(70.0),
        what: exited(1, crate::event::Exit::Code(0)),
    });
    let words = "The run ended well although its memory grew: 10.2 GiB after the last step.";
    assert_eq!(watch.ended(state).as_deref(), Some(words));
    assert_eq!(watch.ended(state), None);
    assert_eq!(warnings(&scene.state, &FittedGrowth::default()), []);
    assert_eq!(
        leak_forecast(&State::default(), &FittedGrowth::default()),
        None
    );
}
