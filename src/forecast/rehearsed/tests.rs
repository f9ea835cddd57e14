//! Rehearsals put together to trainings, and what those need.

mod buckets;
mod treated;
mod workspaces;

use super::bounds::{AUTOTUNED_SHARE, AUTOTUNED_TIMES};
use super::*;
use crate::event::{InputSizes, OptimizerMemory, ZeroGrad};
use crate::forecast::{ActivationReduction, MARGIN, edge, rounded};

const MIB: u64 = 1 << 20;

/// A model of one weight of 64 MiB: forward keeps 8 MiB a sample, backward makes the gradient.
fn said() -> Rehearsal {
    let trace = |each: u64| Some(format!("x{each} {} -2", 64 * MIB));
    Rehearsal {
        batch: 16,
        before: Bytes((64 + 16) * MIB),
        arguments: Bytes(16 * MIB),
        weights: vec![64 * MIB],
        trained: vec![64 * MIB],
        optimizer: Some(OptimizerMemory {
            class: "AdamW".into(),
            states: Some(2),
            ..OptimizerMemory::default()
        }),
        own_loss: true,
        variants: vec![
            RehearsedVariant {
                trace: trace(8 * MIB),
                ..RehearsedVariant::default()
            },
            RehearsedVariant {
                checkpointing: true,
                trace: trace(2 * MIB),
                ..RehearsedVariant::default()
            },
        ],
        ..Rehearsal::default()
    }
}

fn target(batch: u64) -> Target {
    Target {
        batch,
        keeps_gradients: false,
        treatment: ActivationReduction::default(),
        allocator: Allocator::Expandable,
    }
}

#[test]
fn the_second_step_has_the_optimizers_state() {
    let step = Rehearsed::new(&said(), 16).unwrap();
    for batch in [1, 16, 100] {
        // The weight, two states, the arguments, what forward keeps and the gradient.
        let expected = Bytes((64 + 128 + batch + 8 * batch + 64) * MIB);
        assert_eq!(
            step.peak(&target(batch)).unwrap().low,
            expected,
            "batch {batch}"
        );
    }
}

/// `logits, loss = model(…)` in a loop: the logits of a step are there until the next forward has returned.
#[test]
fn what_a_variable_holds_is_there_beside_the_next_forward() {
    let mut said = said();
    said.variants[0] = RehearsedVariant {
        trace: Some(format!("x{} x{MIB} {} -3", 8 * MIB, 64 * MIB)),
        forward: 2,
        held: vec![1],
        ..RehearsedVariant::default()
    };
    let step = Rehearsed::new(&said, 16).unwrap();
    let peak = |batch| step.peak(&target(batch)).unwrap().low;
    // The weight, two states, the arguments, what forward keeps, its logits and those of the step before.
    assert_eq!(peak(100), Bytes((64 + 128 + 100 + 800 + 100 + 100) * MIB));
    // The gradient is larger than those, and they are gone by then.
    assert_eq!(peak(16), Bytes((64 + 128 + 16 + 128 + 16 + 64) * MIB));
    let kept = Target {
        keeps_gradients: true,
        ..target(100)
    };
    // A second micro-batch adds to the gradient of the first, whose logits are still bound in its forward.
    assert_eq!(step.peak(&kept).unwrap().low, peak(100) + Bytes(64 * MIB));
    // The same where the program's own loops say so.
    said.adds_gradients = true;
    let by_loops = Rehearsed::new(&said, 16).unwrap();
    assert_eq!(by_loops.peak(&target(100)), step.peak(&kept));
}

