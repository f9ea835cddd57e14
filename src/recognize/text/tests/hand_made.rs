//! Programs that take their numbers in ways of their own: a word by its place, a share of the batch, one of many examples.

use super::*;

/// What a relaunch with half the batch changes: the names with their numbers.
fn knobs(line: &str, text: &str) -> Vec<(String, u64)> {
    let sources = [source("/p/a.py", text, SourceRole::Script)];
    let text = ProgramText::read(&sources, &[]);
    let command = command(line);
    let launch = LaunchEnvironment {
        text: Some(&text),
        ..LaunchEnvironment::default()
    };
    let recognized = Recognized::new(&command, &launch);
    let knobs = recognized.batch_source().map(|source| {
        let all = source.sizes.iter();
        all.map(|knob| (knob.name.clone(), knob.value)).collect()
    });
    knobs.unwrap_or_default()
}

#[test]
fn a_word_that_is_taken_by_its_place_goes_before_a_total_in_the_text() {
    let text = "import sys\nMICRO_BATCH_SIZE = int(sys.argv[2])\nBATCH_SIZE = 64\nSTEPS = BATCH_SIZE // MICRO_BATCH_SIZE\nRATE = float(sys.argv[3])\n";
    assert_eq!(
        of_script("python a.py 7b 32 0.0002", text),
        "sure: MICRO_BATCH_SIZE 32 typed"
    );
    assert_eq!(
        knobs("python a.py 7b 32 0.0002", text),
        [("MICRO_BATCH_SIZE".to_string(), 32)]
    );
    // Without the word the total is still not what the device takes.
    assert_eq!(of_script("python a.py", text), "nothing found: ");
}

#[test]
fn a_share_of_the_batch_is_made_smaller_with_it() {
    let declared = "p.add_argument('--batch_size', type=int, default=24)\np.add_argument('--labeled_bs', type=int, default=12)\n";
    let text = format!(
        "{declared}batch_size = args.batch_size\nsampler = TwoStreams(a, b, batch_size, batch_size-args.labeled_bs)\n"
    );
    let batch = ("--batch_size".to_string(), 24);
    assert_eq!(
        knobs("python a.py", &text),
        [batch.clone(), ("--labeled_bs".to_string(), 12)]
    );
    assert_eq!(knobs("python a.py", declared), [batch]);
    let text = "p.add_argument('--batch_size', type=int, default=32)\np.add_argument('--master_batch_size', type=int, default=-1)\nrest = opt.batch_size - opt.master_batch_size\n";
    assert_eq!(
        knobs("python a.py --batch_size 64 --master_batch_size 18", text),
        [
            ("--batch_size".to_string(), 64),
            ("--master_batch_size".to_string(), 18)
        ]
    );
    assert_eq!(
        knobs("python a.py --batch_size 64", text),
        [("--batch_size".to_string(), 64)]
    );
}

#[test]
fn of_a_function_for_each_example_the_called_one_counts() {
    let text = "def small():\n    config.batch_size = 10\n    run(config)\ndef pixels():\n    config.batch_size = 32\n    run(config)\nif __name__ == '__main__':\n    # small()\n    pixels()\n";
    assert_eq!(
        of_script("python a.py", text),
        "sure: config.batch_size 32 constant at a.py:5"
    );
    assert_eq!(
        of_script("python a.py", &text.replace("# small", "small")),
        "not sure: config.batch_size 10 constant at a.py:2, config.batch_size 32 constant at a.py:5"
    );
}

#[test]
fn what_a_layer_sets_while_it_runs_is_no_batch_of_a_loader() {
    let text = "batch_size = 8\nclass Net(BaseModel):\n    def forward(self, x):\n        batch_size = 1\n        return x\n";
    assert_eq!(
        of_script("python a.py", text),
        "sure: batch_size 8 constant at a.py:1"
    );
}

#[test]
fn a_script_that_names_its_config_otherwise_is_not_the_known_one_of_its_name() {
    let line = "python train_net.py --config_path a.yaml";
    let known = |declared: &str| {
        let text = format!("p.add_argument('{declared}')\n");
        let sources = [source("/p/train_net.py", &text, SourceRole::Script)];
        let text = ProgramText::read(&sources, &[]);
        let command = command(line);
        let launch = LaunchEnvironment {
            text: Some(&text),
            ..LaunchEnvironment::default()
        };
        Recognized::new(&command, &launch).known.is_some()
    };
    assert!(known("--other"));
    assert!(!known("--config_path"));
}

#[test]
fn of_sections_of_a_file_the_named_one_counts_and_the_trainings() {
    let file = |text: &str| {
        [NamedSettingsFile {
            path: "/p/all.yaml".into(),
            text: text.into(),
            names: SettingsNames::InFile,
        }]
    };
    let script = |text: &str| [source("/p/a.py", text, SourceRole::Script)];
    let experiments = file("defaults:\n  batch_size: 16\ndebug:\n  batch_size: 10\n");
    let names_one = script("names = ['defaults', *args.configs]\n");
    assert_eq!(
        found("python a.py --configs big", &names_one, &experiments),
        "likely: defaults.batch_size 16 config at all.yaml:2"
    );
    assert_eq!(
        found("python a.py --configs debug", &names_one, &experiments),
        "not sure: defaults.batch_size 16 config at all.yaml:2, debug.batch_size 10 config at all.yaml:4"
    );
    let loaders = file("data:\n  train_loader:\n    batch_size: 5\n  stats:\n    batch_size: 10\n");
    assert_eq!(
        found("python a.py", &script("x = config.data\n"), &loaders),
        "likely: data.train_loader.batch_size 5 config at all.yaml:3"
    );
}
