//! Which number is taken for the batch, by its name and by what the model was given.

use super::*;
use crate::command::{CommandLine, Word};
use crate::event::{GivenSize, NamedNumber};
use crate::recognize::argument::InsertPoint;
use crate::recognize::learned::{KnobEffect, KnobPlace};
use crate::recognize::text::{ProgramSource, ProgramText, SourceRole};
use crate::recognize::{LaunchEnvironment, WorkloadKey};

/// An argument of argparse with a number.
pub(crate) fn number(option: &str, value: u64, typed: bool) -> ParsedNumber {
    ParsedNumber {
        name: option.trim_start_matches('-').replace('-', "_"),
        options: vec![option.into()],
        value,
        default: Some(value),
        typed,
        reads_command: true,
        by: "argparse".into(),
        ..ParsedNumber::default()
    }
}

pub(crate) fn shape(dimensions: &[u64]) -> GivenSize {
    GivenSize {
        at: "0".into(),
        shape: dimensions.to_vec(),
        ..GivenSize::default()
    }
}

/// What a program tells whose model was given tensors of these sizes.
pub(crate) fn told(given: &[&[u64]], parsed: &[ParsedNumber]) -> Knobs {
    Knobs {
        given: given.iter().map(|each| shape(each)).collect(),
        parsed: parsed.to_vec(),
        world: 1,
        ..Knobs::default()
    }
}

pub(crate) fn command(text: &str) -> CommandLine {
    let (typed, words) = match text.split_once(" python") {
        Some((front, rest)) if front.contains('=') => (Some(front), format!("python{rest}")),
        _ => (None, text.to_string()),
    };
    let mut command = CommandLine {
        argv: words.split(' ').map(Word::from).collect(),
        env: Vec::new(),
        cwd: "/".into(),
    };
    if let Some((name, value)) = typed.and_then(|typed| typed.split_once('=')) {
        command.set_env(name, Some(Word::from(value)));
    }
    command
}

#[test]
fn a_default_that_the_process_told_of_is_the_batch_of_its_runs() {
    let told = told(&[&[64, 368]], &[number("--batch-size", 64, false)]);
    let read = |text: &str, told| {
        let launch = LaunchEnvironment {
            told,
            ..LaunchEnvironment::default()
        };
        let key = WorkloadKey::new(&command(text), &launch);
        (key.batch, key.at_once)
    };
    assert_eq!(read("python train.py", None), (None, 1));
    assert_eq!(read("python train.py", Some(&told)), (Some(64), 64));
    let typed = read("python train.py --batch-size 32", Some(&told));
    assert_eq!(typed, (Some(32), 32), "the words go before the default");
}

/// What sets the batch, its value, the batch of one call, and what counts the micro-batches.
fn found(text: &str, told: &Knobs) -> Result<(String, u64, u64, Vec<String>), String> {
    let command = command(text);
    let launch = LaunchEnvironment {
        told: Some(told),
        ..LaunchEnvironment::default()
    };
    let recognized = Recognized::new(&command, &launch);
    let source = recognized.batch_source()?;
    let knob = &source.sizes[0];
    let steps = source.steps.iter().map(|knob| knob.name.clone()).collect();
    Ok((knob.name.clone(), knob.value, source.at_once, steps))
}

fn is(name: &str, value: u64, at_once: u64) -> Result<(String, u64, u64, Vec<String>), String> {
    Ok((name.into(), value, at_once, Vec::new()))
}

#[test]
fn a_typed_batch_has_the_steps_that_nobody_types() {
    let of = |steps: ParsedNumber| {
        let batch = number("--batch-size", 64, true);
        let told = told(&[&[64, 3, 32, 32]], &[batch, steps]);
        found("python train.py --batch-size 64", &told).map(|found| found.3)
    };
    let steps = || number("--gradient_accumulation_steps", 1, false);
    assert_eq!(
        of(steps()),
        Ok(vec!["--gradient_accumulation_steps".into()])
    );
    // Nobody can type it.
    let another = ParsedNumber {
        reads_command: false,
        ..steps()
    };
    assert_eq!(of(another), Ok(Vec::new()));
    assert_eq!(of(number("--epochs", 1, false)), Ok(Vec::new()));
}

