//! Parse, call, turn the outcome into an exit status; nothing else.

use oomph::app::{self, Ending, OWN_FAILURE};
use oomph::cli::{self, Order, Refusal};
use oomph::supervise::{self, HEADLESS_WORD, KEEPER_WORD};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| word == KEEPER_WORD) {
        supervise::keeper::main();
    }
    supervise::inherited();
    supervise::ignore_own_limits();
    supervise::reap_strangers();
    if words.next_if(|word| word == HEADLESS_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return end(app::deputise(&words));
    }
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
        Order::Fit(options) => app::fit(*options),
        Order::Run(options) => app::run(options),
        Order::Replay(order) => app::replay(&order.file, order.headless, order.theme),
        Order::Plan(order) if !order.predict.is_empty() => {
            app::predict(&order.command, &order.recordings, &order.predict)
        }
        Order::Plan(order) => app::plan(&order.command, order.json, order.batch_scale),
        Order::List { json } => app::list(json),
        Order::Attach { session, nvml } => app::attach(session.as_deref(), nvml),
        Order::Stop { session, kill } => app::stop(session.as_deref(), kill),
        Order::Logs { session, follow } => app::logs(session.as_deref(), follow),
        Order::Explain(order) => app::explain(&order.source, order.json, order.command.as_ref()),
    };
    end(ending)
}

fn end(ending: anyhow::Result<Ending>) -> ExitCode {
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
