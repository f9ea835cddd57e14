//! What a device's memory consists of, as one bar.

use super::escape::text;
use crate::state::Breakdown;
use crate::units::Bytes;
use std::fmt::Write;

/// The parts, each with its class in the style sheet.
pub(super) fn parts(breakdown: &Breakdown) -> Vec<(&'static str, &'static str, Bytes)> {
    let all = [
        ("parameters", "parameters", breakdown.parameters),
        ("optimizer state", "optimizer", breakdown.optimizer_state),
        ("gradients", "gradients", breakdown.gradients),
        (
            "activations + other",
            "activations",
            breakdown.activations_and_other,
        ),
        ("cached", "cached", breakdown.cached),
        ("non-PyTorch", "outside", breakdown.non_pytorch),
        ("other processes", "others", breakdown.other_processes),
        ("free", "free", breakdown.free),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, class, bytes)| Some((name, class, bytes?)));
    known.filter(|(_, _, bytes)| *bytes > Bytes::ZERO).collect()
}

pub(super) fn draw(page: &mut String, breakdown: &Breakdown) {
    bar(page, "The GPU's memory at that moment", &parts(breakdown));
}

/// A bar with a legend that has the figures.
pub(super) fn bar(page: &mut String, title: &str, parts: &[(&str, &str, Bytes)]) {
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
