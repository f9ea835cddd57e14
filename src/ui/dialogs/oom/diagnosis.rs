//! The diagnosis in the dialog, brief or with all its evidence, and as it is copied. No sentence is cut: what
//! has no room is left out whole, and that is said.

use super::remedies::{need, unexplained};
use super::{Page, blocks, title_parts};
use crate::anatomy::StepAnatomy;
use crate::diagnosis::{Cause, EarlierSearch, Finding, Phrase, RequestPlace};
use crate::document::markdown::{code, markdown as list};
use crate::document::{
    self, DocumentBlock, Figure, FigureSum, MemoryHolder, Relaunch, SumOf, Tree,
};
use crate::event::{NvmlState, Retainers, SourceLine, as_typed};
use crate::remedy::Remedy;
use crate::state::{OomIncident, Run};
use crate::ui::canvas::StyledLine;
use crate::ui::dialog::OomDialog;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::units::Bytes;

/// Lines of the program that are named in what is copied.
const LINES: usize = 3;

/// The cause in one sentence; in so many lines, the sums that belong to it are left to the details.
pub(super) fn cause(page: Page, most: usize) -> Vec<StyledLine> {
    let words = match page.findings().first() {
        Some(finding) => finding.headline.clone(),
        None => no_cause(),
    };
    let Some(undone) = page.scene.undone else {
        return within(page, &words, Tone::Strong, most);
    };
    // What the dialog opened for comes first; the cause is that of an earlier run.
    let mut lines = blocks::text(page, &undone.words(), Tone::Strong);
    let mut runs = page.scene.state.runs.iter().rev();
    if let Some(run) = runs.find(|run| run.explained_oom().is_some()) {
        let most = most.saturating_sub(lines.len());
        let words = words.behind(&format!("Run {} ran out of memory. ", run.number));
        lines.extend(within(page, &words, Tone::Text, most));
    }
    lines
}

/// Words as a whole, or the shortest of them where they need more lines.
fn within(page: Page, words: &Phrase, tone: Tone, most: usize) -> Vec<StyledLine> {
    let whole = blocks::text(page, words, tone);
    let shortest = words.shortest();
    match whole.len() > most && shortest.len() < words.len() {
        true => blocks::text(page, &format!("{shortest}."), tone),
        false => whole,
    }
}

fn no_cause() -> Phrase {
    "Out of memory; the numbers do not show why.".into()
}

/// What stands below the cause: what is said of the ranks, and who keeps the memory alive, or else
/// the line with the most memory.
pub(super) fn below(page: Page) -> Vec<Vec<StyledLine>> {
    let finding = page.findings().first();
    // Which ran out, and whether it is its own need: what followed is left to the details.
    let needs = finding.and_then(|finding| finding.ranks.as_ref()?.whose());
    let ranks: Vec<DocumentBlock> = finding
        .into_iter()
        .flat_map(document::ranks)
        .take(1 + usize::from(needs.is_some()))
        .collect();
    let mut paragraphs = vec![blocks::lines(page, &ranks)];
    let kept = finding.and_then(|finding| Some((finding, finding.retainer.as_ref()?)));
    if let Some((finding, retainer)) = kept {
        let found = retainers(page.scene).filter(|found| found.main() == Some(retainer));
        let earlier = finding.kept_earlier.or_else(|| {
            let step = long_before(page.scene, found?)?;
            Some(EarlierSearch { step, leak: None })
        });
        paragraphs.push(blocks::kept_alive(page, retainer, earlier));
    } else {
        let mut largest = largest_lines(page.scene, 1);
        document::leave_out_source(&mut largest);
        let line = largest.iter().find_map(|block| match block {
            DocumentBlock::Tree(Tree::Lines(lines)) => lines.first(),
            _ => None,
        });
        match finding.and_then(|finding| asked(finding, line)) {
            Some((request, Beside::Largest)) => {
                paragraphs.push(blocks::request(page, request, None));
                paragraphs.push(blocks::lines(page, &largest));
            }
            Some((request, Beside::Nothing)) => {
                paragraphs.push(blocks::request(page, request, None));
            }
            Some((request, Beside::ItsOwn)) => {
                paragraphs.push(blocks::request(page, request, line));
            }
            None => paragraphs.push(blocks::lines(page, &largest)),
        }
    }
    paragraphs
}

/// What stands beside the request that failed.
enum Beside {
    /// The line with the most memory.
    Largest,
    /// What the requesting line has, which has the most.
    ItsOwn,
    Nothing,
}

