//! What follows from the selection: its expected effect and cost, the next command as a diff, and
//! what happens until something is chosen.

use super::Page;
use super::offers::{self, need, tone_of};
use crate::diagnosis::Phrase;
use crate::remedy::{Availability, Remedy};
use crate::state::RunOutcome;
use crate::ui::dialog::{Details, OomDialog};
use crate::ui::difference;
use crate::ui::paragraph::StyledLine;
use crate::ui::scene::{Scene, Subject};
use crate::ui::theme::Tone;

/// From this width on the whole command is shown, below it only the changes.
const WIDTH_FOR_WHOLE: u16 = 60;

/// Where no row is selected.
const NONE_RECOMMENDED: &str = "no remedy is sure to fit: press a remedy's key, or select one";

/// Text in one tone.
type TonedText = (String, Tone);

/// What is expected of the selected remedy, or of each combined one: first as a whole, then with ever
/// fewer of its clauses.
pub(super) fn expected(page: Page) -> Vec<Vec<StyledLine>> {
    let Page { scene, dialog, .. } = page;
    let chosen = dialog.chosen.iter();
    let together: Vec<&Remedy> = chosen
        .filter_map(|id| scene.remedies.iter().find(|remedy| remedy.id == *id))
        .collect();
    let whole = match (&together[..], dialog.remedy(scene)) {
        ([_, _, ..], _) => each(page, &together),
        ([one], _) => return of_one(page, one),
        ([], Some(selected)) => return of_one(page, selected),
        ([], None) if is_code_next(scene) => return in_code(page),
        ([], None) => page.labelled("expected", vec![(NONE_RECOMMENDED.into(), Tone::Warning)]),
    };
    Vec::from_iter((!whole.is_empty()).then_some(whole))
}

/// Whether there is no remedy to choose, or none that may help.
fn is_code_next(scene: &Scene) -> bool {
    let is_offered = scene.remedies.iter().any(Remedy::is_offered);
    !is_offered || OomDialog::leads_with_code(scene)
}

/// What is to be changed in the code, if its row has no room for it: as a whole, without its reason,
/// without the line that the row has.
fn in_code(page: Page) -> Vec<Vec<StyledLine>> {
    let Some(finding) = page.scene.findings.first() else {
        return Vec::new();
    };
    let words = finding.in_code();
    let Some(words) = words.filter(|words| !offers::has_room_for_code(page, words)) else {
        return Vec::new();
    };
    let of = |words: &str| {
        let words = page.theme.glyphs.spelled(words);
        page.labelled("change", vec![(words, Tone::Good)])
    };
    let advice = finding.advice.first().filter(|_| finding.place.is_some());
    let of_advice = advice.into_iter().flat_map(every_length);
    every_length(&words).chain(of_advice).map(of).collect()
}

/// Words as a whole, then with ever less of them.
fn every_length(words: &Phrase) -> impl Iterator<Item = &str> {
    std::iter::once(words.as_str()).chain(words.shorter())
}

fn of_one(page: Page, remedy: &Remedy) -> Vec<Vec<StyledLine>> {
    let glyphs = page.theme.glyphs;
    if let Availability::NotOffered(reason) = &remedy.availability {
        let reason = (glyphs.spelled(reason), Tone::Text);
        return vec![page.labelled("why not", vec![reason])];
    }
    let tone = tone_of(remedy.expectation.verdict());
    let mut title = Vec::new();
    if offers::cuts_title(page, remedy) {
        title.push((format!("{}: ", remedy.title), Tone::Strong));
    }
    let clauses = clauses(page, remedy, tone);
    let of_first = |count: usize| {
        let mut parts = title.clone();
        for (n, (before, clause)) in clauses[..count].iter().enumerate() {
            parts.extend((n > 0).then(|| before.clone()));
            parts.push(clause.clone());
        }
        page.labelled("expected", parts)
    };
    (1..=clauses.len()).rev().map(of_first).collect()
}

/// What is expected and what it costs, clause by clause, each behind what parts it from the one
/// before.
fn clauses(page: Page, remedy: &Remedy, tone: Tone) -> Vec<(TonedText, TonedText)> {
    let glyphs = page.theme.glyphs;
    let words = [
        (&remedy.expectation.words, tone),
        (&remedy.cost, Tone::Text),
    ];
    let mut clauses = Vec::new();
    for (words, tone) in words.iter().filter(|(words, _)| !words.is_empty()) {
        for (n, part) in words.parts().enumerate() {
            let before = match n {
                0 => (glyphs.separator.to_string(), Tone::Dim),
                _ => (String::new(), *tone),
            };
            clauses.push((before, (glyphs.spelled(part), *tone)));
        }
    }
    clauses
}

