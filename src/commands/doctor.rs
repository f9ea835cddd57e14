//! `oomph doctor`: gathers what the checks look at. It changes nothing, starts no training, and
//! waits a few seconds at most for anybody.

mod machine;
mod python;

use crate::command::CommandLine;
use crate::doctor::{CommandFacts, Facts, Verdict, examine, worst};
use crate::live::{Ending, print};
use crate::recognize::alloc_conf::{CUDA, GENERAL, HIP};
use crate::report;
use clap::Args;
use std::io::Write;
use std::thread;

#[derive(Debug, PartialEq, Args)]
#[command(
    override_usage = "oomph doctor [OPTIONS] [-- [NAME=VALUE...] COMMAND [ARG...]]",
    after_help = "With a command its own Python and environment are checked, without one those of python in PATH.\n\
                  Exit status: 0 if nothing is broken (there may be warnings), 1 otherwise."
)]
pub(super) struct DoctorCommand {
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Variables that the checks read.
const VARIABLES: [&str; 4] = [CUDA, HIP, GENERAL, "CUDA_VISIBLE_DEVICES"];

/// Looks at everything that `command`, or any, needs, and prints what it found. The exit status is 1
/// if something is broken.
///
/// # Errors
/// Standard output could not be written.
pub(super) fn run(doctor: &DoctorCommand, command: Option<CommandLine>) -> anyhow::Result<Ending> {
    let facts = gather(command);
    let checks = examine(&facts);
    let shown = (facts.command.given.as_ref()).map(|command| command.without_secrets().shown());
    let write = match doctor.json {
        true => report::doctor::json,
        false => report::doctor::text,
    };
    let text = write(env!("OOMPH_VERSION"), shown.as_deref(), &checks);
    print::out().write_all(text.as_bytes())?;
    Ok(Ending::Code(match worst(&checks) {
        Verdict::Ok | Verdict::Warning => 0,
        Verdict::Error => 1,
    }))
}

fn gather(command: Option<CommandLine>) -> Facts {
    // The driver and the interpreter may both take their time.
    let nvml = thread::spawn(machine::nvml);
    let python = python::of(command.as_ref());
    let nvml = nvml.join().unwrap_or_else(|_| machine::crashed());
    Facts {
        nvml,
        state: machine::state(),
        runtime: machine::runtime(),
        terminal: machine::terminal(),
        slurm: machine::slurm(command.as_ref()),
        probe_errors: machine::probe_errors(),
        variables: variables(command.as_ref()),
        command: CommandFacts {
            given: command,
            python,
        },
    }
}

/// As the command will have them.
fn variables(command: Option<&CommandLine>) -> Vec<(String, String)> {
    let of = |name: &str| {
        let typed = command.into_iter().flat_map(|command| &command.env);
        match typed.rev().find(|change| change.name == *name) {
            Some(change) => change.value.as_ref().map(|value| value.to_string_lossy()),
            None => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        }
    };
    VARIABLES
        .iter()
        .filter_map(|name| Some((name.to_string(), of(name)?)))
        .collect()
}