/// The request that failed, where it says more than the line with the most memory: below a limit there is no full GPU that would
/// explain it, and a single request may be more than all that a line has.
fn asked<'f>(
    finding: &'f Finding,
    largest: Option<&MemoryHolder>,
) -> Option<(&'f (Bytes, RequestPlace), Beside)> {
    let request = finding.request.as_ref()?;
    let (bytes, asking) = request;
    match largest {
        Some(line) if *bytes > line.bytes => Some((request, Beside::Nothing)),
        _ if finding.cause != Cause::Limit => None,
        Some(line) if line.place == asking.own => Some((request, Beside::ItsOwn)),
        Some(_) => Some((request, Beside::Largest)),
        None => Some((request, Beside::Nothing)),
    }
}

/// All that is known, and at which lines its sections begin, with their headings.
pub(super) fn full(page: Page) -> (Vec<StyledLine>, Vec<(usize, String)>) {
    let mut lines = Vec::new();
    let mut sections = Vec::new();
    for section in evidence(page).chunk_by(|_, next| !matches!(next, DocumentBlock::Heading(_))) {
        if let Some(DocumentBlock::Heading(heading)) = section.first() {
            sections.push((lines.len(), heading.words.clone()));
        }
        lines.extend(blocks::lines(page, section));
    }
    (lines, sections)
}

/// The step after which a search was done, where that was well before memory ran out.
fn long_before(scene: &Scene, found: &Retainers) -> Option<u64> {
    let record = incident(scene)?.record.as_ref()?;
    (found.step + 1 < record.step).then_some(found.step)
}

/// All that is known of the OOM.
fn evidence(page: Page) -> Vec<DocumentBlock> {
    let scene = page.scene;
    let findings = page.findings();
    let mut all = match findings.first() {
        Some(finding) => {
            let finding = document::beside_remedies(finding, scene.remedies);
            document::finding(&finding, true)
        }
        None => vec![DocumentBlock::heading(no_cause().as_str())],
    };
    if findings.is_empty() {
        all.extend(incident(scene).map(|oom| DocumentBlock::Table(figures(oom))));
    }
    let others = findings.iter().skip(1);
    all.extend(others.map(|other| document::headline(other, false)));
    let categories = &page.dialog.categories;
    if !categories.is_empty() {
        let of = categories.iter();
        all.push(DocumentBlock::heading(
            "what the step held when memory ran out (S: all of it)",
        ));
        all.push(DocumentBlock::FigureSum(FigureSum {
            of: SumOf::Parts,
            figures: of
                .map(|(category, bytes)| Figure::new(category.title(), bytes))
                .collect(),
        }));
    }
    if let Some(found) = retainers(scene) {
        let then = long_before(scene, found).map(|step| format!("kept alive after step {step} by"));
        let heading = then.as_deref().unwrap_or("kept alive by");
        all.extend(document::kept_alive(found, heading));
    }
    if let (Some(run), Some(oom)) = (scene.state.run(), incident(scene)) {
        let held = document::lines_of(oom, &run.source);
        let leaked = page.findings().iter().find_map(|finding| finding.leaked);
        let held = document::told_apart(held, oom, leaked, &page.dialog.made);
        if !held.is_empty() {
            let heading = document::lines_heading("lines with the most live memory", oom);
            all.extend([heading, DocumentBlock::Tree(Tree::Lines(held))]);
        }
    }
    let record = incident(scene).and_then(|oom| oom.record.as_ref());
    if let Some(record) = record.filter(|record| !record.stack.is_empty()) {
        all.push(DocumentBlock::heading("where the allocation failed"));
        all.push(DocumentBlock::Tree(Tree::Stack(from_own_line(
            &record.stack,
        ))));
    }
    let mut refused = document::refused(unexplained(page)).peekable();
    if refused.peek().is_some() {
        all.push(DocumentBlock::heading("what is not offered, and why"));
        all.extend(refused);
    }
    all
}

/// The program's own line first, and what called it: what it calls is a library's.
fn from_own_line(stack: &[SourceLine]) -> Vec<SourceLine> {
    let own = stack.iter().position(|line| !line.is_librarys());
    stack[own.unwrap_or(0)..].to_vec()
}

fn incident<'a>(scene: &Scene<'a>) -> Option<&'a OomIncident> {
    let run = scene.state.run()?;
    run.explained_oom()
}

fn largest_lines(scene: &Scene, most: usize) -> Vec<DocumentBlock> {
    match (scene.state.run(), incident(scene)) {
        (Some(run), Some(oom)) => {
            let leaked = scene.findings.iter().find_map(|finding| finding.leaked);
            lines_or_of_step(run, oom, most, leaked)
        }
        (_, _) => Vec::new(),
    }
}

