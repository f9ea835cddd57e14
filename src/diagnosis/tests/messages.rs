//! Messages alone, with made-up figures, and the first finding of each.

use crate::diagnosis::*;
use crate::oom::{OomKind, OomReport, OomSign, OtherProcess, TracedCall};
use crate::state::tests::staged::*;
use crate::state::{OomIncident, State};
use crate::units::{Bytes, Moment, Pid};
use proptest::prelude::*;

/// A message alone: total, free, allocated, unallocated, requested, in GiB.
fn message(total: f64, free: f64, allocated: f64, unallocated: f64, requested: f64) -> OomReport {
    OomReport {
        device: Some(0),
        requested: Some(gib(requested)),
        total: Some(gib(total)),
        free: Some(gib(free)),
        allocated: Some(gib(allocated)),
        unallocated: Some(gib(unallocated)),
        ..OomReport::default()
    }
}

fn with_process(report: OomReport, used: f64, others: &[(i32, f64)]) -> OomReport {
    OomReport {
        process_used: Some(gib(used)),
        others: others
            .iter()
            .map(|(pid, used)| OtherProcess {
                pid: Pid(*pid),
                used: Some(gib(*used)),
            })
            .collect(),
        ..report
    }
}

/// A full GPU, with a traceback that has this call.
fn printed(file: &str, function: &str) -> OomReport {
    OomReport {
        stack: vec![TracedCall {
            file: file.into(),
            line: 7,
            function: function.into(),
            code: String::new(),
        }],
        ..with_process(message(23.57, 0.31, 22.41, 0.33, 1.16), 23.26, &[])
    }
}

pub(super) fn explained(report: &OomReport) -> Vec<Finding> {
    let incident = OomIncident::of_report(Moment::ZERO, report.clone());
    diagnose_incident(&State::default(), None, &incident)
}

