//! Launchers, words that are no arguments, programs that are not what they seem.

use super::{AMP, BATCH, SEGMENTS, check, command, outcome, remedy};
use crate::command::Word;
use crate::recognize::LaunchEnvironment;
use crate::recognize::recognise;
use crate::remedy::{Availability, Plan, Remedy, RemedyInputs, remedies};

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
                "docker run -itd im python a.py --bs 6",
                "docker run -itd im python a.py --bs 3",
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
        let found = recognise(&command, &LaunchEnvironment::default());
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
    let all = remedies(&before, &RemedyInputs::default());
    let chosen: Vec<&Remedy> = all.iter().collect();
    assert_eq!(
        Plan::of(&before, &chosen).command.argv[2],
        "--batch_size 6 --accum_grad 2 --use_amp true",
        "edits of two remedies in one word"
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
        assert_eq!(outcome(line, BATCH, &RemedyInputs::default()), halved);
        assert!(
            outcome(line, AMP, &RemedyInputs::default()).starts_with('!'),
            "{line}"
        );
    }
}

#[test]
fn strange_words_come_back_as_they_were() {
    let line = r#"python a.py --weights '' - -2 'a b' '(0.9, 0.98)' '{"k": 1}' 'p{0..9}' '<|e|>' '~' 'x=y=z' --batch-size 8"#;
    let before = command(line);
    let remedy = remedy(&before, BATCH, &RemedyInputs::default());
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
        let remedy = remedy(&before, BATCH, &RemedyInputs::default());
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
            (
                "env -u PYTORCH_CUDA_ALLOC_CONF python a.py",
                "!clears its environment",
            ),
            (
                "srun --export=HOME,A=1 python a.py",
                "!clears its environment",
            ),
            ("srun --export=NONE python a.py", "!clears its environment"),
        ],
    );
}

#[test]
fn settings_of_the_users_own_go_where_the_training_sees_them() {
    let inherited = crate::recognize::alloc_conf::Inherited {
        cuda: Some("garbage_collection_threshold:0.8"),
        ..Default::default()
    };
    let with = |line: &str, conf: &str| {
        crate::remedy::with_alloc_conf(&command(line), conf, inherited, Some("2.6.0"))
    };
    let plain = with("python a.py", "expandable_segments:True").unwrap();
    assert_eq!(
        plain.env_value("PYTORCH_CUDA_ALLOC_CONF"),
        Some(&Word::from(
            "garbage_collection_threshold:0.8,expandable_segments:True"
        ))
    );
    let boxed = with("docker run im", "expandable_segments:True").unwrap();
    assert_eq!(
        boxed.argv[3],
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    );
    assert!(with("python a.py", "expandable_segments").is_err());
}
