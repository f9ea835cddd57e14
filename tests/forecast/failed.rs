//! First steps that ran out of memory under a cap: held against the real peaks of the same trainings,
//! a batch is chosen that really fits.

use super::{Failed, gib, measured};
use oomph::event::{LineUsage, ModelBytes, OomRecord, Phase, Sample, SourceLine};
use oomph::forecast::*;
use oomph::recognize::WorkloadKey;
use oomph::state::OomIncident;
use oomph::units::{Moment, Pid};

impl Failed {
    fn record(&self) -> OomRecord {
        let (phase, progress) = match self.forward {
            Some(share) => (Phase::Forward, Some(share)),
            None => (Phase::Backward, None),
        };
        let built = LineUsage {
            line: line("/home/user/train.py", "train"),
            inside: Some(line("/usr/lib/torch/nn/modules/module.py", "convert")),
            bytes: gib(self.parameters),
            blocks: 149,
            kind: None,
        };
        OomRecord {
            zero: None,
            gradients: None,
            lines_known: None,
            lines_alike: None,
            limit_line: None,
            pid: Pid(7),
            device: 0,
            requested: gib(self.requested),
            total: gib(self.cap),
            free: gib(120.0),
            sample: Sample {
                allocated: gib(self.allocated),
                reserved: gib(self.reserved),
                allocated_peak: gib(self.peak),
                ..Sample::default()
            },
            limit: Some(gib(self.cap)),
            largest_free: None,
            free_blocks: Vec::new(),
            private_pools: Vec::new(),
            lines: vec![built],
            growing: Vec::new(),
            stack: Vec::new(),
            phase,
            grad_enabled: Some(true),
            progress,
            before: None,
            gathering: None,
            operands: None,
            loading: None,
            model: None,
            step: 0,
            structure: None,
            optimizer: None,
        }
    }

    fn model_of(&self, record: OomRecord) -> Model {
        let incident = OomIncident {
            at: Moment::ZERO,
            record: Some(record),
            report: None,
            pid: None,
            nvml_at_oom: None,
            host: None,
            rank: None,
            device: None,
            caught: false,
        };
        let reading = WorkloadKey {
            at_once: self.batch,
            accumulation: 1,
            batch: Some(self.batch),
            likeness: String::new(),
        };
        Model::new(
            Observation::new(None, Some(&incident), &reading)
                .into_iter()
                .collect(),
        )
    }

    fn largest(&self, model: &Model) -> Option<u64> {
        let most = self.batch / 2;
        let largest = model.largest(&target(1), gib(self.cap), MARGIN, most);
        largest.map(rounded)
    }

    fn peak(&self, batch: u64) -> f64 {
        self.truth.0 + self.truth.1 * batch as f64
    }
}

fn line(file: &str, function: &str) -> SourceLine {
    SourceLine {
        file: file.into(),
        line: 1,
        function: function.into(),
    }
}

fn target(batch: u64) -> Target {
    Target {
        batch,
        keeps_gradients: false,
        treatment: ActivationReduction::default(),
        allocator: Allocator::Fixed,
    }
}

