//! A whole session for those who were not there: the state at its end, and each OOM explained as its
//! run stood when it ended.

use super::explain::Explained;
use super::score;
use crate::diagnosis;
use crate::document::RunProof;
use crate::event::{Event, EventKind, HostMemory};
use crate::recognize::CommandLayout;
use crate::state::{OomIncident, RankState, Run, RunOutcome, State};
use crate::units::{Bytes, Moment, RunNumber, clock_face};
use std::time::Duration;

/// What is known of a run whose end is not in its recording. The recording itself cannot say: a run that goes on and one whose
/// machine was switched off leave the same file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum OpenEnd {
    /// The session is alive.
    GoesOn,
    #[default]
    Unknown,
}

/// Later runs that are told one by one; of more only the first and the last.
const TOLD: usize = 4;

/// What a recording tells.
#[derive(Debug, Default)]
pub struct SessionStory {
    /// At the recording's end.
    pub state: State,
    /// Of a last run without an end.
    pub open_end: OpenEnd,
    /// All OOMs that were kept, in order.
    pub ooms: Vec<Explained>,
}

impl SessionStory {
    /// Each run is explained as it stood before the next began.
    pub fn new(events: impl IntoIterator<Item = Event>) -> SessionStory {
        let mut story = SessionStory::default();
        for event in events {
            story.take(&event);
        }
        story.finish()
    }

    /// Takes the next event in.
    pub fn take(&mut self, event: &Event) {
        if let EventKind::Started(_) = event.what {
            self.explain_current_run();
        }
        self.state.apply(event);
    }

    /// When the last run used most of the host's memory, and what of it. `None` where none of it was read.
    pub(super) fn ram_at_peak(&self) -> Option<&(Moment, HostMemory)> {
        self.state.run()?.host_at_peak.as_deref()
    }

    /// " in run 2", where there are several: behind what is told of the last one alone.
    pub(super) fn of_last_run(&self) -> String {
        match self.state.runs.last() {
            Some(run) if self.state.runs.len() > 1 => format!(" in run {}", run.number),
            Some(_) | None => String::new(),
        }
    }

    /// To be called after the last event.
    pub fn finish(mut self) -> SessionStory {
        self.explain_current_run();
        self
    }

    fn explain_current_run(&mut self) {
        let Some(run) = self.state.run() else {
            return;
        };
        let explained = run.ooms.iter().map(|oom| {
            let findings = diagnosis::diagnose_incident(&self.state, Some(run), oom);
            Explained::of_run(run, oom, findings)
        });
        self.ooms.extend(explained.collect::<Vec<_>>());
    }

    /// The OOMs of a run.
    pub fn ooms_of(&self, number: RunNumber) -> impl Iterator<Item = &Explained> {
        let of_run = move |oom: &&Explained| oom.run.as_ref().map(|(run, _)| *run) == Some(number);
        self.ooms.iter().filter(of_run)
    }

    /// The OOMs in order, of those that a process caught one after the other, with one cause, the last alone, or the one that ended
    /// the run; and those that are like it.
    pub fn grouped(&self) -> Vec<(&Explained, Vec<&Explained>)> {
        let mut groups: Vec<Vec<&Explained>> = Vec::new();
        let alike = |one: &Explained, other: &Explained| {
            let run = |oom: &Explained| oom.run.as_ref().map(|(number, _)| *number);
            let cause = |oom: &Explained| oom.findings.first().map(|found| found.cause);
            let who = |oom: &Explained| (oom.incident.pid, oom.incident.rank);
            run(one) == run(other) && cause(one) == cause(other) && who(one) == who(other)
        };
        for oom in &self.ooms {
            match groups.iter_mut().find(|group| alike(group[0], oom)) {
                Some(group) => group.push(oom),
                None => groups.push(vec![oom]),
            }
        }
        let of_run = |oom: &Explained| {
            let number = oom.run.as_ref().map(|(number, _)| *number)?;
            self.decisive(self.state.run_numbered(number)?)
        };
        let each = groups.into_iter().map(|mut group| {
            let ended = of_run(group[0]);
            let at =
                (group.iter()).position(|oom| ended.is_some_and(|end| std::ptr::eq(*oom, end)));
            let main = group.remove(at.unwrap_or(group.len() - 1));
            (main, group)
        });
        each.collect()
    }

