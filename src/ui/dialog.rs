//! The dialogs as data: `dialogs` draws them, `update` changes them.

use super::action::{Action, Effect, Scroll};
use super::editor::{Editor, LineEdit};
use super::keymap::{self, InputMode};
use super::scene::Scene;
use crate::anatomy::{Category, StepAnatomy, by_category};
use crate::diagnosis::{self, Cause, Finding};
use crate::document::MadeByLine;
use crate::event::SourceLine;
use crate::remedy::{self, Availability, FitVerdict, Remedy, RemedyId};
use crate::units::{Bytes, RunNumber};
use ratatui::crossterm::event::{KeyEvent, KeyModifiers};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Dialog {
    /// Why memory ran out, and what to do.
    Oom(OomDialog),
    Edit(Editor),
    /// "Quit?"
    Quit,
    /// "Stop the training?"
    Stop,
    Help(HelpDialog),
    /// A text being typed to search the output.
    Search(LineEdit),
}

/// The help and its scroll position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HelpDialog {
    /// The first row to show; drawing limits it.
    pub scrolled: usize,
    /// What it was opened over: it lists the keys of that.
    mode: InputMode,
    /// The dialog among these.
    over: Option<OomDialog>,
    /// The text of which the keys' words are to have every word.
    searched: LineEdit,
    /// Whether that text is being typed.
    pub is_typed: bool,
}

impl HelpDialog {
    pub fn over(mode: InputMode, over: Option<OomDialog>) -> HelpDialog {
        HelpDialog {
            scrolled: 0,
            mode,
            over,
            searched: LineEdit::default(),
            is_typed: false,
        }
    }

    pub fn searched(&self) -> &LineEdit {
        &self.searched
    }

    /// Edits the text that is searched for.
    pub fn search(&mut self, edit: impl FnOnce(&mut LineEdit)) {
        edit(&mut self.searched);
        self.scrolled = 0;
    }

    /// Shows all keys again; whether some were left out.
    pub fn forget_search(&mut self) -> bool {
        let was_searched = std::mem::take(&mut self.is_typed) || !self.searched.text().is_empty();
        self.searched = LineEdit::default();
        was_searched
    }

    /// Whether what is said of a key has every word of the text.
    pub fn finds(&self, said: &str) -> bool {
        let all = said.to_lowercase();
        let text = self.searched.text().to_lowercase();
        text.split_whitespace().all(|word| all.contains(word))
    }

    /// The dialog that it lies over.
    pub fn behind(&self) -> Option<&OomDialog> {
        self.over.as_ref()
    }

    pub fn closed(self) -> Option<OomDialog> {
        self.over
    }

    pub fn mode(&self) -> InputMode {
        self.mode
    }

    pub fn scroll(&mut self, scroll: Scroll) {
        // A title and a blank row for each of a few groups.
        let most = 2 * keymap::bindings(self.mode()).count();
        self.scrolled = match scroll {
            Scroll::Up(n) => self.scrolled.saturating_sub(n),
            Scroll::Down(n) => (self.scrolled + n).min(most),
            Scroll::Start => 0,
            Scroll::End => most,
        };
    }
}

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

/// What the pointer stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pointer {
    /// The user has not moved it: the recommended remedy, by what is known now.
    Recommended,
    /// What is to be changed in the code.
    Code,
    /// A remedy, by its key.
    Remedy(char),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OomDialog {
    pub run: RunNumber,
    pointer: Pointer,
    /// The combined remedies.
    pub chosen: Vec<RemedyId>,
    pub details: Details,
    /// What the step that ran out of memory held then, if it was traced; worked out once.
    pub categories: Vec<(Category, Bytes)>,
    /// What the lines make in a step of the process that ran out of memory.
    pub made: MadeByLine,
    pub copies: NextCopy,
    /// What explains an OOM that the program caught, where none ended the run.
    survived: Vec<Finding>,
}

fn is_offered(remedy: &Remedy) -> bool {
    match remedy.availability {
        Availability::Offered => true,
        Availability::NotOffered(_) => false,
    }
}

/// The letter of a key without Alt or Ctrl.
fn letter(key: &KeyEvent) -> Option<char> {
    let is_plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
    key.code.as_char().filter(|_| is_plain)
}

/// What is alive at the end of the step that ran out of memory.
fn at_the_failure(scene: &Scene) -> Option<Vec<(Category, Bytes)>> {
    let run = scene.state.run()?;
    let trace = run.rank_of(run.oom()?)?.traces.failed()?;
    let step = StepAnatomy::new(trace).ok()?;
    let held = by_category(&step, step.end()).into_iter();
    Some(held.filter(|(_, bytes)| *bytes > Bytes::ZERO).collect())
}

/// By the traced step that says most of the OOM.
fn made_by_lines(scene: &Scene) -> Option<MadeByLine> {
    let run = scene.state.run()?;
    let traces = &run.rank_of(run.oom()?)?.traces;
    Some(MadeByLine::new(&StepAnatomy::of_oom(traces)?))
}

