//! The runs: how each ended, its figures, what was predicted, and its command with what was changed.

use super::escape::{text, words};
use crate::report::changes::{WordChange, in_words};
use crate::report::score;
use crate::report::story::SessionStory;
use crate::state::{Patching, Run, RunOutcome};
use crate::units::clock_face;
use std::fmt::Write;

pub(super) fn section(page: &mut String, story: &SessionStory) {
    let runs = &story.state.runs;
    if runs.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Runs</h2>\n<div class=\"scroll\"><table class=\"runs\">\n<thead><tr><th>run</th><th>outcome</th>\
         <th class=\"n\">took</th><th class=\"n\">peak</th><th class=\"n wide\">reserved</th><th class=\"n wide\">predicted</th>\
         <th class=\"n\">steps</th><th class=\"n wide\">steps/s</th></tr></thead>\n<tbody>\n",
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
    let rate = (run.ranks.iter())
        .filter_map(|rank| rank.steps.rate)
        .min_by(f64::total_cmp);
    let cells = [
        clock_face(ended.since(run.started)),
        run.peak().map_or("–".into(), |peak| peak.to_string()),
        reserved.map_or("–".into(), |bytes| bytes.to_string()),
        score::beside(run).unwrap_or_else(|| "–".into()),
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
        let class = if matches!(column, 2 | 3 | 5) {
            "n wide"
        } else {
            "n"
        };
        let _ = write!(page, "<td class=\"{class}\">{}</td>", text(cell));
    }
    page.push_str("</tr>\n<tr class=\"command\"><td></td><td colspan=\"7\">");
    if run.changes.is_empty() {
        let _ = write!(page, "<code>{}</code>", words(&run.command.shown()));
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
            words(&run.command.shown())
        );
    }
    if let Some(patching) = run.patching() {
        let words = match patching {
            Patching::Asked => "patches were requested",
            Patching::Applied => "patched at runtime",
            Patching::Declined => "not patched",
        };
        let _ = write!(page, " <span class=\"tag\">{words}</span>");
    }
    page.push_str("</td></tr>\n");
}

/// A change as struck out and underlined words.
pub(super) fn difference(page: &mut String, change: &WordChange) {
    let is_variable = change.name.ends_with('=');
    if !change.name.is_empty() && !is_variable {
        let _ = write!(page, "{} ", text(&change.name));
    }
    let name = if is_variable {
        change.name.as_str()
    } else {
        ""
    };
    if let Some(from) = &change.from {
        let _ = write!(page, "<del>{}</del> ", text(&format!("{name}{from}")));
    }
    if let Some(to) = &change.to {
        let _ = write!(page, "<ins>{}</ins> ", text(&format!("{name}{to}")));
    }
}
