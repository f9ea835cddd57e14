//! The remedies beside batch and precision: another device, resuming, loaders, jobs of several parts,
//! entries of the user's own.

use super::{BATCH, command, outcome};
use crate::diagnosis::{Cause, Certainty, Finding};
use crate::event::What;
use crate::forecast::ForecastInputs;
use crate::recognize::LaunchEnvironment;
use crate::recognize::{Catalogue, Checkpoint, checkpoints_wanted, recognise};
use crate::remedy::{Availability, Leftover, Remedy, RemedyId, RemedyInputs, remedies};
use crate::state::staged::{StagedSession, gib, reading, record, uuid};
use crate::units::{Bytes, Pid};
use std::path::Path;

fn finding(cause: Cause, foreign: Option<i32>) -> Finding {
    Finding {
        cause,
        certainty: Certainty::Likely,
        headline: String::new(),
        explanation: String::new(),
        evidence: Vec::new(),
        advice: Vec::new(),
        device: None,
        rank: None,
        foreign: foreign.map(Pid),
    }
}

/// A process on `aaaa-0` that ran out with 12 GiB allocated, and 20 GiB free on `aaaa-1`.
fn out_on_the_first() -> StagedSession {
    out_on_the_first_under(None)
}

fn out_on_the_first_under(limit: Option<Bytes>) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 12.0, 13.0);
    scene.add(
        2.5,
        What::Device(reading(&[(100, gib(13.5)), (7, gib(9.0))])),
    );
    let mut other = reading(&[]);
    other.uuid = uuid(1);
    other.index = 1;
    other.free = Some(gib(20.0));
    scene.add(2.5, What::Device(other));
    let mut out = record(100, gib(12.0), gib(13.0), gib(2.0), gib(1.0));
    out.limit = limit;
    scene.add(3.0, What::Oom(out));
    scene
}

fn device(line: &str, scene: &StagedSession, environment: &[(&str, &str)]) -> String {
    let owned: Vec<(String, String)> = environment
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    let findings = [finding(Cause::OtherProcess, Some(7))];
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            environment: &owned,
            ..LaunchEnvironment::default()
        },
        forecast: ForecastInputs {
            state: Some(&scene.state),
            oom: scene.state.oom(),
            ..ForecastInputs::default()
        },
        findings: &findings,
        ..RemedyInputs::default()
    };
    outcome(line, RemedyId::Device, &context)
}

#[test]
fn another_device_is_written_as_the_user_wrote_it() {
    let scene = out_on_the_first();
    for (line, environment, expected) in [
        (
            "python a.py",
            &[][..],
            "CUDA_VISIBLE_DEVICES=GPU-aaaa-1 python a.py",
        ),
        (
            "CUDA_VISIBLE_DEVICES=0,1 python a.py",
            &[],
            "CUDA_VISIBLE_DEVICES=1,0 python a.py",
        ),
        (
            "env CUDA_VISIBLE_DEVICES=GPU-aaaa-0,GPU-aaaa-1 python a.py",
            &[],
            "env CUDA_VISIBLE_DEVICES=GPU-aaaa-1,GPU-aaaa-0 python a.py",
        ),
        (
            "python a.py --lr 1",
            &[("CUDA_VISIBLE_DEVICES", "0,1")],
            "CUDA_VISIBLE_DEVICES=1,0 python a.py --lr 1",
        ),
    ] {
        assert_eq!(device(line, &scene, environment), expected, "{line}");
    }
    for (line, environment, reason) in [
        ("python a.py --gpu 0", &[][..], "--gpu chooses"),
        (
            "deepspeed --include localhost:0 a.py",
            &[],
            "--include chooses",
        ),
        ("docker run image python a.py", &[], "chooses the devices"),
        ("yolo train batch=8 device=0", &[], "device= chooses"),
        (
            "python a.py",
            &[("CUDA_VISIBLE_DEVICES", "3")],
            "does not name",
        ),
        (
            "python a.py",
            &[("CUDA_VISIBLE_DEVICES", "1,0")],
            "another order",
        ),
    ] {
        let got = device(line, &scene, environment);
        assert!(
            got.starts_with('!') && got.contains(reason),
            "{line}: {got}"
        );
    }
    let mut full = out_on_the_first();
    let mut other = reading(&[]);
    other.uuid = uuid(1);
    other.index = 1;
    other.free = Some(gib(10.0));
    full.add(4.0, What::Device(other));
    assert!(device("python a.py", &full, &[]).contains("no other GPU"));
    // A cap of the program's own is there on any device.
    let capped = out_on_the_first_under(Some(gib(13.5)));
    assert!(device("python a.py", &capped, &[]).contains("as tight"));
    assert!(
        outcome("python a.py", RemedyId::Device, &RemedyInputs::default())
            .contains("nothing has run")
    );
}