impl OomDialog {
    pub(crate) fn new(run: RunNumber, scene: &Scene) -> OomDialog {
        OomDialog {
            run,
            pointer: Pointer::Recommended,
            chosen: Vec::new(),
            details: Details::Brief,
            categories: at_the_failure(scene).unwrap_or_default(),
            made: made_by_lines(scene).unwrap_or_default(),
            copies: NextCopy::Diagnosis,
            survived: diagnosis::diagnose_survived(scene.state),
        }
    }

    /// What explains the OOM that it is about, the most certain first.
    pub(crate) fn findings<'a>(&'a self, scene: &Scene<'a>) -> &'a [Finding] {
        match scene.findings {
            [] => &self.survived,
            findings => findings,
        }
    }

    /// Whether what is to be changed in the code comes first: there are remedies, and none may
    /// help.
    pub(crate) fn leads_with_code(scene: &Scene) -> bool {
        let cause = scene.cause();
        let mut remedies = scene.remedies.iter();
        scene.remedies.iter().any(is_offered)
            && !remedies.any(|remedy| remedy::may_help(remedy, cause))
    }

    /// The selected row of the remedies; `None` for what is to be changed in the code, or if none is
    /// recommended.
    pub(crate) fn selected(&self, scene: &Scene) -> Option<usize> {
        let remedies = scene.remedies;
        match self.pointer {
            // There is nothing for Enter to apply, but the reason why not to show.
            Pointer::Recommended if !remedies.iter().any(is_offered) => {
                (!remedies.is_empty()).then_some(0)
            }
            Pointer::Recommended => remedy::recommended(remedies, scene.cause()),
            Pointer::Code => None,
            Pointer::Remedy(key) => remedies.iter().position(|remedy| remedy.key == key),
        }
    }

    /// Whether the recommended row is only the best guess: nothing is known to fit the GPU. Of the host's memory that is
    /// never said.
    pub(crate) fn is_guess(&self, scene: &Scene) -> bool {
        let selected = self.remedy(scene).filter(|remedy| is_offered(remedy));
        self.pointer == Pointer::Recommended
            && !scene.cause().is_some_and(Cause::is_of_host)
            && selected.is_some_and(|remedy| remedy.expectation.verdict() == FitVerdict::Unknown)
    }

    /// Selects a row; `None` for what is to be changed in the code.
    pub(crate) fn select(&mut self, row: Option<usize>, remedies: &[Remedy]) {
        let remedy = row.map(|row| remedies.get(row));
        self.pointer = match remedy {
            None => Pointer::Code,
            Some(Some(remedy)) => Pointer::Remedy(remedy.key),
            Some(None) => Pointer::Recommended,
        };
    }

    /// The remedies that Enter applies: the combined ones, or the selected one.
    pub(crate) fn to_apply(&self, scene: &Scene) -> Vec<RemedyId> {
        if self.chosen.is_empty() {
            let selected = self.remedy(scene).filter(|r| is_offered(r));
            selected.map(|remedy| remedy.id).into_iter().collect()
        } else {
            self.chosen.clone()
        }
    }