/// The next batch of packed sequences has other lengths: those of a hundred differ by a tenth of what those of one do, and what
/// the cache holds of the batch before fits none of them.
#[test]
fn packed_sequences_of_the_next_batch_are_longer_and_leave_pieces() {
    let fixed = |batch| Target {
        allocator: Allocator::Fixed,
        ..target(batch)
    };
    let mut said = said();
    let needs = |said: &Rehearsal| {
        let step = Rehearsed::new(said, 16).unwrap();
        step.needs(&fixed(100)).unwrap()
    };
    let equal = needs(&said);
    said.lengths_spread = Some(0.0);
    let unknown = needs(&said);
    assert_eq!(unknown.likely, equal.likely);
    // Its largest tensor finds no place among the pieces.
    assert!(
        unknown.high >= equal.likely + Bytes(800 * MIB),
        "{unknown:?}"
    );
    said.lengths_spread = Some(3.0);
    let longer = needs(&said);
    let longer_by = Rehearsed::new(&said, 16).unwrap();
    // Two standard deviations of a hundred samples' mean.
    said.lengths_spread = None;
    let same = Rehearsed::new(&said, 16).unwrap();
    assert!(
        longer.high >= same.needs(&fixed(160)).unwrap().likely,
        "{longer:?}"
    );
    assert_eq!(same.fits(&fixed(100), equal.high, 0.0), Some(true));
    assert_eq!(longer_by.fits(&fixed(100), equal.high, 0.0), Some(false));
}

/// A GAN's discriminator is called behind the generator's backward: its outputs of the step before are there until then.
#[test]
fn what_a_variable_holds_ends_where_it_is_bound_again() {
    let step = |until: Vec<usize>| {
        let mut said = said();
        said.variants[0] = RehearsedVariant {
            trace: Some(format!("x{MIB} x{} -1 x{MIB} {}", 8 * MIB, 64 * MIB)),
            forward: 1,
            held: vec![0, 2],
            until,
            ..RehearsedVariant::default()
        };
        let step = Rehearsed::new(&said, 16).unwrap();
        step.peak(&target(100)).unwrap().low
    };
    // The weight, two states, the arguments, an output, what is kept, and one output more of the step before.
    let all = Bytes((64 + 128 + 100 + 100 + 800) * MIB);
    assert_eq!(step(vec![1, 4]), all + Bytes(100 * MIB));
    assert_eq!(step(vec![1, 1]), all);
}

/// A call without gradients: what it returned is there until the next one has returned, and no step follows.
#[test]
fn an_evaluation_has_no_gradients_and_no_states_to_come() {
    let said = Rehearsal {
        evaluates: true,
        variants: vec![RehearsedVariant {
            trace: Some(format!("x{} x{MIB} -2", 8 * MIB)),
            forward: 3,
            held: vec![1],
            ..RehearsedVariant::default()
        }],
        ..said()
    };
    let step = Rehearsed::new(&said, 16).unwrap();
    assert_eq!(step.samples_of_evaluation(), Some(16));
    for batch in [1, 16, 100] {
        let expected = Bytes((64 + batch + 8 * batch + 2 * batch) * MIB);
        assert_eq!(step.peak(&target(batch)).unwrap().low, expected);
    }
}

#[test]
fn where_cudnn_tries_its_algorithms_the_peak_comes_near_to_the_room() {
    let said = Rehearsal {
        convolutions: true,
        autotunes: true,
        ..said()
    };
    let step = Rehearsed::new(&said, 16).unwrap();
    let needed = step.peak(&target(16)).unwrap().likely;
    let in_room = |room: Bytes| step.peak_in(&target(16), Some(room)).unwrap().likely;
    assert_eq!(
        in_room(needed.scale(1.2)),
        needed.scale(1.2).scale(AUTOTUNED_SHARE)
    );
    assert_eq!(in_room(needed.scale(4.0)), needed.scale(AUTOTUNED_TIMES));
    assert_eq!(in_room(needed), needed);
}

#[test]
fn a_step_through_the_parameters_one_by_one_makes_no_temporaries_of_all_of_them() {
    let mut said = said();
    (said.weights, said.trained) = (vec![16 * MIB; 4], vec![16 * MIB; 4]);
    said.variants[0].trace = Some(format!("x{MIB} {0} {0} {0} {0} -5", 16 * MIB));
    if let Some(optimizer) = &mut said.optimizer {
        optimizer.foreach = true;
    }
    let step = Rehearsed::new(&said, 16).unwrap();
    let peak = |one_by_one| {
        let treatment = ActivationReduction {
            one_by_one,
            ..ActivationReduction::default()
        };
        let one = Target {
            treatment,
            ..target(1)
        };
        step.peak(&one).unwrap().low
    };
    // Weights, two states and gradients, and temporaries of all four or three of one.
    assert_eq!(peak(false), Bytes((4 * 64 + 64) * MIB));
    assert_eq!(peak(true), Bytes((4 * 64 + 3 * 16) * MIB));
}

