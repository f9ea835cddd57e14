//! What a program was doing when memory ran out, by the traceback that it printed: where no probe saw it, as in a log, that
//! decides what helps. The rules are those of the probe's `common/phases.py`, as far as names and files go.

use super::situation::{CallStack, Situation, StackCall};
use crate::event::Phase;
use crate::oom::OomReport;
use regex::Regex;
use std::sync::LazyLock;

static EVALUATES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        "^_?(run_|do_|maybe_)?(eval|evaluate|evaluation|validate|validation|valid|val|test|predict|prediction|estimate_loss)",
        "(_loop|_step|_epoch|_one_epoch|_model|_batch|_loss|_all)?$",
        // `evaluate_coco`, `on_validation_epoch_end`; `single_gpu_test`, `do_val`; `test_net`, `eval_one_epoch`.
        r"|^_?(\w+_)?(evaluate|evaluation|evaluator|validation)(_\w+)?$",
        r"|^_?(single|multi|dist|distributed|ddp|slide|run|do|in|on|after|before)_(\w+_)?(test|val|valid|eval)(_\w+)?$",
        r"|^_?(test|val|valid|validate|eval)_(net|on|one|with|for|in)(_\w+)?$",
        "|^inference_on_dataset$",
    ))
    .expect("the expression is valid")
});

static TRAINS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(^|_)(pre)?(train|training)(_|$)").expect("the expression is valid")
});

/// The phase that the calls show; unknown where they are none of a training's, or where text is generated.
pub(super) fn phase(stack: &CallStack<'_>, report: Option<&OomReport>) -> Phase {
    if stack.calls().any(StackCall::runs_backward) {
        return Phase::Backward;
    }
    if stack.doing(Situation::OptimizerStep).is_some() {
        return Phase::Optimizer;
    }
    // A model's own methods may be called `predict` or `valid` as well: the program that calls it decides.
    let outermost = stack
        .calls()
        .enumerate()
        .filter(|(_, call)| call.calls_a_module());
    let outside = outermost.last().map(|(at, _)| at + 1);
    let said = stack
        .calls()
        .skip(outside.unwrap_or(0))
        .find_map(|call| by_name(call.function));
    match (said, outside) {
        (Some(Said::Evaluates), _) => Phase::Evaluation,
        (Some(Said::Generates), _) => Phase::Unknown,
        // A program that trains and evaluates in one function says it by its progress bar alone.
        (Some(Said::Trains) | None, Some(_)) if report.is_some_and(|said| said.evaluates) => {
            Phase::Evaluation
        }
        (Some(Said::Trains) | None, Some(_)) => Phase::Forward,
        (Some(Said::Trains) | None, None) if stack.doing(Situation::ModelLoading).is_some() => {
            Phase::Load
        }
        (Some(Said::Trains) | None, None) if stack.calls().any(StackCall::moves_a_module) => {
            Phase::Load
        }
        (Some(Said::Trains) | None, None) => Phase::Unknown,
    }
}

/// What the name of a function says.
enum Said {
    Evaluates,
    Generates,
    Trains,
}

