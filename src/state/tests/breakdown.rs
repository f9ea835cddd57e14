//! What a device is made of, and whose it is.

use crate::event::*;
use crate::state::tests::staged::*;
use crate::state::*;
use crate::units::{Bytes, Pid};

#[test]
fn the_parts_add_up_to_the_capacity() {
    let mut scene = StagedSession::training();
    scene
        .sampled(2.0, 10.0, 12.0)
        .add(2.0, EventKind::Structure(made_of_one()))
        .add(
            2.1,
            EventKind::Device(reading(&[(100, gib(12.5)), (7, gib(3.0))])),
        );
    let made_of = |scene: &StagedSession| scene.state.devices[0].breakdown(&scene.state);
    let parts = made_of(&scene);
    assert_eq!(parts.parameters, Some(gib(1.0)));
    assert_eq!(parts.optimizer_state, Some(gib(2.0)));
    assert_eq!(parts.gradients, Some(gib(1.0)));
    assert_eq!(parts.activations_and_other, Some(gib(6.0)));
    assert_eq!(parts.cached, Some(gib(2.0)));
    assert_eq!(parts.non_pytorch, Some(gib(0.5)));
    assert_eq!(parts.other_processes, Some(gib(3.0)));
    assert_eq!(parts.free, Some(CAPACITY - gib(15.5)));
    // The allocator has moved on since NVML was read: the context does not shrink for it.
    scene.sampled(2.2, 13.0, 14.0);
    let parts = made_of(&scene);
    assert_eq!(parts.non_pytorch, Some(gib(0.5)));
    assert_eq!(sum(&parts), CAPACITY);
    // Gradients freed: less is allocated than the structure says.
    scene.sampled(2.3, 3.5, 14.0);
    let parts = made_of(&scene);
    assert_eq!(parts.gradients, Some(gib(0.5)));
    assert_eq!(parts.activations_and_other, Some(Bytes::ZERO));
    assert_eq!(sum(&parts), CAPACITY);
    let room = scene.state.devices[0].headroom(&scene.state).unwrap();
    assert_eq!((Some(room.bytes), room.is_upper_bound), (parts.free, false));
}

/// What FSDP has gathered is no shard and no activation.
#[test]
fn gathered_layers_stand_beside_the_shards() {
    let parts = |whole, gathered| {
        let mut scene = StagedSession::training();
        let reading = Sample {
            gathered,
            ..sample(100, 0, gib(10.0), gib(12.0))
        };
        let structure = Structure {
            whole,
            ..made_of_one()
        };
        scene
            .add(2.0, EventKind::Sample(reading))
            .add(2.0, EventKind::Structure(structure));
        scene.state.devices[0].breakdown(&scene.state)
    };
    let divided = parts(Some(gib(8.0)), Some(gib(2.5)));
    assert_eq!(
        (divided.parameters, divided.gathered),
        (Some(gib(1.0)), Some(gib(2.5)))
    );
    assert_eq!(divided.activations_and_other, Some(gib(3.5)));
    // Between two layers nothing is.
    assert_eq!(
        parts(Some(gib(8.0)), Some(Bytes::ZERO)).gathered,
        Some(Bytes::ZERO)
    );
    // A model that is whole has no such part.
    assert_eq!(parts(None, None).gathered, None);
    assert_eq!(parts(None, None).activations_and_other, Some(gib(6.0)));
}

#[test]
fn a_jump_between_the_two_clocks_is_no_memory_outside_pytorch() {
    let made_of = |scene: &StagedSession| scene.state.devices[0].breakdown(&scene.state);
    let mut scene = StagedSession::training();
    scene
        .add(1.0, EventKind::Structure(made_of_one()))
        .sampled(2.0, 4.0, 5.0)
        .add(2.1, EventKind::Device(reading(&[(100, gib(5.5))])))
        .sampled(2.2, 4.0, 5.0);
    // NVML sees the jump first, again and again, and the samples come behind.
    for (n, reserved) in [11.0, 17.0, 22.0].into_iter().enumerate() {
        let at = 2.3 + n as f64 / 5.0;
        scene.add(
            at,
            EventKind::Device(reading(&[(100, gib(reserved + 0.5))])),
        );
        let parts = made_of(&scene);
        assert_eq!(parts.non_pytorch, Some(gib(0.5)));
        assert_eq!(sum(&parts), CAPACITY);
        scene.sampled(at + 0.1, reserved - 1.0, reserved);
        let parts = made_of(&scene);
        assert_eq!(parts.non_pytorch, Some(gib(0.5)));
        assert_eq!(sum(&parts), CAPACITY);
    }
    // The sample sees it first: what NVML counts is less than what is reserved.
    scene
        .sampled(3.0, 23.0, 23.2)
        .add(3.05, EventKind::Device(reading(&[(100, gib(22.5))])));
    let parts = made_of(&scene);
    assert_eq!(parts.free, Some(Bytes::ZERO));
    assert_eq!(sum(&parts), CAPACITY);
}

