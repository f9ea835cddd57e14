//! A step written down by hand.

use super::*;
use crate::event::{MemoryKind, SourceLine};

fn line(number: u32) -> SourceLine {
    SourceLine {
        file: "train.py".into(),
        line: number,
        function: "step".into(),
    }
}

fn origin(number: u32, kind: Option<MemoryKind>) -> BlockOrigin {
    BlockOrigin {
        line: Some(line(number)),
        inside: None,
        kind,
    }
}

/// Weights of 1024 and an input of 512; an activation, a temporary, a gradient, an optimizer's
/// temporary.
fn step() -> StepTrace {
    let phase = |phase, from| PhaseStart { phase, from };
    StepTrace {
        step: 3,
        trace: "1024 500 | 4096 100 -1 1000 -3 2048 -1".into(),
        phases: vec![
            phase(Phase::Forward, 0),
            phase(Phase::Backward, 3),
            phase(Phase::Optimizer, 5),
        ],
        origins: vec![
            origin(3, Some(MemoryKind::Parameters)),
            origin(10, None),
            origin(11, Some(MemoryKind::Gradients)),
        ],
        blocks: "1 0 2*2 3 0".into(),
        ..StepTrace::default()
    }
}

#[test]
fn each_position_has_its_bytes_and_its_phase() {
    let anatomy = StepAnatomy::new(&step()).expect("a step");
    let bytes: Vec<u64> = anatomy.allocated.iter().map(|bytes| bytes.0).collect();
    assert_eq!(bytes, [1536, 5632, 6144, 5632, 6656, 2560, 4608, 2560]);
    assert_eq!((anatomy.peak(), anatomy.end()), (4, 7));
    let phases = [0, 1, 3, 4, 6].map(|position| anatomy.phase(position));
    use Phase::*;
    assert_eq!(phases, [Unknown, Forward, Forward, Backward, Optimizer]);
}

#[test]
fn a_blocks_life_tells_what_it_is_for() {
    let anatomy = StepAnatomy::new(&step()).expect("a step");
    let categories: Vec<Category> = anatomy.blocks.iter().map(|block| block.category).collect();
    use Category::*;
    let expected = [
        Parameters,
        Kept,
        Activations,
        Temporaries,
        Gradients,
        Temporaries,
    ];
    assert_eq!(categories, expected);
}

#[test]
fn what_is_still_there_when_the_step_ends_is_left() {
    let leaves = StepTrace {
        trace: "1024 500 | 4096 100 -1 1000 2048 -1".into(),
        ..step()
    };
    let anatomy = StepAnatomy::new(&leaves).expect("a step");
    assert_eq!(anatomy.blocks[2].category, Category::Left);
}

/// Two layers and a head in the forward pass; then backward, in which layers are called again.
#[test]
fn what_a_backward_pass_makes_again_is_no_activation_of_the_forward_pass() {
    let phases = [
        Phase::Forward,
        Phase::Backward,
        Phase::Forward,
        Phase::Backward,
        Phase::Optimizer,
    ];
    let begins = [0, 3, 4, 6, 8];
    let phases = phases.into_iter().zip(begins);
    let checkpointed = StepTrace {
        trace: "1024 | 4096 4096 4096 -1 2048 2048 -1 -2".into(),
        phases: phases
            .map(|(phase, from)| PhaseStart { phase, from })
            .collect(),
        origins: vec![origin(10, None)],
        blocks: "1*6".into(),
        modules: ["emb", "h.0", "head"].map(String::from).to_vec(),
        block_modules: "0 1 2 3 2*2".into(),
        ..step()
    };
    let category = |step: &StepTrace, block: usize| {
        let anatomy = StepAnatomy::new(step).expect("a step");
        anatomy.blocks[block].category
    };
    assert_eq!(category(&checkpointed, 3), Category::Activations);
    assert_eq!(category(&checkpointed, 4), Category::Recomputed);
    // A hook runs lines that no forward pass has run: its part is one of the backward pass.
    let hook = StepTrace {
        origins: vec![origin(10, None), origin(20, None)],
        blocks: "1*4 2*2".into(),
        ..checkpointed.clone()
    };
    assert_eq!(category(&hook, 3), Category::Activations);
    assert_ne!(category(&hook, 4), Category::Recomputed);
    let anatomy = StepAnatomy::new(&hook).expect("a step");
    let of_hook = anatomy.phase(anatomy.blocks[4].from);
    assert_eq!(of_hook, Phase::Backward);
    // Another forward pass of the same step begins where the first one began.
    let accumulated = StepTrace {
        block_modules: "0 1 2 3 1 2".into(),
        ..checkpointed
    };
    assert_eq!(category(&accumulated, 4), Category::Activations);
}

