//! A session as one HTML file that opens from disk and fetches nothing: what happened, the chart, the
//! runs, each OOM with its cause, its evidence and the lines that held the memory.
//!
//! No I/O: this is given what was read, and returns text. Whatever a recording's strings hold is
//! shown as text (`escape.rs` is the only way in).

mod cause;
mod chart;
mod compared;
mod environment;
mod escape;
mod grid;
mod kept_alive;
mod lines;
mod memory_bar;
mod modules;
mod runs;
mod step;
mod treemap;

use super::comparison::Comparison;
use super::story::{SessionStory, capacity_of};
use crate::state::RunOutcome;
use crate::units::clock_face;
pub(in crate::report) use environment::facts;
use escape::{text, words};
use std::fmt::Write;

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
    /// Another session to compare it with.
    pub comparison: Option<&'a Comparison>,
}

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
    runs::section(&mut page, story);
    for (number, oom) in (1..).zip(&story.ooms).take(MOST_OOMS) {
        cause::section(&mut page, story, oom, number);
    }
    if story.ooms.len() > MOST_OOMS {
        let more = story.ooms.len() - MOST_OOMS;
        let _ = writeln!(
            page,
            "<p class=\"dim\">{more} more OOMs are in the recording.</p>"
        );
    }
    step::section(&mut page, story);
    if let Some(comparison) = options.comparison {
        compared::section(&mut page, comparison);
    }
    environment::section(&mut page, story, options);
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
    let command = (run.map(|run| &run.command))
        .or(state.session.as_ref().map(|session| &session.command))
        .map(|command| command.shown())
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
    fact(page, "took", &clock_face(story.length()), "");
    if let Some(peak) = run.peak() {
        let of = capacity_of(state, run);
        let share = of.map_or(String::new(), |of| format!(" of {of}"));
        fact(page, "peak allocated", &format!("{peak}{share}"), "");
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

fn fact(page: &mut String, name: &str, value: &str, class: &str) {
    let _ = writeln!(
        page,
        "<div><dt>{}</dt><dd class=\"{class}\">{}</dd></div>",
        text(name),
        text(value)
    );
}

#[cfg(test)]
mod tests;