    /// The OOM of a run that matters most: the one that ended it.
    pub fn decisive(&self, run: &Run) -> Option<&Explained> {
        let at = run.oom().map(|oom| oom.at);
        let mut ooms = self.ooms_of(run.number);
        let first = ooms.next()?;
        Some(match at {
            Some(at) => (std::iter::once(first).chain(ooms))
                .find(|oom| oom.incident.at == at)
                .unwrap_or(first),
            None => first,
        })
    }

    /// What happened, a sentence for each run that says something new: the first, the last, and
    /// those between them counted.
    pub fn sentences(&self) -> Vec<String> {
        let runs = &self.state.runs;
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return vec![match &self.state.spawn_failed {
                Some(failed) => format!("The command could not be started: {}.", failed.reason),
                None => "Nothing was run.".into(),
            }];
        };
        let mut sentences = vec![self.sentence(first)];
        sentences.extend(unseen(first));
        match runs.len() {
            1 => {}
            2 => {
                sentences.push(self.sentence(last));
                sentences.extend(self.of_losses(last));
            }
            n => {
                sentences.extend(between(n - 2));
                sentences.push(self.sentence(last));
                sentences.extend(self.of_losses(last));
            }
        }
        let fitted = self.state.fitted();
        sentences.extend(fitted.map(|found| format!("oomph fit found: {found}.")));
        sentences
    }

    /// What became of the runs after one, a sentence for each that says something new.
    pub fn after(&self, number: RunNumber) -> Vec<String> {
        let later = (self.state.runs.iter()).skip_while(|run| run.number <= number);
        let later: Vec<&Run> = later.collect();
        let mut sentences = Vec::new();
        if let [first, .., last] = later.as_slice()
            && later.len() > TOLD
        {
            sentences.push(self.sentence(first));
            sentences.extend(between(later.len() - 2));
            sentences.push(self.sentence(last));
            sentences.extend(self.of_losses(last));
        } else {
            for run in &later {
                sentences.push(self.sentence(run));
                sentences.extend(self.of_losses(run));
            }
        }
        sentences
    }

    /// Whether a relaunched run's losses stayed as they were.
    fn of_losses(&self, run: &Run) -> Option<String> {
        let proof = RunProof::new(&self.state.runs, run)?;
        let against = (proof.with).map_or(String::new(), |with| format!(" (against run {with})"));
        Some(format!("{}{against}.", capitalized(&proof.words)))
    }

    fn sentence(&self, run: &Run) -> String {
        let subject = match (self.state.runs.len(), run.remedies.as_slice()) {
            (1, _) => "The command".to_string(),
            (_, []) => format!("Run {}", run.number),
            (_, remedies) => format!("Run {} ({})", run.number, remedies.join(" + ")),
        };
        let (took, seen) = match run.ended {
            Some((at, _)) => (format!(" after {}", clock_face(at.since(run.started))), ""),
            None => (String::new(), " so far"),
        };
        let outcome = match run.outcome() {
            RunOutcome::Running => {
                let shown = clock_face(self.state.now.since(run.started));
                match self.open_end {
                    OpenEnd::GoesOn => format!("is still running after {shown},"),
                    OpenEnd::Unknown => {
                        format!("was still running after {shown}, where its recording stops,")
                    }
                }
            }
            RunOutcome::Finished if run.is_hidden_failure() => {
                format!(
                    "ran out of memory{}, though it ended with exit 0,",
                    self.place(run)
                )
            }
            RunOutcome::Finished => "finished".to_string(),
            RunOutcome::TrainedNothing => "ended with exit 0 without a training step".to_string(),
            RunOutcome::OutOfMemory => {
                format!("ran out of {}{}", run.what_ran_out(), self.place(run))
            }
            // Whoever reads that it got a signal looks for who sent it.
            RunOutcome::Stopped | RunOutcome::Failed(_) if run.measured.is_some() => {
                let steps = match run.steps() {
                    1 => "1 step, which was".to_string(),
                    steps => format!("{steps} steps, which were"),
                };
                format!("was ended by oomph after {steps} enough to measure it,")
            }
            RunOutcome::Stopped => "was stopped".to_string(),
            RunOutcome::Failed(exit) => format!("ended with {exit}"),
        };
        let mut words = format!("{subject} {outcome}{took}");
        if run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure() {
            let finding = self.decisive(run).and_then(|oom| oom.findings.first());
            if let Some(finding) = finding {
                words.push_str(&format!(". {}", finding.headline.trim_end_matches('.')));
            }
        } else if let Some(peak) = run.peak() {
            words.push_str(&format!(" with a peak of {peak}{seen}"));
            words.push_str(&self.of_all_ranks(run));
            match (run.predicted_peak, score::beside(run)) {
                (Some(predicted), _) => words.push_str(&score::after_peak(run, predicted)),
                (None, Some(predicted)) => words.push_str(&format!(" (predicted {predicted})")),
                (None, None) => {}
            }
            words.extend(own_ram(run).map(|ram| format!(" and {ram}")));
        } else if let Some(ram) = own_ram(run) {
            words.push_str(&format!(" with {ram}"));
            let predicted = run.prediction.as_ref().filter(|said| said.ram.is_some());
            if let Some(predicted) = predicted.and_then(|_| score::beside(run)) {
                words.push_str(&format!(" (predicted {predicted})"));
            }
        }
        // A run of which no peak is known yet.
        format!("{}.", words.trim_end_matches(','))
    }

    /// Where several processes trained: that the peak is one's, and what they came to together where they share a GPU.
    fn of_all_ranks(&self, run: &Run) -> String {
        let ranks = run.ranks.iter().filter(|rank| rank.device.is_some());
        let count = ranks.clone().count();
        if count < 2 {
            return String::new();
        }
        let end = run.ended.map_or(self.state.now, |(at, _)| at);
        let shared = ranks.clone().find_map(|rank| {
            let same = |other: &&RankState| other.device == rank.device;
            let is_shared = ranks.clone().filter(same).count() > 1;
            let device = self
                .state
                .device(rank.device.as_ref().filter(|_| is_shared)?)?;
            let together = device.allocated.max_between(run.started, end)?;
            Some(format!(", {together} together on {}", device.label()))
        });
        format!(
            " in one of its {count} processes{}",
            shared.unwrap_or_default()
        )
    }

    fn place(&self, run: &Run) -> String {
        let oom = self.decisive(run).map(|oom| &oom.incident);
        oom.map(place_of).unwrap_or_default()
    }

    /// From the beginning to the last event.
    pub fn length(&self) -> Duration {
        self.state.now.since(crate::units::Moment::ZERO)
    }
}