fn extrapolated(model: &Model, batch: u64) -> Estimate {
    match model.peak(&target(batch)) {
        Forecast::Extrapolated(peak, _) => peak,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_first_step_would_have_needed_is_extrapolated() {
    for failed in measured().failed {
        let model = failed.model_of(failed.record());
        for batch in [failed.batch / 8, failed.batch / 2, failed.batch] {
            let (peak, truth) = (extrapolated(&model, batch), failed.peak(batch));
            assert!(
                peak.holds(gib(truth)),
                "{} at {batch}: {} for {truth}",
                failed.name,
                peak.shown()
            );
        }
        let error = extrapolated(&model, failed.batch).likely.as_gib() / failed.peak(failed.batch);
        assert!((0.8..1.25).contains(&error), "{}: {error}", failed.name);
    }
}

#[test]
fn the_batch_that_is_chosen_really_fits() {
    for failed in measured().failed {
        let model = failed.model_of(failed.record());
        let chosen = failed.largest(&model);
        assert_eq!(chosen, Some(failed.chosen), "{}", failed.name);
        // What trainings needed above their peaks without expandable segments, at the most.
        let needs = failed.peak(failed.chosen) * 1.29;
        assert!(needs <= failed.cap, "{}: {needs}", failed.name);
    }
}

#[test]
fn where_little_is_known_a_bound_stays() {
    let failed = &measured().failed[1];
    let bound = |change: fn(&mut OomRecord)| {
        let mut record = failed.record();
        change(&mut record);
        let model = failed.model_of(record);
        assert_eq!(failed.largest(&model), None);
        match model.peak(&target(failed.batch)) {
            Forecast::AtLeast(least, Unseen::NoStep) => least,
            other => panic!("{other:?}"),
        }
    };
    let wanted = gib(failed.allocated) + gib(failed.requested);
    assert_eq!(bound(|record| record.progress = None), wanted);
    assert_eq!(bound(|record| record.progress = Some(0.04)), wanted);
    assert_eq!(bound(|record| record.progress = Some(f64::NAN)), wanted);
    assert_eq!(bound(|record| record.phase = Phase::Load), wanted);
    assert_eq!(bound(|record| record.lines.clear()), wanted);
    let low = extrapolated(&failed.model_of(failed.record()), failed.batch).low;
    assert_eq!(low, wanted);
}

#[test]
fn what_is_frozen_has_no_state_to_come() {
    let failed = &measured().failed[0];
    let of = |trained: f64| {
        let mut record = failed.record();
        record.model = Some(Box::new(ModelBytes {
            parameters: gib(4.0),
            trained: gib(trained),
        }));
        extrapolated(&failed.model_of(record), 1)
    };
    let (frozen, trained) = (of(0.01), of(4.0));
    assert!(frozen.likely < gib(5.0), "{}", frozen.shown());
    // Parameters, gradients, two numbers each, and the step's temporaries.
    assert!(trained.high >= gib(20.0), "{}", trained.shown());
}

#[test]
fn gradients_that_stay_are_counted() {
    let failed = &measured().failed[0];
    let model = failed.model_of(failed.record());
    let kept = Target {
        keeps_gradients: true,
        ..target(16)
    };
    let Forecast::Extrapolated(with, _) = model.peak(&kept) else {
        panic!("{:?}", model.peak(&kept));
    };
    let without = extrapolated(&model, 16);
    assert_eq!(with.likely, without.likely + gib(failed.parameters));
    assert_eq!(with.high, without.high, "the upper end has them anyway");
}

#[test]
fn what_was_there_before_the_step_grows_with_no_batch() {
    for failed in measured().failed {
        let alone = failed.record();
        let (beside, parameters) = (gib(90.0), alone.lines[0].bytes);
        let sample = Sample {
            allocated: alone.sample.allocated + beside,
            allocated_peak: alone.sample.allocated_peak + beside,
            ..alone.sample.clone()
        };
        let other = OomRecord {
            before: Some(beside + parameters),
            sample,
            ..alone.clone()
        };
        for batch in [failed.batch / 8, failed.batch] {
            let of = |record: &OomRecord| extrapolated(&failed.model_of(record.clone()), batch);
            let (alone, other) = (of(&alone), of(&other));
            let off = (other.likely - beside).as_gib() - alone.likely.as_gib();
            assert!(off.abs() < 0.01, "{} at {batch}: {off}", failed.name);
        }
    }
}

/// What is combined with a smaller batch saves at the most what it is known to: the upper end of both is no middle of one of them.
#[test]
fn a_change_leaves_the_upper_end_what_the_change_is_known_to_save() {
    for failed in measured().failed {
        let model = failed.model_of(failed.record());
        let high = |recomputed: bool, batch: u64| {
            let treatment = ActivationReduction {
                recomputed,
                ..ActivationReduction::default()
            };
            let target = Target {
                treatment,
                ..target(batch)
            };
            match model.needs(&target) {
                Forecast::Extrapolated(needs, _) => needs.high,
                other => panic!("{other:?}"),
            }
        };
        for batch in [failed.batch / 2, failed.batch] {
            let (batch_alone, both) = (high(false, batch), high(true, batch));
            let known = batch_alone.scale(oomph::calibration::CHECKPOINTING_LEAVES.2);
            assert!(
                known <= both && both <= batch_alone,
                "{} at {batch}: {both} of {batch_alone}",
                failed.name
            );
        }
    }
}
