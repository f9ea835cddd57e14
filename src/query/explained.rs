//! What is known of the OOMs in a log or a recording, with the remedies for its command. Runs nothing and needs no GPU.

use super::told::{Unused, each_event, open_end_of, unused};
use super::{broken_off, recordings};
use crate::command::CommandLine;
use crate::config;
use crate::diagnosis;
use crate::document::RunProof;
use crate::epoch::{MemoryLines, PrintedTrend};
use crate::event::{Event, EventKind, older_part};
use crate::forecast::ForecastInputs;
use crate::live::print;
use crate::live::recorded::EndedSession;
use crate::live::session::earlier::{self, Before};
use crate::live::session::inputs::SessionInputs;
use crate::live::torch;
use crate::oom::{ConsequenceKind, HintLines, Transcript};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::recording;
use crate::remedy::RemedyInputs;
use crate::report::explain::{self, Explained, Explanation};
use crate::report::own_words::{OwnWords, OwnWordsReader};
use crate::report::story::SessionStory;
use crate::report::winning_command;
use crate::state::{OomIncident, State};
use crate::units::Moment;
use anyhow::Context;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

const CHUNK: usize = 1 << 16;

/// The maximum length of a recording's first line: it has the command, which the kernel limits to
/// 2 MiB and JSON may escape.
const LONGEST_HEADER: u64 = 16 << 20;

/// Gives what was found to `tell`: each OOM, and the remedies for `command`, or else for the recorded one. `file` is where it
/// was found, and what it is called `name`.
pub fn explained<T>(
    found: &Found,
    file: Option<&Path>,
    name: &str,
    command: Option<&CommandLine>,
    tell: impl FnOnce(&Explanation<'_>) -> T,
) -> T {
    let before = found.state().map_or_else(Before::default, Before::of);
    let around = command.map(|command| (known(command), earlier::read(command, &before)));
    let (known, earlier) = around.unzip();
    let (known, earlier) = (known.unwrap_or_default(), earlier.unwrap_or_default());
    let decisive = explain::decisive(&found.story.ooms).map(|place| &found.story.ooms[place]);
    let torch = command.and_then(|command| found.torch().or_else(|| torch::version_for(command)));
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            torch: torch.as_deref().or(earlier.torch()),
            told: found.state().and_then(|state| state.knobs.as_ref()),
            ..known.launch()
        },
        forecast: ForecastInputs {
            oom: decisive.map(|oom| &oom.incident),
            state: found.state(),
            earlier: &earlier.observations,
            earlier_runs: &earlier.runs,
            earlier_rank: earlier.rank.as_deref(),
            ..ForecastInputs::default()
        },
        findings: decisive.map_or(&[], |oom| &oom.findings),
        leftovers: known.leftovers(),
        ..RemedyInputs::default()
    };
    // A recording knows its command; of a log it has to be typed.
    let recorded = found
        .state()
        .filter(|_| command.is_none())
        .and_then(|state| EndedSession::new(state, None))
        .filter(EndedSession::ran_out);
    let of_recording = (recorded.as_ref())
        .and_then(|recorded| Some((recorded.command()?, recorded.remedy_inputs())));
    let again = file.and_then(|file| recordings::again_name(file, found.state()));
    let runs = (found.state()).map_or(&[][..], |state| state.runs.as_slice());
    let proofs = runs.iter().filter_map(|run| RunProof::new(runs, run));
    let left = unused_of(found, decisive);
    tell(&Explanation {
        source: name,
        length: found.length,
        ooms: &found.story.ooms,
        said: found.own.as_ref().map_or(&[], |own| own.said.as_slice()),
        command: (command.map(|command| (command, inputs))).or(of_recording),
        proofs: proofs.collect(),
        followed: decisive.map_or(Vec::new(), |oom| followed(&found.story, oom, &left)),
        again: again.as_deref().filter(|_| recorded.is_some()),
        ended: ended(found, &left),
        room: left.batch,
        growth: found.state().and_then(crate::report::growth),
    })
}