fn resumed(line: &str, path: &str, number: Option<u64>) -> String {
    let checkpoint = Checkpoint {
        path: path.into(),
        number,
    };
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            checkpoint: Some(&checkpoint),
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    outcome(line, RemedyId::Resume, &context)
}

#[test]
fn a_run_goes_on_from_its_checkpoint_in_the_programs_own_words() {
    let ck = "o/checkpoint-50";
    for (line, path, expected) in [
        (
            "python run_mlm.py --output_dir o",
            ck,
            "python run_mlm.py --output_dir o --resume_from_checkpoint o/checkpoint-50",
        ),
        (
            "python run_mlm.py --output_dir=o --do_train",
            ck,
            "python run_mlm.py --output_dir=o --do_train --resume_from_checkpoint o/checkpoint-50",
        ),
        (
            "python run_mlm.py --output_dir o --resume_from_checkpoint old",
            ck,
            "python run_mlm.py --output_dir o --resume_from_checkpoint o/checkpoint-50",
        ),
        (
            "./distributed_train.sh 2 --data-dir d -b 8",
            "output/train/x/last.pth.tar",
            "./distributed_train.sh 2 --data-dir d -b 8 --resume output/train/x/last.pth.tar",
        ),
        (
            "./train_net.py --config-file c SOLVER.IMS_PER_BATCH 4",
            "output/model_0004999.pth",
            "./train_net.py --resume --config-file c SOLVER.IMS_PER_BATCH 4",
        ),
        (
            "python train.py --batch_size=4 --init_from=gpt2 --compile=False",
            "out/ckpt.pt",
            "python train.py --batch_size=4 --init_from=resume --compile=False",
        ),
        (
            "yolo train model=yolo11n.pt batch=8",
            "runs/detect/train/weights/last.pt",
            "yolo train model=runs/detect/train/weights/last.pt batch=8 resume=True",
        ),
        (
            "axolotl train c.yml --output-dir o -- --nproc_per_node 2",
            ck,
            "axolotl train c.yml --output-dir o --resume-from-checkpoint o/checkpoint-50 -- --nproc_per_node 2",
        ),
        (
            "python run_mlm.py --output_dir o --resume_from_checkpoint latest",
            ck,
            "!it resumes already",
        ),
        (
            "python run_mlm.py --output_dir o --resume_from_checkpoint o/checkpoint-50",
            ck,
            "!it resumes already",
        ),
        (
            "fairseq-train d --max-tokens 9 --save-dir s",
            ck,
            "!by itself",
        ),
        (
            "python train.py --data d.yaml --weights w --batch 6",
            ck,
            "!brings back all arguments",
        ),
        (
            "python a.py --batch-size 8",
            ck,
            "!starts again from step 0; may overwrite",
        ),
    ] {
        let got = resumed(line, path, Some(50));
        match expected.strip_prefix('!') {
            Some(reason) => assert!(
                got.starts_with('!') && got.contains(reason),
                "{line}: {got}"
            ),
            None => assert_eq!(got, expected, "{line}"),
        }
    }
    let got = outcome(
        "python run_mlm.py --output_dir o",
        RemedyId::Resume,
        &RemedyInputs::default(),
    );
    assert!(
        got.contains("starts again from step 0; may overwrite o"),
        "{got}"
    );
}

