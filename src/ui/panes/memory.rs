//! The chart's pane: its title, and what is said where there is nothing to draw yet.

use crate::event::NvmlState;
use crate::state::{DeviceState, ProbeState, State};
use crate::ui::chart::{self, Choice};
use crate::ui::figures::Figures;
use crate::ui::list::ListScroll;
use crate::ui::pen::head;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the chart of the selected device, under a title of its own.
pub(super) fn draw(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene, _: ListScroll) {
    let theme = &view.theme;
    let state = scene.state;
    let Some(device) = view.device(state) else {
        let inside = head(buf, area, theme, &[("GPU memory", Tone::Strong)]);
        return draw_inside(buf, inside, view, scene);
    };
    let name = format!("GPU {}", device.index);
    // A simulated device says so, and how large it is, in the name that it gives itself.
    let says_so = device.uuid.is_simulated() && device.name.contains("simulated");
    let of_several = format!(" of {}", state.devices.len());
    let separator = theme.glyphs.separator;
    let size = device
        .capacity
        .filter(|_| !says_so)
        .map(|capacity| {
            format!(
                "{separator}{} GiB",
                Figures::of(device.capacity).gib(capacity)
            )
        })
        .unwrap_or_default();
    let name_tone = if says_so { Tone::Warning } else { Tone::Text };
    let mut title = vec![(name.as_str(), Tone::Strong)];
    if state.devices.len() > 1 {
        title.push((&of_several, Tone::Dim));
    }
    title.extend([
        (separator, Tone::Dim),
        (device.name.as_str(), name_tone),
        (size.as_str(), Tone::Dim),
    ]);
    if device.uuid.is_simulated() && !says_so {
        title.extend([(separator, Tone::Dim), ("simulated GPU", Tone::Warning)]);
    }
    let lost = lost(device);
    if let Some(reason) = &lost {
        title.extend([(separator, Tone::Dim), (reason.as_str(), Tone::Wrong)]);
    }
    let paused = format!("{} paused", theme.glyphs.paused);
    if view.time.is_held() {
        title.extend([(separator, Tone::Dim), (paused.as_str(), Tone::Accent)]);
    }
    let inside = head(buf, area, theme, &title);
    draw_inside(buf, inside, view, scene);
}

/// Draws the chart, or why there is none.
fn draw_inside(buf: &mut Buffer, inside: Rect, view: &View, scene: &Scene) {
    let theme = &view.theme;
    let state = scene.state;
    match view.device(state) {
        Some(device) => {
            let choice = Choice {
                time: &view.time,
                height: view.height,
                compared: view.compared.and_then(|number| state.run_numbered(number)),
            };
            chart::draw(buf, inside, theme, state, device, &choice);
        }
        None => {
            let lines = reasons(state);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            chart::draw_nothing(buf, inside, theme, &lines);
        }
    }
}

fn lost(device: &DeviceState) -> Option<String> {
    device.reading.as_ref()?.1.lost.clone()
}

/// Why there is no device to draw.
fn reasons(state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(failure) = &state.spawn_failed {
        lines.push(failure.reason.clone());
        return lines;
    }
    lines.push(match state.probe() {
        ProbeState::Off => "The probe is off: allocated and reserved are unknown.".to_string(),
        ProbeState::Waiting => "Waiting for the program to use the GPU.".to_string(),
        ProbeState::Live(_) => "Waiting for the first sample.".to_string(),
        ProbeState::Resting(reason) => format!("The probe is paused: {reason}."),
        ProbeState::Lost => "The probe has disconnected.".to_string(),
    });
    match &state.nvml {
        Some(NvmlState::Unavailable { reason }) => lines.push(format!("No NVML: {reason}")),
        Some(NvmlState::Off) => lines.push("NVML is off.".to_string()),
        Some(NvmlState::Stale) => lines.push("NVML is not answering.".to_string()),
        Some(NvmlState::Live { devices: 0, .. }) => {
            lines.push("NVML lists no GPU.".to_string());
        }
        Some(NvmlState::Live { .. }) | None => {}
    }
    lines
}