#[test]
fn what_filled_the_card_when_memory_ran_out_is_exact() {
    let mut scene = StagedSession::training();
    scene
        .sampled(2.0, 4.0, 5.0)
        .add(
            2.1,
            EventKind::Device(reading(&[(100, gib(5.5)), (7, gib(3.0))])),
        )
        .add(
            3.0,
            EventKind::Oom(OomRecord {
                structure: Some(Box::new(made_of_one())),
                gradients: Some(made_of_one().gradients),
                ..record(100, gib(18.0), gib(19.0), gib(2.0), gib(0.4))
            }),
        );
    let device = &scene.state.devices[0];
    let parts = device
        .breakdown_at(scene.state.oom().unwrap(), None)
        .unwrap();
    assert_eq!(parts.activations_and_other, Some(gib(14.0)));
    assert_eq!(parts.cached, Some(gib(1.0)));
    assert_eq!(parts.other_processes, Some(gib(3.0)));
    assert_eq!(parts.free, Some(gib(0.4)));
    assert_eq!(sum(&parts), CAPACITY);
    let other = &scene.state.devices[1];
    assert_eq!(other.breakdown_at(scene.state.oom().unwrap(), None), None);
}

/// Parameters of 1 GiB, and what belongs to them.
fn made_of_one() -> Structure {
    Structure {
        pid: Pid(100),
        device: 0,
        parameters: gib(1.0),
        gradients: gib(1.0),
        optimizer_state: gib(2.0),
        whole: None,
    }
}

fn sum(parts: &Breakdown) -> Bytes {
    let parts = [
        parts.parameters,
        parts.gradients,
        parts.optimizer_state,
        parts.activations_and_other,
        parts.cached,
        parts.non_pytorch,
        parts.other_processes,
        parts.free,
    ];
    parts.iter().map(|part| part.expect("known")).sum()
}

#[test]
fn what_nobody_knows_is_not_made_up() {
    // Before anything is known.
    let mut scene = StagedSession::training();
    assert_eq!(
        scene.state.devices[0].breakdown(&scene.state),
        Breakdown::default()
    );
    // The probe alone: nothing outside PyTorch is known, so nothing is known to be free.
    scene.sampled(2.0, 4.0, 5.0);
    let parts = scene.state.devices[0].breakdown(&scene.state);
    assert_eq!(parts.activations_and_other, Some(gib(4.0)));
    assert_eq!((parts.parameters, parts.non_pytorch), (None, None));
    assert_eq!((parts.other_processes, parts.free), (None, None));
    let room = scene.state.devices[0].headroom(&scene.state).unwrap();
    assert_eq!(
        (room.bytes, room.is_upper_bound),
        (CAPACITY - gib(5.0), true)
    );
}

#[test]
fn processes_are_ours_or_others_or_not_to_be_told() {
    // NVML's list, whether its figures come with it; non-PyTorch and foreign of a rank (process
    // 100) that reserved 5 GiB.
    type PartsCase = (
        &'static str,
        &'static [(i32, f64)],
        Option<f64>,
        Option<f64>,
    );
    let rows: [PartsCase; 5] = [
        ("ours alone", &[(100, 5.5)], Some(0.5), Some(0.0)),
        (
            "ours and another",
            &[(100, 5.5), (7, 9.0)],
            Some(0.5),
            Some(9.0),
        ),
        (
            "the host's id in a container",
            &[(31_007, 5.5)],
            Some(0.5),
            Some(0.0),
        ),
        (
            "two of the host's ids",
            &[(31_007, 5.5), (31_008, 9.0)],
            None,
            None,
        ),
        ("one that cannot be ours", &[(31_007, 2.0)], None, None),
    ];
    for (what, processes, non_pytorch, foreign) in rows {
        let mut scene = StagedSession::training();
        let processes: Vec<_> = processes.iter().map(|(p, g)| (*p, gib(*g))).collect();
        scene.sampled(2.0, 4.0, 5.0);
        scene.add(2.1, EventKind::Device(reading(&processes)));
        let parts = scene.state.devices[0].breakdown(&scene.state);
        assert_eq!(parts.non_pytorch, non_pytorch.map(gib), "{what}");
        assert_eq!(parts.other_processes, foreign.map(gib), "{what}");
        assert!(parts.free.is_some(), "{what}: what is used is known");
    }
    let mut scene = StagedSession::training();
    let mut silent = reading(&[(100, gib(5.5))]);
    silent.processes = None;
    scene
        .sampled(2.0, 4.0, 5.0)
        .add(2.1, EventKind::Device(silent));
    let parts = scene.state.devices[0].breakdown(&scene.state);
    assert_eq!((parts.non_pytorch, parts.other_processes), (None, None));
    assert_eq!(parts.free, Some(CAPACITY - gib(5.5)));
}

#[test]
fn without_a_probe_only_who_was_there_before_is_surely_another() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, EventKind::Device(reading(&[(7, gib(3.0))])))
        .add(1.0, started(1, 100, "torchrun train.py"))
        .add(2.0, EventKind::Device(reading(&[(7, gib(3.0))])));
    let foreign = |scene: &StagedSession| {
        scene.state.devices[0]
            .breakdown(&scene.state)
            .other_processes
    };
    assert_eq!(foreign(&scene), Some(gib(3.0)));
    scene.add(
        3.0,
        EventKind::Device(reading(&[(7, gib(3.0)), (104, gib(2.0))])),
    );
    assert_eq!(foreign(&scene), None, "104 may be a rank of torchrun's");
    scene.add(4.0, exited(1, Exit::Code(0)));
    assert_eq!(foreign(&scene), Some(gib(5.0)), "the run is over");
}
