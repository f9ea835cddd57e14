//! What is known of a command before it runs: its words, and what its remedies rest on.

use crate::cli;
use crate::command::{CommandLine, Word};
use crate::config;
use crate::forecast::ForecastInputs;
use crate::live::session::earlier;
use crate::live::session::inputs::SessionInputs;
use crate::live::torch;
use crate::project_files;
use crate::recognize::{
    BatchFinding, CommandLayout, HowSure, LaunchEnvironment, ProgramKind, ScriptCommand,
    script_commands,
};
use crate::remedy::{self, RemedyInputs};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The command of these words; leading `NAME=VALUE` words are variables, as for `env`. `None` without any other.
pub fn command_line(words: Vec<OsString>, cwd: PathBuf) -> Option<CommandLine> {
    let mut words = words.into_iter().map(Word).peekable();
    let mut env = Vec::new();
    while let Some(change) = words.peek().and_then(cli::assignment) {
        env.push(change);
        words.next();
    }
    let argv: Vec<Word> = words.collect();
    (!argv.is_empty()).then_some(CommandLine { argv, env, cwd })
}

/// Gives what the remedies of a command rest on to `tell`; the batch is scaled by `batch_scale`. Also returns what is wrong
/// with the user's settings.
pub fn with_inputs<T>(
    command: &CommandLine,
    batch_scale: f64,
    tell: impl FnOnce(&RemedyInputs<'_>) -> T,
) -> (T, Vec<String>) {
    let torch = torch::version_for(command);
    let mut settings = config::read(&command.cwd);
    let (mut known, problems) = SessionInputs::at_start(&settings);
    known.look(command, None);
    known.read_text(command);
    let earlier = earlier::read(command, &earlier::Before::default());
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            torch: torch.as_deref().or(earlier.torch()),
            ..known.launch()
        },
        // What they showed of other batches takes an OOM, whose room they are compared with.
        forecast: ForecastInputs {
            earlier_runs: &earlier.runs,
            earlier_rank: earlier.rank.as_deref(),
            ..ForecastInputs::default()
        },
        batch_scale,
        leftovers: known.leftovers(),
        ..RemedyInputs::default()
    };
    settings.problems.extend(problems);
    (tell(&inputs), settings.problems)
}

/// The plan of a command as JSON, and what is wrong with the user's settings. What a shell script starts has plans of its own
/// where the script sets no batch; what sets the batch of the first is then what was found. Of the scripts and the trainings, only
/// what `may_read` says is looked into.
pub fn plan_json(
    command: &CommandLine,
    batch_scale: f64,
    may_read: &dyn Fn(&CommandLine) -> bool,
) -> (Value, Vec<String>) {
    let started = started_instead(command, batch_scale, may_read);
    let of = |command: &CommandLine| {
        with_inputs(command, batch_scale, |inputs| {
            remedy::plan_json(command, inputs)
        })
    };
    let (mut plan, problems) = of(command);
    let each = started.iter().map(|training| {
        let command = &training.started.command;
        json!({
            "script": training.script,
            "line": training.started.line,
            "whole": training.started.is_whole,
            "cwd": command.cwd,
            "found": training.found,
            "plan": of(command).0,
        })
    });
    let each: Vec<Value> = each.collect();
    if let [first, ..] = started.as_slice() {
        plan["found"] = json!(first.found);
        plan["starts"] = Value::Array(each);
    }
    (plan, problems)
}

/// The trainings that a script starts, where nothing in the command itself sets a batch.
pub fn started_instead(
    command: &CommandLine,
    batch_scale: f64,
    may_read: &dyn Fn(&CommandLine) -> bool,
) -> Vec<StartedTraining> {
    let is_found = |inputs: &RemedyInputs<'_>| {
        inputs.recognize(command).batch_finding().how_sure != HowSure::Nothing
    };
    match with_inputs(command, batch_scale, is_found).0 {
        true => Vec::new(),
        false => started_by(command, may_read),
    }
}

/// A training that a shell script starts, and what sets its batch.
pub struct StartedTraining {
    /// The script, as it is typed.
    pub script: String,
    pub started: ScriptCommand,
    pub found: BatchFinding,
}

/// Scripts that start others are followed so far.
const DEEPEST: usize = 3;
/// Trainings of one script that are told of.
const MOST: usize = 4;

/// The trainings that a shell script starts, as its text says; those whose batch was found where there are such, else those
/// that may be one. Nothing where the command starts no script.
fn started_by(
    command: &CommandLine,
    may_read: &dyn Fn(&CommandLine) -> bool,
) -> Vec<StartedTraining> {
    let mut found = Vec::new();
    of_script(command, 0, may_read, &mut found);
    let is_known = |one: &StartedTraining| one.found.how_sure != HowSure::Nothing;
    if found.iter().any(is_known) {
        found.retain(is_known);
    }
    found.truncate(MOST);
    found
}

