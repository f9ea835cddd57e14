//! The batch argument and the accumulation beside it.

use super::{BATCH, check, check_in, command, outcome, remedy};
use crate::remedy::RemedyInputs;

#[test]
fn abbreviations_are_edited_as_they_are_and_never_doubled() {
    check(
        BATCH,
        &[
            (
                "python run_mlm.py --per_device_tr 6 --gradient_acc 3 --per_device_ev 6",
                "python run_mlm.py --per_device_tr 3 --gradient_acc 6 --per_device_ev 6",
            ),
            (
                "python run_mlm.py --per_device_tr 6 --gradient 3",
                "python run_mlm.py --per_device_tr 3 --gradient_accumulation_steps 2 --gradient 3",
            ),
            (
                "python train.py --data d.yaml --weights w --batch 6",
                "python train.py --data d.yaml --weights w --batch 3",
            ),
            ("python train.py --batch_si 6", "!no batch size"),
        ],
    );
}

#[test]
fn one_name_means_different_things() {
    check(
        BATCH,
        &[
            (
                "python train_text_to_image.py --train_batch_size 6",
                "python train_text_to_image.py --train_batch_size 3 --gradient_accumulation_steps 2",
            ),
            (
                "python run_squad.py --bert_model b --train_batch_size 6",
                "python run_squad.py --bert_model b --train_batch_size 6 --gradient_accumulation_steps 2",
            ),
            (
                "python run_squad.py --bert_model b --train_batch_size=12 --gradient_accumulation_steps=2",
                "python run_squad.py --bert_model b --train_batch_size=12 --gradient_accumulation_steps=4",
            ),
            (
                "python train_sft.py --train_batch_size 64 --micro_train_batch_size 6 --pretrain p",
                "python train_sft.py --train_batch_size 64 --micro_train_batch_size 3 --pretrain p",
            ),
            (
                "python mine.py --train_batch_size 6 --gradient_accumulation_steps 2",
                "!divides",
            ),
            (
                "python mine.py --train_batch_size 6",
                "python mine.py --train_batch_size 3",
            ),
            (
                "python train.py --cfg=stylegan3-t --gpus=2 --batch=32",
                "python train.py --cfg=stylegan3-t --gpus=2 --batch=32 --batch-gpu=8",
            ),
            (
                "python train.py --cfg=stylegan3-t --gpus=4 --batch=16",
                "!--mbstd-group",
            ),
        ],
    );
}

#[test]
fn several_limits_of_one_batch_go_together() {
    check(
        BATCH,
        &[
            (
                "fairseq-train d --max-tokens 800 --batch-size 6",
                "fairseq-train d --max-tokens 400 --batch-size 3 --update-freq 2",
            ),
            (
                "fairseq-train d --max-tokens 800 --tokens-per-sample 512",
                "!--tokens-per-sample",
            ),
            (
                "python -m verl.trainer.main_ppo a.actor.ppo_micro_batch_size_per_gpu=6 critic.ppo_micro_batch_size_per_gpu=1",
                "python -m verl.trainer.main_ppo a.actor.ppo_micro_batch_size_per_gpu=3 critic.ppo_micro_batch_size_per_gpu=1",
            ),
            (
                "python -m verl.trainer.main_ppo a.rollout.log_prob_micro_batch_size_per_gpu=6 data.train_batch_size=9",
                "!no batch size",
            ),
        ],
    );
}

#[test]
fn values_that_are_no_number_are_left() {
    check(
        BATCH,
        &[
            ("yolo train batch=-1", "!fits by itself"),
            ("yolo train batch=0.7", "!fits by itself"),
            (
                "composer train.py c.yaml device_train_microbatch_size=auto",
                "!fits by itself",
            ),
            ("python run.py -m datamodule.batch_size=8,16", "!list"),
            ("python a.py --batch-size $BS", "!no number"),
            ("python a.py --batch-size 1e2", "!no number"),
            ("python a.py --batch-size 064", "!no number"),
            ("python a.py --batch-size 0", "!no number"),
            ("python a.py --batch-size", "!no value"),
            ("python a.py --batch-size --amp", "!no value"),
            ("python a.py --batch-size 1", "!1 already"),
            (
                "python a.py --batch-size 6 --grad-accum auto",
                "!no number of steps",
            ),
            (
                "python a.py --batch-size 99999999999999999999999",
                "!no number",
            ),
        ],
    );
}

