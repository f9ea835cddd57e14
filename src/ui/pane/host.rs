//! The host's memory: what counts against the limit, and the processes of the run with what each holds.

use crate::event::{HostMemory, HostProcess};
use crate::state::State;
use crate::ui::canvas::Canvas;
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec, Scrolling};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::units::Bytes;
use ratatui::layout::Rect;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    is_there: |state| state.host.latest().is_some(),
    scrolling: Scrolling::List {
        length: |scene| {
            let latest = scene.state.host.latest();
            latest.map_or(0, |(_, memory)| memory.processes.len())
        },
        shown,
    },
    rows: PaneRows::Growing(|_, scene, _| {
        let latest = scene.state.host.latest();
        ABOVE + latest.map_or(0, |(_, memory)| memory.processes.len() as u16)
    }),
    ..PaneSpec::plain("RAM", draw)
};

/// Rows above the processes: the sum, what it consists of, the heads.
const ABOVE: u16 = 3;

fn shown(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(ABOVE)).max(1)
}

fn draw(canvas: &mut Canvas, _: &View, scene: &Scene, list: ListScroll) {
    let state = scene.state;
    let Some((_, memory)) = state.host.latest() else {
        let words = "unknown until the first look at the processes";
        canvas.pen(0).skip(1).rest(words, Tone::Dim);
        return;
    };
    let tone = match state.host.matters() {
        true => Tone::Warning,
        false => Tone::Text,
    };
    let sum = format!("{} of {}", memory.used, memory.limit);
    canvas
        .pen(0)
        .text(&sum, tone)
        .text(&format!("  {}", memory.limited_by.words()), Tone::Dim)
        .rest(&growth(state), Tone::Warning);
    canvas.pen(1).rest(&parts(state, memory), Tone::Dim);
    let wide = HostColumns::new(canvas.area.width);
    let mut pen = canvas.pen(2);
    pen.text("    PID  role              resident", Tone::Dim);
    if wide.shared {
        pen.text("    shared", Tone::Dim);
    }
    if wide.own {
        pen.text("       own  grown/min", Tone::Dim).skip(2);
        if pen.room() >= LEAST_NAME {
            pen.text("name", Tone::Dim);
        }
    }
    let shown = shown(canvas.area);
    let first = list.first(memory.processes.len(), shown);
    // The list stands at its end: there is the largest.
    let processes = memory.processes.iter().rev().skip(first).take(shown);
    for (place, process) in (ABOVE..).zip(processes) {
        draw_process(canvas, place, state, process);
    }
}

fn draw_process(canvas: &mut Canvas, row: u16, state: &State, process: &HostProcess) {
    let own = process.own.map_or("–".into(), |own| own.to_string());
    let grown = state.host.process_growth(process.pid);
    let (grown, tone) = match grown {
        Some(per_minute) if per_minute >= WORTH_TELLING => {
            (format!("+{per_minute}"), Tone::Warning)
        }
        Some(_) => ("–".into(), Tone::Dim),
        None => (String::new(), Tone::Dim),
    };
    let wide = HostColumns::new(canvas.area.width);
    let mut pen = canvas.pen(row);
    pen.text(&format!("{:>7}  ", process.pid), Tone::Dim)
        .text(&format!("{:<16}", process.role.label()), Tone::Text)
        .text(&format!("{:>10}", process.resident.to_string()), Tone::Text);
    if wide.shared {
        pen.text(&format!("{:>10}", process.shared.to_string()), Tone::Text);
    }
    if wide.own {
        pen.text(&format!("{own:>10}"), Tone::Text)
            .text(&format!("{grown:>11}"), tone)
            .skip(2);
        if pen.room() >= LEAST_NAME {
            pen.rest(&process.name, Tone::Dim);
        }
    }
}

/// Less of a process's name says nothing.
const LEAST_NAME: u16 = 8;

/// The columns that there is room for, so that none is cut.
#[derive(Clone, Copy)]
struct HostColumns {
    shared: bool,
    /// What is its own, and how much that has grown.
    own: bool,
}

impl HostColumns {
    fn new(width: u16) -> HostColumns {
        HostColumns {
            shared: width >= 66,
            own: width >= 56,
        }
    }
}

/// Less in a minute is noise.
const WORTH_TELLING: Bytes = Bytes::mib(8);

/// "  +1.20 GiB a minute, full in 8 min"
fn growth(state: &State) -> String {
    state.host.growth().map_or_else(String::new, |growth| {
        let minutes = growth.full_in.as_secs().div_ceil(60);
        format!("  +{} a minute, full in {minutes} min", growth.per_minute)
    })
}

/// What it consists of besides processes, and what cannot be seen.
fn parts(state: &State, memory: &HostMemory) -> String {
    let figure = |what: &str, bytes: Option<Bytes>| bytes.map(|bytes| format!("{what} {bytes}"));
    let shm = memory
        .shm
        .map(|shm| format!("/dev/shm {} of {}", shm.used, shm.size));
    let unseen = state.host.unseen().iter();
    let unseen = unseen.map(|what| what.words().to_string());
    let all = [
        figure("shared memory", memory.shared),
        shm,
        figure("pinned", state.pinned()),
        figure("cache of files", memory.cache),
        figure("swap", memory.swap),
    ];
    let all: Vec<String> = all.into_iter().flatten().chain(unseen).collect();
    all.join(", ")
}
