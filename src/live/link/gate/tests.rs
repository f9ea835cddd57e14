//! When the gate opens, waits and refuses, from readings that are made up.

use super::*;
use crate::event::DeviceProcess;

const GPU: &str = "aa-bb";

fn reading(used: Bytes, processes: &[(i32, Bytes)]) -> DeviceReading {
    DeviceReading {
        uuid: Uuid::new(GPU),
        index: 0,
        name: "card".into(),
        total: Some(Bytes::gib(24)),
        used: Some(used),
        free: Some(Bytes::gib(24) - used),
        driver_reserved: None,
        processes: Some(
            processes
                .iter()
                .map(|&(pid, used)| DeviceProcess {
                    pid: Pid(pid),
                    used: Some(used),
                    name: Some("python".into()),
                    user: None,
                })
                .collect(),
        ),
        utilization: None,
        temperature: None,
        power: None,
        lost: None,
    }
}

fn gate(needed: Option<Bytes>) -> Gate {
    Gate::new(
        Moment::ZERO,
        GateTiming::default(),
        [(Uuid::new(GPU), Some(Bytes::mib(300)))],
        needed,
        vec![Pid(7)],
        GateSight::Nvml,
    )
}

fn at(seconds: f64) -> Moment {
    Moment::from_secs_f64(seconds)
}

#[test]
fn opens_after_three_readings_at_the_baseline() {
    let mut gate = gate(None);
    gate.read(&reading(Bytes::gib(20), &[(7, Bytes::gib(20))]));
    assert!(matches!(gate.verdict(at(0.1)), GateVerdict::Wait(why) if why.contains("python 7")));
    for _ in 0..2 {
        gate.read(&reading(Bytes::mib(310), &[]));
        assert!(matches!(gate.verdict(at(0.3)), GateVerdict::Wait(_)));
    }
    gate.read(&reading(Bytes::mib(310), &[]));
    assert_eq!(gate.verdict(at(0.4)), GateVerdict::Open);
}

#[test]
fn a_process_of_ours_keeps_it_shut_whatever_is_free() {
    let mut gate = gate(Some(Bytes::gib(1)));
    for _ in 0..5 {
        gate.read(&reading(Bytes::mib(310), &[(7, Bytes::mib(10))]));
    }
    assert!(matches!(gate.verdict(at(1.0)), GateVerdict::Wait(_)));
}

#[test]
fn on_a_shared_device_enough_free_is_enough() {
    let mut gate = gate(Some(Bytes::gib(10)));
    for _ in 0..3 {
        gate.read(&reading(Bytes::gib(8), &[(99, Bytes::gib(8))]));
    }
    assert_eq!(gate.verdict(at(1.0)), GateVerdict::Open);
}

#[test]
fn refuses_at_the_deadline_and_names_the_holder() {
    let mut gate = gate(Some(Bytes::gib(20)));
    gate.read(&reading(Bytes::gib(8), &[(99, Bytes::gib(8))]));
    let GateVerdict::Refused(why) = gate.verdict(at(60.0)) else {
        panic!("not refused")
    };
    assert!(why.contains("python 99 uses 8.00 GiB"), "{why}");
}

#[test]
fn who_is_awaited_keeps_it_shut_for_as_long_as_they_stay() {
    let mut gate = gate(None).awaiting(vec![Pid(99)]);
    assert!(matches!(gate.verdict(at(0.0)), GateVerdict::Wait(why) if why.contains("reading")));
    gate.read(&reading(Bytes::gib(8), &[(99, Bytes::gib(8))]));
    let GateVerdict::Wait(why) = gate.verdict(at(4000.0)) else {
        panic!("there is no time limit")
    };
    assert!(why.contains("python 99 uses 8.00 GiB"), "{why}");
    for _ in 0..3 {
        gate.read(&reading(Bytes::mib(310), &[]));
    }
    assert_eq!(gate.verdict(at(4001.0)), GateVerdict::Open);
    gate.lose_nvml();
    assert!(matches!(gate.verdict(at(4002.0)), GateVerdict::Refused(why) if why.contains("NVML")));
}

#[test]
fn without_nvml_time_decides_and_says_so() {
    let mut gate = gate(None);
    gate.lose_nvml();
    assert!(matches!(gate.verdict(at(4.9)), GateVerdict::Wait(why) if why.contains("NVML")));
    assert_eq!(gate.verdict(at(5.0)), GateVerdict::Open);
}

#[test]
fn a_run_whose_device_nobody_knows_is_waited_for_blindly() {
    let mut gate = Gate::new(
        Moment::ZERO,
        GateTiming::default(),
        [],
        None,
        vec![],
        GateSight::Nvml,
    );
    assert!(matches!(gate.verdict(at(1.0)), GateVerdict::Wait(why) if why.contains("unknown")));
    assert_eq!(gate.verdict(at(5.0)), GateVerdict::Open);
}

#[test]
fn a_simulated_device_has_no_gate() {
    let mut gate = Gate::new(
        Moment::ZERO,
        GateTiming::default(),
        [(Uuid::new("SIM-1"), None)],
        None,
        vec![],
        GateSight::Blind,
    );
    assert_eq!(gate.verdict(Moment::ZERO), GateVerdict::Open);
}
