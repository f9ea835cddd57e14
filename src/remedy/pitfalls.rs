//! What goes wrong in editing real commands, one table for each kind of trap. A right side with `!`
//! is a remedy that is not offered, and a part of its reason.

use super::{Availability, Context, Plan, Remedy, RemedyId, recognise, remedies};
use crate::command::{CommandLine, EnvChange, Word};

/// A command as a person types it; words `NAME=VALUE` in front are environment.
fn command(line: &str) -> CommandLine {
    let words = shlex::split(line).expect("a command of a test is quoted right");
    let typed = words
        .iter()
        .take_while(|word| super::launcher::is_assignment(word))
        .count();
    CommandLine {
        argv: words[typed..].iter().map(Word::from).collect(),
        env: words[..typed]
            .iter()
            .map(|word| {
                let (name, value) = word.split_once('=').unwrap();
                EnvChange {
                    name: Word::from(name),
                    value: Some(Word::from(value)),
                }
            })
            .collect(),
        cwd: "/work".into(),
    }
}

fn remedy(command: &CommandLine, id: RemedyId, context: &Context<'_>) -> Remedy {
    remedies(command, context)
        .into_iter()
        .find(|remedy| remedy.id == id)
        .unwrap()
}

fn outcome(line: &str, id: RemedyId, context: &Context<'_>) -> String {
    let before = command(line);
    let remedy = remedy(&before, id, context);
    match &remedy.availability {
        Availability::NotOffered(reason) => format!("!{reason}"),
        Availability::Offered => {
            let after = Plan::of(&before, &[&remedy]).command;
            let set = after.env.iter().map(|change| {
                let value = change.value.as_ref().unwrap().to_string_lossy();
                format!("{}={value}", change.name.to_string_lossy())
            });
            let words = after.argv.iter().map(Word::to_string_lossy);
            set.chain(words).collect::<Vec<_>>().join(" ")
        }
    }
}

fn check(id: RemedyId, cases: &[(&str, &str)]) {
    check_in(id, &Context::default(), cases);
}

fn check_in(id: RemedyId, context: &Context<'_>, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let got = outcome(line, id, context);
        match expected.strip_prefix('!') {
            Some(reason) => assert!(
                got.starts_with('!') && got.contains(reason),
                "{line}\n  wanted no offer: {reason}\n  got {got}"
            ),
            None => assert_eq!(&got, expected, "{line}"),
        }
    }
}

const BATCH: RemedyId = RemedyId::Batch;
const AMP: RemedyId = RemedyId::Amp;
const SEGMENTS: RemedyId = RemedyId::ExpandableSegments;

#[test]
fn options_of_launchers_are_never_the_programs() {
    check(
        BATCH,
        &[
            (
                "torchrun --nproc_per_node 6 a.py --batch-size 6",
                "torchrun --nproc_per_node 6 a.py --batch-size 3",
            ),
            (
                "mpirun -n 6 -x A -mca btl ^x python a.py -b 6",
                "mpirun -n 6 -x A -mca btl ^x python a.py -b 3",
            ),
            (
                "nice -n 6 python a.py --bs=6",
                "nice -n 6 python a.py --bs=3",
            ),
            (
                "srun -N1 -n6 --pty python -u -m pkg.a --bs 6",
                "srun -N1 -n6 --pty python -u -m pkg.a --bs 3",
            ),
            (
                "conda run -n e --live-stream a --batch-size 6",
                "conda run -n e --live-stream a --batch-size 3",
            ),
            (
                "uv run --python 3.12 --with x==6 a.py --bs 6",
                "uv run --python 3.12 --with x==6 a.py --bs 3",
            ),
            (
                "timeout -k 6 6 python a.py --bs 6",
                "timeout -k 6 6 python a.py --bs 3",
            ),
            (
                "docker run --gpus 6 -v /a:/b --rm im:6 --batch-size 6",
                "docker run --gpus 6 -v /a:/b --rm im:6 --batch-size 3",
            ),
            (
                "docker run im python a.py --bs 6",
                "docker run im python a.py --bs 3",
            ),
            (
                "python -X dev -W ignore -m torch.distributed.run --nproc-per-node=6 a.py --bs 6",
                "python -X dev -W ignore -m torch.distributed.run --nproc-per-node=6 a.py --bs 3",
            ),
            (
                "nohup env K=6 stdbuf -oL accelerate launch --num_processes 6 -m p.a --bs 6",
                "nohup env K=6 stdbuf -oL accelerate launch --num_processes 6 -m p.a --bs 3",
            ),
            (
                "deepspeed --include localhost:6 a.py --batch_size 6",
                "deepspeed --include localhost:6 a.py --batch_size 3",
            ),
            (
                "time -p numactl -N 6 /opt/py/bin/python3.11 a.py --bs 6",
                "time -p numactl -N 6 /opt/py/bin/python3.11 a.py --bs 3",
            ),
        ],
    );
}