/// Messages with made-up figures, and the first finding of each.
pub(super) fn messages() -> Vec<(&'static str, OomReport, Cause, Certainty)> {
    use Cause::*;
    use Certainty::*;
    vec![
        (
            "ZeRO's states before the first step",
            printed(
                "/opt/env/lib/python3.11/site-packages/deepspeed/runtime/zero/stage_1_and_2.py",
                "initialize_optimizer_states",
            ),
            OptimizerState,
            Likely,
        ),
        (
            "an engine's graphs",
            printed(
                "/opt/env/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py",
                "capture_model",
            ),
            InferenceEngine,
            Likely,
        ),
        (
            "a kernel that Triton tries out",
            printed(
                "/opt/env/lib/python3.11/site-packages/triton/testing.py",
                "do_bench",
            ),
            Compilation,
            Likely,
        ),
        (
            "a worker of a DataLoader",
            printed("/v/torch/utils/data/_utils/worker.py", "_worker_loop"),
            GpuInWorkers,
            Likely,
        ),
        (
            "an image that is decoded",
            printed(
                "/opt/env/lib/python3.11/site-packages/diffusers/pipelines/flux/pipeline_flux.py",
                "__call__",
            ),
            Capacity,
            Certain,
        ),
        (
            "ComfyUI",
            printed("/opt/ComfyUI/execution.py", "execute"),
            Capacity,
            Certain,
        ),
        (
            "HIP, much of it somebody else's",
            OomReport {
                kind: OomKind::HipOom,
                ..message(24.0, 0.5, 5.0, 0.2, 1.0)
            },
            ForeignProcess,
            Likely,
        ),
        (
            "XPU, much of it somebody else's",
            OomReport {
                kind: OomKind::XpuOom,
                ..message(24.0, 0.5, 5.0, 0.2, 1.0)
            },
            ForeignProcess,
            Likely,
        ),
        (
            "full, alone on the card",
            with_process(message(23.57, 0.31, 22.41, 0.33, 1.16), 23.26, &[]),
            Capacity,
            Certain,
        ),
        (
            "full, no process listed",
            message(23.57, 0.31, 22.41, 0.33, 1.16),
            Capacity,
            Certain,
        ),
        (
            "the last bit of a full card",
            with_process(message(15.77, 0.01, 14.92, 0.29, 0.02), 15.76, &[]),
            Capacity,
            Likely,
        ),
        (
            "fragmented",
            with_process(message(39.39, 0.62, 27.05, 11.21, 4.5), 38.77, &[]),
            Fragmentation,
            Likely,
        ),
        (
            "fragmented, enough only with what is free",
            with_process(message(39.39, 1.41, 34.06, 3.41, 4.5), 37.98, &[]),
            Fragmentation,
            Likely,
        ),
        (
            "another process",
            with_process(
                message(23.57, 0.14, 6.02, 0.2, 2.0),
                6.74,
                &[(4_021, 16.69)],
            ),
            ForeignProcess,
            Certain,
        ),
        (
            "another process that matters little",
            with_process(message(23.57, 0.1, 22.3, 0.11, 1.5), 22.92, &[(977, 0.55)]),
            Capacity,
            Certain,
        ),
        (
            "two others, without either of which it would not fit",
            with_process(
                message(23.57, 0.1, 20.3, 0.11, 9.5),
                20.92,
                &[(977, 1.5), (978, 1.05)],
            ),
            Capacity,
            Certain,
        ),
        (
            "somebody whom nobody names (torch 1.x)",
            OomReport {
                unallocated: None,
                reserved: Some(gib(9.1)),
                ..message(15.78, 0.2, 8.9, 0.0, 1.0)
            },
            ForeignProcess,
            Likely,
        ),
        (
            "itself under the host's id, in a container",
            OomReport {
                others: with_process(OomReport::default(), 0.0, &[(31_007, 23.26)]).others,
                ..message(23.57, 0.31, 22.41, 0.33, 1.16)
            },
            Capacity,
            Certain,
        ),
        (
            "a cap",
            OomReport {
                limit: Some(gib(8.0)),
                ..with_process(message(79.1, 70.2, 7.31, 0.25, 1.0), 8.1, &[])
            },
            Limit,
            Certain,
        ),
        (
            "a cap that one allocation alone is larger than",
            OomReport {
                limit: Some(gib(5.59)),
                reserved: Some(Bytes::ZERO),
                ..message(11.17, 10.9, 0.0, 0.0, 5.59)
            },
            Limit,
            Certain,
        ),
        (
            "under the host's id, and much of it outside PyTorch",
            OomReport {
                others: with_process(OomReport::default(), 0.0, &[(31_007, 79.2)]).others,
                ..message(79.25, 0.05, 68.6, 0.11, 0.25)
            },
            NonPytorch,
            Likely,
        ),
        (
            "an old message of a full card",
            OomReport {
                unallocated: None,
                reserved: Some(gib(3.41)),
                ..message(4.0, 0.0, 3.35, 0.0, 0.07)
            },
            Capacity,
            Certain,
        ),
        (
            "a fraction of 1.0 is no cap",
            OomReport {
                limit: Some(gib(23.57)),
                ..with_process(message(23.57, 0.31, 22.41, 0.33, 1.16), 23.26, &[])
            },
            Capacity,
            Certain,
        ),
        (
            "memory outside PyTorch",
            with_process(message(23.57, 0.2, 14.0, 0.4, 1.5), 22.9, &[]),
            NonPytorch,
            Likely,
        ),
        (
            "Windows has moved some to the host",
            message(7.99, 0.0, 17.4, 0.5, 0.2),
            Capacity,
            Certain,
        ),
        (
            "cached (torch 1.0), the rest of the line cut off",
            OomReport {
                total: None,
                free: None,
                ..message(0.0, 0.0, 9.3, 0.4, 0.05)
            },
            Capacity,
            Possible,
        ),
        (
            "no figures but what was asked for",
            OomReport {
                requested: Some(Bytes::mib(512)),
                ..OomReport::default()
            },
            Capacity,
            Possible,
        ),
        (
            "no figures at all",
            OomReport {
                kind: OomKind::CudaErrorOom,
                ..OomReport::default()
            },
            LibraryMemory,
            Possible,
        ),
        (
            "the message itself failed",
            OomReport {
                kind: OomKind::NvmlAssert,
                ..OomReport::default()
            },
            Capacity,
            Possible,
        ),
        (
            "more than any card",
            OomReport {
                total: Some(gib(23.57)),
                requested: Some(gib(800.0)),
                kind: OomKind::Jax,
                ..OomReport::default()
            },
            Capacity,
            Certain,
        ),
        (
            "the host",
            OomReport {
                kind: OomKind::HostOom,
                ..OomReport::default()
            },
            HostMemory,
            Certain,
        ),
        (
            "the host, a full /dev/shm",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::SharedMemory),
                ..OomReport::default()
            },
            SharedMemory,
            Certain,
        ),
        (
            "the host, file descriptors",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::Descriptors),
                ..OomReport::default()
            },
            OpenFiles,
            Certain,
        ),
        (
            "the host, pinned memory refused",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::Pinned),
                ..OomReport::default()
            },
            PinnedMemory,
            Certain,
        ),
        (
            "the host, a job's limit",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::Slurm),
                ..OomReport::default()
            },
            SlurmLimit,
            Certain,
        ),
        (
            "MPS and its own ceiling",
            OomReport {
                kind: OomKind::MpsOom,
                requested: Some(gib(1.0)),
                allocated: Some(gib(17.6)),
                limit: Some(gib(18.1)),
                ..OomReport::default()
            },
            Capacity,
            Certain,
        ),
        (
            "vLLM's cache",
            OomReport {
                kind: OomKind::Vllm,
                ..OomReport::default()
            },
            InferenceEngine,
            Likely,
        ),
        (
            "a model that was planned off the GPU",
            OomReport {
                kind: OomKind::Placement,
                ..OomReport::default()
            },
            ModelPlacement,
            Certain,
        ),
        (
            "a retry while the first is still handled",
            OomReport {
                while_handling: Some(gib(22.3)),
                ..with_process(message(23.57, 0.31, 22.41, 0.33, 1.16), 23.26, &[])
            },
            HeldByException,
            Likely,
        ),
        (
            "kernels are tried out",
            printed(
                "/v/site-packages/torch/_inductor/select_algorithm.py",
                "benchmark_choice",
            ),
            Compilation,
            Likely,
        ),
        (
            "a full state dict",
            printed(
                "/v/site-packages/torch/distributed/fsdp/_state_dict_utils.py",
                "_full_post_state_dict_hook",
            ),
            CheckpointSaving,
            Likely,
        ),
        (
            "contexts of five ranks",
            with_process(
                message(79.1, 0.2, 75.1, 0.3, 1.5),
                76.4,
                &[(11, 0.5), (12, 0.5), (13, 0.5), (14, 0.5), (15, 0.5)],
            ),
            OwnRanks,
            Likely,
        ),
        (
            "more free than asked for when the message was made",
            with_process(message(23.57, 3.0, 18.0, 1.0, 2.0), 19.6, &[]),
            Capacity,
            Possible,
        ),
        (
            "far more free than asked for",
            message(191.5, 120.3, 60.2, 8.4, 0.002),
            DriverRefused,
            Possible,
        ),
        (
            "a number that overflowed",
            OomReport {
                sign: Some(OomSign::Overflow),
                ..OomReport::default()
            },
            WrongSize,
            Certain,
        ),
        (
            "a size that is none",
            message(14.7, 14.6, 0.0, 0.0, 8_000_000.0),
            WrongSize,
            Certain,
        ),
        (
            "a cache of CUDA's own",
            OomReport {
                unallocated: None,
                ..message(47.5, 0.03, 31.2, 0.0, 0.6)
            },
            NonPytorch,
            Likely,
        ),
        (
            "itself under the host's id, and the contexts of other ranks",
            with_process(
                message(79.1, 0.2, 74.0, 1.6, 0.4),
                0.0,
                &[(71, 76.3), (72, 0.52), (73, 0.52), (74, 0.52)],
            ),
            OwnRanks,
            Likely,
        ),
        (
            "beside a desktop that nobody lists",
            with_process(message(5.78, 0.6, 4.13, 0.04, 1.45), 4.3, &[]),
            Capacity,
            Certain,
        ),
        (
            "an engine that wakes up",
            OomReport {
                kind: OomKind::Vllm,
                sign: Some(OomSign::EngineWakes),
                ..OomReport::default()
            },
            InferenceEngine,
            Certain,
        ),
        (
            "an engine that records its graphs, by its words",
            OomReport {
                sign: Some(OomSign::EngineGraphs),
                ..with_process(message(79.1, 1.0, 74.1, 1.1, 1.2), 78.0, &[])
            },
            InferenceEngine,
            Likely,
        ),
        (
            "SGLang's cache",
            OomReport {
                kind: OomKind::Sglang,
                ..OomReport::default()
            },
            InferenceEngine,
            Likely,
        ),
        (
            "TensorFlow at its start",
            OomReport {
                kind: OomKind::Tf,
                sign: Some(OomSign::Preallocation),
                requested: Some(gib(17.8)),
                ..OomReport::default()
            },
            ForeignProcess,
            Likely,
        ),
        (
            "a TPU",
            OomReport {
                kind: OomKind::TpuOom,
                ..OomReport::default()
            },
            Capacity,
            Likely,
        ),
        (
            "one buffer of Metal's",
            OomReport {
                kind: OomKind::MpsOom,
                sign: Some(OomSign::OneBuffer),
                requested: Some(gib(9.0)),
                ..OomReport::default()
            },
            Capacity,
            Possible,
        ),
        (
            "MLX",
            OomReport {
                kind: OomKind::MlxOom,
                ..OomReport::default()
            },
            Capacity,
            Possible,
        ),
        (
            "OpenCL",
            OomReport {
                kind: OomKind::DeviceOom,
                sign: Some(OomSign::Resources),
                ..OomReport::default()
            },
            Capacity,
            Possible,
        ),
        (
            "an NPU in pieces",
            OomReport {
                kind: OomKind::NpuOom,
                ..message(60.9, 1.3, 49.4, 8.1, 5.0)
            },
            Fragmentation,
            Likely,
        ),
        (
            "weights that are larger than the GPU",
            OomReport {
                stack: printed(
                    "/v/site-packages/transformers/modeling_utils.py",
                    "caching_allocator_warmup",
                )
                .stack,
                ..message(23.7, 23.3, 0.0, 0.0, 32.0)
            },
            Capacity,
            Certain,
        ),
        (
            "a checkpoint that all ranks load onto one GPU",
            OomReport {
                stack: printed(
                    "/v/site-packages/torch/serialization.py",
                    "_cuda_deserialize",
                )
                .stack,
                ..message(11.2, 0.02, 0.95, 0.03, 0.02)
            },
            CheckpointLoading,
            Likely,
        ),
        (
            "a model's outputs in fp32",
            printed(
                "/v/site-packages/accelerate/utils/operations.py",
                "_convert_to_fp32",
            ),
            LargeLogits,
            Likely,
        ),
        (
            "a collective call, and no figures",
            OomReport {
                kind: OomKind::CudaErrorOom,
                stack: printed(
                    "/v/site-packages/torch/distributed/distributed_c10d.py",
                    "barrier",
                )
                .stack,
                ..OomReport::default()
            },
            LibraryMemory,
            Possible,
        ),
        (
            "the host, an array of many GiB",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::Refused),
                requested: Some(gib(58.0)),
                ..OomReport::default()
            },
            HostMemory,
            Certain,
        ),
        (
            "the host, Windows' page file",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::PageFile),
                ..OomReport::default()
            },
            HostMemory,
            Certain,
        ),
        (
            "the host, Ray's monitor",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::RayMonitor),
                ..OomReport::default()
            },
            HostMemory,
            Certain,
        ),
        (
            "the host, Dask's nanny",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::Dask),
                ..OomReport::default()
            },
            HostMemory,
            Certain,
        ),
        (
            "the host, ended by what runs it",
            OomReport {
                kind: OomKind::HostOom,
                sign: Some(OomSign::Platform),
                ..OomReport::default()
            },
            HostMemory,
            Certain,
        ),
    ]
}

