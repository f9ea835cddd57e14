//! The state of the OOM dialog: the selected remedy, the combined ones, how much of the diagnosis
//! is shown.

use crate::anatomy::{Category, StepAnatomy, by_category};
use crate::remedy::{self, Availability, Remedy, RemedyId};
use crate::ui::action::{Effect, Scroll};
use crate::ui::scene::Scene;
use crate::units::{Bytes, RunNumber};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Details {
    /// The cause and the line with the most memory.
    Brief,
    /// All numbers, lines and the stack.
    Full { scrolled: usize },
}

/// What the copy key copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextCopy {
    Diagnosis,
    /// The command that Enter would run.
    Command,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OomDialog {
    pub run: RunNumber,
    /// An index of the remedies; `None` for what is to be changed in the code.
    pub selected: Option<usize>,
    /// The combined remedies.
    pub chosen: Vec<RemedyId>,
    pub details: Details,
    /// What the step that ran out of memory held then, if it was traced; worked out once.
    pub categories: Vec<(Category, Bytes)>,
    pub copies: NextCopy,
}

fn is_offered(remedy: &Remedy) -> bool {
    match remedy.availability {
        Availability::Offered => true,
        Availability::NotOffered(_) => false,
    }
}

/// What is alive at the end of the step that ran out of memory.
fn at_the_failure(scene: &Scene) -> Option<Vec<(Category, Bytes)>> {
    let run = scene.state.run()?;
    let trace = run.rank_of(run.oom()?)?.traces.failed()?;
    let step = StepAnatomy::of(trace).ok()?;
    let held = by_category(&step, step.end()).into_iter();
    Some(held.filter(|(_, bytes)| *bytes > Bytes::ZERO).collect())
}

impl OomDialog {
    /// Selects the first remedy that is expected to fit, or else the first that may.
    pub(crate) fn of(run: RunNumber, scene: &Scene) -> OomDialog {
        let first = |accepts: &dyn Fn(&Remedy) -> bool| {
            let helps = |remedy: &Remedy| remedy::may_help(remedy, scene.findings);
            let mut remedies = scene.remedies.iter();
            remedies.position(|remedy| helps(remedy) && accepts(remedy))
        };
        let best =
            first(&|remedy| remedy.expectation.fits == Some(true)).or_else(|| first(&|_| true));
        let selected = match OomDialog::leads_with_code(scene) {
            true => None,
            false => best.or(Some(0)),
        };
        OomDialog {
            run,
            selected,
            chosen: Vec::new(),
            details: Details::Brief,
            categories: at_the_failure(scene).unwrap_or_default(),
            copies: NextCopy::Diagnosis,
        }
    }

    /// Whether what is to be changed in the code comes first: there are remedies, and none may
    /// help.
    pub(crate) fn leads_with_code(scene: &Scene) -> bool {
        let mut remedies = scene.remedies.iter();
        scene.remedies.iter().any(is_offered)
            && !remedies.any(|remedy| remedy::may_help(remedy, scene.findings))
    }

    /// The remedies that Enter applies: the combined ones, or the selected one.
    pub(crate) fn to_apply(&self, remedies: &[Remedy]) -> Vec<RemedyId> {
        if self.chosen.is_empty() {
            let selected = self.remedy(remedies).filter(|r| is_offered(r));
            selected.map(|remedy| remedy.id).into_iter().collect()
        } else {
            self.chosen.clone()
        }
    }

