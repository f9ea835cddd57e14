//! What is printed when a run or a session has ended: one line of the whole, an OOM that its outcome does not
//! show, and the diagnosis with commands to copy.

use super::score;
use super::story::place_of;
use crate::anatomy::StepAnatomy;
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::document::text::{TextLayout, lines};
use crate::document::{self, DocumentBlock, Sentence, Voice};
use crate::event::to_paste;
use crate::recognize::{CommandLayout, LaunchEnvironment, ProgramKind, WorkloadKey};
use crate::remedy::{self, Availability, Remedy, RemedyId};
use crate::state::{Doubt, HiddenOom, Run, RunOutcome, State};
use crate::units::{Bytes, clock_face};
use std::fmt::Write;

/// Runs that are told one by one; of more only the last ones are.
const TOLD: usize = 4;

/// One line about the whole session, for the terminal after the screen has closed: "finished after
/// 0:14 · run 1 ran out of memory at step 25, run 2 (batch 32 × 2) peaked at 16.5 of 24.0 GiB".
pub fn summary(state: &State) -> Option<String> {
    let run = state.run()?;
    let (ended, _) = run.ended?;
    let outcome = match run.outcome() {
        RunOutcome::Running => return None,
        RunOutcome::Finished if run.is_hidden_failure() => {
            "ended with exit 0 though memory ran out,".to_string()
        }
        RunOutcome::Finished => "finished".to_string(),
        RunOutcome::TrainedNothing => "ended with exit 0 without a training step".to_string(),
        RunOutcome::OutOfMemory => format!("ran out of {}", run.what_ran_out()),
        RunOutcome::Stopped => "stopped".to_string(),
        RunOutcome::Failed(exit) => format!("ended with {exit}"),
    };
    let after = clock_face(ended.since(run.started));
    // Of several runs a list of sessions has how long they took together.
    let mut line = match state.runs.len() {
        0 | 1 => format!("{outcome} after {after}"),
        count => {
            let all = clock_face(state.runs_took());
            let runs = if count == 2 {
                "both".into()
            } else {
                format!("all {count}")
            };
            format!(
                "run {} {outcome} after {after} ({runs} runs: {all})",
                run.number
            )
        }
    };
    match &state.runs[..] {
        [_] => {
            if let Some(peak) = peak(state, run) {
                let _ = write!(line, " · peak {peak}");
            }
        }
        runs => {
            let last = &runs[runs.len().saturating_sub(TOLD)..];
            let told: Vec<String> = last.iter().map(|run| of_run(state, run)).collect();
            let _ = write!(line, " · {}", told.join(", "));
        }
    }
    match run.steps() {
        0 => {}
        1 => line.push_str(" · 1 step"),
        steps => {
            let _ = write!(line, " · {steps} steps");
        }
    }
    if let (Some(predicted), RunOutcome::Finished) = (run.predicted_peak, run.outcome()) {
        line.push_str(&score::after_peak(run, predicted));
    } else if let (RunOutcome::Finished, Some(predicted)) = (run.outcome(), score::beside(run)) {
        let _ = write!(line, " · predicted {predicted}");
    }
    // Otherwise a notice of its own follows.
    let survived = run.outcome() == RunOutcome::Finished && hidden_oom(state).is_none();
    match run.oom_count {
        1 if survived => line.push_str(" · 1 OOM survived"),
        count @ 2.. if survived => {
            let _ = write!(line, " · {count} OOMs survived");
        }
        _ => {}
    }
    Some(line)
}

/// What stands before the command that ran.
pub const RAN_WITH: &str = "it ran with: ";

/// The command with which it went well after others had failed, to be kept; secrets masked.
pub fn winning_command(state: &State) -> Option<String> {
    let (run, before) = state.runs.split_last()?;
    let went_well = run.outcome() == RunOutcome::Finished && !run.is_hidden_failure();
    let is_changed = before.last()?.shown != run.shown;
    (went_well && is_changed).then(|| format!("{RAN_WITH}{}", to_paste(&run.command)))
}

/// What that command has from a remedy that did not keep its own run from running out of memory: later relaunches began with it, and
/// nobody may have meant to keep it.
pub fn kept_of_failed(state: &State) -> Option<String> {
    winning_command(state)?;
    let kept = state.kept_of_failed();
    let kept = kept
        .iter()
        .map(|kept| format!("{} of run {}", kept.names, kept.run));
    let kept: Vec<String> = kept.collect();
    (!kept.is_empty()).then(|| {
        format!(
            "still set from runs that ran out of memory anyway: {}; it may not be needed",
            kept.join(", ")
        )
    })
}

/// What to say of a last run that did not train, though one before it had, or had tried to.
pub fn nothing_trained(state: &State) -> Option<String> {
    let run = state.run()?;
    (run.outcome() == RunOutcome::TrainedNothing).then(|| {
        format!(
            "run {} ended with exit 0 without a training step, unlike an earlier run: it did not train",
            run.number
        )
    })
}