fn of_script(
    command: &CommandLine,
    depth: usize,
    may_read: &dyn Fn(&CommandLine) -> bool,
    found: &mut Vec<StartedTraining>,
) {
    let layout = CommandLayout::new(command);
    let words = command.argv.get(layout.arguments.clone());
    let word = command.argv.get(layout.program).and_then(Word::as_str);
    let (Some(script), Some(words), true) = (word, words, layout.kind == ProgramKind::ShellScript)
    else {
        return;
    };
    let Some(text) = project_files::config_text(&command.cwd, Path::new(script)) else {
        return;
    };
    let arguments: Vec<String> = words.iter().map(Word::to_string_lossy).collect();
    let inherited = |name: &str| {
        let typed = command.env_value(name).and_then(Word::as_str);
        typed.map(String::from).or_else(|| std::env::var(name).ok())
    };
    for mut started in script_commands(&text, &arguments, &command.cwd, &inherited) {
        // What is typed before the script is there for all that it starts.
        started
            .command
            .env
            .splice(0..0, command.env.iter().cloned());
        if !may_read(&started.command) {
            continue;
        }
        match CommandLayout::new(&started.command).kind {
            ProgramKind::ShellScript if depth < DEEPEST => {
                of_script(&started.command, depth + 1, may_read, found);
            }
            ProgramKind::Script | ProgramKind::Module | ProgramKind::Executable => {
                found.extend(training(script, started));
            }
            ProgramKind::ShellScript
            | ProgramKind::Code
            | ProgramKind::ShellString
            | ProgramKind::Image
            | ProgramKind::Remote
            | ProgramKind::Missing => {}
        }
    }
}

/// A command that may be a training, as far as its program and its words show.
fn training(script: &str, started: ScriptCommand) -> Option<StartedTraining> {
    let ((found, may_be_one), _) = with_inputs(&started.command, 0.5, |inputs| {
        let recognized = inputs.recognize(&started.command);
        let found = recognized.batch_finding();
        let is_open = recognized.may_train();
        let is_python = recognized.layout.kind != ProgramKind::Executable;
        let may_be_one = is_open && (is_python || recognized.known.is_some());
        (found, may_be_one)
    });
    may_be_one.then(|| StartedTraining {
        script: script.into(),
        found: found.typed_at(script, started.line),
        started,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_starts_is_told_with_its_line() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        write(
            "train.py",
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=64)\n",
        );
        write(
            "run.sh",
            "#!/bin/bash\nBS=${1:-16}\npython prepare.py --out data\nbash inner.sh $BS\npython eval.py --batch-size 4\n",
        );
        write(
            "inner.sh",
            "export CUDA_VISIBLE_DEVICES=1\npython train.py \\\n  --batch-size $1\n",
        );
        let typed = |words: &[&str]| {
            let words = words.iter().map(OsString::from).collect();
            command_line(words, root.path().to_path_buf()).unwrap()
        };
        let told = |words: &[&str]| -> Vec<String> {
            let all = started_by(&typed(words), &|_| true);
            let shown = all.iter().map(|one| {
                let spots: Vec<String> = (one.found.candidates.iter())
                    .map(|spot| format!("{} {} {}", spot.name, spot.value, spot.stands_at()))
                    .collect();
                format!("{} | {}", one.started.command.shown(), spots.join(", "))
            });
            shown.collect()
        };
        assert_eq!(
            told(&["bash", "run.sh", "8"]),
            [
                "CUDA_VISIBLE_DEVICES=1 python train.py --batch-size 8 | --batch-size 8 typed at inner.sh:2"
            ]
        );
        assert_eq!(
            told(&["bash", "run.sh"]),
            [
                "CUDA_VISIBLE_DEVICES=1 python train.py --batch-size 16 | --batch-size 16 typed at inner.sh:2"
            ]
        );
        assert!(told(&["python", "train.py"]).is_empty());
        assert!(told(&["bash", "none.sh"]).is_empty());

        let (plan, _) = plan_json(&typed(&["bash", "run.sh", "8"]), 0.5, &|_| true);
        let [training] = plan["starts"].as_array().unwrap().as_slice() else {
            panic!("{plan}");
        };
        assert_eq!(training["script"], "inner.sh");
        assert_eq!(training["line"], 2);
        assert_eq!(training["plan"]["batch"]["value"], 8);
        assert_eq!(plan["found"]["candidates"][0]["value"], 8);
        // Agents are told of what the schema has.
        let schemas: Value = serde_json::from_str(crate::query::SCHEMAS).unwrap();
        let described = &schemas["$defs"]["plan"]["properties"]["starts"]["items"];
        let fields = described["properties"].as_object().unwrap();
        assert_eq!(
            training.as_object().unwrap().keys().collect::<Vec<_>>(),
            fields.keys().collect::<Vec<_>>()
        );
        // What may not be read is not looked into.
        let is_python = |command: &CommandLine| command.argv[0].as_str() == Some("python");
        let (plan, _) = plan_json(&typed(&["bash", "run.sh", "8"]), 0.5, &is_python);
        assert!(
            plan["starts"]
                .as_array()
                .is_none_or(|starts| { starts.iter().all(|one| one["script"] == "run.sh") }),
            "{plan}"
        );
    }
}
