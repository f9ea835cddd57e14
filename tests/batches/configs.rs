//! Configs that build on others, of frameworks that are told another batch behind an option: what `oomph plan` finds in
//! them, and the command that it makes.

use crate::harness::at_home;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// Files by their names, a command, the batch as `plan` says it, and the command with half of it.
struct Case {
    files: &'static [(&'static str, &'static str)],
    command: &'static str,
    batch: &'static str,
    edited: &'static str,
}

const CASES: [Case; 8] = [
    Case {
        files: &[
            (
                "configs/_base_/data.py",
                "train_dataloader = dict(\n    batch_size=32, num_workers=5)\n",
            ),
            (
                "configs/net/a.py",
                "_base_ = ['../_base_/data.py']\nmodel = dict(head=dict(num_classes=10))\n",
            ),
        ],
        command: "python tools/train.py configs/net/a.py",
        batch: "train_dataloader.batch_size 32",
        edited: "configs/net/a.py --cfg-options train_dataloader.batch_size=16 optim_wrapper.accumulative_counts=2",
    },
    Case {
        files: &[(
            "configs/a.py",
            "each = 8\ntrain_dataloader = dict(batch_size=each)\noptim_wrapper = dict(accumulative_counts=4)\n",
        )],
        command: "python tools/train.py configs/a.py --cfg-options default_hooks.logger.interval=9 --amp",
        batch: "train_dataloader.batch_size 8",
        edited: "--cfg-options default_hooks.logger.interval=9 train_dataloader.batch_size=4 optim_wrapper.accumulative_counts=8 --amp",
    },
    // Of mmcv's own runner, which does not accumulate so.
    Case {
        files: &[
            (
                "configs/data.py",
                "data = dict(\n    samples_per_gpu=2,\n    train=dict(type='A'))\n",
            ),
            (
                "configs/a.py",
                "_base_ = './data.py'\ndata = dict(workers_per_gpu=4)\n",
            ),
        ],
        command: "bash tools/dist_train.sh configs/a.py 8",
        batch: "data.samples_per_gpu 2",
        edited: "configs/a.py 8 --cfg-options data.samples_per_gpu=1",
    },
    Case {
        files: &[
            ("configs/data.py", "train_dataloader = dict(batch_size=6)\n"),
            (
                "configs/a.py",
                "with read_base():\n    from .data import *\ntrain_dataloader.update(batch_size=10)\n",
            ),
        ],
        command: "python tools/train.py configs/a.py",
        batch: "train_dataloader.batch_size 10",
        edited: "--cfg-options train_dataloader.batch_size=5 optim_wrapper.accumulative_counts=2",
    },
    Case {
        files: &[
            ("configs/base.yaml", "SOLVER:\n  IMS_PER_BATCH: 12\n"),
            (
                "configs/a/b.yaml",
                "_BASE_: \"../base.yaml\"\nMODEL:\n  MASK_ON: True\n",
            ),
        ],
        command: "python train_net.py --config-file configs/a/b.yaml --num-gpus 1 SOLVER.MAX_ITER 9",
        batch: "SOLVER.IMS_PER_BATCH 12",
        edited: "SOLVER.MAX_ITER 9 SOLVER.IMS_PER_BATCH 6",
    },
    // Its default.
    Case {
        files: &[("configs/a.yaml", "MODEL:\n  MASK_ON: True\n")],
        command: "python train_net.py --config-file configs/a.yaml",
        batch: "SOLVER.IMS_PER_BATCH 16",
        edited: "configs/a.yaml SOLVER.IMS_PER_BATCH 8",
    },
    Case {
        files: &[
            (
                "configs/common/data.py",
                "dataloader = D()\ndataloader.train = L(build)(\n    total_batch_size=64,\n)\n",
            ),
            (
                "configs/a.py",
                "from .common.data import dataloader\ndataloader.train.num_workers = 2\n",
            ),
        ],
        command: "python lazyconfig_train_net.py --config-file configs/a.py",
        batch: "dataloader.train.total_batch_size 64",
        edited: "configs/a.py dataloader.train.total_batch_size=32",
    },
    // A base that isn't there may say more.
    Case {
        files: &[(
            "configs/a.py",
            "_base_ = 'gone.py'\nmodel = dict(depth=50)\n",
        )],
        command: "python tools/train.py configs/a.py",
        batch: "nothing found",
        edited: "smaller batch: not offered: train_dataloader.batch_size in a.py: another file may set it",
    },
];

#[test]
fn the_batch_is_found_in_the_files_that_a_config_builds_on() {
    for case in &CASES {
        let (home, project) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for (name, text) in case.files {
            let path = project.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command.args(["plan", "--"]).args(case.command.split(' '));
        at_home(command.current_dir(project.path()), home.path());
        let done = command.output().expect("oomph runs");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{}: {said}", case.command);
        assert!(said.contains(case.batch), "{}: {said}", case.command);
        assert!(said.contains(case.edited), "{}: {said}", case.command);
    }
}
