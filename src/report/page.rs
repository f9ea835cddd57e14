//! A session as one HTML file that opens from disk and fetches nothing: what happened, the chart, the
//! runs, each OOM with its cause, its evidence and the lines that held the memory.
//!
//! No I/O: this is given what was read, and returns text. Whatever a recording's strings hold is
//! shown as text (`document/html.rs` is the only way in).

mod chart;
mod ram;
mod step;
#[cfg(test)]
mod tests;

use super::comparison::{ChangeOf, Comparison, WordChange, in_words};
use super::explain::Explained;
use super::growth;
use super::score;
use super::story::{SessionStory, capacity_of, more_like_it, place_of};
use crate::anatomy::KEPT;
use crate::diagnosis::Finding;
use crate::document::html::{html as blocks_html, text, words};
use crate::document::{self, DocumentBlock, Tree};
use crate::event::{Job, Level, LimitedBy, NvmlState, displayed};
use crate::oom::OomOutcome;
use crate::state::{Breakdown, Patching, Run, RunOutcome};
use crate::units::{Bytes, Moment, clock_face};
use std::fmt::Write;
use std::time::Duration;

const STYLE: &str = include_str!("page/assets/page.css");
const SCRIPT: &str = include_str!("page/assets/page.js");
const UPLOT: &str = include_str!("page/assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("page/assets/uplot/uPlot.min.css");

/// What stands on the page beside the session.
#[derive(Debug, Default)]
pub struct PageOptions<'a> {
    /// The session's name, or the file's.
    pub name: &'a str,
    /// When it began, for display.
    pub began: Option<&'a str>,
    /// What its last run left unused, and how far the batch could have gone.
    pub unused: Option<&'a str>,
    /// Another session to compare it with.
    pub comparison: Option<&'a Comparison>,
    /// The remedies for the command, where its last run ran out of memory: a heading first.
    pub relaunch: &'a [DocumentBlock],
}

/// What passes between runs without anybody waiting.
const WAITS: Duration = Duration::from_secs(2);

/// Nothing may be fetched, not even by mistake.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The page.
pub fn html(story: &SessionStory, options: &PageOptions) -> String {
    let title = title(story, options);
    let mut page = String::with_capacity(256 << 10);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"oomph {}\">\n<title>{}</title>\n\
         <style>{UPLOT_STYLE}</style>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n",
        env!("CARGO_PKG_VERSION"),
        text(&title),
    );
    head(&mut page, story, options);
    chart::section(&mut page, story);
    ram::section(&mut page, story);
    runs(&mut page, story);
    let groups = story.grouped();
    for (number, (oom, alike)) in (1..).zip(&groups).take(MOST_OOMS) {
        cause(&mut page, story, (oom, alike), number);
    }
    if groups.len() > MOST_OOMS {
        let more: usize = (groups[MOST_OOMS..].iter())
            .map(|(_, alike)| 1 + alike.len())
            .sum();
        let _ = writeln!(
            page,
            "<p class=\"dim\">{more} more OOMs are in the recording.</p>"
        );
    }
    if let Some(blocks) = growth::blocks(story) {
        let (heading, blocks) = (growth::HEADING, blocks_html(&blocks));
        let _ = writeln!(
            page,
            "<section class=\"cause\">\n<h2>{heading}</h2>\n{blocks}</section>"
        );
    }
    if !options.relaunch.is_empty() {
        let blocks = blocks_html(options.relaunch);
        let _ = writeln!(page, "<section class=\"relaunch\">\n{blocks}</section>");
    }
    step::section(&mut page, story);
    if let Some(comparison) = options.comparison {
        compared(&mut page, comparison);
    }
    environment(&mut page, story, options);
    let _ = write!(
        page,
        "<footer>Made by oomph {} from the session's recording.</footer>\n</main>\n\
         <script>{UPLOT}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
    );
    page
}