/// What is known of a command beside a log of it: as the dialog and the plan know it.
fn known(command: &CommandLine) -> SessionInputs {
    // What is wrong with the user's settings is said where a session starts.
    let (mut known, _) = SessionInputs::at_start(&config::read(&command.cwd));
    known.look(command, None);
    known.read_text(command);
    known
}

/// What may be memory, in a log that has no out-of-memory.
fn hint(kind: ConsequenceKind) -> Option<&'static str> {
    match kind {
        ConsequenceKind::NoHandle => Some(
            "cuBLAS or cuDNN could not be set up there: the GPU had no memory left, or an index was out of range (CUDA_LAUNCH_BLOCKING=1 shows that one), or versions do not match.",
        ),
        ConsequenceKind::WorkerGone => Some(
            "A worker process ended there: the kernel may have killed it for the host's memory (dmesg says so), or it crashed.",
        ),
        ConsequenceKind::NoSpace => Some("A file system was full there, not memory: df -h PATH."),
        ConsequenceKind::CollectiveTimedOut
        | ConsequenceKind::ConnectionClosed
        | ConsequenceKind::Terminated
        | ConsequenceKind::Killed
        | ConsequenceKind::LauncherGaveUp
        | ConsequenceKind::AllocationEnded
        | ConsequenceKind::AnotherError
        | ConsequenceKind::Unknown => None,
    }
}

/// What there is to say without an OOM: of a recording how it ended and what was unused, of a log what may be memory.
fn ended(found: &Found, left: &Unused) -> Vec<String> {
    if !found.story.ooms.is_empty() {
        return Vec::new();
    }
    if found.length.is_some() {
        let hints = found.hints.iter();
        return hints
            .filter_map(|kind| hint(*kind))
            .map(String::from)
            .collect();
    }
    if found.state().is_none() {
        return Vec::new();
    }
    let mut sentences = found.story.sentences();
    sentences.extend(left.sentence.clone());
    sentences
}

/// What the last run left, where it did not run out, nor did the one that is explained come later.
fn unused_of(found: &Found, decisive: Option<&Explained>) -> Unused {
    let Some(state) = found.state() else {
        return Unused::default();
    };
    let after = decisive.map(|oom| oom.run.as_ref().map(|(number, _)| *number));
    let is_told = match after {
        None => true,
        Some(None) => false,
        Some(Some(number)) => state
            .run()
            .is_some_and(|run| run.number > number && run.went_well()),
    };
    match is_told {
        true => unused(state),
        false => Unused::default(),
    }
}

/// What became of the runs after the one that ran out, and the command that went well in the end.
fn followed(story: &SessionStory, oom: &Explained, left: &Unused) -> Vec<String> {
    let Some((number, _)) = &oom.run else {
        return Vec::new();
    };
    let mut followed = story.after(*number);
    let winning = winning_command(&story.state).filter(|_| !followed.is_empty());
    followed.extend(winning.map(|winning| diagnosis::capitalized(&winning)));
    followed.extend(left.sentence.clone());
    followed
}

/// What a source holds.
pub struct Found {
    /// The OOMs; of a recording also its runs.
    story: SessionStory,
    /// Bytes of a log.
    length: Option<u64>,
    /// What oomph itself wrote at the end of a log, where no OOM came later.
    own: Option<OwnWords>,
    /// What a log without an OOM says that may be of memory.
    hints: Vec<ConsequenceKind>,
    /// The recording that a log led to.
    led_to: Option<PathBuf>,
}

impl Found {
    /// The recording that this is, where a log named it.
    pub fn led_to(&self) -> Option<&Path> {
        self.led_to.as_deref()
    }