#[test]
fn a_small_multiple_is_a_batch_of_several_views() {
    let mut two_views = told(
        &[&[512, 3, 32, 32]],
        &[
            number("--batch_size", 256, false),
            number("--num_workers", 16, false),
        ],
    );
    let without_a_loader = found("python train.py", &two_views);
    assert!(without_a_loader.is_err(), "{without_a_loader:?}");
    two_views.names = vec![NamedNumber {
        name: "train_loader.batch_size".into(),
        value: 256,
        file: "train.py".into(),
        function: "train".into(),
    }];
    assert_eq!(
        found("python train.py", &two_views),
        is("--batch_size", 256, 512)
    );
    // More of them than views of one image, as the frames of a video, are a number of the program's own.
    let named = |name: &str, value| NamedNumber {
        name: name.into(),
        value,
        ..two_views.names[0].clone()
    };
    let mut frames = told(&[&[512, 3, 64, 64]], &[number("--bsize", 16, false)]);
    frames.names = vec![named("loader.batch_size", 16)];
    assert!(found("python train.py", &frames).is_err());
    frames.names.push(named("SEQ_LEN", 32));
    assert_eq!(found("python train.py", &frames), is("--bsize", 16, 512));
    // A loader of the evaluation's is no evidence for another number.
    two_views.names[0].value = 64;
    assert!(found("python train.py", &two_views).is_err());
}

#[test]
fn an_episode_of_few_shots_is_made_smaller_by_its_classes() {
    let of = |names: [&str; 4]| {
        let values = [30, 5, 10, 5];
        let parsed = names.iter().zip(values);
        let parsed: Vec<ParsedNumber> = parsed
            .map(|(name, value)| number(name, value, false))
            .collect();
        parsed
    };
    for names in [
        ["--train-way", "--shot", "--query", "--test-way"],
        [
            "--classes_per_it_tr",
            "--num_support_tr",
            "--num_query_tr",
            "--classes_per_it_val",
        ],
        ["--n_way", "--k_spt", "--k_qry", "--seed"],
    ] {
        // All at once; those of the queries alone, beside the others.
        for given in [&[&[450, 1, 28, 28][..]][..], &[&[300, 84], &[150, 84]]] {
            let told = told(given, &of(names));
            assert_eq!(
                found("python train.py", &told),
                is(names[0], 30, given[0][0])
            );
        }
        // Not a number of samples that the program draws.
        let told = told(&[&[210, 84]], &of(names));
        assert!(found("python train.py", &told).is_err(), "{names:?}");
    }
    // Several tasks at once are a batch of episodes.
    let mut several = of(["--n_way", "--k_spt", "--k_qry", "--seed"]);
    several.push(number("--tasks", 32, false));
    let told = told(&[&[32, 450, 784], &[32, 450]], &several);
    assert_eq!(found("python train.py", &told), is("--tasks", 32, 32));
}

#[test]
fn what_no_batch_sets_is_said() {
    let a2c = [
        number("--num-processes", 16, false),
        number("--num-steps", 5, false),
    ];
    let why = found("python main.py", &told(&[&[80, 4, 84, 84]], &a2c)).unwrap_err();
    assert!(
        why.ends_with(
            "that is --num-processes 16 × --num-steps 5: fewer of either make it smaller"
        ),
        "{why}"
    );
    let ppo = [
        number("--num-processes", 8, true),
        number("--num-steps", 128, true),
        number("--num-mini-batch", 4, true),
        number("--num-env-steps", 1_000_000, false),
    ];
    let line = "python main.py --num-processes 8 --num-steps 128 --num-mini-batch 4";
    let why = found(line, &told(&[&[256, 4, 84, 84], &[256, 1]], &ppo)).unwrap_err();
    assert!(
        why.contains("× --num-steps 128 / --num-mini-batch 4: more parts"),
        "{why}"
    );
    // A graph with its adjacency; a square alone may be anything.
    let hidden = [number("--hidden", 8, false)];
    let why = found(
        "python train.py",
        &told(&[&[2708, 1433], &[2708, 2708]], &hidden),
    )
    .unwrap_err();
    assert!(why.contains("a whole graph is one sample"), "{why}");
    let why = found("python train.py", &told(&[&[2708, 2708]], &hidden)).unwrap_err();
    assert!(!why.contains("graph"), "{why}");
}

