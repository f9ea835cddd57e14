//! Who kept the memory alive at an OOM: variables and attributes of the program.

use super::escape::text;
use crate::event::Retainers;
use std::fmt::Write;

pub(super) fn section(page: &mut String, found: &Retainers) {
    if found.retainers.is_empty() {
        return;
    }
    page.push_str(
        "<h4>Kept alive by</h4>\n<p class=\"dim\">Parameters, gradients and optimizer state left out.</p>\n\
         <table class=\"lines\">\n",
    );
    let most = found.retainers.iter().map(|retainer| retainer.bytes).max();
    for retainer in &found.retainers {
        let share = most.and_then(|most| retainer.bytes.fraction_of(most));
        let mut more = match retainer.graph.0 {
            0 => String::new(),
            _ => format!("{} of it in autograd graphs", retainer.graph),
        };
        if !retainer.above.is_empty() {
            let _ = write!(more, " ← {}", retainer.levels("←"));
        }
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td><i class=\"c-activations\" style=\"width:{:.2}%\"></i>\
             <code>{}</code> <span class=\"dim\">{}</span></td></tr>",
            text(&retainer.bytes.to_string()),
            share.unwrap_or(0.0) * 100.0,
            text(&retainer.words()),
            text(more.trim()),
        );
    }
    page.push_str("</table>\n");
    if let Some(why) = &found.left {
        let _ = writeln!(
            page,
            "<p class=\"dim\">Not all was searched: {}.</p>",
            text(why)
        );
    }
}