#[test]
fn each_message_has_its_cause() {
    for (what, report, cause, certainty) in messages() {
        let findings = explained(&report);
        let first = findings.first().map(|f| (f.cause, f.certainty));
        let said: Vec<_> = findings.iter().map(|f| &f.headline).collect();
        assert_eq!(first, Some((cause, certainty)), "{what}: {said:#?}");
        assert!(
            findings.is_sorted_by_key(|f| std::cmp::Reverse(f.certainty)),
            "{what}"
        );
    }
}

/// What fragments are fatal to is told beside them, if it is a large part of the GPU.
#[test]
fn one_matrix_that_takes_a_tenth_of_the_gpu_is_told_beside_the_fragments() {
    for (function, file, cause) in [
        ("eager_attention_forward", "bert.py", Cause::AttentionScores),
        (
            "cross_entropy",
            "torch/nn/functional.py",
            Cause::LargeLogits,
        ),
    ] {
        let told = |requested: f64| {
            let report = OomReport {
                stack: printed(&format!("/v/site-packages/{file}"), function).stack,
                ..message(15.78, 1.2, 10.9, 2.7, requested)
            };
            let findings = explained(&report);
            assert_eq!(findings[0].cause, Cause::Fragmentation);
            let told = findings.iter().find(|finding| finding.cause == cause);
            told.map(|finding| finding.certainty)
        };
        assert_eq!(told(3.0), Some(Certainty::Possible), "{function}");
        assert_eq!(told(1.3), None, "{function}");
    }
}

