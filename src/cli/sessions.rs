//! The words of `ls`, `attach`, `stop` and `logs`: which of the sessions that are alive is meant.

use clap::Args;

#[derive(Debug, Args)]
pub struct LsArguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AttachArguments {
    /// The session, by its name or the beginning of it [default: the only one]
    #[arg(value_name = "ID")]
    pub session: Option<String>,
    /// Do not ask NVML
    #[arg(long)]
    pub no_nvml: bool,
}

#[derive(Debug, Args)]
pub struct StopArguments {
    /// The session, by its name or the beginning of it [default: the only one]
    #[arg(value_name = "ID")]
    pub session: Option<String>,
    /// SIGKILL to the training's whole tree, at once
    #[arg(long)]
    pub kill: bool,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// The session, by its name or the beginning of it [default: the only one, or else the latest]
    #[arg(value_name = "ID")]
    pub session: Option<String>,
    /// Go on as it grows, until the session ends
    #[arg(short, long)]
    pub follow: bool,
}
