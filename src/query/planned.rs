//! What is known of a command before it runs: its words, and what its remedies rest on.

use crate::cli;
use crate::command::{CommandLine, Word};
use crate::config;
use crate::live::session::inputs::SessionInputs;
use crate::live::torch;
use crate::recognize::LaunchEnvironment;
use crate::remedy::RemedyInputs;
use std::ffi::OsString;
use std::path::PathBuf;

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
