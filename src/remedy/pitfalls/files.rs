//! Batches and switches that a config file says: overridden where the program takes that, else edited
//! in a copy that keeps every other byte of the file.

use super::{AMP, BATCH, command};
use crate::recognize::LaunchEnvironment;
use crate::recognize::{ConfigFile, named_files};
use crate::remedy::remedies;
use crate::remedy::{Availability, FileCopy, Plan, RemedyId, RemedyInputs};
use std::path::Path;

/// The outcome of a remedy for a command whose files say this, and the copies that it makes.
fn outcome(line: &str, id: RemedyId, files: &[(&str, &str)]) -> (String, Vec<FileCopy>) {
    let before = command(line);
    let texts: Vec<ConfigFile> = named_files(&before, &LaunchEnvironment::default())
        .into_iter()
        .filter_map(|named| {
            let text = files
                .iter()
                .find(|(name, _)| Path::new(name) == named.name)?
                .1;
            Some(ConfigFile {
                at: named.at,
                from: named.from,
                name: named.name,
                text: text.to_string(),
            })
        })
        .collect();
    let context = RemedyInputs {
        launch: LaunchEnvironment {
            files: &texts,
            copies: Some((Path::new("/s"), 2)),
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    let all = remedies(&before, &context);
    let remedy = all.iter().find(|remedy| remedy.id == id).unwrap();
    if let Availability::NotOffered(reason) = &remedy.availability {
        return (format!("!{reason}"), Vec::new());
    }
    let plan = Plan::of(&before, &[remedy]);
    let words: Vec<String> = plan
        .command
        .argv
        .iter()
        .map(|w| w.to_string_lossy())
        .collect();
    (words.join(" "), plan.files)
}

fn check(id: RemedyId, cases: &[(&str, &str, &str, &str)]) {
    for (line, file, text, expected) in cases {
        let (got, copies) = outcome(line, id, &[(file, text)]);
        match expected.strip_prefix('!') {
            Some(reason) => assert!(
                got.starts_with('!') && got.contains(reason),
                "{line}\n  wanted no offer: {reason}\n  got {got}"
            ),
            None => assert_eq!(&got, expected, "{line}"),
        }
        assert_eq!(copies, [], "{line}: the command line is enough");
    }
}

#[test]
fn a_batch_in_a_file_is_overridden_where_the_program_takes_that() {
    check(
        BATCH,
        &[
            (
                "axolotl train c.yml",
                "c.yml",
                "micro_batch_size: 4 # each\ngradient_accumulation_steps: 3\n",
                "axolotl train c.yml --micro-batch-size 2 --gradient-accumulation-steps 6",
            ),
            (
                "axolotl train c.yml -- --nproc_per_node=2",
                "c.yml",
                "micro_batch_size: 6\n",
                "axolotl train c.yml --micro-batch-size 3 --gradient-accumulation-steps 2 -- --nproc_per_node=2",
            ),
            (
                "axolotl train c.yml --gradient-accumulation-steps 4",
                "c.yml",
                "micro_batch_size: 4\ngradient_accumulation_steps: 1\n",
                "axolotl train c.yml --gradient-accumulation-steps 8 --micro-batch-size 2",
            ),
            (
                "axolotl train c.yml",
                "c.yml",
                "micro_batch_size: 1\n",
                "!1 already",
            ),
            (
                "axolotl train c.yml",
                "c.yml",
                "base_model: x\n",
                "!configuration",
            ),
            (
                "axolotl train c.yml",
                "c.yml",
                "micro_batch_size: &n 4\n",
                "!no plain value",
            ),
            (
                "accelerate launch -m axolotl.cli.train c.yml",
                "c.yml",
                "micro_batch_size: 8\ngradient_accumulation_steps: 1\n",
                "accelerate launch -m axolotl.cli.train c.yml --micro_batch_size=4 --gradient_accumulation_steps=2",
            ),
            (
                "llamafactory-cli train c.yaml learning_rate=1e-5",
                "c.yaml",
                "per_device_train_batch_size: 2\ngradient_accumulation_steps: 8\n",
                "llamafactory-cli train c.yaml learning_rate=1e-5 per_device_train_batch_size=1 gradient_accumulation_steps=16",
            ),
            (
                "tune run full_finetune_single_device --config c.yaml epochs=1",
                "c.yaml",
                "batch_size: 2\ngradient_accumulation_steps: 8\n",
                "tune run full_finetune_single_device --config c.yaml epochs=1 batch_size=1 gradient_accumulation_steps=16",
            ),
            (
                "python train.py config/mine.py",
                "config/mine.py",
                "batch_size = 12\nblock_size = 256\n",
                "python train.py config/mine.py --batch_size=6 --gradient_accumulation_steps=80",
            ),
            (
                "python train.py config/mine.py",
                "config/mine.py",
                "batch_size = 12\ngradient_accumulation_steps = 5 * 8\n",
                "!no plain value",
            ),
            (
                "composer train.py c.yaml max_duration=10ba",
                "c.yaml",
                "device_train_microbatch_size: 16\n",
                "composer train.py c.yaml max_duration=10ba device_train_microbatch_size=8",
            ),
            (
                "composer train.py c.yaml",
                "c.yaml",
                "device_train_microbatch_size: auto\n",
                "!fits by itself",
            ),
            (
                "trl sft --config c.yaml",
                "c.yaml",
                "per_device_train_batch_size: 8\n",
                "trl sft --config c.yaml --per_device_train_batch_size 4 --gradient_accumulation_steps 2",
            ),
            (
                "python main.py fit --config c.yaml --trainer.max_epochs 3",
                "c.yaml",
                "data:\n  class_path: x.Y\n  batch_size: 32\ntrainer:\n  accumulate_grad_batches: 2\n",
                "python main.py fit --config c.yaml --trainer.max_epochs 3 --data.batch_size 16 --trainer.accumulate_grad_batches 4",
            ),
        ],
    );
}

#[test]
fn a_switch_that_a_file_says_is_known() {
    check(
        AMP,
        &[
            (
                "axolotl train c.yml",
                "c.yml",
                "bf16: true\n",
                "!already on: bf16 is true in c.yml",
            ),
            (
                "axolotl train c.yml",
                "c.yml",
                "bf16: false\n",
                "axolotl train c.yml --bf16 auto",
            ),
            (
                "tune run full_finetune_single_device --config c.yaml",
                "c.yaml",
                "dtype: fp32\n",
                "tune run full_finetune_single_device --config c.yaml dtype=bf16",
            ),
            (
                "tune run full_finetune_single_device --config c.yaml",
                "c.yaml",
                "dtype: bf16\n",
                "!already on",
            ),
        ],
    );
    check(
        RemedyId::Recompute,
        &[
            (
                "axolotl train c.yml",
                "c.yml",
                "gradient_checkpointing: true\n",
                "!already on",
            ),
            (
                "tune run full_finetune_single_device --config c.yaml",
                "c.yaml",
                "enable_activation_checkpointing: False  # less memory\n",
                "tune run full_finetune_single_device --config c.yaml enable_activation_checkpointing=True",
            ),
        ],
    );
}

#[test]
fn a_copy_differs_in_what_was_changed_alone() {
    let text = "{\n  // no\n  \"train_micro_batch_size_per_gpu\": 8}";
    let (refused, _) = outcome(
        "deepspeed t.py --deepspeed_config ds.json",
        BATCH,
        &[("ds.json", text)],
    );
    assert!(refused.contains("no JSON"), "{refused}");

    let text = "{\n  \"train_batch_size\": 64,\n\t\"train_micro_batch_size_per_gpu\" : 8,\n  \"gradient_accumulation_steps\": 2\n}\n";
    let (line, copies) = outcome(
        "deepspeed t.py --deepspeed --deepspeed_config=conf/ds.json --lr 1",
        BATCH,
        &[("conf/ds.json", text)],
    );
    assert_eq!(
        line,
        "deepspeed t.py --deepspeed --deepspeed_config=/s/run2-ds.json --lr 1"
    );
    assert_eq!(copies[0].path, Path::new("/s/run2-ds.json"));
    let expected = text
        .replace(" : 8", " : 4")
        .replace("steps\": 2", "steps\": 4");
    assert_eq!(copies[0].text, expected);

    let (line, copies) = outcome(
        "python train_network.py --dataset_config=d.toml --network_module=n --output_name=o",
        BATCH,
        &[(
            "d.toml",
            "# mine\n[[datasets]]\nbatch_size = 4 # big\nresolution = 512\n",
        )],
    );
    assert_eq!(
        line,
        "python train_network.py --dataset_config=/s/run2-d.toml --network_module=n --output_name=o --gradient_accumulation_steps 2"
    );
    assert_eq!(
        copies[0].text,
        "# mine\n[[datasets]]\nbatch_size = 2 # big\nresolution = 512\n"
    );
    let two = "[[datasets]]\nbatch_size = 4\n[[datasets]]\nbatch_size = 2\n";
    let (refused, _) = outcome(
        "python train_network.py --dataset_config=d.toml --network_module=n --output_name=o",
        BATCH,
        &[("d.toml", two)],
    );
    assert!(refused.contains("more than once"), "{refused}");
}

#[test]
fn what_deepspeeds_file_says_too_is_made_to_agree() {
    let line = "deepspeed run_clm.py --deepspeed ds.json --do_train --output_dir o --per_device_train_batch_size 8";
    let auto = "{\"train_micro_batch_size_per_gpu\": \"auto\", \"train_batch_size\": \"auto\"}";
    let (got, copies) = outcome(line, BATCH, &[("ds.json", auto)]);
    assert!(
        got.contains("--deepspeed ds.json") && copies.is_empty(),
        "{got}"
    );
    let fixed = "{\"train_micro_batch_size_per_gpu\": 8, \"gradient_accumulation_steps\": 1}";
    let (got, copies) = outcome(line, BATCH, &[("ds.json", fixed)]);
    assert!(
        got.contains("--deepspeed /s/run2-ds.json")
            && got.contains("--gradient_accumulation_steps 2"),
        "{got}"
    );
    assert_eq!(
        copies[0].text,
        "{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2}"
    );
    let other = "{\"train_micro_batch_size_per_gpu\": 6}";
    let (got, _) = outcome(line, BATCH, &[("ds.json", other)]);
    assert!(
        got.starts_with('!') && got.contains("is 6 in ds.json"),
        "{got}"
    );
}
