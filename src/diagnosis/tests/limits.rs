//! A limit that was reached: what has set it, and which line asked for more than it allows.

use crate::diagnosis::*;
use crate::event::*;
use crate::state::tests::staged::*;

const LIMIT: &str = "per_process_memory_fraction:0.4";

fn line(file: &str, line: u32, function: &str) -> SourceLine {
    SourceLine {
        file: file.into(),
        line,
        function: function.into(),
    }
}

/// What is found of a run whose allocator has these settings, with the environment's variable and the calls on the stack.
fn found(settings: Option<&str>, variable: Option<&str>, stack: Vec<SourceLine>) -> Finding {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 100, "python train.py --batch-size 64"));
    let variables = variable.map(|value| ("PYTORCH_ALLOC_CONF".to_string(), value.to_string()));
    let facts = LaunchFacts {
        variables: variables.into_iter().collect(),
        ..LaunchFacts::default()
    };
    scene.add(0.5, EventKind::LaunchFacts(Box::new(facts)));
    let EventKind::Hello(heard) = hello(1, 100, None) else {
        unreachable!()
    };
    scene.add(
        1.0,
        EventKind::Hello(Hello {
            alloc_conf: settings.map(str::to_string),
            ..heard
        }),
    );
    let mut out = record(100, gib(8.5), gib(9.0), gib(2.0), gib(14.0));
    (out.limit, out.total) = (Some(gib(10.0)), gib(10.0));
    out.stack = stack;
    scene.add(3.0, EventKind::Oom(out));
    diagnose(&scene.state).remove(0)
}

#[test]
fn what_has_set_a_limit_is_named_where_it_is_known() {
    for (settings, variable, says, advises) in [
        (
            Some(LIMIT),
            Some(LIMIT),
            "PYTORCH_ALLOC_CONF in the environment sets the limit: per_process_memory_fraction:0.4.",
            "raise or remove the limit (PYTORCH_ALLOC_CONF)",
        ),
        (
            Some(LIMIT),
            None,
            "The program sets the limit in its allocator settings",
            "raise or remove the limit",
        ),
        (
            Some(""),
            None,
            "The program sets the limit itself, by set_per_process_memory_fraction.",
            "raise or remove the limit (set_per_process_memory_fraction)",
        ),
        (
            None,
            None,
            "The limit comes from set_per_process_memory_fraction in the program or",
            "raise or remove the limit",
        ),
    ] {
        let finding = found(settings, variable, Vec::new());
        assert_eq!(finding.cause, Cause::Limit);
        assert!(
            finding.explanation.contains(says),
            "{}",
            finding.explanation
        );
        assert_eq!(finding.advice[0].as_str(), advises);
    }
}

#[test]
fn the_line_that_sets_a_limit_is_named() {
    let mut scene = StagedSession::training();
    let mut out = record(100, gib(8.5), gib(9.0), gib(2.0), gib(14.0));
    (out.limit, out.total) = (Some(gib(10.0)), gib(10.0));
    out.limit_line = Some(Box::new(line("/w/train.py", 12, "")));
    scene.add(3.0, EventKind::Oom(out));
    let finding = diagnose(&scene.state).remove(0);
    let said =
        "The program sets the limit itself at train.py:12, by set_per_process_memory_fraction.";
    assert!(
        finding.explanation.contains(said),
        "{}",
        finding.explanation
    );
    let in_code = finding.in_code().expect("a line");
    assert!(
        in_code.starts_with("train.py:12: raise or remove"),
        "{in_code}"
    );
}

#[test]
fn the_programs_own_line_asked_for_it_and_no_librarys_and_no_compilers() {
    let torch = "/v/lib/python3.12/site-packages/torch/";
    let of_torch = |file: &str, function: &str| line(&format!("{torch}{file}"), 9, function);
    let module = || of_torch("nn/modules/module.py", "_call_impl");
    for (stack, asked) in [
        (
            vec![
                of_torch("nn/functional.py", "elu"),
                line("/w/utils.py", 14, "concat_elu"),
                module(),
                line("/w/main.py", 122, "<module>"),
            ],
            "utils.py:14 concat_elu → elu",
        ),
        // As two versions of the probe tell of a compiler's kernel.
        (
            vec![
                line("compiled", 1738, "[x_31, x_34, x_36, logits, …]"),
                of_torch("_inductor/utils.py", "run"),
                line("/w/model.py", 196, "forward"),
                module(),
                line("/w/train.py", 249, "estimate_loss"),
            ],
            "model.py:196 forward → [x_31, x_34, …]",
        ),
        (
            vec![
                line("compiled region", 0, "[…, x_36, logits, view, loss]"),
                line("/w/model.py", 196, "forward"),
            ],
            "model.py:196 forward → […, view, loss]",
        ),
        // Anything may run in a backward pass.
        (
            vec![
                of_torch("autograd/graph.py", "_engine_run_backward"),
                of_torch("_tensor.py", "backward"),
                line("/w/train.py", 116, "train_step"),
            ],
            "train.py:116 train_step",
        ),
    ] {
        let finding = found(None, None, stack);
        let (bytes, place) = finding.request.as_ref().expect("a line");
        assert_eq!(*bytes, gib(2.0));
        assert_eq!(place.path("→"), asked);
        let said = format!("2.00 GiB requested at {asked}.");
        assert!(
            finding.explanation.contains(&said),
            "{}",
            finding.explanation
        );
    }
}
