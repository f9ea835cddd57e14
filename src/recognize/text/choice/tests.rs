//! What goes before what: the command's words, the files that it names, and what the program's text has as a default.

use crate::recognize::launch::ConfigFile;
use crate::recognize::text::tests::{command, said, source};
use crate::recognize::text::{ProgramSource, ProgramText, SourceRole};
use crate::recognize::{LaunchEnvironment, Recognized};

/// What is found of a command whose script and file say this: how sure, and each number with where it stands.
fn found(line: &str, sources: &[(&str, &str, SourceRole)], file: Option<(&str, &str)>) -> String {
    let sources: Vec<ProgramSource> = (sources.iter())
        .map(|(path, text, role)| source(path, text, *role))
        .collect();
    let text = ProgramText::read(&sources, &[]);
    let command = command(line);
    let named = Recognized::new(&command, &LaunchEnvironment::default()).named_files();
    let read = |(name, text): (&str, &str)| {
        let named = named.iter().find(|named| named.name.ends_with(name));
        let named = named.expect("the command names it");
        ConfigFile {
            bases: Default::default(),
            at: named.at,
            from: named.from,
            name: named.name.clone(),
            text: text.into(),
        }
    };
    let files: Vec<ConfigFile> = file.map(read).into_iter().collect();
    let launch = LaunchEnvironment {
        text: Some(&text),
        files: &files,
        ..LaunchEnvironment::default()
    };
    said(&Recognized::new(&command, &launch).batch_finding())
}

const ARGPARSE: &str = "p.add_argument('--train_batch_size', type=int, default=64)\n";

fn of_script(line: &str, text: &str, file: Option<(&str, &str)>) -> String {
    found(line, &[("/p/train.py", text, SourceRole::Script)], file)
}

#[test]
fn a_default_is_not_sure_where_a_named_file_sets_it_in_a_way_that_is_not_clear() {
    let line = "python train.py --config a.yaml";
    for said in ["[8, 16]", "${oc.env:BS,8}", "&size 8"] {
        let file = format!("train_batch_size: {said}\n");
        let said = of_script(line, ARGPARSE, Some(("a.yaml", &file)));
        assert!(said.starts_with("not sure: "), "{file}: {said}");
    }
    // A file that leaves it open, or says nothing of it.
    for file in ["train_batch_size: auto\n", "lr: 0.1\n"] {
        assert_eq!(
            of_script(line, ARGPARSE, Some(("a.yaml", file))),
            "sure: --train_batch_size 64 default at train.py:1"
        );
    }
    for file in ["train_batch_size: 8\n", "train_batch_size: [8]\n"] {
        assert_eq!(
            of_script(line, ARGPARSE, Some(("a.yaml", file))),
            "sure: train_batch_size 8 config at a.yaml:1"
        );
    }
}

#[test]
fn whether_a_files_batch_is_divided_by_its_accumulation_the_text_knows() {
    let line = "python train.py --config a.yaml";
    let file = "train_batch_size: 8\ngradient_accumulation_steps: 2\n";
    assert_eq!(
        of_script(line, ARGPARSE, Some(("a.yaml", file))),
        "sure: train_batch_size 8 config at a.yaml:1"
    );
    let divides = format!(
        "{ARGPARSE}a.train_batch_size = a.train_batch_size // a.gradient_accumulation_steps\n"
    );
    let said = of_script(line, &divides, Some(("a.yaml", file)));
    assert!(!said.starts_with("sure: "), "{said}");
}

#[test]
fn names_and_values_behind_the_command_go_before_the_text() {
    let text = "cfg.train = CN()\ncfg.train.batch_size = 64\np.add_argument('opts', nargs=argparse.REMAINDER)\n";
    assert_eq!(
        of_script("python train.py --root d train.batch_size 32", text, None),
        "sure: train.batch_size 32 typed"
    );
    assert_eq!(
        of_script(
            "python train.py --force_yml datasets:train:batch_size_per_gpu=8",
            "",
            None
        ),
        "sure: datasets:train:batch_size_per_gpu 8 typed"
    );
    // No setting: what stands behind it is no number.
    assert_eq!(
        of_script("python train.py model.batch_size other.py", text, None),
        "sure: cfg.train.batch_size 64 constant at train.py:2"
    );
}

#[test]
fn options_of_a_class_that_a_nearer_one_is_made_from_are_the_programs() {
    let near = "class TrainOptions(BaseOptions):\n    def initialize(self, p):\n        p.add_argument('--niter', type=int, default=50)\n";
    let base = "class BaseOptions():\n    def initialize(self, p):\n        p.add_argument('--batchSize', type=int, default=4)\n";
    let script = "from options.train_options import TrainOptions\n";
    let sources = |base: &'static str| {
        [
            ("/p/train.py", script, SourceRole::Script),
            ("/p/options/train_options.py", near, SourceRole::Imported),
            ("/p/options/base_options.py", base, SourceRole::Distant),
        ]
    };
    assert_eq!(
        found("python train.py", &sources(base), None),
        "sure: --batchSize 4 default at base_options.py:3"
    );
    let other = "class Other():\n    def initialize(self, p):\n        p.add_argument('--batchSize', type=int, default=4)\n";
    assert_eq!(
        found("python train.py", &sources(other), None),
        "nothing found: "
    );
}

#[test]
fn what_a_loader_takes_as_its_batch_may_have_any_name() {
    let text = "def train():\n    n_img_per_gpu = 16\n    n_workers = 8\n    loader = DataLoader(data, batch_size = n_img_per_gpu, num_workers=n_workers)\n";
    assert_eq!(
        of_script("python train.py", text, None),
        "likely: n_img_per_gpu 16 constant at train.py:2"
    );
    let twice = text.replace("    n_workers", "    n_img_per_gpu = 8\n    n_workers");
    assert_eq!(
        of_script("python train.py", &twice, None),
        "nothing found: "
    );
    let tests = text.replace("loader =", "test_loader =");
    assert_eq!(
        of_script("python train.py", &tests, None),
        "nothing found: "
    );
}

#[test]
fn a_part_of_a_batch_that_is_typed_beside_it_is_not_sure() {
    let text = "p.add_argument('--batch_size', type=int)\np.add_argument('--minibatch_size', type=int, default=0)\n";
    assert_eq!(
        of_script(
            "python train.py --minibatch_size 32 --batch_size 512",
            text,
            None
        ),
        "not sure: --minibatch_size 32 typed, --batch_size 512 typed"
    );
    assert_eq!(
        of_script("python train.py --batch_size 512", text, None),
        "sure: --batch_size 512 typed"
    );
}

#[test]
fn a_short_option_with_a_path_is_no_batch() {
    let file = Some(("a.yaml", "data:\n  batch_size: 12\n"));
    assert_eq!(
        of_script("python main.py -b a.yaml", "", file),
        "sure: data.batch_size 12 config at a.yaml:2"
    );
}

#[test]
fn a_mode_that_does_not_train_has_no_batch() {
    let line = "python main.py --batch_size 8 --mode";
    assert_eq!(
        of_script(&format!("{line} sample"), "", None),
        "nothing found: "
    );
    assert_eq!(
        of_script(&format!("{line} train"), "", None),
        "sure: --batch_size 8 typed"
    );
}

#[test]
fn a_shift_is_a_number() {
    assert_eq!(
        of_script("python train.py", "train(batch_size=4<<10)\n", None),
        "sure: batch_size 4096 constant at train.py:1"
    );
}
