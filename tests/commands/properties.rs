//! Properties of the edits of any command at all: an edit changes the words it names and no other,
//! undone it gives the command as it was, and no words make the remedies fail.

use oomph::command::{CommandLine, EnvChange, Word};
use oomph::recognize::LaunchEnvironment;
use oomph::remedy::{Edit, Plan, Remedy, RemedyInputs, plan_json, plan_text, remedies};
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Words that a command is made of: such as programs know, and any bytes at all.
fn word() -> impl Strategy<Value = Word> {
    let known = prop::sample::select(vec![
        "python",
        "-m",
        "torchrun",
        "accelerate",
        "launch",
        "env",
        "docker",
        "run",
        "bash",
        "-c",
        "uv",
        "--",
        "-",
        "",
        "train.py",
        "main.py",
        "run_clm.py",
        "demo/train.py",
        "./asr.sh",
        "--asr_args",
        "--batch_bins 8 --accum_grad 2",
        "yolo",
        "train",
        "batch=8",
        "amp=False",
        "fairseq-train",
        "--max-tokens",
        "--batch-size",
        "--batch_size=16",
        "-b64",
        "-b",
        "64",
        "7",
        "1",
        "-1",
        "auto",
        "--grad-accum",
        "2",
        "--per_device_train_batch_size",
        "--bf16",
        "False",
        "--mixed_precision",
        "no",
        "--hparams=batch_size=4,x=1",
        "--no-amp",
        "--noamp",
        "-e",
        "A=B",
        "BATCH_SIZE=8",
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64",
        "--nproc_per_node",
        "--nnodes",
        "SOLVER.IMS_PER_BATCH",
        "a b",
        "x=y=z",
        "--sched",
        "--model",
        "--do_train",
        "--output_dir",
        "data.batch_size=32",
        "trainer.gpus=1",
        "--train_batch_size",
    ])
    .prop_map(Word::from);
    let any =
        prop::collection::vec(1u8..=255, 0..9).prop_map(|bytes| Word(OsString::from_vec(bytes)));
    let odd = prop::collection::vec(1u8..=255, 0..4).prop_map(|bytes| {
        Word(OsString::from_vec(
            [b"--batch-size=8".as_slice(), &bytes].concat(),
        ))
    });
    prop_oneof![8 => known, 2 => any, 1 => odd]
}

fn command() -> impl Strategy<Value = CommandLine> {
    let starts = prop::sample::select(vec![
        vec![],
        vec!["python"],
        vec!["python", "train.py"],
        vec!["torchrun", "train.py"],
        vec!["accelerate", "launch"],
        vec!["docker", "run"],
        vec!["python", "run_clm.py"],
        vec!["./asr.sh"],
        vec!["fairseq-train"],
        vec!["yolo", "train"],
    ]);
    (
        starts,
        prop::collection::vec(word(), 0..14),
        prop::option::of(word()),
    )
        .prop_map(|(start, rest, set)| CommandLine {
            argv: start.into_iter().map(Word::from).chain(rest).collect(),
            env: set
                .into_iter()
                .map(|value| EnvChange {
                    name: Word::from("PYTORCH_CUDA_ALLOC_CONF"),
                    value: Some(value),
                })
                .collect(),
            cwd: "/".into(),
        })
}

/// The words of `before` with the edits undone from `after`, worked out from the edits alone.
fn undone(before: &CommandLine, edits: &[&Edit], after: &[Word]) -> Vec<Word> {
    let mut rest = after.iter();
    let mut words = Vec::new();
    for at in 0..=before.argv.len() {
        for edit in edits {
            if let Edit::Insert { at: place, words } = edit
                && *place == at
            {
                for word in words {
                    assert_eq!(rest.next(), Some(word), "what was put in is there");
                }
            }
        }
        let Some(original) = before.argv.get(at) else {
            break;
        };
        let removed = edits.iter().any(
            |edit| matches!(edit, Edit::Remove { at: first, count } if (*first..first + count).contains(&at)),
        );
        if removed {
            words.push(original.clone());
            continue;
        }
        let mut bytes = rest
            .next()
            .expect("a word that stays is there")
            .as_bytes()
            .to_vec();
        let mut splices: Vec<_> = edits
            .iter()
            .filter_map(|edit| match edit {
                Edit::Splice {
                    at: place,
                    from,
                    to,
                    with,
                } if *place == at => Some((*from, *to, with)),
                _ => None,
            })
            .collect();
        splices.sort_by_key(|(from, to, _)| (*from, *to));
        for (from, to, with) in splices {
            // All before this one are undone already, so its place is its place in the original.
            let new = from..from + with.as_bytes().len();
            assert_eq!(&bytes[new.clone()], with.as_bytes());
            bytes.splice(new, original.as_bytes()[from..to].iter().copied());
        }
        words.push(Word(OsString::from_vec(bytes)));
    }
    assert_eq!(rest.next(), None, "nothing else was put in");
    words
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn edits_change_what_they_say_and_can_be_taken_back(
        before in command(),
        mask in 1u16..256,
        scale in prop::sample::select(vec![0.5, 0.25, 0.75, 0.9, 0.001]),
    ) {
        let inputs = RemedyInputs { launch: LaunchEnvironment { torch: Some("2.11.0"), ..LaunchEnvironment::default() }, batch_scale: scale, ..RemedyInputs::default() };
        let all = remedies(&before, &inputs);
        let chosen: Vec<&Remedy> = all
            .iter()
            .enumerate()
            .filter(|(k, _)| mask & (1 << k) != 0)
            .map(|(_, remedy)| remedy)
            .collect();
        let after = Plan::new(&before, &chosen).command;
        let mut in_order = chosen.clone();
        in_order.sort_by_key(|remedy| remedy.id);
        let mut edits: Vec<&Edit> = Vec::new();
        for edit in in_order.iter().flat_map(|remedy| &remedy.edits) {
            if !(matches!(edit, Edit::Splice { .. }) && edits.contains(&edit)) {
                edits.push(edit);
            }
        }
        prop_assert_eq!(undone(&before, &edits, &after.argv), before.argv.clone());
        for remedy in &all {
            prop_assert!(!remedy.is_offered() || !remedy.edits.is_empty());
            for edit in &remedy.edits {
                // What is no text is never touched.
                if let Edit::Splice { at, .. } = edit {
                    prop_assert!(before.argv[*at].as_str().is_some());
                }
            }
        }
    }

    #[test]
    fn the_order_of_choosing_does_not_matter(before in command()) {
        let all = remedies(&before, &RemedyInputs::default());
        let forwards: Vec<&Remedy> = all.iter().collect();
        let backwards: Vec<&Remedy> = all.iter().rev().collect();
        prop_assert_eq!(Plan::new(&before, &forwards), Plan::new(&before, &backwards));
        prop_assert_eq!(Plan::new(&before, &[]).command, before);
    }

    #[test]
    fn an_outline_is_json_whatever_the_words(before in command()) {
        let text = plan_text(&plan_json(&before, &RemedyInputs::default()));
        // A Rust parser refuses lone surrogates, which Python reads; without them it is JSON.
        let plain: String = text.replace("\\udc", "\\u00");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&plain).is_ok(), "{}", text);
    }
}