    /// What was recorded of the run that this log is of, where oomph wrote in it where that is: a recording knows the cause, and a
    /// log only the message. With `command` only if it is a recording of that.
    fn recorded(&self, command: Option<&CommandLine>) -> Option<Found> {
        let path = self.own.as_ref()?.recording.as_ref()?;
        let launch = LaunchEnvironment::default();
        let likeness = |command: &CommandLine| WorkloadKey::new(command, &launch).likeness;
        let header = recording::header(path)?;
        let is_meant = |command: &CommandLine| {
            likeness(&command.without_secrets()) == likeness(&header.command)
        };
        if !command.is_none_or(is_meant) {
            return None;
        }
        let found = recording(path).ok()?;
        // Another session may have been recorded there since.
        let of_log = explain::decisive(&self.story.ooms).map(|place| &self.story.ooms[place]);
        let is_of_log = match of_log {
            None => !found.story.ooms.is_empty(),
            Some(of_log) => (found.story.ooms.iter())
                .any(|oom| is_same_message(&oom.incident, &of_log.incident)),
        };
        is_of_log.then(|| Found {
            led_to: Some(path.clone()),
            ..found
        })
    }

    /// The state at a recording's end.
    pub fn state(&self) -> Option<&State> {
        self.length.is_none().then_some(&self.story.state)
    }

    /// What is to be said if nothing was found, and the recording stops where the host's memory was nearly gone: of a session that
    /// may go on, what it was if it does not.
    pub fn without_an_end(&self) -> String {
        let state = self.state().filter(|_| self.story.ooms.is_empty());
        let Some(mut state) = state.filter(|state| state.may_break_off()).cloned() else {
            return String::new();
        };
        state.breaks_off();
        let first = diagnosis::diagnose(&state).into_iter().next();
        first.map_or_else(String::new, |finding| {
            format!(
                "The recording has no end of the run. If the run is gone, it was this: {}\n",
                finding.headline
            )
        })
    }

    /// The recorded torch version.
    fn torch(&self) -> Option<String> {
        let run = self.state()?.run()?;
        run.ranks.first().map(|rank| rank.hello.torch.clone())
    }
}

/// Whether two incidents are told of by the same message.
fn is_same_message(recorded: &OomIncident, of_log: &OomIncident) -> bool {
    let said = |incident: &OomIncident| {
        let report = incident.report.as_ref()?;
        Some((report.kind, report.requested, report.allocated))
    };
    said(recorded).is_some() && said(recorded) == said(of_log)
}

/// What is in a file or standard input, or in the recording that a log of a session names: with `command`, only if that is one of it.
pub fn find(file: Option<&Path>, command: Option<&CommandLine>) -> anyhow::Result<Found> {
    let found = read(file)?;
    Ok(found.recorded(command).unwrap_or(found))
}

fn read(file: Option<&Path>) -> anyhow::Result<Found> {
    match file {
        None => {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                print::complain("reading standard input to its end (Ctrl-D); or give a file");
            }
            let mut input = BufReader::with_capacity(CHUNK, stdin.lock());
            let header = header(&mut input).context("cannot read standard input")?;
            anyhow::ensure!(
                !is_event(&header),
                "standard input is a recording; pass it as a file: oomph explain events.jsonl"
            );
            log(&header, &mut input).context("cannot read standard input")
        }
        Some(path) if path.is_dir() => recording(path),
        Some(path) if recording_beside(path).is_some_and(|beside| beside.is_file()) => {
            recording(&path.with_file_name(recording::RECORDING))
        }
        Some(path) => {
            let cannot = || format!("cannot read {}", path.display());
            let file = recording::open_regular(path).with_context(|| {
                format!(
                    "{}; pass a log, a recording (events.jsonl), or - for standard input",
                    cannot()
                )
            })?;
            let is_regular = file.metadata().is_ok_and(|data| data.is_file());
            let mut input = BufReader::with_capacity(CHUNK, file);
            let header = header(&mut input).with_context(cannot)?;
            if is_regular && is_event(&header) {
                return recording(path);
            }
            log(&header, &mut input).with_context(cannot)
        }
    }
}

