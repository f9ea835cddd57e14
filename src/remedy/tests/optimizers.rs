//! Trainings whose optimizer is known when memory runs out: the sum of its step, what would help, and what cannot.

use super::known_of;
use crate::diagnosis::{Cause, Certainty, Finding, diagnose};
use crate::event::*;
use crate::recognize::{ConfigFile, LaunchEnvironment, Recognized};
use crate::remedy::{Availability, Plan, Remedy, RemedyId, RemedyInputs, recommended, remedies};
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid};
use std::path::Path;

/// AdamW over parameters of so many GiB, of which so much has a gradient and a state.
fn adamw(parameters: f64, gradients: f64, stated: f64) -> OptimizerRecord {
    let size = |gib: f64| (gib * f64::from(1 << 30)) as u64;
    let line = serde_json::json!({
        "class": "AdamW", "base": "AdamW", "foreach": true, "weight_decay": true,
        "parameters": {"float32": size(parameters)},
        "gradients": {"float32": size(gradients)},
        "states": {"float32": size(2.0 * stated)},
        "trained": size(parameters), "elements": size(parameters) / 4, "small": 4096,
        "largest": size(parameters) / 20, "factored": 1 << 20, "stated": size(stated),
        "before": size(parameters + gradients),
    });
    serde_json::from_value(line).unwrap()
}

/// A card of 23.6 GiB, out in a phase of the first step with this optimizer.
fn out(phase: Phase, allocated: f64, optimizer: OptimizerRecord) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    scene.add(3.0, EventKind::Device(reading(&[(100, gib(2.0))])));
    scene.add(
        20.0,
        EventKind::Oom(OomRecord {
            phase,
            optimizer: Some(Box::new(optimizer)),
            ..record(100, gib(allocated), gib(allocated), gib(1.2), gib(0.3))
        }),
    );
    scene
}

fn finding(scene: &StagedSession) -> Finding {
    diagnose(&scene.state).into_iter().next().unwrap()
}

fn inputs<'a>(scene: &'a StagedSession, findings: &'a [Finding]) -> RemedyInputs<'a> {
    RemedyInputs {
        batch_fits: true,
        ..known_of(scene, findings)
    }
}

/// Which remedies are offered, and the one that Enter stands on.
fn offered(scene: &StagedSession, findings: &[Finding]) -> (Vec<String>, Option<usize>) {
    let all = remedies(
        &scene.state.run().unwrap().command,
        &inputs(scene, findings),
    );
    let offered = all.iter().filter(|remedy| remedy.is_offered());
    let names = offered.map(|remedy| remedy.title.clone()).collect();
    (
        names,
        recommended(&all, findings.first().map(|one| one.cause)),
    )
}

