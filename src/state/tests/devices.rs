//! Devices: joined, summed, lost.

use crate::event::*;
use crate::state::tests::staged::*;
use crate::state::*;
use crate::units::Pid;

#[test]
fn devices_of_nvml_and_probe_are_joined_by_uuid() {
    let mut scene = StagedSession::default();
    let mut first = reading(&[]);
    first.index = 3;
    scene
        .add(0.0, started(1, 100, "python train.py"))
        .add(0.1, EventKind::Device(first))
        .add(1.0, hello(1, 100, None))
        .sampled(1.1, 2.0, 3.0);
    let devices = &scene.state.devices;
    assert_eq!(
        devices.len(),
        2,
        "aaaa-0 of both, aaaa-1 of the probe alone"
    );
    assert_eq!((devices[0].index, devices[1].index), (3, 1));
    assert_eq!(devices[0].capacity, Some(CAPACITY));
    assert_eq!(devices[1].capacity, Some(CAPACITY));
    assert_eq!(devices[0].allocated.current(), Some(gib(2.0)));
    assert_eq!(scene.state.probe(), ProbeState::Live(1));
}

#[test]
fn a_torch_that_says_no_uuid_is_joined_by_name_where_that_is_certain() {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 100, "python train.py"));
    scene.add(0.1, EventKind::Device(reading(&[])));
    let EventKind::Hello(mut old) = hello(1, 100, None) else {
        unreachable!()
    };
    old.devices.truncate(1);
    old.devices[0].uuid = None;
    scene.add(1.0, EventKind::Hello(old)).sampled(1.1, 2.0, 3.0);
    assert_eq!(scene.state.devices.len(), 1);
    assert_eq!(scene.state.devices[0].reserved.current(), Some(gib(3.0)));
}

#[test]
fn a_device_holds_what_its_live_ranks_hold() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)))
        .add(2.0, EventKind::Sample(sample(100, 0, gib(2.0), gib(3.0))))
        .add(2.0, EventKind::Sample(sample(101, 0, gib(4.0), gib(5.0))))
        .add(2.1, EventKind::Sample(sample(101, 1, gib(0.5), gib(0.6))));
    let device = |scene: &StagedSession, n: usize| {
        let device = &scene.state.devices[n];
        (device.allocated.current(), device.reserved.current())
    };
    assert_eq!(device(&scene, 0), (Some(gib(6.0)), Some(gib(8.0))));
    assert_eq!(device(&scene, 1), (Some(gib(0.5)), Some(gib(0.6))));
    assert_eq!(
        scene
            .state
            .run()
            .unwrap()
            .rank_with(Pid(101))
            .unwrap()
            .device,
        Some(uuid(0)),
        "where it reserved most"
    );
    let gone = |pid| {
        EventKind::ProbeGone(ProbeGone {
            pid: Pid(pid),
            reason: None,
            said_end: false,
        })
    };
    scene.add(3.0, gone(101));
    assert_eq!(device(&scene, 0), (Some(gib(2.0)), Some(gib(3.0))));
    assert_eq!(device(&scene, 1), (None, None), "a gap, not zero");
    scene.add(4.0, gone(100));
    assert_eq!(device(&scene, 0), (None, None));
    assert_eq!(
        scene.state.probe(),
        ProbeState::Live(2),
        "its process may be ending"
    );
    scene.add(7.5, EventKind::Unknown);
    assert_eq!(scene.state.probe(), ProbeState::Lost);
    // It comes back: the front had been away.
    scene.add(8.0, hello(1, 100, Some(0)));
    scene.add(8.1, EventKind::Sample(sample(100, 0, gib(2.0), gib(3.0))));
    assert_eq!(device(&scene, 0), (Some(gib(2.0)), Some(gib(3.0))));
    assert_eq!(scene.state.run().unwrap().ranks.len(), 2);
}

#[test]
fn a_lost_device_and_a_silent_nvml_are_gaps() {
    let mut scene = StagedSession::training();
    scene.add(1.0, EventKind::Device(reading(&[(100, gib(3.0))])));
    scene.sampled(1.1, 2.0, 2.5);
    scene.add(2.0, EventKind::Nvml(NvmlState::Stale));
    assert_eq!(scene.state.devices[0].used.current(), None);
    assert_eq!(scene.state.devices[0].breakdown(&scene.state).free, None);
    assert_eq!(
        scene.state.devices[0].allocated.current(),
        Some(gib(2.0)),
        "the probe goes on"
    );
    let live = NvmlState::Live {
        driver: "580.1".into(),
        devices: 1,
    };
    scene.add(3.0, EventKind::Nvml(live));
    scene.add(3.0, EventKind::Device(reading(&[(100, gib(3.0))])));
    assert_eq!(scene.state.devices[0].used.current(), Some(gib(3.0)));
    let mut lost = reading(&[]);
    (lost.lost, lost.used, lost.total) = (Some("GPU is lost".into()), None, None);
    lost.name = String::new();
    scene.add(4.0, EventKind::Device(lost));
    let device = &scene.state.devices[0];
    assert_eq!(device.used.current(), None);
    assert_eq!(device.allocated.current(), None);
    assert_eq!(
        (device.name.as_str(), device.capacity),
        ("card", Some(CAPACITY))
    );
    assert_eq!(device.breakdown(&scene.state).free, None);
}