    /// The remedies in the table: those that are neither offered nor have edits to make elsewhere
    /// are among the details, unless there are no others.
    pub(crate) fn listed<'r>(&self, remedies: &'r [Remedy]) -> &'r [Remedy] {
        let is_listed = |remedy: &Remedy| {
            !remedy.id.is_of_details() && (is_offered(remedy) || !remedy.edits.is_empty())
        };
        let offered = remedies.iter().rposition(is_listed);
        match (self.details, offered) {
            (Details::Brief, Some(last)) => &remedies[..=last],
            (Details::Brief | Details::Full { .. }, _) => remedies,
        }
    }

    /// Shows the evidence and what is not offered, or no longer.
    pub(crate) fn toggle_details(&mut self, scene: &Scene) {
        self.details = match self.details {
            Details::Brief => Details::Full { scrolled: 0 },
            Details::Full { .. } => Details::Brief,
        };
        let last = self.listed(scene.remedies).len().saturating_sub(1);
        if self.selected(scene).is_some_and(|selected| selected > last) {
            self.select(Some(last), scene.remedies);
        }
    }

    /// The selected remedy.
    pub(crate) fn remedy<'r>(&self, scene: &Scene<'r>) -> Option<&'r Remedy> {
        scene.remedies.get(self.selected(scene)?)
    }

    /// The line that is to be changed in the code, where that is what Enter acts on, also beside combined remedies.
    pub(crate) fn line_in_code<'a>(&'a self, scene: &Scene<'a>) -> Option<&'a SourceLine> {
        let is_selected = self.selected(scene).is_none();
        let finding = self.findings(scene).first();
        finding.filter(|_| is_selected)?.line.as_ref()
    }

    /// Opens that line.
    pub(crate) fn edit_in_code(&self, scene: &Scene) -> Option<Effect> {
        let line = self.line_in_code(scene)?;
        let file = scene.state.run()?.command.cwd.join(&line.file);
        Some(Effect::EditSource {
            file: file.to_string_lossy().into_owned(),
            line: line.line,
        })
    }

    /// The remedies whose command is shown and copied: those that Enter applies, or a selected one
    /// that is not offered here but has edits to make elsewhere (a run that is part of a job).
    pub(crate) fn to_show(&self, scene: &Scene) -> Vec<RemedyId> {
        let apply = self.to_apply(scene);
        match self.remedy(scene) {
            Some(selected) if apply.is_empty() && !selected.edits.is_empty() => vec![selected.id],
            Some(_) | None => apply,
        }
    }

    pub(crate) fn choose(&mut self, chosen: &[RemedyId]) {
        if let [one] = chosen {
            self.pointer = Pointer::Remedy(one.spec().key);
        } else {
            self.chosen = chosen.to_vec();
        }
    }

    /// Whether what is selected can be added to a combination: what is to be changed in the code cannot.
    pub(crate) fn can_combine(&self, scene: &Scene) -> bool {
        self.remedy(scene).is_some_and(is_offered)
    }

    /// Adds the selected remedy to the combination, or takes it out.
    pub(crate) fn combine(&mut self, scene: &Scene) {
        let Some(remedy) = self.remedy(scene).filter(|r| is_offered(r)) else {
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
        let selected = self.selected(scene);
        match (scroll, &mut self.details) {
            (Scroll::Up(1), _) => {
                let above = selected.and_then(|selected| selected.checked_sub(1));
                let row = match OomDialog::leads_with_code(scene) {
                    true => above,
                    false => above.or(Some(0)),
                };
                self.select(row, scene.remedies);
            }
            (Scroll::Down(1), _) => {
                let below = selected.map_or(0, |selected| selected + 1);
                self.select(Some(below.min(last)), scene.remedies);
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

    /// Scrolls the details to their next section, from the last one to their end, and from there to the beginning.
    pub(crate) fn next_section(&mut self, sections: &[usize], most: usize) {
        if let Details::Full { scrolled } = &mut self.details {
            let next = sections.iter().find(|at| **at > *scrolled);
            *scrolled = match next {
                _ if *scrolled >= most => 0,
                Some(at) => (*at).min(most),
                None => most,
            };
        }
    }

    /// Whether it is the key of a remedy that is offered; a row that is not shown has none.
    pub(crate) fn has_key(&self, key: &KeyEvent, scene: &Scene) -> bool {
        let of_key = |remedy: &Remedy| Some(remedy.key) == letter(key) && is_offered(remedy);
        self.listed(scene.remedies).iter().any(of_key)
    }

    /// Why a letter does nothing here.
    pub(crate) fn why_nothing(&self, key: &KeyEvent, scene: &Scene) -> Option<String> {
        let pressed = letter(key)?;
        let here = scene.remedies.iter().find(|remedy| remedy.key == pressed);
        let of_key = |id: &RemedyId| id.spec().key == pressed;
        let opens_this = keymap::actions(InputMode::Watching, key).any(|is| is == Action::OpenOom);
        Some(match (here, RemedyId::all().find(of_key)) {
            (Some(remedy), _) => match &remedy.availability {
                Availability::Offered => {
                    format!("{pressed} ({}) stands among the details: d", remedy.title)
                }
                Availability::NotOffered(why) => format!("{pressed} ({}): {why}", remedy.title),
            },
            (None, _) if opens_this => format!("{pressed} opens this dialog: it is open already"),
            // There are no candidates on the screen that it could be one of.
            (None, Some(id)) if !pressed.is_ascii_digit() => {
                format!(
                    "{pressed} ({}) is not offered for this OOM",
                    id.spec().title
                )
            }
            (None, _) => format!("{pressed} does nothing here; ? lists the keys"),
        })
    }

    /// A remedy's own key relaunches with it and the combined ones. While a training runs it only
    /// selects the remedy.
    pub(crate) fn remedy_key(&mut self, key: &KeyEvent, scene: &Scene) -> Option<Effect> {
        let c = letter(key)?;
        let of_key = |remedy: &Remedy| remedy.key == c && is_offered(remedy);
        // A row that is not shown has no key.
        let at = self.listed(scene.remedies).iter().position(of_key)?;
        if scene.is_running() {
            self.pointer = Pointer::Remedy(c);
            return None;
        }
        let remedy = &scene.remedies[at];
        let mut remedies = self.chosen.clone();
        if !remedies.contains(&remedy.id) {
            remedies.push(remedy.id);
        }
        Some(Effect::Relaunch {
            remedies,
            command: None,
        })
    }
}
