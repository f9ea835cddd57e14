//! The arguments of `ls`, `attach`, `stop` and `logs`.

use clap::Args;

#[derive(Debug, Args)]
pub(super) struct LsArguments {
    /// Also the sessions that have ended, the latest first
    #[arg(short, long)]
    pub(super) all: bool,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct AttachArguments {
    /// The session, by its name or the start of it [default: the only one]
    #[arg(value_name = "ID")]
    pub(super) session: Option<String>,
    /// Run without NVML
    #[arg(long)]
    pub(super) no_nvml: bool,
}

#[derive(Debug, Args)]
pub(super) struct StopArguments {
    /// The session, by its name or the start of it [default: the only one]
    #[arg(value_name = "ID")]
    pub(super) session: Option<String>,
    /// SIGKILL the process tree at once
    #[arg(long)]
    pub(super) kill: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogsArguments {
    /// The session, by its name or the start of it [default: the only one, or else the latest]
    #[arg(value_name = "ID")]
    pub(super) session: Option<String>,
    /// Follow the output until the session ends
    #[arg(short, long)]
    pub(super) follow: bool,
}
