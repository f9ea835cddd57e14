//! From an order to a running program, or to the reason why it could not be started.

use super::KeeperLoop;
use crate::supervise::Missing;
use crate::supervise::TrainerStreams;
use crate::supervise::keeper::descriptor::{self, Got};
use crate::supervise::keeper::run::{Failed, Stage, TrainerRun};
use crate::supervise::keeper::spawn::{self, SpawnMessage, SpawnStep};
use crate::supervise::keeper::tree::Process;
use crate::supervise::{KeeperReport, Launch, RunStage};
use crate::units::{Pid, RunNumber};
use nix::libc;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

const KEPT: &str = "standard input is a pipe: what the program reads of it is kept in memory, up to 1 MiB, for another run";

impl KeeperLoop {
    pub(super) fn launch(&mut self, launch: Launch) {
        let number = launch.run;
        if let Some(busy) = self.runs.last().filter(|run| !run.is_over()) {
            let reason = format!("run {} is still alive", busy.number);
            self.fail(number, Failed::ours(&reason, libc::EBUSY, Path::new("")));
            return;
        }
        self.sweep = None;
        self.swept = None;
        self.fanout.recent.clear();
        let is_first = self.runs.is_empty();
        let input = match self.input.begin_run() {
            Ok(input) => input,
            Err(spent) => {
                // The front was told, and knows better than to ask.
                let reason = spent.to_string();
                self.fail(number, Failed::ours(&reason, libc::ESPIPE, Path::new("")));
                return;
            }
        };
        if is_first && self.input.is_kept() {
            self.fanout.note(KEPT.into());
        }
        match TrainerRun::begin(launch, &self.hello, self.plan, input.as_ref()) {
            Ok((run, note)) => {
                if let Some(note) = note {
                    self.fanout.note(note);
                }
                self.holders
                    .extend(run.terminal.as_ref().and_then(|terminal| terminal.holder));
                self.runs.push(run);
            }
            Err(failed) => {
                self.input.end_run();
                self.fail(number, failed);
            }
        }
    }

    pub(super) fn fail(&mut self, run: RunNumber, failed: Failed) {
        self.fanout.report(KeeperReport::SpawnFailed {
            run,
            errno: failed.errno,
            path: failed.path.to_string_lossy().into_owned(),
            reason: failed.reason,
            status: failed.status,
        });
    }

    /// Reads what a process reports between fork and exec.
    pub(super) fn listen(&mut self, index: usize) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Stage::Starting { pipe, said } = &mut run.stage else {
            return;
        };
        let mut chunk = [0; 64];
        loop {
            match descriptor::read(&*pipe, &mut chunk) {
                Got::Bytes(n) => said.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Got::Nothing => return,
                Got::End => break,
            }
        }
        let (mut pid, mut failure) = (None, None);
        for message in spawn::messages(said) {
            match message {
                SpawnMessage::Pid(number) => pid = Some(number),
                SpawnMessage::Failed(step, errno) => failure = Some((step, errno)),
            }
        }
        // Without a session holder the forked process is the trainer itself.
        if let Some(terminal) = &mut run.terminal
            && terminal.holder == pid
        {
            terminal.holder = None;
            self.holders.retain(|holder| Some(*holder) != pid);
        }
        match (pid, failure) {
            (Some(pid), None) => {
                let start = Process::look(pid).map_or(0, |process| process.start);
                run.stage = Stage::Running(pid);
                run.trainer = Some((pid, start));
                run.since = start;
                run.heard = Instant::now();
                self.fanout.report(KeeperReport::Started {
                    run: run.number,
                    pid: Pid(pid),
                    start_time: start,
                    streams: run.streams(),
                });
                // Orders and signals may have come before the exec.
                let stop = run.stop.take();
                self.deliver_early();
                if stop.is_some() {
                    self.stop();
                }
            }
            (_, failure) => {
                let failed = match failure {
                    Some((SpawnStep::Exec, errno)) => {
                        Missing::explain(&run.cwd, &run.path, errno).into()
                    }
                    Some((SpawnStep::Directory, errno)) => Failed {
                        status: 126,
                        ..Failed::ours(
                            &format!("{}: cannot change to this directory", run.cwd.display()),
                            errno,
                            &run.cwd,
                        )
                    },
                    Some((SpawnStep::Setup, errno)) => {
                        Failed::ours("cannot set up a terminal for the command", errno, &run.path)
                    }
                    None => Failed::ours(
                        "the process ended before it could start the program",
                        libc::EIO,
                        &run.path,
                    ),
                };
                run.give_up_terminal();
                run.pipes.clear();
                run.tails.clear();
                self.input.end_run();
                run.stage = Stage::Over;
                run.outcome = Some(RunStage::Failed {
                    status: failed.status,
                });
                let number = run.number;
                self.fail(number, failed);
            }
        }
        // It may have ended meanwhile.
        self.reap();
    }
}

impl TrainerRun {
    /// What we put in place of the user's streams.
    pub(in crate::supervise::keeper) fn streams(&self) -> TrainerStreams {
        let pipes = self.pipes.iter();
        TrainerStreams {
            terminal: self
                .terminal
                .as_ref()
                .is_some_and(|terminal| terminal.has_streams),
            pipes: pipes
                .map(|pipe| (pipe.stream, pipe.fd.as_raw_fd()))
                .collect(),
        }
    }
}
