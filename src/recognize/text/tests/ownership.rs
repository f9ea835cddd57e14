//! Numbers that stand in the text and are not the program's own: another program's, a layer's, a library's.

use super::*;

#[test]
fn a_librarys_class_that_a_parser_is_given_has_its_own_defaults() {
    let script = |class: &str, given: &str| {
        let text = format!("{class}parser = HfArgumentParser((Model, {given}))\n");
        [source("/p/a.py", &text, SourceRole::Script)]
    };
    let own = "@dataclass\nclass Own(transformers.TrainingArguments):\n    hard: float = 1.0\n";
    let batch =
        "@dataclass\nclass Own(TrainingArguments):\n    per_device_train_batch_size: int = 2\n";
    for (class, given, expected) in [
        (
            "",
            "TrainingArguments",
            "sure: --per_device_train_batch_size 8 default at a.py:1",
        ),
        (
            own,
            "Own",
            "sure: --per_device_train_batch_size 8 default at a.py:4",
        ),
        (
            batch,
            "Own",
            "sure: --per_device_train_batch_size 2 default at a.py:3",
        ),
        ("", "Other", "nothing found: "),
        // A class of the program's own, which has the library's name and nothing of it.
        (
            "@dataclass\nclass TrainingArguments:\n    batch_size: int = 32\n",
            "TrainingArguments",
            "sure: --batch_size 32 default at a.py:3",
        ),
        (
            "@dataclass\nclass TrainingArguments(transformers.TrainingArguments):\n    hard: float = 1.0\n",
            "TrainingArguments",
            "sure: --per_device_train_batch_size 8 default at a.py:4",
        ),
    ] {
        assert_eq!(
            found("python a.py", &script(class, given), &[]),
            expected,
            "{given}"
        );
    }
}

#[test]
fn a_program_of_a_known_name_with_other_options_is_another_one() {
    let parser = |batch: &str| {
        format!(
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--arch')\np.add_argument('--lr', type=float)\np.add_argument('{batch}', type=int, default=6)\n"
        )
    };
    for (batch, expected) in [
        (
            "--train-batch",
            "sure: --train-batch 6 default at main.py:5",
        ),
        ("--batch-size", "sure: --batch-size 6 default at main.py:5"),
    ] {
        let script = source("/p/main.py", &parser(batch), SourceRole::Script);
        assert_eq!(found("python main.py --arch hg", &[script], &[]), expected);
    }
}

#[test]
fn an_attribute_of_a_layer_is_no_batch_and_that_of_a_trainer_is() {
    let class = |bases: &str| {
        format!("class Net({bases}):\n    def __init__(self):\n        self.batch_size = 8\n")
    };
    for (bases, expected) in [
        ("nn.Module", "nothing found: "),
        ("Module, Mixin", "nothing found: "),
        (
            "pl.LightningModule",
            "sure: self.batch_size 8 constant at a.py:3",
        ),
        ("Trainer", "sure: self.batch_size 8 constant at a.py:3"),
    ] {
        let script = source("/p/a.py", &class(bases), SourceRole::Script);
        assert_eq!(found("python a.py", &[script], &[]), expected, "{bases}");
    }
}

#[test]
fn of_two_classes_that_declare_an_option_the_one_that_is_named_counts() {
    let script = source(
        "/p/a.py",
        "from config import SearchConfig\nconfig = SearchConfig()\n",
        SourceRole::Script,
    );
    let class = |name: &str, number: u32| {
        format!(
            "class {name}(Base):\n    def build(self):\n        p.add_argument('--batch_size', type=int, default={number})\n"
        )
    };
    let both = class("SearchConfig", 64) + &class("AugmentConfig", 96);
    let sources = [script, source("/p/config.py", &both, SourceRole::Imported)];
    assert_eq!(
        found("python a.py", &sources, &[]),
        "sure: --batch_size 64 default at config.py:3"
    );
    let neither = source("/p/a.py", "load('config')\n", SourceRole::Script);
    let sources = [neither, sources[1].clone()];
    assert!(found("python a.py", &sources, &[]).starts_with("not sure"));
}

#[test]
fn what_an_imported_file_does_as_a_script_is_not_the_programs() {
    let script = source("/p/a.py", "import data\n", SourceRole::Script);
    let own = "if __name__ == '__main__':\n    db = Shots('db', batch_size=20)\n";
    let sources = [script, source("/p/data.py", own, SourceRole::Imported)];
    assert_eq!(found("python a.py", &sources, &[]), "nothing found: ");
}
