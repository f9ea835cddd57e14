//! `oomph stop`: ends a session, and reports the progress.

use crate::event::Exit;
use crate::live::{Ending, print};
use crate::query::sessions::{Chosen, Verb, choose, explain, refusal};
use crate::recording::FoundSession;
use crate::supervise::{Call, KeeperAnswers, KeeperReport, StopStage};
use crate::units::Pid;
use anyhow::bail;
use clap::Args;
use nix::sys::signal::{Signal, kill};
use std::io;
use std::time::{Duration, Instant};

#[derive(Debug, PartialEq, Args)]
pub(super) struct StopCommand {
    /// The session, by its name or the start of it [default: the only one]
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// SIGKILL the process tree at once
    #[arg(long)]
    kill: bool,
}

const LOOK: Duration = Duration::from_millis(500);

/// How long the keeper may take to confirm that the training was signalled, which it does at once.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// How long a living keeper may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(3);

/// How long the session may take after the end of its run, for recording and last lines.
const AFTER_THE_RUN: Duration = Duration::from_secs(15);

/// The longest stop takes 45 s + 5 s + 5 s; the rest is for a slow machine.
const AT_MOST: Duration = Duration::from_secs(90);

/// Stops the named session, or the only one: SIGTERM to the training, after 45 s to its whole tree,
/// after 5 s SIGKILL; with `--kill` SIGKILL at once. Waits for the end.
///
/// # Errors
/// There is no such session, or it could not be ended.
pub(super) fn run(stop: &StopCommand) -> anyhow::Result<Ending> {
    let kill = stop.kill;
    let found = match choose(stop.session.as_deref(), "stop")? {
        Chosen::Here(found) => found,
        Chosen::Elsewhere(session) => {
            let verb = match kill {
                true => Verb::Kill,
                false => Verb::Stop,
            };
            bail!(refusal(&session, verb));
        }
    };
    let call = match kill {
        true => Call::Kill,
        false => Call::Stop,
    };
    if let Some(keeper) = found.keeper() {
        wake(keeper);
    }
    let mut answers = ask(&found, call).map_err(|error| explain(&found, error))?;
    print::tell(&format!("stopping session {}", found.id));
    let began = Instant::now();
    let mut ended: Option<(Instant, Exit)> = None;
    let mut heard = false;
    loop {
        let answer = answers.next(LOOK);
        heard |= matches!(answer, Ok(Some(_)));
        match answer {
            Ok(Some(KeeperReport::Finished)) => break,
            Ok(Some(KeeperReport::Exited { exit, .. })) => {
                print::tell(&format!(
                    "the training ended: {exit}, after {} s",
                    began.elapsed().as_secs()
                ));
                ended = Some((Instant::now(), exit));
            }
            Ok(Some(KeeperReport::Stopping { rung, within })) => {
                print::tell(&words(rung, within));
            }
            Ok(Some(KeeperReport::Undelivered { bytes })) => print::tell(&format!(
                "{} bytes of its output were not delivered: nobody read them; `oomph logs {}` has them",
                bytes.0, found.id
            )),
            Ok(Some(KeeperReport::Swept { left })) if !left.is_empty() => {
                let pids: Vec<String> = left.iter().map(ToString::to_string).collect();
                print::tell(&format!(
                    "could not end these processes: {}",
                    pids.join(" ")
                ));
            }
            Ok(Some(_)) => {}
            Ok(None) if ended.is_some() => break,
            Ok(None) => bail!(
                "the keeper of session {} is gone; check with `oomph ls`",
                found.id
            ),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // It may have been suspended in between, or before it had told of itself.
                wake(answers.keeper);
                if !heard && began.elapsed() > FIRST_WORD {
                    return Err(explain(&found, error));
                }
            }
            Err(error) => return Err(explain(&found, error)),
        }
        match ended {
            Some((at, _)) if at.elapsed() > AFTER_THE_RUN => bail!(
                "the training has ended, but session {} has not after {} s; `oomph stop --kill {}` ends it",
                found.id,
                AFTER_THE_RUN.as_secs(),
                found.id
            ),
            None if began.elapsed() > AT_MOST => bail!(
                "session {} has not ended after {} s; `oomph stop --kill {}` sends SIGKILL",
                found.id,
                AT_MOST.as_secs(),
                found.id
            ),
            Some(_) | None => {}
        }
    }
    print::tell(&format!("session {} has ended", found.id));
    Ok(Ending::Code(0))
}

/// A keeper that has just started, or was stopped while it did, listens a moment later.
fn ask(found: &FoundSession, call: Call) -> io::Result<KeeperAnswers> {
    let began = Instant::now();
    loop {
        match KeeperAnswers::call(&found.socket(), call) {
            Err(error) if found.is_alive() && began.elapsed() < LISTENS_WITHIN => {
                let early = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
                if !early.contains(&error.kind()) {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            asked => return asked,
        }
    }
}

/// A suspended keeper (SIGSTOP) can't end anything: resumes it, and says so.
fn wake(keeper: Pid) {
    let stat = procfs::process::Process::new(keeper.0).and_then(|process| process.stat());
    if stat.map(|stat| stat.state).ok() != Some('T') {
        return;
    }
    let woken = kill(nix::unistd::Pid::from_raw(keeper.0), Signal::SIGCONT);
    match woken {
        Ok(()) => print::tell(&format!(
            "its keeper (pid {keeper}) was stopped; resumed it with SIGCONT"
        )),
        Err(error) => print::tell(&format!(
            "its keeper (pid {keeper}) is stopped; SIGCONT failed: {error}"
        )),
    }
}

fn words(rung: StopStage, within: Duration) -> String {
    let next = within.as_secs();
    match rung {
        StopStage::Asked => format!(
            "SIGTERM sent to the training (torchrun may take 30 s); SIGTERM to the process tree in {next} s"
        ),
        StopStage::TreeAsked => format!("SIGTERM sent to the process tree; SIGKILL in {next} s"),
        StopStage::Killed => "SIGKILL sent".into(),
    }
}