#[test]
fn launchers_and_programs_are_named() {
    let cases: [(&str, &[&str], &str); 6] = [
        ("torchrun --standalone a.py", &["torchrun"], "a.py"),
        (
            "tune run --nproc_per_node 2 lora --config c",
            &["tune run"],
            "lora",
        ),
        (
            "srun -n 2 apptainer exec --nv i.sif python a.py",
            &["srun", "apptainer exec"],
            "a.py",
        ),
        (
            "poetry run accelerate launch a.py",
            &["poetry run", "accelerate launch"],
            "a.py",
        ),
        ("bash -x run.sh 3", &[], "run.sh"),
        (
            "torchrun --no-python ./tool --bs 2",
            &["torchrun"],
            "./tool",
        ),
    ];
    for (line, launchers, program) in cases {
        let command = command(line);
        let found = recognise(&command);
        let names: Vec<&str> = found.launchers().iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, launchers, "{line}");
        assert_eq!(command.argv[found.anatomy.program], *program, "{line}");
    }
}

#[test]
fn of_one_flag_in_launcher_and_script_the_scripts_is_edited() {
    check(
        AMP,
        &[
            (
                "accelerate launch --mixed_precision no train_unconditional.py --mixed_precision=no",
                "accelerate launch --mixed_precision no train_unconditional.py --mixed_precision=bf16",
            ),
            (
                "accelerate launch --mixed_precision=no my_no_trainer.py --seed 1",
                "accelerate launch --mixed_precision=bf16 my_no_trainer.py --seed 1",
            ),
            (
                "accelerate launch --mixed_precision fp16 a.py",
                "!already on: the launcher",
            ),
        ],
    );
}

#[test]
fn what_cannot_be_edited_is_left_alone() {
    check(
        BATCH,
        &[
            (
                "bash -c 'python a.py --batch-size 8'",
                "!one string for a shell",
            ),
            ("sh ./go.sh", "!inside go.sh"),
            ("python -c 'import a' --batch-size 8", "!piece of code"),
            ("make train BATCH_SIZE=8", "!cannot be told"),
            ("ssh box python a.py --batch-size 8", "!another machine"),
            (
                "hf jobs run im python a.py --batch-size 8",
                "!another machine",
            ),
            (
                "python run_with_submitit.py --batch_size 8",
                "!submits jobs",
            ),
            ("yolo val batch=8", "!not asked to train"),
            ("python validate.py --batch-size 8", "!no training"),
            ("python main.py --eval --batch_size 8", "!only evaluates"),
            ("nnUNetv2_train 3 2d 0", "!plans"),
            ("", "!no program"),
            ("nohup", "!no program"),
        ],
    );
    check(
        SEGMENTS,
        &[
            ("ssh box python a.py", "!another machine"),
            ("", "!no program"),
        ],
    );
}

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
fn arguments_inside_one_word_stay_there() {
    check(
        BATCH,
        &[
            (
                "./asr.sh --ngpu 1 --asr_args '--batch_bins 90 --accum_grad 3'",
                "./asr.sh --ngpu 1 --asr_args --batch_bins 45 --accum_grad 6",
            ),
            (
                "./asr.sh --asr_args '--batch_bins 90 --x \"a b\"'",
                "!cannot be told apart",
            ),
            ("./asr.sh --ngpu 1", "!no --asr_args"),
            (
                "python train.py -o d --hparams=lr=1,batch_size=12,x=3",
                "python train.py -o d --hparams=lr=1,batch_size=6,x=3",
            ),
        ],
    );
    let before = command("./asr.sh --asr_args '--batch_size 12'");
    let all = remedies(&before, &Context::default());
    let chosen: Vec<&Remedy> = all.iter().collect();
    assert_eq!(
        Plan::of(&before, &chosen).command.argv[2],
        "--batch_size 6 --accum_grad 2 --use_amp true",
        "edits of two remedies in one word"
    );
}

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
                "python a.py --test-batch-size 8 --batch_type x --norm batch",
                "!no batch size",
            ),
        ],
    );
}