#[test]
fn a_default_is_found_and_becomes_an_argument() {
    let told = told(
        &[&[256, 3, 224, 224], &[256]],
        &[
            number("--batch-size", 256, false),
            number("--workers", 4, false),
        ],
    );
    assert_eq!(
        found("python train.py data", &told),
        is("--batch-size", 256, 256)
    );
    let command = command("python train.py data");
    let launch = LaunchEnvironment {
        told: Some(&told),
        ..LaunchEnvironment::default()
    };
    let recognized = Recognized::new(&command, &launch);
    let source = recognized.batch_source().unwrap();
    let Place::Added(addition) = &source.sizes[0].place else {
        panic!("{source:?}");
    };
    assert_eq!(addition.saying(128), ["--batch-size", "128"]);
    assert_eq!(addition.gap, InsertPoint::Before(3));
}

#[test]
fn a_typed_number_beside_it_is_no_batch() {
    let told = told(
        &[&[64, 3, 32, 32]],
        &[number("--workers", 64, true), number("--batch", 64, false)],
    );
    assert_eq!(
        found("python train.py --workers 64", &told),
        is("--batch", 64, 64)
    );
}

#[test]
fn a_name_of_its_own_is_confirmed_by_its_number() {
    let told = told(
        &[&[96, 3, 64, 64]],
        &[
            number("--batch_size_A", 96, false),
            number("--num_batches", 96, false),
            number("--val-batch-size", 96, false),
        ],
    );
    assert_eq!(
        found("python train.py", &told),
        is("--batch_size_A", 96, 96)
    );
}

#[test]
fn the_second_dimension_counts_unless_the_modules_say_otherwise() {
    let mut told = told(
        &[&[35, 20], &[2, 20, 200]],
        &[number("--batch_size", 20, false)],
    );
    assert_eq!(found("python main.py", &told), is("--batch_size", 20, 20));
    told.batch_first = Some(true);
    assert!(found("python main.py", &told).is_err());
}

#[test]
fn a_total_is_told_from_the_size_per_device() {
    let per_device = [
        number("--batch-size", 64, false),
        number("--batch-per-gpu", 8, false),
    ];
    let given: &[&[u64]] = &[&[8, 3, 64, 64]];
    assert_eq!(
        found("python t.py", &told(given, &per_device)),
        is("--batch-per-gpu", 8, 8)
    );
    let mut total = told(&[&[8, 3, 64, 64]], &[number("--batch-size", 64, true)]);
    total.world = 8;
    assert_eq!(
        found("torchrun t.py --batch-size 64", &total),
        is("--batch-size", 64, 8)
    );
}

#[test]
fn accumulation_moves_along() {
    let told = told(
        &[&[16, 1024]],
        &[
            number("--batch", 16, false),
            number("--grad-accum-steps", 4, false),
        ],
    );
    let (.., steps) = found("python t.py", &told).unwrap();
    assert_eq!(steps, ["--grad-accum-steps"]);
}