/// There is no prediction for a combination: each remedy is told on its own, and that is said.
fn each(page: Page, together: &[&Remedy]) -> Vec<StyledLine> {
    let mut parts = Vec::new();
    for remedy in together {
        let verdict = remedy.expectation.verdict();
        let words = format!("{} {}, ", need(&remedy.expectation), verdict.words());
        let tone = tone_of(verdict);
        parts.push((format!("{} ", remedy.title), Tone::Text));
        parts.push((page.theme.glyphs.spelled(words.trim_start()), tone));
    }
    parts.push(("each on its own".into(), Tone::Dim));
    page.labelled("expected", parts)
}

pub(super) fn command(page: Page) -> Vec<StyledLine> {
    let Page {
        theme,
        scene,
        dialog,
        width,
    } = page;
    let show = dialog.to_show(scene);
    if show.is_empty() {
        return Vec::new();
    }
    let label = match dialog.to_apply(scene).is_empty() {
        true => "y copies",
        false => "next run",
    };
    match ((scene.plan)(&[]), (scene.plan)(&show)) {
        (Some(now), Some(next)) => {
            let pieces = if width < WIDTH_FOR_WHOLE {
                let (now, next) = (now.without_secrets(), next.without_secrets());
                let changes = crate::command::difference(&now, &next);
                difference::brief(theme, Some(&now), &changes)
            } else {
                difference::whole(theme, &now, &next)
            };
            let parts = pieces.into_iter().flat_map(|word| {
                let tone = word.kind.tone();
                [(word.text, tone), (String::from(" "), Tone::Text)]
            });
            page.labelled(label, parts.collect())
        }
        (_, None) => vec![StyledLine::of("these cannot be combined", Tone::Warning)],
        (None, Some(_)) => Vec::new(),
    }
}

/// What the details have that the brief dialog has not.
fn behind(page: Page) -> String {
    match (page.dialog.details, offers::hidden(page)) {
        (Details::Full { .. }, _) => String::new(),
        (Details::Brief, 0) => format!("{}d: the evidence", page.theme.glyphs.separator),
        (Details::Brief, hidden) => {
            let separator = page.theme.glyphs.separator;
            format!("{separator}d: the evidence, {hidden} not offered")
        }
    }
}

/// What happens until a key is pressed.
pub(super) fn meanwhile(page: Page) -> Vec<StyledLine> {
    let scene = page.scene;
    if let Some(waiting) = scene.waiting {
        return page.labelled("waiting", vec![(waiting.to_string(), Tone::Accent)]);
    }
    let run = match (scene.subject, scene.state.run()) {
        (Subject::Own, Some(run)) => run,
        (Subject::Elsewhere(session), _) => {
            let words = format!(
                "to choose what follows: {}{}",
                session.command,
                behind(page)
            );
            return page.labelled("now", vec![(words, Tone::Dim)]);
        }
        (Subject::Own, None) | (Subject::Recording(_), _) => return Vec::new(),
    };
    let words = match run.outcome() {
        RunOutcome::Running => format!(
            "run {} keeps running; a relaunch stops it first",
            run.number
        ),
        RunOutcome::OutOfMemory
        | RunOutcome::Finished
        | RunOutcome::TrainedNothing
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => {
            format!("nothing runs until you choose{}", of_device(scene))
        }
    };
    let words = format!("{words}{}", behind(page));
    page.labelled("now", vec![(words, Tone::Dim)])
}

/// How much of the device is in use since the run ended, if NVML says it.
fn of_device(scene: &Scene) -> String {
    let state = scene.state;
    let oom = state.oom().and_then(|oom| oom.device.as_ref());
    let device = oom.and_then(|uuid| state.device(uuid));
    let ended = state.run().and_then(|run| Some(run.ended?.0));
    let since = device.zip(ended).and_then(|(device, ended)| {
        let (at, reading) = device.reading.as_ref()?;
        let used = reading.used.filter(|_| *at > ended)?;
        let of = device.capacity.map(|all| format!(" of {all}"));
        let of = of.unwrap_or_default();
        Some(format!("; {used}{of} in use on {}", device.label()))
    });
    since.unwrap_or_default()
}
