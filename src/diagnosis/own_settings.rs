//! What helps most trainings, in the words of the program that trains, where the traceback shows which one it is: something to
//! type or to write into its configuration. Without one of these the plain words are given.

use super::Phrase;
use super::finding::because;
use super::situation::CallStack;

/// A program's own settings.
struct OwnSettings {
    /// Parts of its files' paths.
    files: &'static [&'static str],
    /// A smaller batch with the same effective one.
    batch: &'static str,
    /// bf16 or the program's own mixed precision; empty where it is on anyhow.
    precision: &'static str,
    /// Activations that are computed again; or what else saves as much.
    recompute: &'static str,
}

/// Programs that are built upon others come first.
const PROGRAMS: [OwnSettings; 13] = [
    OwnSettings {
        files: &["/axolotl/"],
        batch: "micro_batch_size halved, gradient_accumulation_steps doubled in the YAML",
        precision: "bf16: true",
        recompute: "gradient_checkpointing: true",
    },
    OwnSettings {
        files: &["/llamafactory/", "/llmtuner/"],
        batch: "per_device_train_batch_size halved, gradient_accumulation_steps doubled in the YAML",
        precision: "bf16: true",
        recompute: "cutoff_len shorter: its checkpointing is on already",
    },
    OwnSettings {
        files: &["/verl/"],
        batch: "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 (the mini-batch stays)",
        precision: "",
        recompute: "actor_rollout_ref.model.enable_gradient_checkpointing=True",
    },
    OwnSettings {
        files: &["/openrlhf/"],
        batch: "--micro_train_batch_size halved (--train_batch_size stays)",
        precision: "--bf16",
        recompute: "--gradient_checkpointing",
    },
    OwnSettings {
        files: &["/torchtune/"],
        batch: "batch_size=1 gradient_accumulation_steps=N",
        precision: "dtype=bf16",
        recompute: "enable_activation_checkpointing=True",
    },
    OwnSettings {
        files: &["/torchtitan/"],
        batch: "--training.local_batch_size 1 (--training.global_batch_size stays)",
        precision: "",
        recompute: "--activation_checkpoint.mode full",
    },
    OwnSettings {
        files: &["/megatron/", "/Megatron-LM/"],
        batch: "--micro-batch-size halved (--global-batch-size stays)",
        precision: "--bf16",
        recompute: "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    },
    OwnSettings {
        files: &["/ultralytics/"],
        batch: "batch=8, or half of what it is (nbs keeps the effective batch)",
        precision: "",
        recompute: "a smaller imgsz: 0.7 times the side is half the pixels, and about half the memory",
    },
    OwnSettings {
        files: &["/fairseq/"],
        batch: "--max-tokens (or --batch-size) halved, --update-freq doubled",
        precision: "--fp16",
        recompute: "--checkpoint-activations",
    },
    OwnSettings {
        files: &["/mmengine/", "/mmcv/", "/mmdet/", "/mmseg/"],
        batch: "train_dataloader.batch_size (samples_per_gpu before 3.0) halved, optim_wrapper.accumulative_counts=2",
        precision: "--amp",
        recompute: "with_cp=True in the backbone; gpu_assign_thr=100 in the assigner for images with many boxes",
    },
    OwnSettings {
        files: &["/detectron2/"],
        batch: "SOLVER.IMS_PER_BATCH halved",
        precision: "SOLVER.AMP.ENABLED True",
        recompute: "INPUT.MIN_SIZE_TRAIN smaller",
    },
    OwnSettings {
        files: &["/transformers/trainer", "/trl/trainer/"],
        batch: "--per_device_train_batch_size halved, --gradient_accumulation_steps doubled",
        precision: "--bf16",
        recompute: "--gradient_checkpointing",
    },
    OwnSettings {
        files: &["/pytorch_lightning/", "/lightning/pytorch/"],
        batch: "the DataLoader's batch_size halved, Trainer(accumulate_grad_batches=2)",
        precision: "Trainer(precision=\"bf16-mixed\")",
        recompute: "torch.utils.checkpoint around the model's blocks",
    },
];

/// What to set, of a program that is on the stack.
pub(super) fn advice(stack: &CallStack<'_>) -> Option<Vec<Phrase>> {
    let is_there = |program: &&OwnSettings| program.files.iter().any(|part| stack.is_through(part));
    let program = PROGRAMS.iter().find(is_there)?;
    let rows = [
        ("a smaller batch, the effective one stays", program.batch),
        ("mixed precision", program.precision),
        ("less to keep for the backward pass", program.recompute),
    ];
    let said = rows.into_iter().filter(|(_, setting)| !setting.is_empty());
    Some(said.map(|(what, setting)| because(what, setting)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SourceLine;

    fn said(files: &[&str]) -> Option<String> {
        let calls: Vec<SourceLine> = files
            .iter()
            .map(|file| SourceLine {
                file: (*file).into(),
                line: 3,
                function: "forward".into(),
            })
            .collect();
        let advice = advice(&CallStack::of_lines(calls.iter()))?;
        advice.first().map(|first| first.to_string())
    }

    #[test]
    fn the_program_that_is_built_upon_another_one_decides() {
        let trainer = "/v/site-packages/transformers/trainer.py";
        let by_trainer = said(&["/srv/net.py", trainer]).expect("Trainer's");
        assert!(
            by_trainer.contains("--per_device_train_batch_size"),
            "{by_trainer}"
        );
        let axolotl = said(&[trainer, "/workspace/src/axolotl/train.py"]).expect("axolotl's");
        assert!(axolotl.contains("micro_batch_size"), "{axolotl}");
        assert_eq!(
            said(&["/srv/net.py", "/srv/transformers_of_mine/fit.py"]),
            None
        );
    }

    #[test]
    fn windows_paths_are_read_as_well() {
        let file = r"C:\v\Lib\site-packages\ultralytics\engine\trainer.py";
        assert!(said(&[file]).expect("Ultralytics'").contains("batch=8"));
    }
}