#[test]
fn what_the_first_step_had_loaded_before_the_models_call_is_no_activation() {
    let moved = BlockOrigin {
        inside: Some(SourceLine {
            file: "/env/torch/nn/modules/module.py".into(),
            line: 1370,
            function: "convert".into(),
        }),
        ..origin(3, None)
    };
    let first = StepTrace {
        step: 1,
        failed: true,
        // Weights, a copy of them that was freed, the data set, an activation.
        trace: "| 4096 1024 -1 8192 2048".into(),
        phases: vec![PhaseStart {
            phase: Phase::Forward,
            from: 0,
        }],
        origins: vec![moved, origin(10, None)],
        blocks: "1 0 2*2".into(),
        modules: vec!["h.0".into()],
        block_modules: "0*3 1".into(),
        ..StepTrace::default()
    };
    let anatomy = StepAnatomy::new(&first).expect("a step");
    let categories: Vec<Category> = anatomy.blocks.iter().map(|block| block.category).collect();
    use Category::*;
    assert_eq!(categories, [Parameters, Temporaries, Other, Activations]);
    let phases = [0, 1, 4, 5].map(|position| anatomy.phase(position));
    let expected = [Phase::Unknown, Phase::Load, Phase::Load, Phase::Forward];
    assert_eq!(phases, expected);

    let later = StepAnatomy::new(&StepTrace { step: 2, ..first }).expect("a step");
    assert!(
        later
            .blocks
            .iter()
            .all(|block| block.category != Parameters)
    );
}

#[test]
fn what_is_alive_at_the_peak_is_told_by_line() {
    let anatomy = StepAnatomy::new(&step()).expect("a step");
    let held: Vec<_> = by_line(&anatomy, anatomy.peak())
        .iter()
        .map(|of| {
            (
                of.line.as_ref().map(|line| line.line),
                of.category,
                of.bytes.0,
            )
        })
        .collect();
    use Category::*;
    let expected = [
        (Some(10), Activations, 4096),
        (Some(3), Parameters, 1024),
        (Some(11), Gradients, 1024),
        (None, Kept, 512),
    ];
    assert_eq!(held, expected);
    let sum: Bytes = by_category(&anatomy, anatomy.peak())
        .iter()
        .map(|(_, bytes)| *bytes)
        .sum();
    assert_eq!(sum, anatomy.allocated[anatomy.peak()]);
}

#[test]
fn what_is_drawn_over_time_is_what_is_alive_at_each_position() {
    let anatomy = StepAnatomy::new(&step()).expect("a step");
    let over_time = categories_over_time(&anatomy);
    assert_eq!(over_time.len(), anatomy.allocated.len());
    for (position, sums) in over_time.iter().enumerate() {
        let at = by_category(&anatomy, position).map(|(_, bytes)| bytes);
        assert_eq!(*sums, at, "at {position}");
    }
    assert_eq!(anatomy.allocations(), 4);
}

#[test]
fn what_a_failed_step_still_holds_is_an_activation() {
    let failed = StepTrace {
        trace: "1024 500 | 4096 100".into(),
        blocks: "1 0 2*2".into(),
        failed: true,
        ..step()
    };
    let anatomy = StepAnatomy::new(&failed).expect("a step");
    assert_eq!(anatomy.blocks[2].category, Category::Activations);
}

/// The step with two layers alike, and a head.
fn of_modules() -> StepTrace {
    StepTrace {
        modules: ["h.0.mlp", "h.1.mlp", "head"].map(String::from).to_vec(),
        block_modules: "1 0 1 2 3 0".into(),
        ..step()
    }
}

