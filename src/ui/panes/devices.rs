//! Devices and ranks: one row each, with what NVML and the probe say of it; the odd one out is
//! marked, since a training is as large as its largest rank.

use crate::state::{DeviceState, RankState, State};
use crate::ui::figures::{Figures, count};
use crate::ui::pen::Pen;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::View;
use crate::units::Bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A rank whose peak is so much above the median is the odd one out.
const ODD: f64 = 1.1;

/// A row: a device, and the rank on it where there is one.
struct Row<'a> {
    number: usize,
    device: &'a DeviceState,
    rank: Option<&'a RankState>,
}

fn rows(state: &State) -> impl Iterator<Item = Row<'_>> {
    state
        .devices
        .iter()
        .enumerate()
        .flat_map(|(number, device)| {
            let mut ranks = ranks_on(state, device).peekable();
            let bare = ranks.peek().is_none().then_some(Row {
                number,
                device,
                rank: None,
            });
            let with_ranks = ranks.map(move |rank| Row {
                number,
                device,
                rank: Some(rank),
            });
            bare.into_iter().chain(with_ranks)
        })
}

fn ranks_on<'a>(state: &'a State, device: &'a DeviceState) -> impl Iterator<Item = &'a RankState> {
    state
        .run()
        .into_iter()
        .flat_map(|run| &run.ranks)
        .filter(|rank| rank.device.as_ref() == Some(&device.uuid))
}

/// How many rows there are.
pub fn length(state: &State) -> usize {
    rows(state).count()
}

/// Draws the table, its heads first, scrolled so that the selected device is in sight.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, state: &State) {
    let theme = &view.theme;
    let heads = theme.style(Tone::Dim);
    Pen::new(buf, area, 0)
        .text(
            "  GPU rank   alloc  reserv    peak    used    free  util   ",
            heads,
        )
        .text(theme.glyphs.celsius, heads)
        .text("     W      step", heads);
    let median = median_peak(state);
    let shown = usize::from(area.height.saturating_sub(1));
    let selected = rows(state).position(|row| row.number == view.device);
    let most = length(state).saturating_sub(shown);
    let first = selected.unwrap_or(0).saturating_sub(shown / 2).min(most);
    for (place, row) in (1..).zip(rows(state).skip(first).take(shown)) {
        let mut pen = Pen::new(buf, area, place);
        draw_row(
            &mut pen,
            theme,
            state,
            &row,
            row.number == view.device,
            median,
        );
    }
}

fn draw_row(
    pen: &mut Pen,
    theme: &Theme,
    state: &State,
    row: &Row,
    selected: bool,
    median: Option<Bytes>,
) {
    let figures = Figures::of(row.device.capacity);
    let gone = row.rank.is_some_and(|rank| rank.gone.is_some());
    let text = theme.style(if gone { Tone::Dim } else { Tone::Text });
    let mark = if selected { theme.glyphs.pointer } else { " " };
    let name = row.rank.and_then(|rank| rank.hello.rank);
    let name = name.map_or("-".to_string(), |rank| rank.to_string());
    pen.text(mark, theme.style(Tone::Accent))
        .text(&format!(" {:>3} {name:>4}", row.device.index), text);
    let sample = row.rank.and_then(|rank| rank.sample.as_ref());
    let of_rank = |bytes: Option<Bytes>| format!("   {}", figures.column(bytes));
    pen.text(
        &of_rank(sample.map(|(_, s)| s.allocated)),
        theme.style(Tone::Allocated),
    )
    .text(
        &of_rank(sample.map(|(_, s)| s.reserved)),
        theme.style(Tone::Reserved),
    );
    let peak = row.rank.map(|rank| rank.allocated_peak);
    let odd = peak
        .zip(median)
        .is_some_and(|(peak, median)| peak > median.scale(ODD));
    let peak_tone = if odd { Tone::Warning } else { Tone::Text };
    pen.text(&of_rank(peak), theme.style(peak_tone));
    let reading = row.device.fresh(state).map(|(_, reading)| reading);
    let free = row.device.headroom(state).map(|room| room.bytes);
    pen.text(&of_rank(reading.and_then(|r| r.used)), text)
        .text(&of_rank(free), text);
    let number = |value: Option<u32>| value.map_or("-".to_string(), |value| value.to_string());
    let utilization = reading.and_then(|r| r.utilization);
    let watts = reading.and_then(|r| r.power).map(|w| w.round() as u32);
    pen.text(&format!("  {:>3}%", number(utilization)), text)
        .text(
            &format!("  {:>3}", number(reading.and_then(|r| r.temperature))),
            text,
        )
        .text(&format!("  {:>4}", number(watts)), text);
    if let Some(rank) = row.rank {
        pen.text(&format!("  {:>8}", count(rank.steps.count)), text);
    }
    if odd {
        pen.text(
            &format!("  {} odd one out", theme.glyphs.climb),
            theme.style(Tone::Warning),
        );
    }
    if gone {
        pen.text("  gone", theme.style(Tone::Warning));
    }
    if let Some(reason) = row
        .device
        .reading
        .as_ref()
        .and_then(|(_, r)| r.lost.as_ref())
    {
        pen.text("  ", text).text(reason, theme.style(Tone::Wrong));
    }
}

/// The middle of the ranks' peaks; `None` for fewer than three, of which none is odd.
fn median_peak(state: &State) -> Option<Bytes> {
    let mut peaks: Vec<Bytes> = state
        .run()?
        .ranks
        .iter()
        .map(|rank| rank.allocated_peak)
        .collect();
    peaks.sort_unstable();
    (peaks.len() >= 3).then(|| peaks[peaks.len() / 2])
}