/// OOMs with a section of their own: a program that catches one a step has thousands.
const MOST_OOMS: usize = 12;

fn title(story: &SessionStory, options: &PageOptions) -> String {
    match story.state.run() {
        Some(run) => format!("{} – {}", run.outcome_words(), options.name),
        None => options.name.to_string(),
    }
}

fn head(page: &mut String, story: &SessionStory, options: &PageOptions) {
    let state = &story.state;
    let run = state.run();
    let command = (state.session.as_ref().map(|session| &session.command))
        .or(run.map(|run| &run.command))
        .map(displayed)
        .unwrap_or_default();
    let _ = write!(
        page,
        "<header>\n<p class=\"brand\"><b>oomph</b> <span>{}</span>",
        text(options.name)
    );
    if let Some(began) = options.began {
        let _ = write!(page, " <span>{}</span>", text(began));
    }
    let _ = writeln!(page, "</p>\n<h1><code>{}</code></h1>", words(&command));
    for sentence in story.sentences() {
        let _ = writeln!(page, "<p class=\"lead\">{}</p>", text(&sentence));
    }
    if let Some(unused) = options.unused {
        let _ = writeln!(page, "<p class=\"lead\">{}</p>", text(unused));
    }
    let Some(run) = run else {
        page.push_str("</header>\n");
        return;
    };
    page.push_str("<dl class=\"facts\">\n");
    let class = match run.outcome() {
        RunOutcome::Finished if run.is_hidden_failure() => "bad",
        RunOutcome::Finished => "good",
        RunOutcome::TrainedNothing | RunOutcome::OutOfMemory | RunOutcome::Failed(_) => "bad",
        RunOutcome::Running | RunOutcome::Stopped => "",
    };
    fact(page, "outcome", &run.outcome_words(), class);
    fact(page, "took", &took(story), "");
    if let Some(peak) = run.peak() {
        let of = capacity_of(state, run);
        let share = of.map_or(String::new(), |of| format!(" of {of}"));
        fact(page, "peak allocated", &format!("{peak}{share}"), "");
    }
    if let Some((_, memory)) = run.host_at_peak.as_deref() {
        let of = format!("{} of {}", memory.used, memory.limit);
        // What others on the machine had counts in it.
        let name = match memory.limited_by {
            LimitedBy::Machine => "RAM in use, by all programs",
            LimitedBy::Cgroup | LimitedBy::Slurm | LimitedBy::Container | LimitedBy::Systemd => {
                "peak RAM"
            }
        };
        fact(page, name, &of, "");
    }
    if run.steps() > 0 {
        fact(page, "steps", &run.steps().to_string(), "");
    }
    if state.runs.len() > 1 {
        fact(page, "runs", &state.runs.len().to_string(), "");
    }
    let ooms: u64 = state.runs.iter().map(|run| run.oom_count).sum();
    if ooms > 0 {
        fact(page, "OOMs", &ooms.to_string(), "");
    }
    page.push_str("</dl>\n</header>\n");
}

/// How long its runs took, and the whole with what was between them, where that is more.
fn took(story: &SessionStory) -> String {
    let (runs, all) = (story.state.runs_took(), story.length());
    let waits = all.saturating_sub(runs);
    match story.state.runs.len() > 1 && waits >= WAITS {
        true => format!(
            "{} ({} with waits between runs)",
            clock_face(runs),
            clock_face(all)
        ),
        false => clock_face(runs),
    }
}

fn fact(page: &mut String, name: &str, value: &str, class: &str) {
    let _ = writeln!(
        page,
        "<div><dt>{}</dt><dd class=\"{class}\">{}</dd></div>",
        text(name),
        text(value)
    );
}

/// Notes shown: the latest.
const NOTES: usize = 40;

