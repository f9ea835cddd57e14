//! What is expected of the selected remedy or of several together, and what it costs: as a whole, and with ever fewer of its
//! clauses where there is less room.

use super::Page;
use super::remedies::{cuts_title, has_room_for_code, later_run, need, tone_of};
use crate::diagnosis::Phrase;
use crate::remedy::{Availability, FitVerdict, Remedy, RemedyId};
use crate::ui::canvas::StyledLine;
use crate::ui::dialog::OomDialog;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;

/// Where no row is selected.
const NONE_RECOMMENDED: &str = "no remedy is sure to fit: press a remedy's key, or select one";

/// Where no row is selected, and several numbers may be the batch.
const WHICH_BATCH: &str = "not sure which number sets the batch: press its key, or select one";

/// Where the recommended remedy is one of which nothing is known.
const GUESS: &str =
    "worth a try: no remedy is known to fit, and if this one runs out you are asked again";

/// How an expectation begins that says what is needed.
const NEEDS: &str = "needs ";

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
        ([_, _, ..], _) => combined(page, &together),
        ([one], _) => return of_one(page, one),
        ([], Some(selected)) => return of_one(page, selected),
        ([], None) if is_code_next(scene) => return in_code(page),
        // That has been tried.
        ([], None) if later_run(scene).is_some_and(|later| later.ran.is_some()) => Vec::new(),
        ([], None) => {
            let mut offered = scene.remedies.iter().filter(|remedy| remedy.is_offered());
            let words = match offered.any(|remedy| remedy.id.is_candidate()) {
                true => WHICH_BATCH,
                false => NONE_RECOMMENDED,
            };
            page.labelled("expected", vec![(words.into(), Tone::Warning)])
        }
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
    let Some(finding) = page.findings().first() else {
        return Vec::new();
    };
    let words = finding.in_code();
    let Some(words) = words.filter(|words| !has_room_for_code(page, words)) else {
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
    if cuts_title(page, remedy) {
        title.push((format!("{}: ", remedy.title), Tone::Strong));
    }
    let mut clauses = clauses(page, remedy, tone);
    if let (Some(takes), Some((_, (words, _)))) = (remedy.takes, clauses.first_mut())
        && words.starts_with(NEEDS)
    {
        // Beside what is allocated now stands what would be.
        words.insert_str(0, &format!("batch {} ", takes.at_once));
    }
    if page.dialog.is_guess(page.scene) {
        let why = (GUESS.to_string(), Tone::Warning);
        clauses.insert(0, ((String::new(), tone), why));
    }
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

/// What a combination is expected to need, once that was worked out: what is recorded as its prediction.
fn combined(page: Page, together: &[&Remedy]) -> Vec<StyledLine> {
    let ids: Vec<RemedyId> = together.iter().map(|remedy| remedy.id).collect();
    let planned = page.scene.planned(&ids);
    let said = (page.scene.edited).filter(|need| Some(&need.command) == planned.as_ref());
    match said.map(|need| &need.need) {
        Some(Ok(need)) if !need.words.is_empty() => {
            let tone = tone_of(need.verdict());
            let words = page.theme.glyphs.spelled(&need.words);
            let mut parts = Vec::new();
            if let Some(alone) = enough_alone(together) {
                parts.push((format!("{alone}; "), Tone::Text));
            }
            parts.extend([("together: ".into(), Tone::Dim), (words, tone)]);
            page.labelled("expected", parts)
        }
        _ => each(page, together),
    }
}

/// That one of them would do: what is combined with it changes the training, or slows it, for nothing. Of several that would, the one
/// that changes the training least.
fn enough_alone(together: &[&Remedy]) -> Option<String> {
    let of = |verdict: FitVerdict| {
        let those = together
            .iter()
            .filter(move |remedy| remedy.expectation.verdict() == verdict);
        those.min_by_key(|remedy| remedy.alters)
    };
    let fits = of(FitVerdict::Fits).map(|remedy| format!("{} alone would do", remedy.title));
    fits.or_else(|| {
        let remedy = of(FitVerdict::LikelyFits)?;
        Some(format!("{} alone likely fits", remedy.title))
    })
}

/// Where nothing is known of a combination yet: each remedy is told on its own, and that is said.
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