/// "24 more like it: 18 MiB to 266 MiB requested"; nothing where there is none.
pub(super) fn more_like_it(alike: &[&Explained]) -> Option<String> {
    let asked = alike.iter().filter_map(|oom| oom.incident.requested());
    let asked = match (asked.clone().min(), asked.max()) {
        (Some(least), Some(most)) if least < most => format!(": {least} to {most} requested"),
        (Some(bytes), _) => format!(": {bytes} requested"),
        (None, _) => String::new(),
    };
    (!alike.is_empty()).then(|| format!("{} more like it{asked}", alike.len()))
}

/// "at most 1.20 GiB of RAM of its own". What others on the machine have is not the training's. `None` where that was not told apart.
fn own_ram(run: &Run) -> Option<String> {
    let own = run.own_host_peak?;
    Some(format!("at most {own} of RAM of its own"))
}

/// Runs that nothing more is said of.
fn between(count: usize) -> Option<String> {
    let runs = if count == 1 { "run" } else { "runs" };
    (count > 0).then(|| format!("{count} more {runs} followed."))
}

fn capitalized(words: &str) -> String {
    let mut rest = words.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest).collect()
}

/// ` in the forward pass of step 3`, as far as is known.
pub fn place_of(oom: &OomIncident) -> String {
    use crate::event::Phase;
    let Some(record) = &oom.record else {
        return String::new();
    };
    let step = record.step + 1;
    if let Some(activity) = record.activity() {
        return format!(" {} after step {}", activity.words(), record.step);
    }
    match record.phase {
        Phase::Load => " while the model was built".into(),
        Phase::Forward => format!(" in the forward pass of step {step}"),
        Phase::Backward => format!(" in the backward pass of step {step}"),
        Phase::Optimizer => format!(" in the optimizer step {step}"),
        Phase::Evaluation => format!(" in the evaluation that followed step {}", record.step),
        Phase::Unknown => format!(" in step {step}"),
    }
}