/// "run 2 (batch 32 × 2) peaked at 16.5 of 24.0 GiB"
fn of_run(state: &State, run: &Run) -> String {
    let named = match differs(state, run) {
        Some(how) => format!("run {} ({how})", run.number),
        None => format!("run {}", run.number),
    };
    if run.outcome() == RunOutcome::OutOfMemory {
        // The record counts ended steps; memory ran out in the next one.
        let step = run.oom().and_then(|oom| oom.record.as_ref());
        let step = step.map_or(String::new(), |record| {
            format!(" at step {}", record.step + 1)
        });
        return format!("{named} ran out of {}{step}", run.what_ran_out());
    }
    match peak(state, run) {
        Some(peak) => format!("{named} peaked at {peak}"),
        None => match run.outcome() {
            RunOutcome::Failed(exit) => format!("{named} ended with {exit}"),
            _ => format!("the peak of {named} is not known"),
        },
    }
}

/// What a relaunch changed: the batch, or else the remedies' words.
fn differs(state: &State, run: &Run) -> Option<String> {
    let before = state
        .runs
        .iter()
        .rev()
        .find(|one| one.number < run.number)?;
    let [now, before] = [run, before].map(|run| reading(state, run));
    if (now.at_once, now.accumulation) == (before.at_once, before.accumulation)
        || now.batch.is_none()
    {
        return (!run.remedies.is_empty()).then(|| run.remedies.join(" and "));
    }
    Some(match now.accumulation {
        1 => format!("batch {}", now.at_once),
        parts => format!("batch {} × {parts}", now.at_once),
    })
}

fn reading(state: &State, run: &Run) -> WorkloadKey {
    let launch = LaunchEnvironment {
        told: run.knobs.as_deref().or(state.knobs.as_ref()),
        ..LaunchEnvironment::default()
    };
    WorkloadKey::new(&run.command.without_secrets(), &launch)
}

/// "16.5 of 24.0 GiB"
fn peak(state: &State, run: &Run) -> Option<String> {
    let peak = run.peak()?;
    let device = run.ranks.iter().find_map(|rank| rank.device.as_ref());
    let capacity = device.and_then(|uuid| state.device(uuid)?.capacity);
    Some(
        match capacity.filter(|capacity| *capacity >= Bytes::gib(1) && peak >= Bytes::gib(1)) {
            Some(capacity) => format!("{:.1} of {:.1} GiB", peak.as_gib(), capacity.as_gib()),
            None => peak.to_string(),
        },
    )
}

/// What happened in the latest run, if its outcome does not show an OOM.
pub fn hidden_oom(state: &State) -> Option<String> {
    let run = state.run()?;
    let hidden = run.hidden_oom().filter(|hidden| may_hide(run, *hidden))?;
    let what = what(run, hidden);
    Some(match hidden {
        HiddenOom::Fatal(_) => format!(
            "{what}, though the command ended with exit 0: of a pipe that is the last command's status \
             (`set -o pipefail` in bash changes that), of a script the last line's"
        ),
        HiddenOom::Possible(_) => format!(
            "{what}, and the command ended with exit 0: the program caught it, or a pipe or a script \
             hid its status"
        ),
        HiddenOom::Doubtful(_, doubt) => {
            let why = match doubt {
                Doubt::WentOn => "training went on after it",
                Doubt::Unseen => "only the output has it, and the probe saw none",
                Doubt::AnotherError => "the program's last error is another one",
                Doubt::AnotherStatus => {
                    "only the output has it, and the exit status is none of an OOM"
                }
                Doubt::KilledLater => "its process went on for a while and was killed later",
            };
            format!("possibly {what}, but {why}: it is not taken for the end of this run")
        }
    })
}

/// Of an OOM that only the output tells of the process is not known. A program that ended with 0 has
/// survived it; one that a shell has started may not have.
fn may_hide(run: &Run, hidden: HiddenOom<'_>) -> bool {
    let kind = || CommandLayout::new(&run.command).kind;
    matches!(hidden, HiddenOom::Doubtful(..))
        || hidden.incident().pid.is_some()
        || matches!(kind(), ProgramKind::ShellScript | ProgramKind::ShellString)
}

/// "memory ran out after 0:03 in the forward pass of step 25"
fn what(run: &Run, hidden: HiddenOom<'_>) -> String {
    let oom = hidden.incident();
    let after = clock_face(oom.at.since(run.started));
    format!("memory ran out after {after}{}", place_of(oom))
}

/// Lines of the program that are named.
const LINES: usize = 3;

