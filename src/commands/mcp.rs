//! `oomph mcp`: a server of the Model Context Protocol on standard input and output.

use crate::live::Ending;
use crate::mcp::{self, Permissions};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "An agent's program starts it: oomph help agents says how. It reads this user's sessions, and the files of commands in \
                  the directory that it is started in."
)]
pub(super) struct McpCommand {
    /// Permit starting recorded commands with what is offered for them, and stopping what was started so
    #[arg(long)]
    allow_run: bool,
    /// Permit starting any command, too
    #[arg(long)]
    allow_command: bool,
    /// Serve this recording as well; may be repeated
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    recording: Vec<PathBuf>,
}

/// Serves until standard input ends.
///
/// # Errors
/// A file is no recording.
pub(super) fn run(asked: &McpCommand) -> anyhow::Result<Ending> {
    let permissions = Permissions {
        run: asked.allow_run,
        command: asked.allow_command,
    };
    mcp::serve(permissions, &asked.recording)?;
    Ok(Ending::Code(0))
}
