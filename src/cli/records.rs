//! The arguments of `report`, `diff` and `export`, which are about recorded sessions.

use crate::app::{ExportFormat, ExportOptions, ReportOptions};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "The page is one file that opens from disk and fetches nothing. Secrets are masked, as in the recording."
)]
pub(super) struct ReportArguments {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<OsString>,
    /// Write to this file: .html, or .md for an issue; - is standard output [default: oomph-ID.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave out user, host and directories
    #[arg(long)]
    anonymous: bool,
    /// Compare with another session in the report
    #[arg(long, value_name = "ID|FILE")]
    compare: Option<OsString>,
}

impl From<ReportArguments> for ReportOptions {
    fn from(arguments: ReportArguments) -> ReportOptions {
        ReportOptions {
            session: arguments.session,
            output: arguments.output,
            anonymous: arguments.anonymous,
            compare: arguments.compare,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "ID:2 is run 2 of a session, otherwise it is the last. With one session its first and last run are compared."
)]
pub(super) struct DiffArguments {
    /// The session that came first [default: the latest]
    #[arg(value_name = "ID|FILE")]
    pub(super) before: Option<OsString>,
    /// The session to compare with it
    #[arg(value_name = "ID|FILE")]
    pub(super) after: Option<OsString>,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<OsString>,
    /// What to write
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: ExportFormat,
    /// Where to: a file, or a directory for TensorBoard [default: standard output]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

impl From<ExportArguments> for ExportOptions {
    fn from(arguments: ExportArguments) -> ExportOptions {
        ExportOptions {
            format: arguments.to,
            session: arguments.session,
            output: arguments.output,
        }
    }
}
