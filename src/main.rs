//! Parse, call, turn the outcome into an exit status; nothing else.

use oomph::cli::COMPLETE_WORD;
use oomph::commands::{self, EarlyExit, NOT_WRITTEN};
use oomph::live::{self, Ending, OWN_FAILURE};
use oomph::supervise::{self, HEADLESS_WORD, KEEPER_WORD, NOTIFY_HOOK_WORD};
use std::io::Write;
use std::process::ExitCode;

/// What a main thread usually has.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    // Where `ulimit -s` leaves little, the parser of the command line needs a stack of its own.
    if supervise::has_small_stack() {
        let begun = std::thread::Builder::new().stack_size(STACK).spawn(begin);
        if let Ok(thread) = begun {
            return thread.join().unwrap_or(ExitCode::from(OWN_FAILURE as u8));
        }
    }
    begin()
}

fn begin() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| word == KEEPER_WORD) {
        supervise::keeper::main();
    }
    if words.next_if(|word| word == NOTIFY_HOOK_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return supervise::notify_hook(&words);
    }
    supervise::inherited();
    supervise::ignore_own_limits();
    supervise::reap_strangers();
    if words.next_if(|word| word == HEADLESS_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return end(live::deputise(&words));
    }
    if words.next_if(|word| word == COMPLETE_WORD).is_some() {
        let words: Vec<_> = words.collect();
        return show(&commands::complete(&words));
    }
    // A directory that was deleted has no name: the command stays in it, as it would without us.
    let cwd = std::env::current_dir().unwrap_or_default();
    match commands::parse(words, cwd) {
        Ok(invocation) => end(invocation.run()),
        Err(EarlyExit::Help(text)) => show(&text),
        Err(EarlyExit::Mistake(text)) => failure(&text),
    }
}

fn show(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A closed pipe is no failure: the reader has read enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            failure(&format!("{NOT_WRITTEN}: {error}"))
        }
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

fn end(ending: anyhow::Result<Ending>) -> ExitCode {
    match ending {
        Ok(Ending::Like(exit)) => supervise::exit_like(exit),
        Ok(Ending::Code(code)) => ExitCode::from(code as u8),
        Err(error) => failure(&format!("{error:#}")),
    }
}

fn failure(text: &str) -> ExitCode {
    live::complain(text);
    ExitCode::from(OWN_FAILURE as u8)
}
