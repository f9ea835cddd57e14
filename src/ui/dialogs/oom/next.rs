//! What follows from the selection: its expected effect and cost, the next command as a diff, and
//! what happens until something is chosen.

use super::Page;
use super::offers::{self, need, verdict};
use crate::diagnosis::Finding;
use crate::remedy::{Availability, Remedy};
use crate::state::RunOutcome;
use crate::ui::dialog::Details;
use crate::ui::difference;
use crate::ui::paragraph::{self, StyledLine};
use crate::ui::pen::columns;
use crate::ui::scene::{Scene, Subject};
use crate::ui::theme::Tone;

/// From this width on the whole command is shown, below it only the changes.
const WIDTH_FOR_WHOLE: u16 = 60;

/// Lines of the expected effect, at most.
const EXPECTED: usize = 3;

/// The lines, the least important last.
pub(super) fn lines(page: Page) -> Vec<StyledLine> {
    let mut lines = expected(page);
    lines.extend(command(page));
    lines.extend(meanwhile(page));
    lines
}

/// What is expected of the selected remedy, or of each combined one.
fn expected(page: Page) -> Vec<StyledLine> {
    let Page { scene, dialog, .. } = page;
    let chosen = dialog.chosen.iter();
    let together: Vec<&Remedy> = chosen
        .filter_map(|id| scene.remedies.iter().find(|remedy| remedy.id == *id))
        .collect();
    let mut lines = match (&together[..], dialog.remedy(scene.remedies)) {
        ([_, _, ..], _) => each(page, &together),
        ([one], _) => of_one(page, one),
        ([], Some(selected)) => of_one(page, selected),
        ([], None) => in_code(page),
    };
    paragraph::shorten(&mut lines, EXPECTED, page.theme, page.width);
    lines
}

/// What is to be changed in the code, if its row cuts it.
fn in_code(page: Page) -> Vec<StyledLine> {
    let words = page.scene.findings.first().and_then(Finding::in_code);
    let cut = words.filter(|words| columns(words) + offers::CODE > page.width);
    cut.map_or_else(Vec::new, |words| {
        let words = page.theme.glyphs.spelled(&words);
        paragraph::labelled("change    ", &[(words, Tone::Good)], page.width)
    })
}

fn of_one(page: Page, remedy: &Remedy) -> Vec<StyledLine> {
    let (glyphs, width) = (page.theme.glyphs, page.width);
    if let Availability::NotOffered(reason) = &remedy.availability {
        return paragraph::labelled("why not   ", &[(glyphs.spelled(reason), Tone::Text)], width);
    }
    let (_, tone) = verdict(page.scene, &remedy.expectation);
    let mut parts = Vec::new();
    if offers::cuts_title(page, remedy) {
        parts.push((format!("{}: ", remedy.title), Tone::Strong));
    }
    let titled = parts.len();
    for (words, tone) in [
        (&remedy.expectation.words, tone),
        (&remedy.cost, Tone::Text),
    ] {
        if words.is_empty() {
            continue;
        }
        if parts.len() > titled {
            parts.push((glyphs.separator.to_string(), Tone::Dim));
        }
        parts.push((glyphs.spelled(words), tone));
    }
    if parts.is_empty() {
        return Vec::new();
    }
    paragraph::labelled("expected  ", &parts, width)
}

/// There is no prediction for a combination: each remedy is told on its own, and that is said.
fn each(page: Page, together: &[&Remedy]) -> Vec<StyledLine> {
    let mut parts = Vec::new();
    for remedy in together {
        let (words, tone) = verdict(page.scene, &remedy.expectation);
        let words = format!("{} {words}, ", need(&remedy.expectation));
        parts.push((format!("{} ", remedy.title), Tone::Text));
        parts.push((page.theme.glyphs.spelled(words.trim_start()), tone));
    }
    parts.push(("each on its own".into(), Tone::Dim));
    paragraph::labelled("expected  ", &parts, page.width)
}

fn command(page: Page) -> Vec<StyledLine> {
    let Page {
        theme,
        scene,
        dialog,
        width,
    } = page;
    let show = dialog.to_show(scene.remedies);
    if show.is_empty() {
        return Vec::new();
    }
    let label = if dialog.to_apply(scene.remedies).is_empty() {
        "y copies  "
    } else {
        "next run  "
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
            paragraph::difference(label, &pieces, width)
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
fn meanwhile(page: Page) -> Vec<StyledLine> {
    let Page { scene, width, .. } = page;
    if let Some(waiting) = scene.waiting {
        return paragraph::labelled("waiting   ", &[(waiting.to_string(), Tone::Accent)], width);
    }
    let run = match (scene.subject, scene.state.run()) {
        (Subject::Own, Some(run)) => run,
        (Subject::Elsewhere(session), _) => {
            let words = format!(
                "to choose what follows: {}{}",
                session.command,
                behind(page)
            );
            return paragraph::labelled("now       ", &[(words, Tone::Dim)], width);
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
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => {
            format!("nothing runs until you choose{}", of_device(scene))
        }
    };
    let words = format!("{words}{}", behind(page));
    paragraph::labelled("now       ", &[(words, Tone::Dim)], width)
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