#[test]
fn out_in_the_optimizers_step_the_sum_is_said_and_what_each_alternative_needs() {
    // Parameters and gradients of 6 GiB each; AdamW's state of 12 does not fit beside them.
    let scene = out(Phase::Optimizer, 22.5, adamw(6.0, 6.0, 5.0));
    let found = finding(&scene);
    assert_eq!(
        (found.cause, found.certainty),
        (Cause::OptimizerState, Certainty::Certain)
    );
    assert_eq!(
        found.headline,
        "The step of AdamW does not fit: 6.0 parameters + 6.0 gradients + 12.0 state + 6.0 temporaries of foreach = 30.0 > 23.1 GiB."
    );
    assert!(
        found
            .explanation
            .contains("neither a smaller batch nor mixed precision helps"),
        "{}",
        found.explanation
    );
    let advice: Vec<String> = found.advice.iter().map(ToString::to_string).collect();
    assert_eq!(
        advice,
        [
            "the optimizer's state and step in RAM (torchao's CPUOffloadOptimizer, DeepSpeed's offload_optimizer): needs 12.0 GiB, fits; equal to rounding; slower, RAM takes 12.0 GiB",
            "the optimizer's state sharded over 2 GPUs (ZeRO-1): needs 21.0 GiB, fits; same numerics",
            "parameters, gradients and state sharded over 2 GPUs (FSDP, ZeRO-3): needs 15.0 GiB, fits; same numerics",
            "AdamW with states of 8 bits (bitsandbytes or torchao): needs 15.0 GiB, fits; results change",
            "Adafactor: needs 12.6 GiB, fits; results change",
            "SGD with momentum: needs 18.0 GiB, fits; results change",
            "SGD without momentum: needs 12.0 GiB, fits; results change",
            "parameters in bf16: needs 15.0 GiB, fits; lower precision, results change",
            "foreach=False in AdamW: needs 24.6 GiB, 1.50 GiB too much; same numerics",
            "fused=True in AdamW: needs 24.0 GiB, 918 MiB too much; equal to rounding",
        ]
    );
    // By the finding, and by the step alone where another cause comes first (a cap).
    let by = found.too_large_by.expect("too large without activations");
    let said = format!("{by}");
    let findings = [found];
    let command = &scene.state.run().unwrap().command;
    let alone = crate::remedy::too_large_by(command, &inputs(&scene, &findings));
    let alone = alone.expect("the step alone");
    assert!(
        by.0.abs_diff(alone.0) < Bytes::gib(1).0,
        "{said} and {alone}"
    );
    let (names, enter) = offered(&scene, &findings);
    assert_eq!(
        names,
        Vec::<String>::new(),
        "no batch, no precision, no segments"
    );
    assert_eq!(enter, None);
}

#[test]
fn states_of_eight_bits_are_those_of_a_package_that_is_there() {
    for (installed, said) in [
        (vec!["bitsandbytes", "torchao"], "8 bits (bitsandbytes):"),
        (vec!["torchao"], "8 bits (torchao.optim.AdamW8bit):"),
        (vec![], "neither is installed there"),
    ] {
        let mut scene = out(Phase::Optimizer, 22.5, adamw(6.0, 6.0, 5.0));
        let patchable = Patchable {
            pid: Pid(100),
            installed: Some(installed.into_iter().map(String::from).collect()),
            ..Patchable::default()
        };
        scene.add(20.1, EventKind::Patchable(patchable));
        let advice = finding(&scene).advice;
        let has = advice.iter().any(|one| one.as_str().contains(said));
        assert!(has, "{advice:?}");
    }
}

#[test]
fn a_step_that_would_fit_without_its_temporaries_says_that_first() {
    let mut optimizer = adamw(5.0, 5.0, 5.0);
    optimizer.before = Some(gib(20.0));
    let scene = out(Phase::Optimizer, 22.5, optimizer);
    let found = finding(&scene);
    assert_eq!(found.cause, Cause::OptimizerState);
    assert_eq!(
        found.advice[0],
        "foreach=False in AdamW: needs 20.5 GiB, fits; same numerics"
    );
    assert_eq!(
        found.advice[1],
        "fused=True in AdamW: needs 20.0 GiB, fits; equal to rounding"
    );
}

#[test]
fn what_is_known_before_the_first_step_says_that_the_model_itself_is_too_large() {
    let scene = out(Phase::Forward, 22.5, adamw(6.0, 0.0, 0.0));
    let found = finding(&scene);
    assert_eq!(
        (found.cause, found.certainty),
        (Cause::Capacity, Certainty::Certain)
    );
    assert_eq!(
        found.headline,
        "The model itself is 6.90 GiB too large for this GPU: 6.0 parameters + 6.0 gradients + 18.0 optimizer state = 30.0 > 23.1 GiB."
    );
    assert!(
        found.advice[0].starts_with("at least 2 GPUs, with the model sharded over them"),
        "{:?}",
        found.advice
    );
    assert!(
        found
            .advice
            .iter()
            .any(|advice| *advice == "a smaller model")
    );
    let (names, enter) = offered(&scene, &[found]);
    assert_eq!((names, enter), (Vec::new(), None));
}

