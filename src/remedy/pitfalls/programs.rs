//! Commands as people type them for programs of every kind, and what each remedy makes of them.
//!
//! A row is a command and three outcomes: batch, precision, recomputation. An outcome is `!` and a
//! part of the reason for none; `+ words` added at the end; or `old => new` for the bytes that change,
//! several with `;` between them.

use super::{AMP, BATCH, outcome};
use crate::remedy::{RemedyId, RemedyInputs};

pub(super) type Row = (&'static str, &'static str, &'static str, &'static str);

fn expected(line: &str, outcome: &str) -> String {
    if let Some(words) = outcome.strip_prefix("+ ") {
        return format!("{line} {words}");
    }
    outcome.split(" ; ").fold(line.to_string(), |line, change| {
        let (old, new) = change.split_once(" => ").expect("a change has two sides");
        assert_eq!(line.matches(old).count(), 1, "{old} stands once in {line}");
        line.replacen(old, new, 1)
    })
}

pub(super) fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (line, batch, amp, recompute) in rows {
        for (id, wanted) in [(BATCH, batch), (AMP, amp), (RemedyId::Recompute, recompute)] {
            let got = outcome(line, id, &RemedyInputs::default());
            let fits = match wanted.strip_prefix('!') {
                Some(reason) => got.starts_with('!') && got.contains(reason),
                None => got == expected(line, wanted),
            };
            if !fits {
                wrong.push(format!("{line}\n  {id:?} wanted {wanted}\n  got {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn of_transformers_and_its_kin() {
    check(&[
        (
            "python run_mlm.py --model_name_or_path roberta-base --train_file a.txt --do_train --per_device_train_batch_size 24 --output_dir o --fp16",
            "_size 24 => _size 12 --gradient_accumulation_steps 2",
            "!already on: --fp16",
            "+ --gradient_checkpointing True",
        ),
        (
            "torchrun --standalone --nproc_per_node=4 run_translation.py --source_lang en --target_lang de --per_device_train_batch_size=12 --per_device_eval_batch_size=12 --output_dir=o --do_train --predict_with_generate",
            "train_batch_size=12 => train_batch_size=6 --gradient_accumulation_steps=2",
            "+ --bf16 True",
            "+ --gradient_checkpointing True",
        ),
        (
            "accelerate launch --num_processes 2 --mixed_precision bf16 run_glue_no_trainer.py --task_name mrpc --per_device_train_batch_size 32 --output_dir o",
            "_size 32 => _size 16 --gradient_accumulation_steps 2",
            "!already on: the launcher's",
            "!no argument",
        ),
        (
            "accelerate launch run_image_classification_no_trainer.py --per_device_train_batch_size 48 --gradient_accumulation_steps 2 --output_dir o",
            "_size 48 => _size 24 ; steps 2 => steps 4",
            "launch run => launch --mixed_precision bf16 run",
            "!no argument",
        ),
        (
            "deepspeed --num_gpus=2 run_summarization.py --deepspeed zero2.json --model_name_or_path t5-large --do_train --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --output_dir o --bf16",
            "_size 2 => _size 1 ; steps 8 => steps 16",
            "!already on: --bf16",
            "+ --gradient_checkpointing True",
        ),
        (
            "python my_finetune.py --model_name_or_path x --output_dir o --do_train --learning_rate 1e-5 --logging_steps 5 --save_strategy epoch --num_train_epochs 2 --per_device_train_batch_size 4 --gradient_checkpointing False",
            "_size 4 => _size 2 --gradient_accumulation_steps 2",
            "+ --bf16 True",
            "ing False => ing True",
        ),
        (
            "python trl/scripts/dpo.py --dataset_name d --model_name_or_path m --per_device_train_batch_size 8 --output_dir o --no_gradient_checkpointing",
            "_size 8 => _size 4 --gradient_accumulation_steps 2",
            "!on by default",
            " --no_gradient_checkpointing => ",
        ),
        (
            "trl sft --model_name_or_path m --dataset_name d --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --bf16 False",
            "_size 4 => _size 2 ; steps 4 => steps 8",
            "--bf16 False => --bf16 True",
            "!on by default",
        ),
        (
            "accelerate launch train_dreambooth.py --pretrained_model_name_or_path=m --instance_data_dir=i --output_dir=o --instance_prompt=p --resolution=512 --train_batch_size=2 --gradient_accumulation_steps=1 --gradient_checkpointing --max_train_steps=400",
            "batch_size=2 => batch_size=1 ; steps=1 => steps=2",
            "+ --mixed_precision=bf16",
            "!already on: --gradient_checkpointing",
        ),
        (
            "accelerate launch --mixed_precision=no textual_inversion.py --pretrained_model_name_or_path=m --train_batch_size=4 --max_train_steps=3000 --output_dir=o",
            "batch_size=4 => batch_size=2 --gradient_accumulation_steps=2",
            "+ --mixed_precision=bf16",
            "!not all of its scripts",
        ),
        (
            "accelerate launch sdxl_train_network.py --pretrained_model_name_or_path=m --train_data_dir=d --output_dir=o --output_name=n --network_module=networks.lora --train_batch_size=6 --mixed_precision=fp16 --save_precision=fp16",
            "batch_size=6 => batch_size=3 --gradient_accumulation_steps=2",
            "!already on: --mixed_precision=fp16",
            "+ --gradient_checkpointing",
        ),
        (
            "llamafactory-cli train --stage dpo --do_train --model_name_or_path m --dataset d --template qwen --finetuning_type lora --output_dir o --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --fp16",
            "_size 2 => _size 1 ; steps 4 => steps 8",
            "!already on: --fp16",
            "!on by default",
        ),
        (
            "llamafactory-cli chat examples/inference/qwen.yaml",
            "!not asked to train",
            "!not asked to train",
            "!not asked to train",
        ),
        (
            "llamafactory-cli train a.yaml per_device_train_batch_size=4 gradient_accumulation_steps=2 bf16=false",
            "batch_size=4 => batch_size=2 ; steps=2 => steps=4",
            "bf16=false => bf16=true",
            "!on by default",
        ),
        (
            "swift sft --model m --train_type lora --dataset d --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --torch_dtype bfloat16",
            "_size 4 => _size 2 ; steps 4 => steps 8",
            "!on by default",
            "!on by default",
        ),
        (
            "deepspeed --module openrlhf.cli.train_dpo --micro_train_batch_size 2 --train_batch_size 256 --pretrain m --save_path s --zero_stage 3 --max_len 4096",
            "micro_train_batch_size 2 => micro_train_batch_size 1",
            "+ --bf16",
            "+ --gradient_checkpointing",
        ),
    ]);
}

#[test]
fn of_language_models() {
    check(&[
        (
            "torchrun --standalone --nproc_per_node=2 train.py --batch_size=24 --gradient_accumulation_steps=10 --compile=False --dtype=float32",
            "batch_size=24 => batch_size=12 ; steps=10 => steps=20",
            "dtype=float32 => dtype=bfloat16",
            "!no argument",
        ),
        (
            "python train.py config/finetune.py --batch_size=4",
            "batch_size=4 => batch_size=2",
            "!on by default",
            "!no argument",
        ),
        (
            "torchrun --nproc_per_node 8 pretrain_bert.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 6 --global-batch-size 96 --train-iters 1000 --save c --load c",
            "micro-batch-size 6 => micro-batch-size 3",
            "+ --bf16",
            "+ --recompute-activations",
        ),
        (
            "torchrun --nproc_per_node 4 -m torchtitan.train --job.config_file c.toml --training.local_batch_size 2 --activation_checkpoint.mode full",
            "batch_size 2 => batch_size 1",
            "!on by default",
            "!already on: --activation_checkpoint.mode full",
        ),
        (
            "torchrun --nproc_per_node 8 pretrain_t5.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 --micro-batch-size 16 --global-batch-size 128 --train-iters 10 --bf16 --recompute-granularity full --recompute-method uniform",
            "micro-batch-size 16 => micro-batch-size 8",
            "!already on: --bf16",
            "!already on: --recompute-granularity",
        ),
        (
            "fairseq-train data-bin/wmt --arch transformer_vaswani_wmt_en_de_big --optimizer adam --lr 5e-4 --criterion label_smoothed_cross_entropy --max-tokens 3584 --update-freq 16 --save-dir c",
            "max-tokens 3584 => max-tokens 1792 ; freq 16 => freq 32",
            "+ --fp16",
            "!only some",
        ),
        (
            "fairseq-hydra-train task.data=/d dataset.max_tokens=4096 optimization.update_freq=[4] --config-dir examples --config-name base",
            "max_tokens=4096 => max_tokens=2048 ; freq=[4] => freq=[8]",
            "!configuration",
            "!configuration",
        ),
        (
            "onmt_train -config c.yaml -batch_size 64 -accum_count 4",
            "-batch_size 64 => -batch_size 32 ; count 4 => count 8",
            "+ -model_dtype fp16",
            "!only its current versions",
        ),
        (
            "axolotl train c.yml --micro-batch-size=8 --gradient-accumulation-steps=1 --num-epochs=2",
            "batch-size=8 => batch-size=4 ; steps=1 => steps=2",
            "+ --bf16 auto",
            "+ --gradient-checkpointing true",
        ),
        (
            "axolotl inference c.yml --lora-model-dir o",
            "!not asked to train",
            "!not asked to train",
            "!not asked to train",
        ),
        (
            "tune run --nproc_per_node 2 full_finetune_distributed --config llama3/8B_full batch_size=4 gradient_accumulation_steps=8 dtype=fp32",
            "batch_size=4 => batch_size=2 ; steps=8 => steps=16",
            "dtype=fp32 => dtype=bf16",
            "!configuration",
        ),
        (
            "tune run lora_dpo_single_device --config c batch_size=6 enable_activation_checkpointing=False",
            "batch_size=6 => batch_size=3",
            "!configuration",
            "ing=False => ing=True",
        ),
        (
            "litgpt pretrain pythia-160m --train.micro_batch_size 8 --train.global_batch_size 512 --precision bf16-mixed",
            "micro_batch_size 8 => micro_batch_size 4",
            "!already on: --precision bf16-mixed",
            "!on by default",
        ),
        (
            "torchrun --nproc_per_node 2 -m torchtitan.train --job.config_file c.toml --training.local_batch_size=6 --activation_checkpoint.mode=none",
            "batch_size=6 => batch_size=3",
            "!on by default",
            "mode=none => mode=full",
        ),
        (
            "composer -n 8 train.py y.yaml device_train_microbatch_size=32 precision=fp32",
            "size=32 => size=16",
            "precision=fp32 => precision=amp_bf16",
            "!configuration",
        ),
        (
            "python3 -m verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=8 data.train_batch_size=64 model.enable_gradient_checkpointing=True",
            "per_gpu=8 => per_gpu=4",
            "!on by default",
            "!already on",
        ),
        (
            "python run_squad.py --bert_model=bert-large-uncased --do_train --train_batch_size=12 --gradient_accumulation_steps=3 --fp16",
            "steps=3 => steps=6",
            "!already on: --fp16",
            "!no argument",
        ),
    ]);
}

#[test]
fn of_speech_of_lightning_and_of_nobody_known() {
    check(&[
        (
            "python main.py fit --data.batch_size=64 --trainer.max_epochs=5 --trainer.precision=32-true",
            "batch_size=64 => batch_size=32 --trainer.accumulate_grad_batches=2",
            "precision=32-true => precision=bf16-mixed",
            "!no argument",
        ),
        (
            "python main.py test --data.batch_size 64 --trainer.devices 1 --ckpt_path last",
            "!not asked to train",
            "!not asked to train",
            "!not asked to train",
        ),
        (
            "python src/train.py trainer=gpu data.batch_size=128 trainer.max_epochs=3",
            "batch_size=128 => batch_size=64 ++trainer.accumulate_grad_batches=2",
            "+ ++trainer.precision=bf16-mixed",
            "!no argument",
        ),
        (
            "python megatron_gpt_pretraining.py trainer.devices=8 trainer.precision=32 model.micro_batch_size=4 model.global_batch_size=256",
            "micro_batch_size=4 => micro_batch_size=2",
            "precision=32 => precision=bf16-mixed",
            "!no argument",
        ),
        (
            "python -m espnet2.bin.asr_train --config c.yaml --batch_bins 8000000 --accum_grad 2 --output_dir e",
            "bins 8000000 => bins 4000000 ; grad 2 => grad 4",
            "+ --use_amp true",
            "!no argument",
        ),
        (
            "./pruned_transducer_stateless7/train.py --world-size 4 --num-epochs 30 --exp-dir e --max-duration 600 --use-fp16 0",
            "duration 600 => duration 300",
            "fp16 0 => fp16 1",
            "!no argument",
        ),
        (
            "python train.py hparams/train.yaml --data_folder /d --batch_size 12 --precision=fp32",
            "batch_size 12 => batch_size 6",
            "precision=fp32 => precision=bf16",
            "!no argument",
        ),
        (
            "python train.py --coqpit.batch_size=64 --coqpit.eval_batch_size=16 --coqpit.run_name=r",
            "coqpit.batch_size=64 => coqpit.batch_size=32 --grad_accum_steps=2",
            "+ --coqpit.mixed_precision=true",
            "!no argument",
        ),
        (
            "rave train --config v2 --db_path d --name n --batch 16",
            "--batch 16 => --batch 8",
            "!no argument",
            "!no argument",
        ),
        (
            "python -m rl_zoo3.train --algo sac --env Pendulum-v1 -params batch_size:256 gamma:0.98",
            "batch_size:256 => batch_size:128",
            "!no argument",
            "!no argument",
        ),
        (
            "python train_gan.py --bs 48 --val-bs 48 --grad_acc 2 --num-workers 6",
            "--bs 48 => --bs 24 ; acc 2 => acc 4",
            "!no argument",
            "!no argument",
        ),
        (
            "python fit.py --batch-size 20 --use_amp False --use-gradient-checkpointing false",
            "size 20 => size 10",
            "amp False => amp True",
            "checkpointing false => checkpointing true",
        ),
        (
            "python fit.py --batch-size 20 --precision 16 --use_checkpoint False",
            "size 20 => size 10",
            "!already on",
            "!not known",
        ),
        (
            "python fit.py --batch_size 20 --eval_batch_size 20 --minibatch_size 5",
            "!not known",
            "!no argument",
            "!no argument",
        ),
        (
            "python fit.py --global_batch_size 256 --micro_batch_size 8 --no-amp",
            "micro_batch_size 8 => micro_batch_size 4",
            " --no-amp => ",
            "!no argument",
        ),
        (
            "python fit.py --global_batch_size 256",
            "!is a total",
            "!no argument",
            "!no argument",
        ),
        (
            "uv run --with torch -- python fit.py -b 6 --grad-accum 1",
            "-b 6 => -b 3 ; accum 1 => accum 2",
            "!no argument",
            "!no argument",
        ),
        (
            "conda run -n ml python -u fit.py +train.batch_size=10 optim.lr=0.1",
            "batch_size=10 => batch_size=5",
            "!no argument",
            "!no argument",
        ),
        (
            "sh -c 'python fit.py --batch-size 8'",
            "!one string for a shell",
            "!one string for a shell",
            "!one string for a shell",
        ),
        (
            "python evaluate.py --batch-size 64",
            "!no training",
            "!no training",
            "!no training",
        ),
        (
            "python fit.py --batch-size 64 --eval-only",
            "!only evaluates",
            "!only evaluates",
            "!only evaluates",
        ),
        (
            "ssh gpu1 python fit.py --batch-size 64",
            "!another machine",
            "!another machine",
            "!another machine",
        ),
    ]);
}
