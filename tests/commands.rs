//! Training commands as people type them, each with what the remedies make of it: `commands/*.txt`.
//!
//! A record is a command, `$ python a.py --batch-size 8` (words `NAME=VALUE` in front are environment),
//! then what is known beside it and what must come of it, a key of ten columns and a value a line.
//!
//! Known beside it: `scale` (of the batch), `bf16` (no: the device lacks it), `inherited` (variables),
//! `torch` (its version), `conf` (the user's allocator settings), `argument` (of a trial; else the batch),
//! `checkpoint` (the newest), `file` (a name and its text: on the same line, or below behind `|`).
//! Expected: of a remedy (`batch`, `amp`, `recompute`, `segments`, `resume`, `workers`; `all` is all
//! that are offered) `! part of the reason why it is not offered`, `+ words added at the end`,
//! `old => new` for the text that changes, several with ` ; ` between, or the whole command. The copies
//! of files must be those that `copied` names, `cost` and `changes` are those of the remedy before, and
//! `to copy` is the command of one that has no key. `alloc` is the command with `conf`, `trial` the one with
//! 96 for its argument or batch, `replaced` the one with 96 for an argument that may be new; `written`
//! are the arguments that say where it writes. `launchers`, `program` and `job part` are what was
//! recognized.

mod corpus;
mod properties;
mod secrets;

use corpus::{Record, command, records};
use oomph::command::{CommandLine, Word};
use oomph::recognize::alloc_conf::Inherited;
use oomph::recognize::*;
use oomph::remedy::*;
use std::path::Path;

/// The words of an edited command, its environment first.
fn words(command: &CommandLine) -> Vec<String> {
    let set = command.env.iter().map(|change| {
        let value = change.value.as_ref().expect("a value");
        let value = value.to_string_lossy();
        format!("{}={value}", change.name.to_string_lossy())
    });
    let argv = command.argv.iter().map(Word::to_string_lossy);
    set.chain(argv).collect()
}

/// The words of the expected command.
fn expected(line: &str, value: &str) -> Vec<String> {
    let text = if let Some(added) = value.strip_prefix("+ ") {
        format!("{line} {added}")
    } else if value.contains(" =>") {
        value.split(" ; ").fold(line.to_string(), |line, change| {
            let (old, new) = change.split_once(" =>").expect("old => new");
            assert_eq!(line.matches(old).count(), 1, "{old:?} once in {line}");
            line.replacen(old, new.strip_prefix(' ').unwrap_or(new), 1)
        })
    } else {
        value.to_string()
    };
    shlex::split(&text).expect("words")
}

/// What is read of a record, and what it says of each key.
struct Case<'a> {
    record: &'a Record,
    before: CommandLine,
    inputs: RemedyInputs<'a>,
}

impl Case<'_> {
    fn remedy(&self, id: RemedyId) -> Remedy {
        let all = remedies(&self.before, &self.inputs);
        let found = all.into_iter().find(|remedy| remedy.id == id);
        found.unwrap_or_else(|| panic!("{id:?} for {}", self.record.line))
    }

    /// What is wrong with a remedy, if anything; `files` are the copies it must make.
    fn objection(
        &self,
        remedy: &Remedy,
        value: &str,
        files: &[(String, String)],
    ) -> Option<String> {
        let wanted_reason = value.strip_prefix('!').map(str::trim);
        match (&remedy.availability, wanted_reason) {
            (Availability::NotOffered(reason), Some(part)) if reason.contains(part) => None,
            (Availability::Offered, None) => {
                let plan = Plan::new(&self.before, &[remedy]);
                let copies: Vec<_> = plan
                    .files
                    .iter()
                    .map(|copy| (copy.path.display().to_string(), copy.text.clone()))
                    .collect();
                if copies != files {
                    return Some(format!("copies {copies:?}"));
                }
                self.differs(&plan.command, value)
            }
            (Availability::NotOffered(reason), _) => Some(format!("not offered: {reason}")),
            (Availability::Offered, Some(_)) => {
                let after = Plan::new(&self.before, &[remedy]).command;
                Some(format!("offered: {}", words(&after).join(" ")))
            }
        }
    }

    fn outcome_differs(&self, after: Result<CommandLine, String>, value: &str) -> Option<String> {
        match (after, value.strip_prefix('!').map(str::trim)) {
            (Ok(after), _) => self.differs(&after, value),
            (Err(why), Some(part)) if why.contains(part) => None,
            (Err(why), _) => Some(format!("refused: {why}")),
        }
    }

    fn differs(&self, after: &CommandLine, value: &str) -> Option<String> {
        let (got, wanted) = (words(after), expected(&self.record.line, value));
        (got != wanted).then(|| got.join(" "))
    }
}