#[test]
fn an_input_that_is_too_big_is_not_told_as_the_model() {
    let large_input = |optimizer: Option<OptimizerRecord>| {
        let mut scene = StagedSession::training();
        scene.sampled(2.0, 1.0, 1.5);
        let mut out = record(100, gib(1.0), gib(1.2), gib(23.0), gib(21.9));
        out.phase = Phase::Load;
        out.optimizer = optimizer.map(Box::new);
        scene.add(20.0, EventKind::Oom(out));
        scene
    };
    let of_model = finding(&large_input(None));
    assert!(
        of_model
            .headline
            .starts_with("The model itself does not fit"),
        "{}",
        of_model.headline
    );
    let scene = large_input(Some(adamw(1.0, 0.0, 0.0)));
    let found = finding(&scene);
    assert!(
        found.headline.starts_with("It does not fit"),
        "{}",
        found.headline
    );
    assert!(
        found
            .explanation
            .contains("The model was on the GPU already, with parameters of 1.00 GiB"),
        "{}",
        found.explanation
    );
    let (names, enter) = offered(&scene, &[found]);
    assert_eq!(
        (names.first().map(String::as_str), enter),
        (Some("smaller batch"), Some(0))
    );
}

/// A rehearsed step of one sample, with all that makes it smaller, is the least that the model needs.
#[test]
fn a_sample_that_does_not_fit_in_any_way_is_the_models_size() {
    let size = |gib: u64| gib << 30;
    let variant = |checkpointing, amp, each: u64| RehearsedVariant {
        checkpointing,
        amp,
        trace: Some(format!("x{} {} -2", size(each), size(5))),
        ..RehearsedVariant::default()
    };
    let said = |each: [u64; 2]| Rehearsal {
        pid: crate::units::Pid(100),
        phase: Phase::Forward,
        batch: 64,
        before: Bytes(size(5)),
        weights: vec![size(5)],
        trained: vec![size(5)],
        optimizer: Some(crate::event::OptimizerMemory::default()),
        own_loss: true,
        variants: vec![variant(false, false, each[0]), variant(true, true, each[1])],
        ..Rehearsal::default()
    };
    let rehearsed = |each, steps: u64| {
        let mut scene = StagedSession::training();
        scene.sampled(2.0, 1.0, 1.5);
        if steps > 0 {
            scene.add(10.0, step(100, steps, gib(15.0), gib(21.0)));
        }
        scene.add(
            20.0,
            EventKind::Oom(OomRecord {
                phase: Phase::Forward,
                ..record(100, gib(22.5), gib(22.6), gib(2.0), gib(0.3))
            }),
        );
        scene.add(20.1, EventKind::Rehearsal(Box::new(said(each))));
        finding(&scene).headline.to_string()
    };
    assert_eq!(
        rehearsed([40, 10], 0),
        "The model itself is 6.40 GiB too large for this GPU: 10.0 activations + 5.0 parameters + 5.0 gradients + 10.0 optimizer state = 30.0 > 23.6 GiB."
    );
    assert!(rehearsed([40, 1], 0).starts_with("The whole step does not fit"));
    // What was measured goes before: it has trained with less. A first step may have had no state yet.
    assert!(rehearsed([40, 10], 1).starts_with("The model itself"));
    let trained = rehearsed([40, 10], 3);
    assert!(!trained.contains("The model itself"), "{trained}");
}

/// The step of [`adamw`] where the program says nothing of foreach; forward and backward had reached so much.
fn by_default(mut optimizer: OptimizerRecord, peak: Option<f64>) -> OptimizerRecord {
    optimizer.foreach_by_default = true;
    optimizer.peak_before = peak.map(gib);
    optimizer
}

fn no_foreach(scene: &StagedSession) -> Remedy {
    let found = [finding(scene)];
    let all = remedies(&scene.state.run().unwrap().command, &inputs(scene, &found));
    let mut all = all.into_iter();
    all.find(|remedy| remedy.id == RemedyId::NoForeach).unwrap()
}