#[test]
fn what_the_disk_is_asked_for_is_what_the_program_writes() {
    let wanted = |line: &str| checkpoints_wanted(&command(line), &LaunchEnvironment::default());
    let trainer = wanted("python run_mlm.py --output_dir o/x").unwrap();
    assert_eq!(
        (trainer.directory.as_path(), trainer.named),
        (Path::new("o/x"), true)
    );
    assert_eq!(trainer.find, ["checkpoint-#"]);
    assert_eq!(trainer.complete, ["trainer_state.json"]);
    let stem = wanted("onmt_train -config c.yaml -save_model m/big").unwrap();
    assert_eq!(stem.directory, Path::new("m"));
    assert_eq!(stem.find, ["big_step_#.pt"]);
    assert!(
        !wanted("python train.py --batch_size=4 --compile=False")
            .unwrap()
            .named
    );
    assert_eq!(wanted("python a.py --output_dir o"), None);
    assert_eq!(wanted("bash -c 'python run_mlm.py --output_dir o'"), None);
}

#[test]
fn fewer_processes_load_data_where_the_host_ran_out() {
    let workers = |line: &str| outcome(line, RemedyId::DataloaderWorkers, &RemedyInputs::default());
    for (line, expected) in [
        ("python a.py --num-workers 8", "python a.py --num-workers 4"),
        ("python a.py --num_workers=1", "python a.py --num_workers=0"),
        (
            "./distributed_train.sh 2 -b 8 -j6",
            "./distributed_train.sh 2 -b 8 -j3",
        ),
        (
            "python run_mlm.py --dataloader_num_workers 4",
            "python run_mlm.py --dataloader_num_workers 2",
        ),
        (
            "yolo train batch=8 workers=8",
            "yolo train batch=8 workers=4",
        ),
        ("python a.py --num_workers 0", "!0 already"),
        ("python a.py --num_workers auto", "!no number"),
        ("python a.py --workers 4", "!not in the command"),
        ("python a.py --num_workers", "!no value"),
    ] {
        let got = workers(line);
        match expected.strip_prefix('!') {
            Some(reason) => assert!(
                got.starts_with('!') && got.contains(reason),
                "{line}: {got}"
            ),
            None => assert_eq!(got, expected, "{line}"),
        }
    }
}

#[test]
fn one_part_of_a_job_is_known_by_what_was_inherited() {
    let part = |line: &str, environment: &[(&str, &str)]| {
        let owned: Vec<(String, String)> = environment
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let context = RemedyInputs {
            launch: LaunchEnvironment {
                environment: &owned,
                ..LaunchEnvironment::default()
            },
            ..RemedyInputs::default()
        };
        recognise(&command(line), &context.launch).part_of_a_job
    };
    for environment in [
        &[("NNODES", "2")][..],
        &[("PET_NNODES", "1:4")],
        &[("NODE_RANK", "1")],
        &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "8")],
        &[("OMPI_COMM_WORLD_SIZE", "4")],
        &[("WORLD_SIZE", "4"), ("RANK", "0")],
    ] {
        assert!(
            part("python a.py", environment).is_some(),
            "{environment:?}"
        );
    }
    for environment in [
        &[][..],
        &[("NNODES", "1")],
        &[("WORLD_SIZE", "4")],
        &[("WORLD_SIZE", "1"), ("RANK", "0")],
        &[("SLURM_STEP_NUM_TASKS", "8")],
        &[
            ("SLURM_STEP_ID", "4294967291"),
            ("SLURM_STEP_NUM_TASKS", "8"),
        ],
        &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1")],
    ] {
        assert_eq!(part("python a.py", environment), None, "{environment:?}");
    }
    assert_eq!(
        part("srun -n 8 python a.py", &[]),
        None,
        "it wraps the whole job"
    );
    assert_eq!(part("torchrun --nnodes 1 a.py", &[]), None);
    let owned = [("NNODES".to_string(), "2".to_string())];
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            environment: &owned,
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    let all = remedies(&command("python a.py --batch-size 8"), &context);
    let batch = all.iter().find(|remedy| remedy.id == BATCH).unwrap();
    assert!(
        !batch.is_offered() && !batch.edits.is_empty(),
        "a command to copy"
    );
}