/// The remedy of a key: its name in JSON, or a shorter one.
fn remedy_of(key: &str) -> Option<RemedyId> {
    let name = match key {
        "segments" => "expandable-segments",
        "workers" => "dataloader-workers",
        key => key,
    };
    RemedyId::all().find(|id| serde_json::to_value(id).expect("JSON") == name)
}

/// What is wrong with a record.
fn objections(record: &Record) -> Vec<String> {
    let before = command(&record.line);
    let files: Vec<ConfigFile> = Recognized::new(&before, &LaunchEnvironment::default())
        .named_files()
        .into_iter()
        .filter_map(|named| {
            let has_name = |file: &&(String, String)| Path::new(&file.0) == named.name;
            let text = record.files.iter().find(has_name)?.1.clone();
            Some(ConfigFile {
                bases: Default::default(),
                at: named.at,
                from: named.from,
                name: named.name,
                text,
            })
        })
        .collect();
    let environment = record.inherited();
    let checkpoint = record.value("checkpoint").map(|path| Checkpoint {
        path: path.into(),
        number: Some(50),
    });
    let variable = |wanted: &str| {
        let mut all = environment.iter();
        Some(all.find(|(name, _)| name == wanted)?.1.as_str())
    };
    let mut inputs = RemedyInputs {
        launch: LaunchEnvironment {
            torch: record.value("torch"),
            inherited: Inherited {
                cuda: variable("PYTORCH_CUDA_ALLOC_CONF"),
                hip: variable("PYTORCH_HIP_ALLOC_CONF"),
                general: variable("PYTORCH_ALLOC_CONF"),
            },
            files: &files,
            copies: Some((Path::new("/s"), 2)),
            environment: &environment,
            checkpoint: checkpoint.as_ref(),
            ..LaunchEnvironment::default()
        },
        bf16: record.value("bf16").map(|value| value != "no"),
        ..RemedyInputs::default()
    };
    if let Some(scale) = record.value("scale") {
        inputs.batch_scale = scale.parse().expect("a scale");
    }
    let case = Case {
        record,
        before: before.clone(),
        inputs: inputs.clone(),
    };
    let recognized = || inputs.recognize(&before);
    let mut latest = None;
    let mut wrong = Vec::new();
    for (key, value) in &record.expected {
        let text_of = |remedy: &Option<Remedy>, of: fn(&Remedy) -> &str| {
            let got = of(remedy.as_ref().expect("a remedy before"));
            (got != value).then(|| got.to_string())
        };
        let objection = match key.as_str() {
            "cost" => text_of(&latest, |remedy| remedy.cost.as_str()),
            "changes" => text_of(&latest, |remedy| remedy.changes.as_str()),
            "alloc" => {
                let conf = record.value("conf").unwrap_or_default();
                let launch = &inputs.launch;
                let after = with_alloc_conf(&before, conf, launch.inherited, launch.torch);
                case.outcome_differs(after, value)
            }
            "trial" => {
                let named = |name: &str| Which::Named(name.into());
                let which = record.value("argument").map_or(Which::Batch, named);
                let setting = Setting::find(&before, &which);
                case.outcome_differs(setting.map(|setting| setting.to(&before, 96)), value)
            }
            "replaced" => {
                let name = record.value("argument").expect("an argument");
                case.differs(&with_argument(&before, name, "96"), value)
            }
            "written" => {
                let places = places_written(&before).into_iter();
                let places: Vec<String> = places.map(|(name, at)| format!("{name} {at}")).collect();
                (places.join(" ") != *value).then(|| places.join(" "))
            }
            "to copy" => {
                let remedy: &Remedy = latest.as_ref().expect("a remedy before");
                case.differs(&Plan::new(&before, &[remedy]).command, value)
            }
            "all" => {
                let all = remedies(&before, &inputs);
                let chosen: Vec<&Remedy> = all.iter().collect();
                // Allocator settings stand in front of the command; this is of its own words.
                let mut after = Plan::new(&before, &chosen).command;
                after.env.clear();
                case.differs(&after, value)
            }
            "launchers" => {
                let found = recognized();
                let names: Vec<&str> = found.launchers().iter().map(|l| l.name.as_str()).collect();
                let names = if names.is_empty() {
                    "none".to_string()
                } else {
                    names.join(", ")
                };
                (names != *value).then_some(names)
            }
            "program" => {
                let program = &before.argv[recognized().layout.program];
                (*program != **value).then(|| program.to_string_lossy())
            }
            "job part" => {
                let part = recognized().part_of_a_job;
                (part.is_some() != (value == "yes")).then(|| format!("{part:?}"))
            }
            key => {
                let id = remedy_of(key).unwrap_or_else(|| panic!("{key}: not a key"));
                let remedy = case.remedy(id);
                let objection = case.objection(&remedy, value, &record.copied);
                latest = Some(remedy);
                objection
            }
        };
        if let Some(got) = objection {
            let (place, line) = (&record.place, &record.line);
            wrong.push(format!("{place}: {line}\n  {key}: {value}\n  got {got}"));
        }
    }
    wrong
}