#[test]
fn accumulation_in_lists_is_made_longer_in_place() {
    check(
        BATCH,
        &[
            (
                "fairseq-hydra-train dataset.batch_size=6 optimization.update_freq=[3]",
                "fairseq-hydra-train dataset.batch_size=3 optimization.update_freq=[6]",
            ),
            (
                "fairseq-train d --batch-size 6 --update-freq 4,8",
                "fairseq-train d --batch-size 3 --update-freq 8,16",
            ),
            (
                "onmt_train -batch_size 6 -accum_count 2 4 -save_model m",
                "onmt_train -batch_size 3 -accum_count 4 8 -save_model m",
            ),
        ],
    );
}

#[test]
fn of_an_argument_given_twice_the_last_counts() {
    check(
        BATCH,
        &[
            (
                "python a.py --batch-size 6 --lr 1 --batch_size 8",
                "python a.py --batch-size 6 --lr 1 --batch_size 4",
            ),
            ("python a.py --batch-size 6 --bs 8", "!both look like"),
            (
                "python a.py --batch-size 6 --grad-accum 2 --accum-steps 2",
                "!both look like",
            ),
        ],
    );
}

#[test]
fn arguments_that_do_not_count_are_not_touched() {
    check(
        BATCH,
        &[
            ("python cleanrl/ppo.py --batch-size 8", "!overwritten"),
            (
                "accelerate launch sdxl_train.py --dataset_config d.toml --train_batch_size 8",
                "!--dataset_config",
            ),
            (
                "python train.py --resume --data d.yaml --weights w --batch-size 8",
                "!--resume",
            ),
            (
                "python run_glue.py --auto_find_batch_size --per_device_train_batch_size 8",
                "!by itself",
            ),
            (
                "python a.py --batch-size 8 --deepspeed_config d.json",
                "!must agree",
            ),
            ("python a.py --global-batch-size 8", "!total"),
            ("python a.py --run-name batch_size=8", "!no batch size"),
            (
                "python a.py --batch_size 8 --mini_batch_size 2",
                "!--mini_batch_size",
            ),
            (
                "python a.py --test-batch-size 8 --batch_type x --norm batch",
                "!no batch size",
            ),
        ],
    );
}

#[test]
fn odd_batches_say_what_becomes_of_them() {
    let before = command("fairseq-train d --batch-size 15 --update-freq 3");
    let remedy = remedy(&before, BATCH, &RemedyInputs::default());
    assert_eq!(remedy.cost, "effective batch 45 → 42, in 6 parts");
    assert_eq!(remedy.changes, "--batch-size 15→7  --update-freq 3→6");
}

#[test]
fn accumulation_is_added_only_where_its_default_is_known() {
    check(
        BATCH,
        &[
            (
                "python train.py --batch_size=6 --block_size=9",
                "python train.py --batch_size=3 --gradient_accumulation_steps=80 --block_size=9",
            ),
            (
                "python train.py config/x.py --batch_size=6",
                "python train.py config/x.py --batch_size=3",
            ),
            (
                "tune run lora --config c batch_size=6",
                "tune run lora --config c batch_size=3",
            ),
            (
                "axolotl train c.yml --micro-batch-size 6",
                "axolotl train c.yml --micro-batch-size 3",
            ),
            ("python a.py --batch-size 6", "python a.py --batch-size 3"),
            (
                "trl sft --per_device_train_batch_size 6",
                "trl sft --per_device_train_batch_size 3 --gradient_accumulation_steps 2",
            ),
            (
                "trl sft --config c --per_device_train_batch_size 6",
                "trl sft --config c --per_device_train_batch_size 3",
            ),
            (
                "accelerate launch flux_train.py --fused_backward_pass --train_batch_size 6",
                "accelerate launch flux_train.py --fused_backward_pass --train_batch_size 3",
            ),
            (
                "python demo/train.py --batch-size 6",
                "python demo/train.py --batch-size 3 --grad-accum 2",
            ),
        ],
    );
}

