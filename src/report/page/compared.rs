//! Another session beside this one.

use super::escape::text;
use super::runs::difference;
use crate::report::comparison::Comparison;
use std::fmt::Write;

pub(super) fn section(page: &mut String, comparison: &Comparison) {
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
    if !comparison.lines.is_empty() {
        page.push_str("<h4>Lines at the peak that changed most</h4>\n<table class=\"lines\">\n");
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