#[test]
fn trainers_outputs_that_accelerate_pads_are_trainers() {
    let report = OomReport {
        stack: [
            ("accelerate/utils/operations.py", "pad_across_processes"),
            ("transformers/trainer.py", "evaluation_loop"),
        ]
        .map(|(file, function)| TracedCall {
            file: format!("/v/site-packages/{file}"),
            line: 7,
            function: function.into(),
            code: String::new(),
        })
        .to_vec(),
        ..printed("", "")
    };
    let first = &explained(&report)[0];
    assert_eq!(first.cause, Cause::EvaluationOutputs);
    assert!(
        first.advice[0]
            .to_string()
            .contains("--eval_accumulation_steps")
    );
}

#[test]
fn jax_is_told_what_it_takes_at_its_start_and_bitsandbytes_where_its_states_are() {
    for (kind, words) in [
        (OomKind::Jax, "XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        (OomKind::Bitsandbytes, "paged_adamw_8bit"),
    ] {
        let report = OomReport {
            kind,
            ..OomReport::default()
        };
        let first = &explained(&report)[0];
        let advice: Vec<String> = first.advice.iter().map(ToString::to_string).collect();
        assert!(advice.iter().any(|said| said.contains(words)), "{advice:?}");
    }
}

#[test]
fn a_message_is_never_given_a_figure_that_it_lacks() {
    for (what, report, ..) in messages() {
        for finding in explained(&report) {
            for Evidence { what: name, .. } in &finding.evidence {
                let known = match name.as_str() {
                    "requested" => report.requested.is_some(),
                    "allocated" => report.allocated.is_some(),
                    "capacity" => report.total.is_some() || report.limit.is_some(),
                    "free" => report.free.is_some(),
                    _ => true,
                };
                assert!(known, "{what}: {name} made up");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the figures: no panic, no empty sentences, and every finding has its numbers.
    #[test]
    fn any_figures_are_explained(
        total in proptest::option::of(0..100u64 << 30),
        free in proptest::option::of(0..100u64 << 30),
        allocated in proptest::option::of(0..100u64 << 30),
        unallocated in proptest::option::of(0..100u64 << 30),
        requested in proptest::option::of(0..100u64 << 30),
        limit in proptest::option::of(0..100u64 << 30),
        process_used in proptest::option::of(0..100u64 << 30),
        others in proptest::collection::vec(proptest::option::of(0..100u64 << 30), 0..3),
    ) {
        let report = OomReport {
            total: total.map(Bytes),
            free: free.map(Bytes),
            allocated: allocated.map(Bytes),
            unallocated: unallocated.map(Bytes),
            requested: requested.map(Bytes),
            limit: limit.map(Bytes),
            process_used: process_used.map(Bytes),
            others: others
                .into_iter()
                .map(|used| OtherProcess { pid: Pid(7), used: used.map(Bytes) })
                .collect(),
            ..OomReport::default()
        };
        for finding in explained(&report) {
            prop_assert!(finding.headline.ends_with('.'), "{}", finding.headline);
            prop_assert!(!finding.explanation.contains("  "), "{}", finding.explanation);
        }
    }
}
