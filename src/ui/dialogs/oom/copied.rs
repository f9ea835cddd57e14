//! What `y` copies: the diagnosis as a Markdown paragraph for an issue or a colleague, then the next
//! command alone.

use super::offers::need;
use super::title;
use crate::diagnosis::{AmongRanks, Finding};
use crate::event::NvmlState;
use crate::remedy::Remedy;
use crate::state::{OomIncident, Run};
use crate::ui::dialog::OomDialog;
use crate::ui::scene::Scene;

/// Lines of the program that are named.
const LINES: usize = 3;

/// Command, versions, GPU, cause, figures, lines, remedy.
pub(crate) fn markdown(dialog: &OomDialog, scene: &Scene) -> String {
    let run = scene.state.run_numbered(dialog.run);
    let oom = run.and_then(|run| run.oom().or(run.ooms.last()));
    let mut items = Vec::new();
    items.extend(run.map(|run| format!("Command: {}", code(&run.shown))));
    items.extend(run.map(|run| format!("On: {}", versions(scene, run, oom))));
    for finding in scene.findings.iter().take(1) {
        items.push(cause(finding));
        items.extend(finding.ranks.iter().flat_map(AmongRanks::sentences));
        let figures = finding.evidence.iter();
        let figures: Vec<String> = figures
            .map(|one| format!("{} {}", one.what, one.bytes))
            .collect();
        let figures = Some(figures.join(", ")).filter(|figures| !figures.is_empty());
        items.extend(figures.map(|figures| format!("Figures: {figures}")));
    }
    let record = oom.and_then(|oom| oom.record.as_ref());
    for held in record
        .iter()
        .flat_map(|record| record.lines.iter().take(LINES))
    {
        let path = held.line.path_to(held.inside.as_ref(), "→");
        let (bytes, blocks) = (held.bytes, held.blocks);
        let text = run.and_then(|run| run.source.of(&held.line));
        let text = text.map_or(String::new(), |text| format!(", {},", code(text)));
        items.push(format!(
            "{}{text} allocated {bytes} that is still live, in {blocks} blocks",
            code(&path)
        ));
    }
    items.extend(remedy(dialog, scene));
    let title = title::parts(scene, dialog.run).join(", ");
    let items: Vec<String> = items.iter().map(|item| format!("- {item}\n")).collect();
    format!("**{title}**\n\n{}", items.concat())
}

/// The command that Enter would run.
pub(crate) fn command(dialog: &OomDialog, scene: &Scene) -> Option<String> {
    let command = (scene.plan)(&dialog.to_show(scene))?;
    Some(command.shown())
}

fn code(text: &str) -> String {
    // A backtick would end it.
    format!("`{}`", text.replace('`', "'"))
}

fn versions(scene: &Scene, run: &Run, oom: Option<&OomIncident>) -> String {
    let state = scene.state;
    let rank = oom.and_then(|oom| run.rank_of(oom)).or(run.ranks.first());
    let uuid = oom.and_then(|oom| oom.device.as_ref());
    let device = uuid
        .and_then(|uuid| state.device(uuid))
        .or(state.devices.first());
    let mut parts = Vec::new();
    if let Some(device) = device {
        let capacity = device.capacity.map(|bytes| format!(" ({bytes})"));
        parts.push(format!("{}{}", device.name, capacity.unwrap_or_default()));
    }
    if let Some(rank) = rank {
        parts.push(format!("torch {}", rank.hello.torch));
        parts.push(format!("Python {}", rank.hello.python));
    }
    if let Some(NvmlState::Live { driver, .. }) = &state.nvml {
        parts.push(format!("driver {driver}"));
    }
    parts.extend(
        state
            .session
            .as_ref()
            .map(|session| format!("oomph {}", session.version)),
    );
    parts.join(", ")
}

fn cause(finding: &Finding) -> String {
    let certainty = finding.certainty.word();
    let title = finding.cause.spec().title;
    let words = format!("{} {}", finding.headline, finding.explanation);
    let in_code = finding.place.is_some().then(|| finding.in_code()).flatten();
    let in_code = in_code.map_or(String::new(), |what| format!(" In the code: {what}."));
    format!(
        "Cause ({certainty}): {title}. {}{in_code}",
        words.trim_end()
    )
}

/// The remedies that Enter would apply.
fn remedy(dialog: &OomDialog, scene: &Scene) -> Option<String> {
    let show = dialog.to_show(scene);
    let chosen = scene
        .remedies
        .iter()
        .filter(|remedy| show.contains(&remedy.id));
    let chosen: Vec<String> = chosen.map(one_remedy).collect();
    let next = command(dialog, scene).filter(|_| !chosen.is_empty())?;
    Some(format!("Remedy: {}: {}", chosen.join(" and "), code(&next)))
}

fn one_remedy(remedy: &Remedy) -> String {
    let verdict = remedy.expectation.verdict().words();
    let need = need(&remedy.expectation);
    let parts = [need.as_str(), verdict, &remedy.numerics()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{} ({})", remedy.title, parts.join(", "))
}