#[test]
fn a_batch_of_which_the_model_was_given_one_part_stays_and_the_parts_become_more() {
    let source = |line: &str, told: &Knobs| {
        let command = command(line);
        let launch = LaunchEnvironment {
            told: Some(told),
            ..LaunchEnvironment::default()
        };
        let source = Recognized::new(&command, &launch).batch_source().unwrap();
        let names = |knobs: &[Knob<'_>]| -> Vec<String> {
            knobs.iter().map(|knob| knob.name.clone()).collect()
        };
        (names(&source.sizes), names(&source.steps), source.at_once)
    };
    let of_steps = (vec![], vec!["--grad-accum-steps".to_string()], 16);
    for typed in [true, false] {
        let mut told = told(
            &[&[16, 1024]],
            &[
                number("--batch-size", 64, typed),
                number("--grad-accum-steps", 4, typed),
            ],
        );
        let line = match typed {
            true => "python t.py --batch-size 64 --grad-accum-steps 4",
            false => "python t.py",
        };
        assert_eq!(source(line, &told), of_steps, "{line}");
        // As many ranks explain it as well.
        told.world = 4;
        assert_eq!(source(line, &told).0, ["--batch-size"], "{line}");
    }
}

#[test]
fn where_the_name_says_nothing_the_number_alone_does_not_suffice() {
    let told = told(
        &[&[512, 64]],
        &[number("--hidden", 512, false), number("--width", 64, false)],
    );
    let why = found("python t.py", &told).unwrap_err();
    assert!(why.contains("512×64"), "{why}");
    assert!(why.contains("none of its 2 arguments"), "{why}");
}

#[test]
fn two_that_are_alike_are_not_sure() {
    let told = told(
        &[&[32, 64]],
        &[
            number("--batch-a", 32, false),
            number("--batch-b", 32, false),
        ],
    );
    assert!(
        found("python t.py", &told)
            .unwrap_err()
            .contains("not sure")
    );
}

#[test]
fn what_does_not_read_the_command_is_not_added() {
    let mut hidden = number("--batch-size", 64, false);
    hidden.reads_command = false;
    assert!(found("python t.py", &told(&[&[64, 3]], &[hidden])).is_err());
}

fn literal(place: &str, name: &str, value: u64) -> SourceNumber {
    let (file, line) = place.split_once(':').unwrap();
    SourceNumber {
        file: format!("/work/{file}"),
        crc: 7,
        line: line.parse().unwrap(),
        column: 8,
        name: name.into(),
        kind: SourceNumberKind::Assignment,
        value,
    }
}

/// Given this, with these numbers in its files.
fn written(given: &[&[u64]], literals: &[SourceNumber]) -> Knobs {
    Knobs {
        literals: literals.to_vec(),
        ..told(given, &[])
    }
}

#[test]
fn a_literal_is_found_by_its_name_and_its_number() {
    let told = written(
        &[&[128, 1024]],
        &[
            literal("train.py:3", "eval_batch_size", 128),
            literal("train.py:4", "batch_size", 128),
            literal("train.py:5", "block_size", 1024),
            literal("train.py:6", "grad_accum", 4),
        ],
    );
    let (name, value, at_once, steps) = found("python train.py", &told).unwrap();
    assert_eq!((name.as_str(), value, at_once), ("batch_size", 128, 128));
    assert_eq!(steps, ["grad_accum"]);
    // It is on other machines as well.
    let why = found("srun -N 2 python train.py", &told).unwrap_err();
    assert!(
        why.contains("only where all ranks are on this node"),
        "{why}"
    );
    // After a relaunch it was told with the value that it had then, or before one.
    let edit = "OOMPH_EDITS=/work/train.py:4:8:128=64@00000007";
    let (_, value, at_once, _) = found(&format!("{edit} python train.py"), &told).unwrap();
    assert_eq!((value, at_once), (64, 64));
}