/// The diagnosis of the current run's OOM: the cause, its numbers, the lines with the most memory,
/// and each remedy as a command to copy. Empty without an OOM.
///
/// Lines have no prefix or trailing newline; the caller adds `oomph: `.
pub fn diagnosis(
    state: &State,
    findings: &[Finding],
    remedies: &[Remedy],
    command: &CommandLine,
) -> Vec<String> {
    let Some(first) = findings.first() else {
        return Vec::new();
    };
    // Figures and advice are told apart: lines to read in a log.
    let mut blocks = document::finding(first, true);
    blocks.retain(|block| {
        !matches!(
            block,
            DocumentBlock::FigureSum(_) | DocumentBlock::Remark(_)
        )
    });
    if let (Some(run), Some(oom)) = (state.run(), state.oom()) {
        let rank = run.rank_of(oom);
        let step = rank.and_then(|rank| StepAnatomy::of_oom(&rank.traces));
        let leaked = findings.iter().find_map(|finding| finding.leaked);
        let mut largest =
            document::largest_lines_or_of_step(oom, &run.source, LINES, step.as_ref(), leaked);
        document::leave_out_source(&mut largest);
        blocks.extend(largest);
    }
    let others = findings.iter().skip(1);
    blocks.extend(others.map(|other| document::headline(other, false)));
    blocks.extend(document::advice(first));
    let is_worth_it = |remedy: &&Remedy| {
        let can_help = remedy.expectation.fits != Some(false);
        remedy.is_offered() && can_help && !document::is_of_little_use(remedy)
    };
    let offered: Vec<&Remedy> = remedies.iter().filter(is_worth_it).collect();
    if !offered.is_empty() {
        blocks.push(DocumentBlock::heading("to run it again"));
    }
    blocks.extend(offered.into_iter().map(|remedy| {
        let facts = [remedy.expectation.words.as_str(), &remedy.cost];
        document::relaunch(command, remedy, &facts)
    }));
    let idle = document::of_little_use(remedies, None);
    blocks.extend(idle.map(DocumentBlock::detail));
    blocks.extend(for_all_parts(remedies, command));
    blocks.extend(batch_left(state, remedies));
    lines(&blocks, TextLayout::Lines)
}

/// What is to be changed in the code, or the recommended remedy as a command to copy: for a terminal whose dialog has shown all of
/// it.
pub fn what_helps(findings: &[Finding], remedies: &[Remedy], command: &CommandLine) -> Vec<String> {
    let Some(first) = findings.first() else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    let recommended = remedy::recommended(remedies, Some(first.cause)).map(|at| &remedies[at]);
    let is_in_code = first.place.is_some() || recommended.is_none();
    blocks.extend(document::advice(first).next().filter(|_| is_in_code));
    blocks.extend(recommended.map(|remedy| {
        let facts = [remedy.expectation.words.shortest(), remedy.cost.shortest()];
        document::relaunch(command, remedy, &facts)
    }));
    blocks.extend(for_all_parts(remedies, command));
    lines(&blocks, TextLayout::Lines)
}

/// Why no smaller batch is proposed, where the program's numbers were looked at.
fn batch_left(state: &State, remedies: &[Remedy]) -> Option<DocumentBlock> {
    state.knobs.as_ref()?;
    let batch = remedies
        .iter()
        .find(|remedy| remedy.id == RemedyId::Batch)?;
    match &batch.availability {
        Availability::NotOffered(why) => Some(DocumentBlock::Sentence(Sentence {
            voice: Voice::Detail,
            words: why.clone().behind("no smaller batch is proposed: "),
        })),
        Availability::Offered => None,
    }
}