#[test]
fn odd_batches_say_what_becomes_of_them() {
    let before = command("fairseq-train d --batch-size 15 --update-freq 3");
    let remedy = remedy(&before, BATCH, &Context::default());
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
    let context = Context {
        bf16: Some(false),
        ..Context::default()
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

#[test]
fn scripts_of_common_names_are_not_taken_for_programs_they_are_not() {
    // Nothing may be added here: these are somebody's own scripts.
    for line in [
        "python train.py --model resnet18 --batch-size 64 --lr 0.1",
        "python train.py --model resnet18 --data-dir d --batch-size 64",
        "python train.py --batch_size=64 --device=cuda --epochs=3",
        "python train.py --config c.json --batch-size 64 --name n",
        "python train.py configs/a.py --batch-size 64",
        "python train.py --logging_steps 5 --save_steps 5 --batch_size 64 --output_dir o",
        "python main.py --model m --drop_path 0.1 --batch_size 64",
        "python main.py --cfg c.yaml --batch-size 64",
        "python train_network.py --dataset d --batch-size 64",
        "python tools/train.py --batch 64 --conf configs/a.py --data data/x.yaml --device 0",
        "python train.py --lr-scheduler step --lr-gamma 0.1 --batch-size 64",
    ] {
        let halved = line.replace("64", "32");
        assert_eq!(outcome(line, BATCH, &Context::default()), halved);
        assert!(
            outcome(line, AMP, &Context::default()).starts_with('!'),
            "{line}"
        );
    }
}

#[test]
fn strange_words_come_back_as_they_were() {
    let line = r#"python a.py --weights '' - -2 'a b' '(0.9, 0.98)' '{"k": 1}' 'p{0..9}' '<|e|>' '~' 'x=y=z' --batch-size 8"#;
    let before = command(line);
    let remedy = remedy(&before, BATCH, &Context::default());
    let after = Plan::of(&before, &[&remedy]).command;
    let last = before.argv.len() - 1;
    assert_eq!(after.argv[..last], before.argv[..last]);
    assert_eq!(after.argv[last], "4");
}

#[test]
fn settings_in_the_environment_are_edited_where_they_stand() {
    check(
        BATCH,
        &[
            (
                "A=1 BATCH_SIZE=8 GRAD_ACCUM=2 python a.py",
                "A=1 BATCH_SIZE=4 GRAD_ACCUM=4 python a.py",
            ),
            (
                "env BATCH_SIZE=8 python a.py",
                "env BATCH_SIZE=4 python a.py",
            ),
            ("BATCH_SIZE=8 python a.py --batch-size 4", "!both there"),
            ("EVAL_BATCH_SIZE=8 python a.py", "!no batch size"),
        ],
    );
}

#[test]
fn a_part_of_a_job_gets_its_command_to_copy_but_no_key() {
    for line in [
        "torchrun --nnodes 2 --node_rank 0 a.py --batch-size 8",
        "accelerate launch --machine_rank 1 a.py --batch-size 8",
        "NNODES=2 NODE_RANK=0 ./go --batch-size 8",
    ] {
        let before = command(line);
        let remedy = remedy(&before, BATCH, &Context::default());
        assert!(
            matches!(&remedy.availability, Availability::NotOffered(why) if why.contains("part of a job")),
            "{line}"
        );
        let after = Plan::of(&before, &[&remedy]).command;
        assert_eq!(after.argv.last(), Some(&Word::from("4")), "{line}");
    }
    check(
        BATCH,
        &[(
            "torchrun --nnodes=1:1 a.py --bs 8",
            "torchrun --nnodes=1:1 a.py --bs 4",
        )],
    );
}

#[test]
fn allocator_settings_reach_the_training() {
    const ON: &str = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    let typed = "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8 python a.py";
    check(
        SEGMENTS,
        &[
            ("python a.py", &format!("{ON} python a.py")),
            (
                typed,
                "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8,expandable_segments:True python a.py",
            ),
            (
                "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False python a.py",
                &format!("env {ON} python a.py"),
            ),
            (&format!("{ON} python a.py"), "!set already"),
            (
                "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 python a.py",
                "!does not go together",
            ),
            (
                "docker run --rm im python a.py",
                &format!("docker run -e {ON} --rm im python a.py"),
            ),
            (
                "docker run -e PYTORCH_CUDA_ALLOC_CONF=backend:native im",
                "docker run -e PYTORCH_CUDA_ALLOC_CONF=backend:native,expandable_segments:True im",
            ),
            ("sudo python a.py", "!does not pass the environment on"),
            ("env -i python a.py", "!clears its environment"),
            ("srun --export=NONE python a.py", "!clears its environment"),
        ],
    );
}

#[test]
fn another_scale_keeps_the_effective_batch_as_well_as_it_can() {
    let context = Context {
        batch_scale: 0.25,
        ..Context::default()
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