#[test]
fn of_several_literals_the_one_counts_that_the_text_is_sure_of() {
    let told = written(
        &[&[128, 3, 32, 32]],
        &[
            literal("train.py:2", "batch_size", 128),
            SourceNumber {
                kind: SourceNumberKind::Keyword,
                ..literal("train.py:3", "batch_size", 128)
            },
        ],
    );
    let why = found("python train.py", &told).unwrap_err();
    assert!(why.starts_with("not sure which sets the batch"), "{why}");
    let text = |text: &str| {
        ProgramText::read(
            &[ProgramSource {
                path: "/work/train.py".into(),
                text: text.into(),
                role: SourceRole::Script,
            }],
            &[],
        )
    };
    let line = "def main():\n    batch_size = 128\n";
    let of_test =
        format!("{line}    test_loader = Loader('cifar10', train=False, batch_size=128)\n");
    let of_train = format!("{line}    loader = Loader('cifar10', batch_size=128)\n");
    let command = command("python train.py");
    for (text, is_sure) in [(text(&of_test), true), (text(&of_train), false)] {
        let launch = LaunchEnvironment {
            told: Some(&told),
            text: Some(&text),
            ..LaunchEnvironment::default()
        };
        let source = Recognized::new(&command, &launch).batch_source();
        let value = source.map(|source| source.sizes.first().map(|knob| knob.value));
        assert_eq!(value.ok(), is_sure.then_some(Some(128)));
    }
}

#[test]
fn of_several_literals_the_one_counts_that_a_variable_confirms() {
    let mut told = written(
        &[&[128, 1024]],
        &[
            literal("old.py:3", "batch_size", 128),
            literal("train.py:4", "batch_size", 128),
        ],
    );
    let why = found("python train.py", &told).unwrap_err();
    assert_eq!(
        why,
        "not sure which sets the batch: old.py:3 batch_size, train.py:4 batch_size are all 128"
    );
    told.names = vec![NamedNumber {
        name: "batch_size".into(),
        value: 128,
        file: "train.py".into(),
        function: "<module>".into(),
    }];
    assert_eq!(found("python train.py", &told), is("batch_size", 128, 128));
}

#[test]
fn an_argument_of_another_name_is_found_where_nothing_else_can_be_it() {
    let n = number("--n", 96, true);
    let alone = |given: &[&[u64]], parsed: &[ParsedNumber]| {
        found("python t.py --n 96", &told(given, parsed))
    };
    let given: &[&[u64]] = &[&[96, 512], &[96]];
    assert_eq!(alone(given, std::slice::from_ref(&n)), is("--n", 96, 96));
    // Another number is the same, the size is another dimension's, too, or it is small.
    let both = [n.clone(), number("--m", 96, false)];
    assert!(alone(given, &both).unwrap_err().contains("--n, --m"));
    assert!(alone(&[&[96, 96]], std::slice::from_ref(&n)).is_err());
    assert!(alone(&[&[96, 512], &[64, 96]], &[n]).is_err());
    let small = told(&[&[8, 512]], &[number("--n", 8, true)]);
    assert!(found("python t.py --n 8", &small).is_err());
    let other = told(&[&[96, 512]], &[number("--num-workers", 96, true)]);
    assert!(found("python t.py --num-workers 96", &other).is_err());
}

