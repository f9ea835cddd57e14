//! The chart's pane: its title, and why there is no chart yet.

use crate::event::NvmlState;
use crate::state::{DeviceState, ProbeState, Run, RunOutcome, State};
use crate::ui::canvas::columns;
use crate::ui::canvas::{self, Canvas, StyledLine};
use crate::ui::chart::{self, Choice};
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::PaneSpec;
use crate::ui::scene::Scene;
use crate::ui::step;
use crate::ui::step::traced::ReadStep;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::{Figures, rank_on};
use crate::units::Bytes;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    // On 36 rows the column beside it has room for memory, two runs and the last event.
    own_rows: |_, _, screen, _| (screen * 9 / 20 + 1).max(7),
    ..PaneSpec::plain("chart", draw)
};

/// Draws the chart of the selected device.
fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    let (theme, state) = (canvas.theme, scene.state);
    let Some(device) = view.device(state) else {
        let mut inside = canvas.below_head(&[("GPU memory", Tone::Strong)]);
        return draw_reasons(&mut inside, &reasons(state));
    };
    let name = device.label();
    // The name of a simulated device says so, and its size.
    let says_so = device.uuid.is_simulated() && device.name.contains("simulated");
    let of_several = format!(" of {}", state.devices.len());
    let separator = theme.glyphs.separator;
    let size = device
        .capacity
        .filter(|_| !says_so)
        .map(|capacity| {
            format!(
                "{separator}{} GiB",
                Figures::new(device.capacity).gib(capacity)
            )
        })
        .unwrap_or_default();
    // Where the curves have no figures beside them, the one that matters most: it comes before a name that is cut.
    let in_use = (!chart::has_legend(canvas.area))
        .then(|| in_use(state, device))
        .flatten();
    let name_tone = if says_so { Tone::Warning } else { Tone::Text };
    let mut title = vec![(name.as_str(), Tone::Strong)];
    if state.devices.len() > 1 {
        title.push((&of_several, Tone::Dim));
    }
    if let Some(in_use) = &in_use {
        title.extend([(separator, Tone::Dim), (in_use.as_str(), Tone::Text)]);
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
    if let (ProbeState::Waiting, true) = (state.probe(), is_used_otherwise(device, state)) {
        title.extend([
            (separator, Tone::Dim),
            ("without PyTorch: device memory only", Tone::Dim),
        ]);
    }
    let paused = format!("{} paused", theme.glyphs.paused);
    if view.time.is_held() {
        title.extend([(separator, Tone::Dim), (paused.as_str(), Tone::Accent)]);
    }
    if let Some(read) = only_step(view, state, device) {
        title.extend([
            (separator, Tone::Dim),
            ("step 1, allocation by allocation", Tone::Text),
        ]);
        let mut inside = canvas.below_head(&title);
        let limit = state.run().and_then(limit_at_oom).or(device.limit);
        return step::chart::draw_alone(&mut inside, read, limit.or(device.capacity));
    }
    let choice = Choice {
        time: &view.time,
        height: view.height,
        compared: view.compared.and_then(|number| state.run_numbered(number)),
    };
    chart::draw(&mut canvas.below_head(&title), state, device, &choice);
}

/// What PyTorch may reserve where memory ran out, if that is less than the GPU has.
fn limit_at_oom(run: &Run) -> Option<Bytes> {
    let record = run.explained_oom()?.record.as_ref()?;
    record.limit.or(record.sample.limit)
}

/// The step of a run that ran out of memory in its first one: over time that is a few columns, if it was looked at more than once.
/// Who zooms or points in time gets time.
fn only_step<'v>(view: &'v View, state: &State, device: &DeviceState) -> Option<&'v ReadStep> {
    let run = state.run()?;
    let is_alone = state.runs.len() == 1 && run.outcome() == RunOutcome::OutOfMemory;
    let is_asked = view.time.is_chosen() || view.compared.is_some();
    let rank = rank_on(state, device).filter(|_| is_alone && !is_asked)?;
    let read = view.peak.as_ref()?.read()?;
    let is_of_it = (read.key.run, read.key.pid) == (run.number, rank.hello.pid);
    (is_of_it && read.key.failed && rank.steps.count == 0).then_some(read)
}

/// "15.7 of 23.6 GiB": what is in use on the device now, or without NVML what PyTorch has reserved.
fn in_use(state: &State, device: &DeviceState) -> Option<String> {
    // Behind its end the device is empty: that says nothing of the run that is drawn.
    state.run().filter(|run| run.ended.is_none())?;
    let capacity = device.capacity?;
    let figures = Figures::of(device);
    let held = device.used.current().or(device.reserved.current())?;
    Some(format!(
        "{} of {} GiB",
        figures.gib(held),
        figures.gib(capacity)
    ))
}

/// Says in the chart's place why there is none.
fn draw_reasons(canvas: &mut Canvas, lines: &[String]) {
    let width = canvas.area.width;
    // A sentence that is too long is wrapped.
    let of_line = |line: &String| match columns(line) <= width {
        true => vec![StyledLine::of(line, Tone::Dim).behind(&blanks(width, line), Tone::Dim)],
        false => canvas::text(line, width, Tone::Dim),
    };
    let lines: Vec<StyledLine> = lines.iter().flat_map(of_line).collect();
    let first = canvas.area.height.saturating_sub(lines.len() as u16) / 2;
    for (row, line) in (first..).zip(lines) {
        line.draw(canvas, row);
    }
}

/// Before a line in the middle.
fn blanks(width: u16, line: &str) -> String {
    " ".repeat(usize::from((width - columns(line)) / 2))
}

/// Whether the program uses the device, but not by PyTorch.
fn is_used_otherwise(device: &DeviceState, state: &State) -> bool {
    let outside = device.breakdown(state).non_pytorch;
    outside.is_some_and(|bytes| bytes > Bytes::ZERO)
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
    let run = state.run();
    let ended = run.is_some_and(|run| run.ended.is_some());
    // Without PyTorch an OOM is known from the program's output alone.
    let has_failed = run.is_some_and(|run| run.oom_count > 0);
    lines.push(match state.probe() {
        ProbeState::Off => "The probe is off: allocated and reserved are unknown.".to_string(),
        ProbeState::Waiting if ended => {
            "The program has ended; the probe did not see it use the GPU.".to_string()
        }
        ProbeState::Waiting if has_failed => {
            "Memory has run out, as the output says; the probe did not see PyTorch use the GPU."
                .to_string()
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Run;

    #[test]
    fn a_program_that_ran_out_of_memory_without_pytorch_is_not_waited_for() {
        let said = |oom_count| {
            let run = Run {
                oom_count,
                ..Run::default()
            };
            reasons(&State {
                runs: vec![run],
                ..State::default()
            })
        };
        assert_eq!(said(0), ["Waiting for the program to use the GPU."]);
        assert!(
            said(1)[0].starts_with("Memory has run out"),
            "{:?}",
            said(1)
        );
    }
}
