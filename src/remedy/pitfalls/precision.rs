//! Precision: booleans of three grammars, switches that are off, places for additions.

use super::{AMP, BATCH, check, check_in};
use crate::remedy::RemedyInputs;

#[test]
fn additions_go_where_they_belong() {
    check(
        AMP,
        &[
            (
                "axolotl train c.yml --learning-rate 2 -- --nproc_per_node=3",
                "axolotl train c.yml --learning-rate 2 --bf16 auto -- --nproc_per_node=3",
            ),
            (
                "python tools/train.py -f e.py -b 8 wandb-project p",
                "python tools/train.py --fp16 -f e.py -b 8 wandb-project p",
            ),
            (
                "./train_net.py --config-file c --resume SOLVER.BASE_LR 0.1",
                "./train_net.py --config-file c --resume SOLVER.BASE_LR 0.1 SOLVER.AMP.ENABLED True",
            ),
            (
                "accelerate launch my_no_trainer.py --seed 1",
                "accelerate launch --mixed_precision bf16 my_no_trainer.py --seed 1",
            ),
            (
                "torchrun my_no_trainer.py --seed 1",
                "!only `accelerate launch`",
            ),
        ],
    );
    check(
        BATCH,
        &[(
            "python tools/train.py configs/m.py --cfg-options train_dataloader.batch_size=6 a.b=1 --seed 1",
            "python tools/train.py configs/m.py --cfg-options train_dataloader.batch_size=3 optim_wrapper.accumulative_counts=2 a.b=1 --seed 1",
        )],
    );
}

#[test]
fn booleans_are_written_in_the_programs_grammar() {
    check(
        AMP,
        &[
            (
                "python run_mlm.py --seed=1",
                "python run_mlm.py --seed=1 --bf16 True",
            ),
            ("python run_mlm.py --bf16 --seed 1", "!already on: --bf16"),
            ("python run_mlm.py --fp16=True", "!already on"),
            (
                "python run_mlm.py --bf16 False --fp16 False",
                "python run_mlm.py --bf16 True --fp16 False",
            ),
            (
                "python run_mlm.py --fp16 false",
                "python run_mlm.py --fp16 false --bf16 True",
            ),
            (
                "python main.py --update_freq 2 --drop_path 1 --model m",
                "python main.py --update_freq 2 --drop_path 1 --model m --use_amp true",
            ),
            (
                "python main_dino.py --use_fp16 false",
                "python main_dino.py --use_fp16 true",
            ),
            (
                "./zipformer/train.py --max-duration 9 --exp-dir e --use-fp16 0",
                "./zipformer/train.py --max-duration 9 --exp-dir e --use-fp16 1",
            ),
            ("python mine.py --amp False", "python mine.py --amp True"),
            ("python mine.py --amp=0", "python mine.py --amp=1"),
            (
                "python mine.py --use_amp no",
                "python mine.py --use_amp yes",
            ),
        ],
    );
}

#[test]
fn off_switches_are_turned_around_and_defaults_respected() {
    check(
        AMP,
        &[
            (
                "python main.py --roi_x 1 --feature_size 2 --noamp --fold 0",
                "python main.py --roi_x 1 --feature_size 2 --fold 0",
            ),
            (
                "python main.py --cfg c.yaml --data-path d --disable_amp",
                "python main.py --cfg c.yaml --data-path d",
            ),
            (
                "python train.py --cfg=stylegan2 --gpus=1 --fp32=1 --batch=8",
                "python train.py --cfg=stylegan2 --gpus=1 --batch=8",
            ),
            (
                "python train.py --cfg=stylegan2 --gpus=1 --fp32 true --batch=8",
                "python train.py --cfg=stylegan2 --gpus=1 --batch=8",
            ),
            ("yolo train amp=False", "yolo train amp=True"),
            ("yolo train", "!on by default"),
            (
                "python -m open_clip_train.main --precision fp32",
                "python -m open_clip_train.main --precision amp_bf16",
            ),
            (
                "litgpt pretrain m --precision 32-true",
                "litgpt pretrain m --precision bf16-mixed",
            ),
            ("trl dpo", "!on by default"),
            (
                "python train.py --dtype=float32 --n_layer=2",
                "python train.py --dtype=bfloat16 --n_layer=2",
            ),
            ("python mine.py --no-amp x", "python mine.py x"),
            (
                "python mine.py --mixed_precision=no",
                "python mine.py --mixed_precision=bf16",
            ),
        ],
    );
}

#[test]
fn what_is_no_precision_switch_is_not_taken_for_one() {
    check(
        AMP,
        &[
            (
                "accelerate launch sdxl_train.py --save_precision fp16",
                "accelerate launch sdxl_train.py --save_precision fp16 --mixed_precision bf16",
            ),
            (
                "fairseq-train d --fp16-init-scale 4",
                "fairseq-train d --fp16-init-scale 4 --fp16",
            ),
            (
                "python mine.py --save_precision fp16 --bnb_4bit_compute_dtype bfloat16",
                "!no argument for a precision",
            ),
            ("python mine.py --precision 32", "!not known"),
            ("python mine.py --dtype float32", "!not known"),
            ("python mine.py --fp16 False", "!not known"),
            (
                "python mine.py --batch-size 8",
                "!no argument for a precision",
            ),
        ],
    );
}

#[test]
fn fp16_stands_in_where_the_device_has_no_bf16() {
    let context = RemedyInputs {
        bf16: Some(false),
        ..RemedyInputs::default()
    };
    check_in(
        AMP,
        &context,
        &[
            (
                "python run_mlm.py --seed 1",
                "python run_mlm.py --seed 1 --fp16 True",
            ),
            ("tune run lora --config c dtype=fp32", "!no bf16"),
            (
                "python mine.py --mixed_precision no",
                "python mine.py --mixed_precision fp16",
            ),
            (
                "python train.py --sched c --model m",
                "python train.py --sched c --model m --amp",
            ),
        ],
    );
}

#[test]
fn versions_are_told_by_the_company_they_keep() {
    check(
        AMP,
        &[
            (
                "python r.py trainer.gpus=1",
                "python r.py trainer.gpus=1 ++trainer.precision=bf16",
            ),
            (
                "python r.py trainer.devices=1",
                "python r.py trainer.devices=1 ++trainer.precision=bf16-mixed",
            ),
            (
                "python main.py fit --trainer.gpus 1",
                "python main.py fit --trainer.gpus 1 --trainer.precision bf16",
            ),
            (
                "python train.py -m WaveGlow -bs 8 --segment-length 9",
                "!by its version",
            ),
        ],
    );
}
