//! What cuBLAS and cuDNN take beside what is rehearsed.

use super::*;

#[test]
fn a_workspace_lies_in_what_a_large_tensor_has_left() {
    let mut said = with_a_large_one();
    said.optimizer.as_mut().unwrap().states = Some(0);
    let step = Rehearsed::new(&said, 16).unwrap();
    let fixed = Target {
        allocator: Allocator::Fixed,
        ..target(16)
    };
    let needs = |target| step.needs(&target).unwrap().likely;
    // Backward's takes a piece of it, so that backward's own needs another.
    assert!(needs(fixed) >= needs(target(16)) + Bytes(100 * MIB));
}

#[test]
fn what_multiplies_no_matrices_takes_no_workspace() {
    let of = |multiplies| {
        Rehearsed::new(
            &Rehearsal {
                multiplies,
                ..said()
            },
            16,
        )
        .unwrap()
    };
    let peak = |multiplies| of(multiplies).peak(&target(16)).unwrap().likely;
    assert_eq!(peak(Some(true)), peak(None));
    assert_eq!(peak(Some(false)), peak(None) - Bytes(64 * MIB));
}

#[test]
fn backward_takes_no_workspace_where_it_multiplies_nothing() {
    let of = |own_loss, multiplies_backward| {
        Rehearsed::new(
            &Rehearsal {
                own_loss,
                multiplies_backward,
                ..said()
            },
            16,
        )
        .unwrap()
    };
    let peak = |own, backward| of(own, backward).peak(&target(16)).unwrap().likely;
    assert_eq!(peak(true, Some(true)), peak(true, None));
    assert_eq!(peak(true, Some(false)), peak(true, None) - Bytes(32 * MIB));
    // What an assumed loss does not go through may multiply.
    assert_eq!(peak(false, Some(false)), peak(false, None));
}

#[test]
fn workspaces_that_a_traced_step_found_are_not_added() {
    let plain = Rehearsed::new(&said(), 16).unwrap();
    let traced = |carried: &str| {
        let step = StepTrace {
            failed: true,
            trace: format!("{carried}| {} 4096", 8 * MIB),
            ..StepTrace::default()
        };
        plain.clone().traced(Some(&step)).peak(&target(16)).unwrap()
    };
    let usual = plain.peak(&target(16)).unwrap();
    assert_eq!(traced("4096 "), usual);
    let one = format!("{} ", 32 * MIB);
    assert_eq!(traced(&one).likely, usual.likely - Bytes(32 * MIB));
    assert_eq!(
        traced(&one.repeat(2)).likely,
        usual.likely - Bytes(64 * MIB)
    );
    // Before Hopper they are smaller.
    let small = traced(&format!("{} ", 8320 << 10)).likely;
    assert_eq!(small, usual.likely - Bytes((64 << 20) - (8320 << 10)));
}

#[test]
fn what_cudnn_takes_while_it_tries_its_algorithms_is_in_the_intervals() {
    let room = Bytes(24 * 1024 * MIB);
    let of = |autotunes| {
        let said = Rehearsal {
            convolutions: true,
            autotunes,
            ..said()
        };
        let step = Rehearsed::new(&said, 16).unwrap();
        let card = step.on_card(&target(16), room).unwrap();
        (step.peak(&target(16)).unwrap(), card.reserved)
    };
    let ((plain, reserved), (tried, reserved_trying)) = (of(false), of(true));
    assert_eq!(plain.likely, tried.likely);
    assert!(plain.high < plain.likely.scale(1.5));
    assert!(tried.high >= tried.likely.scale(1.9));
    assert!(reserved.high < room);
    assert_eq!(
        (reserved_trying.likely, reserved_trying.high),
        (reserved.likely, room)
    );
}