#[test]
fn what_was_made_of_the_batch_before_the_steps_shrinks_with_it() {
    let peaks = |of_batch| {
        let mut said = said();
        said.before += Bytes(64 * MIB);
        said.before_of_batch = of_batch;
        let step = Rehearsed::new(&said, 16).unwrap();
        [16, 4].map(|batch| step.peak(&target(batch)).unwrap().low)
    };
    let (fixed, grows) = (peaks(None), peaks(Some(Bytes(48 * MIB))));
    assert_eq!(fixed[0], grows[0]);
    assert_eq!(fixed[1] - grows[1], Bytes(36 * MIB));
}

#[test]
fn gradients_that_are_kept_and_other_treatments() {
    let step = Rehearsed::new(&said(), 16).unwrap();
    let plain = step.peak(&target(16)).unwrap();
    let kept = Target {
        keeps_gradients: true,
        ..target(16)
    };
    // The second micro-batch finds the gradient of the first, and makes its own beside it.
    assert_eq!(step.peak(&kept).unwrap().low, plain.low + Bytes(64 * MIB));
    let recomputed = |mixed| Target {
        treatment: ActivationReduction {
            mixed,
            recomputed: true,
            ..ActivationReduction::default()
        },
        ..target(16)
    };
    let less = step.peak(&recomputed(false)).unwrap();
    assert_eq!(less.low, plain.low - Bytes(6 * 16 * MIB));
    assert!(
        step.peak(&recomputed(true)).is_none(),
        "it was not rehearsed"
    );
}

#[test]
fn what_goes_to_ram_grows_with_the_batch() {
    let mut said = said();
    said.variants.push(RehearsedVariant {
        offload: true,
        trace: Some(format!("x{MIB} {} -2", 64 * MIB)),
        ram: Some(SavedInRam {
            takes: Bytes(128 * MIB),
            out: Bytes(112 * MIB),
            back: Bytes(160 * MIB),
        }),
        ..RehearsedVariant::default()
    });
    let step = Rehearsed::new(&said, 16).unwrap();
    let offloaded = |batch| Target {
        treatment: ActivationReduction {
            offloaded: true,
            ..ActivationReduction::default()
        },
        ..target(batch)
    };
    let plain = step.peak(&target(16)).unwrap();
    let less = step.peak(&offloaded(16)).unwrap();
    assert_eq!(less.low, plain.low - Bytes(7 * 16 * MIB));
    let ram = step.saved_in_ram(&offloaded(32)).unwrap();
    assert_eq!((ram.takes, ram.back), (Bytes(256 * MIB), Bytes(320 * MIB)));
    assert_eq!(step.saved_in_ram(&target(16)), None);
}

#[test]
fn the_commands_batch_may_be_another_count() {
    // 4 in the command are 16 samples of the call: sequences of one text, or devices.
    let step = Rehearsed::new(&said(), 4).unwrap();
    let plain = Rehearsed::new(&said(), 16).unwrap();
    assert_eq!(step.peak(&target(2)), plain.peak(&target(8)));
}

#[test]
fn what_came_to_nothing_is_no_rehearsal() {
    let mut said = said();
    said.variants = vec![RehearsedVariant {
        why_not: Some("it took too long".into()),
        ..RehearsedVariant::default()
    }];
    assert!(Rehearsed::new(&said, 16).is_none());
    assert_eq!(said.why_not(), Some("it took too long"));
}

/// Twelve blocks, each with a larger temporary than the one before it, forward and backward.
fn in_pieces() -> Rehearsal {
    let forward = (1..=12).map(|n| format!("x{} x{} -1 ", 3 * MIB, 4 * n * MIB));
    let backward = (0..12).map(|_| format!("x{} {} -2 ", 5 * MIB, 8 * MIB));
    let trace: String = forward.chain(backward).collect();
    Rehearsal {
        variants: vec![RehearsedVariant {
            trace: Some(trace),
            ..RehearsedVariant::default()
        }],
        ..said()
    }
}

