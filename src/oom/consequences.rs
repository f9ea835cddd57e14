//! What is printed once one rank of a job has failed: by the other ranks, which wait for it, by their
//! launcher and by the scheduler (`consequences.toml`). None of it says why memory ran out, and all of it
//! hides the line that does.

use super::lines::readable;
use super::lines::{LineReader, LineSplitter, RawLine};
use super::words::Words;
use crate::oom::lines::pieces;
use crate::units::Rank;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::LazyLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsequenceKind {
    /// A collective operation waited for a rank that is gone.
    CollectiveTimedOut,
    /// The connection to a rank was closed.
    ConnectionClosed,
    /// Ended by SIGTERM, as launchers do.
    Terminated,
    /// Ended by SIGKILL.
    Killed,
    /// The launcher reports that a rank has failed.
    LauncherGaveUp,
    /// The scheduler ends the allocation: no consequence of a rank, and no fault of memory.
    AllocationEnded,
    /// A file system is full: a disk, or /dev/shm.
    NoSpace,
    /// A worker of another executor than DataLoader's has ended: by a signal, nobody says which.
    WorkerGone,
    /// cuBLAS or cuDNN could not be set up: for want of memory, or since the device is broken or does not fit the library.
    NoHandle,
    /// The program's last error is another one than that of which its output tells.
    AnotherError,
    /// A kind that this version does not know (from a later version's recording).
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsequenceTable {
    consequence: Vec<ConsequenceRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsequenceRow {
    kind: ConsequenceKind,
    text: Vec<String>,
    #[serde(default)]
    also: Vec<String>,
}

static TABLE: LazyLock<ConsequenceTable> = LazyLock::new(|| {
    toml::from_str(include_str!("consequences.toml")).expect("consequences.toml is valid")
});

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let rows = TABLE.consequence.iter();
    let words: BTreeSet<&str> = rows
        .flat_map(|row| row.text.iter().map(String::as_str))
        .collect();
    Words::new(words.into_iter().collect())
});

/// The state between two chunks of one stream.
#[derive(Debug)]
pub struct ConsequenceLines {
    lines: LineSplitter,
}

impl Default for ConsequenceLines {
    fn default() -> ConsequenceLines {
        ConsequenceLines {
            lines: LineSplitter::new(&WORDS),
        }
    }
}

impl ConsequenceLines {
    /// Takes the stream's next chunk; `told` gets what its lines say and the ranks that their prefixes
    /// name, repetitions included.
    pub fn feed(&mut self, chunk: &[u8], told: &mut dyn FnMut((ConsequenceKind, Option<Rank>))) {
        self.lines.feed(chunk, &mut ConsequenceReader(told));
    }

    /// The stream has ended, and with it its last line.
    pub fn finish(&mut self, told: &mut dyn FnMut((ConsequenceKind, Option<Rank>))) {
        self.lines.finish(&mut ConsequenceReader(told));
    }
}

struct ConsequenceReader<'a>(&'a mut dyn FnMut((ConsequenceKind, Option<Rank>)));

impl LineReader for ConsequenceReader<'_> {
    fn wants_every_line(&self) -> bool {
        false
    }

    fn read(&mut self, line: RawLine<'_>) {
        let text = readable(line.bytes);
        for piece in pieces(&text) {
            if let Some(kind) = kind(piece.text) {
                let rank = piece.rank.or_else(|| label_of_srun(piece.text));
                (self.0)((kind, rank));
            }
        }
    }
}

/// The lines of a text that may be of memory and do not say so.
#[derive(Debug, Default)]
pub struct HintLines {
    lines: ConsequenceLines,
    found: Vec<ConsequenceKind>,
}

impl HintLines {
    pub fn feed(&mut self, chunk: &[u8]) {
        let HintLines { lines, found } = self;
        lines.feed(chunk, &mut |(kind, _)| add(found, kind));
    }

    /// Each kind once, in the order of the text.
    pub fn finish(self) -> Vec<ConsequenceKind> {
        let HintLines {
            mut lines,
            mut found,
        } = self;
        lines.finish(&mut |(kind, _)| add(&mut found, kind));
        found
    }
}

fn add(found: &mut Vec<ConsequenceKind>, kind: ConsequenceKind) {
    if !kind.is_of_a_rank() && !found.contains(&kind) {
        found.push(kind);
    }
}

/// Whether a line says what followed from a rank's failure.
pub(super) fn is_consequence(text: &str) -> bool {
    kind(text).is_some_and(ConsequenceKind::is_of_a_rank)
}

