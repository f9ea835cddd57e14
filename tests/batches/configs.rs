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

/// The script of an older framework.
const OLD_PARSER: &str = "p = argparse.ArgumentParser()\np.add_argument('config')\np.add_argument('--work-dir')\n\
                 p.add_argument('--seed')\np.add_argument('--options', nargs='+')\na = p.parse_args()\n";

const CASES: [Case; 17] = [
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
    // The options that the program's own parser has.
    Case {
        files: &[
            ("configs/a.py", "data = dict(samples_per_gpu=2)\n"),
            ("tools/train.py", OLD_PARSER),
        ],
        command: "python tools/train.py configs/a.py",
        batch: "data.samples_per_gpu 2",
        edited: "configs/a.py --options data.samples_per_gpu=1",
    },
    Case {
        files: &[
            ("configs/a.py", "data = dict(samples_per_gpu=2)\n"),
            ("tools/train.py", OLD_PARSER),
        ],
        command: "python tools/train.py configs/a.py",
        batch: "data.samples_per_gpu 2",
        edited: "mixed precision: not offered: --amp is no option of this program",
    },
    // What the file says beside a batch that is typed.
    Case {
        files: &[(
            "a.yaml",
            "data:\n  batch_size: 1\ntrainer:\n  accumulate_grad_batches: 128\n",
        )],
        command: "python t.py a.yaml data.batch_size=4",
        batch: "data.batch_size 4",
        edited: "data.batch_size=2 trainer.accumulate_grad_batches=256",
    },
    Case {
        files: &[("a.yaml", "batch_size: 4096\naccum_count: [8]\n")],
        command: "python t.py -config a.yaml -batch_size 2048",
        batch: "-batch_size 2048",
        edited: "-batch_size 1024 -accum_count 16",
    },
    Case {
        files: &[(
            "a.yaml",
            "global_train_batch_size: 1024\nmodel:\n  width: 8\n",
        )],
        command: "python t.py --config a.yaml --micro_batch_size 4",
        batch: "--micro_batch_size 4",
        edited: "--micro_batch_size 4→2; global_train_batch_size stays",
    },
    // Typed over what the file says.
    Case {
        files: &[("a.json", "{\"train\": {\"batch_size\": 6}}\n")],
        command: "python t.py -c a.json -p train.batch_size=4 train.fp16=true",
        batch: "train.batch_size 4",
        edited: "-p train.batch_size=2 train.fp16=true",
    },
    // Filled up to a length.
    Case {
        files: &[(
            "a.yaml",
            "batch_size: 16\ndynamic_batching: True\nmax_batch_length: 850\n",
        )],
        command: "python t.py --config a.yaml",
        batch: "nothing found",
        edited: "smaller batch: not offered: dynamic_batching is on: batches are cut by their length",
    },
    // The program divides its batch by the steps.
    Case {
        files: &[(
            "t.py",
            "p.add_argument('--batch_size', type=int, default=8)\n\
             p.add_argument('--grad_accumulation_steps', type=int, default=1)\n\
             batch_size = args.batch_size // args.grad_accumulation_steps\n",
        )],
        command: "python t.py --batch_size 64 --grad_accumulation_steps 4",
        batch: "--grad_accumulation_steps 4",
        edited: "python t.py --batch_size 64 --grad_accumulation_steps 8",
    },
    Case {
        files: &[(
            "t.py",
            "@gin.configurable\nclass Config:\n    batch_size: int = 16384\n\
             loader = DataLoader(d, batch_size=config.batch_size)\n",
        )],
        command: "python t.py --gin_configs=a.gin --gin_bindings=Config.batch_size=4096",
        batch: "not sure",
        edited: "smaller batch",
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