fn by_name(function: &str) -> Option<Said> {
    let name = function.to_lowercase();
    if ["generate", "_generate", "sample", "_sample"].contains(&name.as_str()) {
        Some(Said::Generates)
    } else if EVALUATES.is_match(&name) && !TRAINS.is_match(&name) {
        Some(Said::Evaluates)
    } else if TRAINS.is_match(&name) {
        Some(Said::Trains)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::TracedCall;
    use crate::state::OomIncident;
    use crate::units::Moment;

    const MODULE: &str = "/v/lib/python3.12/site-packages/torch/nn/modules/module.py";

    /// Of calls, the innermost first: file and function.
    #[track_caller]
    fn expect(expected: Phase, calls: &[(&str, &str)]) {
        let stack = calls.iter().map(|(file, function)| TracedCall {
            file: (*file).into(),
            line: 7,
            function: (*function).into(),
            code: String::new(),
        });
        let report = OomReport {
            stack: stack.collect(),
            ..OomReport::default()
        };
        let incident = OomIncident::of_report(Moment::ZERO, report);
        let report = incident.report.as_ref();
        let said = phase(&CallStack::new(&incident), report);
        assert_eq!(said, expected, "{calls:?}");
        // With the bar of an evaluation above, a forward pass is the evaluation's.
        let below_a_bar = OomReport {
            evaluates: true,
            ..report.cloned().unwrap_or_default()
        };
        let expected = match expected {
            Phase::Forward => Phase::Evaluation,
            other => other,
        };
        let said = phase(&CallStack::new(&incident), Some(&below_a_bar));
        assert_eq!(said, expected, "{calls:?}");
    }

    #[test]
    fn a_step_by_its_parts() {
        let (net, fit) = ("/srv/net.py", "/srv/fit.py");
        let call = (MODULE, "_call_impl");
        expect(
            Phase::Forward,
            &[(net, "forward"), call, (fit, "train_one_epoch")],
        );
        expect(Phase::Forward, &[(net, "forward"), call, (fit, "<module>")]);
        let tensor = "/v/lib/python3.12/site-packages/torch/_tensor.py";
        expect(
            Phase::Backward,
            &[(tensor, "backward"), (fit, "training_step")],
        );
        // A layer that is recomputed in the backward pass.
        expect(
            Phase::Backward,
            &[
                (net, "forward"),
                call,
                (
                    "/v/lib/python3.12/site-packages/torch/autograd/__init__.py",
                    "backward",
                ),
                (fit, "main"),
            ],
        );
        let adam = "/v/lib/python3.12/site-packages/torch/optim/adamw.py";
        expect(
            Phase::Optimizer,
            &[(adam, "_init_group"), (adam, "step"), (fit, "main")],
        );
    }

    #[test]
    fn the_function_that_calls_the_model_tells_an_evaluation() {
        let (net, fit) = ("/srv/net.py", "/srv/fit.py");
        let call = (MODULE, "_call_impl");
        for name in [
            "validate",
            "val_one_epoch",
            "evaluate",
            "estimate_loss",
            "log_validation",
            "perform_actual_validation",
            "compute_validation_map",
            "validation_step",
            "single_gpu_test",
            "inference_on_dataset",
            "evaluate_coco",
            "on_validation_epoch_end",
            "_do_eval",
            "test_net",
        ] {
            let calls = [(net, "forward"), call, (fit, name), (fit, "train")];
            expect(Phase::Evaluation, &calls);
        }
        // The model's own method.
        let inside = [(net, "predict"), call, (fit, "train")];
        expect(Phase::Forward, &inside);
        // One function for both.
        let both = [(net, "forward"), call, (fit, "train_and_evaluate")];
        expect(Phase::Forward, &both);
        // A test of a training.
        let tested = [
            (net, "forward"),
            call,
            (fit, "train_step"),
            (fit, "test_model"),
        ];
        expect(Phase::Forward, &tested);
        let generation = "/v/lib/python3.12/site-packages/transformers/generation/utils.py";
        expect(
            Phase::Unknown,
            &[
                (net, "forward"),
                call,
                (generation, "_sample"),
                (fit, "main"),
            ],
        );
    }

    #[test]
    fn a_model_that_is_moved_is_loaded() {
        let moved = [
            (MODULE, "convert"),
            (MODULE, "_apply"),
            (MODULE, "to"),
            ("/srv/fit.py", "main"),
        ];
        expect(Phase::Load, &moved);
        let loading = "/v/lib/python3.12/site-packages/transformers/modeling_utils.py";
        expect(
            Phase::Load,
            &[(loading, "from_pretrained"), ("/srv/fit.py", "main")],
        );
        expect(Phase::Unknown, &[("/srv/fit.py", "main")]);
        expect(Phase::Unknown, &[]);
    }
}
