//! What helps where memory ran out in a part of a training, or of another program, whose need no batch and no precision of
//! activations changes: the model is wrapped, copied, merged or converted, or text is generated.

use super::Phrase;
use super::finding::because;
use super::oom_context::OomContext;
use super::situation::Situation;
use crate::event::Phase;

/// `None` where the calls show nothing of the kind.
pub(super) fn advice(case: &OomContext) -> Option<Vec<Phrase>> {
    match case.phase {
        Phase::Load | Phase::Evaluation | Phase::Unknown => {}
        Phase::Forward | Phase::Backward | Phase::Optimizer => return None,
    }
    let does = |situation| case.stack.doing(situation);
    if does(Situation::Merging).is_some() {
        return Some(vec![
            because(
                "merge in RAM, nothing is trained there",
                "from_pretrained with device_map=\"cpu\"",
            ),
            because(
                "the base model in bf16",
                "torch_dtype=torch.bfloat16 (dtype= since transformers 4.56)",
            ),
            "del what else is on the GPU first: optimizer, trainer, a second model".into(),
        ]);
    }
    if does(Situation::CastToFp32).is_some() {
        return Some(vec![
            because(
                "without prepare_model_for_kbit_training",
                "it turns all that is not quantized into fp32; gradient_checkpointing_enable() and enable_input_require_grads() do the rest",
            ),
            because(
                "fewer large layers left unquantized",
                "a large vocabulary's embeddings and head are most of it",
            ),
            "a smaller model".into(),
        ]);
    }
    if does(Situation::ModelCopy).is_some() {
        return Some(vec![
            because(
                "the copy in RAM",
                "an average of the weights (EMA) may be kept there and updated every few steps",
            ),
            because("the copy in bf16", "half of fp32"),
            "one copy fewer: a reference model can be the base below the adapter (PEFT: disable_adapter())"
                .into(),
        ]);
    }
    if let Some(call) = does(Situation::Sharding) {
        let by_accelerate = case.stack.is_through("accelerate/");
        let early = match by_accelerate {
            true => "fsdp_cpu_ram_efficient_loading: true, fsdp_sync_module_states: true",
            false => {
                "FSDP(model, device_id=LOCAL_RANK, sync_module_states=True), or init on \"meta\""
            }
        };
        return Some(match call.file.contains("deepspeed") {
            true => {
                // Its context divides each module as soon as it is built.
                let is_built_so = case
                    .stack
                    .calls()
                    .any(|call| call.function == "_post_init_method");
                let early = because(
                    "divide while the model is built",
                    "deepspeed.zero.Init; transformers: TrainingArguments before from_pretrained",
                );
                let always = [
                    because("shards in RAM", r#""offload_param": {"device": "cpu"}"#),
                    "more GPUs".into(),
                ];
                let early = (!is_built_so).then_some(early);
                early.into_iter().chain(always).collect()
            }
            false => vec![
                because("the model in RAM until it is divided", early),
                because(
                    "layers one by one",
                    "an auto_wrap_policy: without one the whole model is a single piece",
                ),
                because("parameters in bf16", "fp32 copies take twice as much"),
                "more GPUs".into(),
            ],
        });
    }
    if does(Situation::GradientBuckets).is_some() {
        return Some(match case.stack.is_through("megatron/") {
            true => vec![
                because(
                    "state and gradients divided among the ranks",
                    "--use-distributed-optimizer",
                ),
                because("gradients in bf16", "--grad-reduce-in-bf16"),
                because(
                    "smaller parts of the model",
                    "--tensor-model-parallel-size, --pipeline-model-parallel-size",
                ),
            ],
            false => vec![
                because(
                    "gradients as views of the buckets",
                    "gradient_as_bucket_view=True: DistributedDataParallel's buckets are as large as the trained parameters",
                ),
                because("parameters divided among the GPUs", "FSDP, ZeRO-3"),
                because(
                    "fewer trained parameters",
                    "LoRA; requires_grad=False before it is wrapped",
                ),
            ],
        });
    }
    does(Situation::Generation).map(|_| {
        vec![
            because(
                "fewer or shorter sequences at once",
                "max_new_tokens, num_beams, num_return_sequences; TRL: --num_generations, --max_completion_length",
            ),
            because(
                "a smaller cache of keys and values, or one in RAM",
                "cache_implementation=\"quantized\" or \"offloaded\"",
            ),
            "a smaller batch of prompts".into(),
        ]
    })
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Cause, Finding, diagnose_incident};
    use crate::oom::{OomReport, TracedCall};
    use crate::state::{OomIncident, State};
    use crate::units::{Bytes, Moment};

    const LIB: &str = "/v/lib/python3.11/site-packages/";

    /// A full GPU, with these calls on the stack, the innermost first: file, function, line of source.
    fn first(calls: &[(&str, &str, &str)]) -> Finding {
        let stack = calls.iter().map(|(file, function, code)| TracedCall {
            file: match file.starts_with('/') {
                true => (*file).into(),
                false => format!("{LIB}{file}"),
            },
            line: 7,
            function: (*function).into(),
            code: (*code).into(),
        });
        let report = OomReport {
            device: Some(0),
            requested: Some(Bytes::gib(2)),
            total: Some(Bytes::gib(24)),
            free: Some(Bytes::gib(1)),
            allocated: Some(Bytes::gib(22)),
            unallocated: Some(Bytes::mib(300)),
            process_used: Some(Bytes::gib(23)),
            stack: stack.collect(),
            ..OomReport::default()
        };
        let incident = OomIncident::of_report(Moment::ZERO, report);
        diagnose_incident(&State::default(), None, &incident).remove(0)
    }

    #[track_caller]
    fn expect(calls: &[(&str, &str, &str)], said: &str) {
        let finding = first(calls);
        assert_eq!(finding.cause, Cause::Capacity);
        let all: Vec<&str> = finding.advice.iter().map(|one| one.as_str()).collect();
        let all = all.join("\n");
        assert!(all.contains(said), "{calls:?}\n{all}");
        for useless in ["gradient accumulation", "activation checkpointing"] {
            assert!(!all.contains(useless), "{calls:?}\n{all}");
        }
    }

    #[test]
    fn what_no_batch_changes_is_helped_otherwise() {
        let main = ("/srv/fit.py", "main", "");
        expect(
            &[
                ("peft/tuners/lora/layer.py", "merge", ""),
                (
                    "/srv/merge.py",
                    "<module>",
                    "model = model.merge_and_unload()",
                ),
            ],
            "device_map=\"cpu\"",
        );
        expect(
            &[
                ("peft/utils/other.py", "prepare_model_for_kbit_training", ""),
                main,
            ],
            "without prepare_model_for_kbit_training",
        );
        expect(
            &[
                ("torch/nn/parameter.py", "__deepcopy__", ""),
                ("/usr/lib/python3.11/copy.py", "deepcopy", ""),
                ("/srv/ema.py", "__init__", "self.module = deepcopy(model)"),
                main,
            ],
            "the copy in RAM",
        );
        expect(
            &[
                (
                    "torch/distributed/fsdp/_flat_param.py",
                    "flatten_tensors",
                    "",
                ),
                ("accelerate/accelerator.py", "prepare_model", ""),
                main,
            ],
            "fsdp_cpu_ram_efficient_loading: true",
        );
        expect(
            &[
                ("torch/nn/parallel/distributed.py", "_ddp_init_helper", ""),
                main,
            ],
            "gradient_as_bucket_view=True",
        );
        expect(
            &[
                (
                    "/w/megatron/core/distributed/param_and_grad_buffer.py",
                    "__init__",
                    "",
                ),
                (
                    "/w/megatron/training/training.py",
                    "setup_model_and_optimizer",
                    "",
                ),
            ],
            "--use-distributed-optimizer",
        );
        expect(
            &[
                ("transformers/cache_utils.py", "update", ""),
                ("torch/nn/modules/module.py", "_call_impl", ""),
                ("transformers/generation/utils.py", "_sample", ""),
                main,
            ],
            "cache_implementation=\"quantized\"",
        );
    }

    #[test]
    fn a_model_that_zero_divides_while_it_is_built_is_not_told_to() {
        let zero = "deepspeed/runtime/zero/partition_parameters.py";
        let said = |calls: &[(&str, &str, &str)]| first(calls).advice[0].to_string();
        let shards = r#"shards in RAM ("offload_param": {"device": "cpu"})"#;
        let built = [
            (zero, "_partition_param", ""),
            (zero, "_post_init_method", ""),
        ];
        assert_eq!(said(&built), shards);
        let later = [
            (zero, "_partition_param", ""),
            (zero, "_convert_to_zero_parameters", ""),
        ];
        assert!(said(&later).starts_with("divide while the model is built"));
    }

    #[test]
    fn a_sum_of_losses_that_keeps_graphs_is_asked_about() {
        let says_so = |code: &str| {
            let finding = first(&[("/srv/fit.py", "train", code)]);
            let mut all = finding.advice.iter().map(|one| one.as_str());
            all.any(|one| one.contains(".detach()"))
        };
        for code in [
            "total_loss += loss",
            "losses.append(criterion(out, y))",
            "epoch_loss = epoch_loss + loss",
        ] {
            assert!(says_so(code), "{code}");
        }
        for code in [
            "total_loss += loss.item()",
            "losses.append(loss.detach())",
            "loss = criterion(out, y)",
            "loss.backward()",
        ] {
            assert!(!says_so(code), "{code}");
        }
    }

    #[test]
    fn a_copy_in_a_step_is_the_steps() {
        let finding = first(&[
            ("torch/_tensor.py", "__deepcopy__", ""),
            ("/srv/net.py", "forward", "x = copy.deepcopy(x)"),
            ("torch/nn/modules/module.py", "_call_impl", ""),
            ("/srv/fit.py", "train", ""),
        ]);
        let all: Vec<&str> = finding.advice.iter().map(|one| one.as_str()).collect();
        assert!(all.join("\n").contains("gradient accumulation"), "{all:?}");
    }
}
