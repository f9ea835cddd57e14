//! What a session finds out of what it knows: causes, remedies, what they need, room for a larger batch. What takes long is a task
//! beside the loop, and its result comes back to [`Session::done`].

use super::leftovers::Suspects;
use super::remedies::{RemedyFacts, inputs_of};
use super::{Session, earlier};
use crate::command::CommandLine;
use crate::diagnosis::{self, Finding};
use crate::event::Level;
use crate::forecast::{Hint, RoomSearch, TracedHint, hint, traced_search};
use crate::live::background_task::{TaskId, TaskResult};
use crate::live::display::screen::Due;
use crate::live::message::SessionEffect;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::remedy::{self, EditedNeed, Remedy, RemedyInputs};
use crate::state::RunOutcome;
use crate::units::Bytes;

impl Session {
    pub(crate) fn diagnose(&mut self) {
        self.findings = diagnosis::diagnose(self.telling_state());
        self.survived = diagnosis::diagnose_survived(self.telling_state());
        self.remedies.clear();
        self.pending.remedies = None;
        match self.telling_state().oom().is_some() {
            true => self.look_up(),
            false => self.find_remedies(),
        }
    }

    /// Looks up what remedies rest on beside state and command. They are worked out once it is known.
    pub(super) fn look_up(&mut self) {
        if self.pending.looking_up.is_some() {
            self.pending.look_again = true;
            return;
        }
        let (inputs, command) = (self.inputs.clone(), self.command().clone());
        let (since, suspects) = (self.handover.began, Suspects::new(&self.state));
        // Without a probe torch's version is read from the disk, but only once memory has run out.
        let is_probed = !self.state.runs.iter().all(|run| run.ranks.is_empty());
        self.pending.look_again = false;
        self.pending.looking_up = Some(self.begin("look-up", move || {
            let mut inputs = inputs.looked_up(&command, since, &suspects, is_probed);
            // A killed process tells nothing of its arguments, and none of a word that it takes by its place.
            inputs.read_text(&command);
            TaskResult::LookedUp(Box::new(inputs))
        }));
    }

    /// Works out the remedies; where that takes long, beside the loop. Those known stay until then.
    pub(super) fn find_remedies(&mut self) {
        let is_rehearsed = |rank: &crate::state::RankState| rank.rehearsal.is_some();
        let run = self.telling_state().run();
        match run.is_some_and(|run| run.ranks.iter().any(is_rehearsed)) {
            true => {
                let facts = self.remedy_facts();
                let work = move || TaskResult::Remedies(facts.remedies());
                self.pending.remedies = Some(self.begin("remedies", work));
            }
            false => self.find_remedies_now(),
        }
    }

    pub(super) fn remedy_facts(&self) -> RemedyFacts {
        RemedyFacts {
            command: self.command().clone(),
            state: self.telling_state().clone(),
            findings: self.explaining().to_vec(),
            inputs: self.inputs.clone(),
            earlier: self.earlier.clone().unwrap_or_default(),
            next: self.run_number().next(),
        }
    }

    /// Works out what the command in the editor would need. While that takes, a later text of it waits.
    pub(crate) fn foresee(&mut self, command: CommandLine) {
        self.foreseen.ask(command);
        self.foresee_next();
    }

    pub(super) fn foresee_next(&mut self) {
        if self.pending.foreseen.is_some() {
            return;
        }
        if let Some(command) = self.foreseen.open().cloned() {
            let (facts, offered) = (self.remedy_facts(), self.remedies.clone());
            let work = move || TaskResult::Foreseen(Box::new(facts.need_of(command, &offered)));
            self.pending.foreseen = Some(self.begin("foresee", work));
        }
    }

    /// What the command in the editor would need, as far as it is known.
    pub(crate) fn edited_need(&self) -> Option<&EditedNeed> {
        self.foreseen.said()
    }

    pub(super) fn find_remedies_now(&mut self) {
        self.pending.remedies = None;
        let found = remedy::remedies(self.command(), &self.remedy_inputs());
        self.take_remedies(found);
    }

    pub(super) fn take_remedies(&mut self, found: Vec<Remedy>) {
        self.remedies = self.changes.without_rejected(found);
        self.foreseen.forget();
        self.foresee_next();
    }

    /// What remedies are against: what explains the OOM of the run, one that it has survived too.
    fn explaining(&self) -> &[Finding] {
        match self.findings.is_empty() {
            true => &self.survived,
            false => &self.findings,
        }
    }