#[test]
fn temporaries_that_are_torchs_choice_are_taken_away_at_runtime_by_their_sum() {
    let scene = out(
        Phase::Optimizer,
        22.5,
        by_default(adamw(5.0, 5.0, 5.0), Some(10.2)),
    );
    let remedy = no_foreach(&scene);
    assert!(remedy.is_offered(), "{remedy:?}");
    let command = &scene.state.run().unwrap().command;
    let changed = Plan::new(command, &[&remedy]).command;
    assert_eq!(changed.env_value("OOMPH_PATCHES").unwrap(), "foreach=off");
    assert_eq!(changed.argv, command.argv);
    assert_eq!(remedy.changes, "patched at runtime: foreach=False in AdamW");
    // 5 of parameters, 5 of gradients, 10 of state, and two of the largest parameter.
    let said = &remedy.expectation;
    let peak = said.peak.unwrap();
    assert_eq!(peak.likely, gib(20.0) + gib(5.0 / 20.0) + gib(5.0 / 20.0));
    // Which the next run's peak is held against.
    let prediction = said.prediction().unwrap();
    assert_eq!(prediction.peak, Some(peak.likely));
    assert!(said.words.contains("likely fits"), "{}", said.words);
    assert!(
        said.words
            .contains("temporaries of 512 MiB instead of 5.00 GiB"),
        "{}",
        said.words
    );
    assert_eq!(remedy.numerics(), "equal to rounding");
    let (names, enter) = offered(&scene, &[finding(&scene)]);
    assert_eq!(names[..1], ["no foreach temporaries"]);
    assert_eq!(enter, Some(0));
}

#[test]
fn a_step_in_one_kernel_is_offered_beside_it_where_torch_allows_one() {
    let found = |record: OptimizerRecord| {
        let scene = out(Phase::Optimizer, 22.5, by_default(record, Some(10.2)));
        let findings = [finding(&scene)];
        let command = scene.state.run().unwrap().command.clone();
        let all = remedies(&command, &inputs(&scene, &findings));
        let fused = all
            .into_iter()
            .find(|remedy| remedy.id == RemedyId::FusedOptimizer)?;
        Some((Plan::new(&command, &[&fused]).command, fused))
    };
    // As of an earlier probe, or where torch has no kernel for these parameters.
    assert!(found(adamw(5.0, 5.0, 5.0)).is_none());
    let may_fuse = OptimizerRecord {
        may_fuse: true,
        ..adamw(5.0, 5.0, 5.0)
    };
    let (command, remedy) = found(may_fuse).unwrap();
    assert!(remedy.is_offered(), "{remedy:?}");
    assert_eq!(command.env_value("OOMPH_PATCHES").unwrap(), "fused=on");
    assert_eq!(remedy.changes, "patched at runtime: fused=True in AdamW");
    assert_eq!(remedy.numerics(), "equal to rounding");
    let said = &remedy.expectation;
    // Forward and backward beside the state are now the peak.
    assert_eq!(said.peak.unwrap().likely, gib(10.2) + gib(10.0));
    let words = said.words.as_str();
    assert!(
        words.contains("no temporaries instead of 5.00 GiB"),
        "{words}"
    );
}

#[test]
fn forward_and_backward_have_to_fit_beside_the_state_as_well() {
    // They had come to 14 without a state of 10.
    let scene = out(
        Phase::Optimizer,
        22.5,
        by_default(adamw(5.0, 5.0, 0.0), Some(14.0)),
    );
    let why = no_foreach(&scene);
    let said = &why.expectation;
    assert_eq!(said.fits, Some(false), "{}", said.words);
    // What they had come to is not known: nothing says that they fit.
    let scene = out(
        Phase::Optimizer,
        22.5,
        by_default(adamw(5.0, 5.0, 5.0), None),
    );
    let said = no_foreach(&scene).expectation;
    assert!(said.words.starts_with("may not fit"), "{}", said.words);
}

const TRAINER: &str = "python run_clm.py --per_device_train_batch_size 8 --output_dir out";

