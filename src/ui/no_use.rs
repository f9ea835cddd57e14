//! Why a key does nothing outside of a dialog: nobody is to wonder whether it was heard.

use super::action::{Action, ActionReach, StepMove};
use super::keymap::{self, InputMode, Key};
use super::layout::{arranged, layout_of};
use super::pane::Pane;
use super::scene::{Scene, ShownRun, Subject};
use super::step::choice;
use super::step::traced::StepView;
use super::theme::UNICODE;
use super::view::View;
use crate::remedy::RemedyId;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// The name of a key that prints something; of others nothing is said.
fn name(key: &KeyEvent) -> Option<String> {
    let key = Key::of(key)?;
    let prints = matches!(key.event().code, KeyCode::Char(_)) && key.event().modifiers.is_empty();
    prints.then(|| key.name(&UNICODE))
}

/// Of a key that has no meaning here. The letters of remedies are learned in the dialog, and tried where it is closed.
pub(super) fn nowhere(mode: InputMode, key: &KeyEvent, has_dialog: bool) -> Option<String> {
    let name = name(key)?;
    let mut remedies = RemedyId::all().map(RemedyId::spec);
    let remedy = remedies.find(|remedy| key.code == KeyCode::Char(remedy.key));
    Some(match (remedy, has_dialog, mode) {
        (Some(remedy), true, InputMode::Watching) => {
            format!(
                "{name} ({}) is a key of the dialog: o opens it",
                remedy.title
            )
        }
        (Some(remedy), false, InputMode::Watching) => format!(
            "{name} ({}) is a key of the dialog that opens when memory runs out",
            remedy.title
        ),
        (Some(_), _, _) | (None, _, _) => format!("{name} does nothing here; ? lists the keys"),
    })
}

/// Of a key that was typed while a dialog opened.
pub(super) fn from_before(key: &KeyEvent) -> Option<String> {
    let name = Key::of(key)?.name(&UNICODE);
    Some(format!(
        "{name}: pressed too early, not taken: press it again in a moment"
    ))
}

/// Of a key that has a meaning here, but nothing to do now.
pub(super) fn not_now(view: &View, key: &KeyEvent, scene: &Scene) -> Option<String> {
    let name = name(key)?;
    let asked = keymap::actions(view.mode(), key).next()?;
    Some(format!("{name}: {}", reason(asked, view, scene)?))
}

/// Of a key of the OOM dialog that does nothing now.
pub(super) fn in_dialog(asked: Action, view: &View, scene: &Scene) -> Option<String> {
    Some(match (asked, scene.subject) {
        (Action::OpenFailedStep, _) => "which lines held the memory is not known".into(),
        (Action::OpenLeak, _) => return reason(asked, view, scene),
        (Action::Combine, _) if scene.can_relaunch() => {
            "nothing to combine here: select a remedy, or press its key".into()
        }
        (Action::NextSection, _) => "open the details first: d".into(),
        (_, Subject::Elsewhere(_)) => ONLY_WATCHED.into(),
        (_, Subject::Recording(_)) if scene.can_relaunch() => NOT_IN_DIALOG.into(),
        (_, Subject::Recording(replay)) => match replay.shown {
            ShownRun::Earlier(_) => STARTED_FROM_HERE.into(),
            ShownRun::Last | ShownRun::Unknown => NOT_IN_DIALOG.into(),
        },
        (_, Subject::Own) => {
            let waiting = scene.waiting.unwrap_or("the program is still ending");
            format!("not now: {waiting}")
        }
    })
}

const ONLY_WATCHED: &str = "it runs elsewhere: this screen can only watch it";
const NOT_IN_DIALOG: &str = "nothing to do in this dialog: Esc leads to the panes";
const STARTED_FROM_HERE: &str = "a later run was started from here: go to it with }";
const NO_GPU: &str = "no GPU is known yet";
const NO_RUN: &str = "nothing has run yet";
const NO_SEARCH: &str = "nothing is searched for: / starts a search";

/// Why an action does nothing now; `None` where a list or time ends, which is seen.
fn reason(asked: Action, view: &View, scene: &Scene) -> Option<String> {
    if asked.reach() == ActionReach::Moves {
        return None;
    }
    let has_run = scene.state.run().is_some();
    let has_chart = arranged(view, scene).chart().is_some();
    let has_device = !scene.state.devices.is_empty();
    let of_chart = match (has_chart, has_device) {
        (false, _) => "no chart is on the screen",
        (true, _) => NO_GPU,
    };
    let words = match asked {
        Action::ShowPane(number) => return Some(of_pane(number, view, scene)),
        Action::NextDevice | Action::PreviousDevice if has_device => "there is one GPU",
        Action::NextDevice | Action::PreviousDevice => NO_GPU,
        Action::Step(StepMove::WhatLeaks) | Action::OpenLeak => of_growth(view),
        Action::Step(step) => of_step(step, view, scene),
        Action::NextStandout => "there are no ranks to compare",
        Action::Compare if has_chart => "this is the first run: there is none to compare it with",
        Action::Compare | Action::Time(_) | Action::OtherHeight => of_chart,
        Action::OpenOom => "memory has not run out",
        Action::OpenFailedStep => "which lines held the memory is not known",
        Action::SearchOlder | Action::SearchNewer | Action::EndSearch => NO_SEARCH,
        Action::Search | Action::Select => match scene.has_output() {
            true => NO_RUN,
            false => "the program's output is not beside the recording",
        },
        Action::Copy => NO_RUN,
        Action::EditCommand
        | Action::Relaunch
        | Action::RelaunchUnchanged
        | Action::StopAndRelaunch
        | Action::Combine => match scene.subject {
            Subject::Elsewhere(_) => ONLY_WATCHED,
            Subject::Recording(_) => STARTED_FROM_HERE,
            Subject::Own => scene.waiting.unwrap_or(NO_RUN),
        },
        Action::TypeToTraining | Action::AskToStop | Action::Stop | Action::Kill => {
            match scene.subject {
                Subject::Elsewhere(_) => ONLY_WATCHED,
                Subject::Recording(_) => "this is a recording: nothing runs",
                Subject::Own if has_run => "the program has ended",
                Subject::Own => NO_RUN,
            }
        }
        Action::SaveSnapshot => "PyTorch can only be asked while the program uses the GPU here",
        Action::PlayOrPause | Action::Faster | Action::Slower | Action::Seek(_) => {
            "only a recording is played: this session is live"
        }
        // They always do something, or only move.
        Action::NextPane
        | Action::PreviousPane
        | Action::MaximizePane
        | Action::MaximizeChart
        | Action::OpenStep
        | Action::Suspend
        | Action::Redraw
        | Action::Help
        | Action::Quit
        | Action::Mouse
        | Action::NextTheme
        | Action::Details
        | Action::NextSection
        | Action::Interrupt
        | Action::Back
        | Action::KeepSearch
        | Action::WriteReport
        | Action::QuitAndStop
        | Action::QuitAndLeave
        | Action::Up
        | Action::Down
        | Action::PageUp
        | Action::PageDown
        | Action::ToStart
        | Action::ToEnd
        | Action::Flame(_) => return None,
    };
    Some(words.into())
}

