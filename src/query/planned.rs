//! What is known of a command before it runs: its words, and what its remedies rest on.

use crate::cli;
use crate::command::{CommandLine, Word};
use crate::config;
use crate::live::session::inputs::SessionInputs;
use crate::live::torch;
use crate::project_files;
use crate::recognize::{
    BatchFinding, CommandLayout, HowSure, LaunchEnvironment, ProgramKind, ScriptCommand,
    script_commands,
};
use crate::remedy::RemedyInputs;
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
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            torch: torch.as_deref(),
            ..known.launch()
        },
        batch_scale,
        leftovers: known.leftovers(),
        ..RemedyInputs::default()
    };
    settings.problems.extend(problems);
    (tell(&inputs), settings.problems)
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
pub fn started_by(command: &CommandLine) -> Vec<StartedTraining> {
    let mut found = Vec::new();
    of_script(command, 0, &mut found);
    let is_known = |one: &StartedTraining| one.found.how_sure != HowSure::Nothing;
    if found.iter().any(is_known) {
        found.retain(is_known);
    }
    found.truncate(MOST);
    found
}

fn of_script(command: &CommandLine, depth: usize, found: &mut Vec<StartedTraining>) {
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
        match CommandLayout::new(&started.command).kind {
            ProgramKind::ShellScript if depth < DEEPEST => {
                of_script(&started.command, depth + 1, found);
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
            let all = started_by(&typed(words));
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
    }
}