fn environment(page: &mut String, story: &SessionStory, options: &PageOptions) {
    page.push_str("<section>\n<h2>Environment</h2>\n<table class=\"facts\">\n");
    for (name, value) in facts(story) {
        let _ = writeln!(
            page,
            "<tr><th>{}</th><td>{}</td></tr>",
            text(name),
            text(&value)
        );
    }
    if let Some(began) = options.began {
        let _ = writeln!(page, "<tr><th>began</th><td>{}</td></tr>", text(began));
    }
    let _ = writeln!(
        page,
        "<tr><th>session</th><td>{}</td></tr>\n</table>",
        text(options.name)
    );
    notes(page, story);
    page.push_str("</section>\n");
}

/// `1230_7 of SLURM (job 1237), requeued 2 times`.
fn job_words(job: &Job) -> String {
    let own = match job.array {
        Some(_) => format!(" (job {})", job.id),
        None => String::new(),
    };
    let requeued = match job.restart {
        0 => String::new(),
        1 => ", requeued once".into(),
        count => format!(", requeued {count} times"),
    };
    format!("{} of SLURM{own}{requeued}", job.name())
}

/// Names and values, as far as they are known.
pub(super) fn facts(story: &SessionStory) -> Vec<(&'static str, String)> {
    let state = &story.state;
    let mut facts = Vec::new();
    let mut gpus: Vec<(String, usize)> = Vec::new();
    for device in &state.devices {
        let of = device.capacity.filter(|_| !device.name.contains("GiB"));
        let of = of.map(|capacity| format!(" ({capacity})"));
        let name = format!("{}{}", device.name, of.unwrap_or_default());
        match gpus.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => gpus.push((name, 1)),
        }
    }
    let gpus: Vec<String> = (gpus.into_iter())
        .map(|(name, count)| match count {
            1 => name,
            n => format!("{n} × {name}"),
        })
        .collect();
    if !gpus.is_empty() {
        facts.push(("GPU", gpus.join(", ")));
    }
    match &state.nvml {
        Some(NvmlState::Live { driver, .. }) => facts.push(("driver", driver.clone())),
        Some(NvmlState::Unavailable { reason }) => facts.push(("NVML", reason.clone())),
        Some(NvmlState::Stale | NvmlState::Off) | None => {}
    }
    let ranks = || state.runs.iter().rev().flat_map(|run| &run.ranks);
    if let Some(rank) = ranks().next() {
        let hello = &rank.hello;
        facts.push(("torch", hello.torch.clone()));
        facts.push(("Python", hello.python.clone()));
        if let Some(size) = hello.world_size.filter(|size| *size > 1) {
            facts.push(("world size", size.to_string()));
        }
        if let Some(backend) = &hello.backend {
            facts.push(("allocator", backend.clone()));
        }
        if let Some(settings) = hello.alloc_conf.as_ref().filter(|text| !text.is_empty()) {
            facts.push(("allocator settings", settings.clone()));
        }
    }
    if let Some(session) = &state.session {
        if let Some(job) = &session.job {
            facts.push(("job", job_words(job)));
        }
        if let Some(host) = &session.host {
            facts.push(("machine", host.clone()));
        }
        let cwd = session.command.cwd.display().to_string();
        if !cwd.is_empty() {
            facts.push(("directory", cwd));
        }
        facts.push(("oomph", session.version.clone()));
    }
    facts
}

fn notes(page: &mut String, story: &SessionStory) {
    let state = &story.state;
    let dropped = &state.dropped;
    let mut lines: Vec<String> = (state.notes.iter().rev().take(NOTES).rev())
        .map(|(at, note)| {
            let mark = match note.level {
                Level::Info => "",
                Level::Warning => "! ",
            };
            format!(
                "{}  {mark}{}",
                clock_face(at.since(Moment::ZERO)),
                note.text
            )
        })
        .collect();
    if dropped.samples > 0 {
        lines.push(format!("{} samples were lost", dropped.samples));
    }
    if lines.is_empty() {
        return;
    }
    let notes = if lines.len() == 1 { "note" } else { "notes" };
    let _ = writeln!(
        page,
        "<details><summary>{} {notes}</summary>\n<ul class=\"notes\">",
        lines.len()
    );
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", text(&line));
    }
    page.push_str("</ul></details>\n");
}

