//! One OOM: its cause, what it rests on, what filled the device, and which lines held the memory.

use super::escape::text;
use super::{kept_alive, lines, memory_bar};
use crate::diagnosis::AmongRanks;
use crate::oom::OomOutcome;
use crate::report::explain::Explained;
use crate::report::story::{SessionStory, place_of};
use crate::units::{Moment, clock_face};
use std::fmt::Write;

pub(super) fn section(page: &mut String, story: &SessionStory, oom: &Explained, number: u32) {
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
    let _ = writeln!(
        page,
        "<section class=\"cause\" id=\"oom{number}\">\n<h2>{}</h2>\n<p class=\"dim\">at {}{caught}</p>",
        text(&heading),
        text(&at)
    );
    for (place, finding) in oom.findings.iter().enumerate() {
        let certainty = finding.certainty.word();
        let tag = if place == 0 { "h3" } else { "h4" };
        let _ = writeln!(
            page,
            "<{tag}>{} <span class=\"tag\">{certainty}</span></{tag}>",
            text(&finding.headline)
        );
        for sentence in finding.ranks.iter().flat_map(AmongRanks::sentences) {
            let _ = writeln!(page, "<p>{}</p>", text(&sentence));
        }
        if !finding.explanation.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", text(&finding.explanation));
        }
        if place == 0 && !finding.evidence.is_empty() {
            page.push_str("<dl class=\"evidence\">\n");
            for evidence in &finding.evidence {
                let _ = writeln!(
                    page,
                    "<div><dt>{}</dt><dd>{}</dd></div>",
                    text(&evidence.what),
                    text(&evidence.bytes.to_string())
                );
            }
            page.push_str("</dl>\n");
        }
        if !finding.advice.is_empty() {
            page.push_str("<ul>\n");
            for advice in &finding.advice {
                let _ = writeln!(page, "<li>{}</li>", text(advice));
            }
            page.push_str("</ul>\n");
        }
    }
    let device = incident.device.as_ref();
    let device = device.and_then(|uuid| story.state.device(uuid));
    if let Some(parts) = device.and_then(|device| device.breakdown_at(incident)) {
        memory_bar::draw(page, &parts);
    }
    lines::of_oom(page, oom);
    kept_alive::section(page, oom);
    page.push_str("</section>\n");
}