    /// The remedies in the table: those that are neither offered nor have edits to make elsewhere
    /// are among the details, unless there are no others.
    pub(crate) fn listed<'r>(&self, remedies: &'r [Remedy]) -> &'r [Remedy] {
        let is_listed = |remedy: &Remedy| is_offered(remedy) || !remedy.edits.is_empty();
        let offered = remedies.iter().rposition(is_listed);
        match (self.details, offered) {
            (Details::Brief, Some(last)) => &remedies[..=last],
            (Details::Brief | Details::Full { .. }, _) => remedies,
        }
    }

    /// Shows the evidence and what is not offered, or no longer.
    pub(crate) fn toggle_details(&mut self, remedies: &[Remedy]) {
        self.details = match self.details {
            Details::Brief => Details::Full { scrolled: 0 },
            Details::Full { .. } => Details::Brief,
        };
        let last = self.listed(remedies).len().saturating_sub(1);
        self.selected = self.selected.map(|selected| selected.min(last));
    }

    /// The selected remedy.
    pub(crate) fn remedy<'r>(&self, remedies: &'r [Remedy]) -> Option<&'r Remedy> {
        remedies.get(self.selected?)
    }

    /// The remedies whose command is shown and copied: those that Enter applies, or a selected one
    /// that is not offered here but has edits to make elsewhere (a run that is part of a job).
    pub(crate) fn to_show(&self, remedies: &[Remedy]) -> Vec<RemedyId> {
        let apply = self.to_apply(remedies);
        match self.remedy(remedies) {
            Some(selected) if apply.is_empty() && !selected.edits.is_empty() => vec![selected.id],
            Some(_) | None => apply,
        }
    }

    pub(crate) fn choose(&mut self, chosen: &[RemedyId], remedies: &[Remedy]) {
        if let [one] = chosen {
            let at = remedies.iter().position(|remedy| remedy.id == *one);
            self.selected = at.or(self.selected);
        } else {
            self.chosen = chosen.to_vec();
        }
    }

    /// Adds the selected remedy to the combination, or takes it out.
    pub(crate) fn combine(&mut self, remedies: &[Remedy]) {
        let Some(remedy) = self.remedy(remedies).filter(|r| is_offered(r)) else {
            return;
        };
        match self.chosen.iter().position(|id| *id == remedy.id) {
            Some(at) => {
                self.chosen.remove(at);
            }
            None => self.chosen.push(remedy.id),
        }
    }

    /// Rows move the selection, pages the details, of which at most so many lines can be above those in
    /// view.
    pub(crate) fn scroll(&mut self, scroll: Scroll, most: usize, scene: &Scene) {
        let last = self.listed(scene.remedies).len().saturating_sub(1);
        match (scroll, &mut self.details) {
            (Scroll::Up(1), _) => {
                let above = self.selected.and_then(|selected| selected.checked_sub(1));
                self.selected = match OomDialog::leads_with_code(scene) {
                    true => above,
                    false => above.or(Some(0)),
                };
            }
            (Scroll::Down(1), _) => {
                let below = self.selected.map_or(0, |selected| selected + 1);
                self.selected = Some(below.min(last));
            }
            (_, Details::Brief) => {}
            (Scroll::Up(n), Details::Full { scrolled }) => *scrolled = scrolled.saturating_sub(n),
            (Scroll::Down(n), Details::Full { scrolled }) => {
                *scrolled = scrolled.saturating_add(n).min(most);
            }
            (Scroll::Start, Details::Full { scrolled }) => *scrolled = 0,
            (Scroll::End, Details::Full { scrolled }) => *scrolled = most,
        }
    }

    /// A remedy's own key relaunches with it and the combined ones. While a training runs it only
    /// selects the remedy.
    pub(crate) fn remedy_key(&mut self, key: &KeyEvent, scene: &Scene) -> Option<Effect> {
        let KeyCode::Char(c) = key.code else {
            return None;
        };
        if !(key.modifiers - KeyModifiers::SHIFT).is_empty() {
            return None;
        }
        let of_key = |remedy: &Remedy| remedy.key == c && is_offered(remedy);
        let at = scene.remedies.iter().position(of_key)?;
        if scene.is_running() {
            self.selected = Some(at);
            return None;
        }
        let remedy = &scene.remedies[at];
        let mut remedies = self.chosen.clone();
        if !remedies.contains(&remedy.id) {
            remedies.push(remedy.id);
        }
        (scene.plan)(&remedies)?;
        Some(Effect::Relaunch {
            remedies,
            command: None,
        })
    }
}