fn runs(page: &mut String, story: &SessionStory) {
    let runs = &story.state.runs;
    if runs.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Runs</h2>\n<div class=\"scroll\"><table class=\"runs\">\n<thead><tr><th>run</th><th>outcome</th>\
         <th class=\"n\">took</th><th class=\"n\">peak</th><th class=\"n wide\">reserved</th><th class=\"n wide\">predicted</th><th class=\"n wide\">RAM in use</th>\
         <th class=\"n\">steps</th><th class=\"n wide\">steps/s, first to last</th></tr></thead>\n<tbody>\n",
    );
    for run in runs {
        row(page, story, run);
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

fn row(page: &mut String, story: &SessionStory, run: &Run) {
    let class = match run.outcome() {
        RunOutcome::Finished if run.is_hidden_failure() => "bad",
        RunOutcome::Finished => "good",
        RunOutcome::TrainedNothing | RunOutcome::OutOfMemory | RunOutcome::Failed(_) => "bad",
        RunOutcome::Running | RunOutcome::Stopped => "",
    };
    let ended = run.ended.map_or(story.state.now, |(at, _)| at);
    let reserved = run.ranks.iter().map(|rank| rank.reserved_peak).max();
    let rate = run.steps_per_second();
    let cells = [
        clock_face(ended.since(run.started)),
        run.peak().map_or("–".into(), |peak| peak.to_string()),
        reserved.map_or("–".into(), |bytes| bytes.to_string()),
        score::beside(run).unwrap_or_else(|| "–".into()),
        run.host_peak.map_or("–".into(), |ram| ram.to_string()),
        run.steps().to_string(),
        rate.map_or("–".into(), |rate| format!("{rate:.2}")),
    ];
    let _ = write!(
        page,
        "<tr><td>{}</td><td class=\"{class}\">{}</td>",
        run.number,
        text(&run.outcome_words())
    );
    for (column, cell) in cells.iter().enumerate() {
        // A phone has no room for these.
        let class = if matches!(column, 2 | 3 | 4 | 6) {
            "n wide"
        } else {
            "n"
        };
        let _ = write!(page, "<td class=\"{class}\">{}</td>", text(cell));
    }
    page.push_str("</tr>\n<tr class=\"command\"><td></td><td colspan=\"8\">");
    if run.changes.is_empty() {
        let _ = write!(page, "<code>{}</code>", words(&displayed(&run.command)));
    } else {
        let remedies = run.remedies.join(" + ");
        if !remedies.is_empty() {
            let _ = write!(page, "{} ", text(&remedies));
        }
        page.push_str("<code>");
        let mut earlier = story.state.runs.iter().rev();
        let before = earlier.find(|before| before.number < run.number);
        for change in in_words(before.map(|before| &before.command), &run.changes) {
            difference(page, &change);
        }
        let _ = write!(
            page,
            "</code><details><summary>the whole command</summary><code>{}</code></details>",
            words(&displayed(&run.command))
        );
    }
    if let Some(patching) = run.patching() {
        let words = match patching {
            Patching::Asked => "patches were requested",
            Patching::Applied => "patched at runtime",
            Patching::Declined => "not patched",
            Patching::Edited => "edited copy",
        };
        let _ = write!(page, " <span class=\"tag\">{words}</span>");
    }
    page.push_str("</td></tr>\n");
}

/// A change as struck out and underlined words.
fn difference(page: &mut String, change: &WordChange) {
    let name = match &change.of {
        ChangeOf::Nothing => String::new(),
        ChangeOf::Option(name) => {
            let _ = write!(page, "{} ", text(name));
            String::new()
        }
        ChangeOf::Variable(name) => format!("{name}="),
        ChangeOf::Number(name) => {
            let _ = write!(page, "{}", text(name));
            String::new()
        }
    };
    if let Some(from) = &change.from {
        let _ = write!(page, "<del>{}</del> ", text(&format!("{name}{from}")));
    }
    if let Some(to) = &change.to {
        let _ = write!(page, "<ins>{}</ins> ", text(&format!("{name}{to}")));
    }
}

fn compared(page: &mut String, comparison: &Comparison) {
    let _ = writeln!(
        page,
        "<section>\n<h2>Compared</h2>\n<div class=\"scroll\"><table class=\"compared\">\n\
         <thead><tr><th></th><th>{}</th><th>{}</th><th></th></tr></thead>\n<tbody>",
        text(&comparison.names.0),
        text(&comparison.names.1),
    );
    for row in &comparison.rows {
        let class = if row.is_same() { "same" } else { "" };
        let _ = writeln!(
            page,
            "<tr class=\"{class}\"><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            text(row.name),
            text(&row.before),
            text(&row.after),
            text(&row.change),
        );
    }
    page.push_str("</tbody>\n</table></div>\n");
    if !comparison.command.is_empty() {
        page.push_str("<p>Command: <code>");
        for change in &comparison.command {
            difference(page, change);
        }
        page.push_str("</code></p>\n");
    }
    if let Some(steps) = &comparison.steps {
        let _ = writeln!(page, "<p class=\"dim\">{}</p>", text(steps));
    }
    if !comparison.lines.is_empty() {
        page.push_str(
            "<h4>Lines that hold more or less, most changed first</h4>\n<table class=\"lines\">\n",
        );
        for line in &comparison.lines {
            let _ = writeln!(
                page,
                "<tr><td class=\"n\">{}</td><td><code>{}</code> <span class=\"dim\">{}</span></td></tr>",
                text(&line.change()),
                text(&line.place),
                text(&format!("{} → {}", line.before, line.after)),
            );
        }
        page.push_str("</table>\n");
    }
    page.push_str("</section>\n");
}

fn cause(
    page: &mut String,
    story: &SessionStory,
    (oom, alike): (&Explained, &[&Explained]),
    number: u32,
) {
    let incident = &oom.incident;
    let mut heading = match &oom.run {
        Some((run, _)) if story.state.runs.len() > 1 => format!("Out of memory in run {run}"),
        Some(_) | None => "Out of memory".to_string(),
    };
    if let Some(rank) = incident.rank {
        let _ = write!(heading, ", rank {rank}");
    }
    heading.push_str(&place_of(incident));
    let caught = match oom.outcome {
        OomOutcome::Caught => ", caught: the program went on",
        OomOutcome::Fatal | OomOutcome::Unknown => "",
    };
    let at = clock_face(incident.at.since(Moment::ZERO));
    let more = more_like_it(alike).map_or(String::new(), |words| format!("; {words}"));
    let _ = writeln!(
        page,
        "<section class=\"cause\" id=\"oom{number}\">\n<h2>{}</h2>\n<p class=\"dim\">at {}{caught}{more}</p>",
        text(&heading),
        text(&at)
    );
    let findings = oom.findings.iter().enumerate();
    let blocks: Vec<DocumentBlock> = findings
        .flat_map(|(n, finding)| of_finding(finding, n == 0))
        .collect();
    page.push_str(&blocks_html(&blocks));
    let device = incident.device.as_ref();
    let device = device.and_then(|uuid| story.state.device(uuid));
    let parts = device.and_then(|device| device.breakdown_at(incident, oom.traced_gradients()));
    if let Some(parts) = parts {
        bar(
            page,
            "The GPU's memory at that moment",
            &parts_of(&parts, oom.leaked()),
        );
    }
    page.push_str(&blocks_html(&memory(oom)));
    page.push_str("</section>\n");
}

/// The figures of the likeliest cause alone: the others' are the same, in the main.
fn of_finding(finding: &Finding, is_first: bool) -> Vec<DocumentBlock> {
    let mut blocks = document::finding(finding, is_first);
    blocks.retain(|block| is_first || !matches!(block, DocumentBlock::FigureSum(_)));
    blocks
}

/// The lines at an OOM, from its record, or else from the step that was traced; who keeps it alive, and what
/// grew.
fn memory(oom: &Explained) -> Vec<DocumentBlock> {
    let mut held = oom.lines();
    let mut heading = document::lines_heading("Lines that held the memory", &oom.incident);
    if let (true, Some(step)) = (held.is_empty(), &oom.step) {
        held = document::lines_at(step, step.peak(), &oom.source);
        heading = DocumentBlock::heading("Lines that held the memory");
    }
    let mut blocks = Vec::new();
    if !held.is_empty() {
        blocks.push(heading);
        blocks.push(DocumentBlock::Tree(Tree::Lines(held)));
        blocks.extend(oom.incident.record.as_ref().and_then(document::in_blocks));
    }
    let found = oom.retainers.as_ref();
    blocks.extend(
        found
            .into_iter()
            .flat_map(|found| document::kept_alive(found, "Kept alive by")),
    );
    if let Some(growth) = &oom.growth {
        let heading = format!("Grew from step {} to step {}", growth.from, growth.to);
        blocks.push(DocumentBlock::heading(heading));
        blocks.push(DocumentBlock::Tree(Tree::Growing(document::grown(
            growth, true,
        ))));
    }
    blocks
}

/// The parts, each with its class in the style sheet.
fn parts_of(
    breakdown: &Breakdown,
    leaked: Option<Bytes>,
) -> Vec<(&'static str, &'static str, Bytes)> {
    let unnamed = breakdown.activations_and_other;
    let leaked = unnamed.and_then(|unnamed| Some(leaked?.min(unnamed)));
    let all = [
        ("parameters", "parameters", breakdown.parameters),
        ("optimizer state", "optimizer", breakdown.optimizer_state),
        ("gradients", "gradients", breakdown.gradients),
        ("gathered layers", "parameters", breakdown.gathered),
        (KEPT, "kept", leaked),
        (
            "activations + other",
            "activations",
            unnamed.map(|unnamed| unnamed - leaked.unwrap_or_default()),
        ),
        ("cached", "cached", breakdown.cached),
        // As the screen calls it, which of others is in it or not.
        (
            "non-PyTorch",
            "outside",
            breakdown.non_pytorch.or(breakdown.outside),
        ),
        ("other processes", "others", breakdown.other_processes),
        ("free", "free", breakdown.free),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, class, bytes)| Some((name, class, bytes?)));
    known.filter(|(_, _, bytes)| *bytes > Bytes::ZERO).collect()
}

/// A bar with a legend that has the figures.
fn bar(page: &mut String, title: &str, parts: &[(&str, &str, Bytes)]) {
    let whole: Bytes = parts.iter().map(|(_, _, bytes)| *bytes).sum();
    if whole == Bytes::ZERO {
        return;
    }
    let _ = writeln!(page, "<h4>{}</h4>\n<div class=\"bar\">", text(title));
    for (name, class, bytes) in parts {
        let share = bytes.fraction_of(whole).unwrap_or(0.0) * 100.0;
        let _ = write!(
            page,
            "<i class=\"c-{class}\" style=\"width:{share:.3}%\" title=\"{}\"></i>",
            text(&format!("{name}: {bytes}"))
        );
    }
    page.push_str("</div>\n<ul class=\"legend\">\n");
    for (name, class, bytes) in parts {
        let _ = writeln!(
            page,
            "<li><i class=\"c-{class}\"></i>{} <b>{}</b></li>",
            text(name),
            text(&bytes.to_string())
        );
    }
    page.push_str("</ul>\n");
}