/// The step of [`adamw`] under this command, where so much is installed.
fn under(words: &str, optimizer: OptimizerRecord, installed: &[&str]) -> StagedSession {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 100, words));
    scene.add(1.0, hello(1, 100, None));
    scene.add(3.0, EventKind::Device(reading(&[(100, gib(2.0))])));
    scene.add(
        20.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Optimizer,
            optimizer: Some(Box::new(optimizer)),
            ..record(100, gib(22.5), gib(22.5), gib(1.2), gib(0.3))
        }),
    );
    let found = Patchable {
        pid: crate::units::Pid(100),
        models: vec!["Net".into()],
        installed: Some(installed.iter().map(|name| name.to_string()).collect()),
        ..Patchable::default()
    };
    scene.add(20.1, EventKind::Patchable(found));
    scene
}

fn smaller_state(scene: &StagedSession) -> Remedy {
    let found = [finding(scene)];
    let all = remedies(&scene.state.run().unwrap().command, &inputs(scene, &found));
    let mut all = all.into_iter();
    all.find(|remedy| remedy.id == RemedyId::Optimizer).unwrap()
}

#[test]
fn a_program_with_an_option_for_it_is_given_an_optimizer_with_a_smaller_state() {
    let scene = under(
        TRAINER,
        by_default(adamw(6.0, 6.0, 0.0), Some(13.0)),
        &["bitsandbytes"],
    );
    let remedy = smaller_state(&scene);
    assert!(remedy.is_offered(), "{remedy:?}");
    let command = &scene.state.run().unwrap().command;
    let changed = Plan::new(command, &[&remedy]).command;
    assert_eq!(changed.shown(), format!("{TRAINER} --optim adamw_bnb_8bit"));
    assert_eq!(remedy.numerics(), "another optimizer");
    let words = remedy.expectation.words.as_str();
    for part in [
        "Adam with states of 8 bits: 6.00 GiB of parameters, 6.00 GiB of gradients, 3.05 GiB of state",
        "paged Adam with states of 8 bits: 6.00 GiB of parameters, 6.00 GiB of gradients, 3.05 GiB of state that lies in RAM where the GPU is full",
        "Adafactor: 6.00 GiB of parameters",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert!(words.contains("likely fits"), "{words}");
    // What is typed is changed; without the package the one that needs none is taken.
    let typed = format!("{TRAINER} --optim adamw_torch");
    let scene = under(&typed, by_default(adamw(6.0, 6.0, 0.0), Some(13.0)), &[]);
    let remedy = smaller_state(&scene);
    let changed = Plan::new(&scene.state.run().unwrap().command, &[&remedy]).command;
    assert_eq!(changed.shown(), format!("{TRAINER} --optim adafactor"));
}

#[test]
fn another_optimizer_is_for_runs_that_begin_anew() {
    let why =
        |words: &str, optimizer| match smaller_state(&under(words, optimizer, &["bitsandbytes"]))
            .availability
        {
            Availability::NotOffered(why) => why.to_string(),
            Availability::Offered => panic!("it is offered"),
        };
    let resumed = format!("{TRAINER} --resume_from_checkpoint out/checkpoint-4");
    let said = why(&resumed, adamw(6.0, 6.0, 0.0));
    assert!(said.contains("goes on from a checkpoint"), "{said}");
    let said = why(
        &format!("{TRAINER} --optim paged_adamw_8bit"),
        adamw(6.0, 6.0, 0.0),
    );
    assert_eq!(said, "already on: --optim paged_adamw_8bit");
    let said = why("python train.py", adamw(6.0, 6.0, 0.0));
    assert!(
        said.contains("no option for another optimizer is known"),
        "{said}"
    );
}

#[test]
fn what_the_program_typed_stays() {
    let scene = out(Phase::Optimizer, 22.5, adamw(5.0, 5.0, 5.0));
    let remedy = no_foreach(&scene);
    match &remedy.availability {
        Availability::NotOffered(why) => assert!(why.contains("sets foreach in AdamW"), "{why}"),
        Availability::Offered => panic!("{remedy:?}"),
    }
    let mut fused = adamw(5.0, 5.0, 5.0);
    (fused.foreach, fused.fused) = (false, true);
    let scene = out(Phase::Optimizer, 22.5, fused);
    let all = remedies(&scene.state.run().unwrap().command, &inputs(&scene, &[]));
    assert!(all.iter().all(|remedy| remedy.id != RemedyId::NoForeach));
}

/// What becomes of the optimizer's key in a config file, where bitsandbytes is installed: the edited command and file, or why not.
fn in_file(words: &str, name: &str, text: &str) -> Result<(String, String), String> {
    let optimizer = by_default(adamw(6.0, 6.0, 0.0), Some(13.0));
    let scene = under(words, optimizer, &["bitsandbytes"]);
    let command = &scene.state.run().unwrap().command;
    let named = Recognized::new(command, &LaunchEnvironment::default()).named_files();
    let read = named
        .into_iter()
        .filter(|file| file.name == Path::new(name));
    let files: Vec<ConfigFile> = read
        .map(|file| ConfigFile {
            bases: Default::default(),
            at: file.at,
            from: file.from,
            name: file.name,
            text: text.into(),
        })
        .collect();
    assert_eq!(files.len(), 1, "{words}");
    let found = [finding(&scene)];
    let mut inputs = inputs(&scene, &found);
    (inputs.launch.files, inputs.launch.copies) = (&files, Some((Path::new("/s"), 2)));
    let all = remedies(command, &inputs);
    let remedy = all.iter().find(|remedy| remedy.id == RemedyId::Optimizer);
    let remedy = remedy.unwrap();
    match &remedy.availability {
        Availability::NotOffered(why) => Err(why.to_string()),
        Availability::Offered => {
            let plan = Plan::new(command, &[remedy]);
            let copy = plan.files.first().map(|file| file.text.clone());
            Ok((plan.command.shown(), copy.unwrap_or_default()))
        }
    }
}

#[test]
fn where_a_config_file_names_the_optimizer_its_key_is_edited() {
    for (words, name, text, command, copy) in [
        (
            "axolotl train llama.yml",
            "llama.yml",
            "micro_batch_size: 2\noptimizer: adamw_torch_fused # fast\nlr: 2e-4\n",
            "axolotl train /s/run2-llama.yml",
            "micro_batch_size: 2\noptimizer: adamw_bnb_8bit # fast\nlr: 2e-4\n",
        ),
        // An argument goes before the file's key, as that of the batch does.
        (
            "llamafactory-cli train sft.yaml",
            "sft.yaml",
            "per_device_train_batch_size: 2\noptim: adamw_torch\n",
            "llamafactory-cli train sft.yaml optim=adamw_bnb_8bit",
            "",
        ),
        (
            "tune run full_finetune_single_device --config 8B.yaml",
            "8B.yaml",
            "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\nbatch_size: 2\n",
            "tune run full_finetune_single_device --config /s/run2-8B.yaml",
            "optimizer:\n  _component_: bitsandbytes.optim.AdamW8bit\n  lr: 2e-5\nbatch_size: 2\n",
        ),
        // Nothing is known of the program, but its words are transformers' or torch's own.
        (
            "python my.py --config my.yaml",
            "my.yaml",
            "batch_size: 2\ntraining:\n  optim: adamw_torch\n",
            "python my.py --config /s/run2-my.yaml",
            "batch_size: 2\ntraining:\n  optim: adamw_bnb_8bit\n",
        ),
        (
            "python my.py --config my.yaml",
            "my.yaml",
            "batch_size: 2\noptimizer:\n  class_path: torch.optim.AdamW\n  init_args:\n    lr: 1e-4\n",
            "python my.py --config /s/run2-my.yaml",
            "batch_size: 2\noptimizer:\n  class_path: bitsandbytes.optim.AdamW8bit\n  init_args:\n    lr: 1e-4\n",
        ),
    ] {
        assert_eq!(
            in_file(words, name, text),
            Ok((command.to_string(), copy.to_string())),
            "{words}"
        );
    }
}

#[test]
fn an_optimizer_in_a_config_file_that_stays_says_why() {
    for (words, name, text, why) in [
        (
            "axolotl train llama.yml",
            "llama.yml",
            "optimizer: paged_adamw_8bit\n",
            "already on: optimizer is paged_adamw_8bit in llama.yml",
        ),
        (
            "axolotl train llama.yml",
            "llama.yml",
            "micro_batch_size: 2\n",
            "which optimizer it takes is not in a config file that was read",
        ),
        (
            "tune run full_finetune_single_device --config 8B.yaml",
            "8B.yaml",
            "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n",
            "bitsandbytes.optim.AdamW8bit does not take optimizer.fused, which 8B.yaml sets",
        ),
        (
            "python my.py --config my.yaml",
            "my.yaml",
            "batch_size: 2\noptimizer:\n  name: adamw\n",
            "optimizer.name is adamw in my.yaml; which other names this program takes is not known",
        ),
        (
            "python my.py --config my.yaml",
            "my.yaml",
            "batch_size: 2\n",
            "no option for another optimizer is known for this program",
        ),
    ] {
        assert_eq!(in_file(words, name, text), Err(why.to_string()), "{words}");
    }
}

#[test]
fn a_step_one_by_one_goes_with_the_batch_that_forward_and_backward_then_fit_with() {
    // The step alone needs 25, one by one 20.8. Beside a state of 10 the passes of a batch of 64 need 24, of 32 samples 22.
    let mut scene = out(
        Phase::Optimizer,
        22.5,
        by_default(adamw(5.0, 5.0, 0.0), Some(14.0)),
    );
    let parts = vec![256 << 20; 20];
    let gradients = vec![(256 << 20).to_string(); 20].join(" ");
    scene.add(
        20.1,
        EventKind::Rehearsal(Box::new(Rehearsal {
            pid: Pid(100),
            phase: Phase::Optimizer,
            batch: 64,
            before: gib(5.0),
            weights: parts.clone(),
            trained: parts,
            optimizer: Some(OptimizerMemory {
                class: "AdamW".into(),
                states: Some(2),
                has_state: false,
                foreach: true,
            }),
            own_loss: true,
            zero_grad: Some(ZeroGrad::Forward),
            variants: vec![RehearsedVariant {
                trace: Some(format!("x{} {gradients} -21", 64 << 20)),
                forward: 1,
                loss: 1,
                ..RehearsedVariant::default()
            }],
            ..Rehearsal::default()
        })),
    );
    let findings = [finding(&scene)];
    let inputs = inputs(&scene, &findings);
    let command = &scene.state.run().unwrap().command;
    let all = remedies(command, &inputs);
    let of = |id| all.iter().find(|remedy| remedy.id == id).unwrap();
    let one_by_one = of(RemedyId::NoForeach);
    assert!(one_by_one.is_offered(), "{one_by_one:?}");
    assert_eq!(one_by_one.expectation.fits, Some(false));
    assert!(!of(RemedyId::Batch).is_offered(), "by itself it is no help");
    let both = of(RemedyId::Together);
    let parts: Vec<RemedyId> = both.parts.iter().map(|part| part.id).collect();
    assert!(
        parts.contains(&RemedyId::NoForeach) && parts.contains(&RemedyId::Batch),
        "{parts:?}"
    );
    assert!(both.expectation.verdict().is_expected());
    let takes = both.parts.iter().find_map(|part| part.takes).unwrap();
    assert!((16..64).contains(&takes.at_once), "{takes:?}");
    let peak = both.expectation.peak.unwrap().likely;
    assert!(
        peak > gib(20.0) && peak < gib(23.1),
        "{peak}: state, parameters, gradients and the smaller batch"
    );
    let changed = Plan::new(command, &[both]).command;
    assert_eq!(changed.env_value("OOMPH_PATCHES").unwrap(), "foreach=off");
    assert_ne!(changed.argv, command.argv);
}
