//! What the session ran in: versions, GPUs, settings, and what was noted on the way.

use super::PageOptions;
use super::escape::text;
use crate::event::{Job, Level, NvmlState};
use crate::report::story::SessionStory;
use crate::units::{Moment, clock_face};
use std::fmt::Write;

/// Notes shown: the latest.
const NOTES: usize = 40;

pub(super) fn section(page: &mut String, story: &SessionStory, options: &PageOptions) {
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
pub(in crate::report) fn facts(story: &SessionStory) -> Vec<(&'static str, String)> {
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