#[test]
fn every_command_gets_its_remedies() {
    let records = records();
    let wrong: Vec<String> = records.iter().flat_map(objections).collect();
    let (of, outcomes) = (
        records.len(),
        records.iter().map(|r| r.expected.len()).sum::<usize>(),
    );
    assert!(
        wrong.is_empty(),
        "{} of {outcomes} outcomes of {of} commands are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn checkpoints_are_looked_for_where_the_program_writes_them() {
    let wanted = |line: &str| {
        Recognized::new(&command(line), &LaunchEnvironment::default()).checkpoints_wanted()
    };
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

/// A file that came with a repository may add arguments, which are said to be its, and no program.
#[test]
fn an_entry_adds_arguments_in_its_own_name_and_never_a_program() {
    let hostile = "[[program]]\nname = \"theirs\"\nscripts = [\"*\"]\nconsoles = [\"python\", \"bash\"]\nalone = true\n\
        [program.batch]\nnames = [\"--n\", \"python\", \"-m\", \"train.py\"]\n\
        [program.precision]\ndefault = \"off\"\nbf16 = [\"evil.py\", \"-c\", \"evil\"]\non = [\"evil.py\"]\n\
        [program.recompute]\ndefault = \"off\"\nadd = [\"-m\", \"evil\"]\n";
    let own = [Catalogue::of_user(hostile, "their/oomph.toml").unwrap()];
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            own: &own,
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    let mut added = 0;
    for line in [
        "python train.py --n 8",
        "python -m train --n 8",
        "python -u train.py --n 8",
        "bash train.sh --n 8",
        "torchrun --nproc_per_node 2 train.py --n 8",
        "accelerate launch train.py --n 8",
        "./train --n 8",
    ] {
        let before = command(line);
        let place = inputs.recognize(&before).layout.program;
        for remedy in remedies(&before, &inputs) {
            if remedy.availability != Availability::Offered {
                continue;
            }
            let after = Plan::new(&before, &[&remedy]).command;
            if after.argv == before.argv {
                continue;
            }
            let place_after = inputs.recognize(&after).layout.program;
            assert_eq!(after.argv[0], before.argv[0], "{line}");
            assert_eq!(after.argv[place_after], before.argv[place], "{line}");
            let said = remedy.cost.contains("arguments by their/oomph.toml");
            assert!(said, "{line}: {} ({})", remedy.title, remedy.cost);
            added += 1;
        }
    }
    assert!(added > 5, "{added}");
}

#[test]
fn entries_of_the_user_go_before_the_built_in_ones() {
    let text = "theme = \"dark\"\n[[program]]\nname = \"our trainer\"\nscripts = [\"run_mlm.py\"]\n[program.batch]\nnames = [\"--n\"]\n[program.accumulation]\nrule = \"flag\"\nnames = [\"--times\"]\ndefault = 1\n";
    let own = [Catalogue::of_user(text, "oomph.toml").unwrap()];
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            own: &own,
            ..LaunchEnvironment::default()
        },
        ..RemedyInputs::default()
    };
    let offered = |line: &str| {
        let before = command(line);
        let all = remedies(&before, &inputs);
        let batch = all.iter().find(|remedy| remedy.id == RemedyId::Batch);
        let batch = batch.expect("a batch");
        assert_eq!(batch.availability, Availability::Offered);
        words(&Plan::new(&before, &[batch]).command).join(" ")
    };
    let line = "python run_mlm.py --n 8 --per_device_train_batch_size 4";
    let before = command(line);
    let entry = inputs.recognize(&before).known.unwrap();
    assert_eq!(
        (entry.name.as_str(), entry.source.as_deref()),
        ("our trainer", Some("oomph.toml"))
    );
    assert_eq!(
        offered(line),
        "python run_mlm.py --n 4 --times 2 --per_device_train_batch_size 4"
    );
    offered("python run_clm.py --per_device_train_batch_size 4");
}