/// Of the key of a pane that has no tab.
fn of_pane(number: u8, view: &View, scene: &Scene) -> String {
    let layout = layout_of(view, scene);
    let Some(pane) = Pane::below().find(|pane| pane.number() == number) else {
        return format!("there is no pane {number}");
    };
    let title = pane.spec().title;
    match (layout.place(pane), layout.chart()) {
        (Some(place), Some(chart)) if place.x > chart.x => {
            format!("the pane {title} is on the right already")
        }
        (Some(_), _) => format!("the pane {title} is on the screen already"),
        (None, _) => format!("there is nothing to show of {title} yet"),
    }
}

fn of_growth(view: &View) -> &'static str {
    match view.step {
        Some(_) => "what grows is shown already",
        None => NO_RUN,
    }
}

fn of_step(step: StepMove, view: &View, scene: &Scene) -> &'static str {
    let is_failed = matches!(view.step, Some(StepView::Failed(_)));
    let is_untraced = is_failed && choice::is_traced(view, scene);
    match step {
        StepMove::Reorder | StepMove::OpenRow if is_untraced => {
            "this step was not traced: m opens the newest that was"
        }
        StepMove::PreviousStep | StepMove::FirstStep => "no step before this one was traced",
        StepMove::NextStep => "no step after this one was traced",
        StepMove::LargestStep => "no traced step has a higher peak",
        StepMove::Newest => "this is the newest traced step",
        StepMove::FailedStep => "no other step ran out of memory",
        StepMove::EditLine => "no line stands at the pointer",
        StepMove::Regroup | StepMove::Reorder | StepMove::OpenRow => "no step was traced",
        StepMove::WhatLeaks => "what grows is shown already",
        StepMove::Back
        | StepMove::Forward
        | StepMove::EventBack
        | StepMove::EventForward
        | StepMove::ToStart
        | StepMove::ToEnd
        | StepMove::ToPeak => "no step's curve is shown: m goes to the lines of one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use crate::ui::available::is_available;
    use crate::ui::theme::Theme;

    fn press(c: char) -> KeyEvent {
        Key::plain(c).event()
    }

    #[test]
    fn a_remedys_letter_says_where_it_is_a_key() {
        let said = |has_dialog| nowhere(InputMode::Watching, &press('b'), has_dialog);
        assert_eq!(
            said(true).expect("words"),
            "b (smaller batch) is a key of the dialog: o opens it"
        );
        assert_eq!(
            said(false).expect("words"),
            "b (smaller batch) is a key of the dialog that opens when memory runs out"
        );
        assert_eq!(
            nowhere(InputMode::Step, &press('b'), true).expect("words"),
            "b does nothing here; ? lists the keys"
        );
        assert_eq!(
            nowhere(InputMode::Watching, &Key::code(KeyCode::F(7)).event(), true),
            None
        );
    }

    #[test]
    fn a_key_that_has_nothing_to_do_says_what_is_so() {
        let state = State::default();
        let view = View::new(Theme::full(), 100, 30);
        let said = |c| not_now(&view, &press(c), &Scene::of(&state));
        for (key, words) in [
            ('K', "K: nothing has run yet"),
            ('w', "w: nothing has run yet"),
            ('o', "o: memory has not run out"),
            ('8', "8: there is nothing to show of RAM yet"),
            (']', "]: no GPU is known yet"),
            ('>', ">: only a recording is played: this session is live"),
        ] {
            assert_eq!(said(key).as_deref(), Some(words));
        }
        assert_eq!(said('j'), None, "the end of a list is seen");
        assert_eq!(said('+'), None, "and that of time");
    }

    /// Of every key that may be refused something is said.
    #[test]
    fn no_refusal_is_a_help_text() {
        let state = State::default();
        let view = View::new(Theme::full(), 100, 30);
        let scene = Scene::of(&state);
        for binding in keymap::bindings(InputMode::Watching) {
            let is_refused = !is_available(&view, binding.action, &scene);
            let words = reason(binding.action, &view, &scene);
            if is_refused && binding.action.reach() != ActionReach::Moves {
                let words = words.expect("a sentence");
                assert!(!words.contains(binding.help), "{words}");
            }
        }
    }
}
