//! `oomph attach`: a screen for a session that is running.

mod watch;

use super::sessions;
use crate::live::{self, Ending};
use crate::supervise::Keeper;
use clap::Args;

#[derive(Debug, PartialEq, Args)]
pub(super) struct AttachCommand {
    /// The session, by its name or the start of it [default: the only one]
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Run without NVML
    #[arg(long)]
    no_nvml: bool,
}

/// Attaches a screen to the named session, or to the only one; one that runs on another machine is
/// watched by its files.
///
/// # Errors
/// There is no such session, or no terminal to draw on.
pub(super) fn run(attach: &AttachCommand, nvml: bool) -> anyhow::Result<Ending> {
    let nvml = nvml && !attach.no_nvml;
    let found = match sessions::choose(attach.session.as_deref(), "attach")? {
        sessions::Chosen::Here(found) => found,
        sessions::Chosen::Elsewhere(session) => return watch::watch(&session),
    };
    live::follow(live::Arrival::Attached { nvml }, || {
        Keeper::attach(&found.socket()).map_err(|error| sessions::explain(&found, error))
    })
}