fn lines_or_of_step(
    run: &Run,
    oom: &OomIncident,
    most: usize,
    leaked: Option<Bytes>,
) -> Vec<DocumentBlock> {
    let rank = run.rank_of(oom);
    let step = rank.and_then(|rank| StepAnatomy::of_oom(&rank.traces));
    document::largest_lines_or_of_step(oom, &run.source, most, step.as_ref(), leaked)
}

fn retainers<'a>(scene: &Scene<'a>) -> Option<&'a Retainers> {
    let run = scene.state.run()?;
    let rank = run.rank_of(incident(scene)?)?;
    rank.retainers.as_ref().map(|(_, found)| found)
}

/// The OOM's own figures, for when there is no finding.
fn figures(oom: &OomIncident) -> Vec<Figure> {
    let known = [
        ("requested", oom.requested()),
        ("allocated", oom.allocated()),
        ("reserved", oom.reserved()),
        ("free on the GPU", oom.free()),
        ("capacity", oom.capacity()),
        ("limit", oom.limit()),
    ]
    .into_iter();
    known
        .filter_map(|(name, bytes)| Some(Figure::new(name, bytes?)))
        .collect()
}

/// What `y` copies first: command, versions, GPU, cause, figures, lines, remedy.
pub(crate) fn markdown(dialog: &OomDialog, scene: &Scene) -> String {
    let run = scene.state.run_numbered(dialog.run);
    let oom = run.and_then(Run::explained_oom);
    let mut text = format!("**{}**\n\n", title_parts(scene, dialog.run).join(", "));
    if let Some(run) = run {
        text.push_str(&format!("- Command: {}\n", code(&run.shown)));
        text.push_str(&format!("- On: {}\n", versions(scene, run, oom)));
    }
    let mut all: Vec<DocumentBlock> = dialog
        .findings(scene)
        .first()
        .map(of_finding)
        .unwrap_or_default();
    if let (Some(run), Some(oom)) = (run, oom) {
        let mut findings = dialog.findings(scene).iter();
        let leaked = findings.find_map(|finding| finding.leaked);
        all.extend(lines_or_of_step(run, oom, LINES, leaked));
    }
    all.extend(remedy(dialog, scene));
    text + &list(&all)
}

/// The cause, and of what can be done what is to be changed in the code, if the place is known.
fn of_finding(finding: &Finding) -> Vec<DocumentBlock> {
    let mut all = document::finding(finding, true);
    all.retain(|block| !matches!(block, DocumentBlock::Remark(_)));
    all.extend(document::in_code(finding));
    all
}

/// The command that Enter would run.
pub(crate) fn command(dialog: &OomDialog, scene: &Scene) -> Option<String> {
    let command = scene.planned(&dialog.to_show(scene))?;
    Some(as_typed(&command))
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

/// The remedies that Enter would apply.
fn remedy(dialog: &OomDialog, scene: &Scene) -> Option<DocumentBlock> {
    let show = dialog.to_show(scene);
    let chosen = scene
        .remedies
        .iter()
        .filter(|remedy| show.contains(&remedy.id));
    let chosen: Vec<String> = chosen.map(one_remedy).collect();
    let next = command(dialog, scene).filter(|_| !chosen.is_empty())?;
    Some(DocumentBlock::Relaunch(Relaunch {
        what: chosen.join(" and "),
        facts: Vec::new(),
        command: next,
    }))
}

fn one_remedy(remedy: &Remedy) -> String {
    let verdict = remedy.expectation.verdict().words();
    let need = need(&remedy.expectation);
    let parts = [need.as_str(), verdict, &remedy.numerics()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{} ({})", remedy.title, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_failed_begins_with_the_programs_line() {
        let line = |file: &str| SourceLine {
            file: file.into(),
            line: 1,
            function: "forward".into(),
        };
        let stack = [
            line("/v/site-packages/torch/nn/functional.py"),
            line("/w/models.py"),
            line("/v/site-packages/torch/nn/modules/module.py"),
            line("/w/train.py"),
        ];
        let files = |stack: &[SourceLine]| -> Vec<String> {
            from_own_line(stack)
                .into_iter()
                .map(|line| line.file)
                .collect()
        };
        assert_eq!(files(&stack)[0], "/w/models.py");
        assert_eq!(files(&stack).len(), 3);
        assert_eq!(files(&stack[..1]).len(), 1, "it is all that is known");
    }
}