#[test]
fn who_else_holds_the_memory_is_waited_for_or_stopped() {
    let find = |findings: &[Finding], leftovers: &[Leftover]| -> Vec<Remedy> {
        let scene = out_on_the_first();
        let context = RemedyInputs {
            forecast: ForecastInputs {
                state: Some(&scene.state),
                oom: scene.state.oom(),
                ..ForecastInputs::default()
            },
            findings,
            leftovers,
            ..RemedyInputs::default()
        };
        remedies(&command("python a.py --batch-size 8"), &context)
    };
    let has = |all: &[Remedy], id| {
        all.iter()
            .any(|remedy| remedy.id == id && remedy.is_offered())
    };
    let all = find(&[finding(Cause::OtherProcess, Some(7))], &[]);
    assert!(has(&all, RemedyId::Wait) && !has(&all, RemedyId::StopLeftover));
    let wait = all
        .iter()
        .find(|remedy| remedy.id == RemedyId::Wait)
        .unwrap();
    assert!(wait.changes.contains("process 7"), "{}", wait.changes);
    let leftover = Leftover {
        pid: Pid(7),
        started: 9,
        session: "20260101-train".into(),
        held: Some(Bytes::gib(9)),
    };
    let all = find(&[finding(Cause::OtherProcess, Some(7))], &[leftover]);
    assert!(has(&all, RemedyId::StopLeftover) && !has(&all, RemedyId::Wait));
    assert!(
        all[0]
            .changes
            .contains("stops process 7 of 20260101-train, 9.00 GiB")
    );
    let all = find(&[finding(Cause::Capacity, None)], &[]);
    assert!(!has(&all, RemedyId::Wait));
    // A host that ran out of memory has use for fewer loaders, a device has not.
    assert!(
        all.iter()
            .all(|remedy| remedy.id != RemedyId::DataloaderWorkers)
    );
    let all = find(&[finding(Cause::HostMemory, None)], &[]);
    assert!(
        all.iter()
            .any(|remedy| remedy.id == RemedyId::DataloaderWorkers)
    );
}

#[test]
fn the_users_own_entries_go_before_the_binarys() {
    let text = "theme = \"dark\"\n[[program]]\nname = \"our trainer\"\nscripts = [\"run_mlm.py\"]\n[program.batch]\nnames = [\"--n\"]\n[program.accumulation]\nrule = \"flag\"\nnames = [\"--times\"]\ndefault = 1\n";
    let own = [Catalogue::of_user(text, "oomph.toml").unwrap()];
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            own: &own,
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    let line = "python run_mlm.py --n 8 --per_device_train_batch_size 4";
    let before = command(line);
    let recognised = recognise(&before, &context.launch);
    let entry = recognised.known.unwrap();
    assert_eq!(
        (entry.name.as_str(), entry.source.as_deref()),
        ("our trainer", Some("oomph.toml"))
    );
    assert_eq!(
        outcome(line, BATCH, &context),
        "python run_mlm.py --n 4 --times 2 --per_device_train_batch_size 4"
    );
    let others = remedies(
        &command("python run_clm.py --per_device_train_batch_size 4"),
        &context,
    );
    assert!(
        others
            .iter()
            .any(|r| r.id == BATCH && r.availability == Availability::Offered)
    );
}
