//! Who kept the memory alive at an OOM, variables and attributes of the program, and what grew from step
//! to step.

use super::escape::text;
use crate::anatomy::StepGrowth;
use crate::event::Retainers;
use crate::report::explain::Explained;
use std::fmt::Write;

pub(super) fn section(page: &mut String, oom: &Explained) {
    if let Some(found) = &oom.retainers {
        retainers(page, found);
    }
    if let Some(growth) = &oom.growth {
        grown(page, growth);
    }
}

/// By line and by module.
fn grown(page: &mut String, growth: &StepGrowth) {
    let _ = writeln!(
        page,
        "<h4>Grew from step {} to step {}</h4>\n<table class=\"lines\">",
        growth.from, growth.to
    );
    let lines = growth.lines.iter().map(|of| {
        let line = of.line.as_ref().map(|line| line.path_to(None, ""));
        (line.unwrap_or("line not known".into()), of.bytes)
    });
    let modules = growth.modules.iter().map(|of| {
        let module = of.module.as_ref().map(|name| format!("in {name}"));
        (module.unwrap_or("outside of modules".into()), of.bytes)
    });
    for (what, bytes) in lines.chain(modules) {
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">+{} a step</td><td><code>{}</code> <span class=\"dim\">{} in all</span></td></tr>",
            text(&growth.each_step(bytes).to_string()),
            text(&what),
            text(&bytes.to_string()),
        );
    }
    page.push_str("</table>\n");
}

fn retainers(page: &mut String, found: &Retainers) {
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