#[test]
fn new_values_are_what_the_program_accepts() {
    let bounds = |text: &str, told: &Knobs| {
        let command = command(text);
        let launch = LaunchEnvironment {
            told: Some(told),
            ..LaunchEnvironment::default()
        };
        let source = Recognized::new(&command, &launch).batch_source().unwrap();
        let most = [100, 60, 20].map(|most| source.bounds.at_most(most));
        (source.sizes[0].name.clone(), most)
    };
    let mut chosen = number("--batch-size", 128, true);
    chosen.choices = vec![32, 64, 128];
    assert_eq!(
        bounds(
            "python t.py --batch-size 128",
            &told(&[&[128, 3]], &[chosen])
        ),
        ("--batch-size".into(), [Some(64), Some(32), None])
    );
    let per_device = [
        number("--batch-size", 384, true),
        number("--micro-batch", 96, false),
    ];
    assert_eq!(
        bounds(
            "python t.py --batch-size 384",
            &told(&[&[96, 3, 8, 8]], &per_device)
        ),
        ("--micro-batch".into(), [Some(96), Some(48), Some(16)])
    );
    let with_total = [
        number("--total-batch-size", 384, true),
        number("--batch-size", 96, false),
    ];
    assert_eq!(
        bounds(
            "python t.py --total-batch-size 384",
            &told(&[&[96, 3, 8, 8]], &with_total)
        ),
        ("--batch-size".into(), [Some(96), Some(48), Some(16)])
    );
    let tokens = written(
        &[&[96, 1000]],
        &[
            literal("t.py:1", "total_batch_size", 96_000 * 4),
            literal("t.py:2", "batch_size", 96),
        ],
    );
    assert_eq!(
        bounds("python t.py", &tokens),
        ("batch_size".into(), [Some(96), Some(48), Some(16)])
    );
    let mut ranks = told(&[&[8, 3, 64, 64]], &[number("--batch-size", 64, true)]);
    ranks.world = 8;
    assert_eq!(
        bounds("torchrun t.py --batch-size 64", &ranks),
        ("--batch-size".into(), [Some(96), Some(56), Some(16)])
    );
}

#[test]
fn runs_with_a_default_and_with_the_argument_are_compared() {
    let told = told(&[&[256, 3]], &[number("--nbatch", 256, false)]);
    let launch = LaunchEnvironment {
        told: Some(&told),
        ..LaunchEnvironment::default()
    };
    let key = |text: &str| {
        let command = command(text);
        Recognized::new(&command, &launch).workload()
    };
    let (default, typed) = (
        key("python t.py data"),
        key("python t.py data --nbatch 128"),
    );
    assert_eq!(default.likeness, typed.likeness);
    assert_eq!((default.at_once, typed.at_once), (256, 128));
}

#[test]
fn an_option_that_nobody_has_set_is_added_where_its_variable_has_the_number() {
    let unset = ParsedNumber {
        default: None,
        ..number("--batch-size", 0, false)
    };
    let mut deeplab = told(
        &[&[4, 3, 513, 513]],
        &[unset, number("--workers", 4, false)],
    );
    assert!(found("python train.py", &deeplab).is_err());
    let named = |name: &str, value: u64| NamedNumber {
        name: name.into(),
        value,
        file: "train.py".into(),
        function: "main".into(),
    };
    deeplab.names = vec![named("args.batch_size", 4), named("args.workers", 4)];
    assert_eq!(found("python train.py", &deeplab), is("--batch-size", 4, 4));
    // Of two ranks it may count both.
    deeplab.world = 2;
    assert!(found("python train.py", &deeplab).is_err());
    deeplab.world = 1;
    deeplab.names.push(named("val_loader.batch_size", 8));
    assert!(found("python train.py", &deeplab).is_err());
}

#[test]
fn a_size_per_device_that_is_not_set_is_added_beside_the_total() {
    let unset = |option: &str| ParsedNumber {
        default: None,
        ..number(option, 0, false)
    };
    let mut edm = told(
        &[&[128, 3, 32, 32]],
        &[number("--batch", 512, false), unset("--batch-gpu")],
    );
    edm.world = 4;
    assert_eq!(
        found("torchrun --nproc_per_node=4 train.py", &edm),
        is("--batch-gpu", 128, 128)
    );
    edm.parsed[0].typed = true;
    let typed = command("torchrun --nproc_per_node=4 train.py --batch 512");
    let launch = LaunchEnvironment {
        told: Some(&edm),
        ..LaunchEnvironment::default()
    };
    let source = Recognized::new(&typed, &launch).batch_source().unwrap();
    assert!(
        matches!(&source.sizes[0].place, Place::Added(_)),
        "{source:?}"
    );
    assert_eq!(source.bounds.divisor_of, Some(128));
    assert!(
        matches!(&source.whole, WholeBatch::Kept(words) if words == "--batch 512 stays"),
        "{source:?}"
    );
    // The next run has it typed; the total is still what it must divide.
    edm.given = vec![shape(&[64, 3, 32, 32])];
    edm.parsed[1].value = 64;
    edm.parsed[1].typed = true;
    let next = command("torchrun --nproc_per_node=4 train.py --batch 512 --batch-gpu 64");
    let launch = LaunchEnvironment {
        told: Some(&edm),
        ..LaunchEnvironment::default()
    };
    let source = Recognized::new(&next, &launch).batch_source().unwrap();
    assert_eq!(
        (source.sizes[0].name.as_str(), source.at_once),
        ("--batch-gpu", 64)
    );
    assert_eq!(source.bounds.divisor_of, Some(128));
    // One that is not a number of the command's is nobody's to set.
    edm.parsed[1] = unset("--batch-gpu");
    edm.parsed[1].reads_command = false;
    edm.parsed[0].typed = false;
    edm.given = vec![shape(&[128, 3, 32, 32])];
    assert_eq!(
        found("torchrun --nproc_per_node=4 train.py", &edm),
        is("--batch", 512, 128)
    );
}

