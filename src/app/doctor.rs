//! `oomph doctor`: gathers what the checks look at. It changes nothing, starts no training, and
//! waits a few seconds at most for anybody.

mod machine;
mod python;

use super::{Ending, print};
use crate::command::CommandLine;
use crate::doctor::{self, CommandFacts, Facts, Verdict};
use crate::recognize::alloc_conf::{CUDA, GENERAL, HIP};
use crate::report;
use std::io::Write;
use std::thread;

/// Variables that the checks read.
const VARIABLES: [&str; 4] = [CUDA, HIP, GENERAL, "CUDA_VISIBLE_DEVICES"];

/// Looks at everything that `command`, or any, needs, and prints what it found. The exit status is 1
/// if something is broken.
///
/// # Errors
/// Standard output could not be written.
pub fn doctor(command: Option<CommandLine>, json: bool, version: &str) -> anyhow::Result<Ending> {
    let facts = gather(command);
    let checks = doctor::examine(&facts);
    let shown = (facts.command.given.as_ref()).map(|command| command.without_secrets().shown());
    let write = match json {
        true => report::doctor::json,
        false => report::doctor::text,
    };
    let text = write(version, shown.as_deref(), &checks);
    print::out().write_all(text.as_bytes())?;
    Ok(Ending::Code(match doctor::worst(&checks) {
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
