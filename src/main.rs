//! Parse, call, turn the outcome into an exit status; nothing else.

use oomph::app::{self, Ending, OWN_FAILURE};
use oomph::cli::{self, EarlyExit, Invocation};
use oomph::supervise::{self, ERRAND_WORD, HEADLESS_WORD, KEEPER_WORD};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| word == KEEPER_WORD) {
        supervise::keeper::main();
    }
    if words.next_if(|word| word == ERRAND_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return supervise::errand(&words);
    }
    supervise::inherited();
    supervise::ignore_own_limits();
    supervise::reap_strangers();
    if words.next_if(|word| word == HEADLESS_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return end(app::deputise(&words));
    }
    if words.next_if(|word| word == cli::COMPLETE_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return show(&cli::complete(&words, app::session_names));
    }
    // A directory that was deleted has no name: the command stays in it, as it would without us.
    let cwd = std::env::current_dir().unwrap_or_default();
    let invocation = match cli::parse(words, cwd) {
        Ok(invocation) => invocation,
        Err(EarlyExit::Help(text)) => {
            return show(&text);
        }
        Err(EarlyExit::Mistake(text)) => return failure(&text),
    };
    let ending = match invocation {
        Invocation::Help(topic) => return show(&cli::help::page(topic)),
        Invocation::Doctor { command, json } => app::doctor(command, json, env!("OOMPH_VERSION")),
        Invocation::Completions(shell) => return show(shell.script()),
        Invocation::Fit(options) => app::fit(*options),
        Invocation::Run(options) => {
            let meant = cli::meant(&options.command);
            app::run(options, meant)
        }
        Invocation::Replay(invocation) => app::replay(
            invocation.session.as_deref(),
            invocation.at,
            invocation.headless,
            invocation.theme,
        ),
        Invocation::Report(options) => app::report(&options),
        Invocation::Diff {
            before,
            after,
            json,
        } => app::diff(before.as_ref(), after.as_ref(), json),
        Invocation::Export(options) => app::export(&options),
        Invocation::Plan(invocation) if !invocation.predict.is_empty() => app::predict(
            &invocation.command,
            &invocation.recordings,
            &invocation.predict,
        ),
        Invocation::Plan(invocation) => {
            app::plan(&invocation.command, invocation.json, invocation.batch_scale)
        }
        Invocation::List { json, all } => app::list(json, all),
        Invocation::Attach { session, nvml } => app::attach(session.as_deref(), nvml),
        Invocation::Stop { session, kill } => app::stop(session.as_deref(), kill),
        Invocation::Logs { session, follow } => app::logs(session.as_deref(), follow),
        Invocation::Explain(invocation) => app::explain(
            &invocation.source,
            invocation.json,
            invocation.command.as_ref(),
        ),
    };
    end(ending)
}

fn show(text: &str) -> ExitCode {
    // A closed pipe is no failure: the reader has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn end(ending: anyhow::Result<Ending>) -> ExitCode {
    match ending {
        Ok(Ending::Like(exit)) => supervise::exit_like(exit),
        Ok(Ending::Code(code)) => ExitCode::from(code as u8),
        Err(error) => failure(&format!("{error:#}")),
    }
}

fn failure(text: &str) -> ExitCode {
    app::complain(text);
    ExitCode::from(OWN_FAILURE as u8)
}