#[test]
fn an_accumulation_without_a_number_counts_nothing() {
    let told = told(
        &[&[64, 8]],
        &[
            number("--batch-size", 64, false),
            number("--grad-accum", 0, false),
        ],
    );
    assert_eq!(found("python train.py", &told), is("--batch-size", 64, 64));
}

#[test]
fn where_no_name_says_it_the_numbers_of_the_first_dimension_are_there_to_choose() {
    let all = told(
        &[&[8, 1024]],
        &[
            number("--rows", 8, false),
            number("--heads", 8, true),
            number("--lr-steps", 9, true),
        ],
    );
    let possible = |learned: &[LearnedKnob]| -> Vec<(String, String)> {
        let command = command("python train.py --heads 8");
        let launch = LaunchEnvironment {
            told: Some(&all),
            learned,
            ..LaunchEnvironment::default()
        };
        let recognized = Recognized::new(&command, &launch);
        assert!(recognized.batch_source().is_err());
        let each = recognized.possible_batches().into_iter();
        each.map(|one| (one.source.sizes[0].name.clone(), one.evidence))
            .collect()
    };
    let row = (
        "--rows".to_string(),
        "8, default; the model was given 8×1024".to_string(),
    );
    assert_eq!(possible(&[]).first(), Some(&row));
    let nothing = LearnedKnob {
        place: KnobPlace::Argument {
            name: "--rows".into(),
        },
        effect: KnobEffect::Nothing,
        session: "s".into(),
    };
    assert!(!possible(&[nothing]).contains(&row));
}

#[test]
fn a_batch_that_is_drawn_by_chance_is_about_what_the_model_was_given() {
    let parsed = [
        number("--batch-size", 2000, false),
        number("--epochs", 10, false),
    ];
    let given = told(&[&[1974, 3, 32, 32]], &parsed);
    assert_eq!(found("python a.py", &given), is("--batch-size", 2000, 2000));
    assert_eq!(
        found("python a.py --batch-size 2000", &given),
        is("--batch-size", 2000, 2000)
    );
    // Too far away for chance, and too small a number to tell.
    let far = told(&[&[1500, 3, 32, 32]], &parsed);
    assert!(found("python a.py", &far).is_err());
    let small = told(&[&[30, 8]], &[number("--batch-size", 32, false)]);
    assert!(found("python a.py", &small).is_err());
}

#[test]
fn a_number_of_tasks_that_leads_every_tensor_is_the_batch() {
    let parsed = [
        number("--task_num", 32, false),
        number("--num_workers", 32, false),
        number("--imgsz", 28, false),
    ];
    let given: [&[u64]; 2] = [&[32, 100, 1, 28, 28], &[32, 100]];
    assert_eq!(
        found("python a.py", &told(&given, &parsed)),
        is("--task_num", 32, 32)
    );
}