#[test]
fn what_is_alive_is_told_by_module_and_repeated_ones_are_one() {
    let anatomy = StepAnatomy::new(&of_modules()).expect("a step");
    let held: Vec<_> = by_module(&anatomy, 2)
        .into_iter()
        .map(|of| (of.module, of.alike, of.category, of.bytes.0))
        .collect();
    use Category::*;
    let h = |numbers: &str| Some(format!("h.{numbers}.mlp"));
    let expected = [
        (h("0"), 1, Activations, 4096),
        (h("0"), 1, Parameters, 1024),
        (h("1"), 1, Temporaries, 512),
        (None, 0, Kept, 512),
    ];
    let [first, second, ..] = &held[..] else {
        panic!("{held:?}");
    };
    assert_eq!([first, second], [&expected[0], &expected[1]]);
    assert_eq!(held.len(), 4);
    assert!(
        held.contains(&expected[2]) && held.contains(&expected[3]),
        "{held:?}"
    );
    let both = StepTrace {
        block_modules: "1 0 1 2 3 0".into(),
        trace: "1024 500 | 4096 4096 -1 1000 -3 2048 -1".into(),
        phases: vec![
            PhaseStart {
                phase: Phase::Forward,
                from: 0,
            },
            PhaseStart {
                phase: Phase::Backward,
                from: 2,
            },
        ],
        ..of_modules()
    };
    let anatomy = StepAnatomy::new(&both).expect("a step");
    let first = by_module(&anatomy, 2).remove(0);
    assert_eq!(
        (first.module, first.alike, first.bytes.0),
        (h("0–1"), 2, 8192)
    );
}

#[test]
fn a_flame_has_each_module_within_the_one_that_contains_it() {
    let anatomy = StepAnatomy::new(&of_modules()).expect("a step");
    let flame = flame(&anatomy, anatomy.peak());
    let names: Vec<&str> = flame.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["h.0", "head", "kept from earlier steps"]);
    assert_eq!(flame[0].children[0].name, "mlp");
    assert_eq!(flame[0].bytes, flame[0].children[0].bytes);
    let sum: Bytes = flame.iter().map(|node| node.bytes).sum();
    assert_eq!(sum, anatomy.allocated[anatomy.peak()]);
    let by_lines = super::flame(&StepAnatomy::new(&step()).expect("a step"), 4);
    assert_eq!(by_lines[0].name, "train.py", "without modules");
}

#[test]
fn modules_for_other_blocks_are_refused() {
    for block_modules in ["1", "1 0 1 2 3 9", "x"] {
        let bad = StepTrace {
            block_modules: block_modules.into(),
            ..of_modules()
        };
        assert!(StepAnatomy::new(&bad).is_err(), "{block_modules}");
    }
}

#[test]
fn a_text_that_is_no_step_is_refused() {
    for (trace, blocks) in [
        ("1 | x", "0"),
        ("1 | 2", "0"),
        ("1 | 2", "0 9"),
        ("1 | 2", "0 0 0"),
        ("1 | 2", "0*99999999999"),
        ("1 | -2", "0"),
    ] {
        let bad = StepTrace {
            trace: trace.into(),
            blocks: blocks.into(),
            ..step()
        };
        assert!(StepAnatomy::new(&bad).is_err(), "{trace} with {blocks}");
    }
}

#[test]
fn modules_that_differ_in_a_number_are_one() {
    let numbers = |all: &[&str]| all.iter().map(|name| pattern(name).1).collect::<Numbers>();
    let layers = numbers(&["h.0.mlp", "h.1.mlp", "h.11.mlp"]);
    assert_eq!(spelled("h.#.mlp", &layers), "h.0–11.mlp");
    assert_eq!(spelled("h.#.mlp", &numbers(&["h.3.mlp"])), "h.3.mlp");
    let nested = numbers(&["down.0.attn.1", "down.1.attn.1"]);
    assert_eq!(spelled("down.#.attn.#", &nested), "down.0–1.attn.1");
}

#[test]
fn a_number_belongs_to_what_it_numbers() {
    assert_eq!(
        path("transformer.h.0–11.mlp"),
        ["transformer", "h.0–11", "mlp"]
    );
    assert_eq!(path("0"), ["0"]);
    assert_eq!(path("GPT2"), ["GPT2"]);
}
