//! What is recognized in a command, and what each remedy would change in it.

use crate::command::CommandLine;
use crate::mcp::scope::ReadScope;
use crate::mcp::tool::{CallProgress, ToolContext, ToolNeeds, ToolSpec, arguments, parsed};
use crate::query::planned;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const TOOL: ToolSpec = ToolSpec {
    name: "plan_command",
    title: "Plan a command",
    description: "What oomph recognizes in a training command before it runs: the program, what sets its batch and how sure that is, \
                  and the changed command of each remedy. Of a shell script, the trainings that it starts, each with its plan. Runs nothing.",
    needs: ToolNeeds::Reading,
    arguments: arguments::<PlanArguments>,
    answer: "plan",
    call,
};

/// Words of a command.
const MOST_WORDS: usize = 2_000;

/// A command, word by word; nothing is split, and no shell reads it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandWords {
    /// The words: ["python", "train.py", "--batch-size", "64"]; NAME=VALUE in front sets a variable
    words: Vec<String>,
    /// The directory that it runs in [default: the server's]
    directory: Option<String>,
}

impl CommandWords {
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// # Errors
    /// It is empty, or of files that are not read.
    pub fn command(&self, scope: &ReadScope) -> Result<CommandLine, String> {
        if self.words.len() > MOST_WORDS || self.words.iter().any(|word| word.contains('\0')) {
            return Err("that is no command".into());
        }
        let directory = match &self.directory {
            Some(directory) => scope.directory.join(PathBuf::from(directory)),
            None => scope.directory.clone(),
        };
        if !directory.is_dir() {
            return Err(format!(
                "the directory {} is not there",
                directory.display()
            ));
        }
        let words: Vec<OsString> = self.words.iter().map(OsString::from).collect();
        let command = planned::command_line(words, directory).ok_or("the command is empty")?;
        scope.check_command(&command)?;
        Ok(command)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanArguments {
    command: CommandWords,
}

fn call(context: &ToolContext, given: JsonObject, _: Duration) -> Result<CallProgress, String> {
    let asked: PlanArguments = parsed(given)?;
    let command = asked.command.command(&context.scope)?.without_secrets();
    let may_read = |started: &CommandLine| context.scope.check_command(started).is_ok();
    let (answer, _) = planned::plan_json(&command, 0.5, &may_read);
    Ok(CallProgress::Done(answer))
}