    /// All that remedies rest on.
    pub(crate) fn remedy_inputs(&self) -> RemedyInputs<'_> {
        inputs_of(
            self.telling_state(),
            self.explaining(),
            &self.inputs,
            self.earlier.as_ref(),
            self.run_number().next(),
        )
    }

    /// What the runs' commands are read with: asked for with each frame.
    pub(crate) fn launch(&self) -> LaunchEnvironment<'_> {
        LaunchEnvironment {
            told: self.telling_state().knobs.as_ref(),
            ..self.inputs.launch()
        }
    }

    pub(crate) fn remedies(&self) -> &[Remedy] {
        &self.remedies
    }

    /// Whether remedies are being worked out, or what they rest on is looked up.
    pub(crate) fn is_finding_remedies(&self) -> bool {
        self.pending.remedies.is_some() || self.is_looking_up()
    }

    pub(crate) fn is_looking_up(&self) -> bool {
        self.pending.looking_up.is_some()
    }

    /// Whether what remedies rest on could not be looked up.
    pub(crate) fn is_disk_silent(&self) -> bool {
        self.pending.is_disk_silent
    }

    pub(crate) fn is_reading_earlier(&self) -> bool {
        self.pending.earlier.is_some()
    }

    pub(crate) fn is_reading_source(&self) -> bool {
        self.pending.source.is_some()
    }

    /// Works the remedies out without what could not be looked up.
    pub(crate) fn stop_looking(&mut self) {
        if self.pending.looking_up.take().is_some() {
            self.pending.is_disk_silent = true;
            self.find_remedies();
        }
    }

    /// Reads earlier sessions, unless that was begun before.
    pub(crate) fn ask_earlier(&mut self) {
        if self.earlier.is_some() || self.is_reading_earlier() {
            return;
        }
        let command = self.command().without_secrets();
        let before = earlier::Before::of(&self.state);
        let work = move || TaskResult::Earlier(earlier::read(&command, &before));
        self.pending.earlier = Some(self.begin("earlier", work));
    }

    /// Reads the source that was asked for, unless some is being read.
    pub(crate) fn read_source(&mut self) {
        if self.is_reading_source() {
            return;
        }
        if let Some(search) = self.source.search(&self.state) {
            let work = move || TaskResult::Source(search.read());
            self.pending.source = Some(self.begin("source", work));
        }
    }

    /// Gives at most one hint while all is well. Looks after the first step, then now and then.
    pub(crate) fn hint(&mut self, step: u64) {
        self.hints.outgrown_by(self.peak());
        if !self.hints.is_due(step) {
            return;
        }
        self.ask_text();
        let inputs = self.remedy_inputs();
        let (launch, forecast) = (&inputs.launch, &inputs.forecast);
        let search = traced_search(self.command(), &self.state, launch, forecast);
        self.hints.is_unsettled = matches!(search, RoomSearch::Unsettled);
        match search {
            RoomSearch::Ready(search) => {
                if self.pending.hint.is_none() && self.hints.begins(&search) {
                    let work = move || TaskResult::Hint(TracedHint::new(&search));
                    self.pending.hint = Some(self.begin("headroom", work));
                }
            }
            RoomSearch::Unsettled | RoomSearch::Impossible => self.hints.found = None,
        }
        self.give_hint();
    }

    /// Reads the program's text where nothing else says what sets the batch: no process tells that before an OOM.
    fn ask_text(&mut self) {
        let command = self.command().clone();
        if self.pending.text.is_some() || self.text_of.as_ref() == Some(&command) {
            return;
        }
        if WorkloadKey::new(&command, &self.launch()).batch.is_some() {
            return;
        }
        let mut inputs = self.inputs.clone();
        self.text_of = Some(command.clone());
        self.pending.text = Some(self.begin("text", move || {
            inputs.read_text(&command);
            TaskResult::Text(inputs.into_text().map(Box::new))
        }));
    }

    /// A step was traced, which says more than the peaks do: to be looked at with the next step.
    pub(crate) fn hint_soon(&mut self) {
        self.hints.is_wanted = true;
    }

    /// What a traced step says goes before what the peaks say.
    pub(crate) fn give_hint(&mut self) {
        if self.pending.hint.is_some() {
            return;
        }
        let peak = self.peak();
        if self.hints.found_is_outgrown_by(peak) {
            return;
        }
        let inputs = self.remedy_inputs();
        let hint = match self.hints.found {
            // Memory may have run out, or the run ended, while it was searched for.
            Some(TracedHint::Gain(_)) if !self.is_well() => None,
            Some(TracedHint::Gain(room)) => Some(Hint::RoomForBatch(room)),
            Some(TracedHint::NoGain) => {
                self.hints.given = None;
                None
            }
            Some(TracedHint::NotBelieved) | None => hint(
                self.command(),
                &self.state,
                &inputs.launch,
                &inputs.forecast,
            ),
        };
        if matches!(hint, Some(Hint::RoomForBatch(_))) && self.is_growing() {
            self.hints.given = None;
            return;
        }
        if let Some(hint) = hint.filter(|hint| self.hints.given != Some(*hint)) {
            let before = self.hints.given.replace(hint);
            self.hints.peak = peak;
            // Of another step that says the same there is nothing to tell.
            if before.is_some_and(|before| before.says_as(&hint)) {
                return;
            }
            self.note(Level::Info, hint.to_string());
        }
    }

    /// Whether what stays between steps grows, be it a leak for certain or not yet: what is free is not a larger batch's then.
    fn is_growing(&self) -> bool {
        let ranks = self.state.run().into_iter().flat_map(|run| run.alive());
        ranks.into_iter().any(|rank| {
            let device = rank
                .device
                .as_ref()
                .and_then(|uuid| self.state.device(uuid));
            let capacity = device.and_then(|device| device.capacity);
            diagnosis::baseline_growth(&rank.steps, capacity).is_some()
        })
    }

    /// The most that the current run has allocated.
    fn peak(&self) -> Bytes {
        let peak = self.state.run().and_then(|run| run.peak());
        peak.unwrap_or(Bytes::ZERO)
    }

    pub(super) fn is_well(&self) -> bool {
        let run = self.state.run();
        run.is_some_and(|run| run.outcome() == RunOutcome::Running && run.oom_count == 0)
    }

    /// Takes in what came of a task of this session; the result of one that nobody waits for any more is
    /// dropped. Returns the result if it is somebody else's.
    pub(crate) fn done(&mut self, id: TaskId, result: Option<TaskResult>) -> Option<TaskResult> {
        let is = |pending: &mut Option<TaskId>| pending.take_if(|of| *of == id).is_some();
        let pending = &mut self.pending;
        if is(&mut pending.earlier) {
            let read = match result {
                Some(TaskResult::Earlier(read)) => read,
                _ => earlier::Earlier::default(),
            };
            let is_news = !read.observations.is_empty() || !read.runs.is_empty();
            self.earlier = Some(read);
            if is_news && !self.is_looking_up() {
                self.find_remedies();
            }
        } else if is(&mut pending.hint) {
            if let Some(TaskResult::Hint(found)) = result {
                self.hints.found = Some(found);
                self.give_hint();
            }
        } else if is(&mut pending.text) {
            // After an OOM it was read again, with the rest.
            if let Some(TaskResult::Text(Some(text))) = result
                && !self.is_looking_up()
            {
                self.inputs.take_text(*text);
                self.hint_soon();
            }
        } else if is(&mut pending.remedies) {
            match result {
                Some(TaskResult::Remedies(found)) => self.take_remedies(found),
                // There was no thread for it.
                _ => self.find_remedies_now(),
            }
        } else if is(&mut pending.foreseen) {
            self.foreseen.take(match result {
                Some(TaskResult::Foreseen(said)) => Some(*said),
                // There was no thread for it.
                _ => None,
            });
            self.foresee_next();
        } else if is(&mut pending.looking_up) {
            if let Some(TaskResult::LookedUp(inputs)) = result {
                self.inputs = *inputs;
                self.inputs.learn(&self.learned);
                self.pending.is_disk_silent = false;
            }
            match self.pending.look_again {
                true => self.look_up(),
                false => self.find_remedies(),
            }
        } else if is(&mut pending.learned) {
            if let Some(TaskResult::Learned(Err(why))) = result {
                self.note(Level::Info, why);
            }
        } else if is(&mut pending.source) {
            if let Some(TaskResult::Source(read)) = result
                && let Some(texts) = self.source.take(read)
            {
                self.record(texts);
            }
        } else {
            return result;
        }
        self.push(SessionEffect::Draw(Due::Now));
        None
    }
}