/// The capacity of the device that a run used most.
pub fn capacity_of(state: &State, run: &Run) -> Option<Bytes> {
    let rank = run.ranks.iter().max_by_key(|rank| rank.reserved_peak);
    let uuid = rank.and_then(|rank| rank.device.as_ref());
    let device = uuid.and_then(|uuid| state.device(uuid));
    device.or(state.devices.first())?.capacity
}

/// Why nothing is known of a run's memory but what NVML says of the GPU.
fn unseen(run: &Run) -> Option<String> {
    let option = CommandLayout::new(&run.command).keeps_probe_out(&run.command);
    let option = option.filter(|_| run.ranks.is_empty())?;
    Some(format!(
        "There is no curve of what it allocated: python {option} keeps oomph's probe out, so that only the GPU's own figures were seen."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Exit;
    use crate::report::recorded;

    /// What is recorded of a session whose relaunched run goes on.
    fn broken_off(open_end: OpenEnd) -> Vec<String> {
        let mut events = recorded("capacity");
        let is_end = |event: &Event| matches!(event.what, EventKind::Exited(_));
        let last = events.iter().rposition(is_end).expect("the last run's end");
        events.truncate(last);
        let mut story = SessionStory::default();
        for event in &events {
            story.take(event);
        }
        story.open_end = open_end;
        story.finish().sentences()
    }

    #[test]
    fn a_run_that_kept_the_probe_out_says_why_there_is_no_curve() {
        let said = SessionStory::new(recorded("isolated")).sentences();
        assert_eq!(
            said.last().map(String::as_str),
            Some(
                "There is no curve of what it allocated: python -I keeps oomph's probe out, so that only the GPU's own figures were seen."
            )
        );
        let seen = SessionStory::new(recorded("vit")).sentences();
        assert!(!seen.iter().any(|said| said.contains("no curve")));
    }

    #[test]
    fn a_run_without_a_peak_is_a_whole_sentence() {
        let mut story = SessionStory::default();
        for event in recorded("capacity").iter().take(4) {
            story.take(event);
        }
        story.open_end = OpenEnd::GoesOn;
        let said = story.finish().sentences();
        assert!(
            said[0].ends_with("is still running after 0:00."),
            "{said:?}"
        );
    }

    #[test]
    fn what_followed_a_run_is_told_run_by_run() {
        let mut story = SessionStory::new(recorded("capacity"));
        let first = story.state.runs[0].clone();
        let (ended, _) = first.ended.expect("an end");
        let mut second = Run {
            number: RunNumber(2),
            started: ended + Duration::from_secs(5),
            remedies: vec!["smaller batch".into()],
            ooms: Vec::new(),
            oom_count: 0,
            ..first
        };
        second.ended = Some((second.started + Duration::from_secs(70), Exit::Code(0)));
        for rank in &mut second.ranks {
            rank.ended_by_oom = false;
        }
        story.state.runs.push(second);
        let after = story.after(RunNumber(1));
        assert!(
            after[0].starts_with("Run 2 (smaller batch) finished after 1:10 with a peak of "),
            "{after:?}"
        );
        assert!(story.after(RunNumber(2)).is_empty());
    }

    #[test]
    fn a_run_that_goes_on_is_told_from_one_whose_recording_stops() {
        let running = broken_off(OpenEnd::GoesOn);
        assert_eq!(
            running,
            ["The command is still running after 0:08, with a peak of 138.9 GiB so far."]
        );
        let unknown = broken_off(OpenEnd::Unknown);
        assert_eq!(
            unknown,
            [
                "The command was still running after 0:08, where its recording stops, with a peak of 138.9 GiB so far."
            ]
        );
    }
}