#[test]
fn a_need_is_what_it_runs_in_though_it_reserves_more_where_there_is_more() {
    let step = Rehearsed::new(&in_pieces(), 16).unwrap();
    let fixed = Target {
        allocator: Allocator::Fixed,
        ..target(48)
    };
    let needs = step.needs(&fixed).unwrap();
    let training = step.training(step.variant(&fixed).unwrap(), &fixed, Reading::Likely);
    let (trace, settings) = (&training.trace, step.settings(&fixed));
    assert!(runs_in(trace, &settings, needs.likely.0, None));
    assert!(!runs_in(trace, &settings, needs.likely.scale(0.99).0, None));
    assert_eq!(needs.low, needs.likely - step.workspaces.to_come(false));
    let reserved = training.free.reserved_peak;
    assert!(needs.likely.0 < reserved, "{needs:?} {reserved}");
}

#[test]
fn the_largest_batch_that_is_said_to_fit_is_near_the_largest_that_does() {
    for said in [said(), in_pieces()] {
        for allocator in [Allocator::Expandable, Allocator::Fixed] {
            let like = Target {
                allocator,
                ..target(1)
            };
            let step = Rehearsed::new(&said, 4096).unwrap().counted(16, 4096);
            for room in [Bytes::gib(16), Bytes::gib(24), Bytes::gib(80)] {
                let runs = |batch| {
                    let target = Target { batch, ..like };
                    let variant = step.variant(&target).unwrap();
                    let training = step.training(variant, &target, Reading::Likely);
                    runs_in(&training.trace, &step.settings(&target), room.0, None)
                };
                let fits = |batch| {
                    let target = Target { batch, ..like };
                    step.fits(&target, room, MARGIN).unwrap()
                };
                let (most, proposed) = (edge(4096, runs), rounded(edge(4096, fits)));
                let share = proposed as f64 / most as f64;
                assert!(
                    runs(proposed) && share >= 0.92,
                    "{proposed} of {most} in {room}"
                );
            }
        }
    }
}

#[test]
fn the_programs_own_settings_stay() {
    let step = Rehearsed::new(&said(), 16)
        .unwrap()
        .under("max_split_size_mb:128");
    assert_eq!(step.settings(&target(1)).max_split_size, 128 * MIB);
}

#[test]
fn a_step_that_has_its_optimizers_state_says_the_same_of_a_new_process() {
    let first = said();
    let mut later = said();
    later.before += Bytes(128 * MIB);
    later.optimizer.as_mut().unwrap().has_state = true;
    let [first, later] = [first, later].map(|said| Rehearsed::new(&said, 16).unwrap());
    for batch in [1, 16, 100] {
        let of = Target {
            allocator: Allocator::Fixed,
            ..target(batch)
        };
        assert_eq!(first.peak(&of), later.peak(&of), "batch {batch}");
        assert_eq!(first.needs(&of), later.needs(&of), "batch {batch}");
    }
    assert_eq!(first.whole_step(), later.whole_step());
}

#[test]
fn inputs_that_differ_leave_room_for_larger_ones() {
    let of = |calls, least, most| {
        let inputs = Some(InputSizes {
            calls,
            least,
            most,
            possible: None,
        });
        let said = Rehearsal { inputs, ..said() };
        Rehearsed::new(&said, 16).unwrap()
    };
    let alike = Rehearsed::new(&said(), 16).unwrap();
    for step in [of(1, 300, 300), of(5, 300, 300)] {
        assert_eq!(step.needs(&target(16)), alike.needs(&target(16)));
    }
    // 300 and 400 were seen: up to 500 may come, a quarter more than the largest.
    let two = of(2, 300, 400);
    let (seen, larger) = (
        alike.needs(&target(16)).unwrap(),
        alike.needs(&target(20)).unwrap(),
    );
    let needs = two.needs(&target(16)).unwrap();
    assert_eq!((needs.low, needs.likely), (seen.low, seen.likely));
    assert_eq!(needs.high, larger.high);
    assert_eq!(
        two.peak(&target(16)).unwrap().high,
        alike.peak(&target(20)).unwrap().high
    );
    // One alone, of a model that takes texts a quarter longer: the same; and never more than it takes.
    let sizes = |calls, least, possible| InputSizes {
        calls,
        least,
        most: 400,
        possible: Some(possible),
    };
    for (inputs, batch) in [
        (sizes(1, 400, 500), 20),
        (sizes(2, 200, 500), 20),
        (sizes(1, 400, 400), 16),
    ] {
        let said = Rehearsal {
            inputs: Some(inputs),
            ..said()
        };
        let needs = Rehearsed::new(&said, 16)
            .unwrap()
            .needs(&target(16))
            .unwrap();
        assert_eq!(
            needs.high,
            alike.needs(&target(batch)).unwrap().high,
            "{inputs:?}"
        );
    }
    // The more were seen, the less is left; and what fits follows.
    let many = of(31, 300, 400);
    assert!(many.needs(&target(16)).unwrap().high < needs.high);
    let room = (seen.high + larger.high).scale(0.5);
    assert_eq!(alike.fits(&target(16), room, 0.0), Some(true));
    assert_eq!(two.fits(&target(16), room, 0.0), Some(false));
}