/// The remedies of one part of a job, which every part needs: nothing is started here.
fn for_all_parts(remedies: &[Remedy], command: &CommandLine) -> Vec<DocumentBlock> {
    let may_help = |remedy: &&Remedy| {
        !remedy.is_offered() && !remedy.edits.is_empty() && remedy.expectation.fits != Some(false)
    };
    let mut blocks = Vec::new();
    for remedy in remedies.iter().filter(may_help) {
        if let (true, Availability::NotOffered(why)) = (blocks.is_empty(), &remedy.availability) {
            blocks.push(DocumentBlock::heading(format!("not started again, {why}")));
        }
        let everywhere = format!("on every node {}; on this one", remedy.changes);
        let facts = [remedy.expectation.words.as_str(), &remedy.cost, &everywhere];
        blocks.push(document::relaunch(command, remedy, &facts));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, Exited, Started};
    use crate::forecast::ForecastInputs;
    use crate::remedy::RemedyInputs;
    use crate::state::tests::staged::{StagedSession, gib, hello, record, step, text_of};
    use crate::units::{Pid, RunNumber};

    #[test]
    fn the_command_that_went_well_after_another_is_named() {
        let mut scene = StagedSession::training();
        let ended = |run: u32, code: i32| {
            let left = Vec::new();
            let (run, exit) = (RunNumber(run), Exit::Code(code));
            EventKind::Exited(Exited { run, exit, left })
        };
        scene.add(12.0, ended(1, 1));
        assert_eq!(winning_command(&scene.state), None, "the only one");
        let words = ["python", "train.py", "--batch-size", "32"];
        let command = CommandLine {
            argv: words.map(Into::into).to_vec(),
            ..scene.state.runs[0].command.clone()
        };
        let second = Started {
            run: RunNumber(2),
            pid: Pid(200),
            command,
            remedies: Vec::new(),
            predicted_peak: None,
            prediction: None,
            numerics: None,
        };
        scene.add(13.0, EventKind::Started(second));
        assert_eq!(winning_command(&scene.state), None, "it still runs");
        let mut failed = scene.state.clone();
        failed.apply(&crate::event::Event {
            at: crate::units::Moment::from_secs_f64(20.0),
            what: ended(2, 1),
        });
        assert_eq!(winning_command(&failed), None);
        scene.add(20.0, ended(2, 0));
        let named = winning_command(&scene.state);
        assert_eq!(
            named.as_deref(),
            Some("it ran with: oomph python train.py --batch-size 32")
        );
    }

    #[test]
    fn what_a_failed_remedy_left_in_the_command_is_told() {
        let scene = StagedSession::training();
        let mut state = scene.state.clone();
        let conf = "PYTORCH_CUDA_ALLOC_CONF";
        let mut add = |at: f64, what: EventKind| {
            let at = crate::units::Moment::from_secs_f64(at);
            state.apply(&crate::event::Event { at, what });
        };
        let plain = scene.state.runs[0].command.clone();
        let mut segments = plain.clone();
        segments.set_env(conf, Some("expandable_segments:True".into()));
        let mut smaller = segments.clone();
        smaller.argv.push("--half".into());
        let started = |run: u32, command: &CommandLine| {
            EventKind::Started(Started {
                run: RunNumber(run),
                pid: Pid(100 * run as i32),
                command: command.clone(),
                remedies: Vec::new(),
                predicted_peak: None,
                prediction: None,
                numerics: None,
            })
        };
        let ended = |run: u32, code: i32| {
            let left = Vec::new();
            let (run, exit) = (RunNumber(run), Exit::Code(code));
            EventKind::Exited(Exited { run, exit, left })
        };
        add(12.0, ended(1, 1));
        add(13.0, started(2, &segments));
        add(13.5, hello(2, 200, None));
        let failed = record(200, gib(18.0), gib(19.0), gib(2.0), gib(0.4));
        add(14.0, EventKind::OomText(text_of(&failed)));
        add(14.0, EventKind::Oom(failed));
        add(15.0, ended(2, 1));
        add(16.0, started(3, &smaller));
        add(17.0, hello(3, 300, None));
        add(18.0, step(300, 1, gib(4.0), gib(20.0)));
        add(20.0, ended(3, 0));
        let said = kept_of_failed(&state);
        assert_eq!(
            said.as_deref(),
            Some(
                "still set from runs that ran out of memory anyway: PYTORCH_CUDA_ALLOC_CONF of run 2; it may not be needed"
            )
        );
    }

    /// The remedies of a recording's last run, with its findings and its command.
    fn offered(name: &str) -> (State, Vec<Finding>, Vec<Remedy>, CommandLine) {
        let mut state = State::default();
        for event in crate::report::recorded(name) {
            state.apply(&event);
        }
        let findings = crate::diagnosis::diagnose(&state);
        let command = state.run().expect("a run").command.clone();
        let inputs = RemedyInputs {
            forecast: ForecastInputs {
                oom: state.oom(),
                state: Some(&state),
                ..ForecastInputs::default()
            },
            findings: &findings,
            ..RemedyInputs::default()
        };
        let remedies = remedy::remedies(&command, &inputs);
        (state, findings, remedies, command)
    }

    #[test]
    fn what_only_delays_a_leak_is_no_command_to_copy() {
        let (state, findings, remedies, command) = offered("leak-traced");
        assert!(remedies.iter().any(document::is_of_little_use));
        let helps = what_helps(&findings, &remedies, &command);
        assert_eq!(helps.len(), 1, "{helps:?}");
        assert!(helps[0].starts_with("advice: "), "{helps:?}");
        let whole = diagnosis(&state, &findings, &remedies, &command).join("\n");
        assert!(!whole.contains("to run it again"), "{whole}");
        assert!(whole.contains(" only delay the OOM"), "{whole}");
    }

    #[test]
    fn the_recommended_remedy_is_the_last_thing_said() {
        let (_, findings, remedies, command) = offered("capacity");
        let helps = what_helps(&findings, &remedies, &command);
        let last = helps.last().expect("a command");
        assert!(last.starts_with("    oomph "), "{helps:?}");
        assert!(helps.len() <= 3, "{helps:?}");
    }
}
