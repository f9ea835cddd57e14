//! The line of the host's memory, which is there once that matters: how full it is, who has most of it or grows, and when it will be
//! full.

use super::canvas::{Canvas, columns};
use super::theme::Tone;
use crate::event::HostMemory;
use crate::state::{HostState, State};
use crate::units::Bytes;

/// From this share of what there is of RAM the kernel may soon kill.
pub(super) const NEARLY_FULL: f64 = 0.9;

/// Columns of the bar, at most and at least.
const BAR: (u16, u16) = (24, 8);

/// A part with at least so many columns is cut instead of dropped.
const WORTH_CUTTING: u16 = 16;

/// Whether there is such a line.
pub(super) fn is_there(state: &State) -> bool {
    let is_running = state.run().is_some_and(|run| run.ended.is_none());
    is_running && state.host.latest().is_some() && state.host.matters()
}

pub(super) fn tone(memory: &HostMemory) -> Tone {
    match memory.used > memory.limit.scale(NEARLY_FULL) {
        true => Tone::Wrong,
        false => Tone::Warning,
    }
}

pub(super) fn draw(canvas: &mut Canvas, state: &State) {
    let Some((_, memory)) = state.host.latest() else {
        return;
    };
    let tone = tone(memory);
    let share = memory
        .used
        .fraction_of(memory.limit)
        .unwrap_or(0.0)
        .min(1.0);
    let glyphs = canvas.theme.glyphs;
    let width = (canvas.area.width / 6).clamp(BAR.1, BAR.0);
    let full = (f64::from(width) * share).round() as u16;
    let mut pen = canvas.pen(0);
    pen.skip(1)
        .text("RAM ", Tone::Strong)
        .text(&format!("{} of {}", memory.used, memory.limit), tone)
        .skip(1);
    for column in 0..width {
        match column < full {
            true => pen.text(glyphs.lefts[8], tone),
            false => pen.text(glyphs.dots, Tone::Faint),
        };
    }
    pen.text(&format!(" {:.0} %", share * 100.0), tone);
    for (words, tone) in parts(&state.host, memory, tone) {
        let room = pen.room().saturating_sub(2);
        if columns(&words) > room && room < WORTH_CUTTING {
            break;
        }
        pen.skip(2).cut(&words, room, tone);
    }
}

/// What follows the bar, the most important first.
fn parts(host: &HostState, memory: &HostMemory, tone: Tone) -> Vec<(String, Tone)> {
    let mut parts = Vec::new();
    let growth = host.growth();
    parts.extend(growth.map(|growth| {
        let minutes = growth.full_in.as_secs().div_ceil(60);
        (format!("full in {minutes} min"), tone)
    }));
    let grower = growth.and_then(|growth| growth.role);
    let of_role = |role| memory.roles.iter().find(|known| known.role == role);
    let who = match (grower.and_then(of_role), host.grows()) {
        (Some(role), _) => {
            let rate = growth.map_or(Bytes::ZERO, |growth| growth.per_minute);
            Some(format!("{} +{rate}/min", role.role.words(role.count)))
        }
        (None, Some(grew)) => Some(format!("{} +{}", grew.role.words(grew.count), grew.by)),
        // Nobody grows: who has most of it.
        (None, None) => (memory.roles.first())
            .map(|role| format!("{} {}", role.role.words(role.count), role.held)),
    };
    parts.extend(who.map(|who| (who, tone)));
    parts.push((memory.limited_by.words().to_string(), Tone::Dim));
    parts
}