/// The recording of the session that a log is of: it knows the runs, and what the log does not say.
fn recording_beside(log: &Path) -> Option<PathBuf> {
    let name = log.file_name()?;
    let is_log =
        name == recording::OUTPUT_LOG || name == older_part(recording::OUTPUT_LOG.as_ref());
    is_log.then(|| log.with_file_name(recording::RECORDING))
}

/// The first line of what may be a recording; nothing of what cannot be one.
fn header(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    if waiting(input)? > 0 && input.fill_buf()?.first() == Some(&b'{') {
        input.take(LONGEST_HEADER).read_until(b'\n', &mut line)?;
    }
    Ok(line)
}

/// Waits for input; the number of bytes in the buffer, 0 at the end.
fn waiting(input: &mut impl BufRead) -> io::Result<usize> {
    loop {
        match input.fill_buf() {
            Ok(chunk) => return Ok(chunk.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a line is an event that this version knows, rather than a line of a JSON log.
fn is_event(line: &[u8]) -> bool {
    match serde_json::from_slice::<Event>(line) {
        Ok(event) => event.what != EventKind::Unknown,
        Err(_) => false,
    }
}

/// A log that begins with `header`, in bounded memory.
pub fn log(header: &[u8], input: &mut impl BufRead) -> io::Result<Found> {
    let mut transcript = Transcript::new();
    let mut own = OwnWordsReader::default();
    let mut memory = MemoryLines::default();
    let mut hints = HintLines::default();
    transcript.feed(header);
    memory.feed(header);
    hints.feed(header);
    own.feed(header);
    let mut length = header.len() as u64;
    while let read @ 1.. = waiting(input)? {
        let chunk = input.fill_buf()?;
        transcript.feed(chunk);
        memory.feed(chunk);
        hints.feed(chunk);
        own.feed(chunk);
        length += read as u64;
        input.consume(read);
    }
    let printed = memory.finish();
    let reports = transcript.finish();
    let is_last = |own: &OwnWords| reports.iter().all(|report| report.line < own.line);
    let own = own.finish().filter(is_last);
    let is_named = own.is_some();
    let last = reports.len().saturating_sub(1);
    let ooms = (reports.into_iter().enumerate())
        .map(|(place, report)| {
            // Up to the last one it has grown: what it was at an earlier one is not kept.
            let printed = match place == last {
                true => printed,
                false => PrintedTrend::Flat,
            };
            let incident = OomIncident::of_report(Moment::ZERO, report);
            // The message tells less than oomph knew, and may point elsewhere.
            let findings = match is_named {
                true => Vec::new(),
                false => diagnosis::diagnose_log(&incident, printed),
            };
            Explained::of_log(incident, findings)
        })
        .collect();
    Ok(Found {
        story: SessionStory {
            ooms,
            ..SessionStory::default()
        },
        length: Some(length),
        own,
        hints: hints.finish(),
        led_to: None,
    })
}

/// A recording; each run is explained with the state before the next one started.
pub fn recording(path: &Path) -> anyhow::Result<Found> {
    let mut story = SessionStory::default();
    each_event(path, |event| {
        story.take(&event);
        Ok(())
    })?;
    broken_off::settle(&mut story.state);
    story.open_end = open_end_of(path, &story.state);
    Ok(Found {
        story: story.finish(),
        length: None,
        own: None,
        hints: Vec::new(),
        led_to: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::EnvChange;
    use crate::event::Exit;
    use crate::state::Run;
    use std::time::Duration;

    const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of \
        24.00 GiB of which 14.00 MiB is free. Including non-PyTorch memory, this process has 23.99 GiB memory in use. Of the \
        allocated memory 22.24 GiB is allocated by PyTorch, and 1.25 GiB is reserved by PyTorch but unallocated.\n";

    fn first_of(log: &str) -> diagnosis::Finding {
        let found = super::log(&[], &mut log.as_bytes()).expect("a log");
        found.story.ooms[0].findings[0].clone()
    }

    /// A log in which the program prints how much it has allocated shows a leak; one without shows none, and says so.
    #[test]
    fn growth_that_a_log_prints_is_a_leak_and_comes_first() {
        let printed = "step 1/60, allocated 0.82, reserved 5.99, peak 5.65 GiB\n\
            step 24/60, allocated 8.56, reserved 14.52, peak 13.73 GiB\n\
            step 46/60, allocated 15.97, reserved 22.38, peak 21.14 GiB\n";
        let leak = first_of(&format!("{printed}{MESSAGE}"));
        assert_eq!(leak.cause, diagnosis::Cause::Leak);
        assert_eq!(
            leak.headline.to_string(),
            "Memory leak: +345 MiB × 45 steps = 15.1 GiB, from step 1 on."
        );
        let steady =
            "step 10, allocated 8.5 GiB\nstep 20, allocated 8.5 GiB\nstep 30, allocated 8.5 GiB\n";
        let steady = first_of(&format!("{steady}{MESSAGE}"));
        assert_ne!(steady.cause, diagnosis::Cause::Leak);
        assert!(
            !steady.explanation.contains("a leak"),
            "{}",
            steady.explanation
        );
        let unsaid = first_of(MESSAGE);
        assert_ne!(unsaid.cause, diagnosis::Cause::Leak);
        assert!(
            unsaid
                .explanation
                .contains("does not show whether memory grew"),
            "{}",
            unsaid.explanation
        );
    }

    #[test]
    fn what_followed_ends_with_what_went_well_and_what_was_unused() {
        let mut story = SessionStory::new(crate::report::recorded("capacity"));
        let oom = story.ooms.remove(0);
        let nothing = Unused::default();
        assert!(followed(&story, &oom, &nothing).is_empty(), "nothing did");
        let first = story.state.runs[0].clone();
        let (ended, _) = first.ended.expect("an end");
        let patched = EnvChange {
            name: "OOMPH_PATCHES".into(),
            value: Some("recompute".into()),
        };
        let command = CommandLine {
            env: vec![patched],
            ..CommandLine::typed("python train.py --batch-size 8")
        };
        let second = Run {
            number: first.number.next(),
            started: ended,
            ended: Some((ended + Duration::from_secs(70), Exit::Code(0))),
            shown: command.shown(),
            command,
            ooms: Vec::new(),
            oom_count: 0,
            ..first
        };
        story.state.runs.push(second);
        let found = Found {
            story,
            length: None,
            own: None,
            hints: Vec::new(),
            led_to: None,
        };
        let left = unused_of(&found, Some(&oom));
        let followed = followed(&found.story, &oom, &left);
        let [run, command, unused] = followed.as_slice() else {
            panic!("{followed:?}");
        };
        assert!(run.starts_with("Run 2 finished after 1:10"), "{run}");
        assert_eq!(
            command,
            "It ran with: oomph OOMPH_PATCHES=recompute python train.py --batch-size 8"
        );
        // Though nothing is known of what NVML saw then.
        assert!(
            unused.starts_with("894 MiB of 139.8 GiB unused."),
            "{unused}"
        );
    }

    #[test]
    fn a_log_without_an_oom_says_what_may_be_memory() {
        let ended = |text: &str| {
            let found = log(text.as_bytes(), &mut io::empty()).unwrap();
            ended(&found, &Unused::default())
        };
        let handle = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n";
        let [said] = ended(&handle.repeat(3)).try_into().unwrap();
        assert!(said.contains("CUDA_LAUNCH_BLOCKING=1"), "{said}");
        // With an OOM, that is what there is to explain; without either nothing is said.
        let ran_out = format!(
            "{handle}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        );
        assert_eq!(ended(&ran_out), Vec::<String>::new());
        assert_eq!(ended("step 1 loss 2.5\n"), Vec::<String>::new());
    }
}