#[test]
fn a_loss_over_all_pairs_grows_with_the_square() {
    let mut said = said();
    said.variants[0].trace = Some(format!("x{} xx{} -1 {} -3", 8 * MIB, MIB, 64 * MIB));
    let step = Rehearsed::new(&said, 16).unwrap();
    let peak = |batch| step.peak(&target(batch)).unwrap().low;
    let rest = |batch: u64| Bytes((64 + 128 + 9 * batch + batch * batch) * MIB);
    for batch in [16, 100] {
        assert_eq!(peak(batch), rest(batch), "batch {batch}");
    }
}

#[test]
fn what_checkpointing_computes_again() {
    let mut said = said();
    let recomputed = |mixed| Target {
        treatment: ActivationReduction {
            mixed,
            recomputed: true,
            ..ActivationReduction::default()
        },
        ..target(16)
    };
    let share = |said: &Rehearsal, target: &Target| {
        Rehearsed::new(said, 16).unwrap().computes_again(target)
    };
    assert_eq!(share(&said, &recomputed(false)), None, "not counted");
    said.variants[0].flops = 300;
    said.variants[1].flops = 400;
    let more = share(&said, &recomputed(false)).unwrap();
    assert!((more - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(share(&said, &target(16)), None, "nothing is recomputed");
    assert_eq!(share(&said, &recomputed(true)), None, "not rehearsed");
}

/// A batch that should have fit and ran out of memory shows that the rehearsal says too little of all of them.
#[test]
fn what_failed_although_it_should_have_fit_raises_every_need() {
    let step = Rehearsed::new(&said(), 16).unwrap();
    let of = |step: &Rehearsed, batch| step.needs(&target(batch)).unwrap();
    let had = of(&step, 16).likely.scale(1.25);
    let raised = step.clone().that_failed([(target(16), had)].into_iter());
    let raised = raised.unwrap();
    for batch in [4, 16, 64] {
        let share = of(&raised, batch).high.fraction_of(of(&step, batch).high);
        assert!(
            (1.1..=1.3).contains(&share.unwrap()),
            "{share:?} at {batch}"
        );
    }
    assert!(of(&raised, 16).likely >= had.scale(0.95));
    assert_eq!(raised.fits(&target(16), had, MARGIN), Some(false));
    // Far more than that is of something that was not rehearsed.
    let far_more = [(target(16), of(&step, 16).likely.scale(2.2))];
    assert!(step.clone().that_failed(far_more.into_iter()).is_none());
    // What was too much by the rehearsal as well says nothing of it.
    let expected = step.clone().that_failed([(target(64), had)].into_iter());
    let expected = expected.unwrap();
    assert_eq!(of(&expected, 16), of(&step, 16));
}

/// What is reserved is more than what is needed, and its interval says so; retries are told from a fit without.
#[test]
fn on_a_card_it_fits_or_fits_after_retries_and_reserves_within_an_interval() {
    let step = Rehearsed::new(&in_pieces(), 16).unwrap();
    let fixed = Target {
        allocator: Allocator::Fixed,
        ..target(48)
    };
    let needs = step.needs(&fixed).unwrap();
    let roomy = step.on_card(&fixed, needs.likely.scale(4.0)).unwrap();
    assert!(!roomy.retries);
    assert!(roomy.reserved.likely > needs.likely, "{roomy:?} {needs:?}");
    assert!(roomy.reserved.high > needs.high && roomy.reserved.holds(needs.likely));
    let tight = step.on_card(&fixed, needs.likely).unwrap();
    assert!(tight.retries, "{tight:?}");
    assert!(tight.reserved.high <= needs.likely);
    assert_eq!(step.on_card(&fixed, needs.low.scale(0.9)), None);
}

/// Forward keeps 8 MiB a sample and makes 1 MiB of output, then the loss; backward makes the gradient.
fn with_outputs(change: impl FnOnce(&mut Rehearsal)) -> Rehearsed {
    let mut said = said();
    said.variants = vec![RehearsedVariant {
        trace: Some(format!("x{} x{MIB} 512 -3 {} -3 -2", 8 * MIB, 64 * MIB)),
        forward: 2,
        loss: 3,
        ..RehearsedVariant::default()
    }];
    change(&mut said);
    Rehearsed::new(&said, 16).unwrap()
}

#[test]
fn where_it_is_not_known_what_is_held_both_are_in_the_interval() {
    let ends = |step: &Rehearsed| {
        let peak = step.peak(&target(100)).unwrap();
        (peak.low, peak.high)
    };
    let held = |said: &mut Rehearsal, at: usize| {
        // As it is rehearsed where the lines tell: the output is not let go of.
        said.variants[0].trace = Some(format!("x{} x{MIB} 512 -3 {} -2", 8 * MIB, 64 * MIB));
        said.variants[0].held = vec![at];
    };
    let without = ends(&with_outputs(|_| {}));
    let with = ends(&with_outputs(|said| held(said, 1)));
    // At the end of the next forward, before its loss is made.
    assert_eq!(with.0, without.0 + Bytes(100 * MIB - 512));
    let both = ends(&with_outputs(|said| said.variants[0].may_hold = vec![1]));
    assert_eq!(both, (without.0, with.1));
    // What is said to fit, fits either way.
    let step = with_outputs(|said| said.variants[0].may_hold = vec![1]);
    let room = (without.1 + with.1).scale(0.5);
    assert_eq!(step.fits(&target(100), room, 0.0), Some(false));
    let needs = step.needs(&target(100)).unwrap();
    assert!(needs.low < without.1 && needs.high > room, "{needs:?}");
}

/// `outputs.append(out)`: it does not repeat, and after ten steps it is an interval.
#[test]
fn what_is_put_into_a_list_grows() {
    let step = with_outputs(|said| {
        said.variants[0].trace = Some(format!("x{} x{MIB} 512 -3 {} -2", 8 * MIB, 64 * MIB));
        said.variants[0].grows = vec![1];
    });
    let peak = step.peak(&target(100)).unwrap();
    let rest = Bytes((64 + 128 + 100 + 900) * MIB + 512);
    // Beside the outputs of two steps before, and of nine.
    assert_eq!(peak.low, rest + Bytes(200 * MIB));
    assert_eq!(
        peak.likely,
        rest + Bytes(900 * MIB) + step.workspaces.to_come(false)
    );
    let needs = step.needs(&target(100)).unwrap();
    assert!(
        needs.low < peak.likely && needs.high > peak.likely,
        "{needs:?}"
    );
}

#[test]
fn gradients_are_there_until_the_program_lets_go_of_them() {
    let of = |when| {
        let step = with_outputs(|said| said.zero_grad = when);
        let peak = step.peak(&target(100)).unwrap();
        (peak.low, peak.high)
    };
    let usual = of(None);
    assert_eq!(of(Some(ZeroGrad::Forward)), usual);
    // Between forward and backward, or set to zero: they lie beside what forward keeps.
    let between = of(Some(ZeroGrad::Backward));
    assert_eq!(between.0, usual.0 + Bytes(64 * MIB));
    // New ones are made beside those that are kept.
    assert_eq!(of(Some(ZeroGrad::Never)).0, between.0);
    assert_eq!(of(Some(ZeroGrad::Unknown)), (usual.0, between.1));
}

#[test]
fn a_copy_of_the_model_may_come() {
    let usual = with_outputs(|_| {}).peak(&target(100)).unwrap();
    let copied = with_outputs(|said| said.copies_model = true);
    let peak = copied.peak(&target(100)).unwrap();
    assert_eq!((peak.low, peak.likely), (usual.low, usual.likely));
    assert!(peak.high >= usual.high + Bytes(64 * MIB), "{peak:?}");
}

#[test]
fn a_smaller_batch_that_needs_more_is_not_known() {
    let mut said = said();
    said.variants[0].trace = Some(format!("{}+x-{} {} -2", 4000 * MIB, 8 * MIB, 64 * MIB));
    said.variants.truncate(1);
    assert!(Rehearsed::new(&said, 16).is_none());
}

/// Ten steps in which the blocks of one lie so among those of the next that a new segment is taken now and then.
#[test]
fn steps_are_played_until_what_is_reserved_repeats() {
    for said in [said(), in_pieces()] {
        for batch in [1, 16, 100] {
            let target = Target {
                allocator: Allocator::Fixed,
                ..target(batch)
            };
            let step = Rehearsed::new(&said, 16).unwrap();
            let variant = step.variant(&target).unwrap();
            let training = step.training(variant, &target, Reading::Likely);
            assert!(training.is_sure(&said, &variant.0), "batch {batch}");
            // It stays as it is when the same steps are played on.
            let settings = step.settings(&target);
            let again = replay(&training.trace, &settings, ReplayRoom::default());
            assert_eq!(again.reserved_peak, training.free.reserved_peak);
            assert_eq!(again.allocated_peak, training.free.allocated_peak);
        }
    }
}

/// Forward makes a tensor of 256 MiB and lets go of it, and so does backward.
fn with_a_large_one() -> Rehearsal {
    let large = format!("x{} -1 ", 16 * MIB);
    Rehearsal {
        variants: vec![RehearsedVariant {
            trace: Some(format!("x{MIB} {large}{large}{} -3", 64 * MIB)),
            forward: 3,
            loss: 3,
            ..RehearsedVariant::default()
        }],
        ..said()
    }
}

#[test]
fn an_evaluation_before_the_first_step_leaves_pieces() {
    let fixed = Target {
        allocator: Allocator::Fixed,
        ..target(100)
    };
    let evaluated = |before: u64| {
        let said = Rehearsal {
            before: Bytes((80 + before) * MIB),
            ..with_a_large_one()
        };
        let step = Rehearsed::new(&said, 16).unwrap();
        let needs = step.needs(&fixed).unwrap();
        let room = needs.likely.scale(1.1) + Bytes(64 * MIB);
        let segments = Target {
            allocator: Allocator::Expandable,
            ..fixed
        };
        let fits = |target| step.fits(target, room, MARGIN).unwrap();
        (needs, fits(&fixed), fits(&segments))
    };
    let (alone, fits, _) = evaluated(8);
    assert!(fits && alone.high < alone.likely + Bytes(1600 * MIB));
    // cuBLAS's workspace is there: the model was called before. Its largest tensor may find no free block as large.
    let (after, fits, segments) = evaluated(34);
    assert!(after.high >= after.likely + Bytes(1600 * MIB));
    assert!(!fits && segments);
}

#[test]
fn a_program_without_an_optimizer_has_no_state_most_likely() {
    let said = Rehearsal {
        optimizer: None,
        ..said()
    };
    let peak = Rehearsed::new(&said, 16)
        .unwrap()
        .peak(&target(16))
        .unwrap();
    let with = Rehearsed::new(&self::said(), 16).unwrap();
    let with = with.peak(&target(16)).unwrap();
    assert_eq!(peak.likely, with.likely - Bytes(128 * MIB));
    assert_eq!(peak.high, with.high);
}

#[test]
fn a_compiled_step_that_was_rehearsed_as_it_is_written_is_an_estimate_to_both_sides() {
    let of = |compiled| {
        let said = Rehearsal { compiled, ..said() };
        let rehearsed = Rehearsed::new(&said, 16).expect("a rehearsal");
        let peak = rehearsed.peak(&target(16)).expect("a peak");
        let needs = rehearsed.needs(&target(16)).expect("a need");
        (peak, needs)
    };
    let ((written, needed), (peak, needs)) = (of(false), of(true));
    assert_eq!(peak.likely, written.likely);
    assert!(peak.low <= written.low.scale(0.51) && peak.high > written.high.scale(1.05));
    assert!(needs.low <= needed.low.scale(0.51) && needs.high > needed.high.scale(1.05));
}