impl ConsequenceKind {
    /// Whether it follows from a rank's failure.
    pub fn is_of_a_rank(self) -> bool {
        match self {
            ConsequenceKind::CollectiveTimedOut
            | ConsequenceKind::ConnectionClosed
            | ConsequenceKind::Terminated
            | ConsequenceKind::Killed
            | ConsequenceKind::LauncherGaveUp
            | ConsequenceKind::AllocationEnded
            | ConsequenceKind::AnotherError
            | ConsequenceKind::Unknown => true,
            ConsequenceKind::NoSpace | ConsequenceKind::WorkerGone | ConsequenceKind::NoHandle => {
                false
            }
        }
    }
}

/// The words of each row, and what a line has besides.
pub(super) fn rows() -> impl Iterator<Item = (ConsequenceKind, &'static [String], &'static [String])>
{
    let rows = TABLE.consequence.iter();
    rows.map(|row| (row.kind, row.text.as_slice(), row.also.as_slice()))
}

fn kind(text: &str) -> Option<ConsequenceKind> {
    let has = |words: &String| text.contains(words.as_str());
    let applies = |row: &&ConsequenceRow| {
        row.text.iter().any(has) && (row.also.is_empty() || row.also.iter().any(has))
    };
    TABLE.consequence.iter().find(applies).map(|row| row.kind)
}

/// `srun --label` puts the task's number and a colon in front: ` 3: RuntimeError`.
fn label_of_srun(text: &str) -> Option<Rank> {
    let (number, rest) = text.split_once(':')?;
    let is_label = rest.starts_with(' ') && number.trim().len() <= 5;
    is_label.then(|| number.trim().parse().ok().map(Rank))?
}

#[cfg(test)]
mod tests {
    use super::ConsequenceKind::*;
    use super::*;

    fn read(text: &str, chunk: usize) -> Vec<(ConsequenceKind, Option<u32>)> {
        let mut found = Vec::new();
        let mut lines = ConsequenceLines::default();
        let mut told = |(kind, rank): (ConsequenceKind, Option<Rank>)| {
            found.push((kind, rank.map(|Rank(rank)| rank)));
        };
        for chunk in text.as_bytes().chunks(chunk) {
            lines.feed(chunk, &mut told);
        }
        lines.finish(&mut told);
        found
    }

    #[test]
    fn lines_of_ranks_launchers_and_schedulers_are_told_apart() {
        for (line, expected) in [
            (
                "[rank0]: RuntimeError: [0] NCCL communicator was aborted on rank 0.",
                Some((ConnectionClosed, Some(0))),
            ),
            (
                "[rank7]:[E501 10:00:00 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12) ran for 600000 milliseconds before timing out.",
                Some((CollectiveTimedOut, Some(7))),
            ),
            (
                " 3: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4711",
                Some((ConnectionClosed, Some(3))),
            ),
            (
                "urllib3 WARNING: Connection reset by peer, trying again",
                None,
            ),
            (
                "  traceback : Signal 15 (SIGTERM) received by PID 4711",
                Some((Terminated, None)),
            ),
            (
                "srun: error: n1: task 0: Exited with exit code 143",
                Some((Terminated, None)),
            ),
            (
                "srun: error: n1: task 0: Terminated",
                Some((Terminated, None)),
            ),
            ("srun: error: n2: tasks 2-3: Killed", Some((Killed, None))),
            ("the old model was saved: Terminated", None),
            (
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
                Some((LauncherGaveUp, None)),
            ),
            (
                "srun: Terminating StepId=12.0",
                Some((LauncherGaveUp, None)),
            ),
            (
                "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-05-01T10:00:00 ***",
                None,
            ),
            (
                "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-05-01T10:00:00 DUE TO TIME LIMIT ***",
                Some((AllocationEnded, None)),
            ),
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-05-01T10:00:00 DUE TO PREEMPTION ***",
                Some((AllocationEnded, None)),
            ),
            ("loss 0.3, epoch 4", None),
        ] {
            assert_eq!(read(line, 1 << 16).first().copied(), expected, "{line}");
        }
    }

    #[test]
    fn however_a_stream_is_cut_its_lines_say_the_same() {
        let stream = "step 1\r\n[rank1]: Connection closed by remote peer\n\x1b[31msrun: Terminating StepId=1.0\x1b[0m\nend";
        let whole = read(stream, stream.len());
        assert_eq!(whole, [(ConnectionClosed, Some(1)), (LauncherGaveUp, None)]);
        for chunk in 1..stream.len() {
            assert_eq!(read(stream, chunk), whole, "chunks of {chunk}");
        }
    }
}
