//! Parse, call, turn the outcome into an exit status; nothing else.

use oomph::app::{self, Ending, OWN_FAILURE};
use oomph::cli::{self, Order, Refusal};
use oomph::supervise::{self, KEEPER_WORD};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| word == KEEPER_WORD) {
        supervise::keeper::main();
    }
    supervise::inherited();
    supervise::ignore_own_limits();
    // A directory that was deleted has no name: the command stays in it, as it would without us.
    let cwd = std::env::current_dir().unwrap_or_default();
    let order = match cli::parse(words, cwd) {
        Ok(order) => order,
        Err(Refusal::Shown(text)) => {
            // Who closed the pipe has read enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(Refusal::Mistake(text)) => return failure(&text),
    };
    let ending = match order {
        Order::Run(options) => app::run(options),
        Order::Replay(order) => app::replay(&order.file, order.headless, order.theme),
        Order::Plan(order) => app::plan(&order.command, order.json, order.batch_scale),
        Order::Explain(order) => app::explain(&order.source, order.json, order.command.as_ref()),
    };
    match ending {
        Ok(Ending::Like(exit)) => supervise::exit_like(exit),
        Ok(Ending::Code(code)) => ExitCode::from(code as u8),
        Err(error) => failure(&format!("{error:#}")),
    }
}

fn failure(text: &str) -> ExitCode {
    eprintln!("oomph: {text}");
    ExitCode::from(OWN_FAILURE as u8)
}