#[test]
fn implicit_accumulation_is_left_to_the_program() {
    check(
        BATCH,
        &[
            (
                "torchrun pretrain_gpt.py --micro-batch-size 6 --global-batch-size 96 --hidden-size 8",
                "torchrun pretrain_gpt.py --micro-batch-size 3 --global-batch-size 96 --hidden-size 8",
            ),
            ("yolo train batch=6 nbs=64", "yolo train batch=3 nbs=64"),
            (
                "python ft.py --batch_size 128 --micro_batch_size 6",
                "python ft.py --batch_size 128 --micro_batch_size 3",
            ),
            (
                "mpiexec -n 2 python scripts/image_train.py --batch_size 96 --microbatch -1",
                "mpiexec -n 2 python scripts/image_train.py --batch_size 96 --microbatch 48",
            ),
            (
                "mpiexec -n 2 python scripts/image_train.py --batch_size 96 --microbatch 12",
                "mpiexec -n 2 python scripts/image_train.py --batch_size 96 --microbatch 6",
            ),
        ],
    );
}

#[test]
fn batches_of_all_devices_stay_divisible() {
    check(
        BATCH,
        &[
            (
                "./train_net.py --num-gpus 4 SOLVER.IMS_PER_BATCH 8",
                "./train_net.py --num-gpus 4 SOLVER.IMS_PER_BATCH 4",
            ),
            (
                "./train_net.py --num-gpus 8 SOLVER.IMS_PER_BATCH 8",
                "!split among 8",
            ),
            ("yolo train batch=6 device=0,1", "!split among 2"),
            ("yolo train batch=6 device=3", "yolo train batch=3 device=3"),
            (
                "torchrun --nproc_per_node 4 train.py --model DiT-S/2 --global-batch-size 12",
                "!split among 4",
            ),
        ],
    );
}

#[test]
fn forms_are_kept() {
    check(
        BATCH,
        &[
            (
                "python train.py --sched c --model m -b64",
                "python train.py --sched c --model m -b32 --grad-accum-steps 2",
            ),
            (
                "onmt_train -batch_size 6",
                "onmt_train -batch_size 3 -accum_count 2",
            ),
            (
                "onmt_train --batch_size 6",
                "onmt_train --batch_size 3 --accum_count 2",
            ),
            (
                "python run_mlm.py --per-device-train-batch-size=6",
                "python run_mlm.py --per-device-train-batch-size=3 --gradient-accumulation-steps=2",
            ),
            (
                "python r.py trainer.gpus=1 +data.batch_size=6",
                "python r.py trainer.gpus=1 +data.batch_size=3 ++trainer.accumulate_grad_batches=2",
            ),
            (
                "python -m rl_zoo3.train --env E -params batch_size:6 x:1",
                "python -m rl_zoo3.train --env E -params batch_size:3 x:1",
            ),
            (
                "python main.py fit --data.batch_size=6",
                "python main.py fit --data.batch_size=3 --trainer.accumulate_grad_batches=2",
            ),
        ],
    );
}

#[test]
fn another_scale_keeps_the_effective_batch_as_well_as_it_can() {
    let context = RemedyInputs {
        batch_scale: 0.25,
        ..RemedyInputs::default()
    };
    check_in(
        BATCH,
        &context,
        &[
            (
                "fairseq-train d --batch-size 64",
                "fairseq-train d --batch-size 16 --update-freq 4",
            ),
            ("python a.py --batch-size 3", "python a.py --batch-size 1"),
        ],
    );
}

#[test]
fn a_scale_that_is_none_is_refused() {
    for batch_scale in [0.0, 1.0, -1.0, 2.0, f64::NAN] {
        let context = RemedyInputs {
            batch_scale,
            ..RemedyInputs::default()
        };
        let got = outcome("python a.py --batch-size 8", BATCH, &context);
        assert!(got.contains("no scale"), "{batch_scale}: {got}");
    }
}
