//! The layout of the screen. It depends on the screen's size, the state and the length of the output,
//! never on what was drawn before, so that nothing jumps on its own.
//!
//! ```text
//! 80 columns            110 columns and more       from 40 rows on
//! header                header                     header
//! chart                 chart    │ memory          chart      │ memory
//! RAM, if it matters    RAM      │                 RAM        │ allocator
//! memory as a bar                │                            │ runs
//!                                │ events                     │ the step, if there is room
//!                                                  devices    │ events
//! headroom              headroom                   headroom
//! pane                  pane                       pane
//! tabs                  tabs                       tabs
//! footer                footer                     footer
//! ```
//!
//! The tabs are at the bottom, where they stay whatever pane is chosen and however high it is: a second click at the same place meets the
//! same tab.

use super::banner;
use super::dialog::Dialog;
use super::dialogs::edit;
use super::dialogs::oom::{self, OomLayout};
use super::pane::{Pane, spec::PaneRows};
use super::ram;
use super::scene::{Scene, Subject};
use super::view::{Maximized, View};
use crate::state::State;
use ratatui::layout::Rect;

/// From this width on memory, runs and events have a column of their own, beside the chart; the pane has the whole width,
/// since lines of output are long.
const TWO_COLUMNS: u16 = 110;

/// Below this there is only one line of figures.
const SMALLEST: (u16, u16) = (40, 12);

/// A chart keeps so many rows.
const LEAST_OF_CHART: u16 = 5;

/// Rows by which a pane grows with what it shows.
const ROWS_STEP: u16 = 8;

/// The parts of the screen; `None` without room. Panes include the row of their title; that of the tabs is the last of the pane below the chart.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// The one line of a tiny screen.
    pub line: Option<Rect>,
    pub header: Option<Rect>,
    /// The row that says that the session can only be watched, and why.
    pub banner: Option<Rect>,
    /// All between header and footer.
    pub body: Rect,
    /// The memory breakdown as one bar.
    pub bar: Option<Rect>,
    /// The headroom line.
    pub headroom: Option<Rect>,
    /// The line of the host's memory, once that matters.
    pub ram: Option<Rect>,
    /// Panes with a place of their own.
    pub placed: Vec<(Pane, Rect)>,
    /// The pane that Tab changes.
    pub pane: Option<Rect>,
    pub footer: Option<Rect>,
    /// The panes that Tab goes through: the same on every screen, whatever stands beside the chart or is empty, so that none changes
    /// its place.
    pub tabs: Vec<Pane>,
    /// Panes with nothing to show yet.
    pub absent: Vec<Pane>,
    /// The size of the program's terminal, shown or not.
    pub child: Rect,
    /// The dialog about an OOM, which is laid out once a frame: its rows are known before those of the panes.
    pub oom: Option<OomLayout>,
    /// The column beside the chart.
    side: Option<Rect>,
}

impl Layout {
    pub fn place(&self, pane: Pane) -> Option<Rect> {
        let of = |(placed, area): &(Pane, Rect)| (*placed == pane).then_some(*area);
        self.placed.iter().find_map(of)
    }

    pub fn chart(&self) -> Option<Rect> {
        self.place(Pane::Memory)
    }

    /// The pane without the row of the tabs.
    pub fn inside_pane(&self) -> Option<Rect> {
        let pane = self.pane?;
        Some(Rect {
            height: pane.height.saturating_sub(1),
            ..pane
        })
    }

    /// The row of the tabs.
    pub fn tab_row(&self) -> Option<Rect> {
        let pane = self.pane?;
        Some(Rect {
            y: pane.bottom().saturating_sub(1),
            height: pane.height.min(1),
            ..pane
        })
    }

    /// Where what the pane shows needs fewer rows than it has, the chart gets the others; the program's terminal keeps its size.
    /// `wanted` has the row of the tabs.
    fn shorten_pane(&mut self, wanted: u16) {
        let (Some(pane), Some((Pane::Memory, chart))) = (&mut self.pane, self.placed.first_mut())
        else {
            return;
        };
        let spare = pane.height.saturating_sub(wanted);
        pane.y += spare;
        pane.height -= spare;
        chart.height += spare;
        let column = chart.x;
        if let Some(side) = &mut self.side {
            side.height += spare;
        }
        let below = self.placed.iter_mut().skip(1).map(|(_, area)| area);
        let below = below.filter(|area| area.x == column);
        let lines = [&mut self.bar, &mut self.headroom, &mut self.ram];
        let lines = lines.into_iter().flatten();
        below.chain(lines).for_each(|area| area.y += spare);
    }

    /// Takes the last row of the chart: the program's terminal keeps its size.
    fn make_room_for_ram(&mut self) {
        let chart = self
            .placed
            .iter_mut()
            .find(|(pane, _)| *pane == Pane::Memory);
        let Some((_, chart)) = chart.filter(|(_, chart)| chart.height > LEAST_OF_CHART) else {
            return;
        };
        chart.height -= 1;
        self.ram = Some(Rect {
            y: chart.bottom(),
            height: 1,
            ..*chart
        });
    }

    /// Divides the column beside the chart among its panes, once its height is known.
    fn fill_side(&mut self, view: &View, state: &State) {
        let Some(side) = self.side else { return };
        let mut rows = RowCutter { rest: side };
        for pane in Pane::BESIDE {
            let height = (pane.spec().own_rows)(view, state, self.body.height, rows.rest.height);
            let area = rows.top(height);
            match area.height > 2 {
                true => self.placed.push((pane, area)),
                // Too few rows for it: the next one has them.
                false => {
                    rows.rest.y -= area.height;
                    rows.rest.height += area.height;
                }
            }
        }
    }

    pub fn pane_rows(&self) -> usize {
        self.inside_pane()
            .map_or(0, |inside| usize::from(inside.height))
    }
}

/// Cuts rows off a rectangle.
struct RowCutter {
    rest: Rect,
}

impl RowCutter {
    fn top(&mut self, height: u16) -> Rect {
        let height = height.min(self.rest.height);
        let taken = Rect {
            height,
            ..self.rest
        };
        self.rest.y += height;
        self.rest.height -= height;
        taken
    }

    fn bottom(&mut self, height: u16) -> Rect {
        let height = height.min(self.rest.height);
        self.rest.height -= height;
        Rect {
            y: self.rest.bottom(),
            height,
            ..self.rest
        }
    }
}

/// The layout of this frame.
pub(super) fn layout_of(view: &View, scene: &Scene) -> Layout {
    let mut layout = arranged(view, scene);
    if let Some(Dialog::Oom(dialog)) = &view.dialog {
        layout.oom = Some(oom::compose(view.size, &view.theme, dialog, scene));
    }
    let is_absent = |pane: &Pane| !(pane.spec().is_there)(scene.state);
    let has_tab = |pane: &Pane| (pane.spec().has_tab)(scene.state);
    layout.tabs = Pane::below().filter(has_tab).collect();
    layout.absent = Pane::below().filter(is_absent).collect();
    if let (Maximized::Nothing, Some(pane)) = (view.maximized, layout.pane) {
        let rows = wanted_rows(view, scene, pane.width);
        // What is chosen after an OOM lies over the tabs and the pane's last rows, and never over the chart.
        let below = dialog_rows(view, scene, layout.oom.as_ref());
        layout.shorten_pane(rows.saturating_add(below.max(1)));
    }
    layout.fill_side(view, scene.state);
    layout
}

/// Rows of the chosen pane in which all of it is shown. What grows has them in steps, so that the chart does not
/// move with every line; a recording without output has one row to say so.
fn wanted_rows(view: &View, scene: &Scene, width: u16) -> u16 {
    let in_steps = |rows: u16| rows.div_ceil(ROWS_STEP).max(1).saturating_mul(ROWS_STEP);
    match (view.pane, view.pane.spec().rows) {
        (Pane::Output, _) if !scene.has_output() => 1,
        (Pane::Output, _) => in_steps(view.output.used_rows()),
        (_, PaneRows::Any) => u16::MAX,
        (_, PaneRows::Fixed(rows)) => rows(view, scene, width),
        (_, PaneRows::Growing(rows)) => in_steps(rows(view, scene, width)),
    }
}

/// Rows that a dialog takes from the pane: the one about an OOM stays open, so that the rows are divided anew for it.
fn dialog_rows(view: &View, scene: &Scene, oom: Option<&OomLayout>) -> u16 {
    match &view.dialog {
        Some(Dialog::Edit(editor)) => edit::rows(view.size, &view.theme, editor, scene),
        Some(_) | None => oom.map_or(0, |oom| oom.rect.height),
    }
}

/// Which parts there are and how wide they are: rows may still go from the pane to the chart.
pub(super) fn arranged(view: &View, scene: &Scene) -> Layout {
    arrange(view, scene)
}

fn arrange(view: &View, scene: &Scene) -> Layout {
    let (area, maximized) = (view.size, view.maximized);
    let state = scene.state;
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let mut rows = RowCutter { rest: area };
        let line = rows.top(1);
        return Layout {
            line: Some(line),
            body: rows.rest,
            pane: Some(rows.rest).filter(|rest| rest.height > 1),
            child: rows.rest,
            ..Layout::default()
        };
    }
    let mut rows = RowCutter { rest: area };
    let header = rows.top(1);
    let banner_area = match scene.subject {
        Subject::Elsewhere(session) => {
            let size = (area.width, area.height);
            Some(rows.top(banner::rows(&session, size)))
        }
        Subject::Own | Subject::Recording(_) => None,
    };
    let footer = rows.bottom(1);
    let body = rows.rest;
    let mut layout = if body.width >= TWO_COLUMNS {
        two_columns(body, view, state)
    } else {
        one_column(body)
    };
    match maximized {
        Maximized::Nothing => {}
        Maximized::Chart => layout = chart_alone(body, layout.child),
        Maximized::Pane => {
            layout = Layout {
                pane: Some(body),
                child: body,
                ..Layout::default()
            }
        }
    }
    if ram::is_there(state) {
        layout.make_room_for_ram();
    }
    layout.body = body;
    layout.header = Some(header);
    layout.banner = banner_area;
    layout.footer = Some(footer);
    layout
}

fn one_column(body: Rect) -> Layout {
    let mut rows = RowCutter { rest: body };
    let chart = rows.top((body.height * 11 / 20).max(5));
    let bar = rows.top(1);
    let headroom = rows.top(1);
    Layout {
        bar: Some(bar),
        headroom: Some(headroom),
        placed: vec![(Pane::Memory, chart)],
        pane: Some(rows.rest),
        child: rows.rest,
        ..Layout::default()
    }
}

fn two_columns(body: Rect, view: &View, state: &State) -> Layout {
    let side_width = (body.width * 3 / 10).clamp(34, 56);
    let left = Rect {
        width: body.width - side_width - 2,
        ..body
    };
    let side = Rect {
        x: left.right() + 2,
        width: side_width,
        ..body
    };
    let mut placed = Vec::new();
    let mut place = |pane: Pane, rows: &mut RowCutter| {
        let height = (pane.spec().own_rows)(view, state, body.height, rows.rest.height);
        placed.push((pane, rows.top(height)));
    };
    let mut rows = RowCutter { rest: left };
    place(Pane::Memory, &mut rows);
    place(Pane::Devices, &mut rows);
    let beside = Rect {
        height: body.height - rows.rest.height,
        ..side
    };
    rows.rest.width = body.width;
    let headroom = rows.top(1);
    let pane = rows.rest;
    placed.retain(|(_, area)| area.height > 2);
    Layout {
        headroom: Some(headroom),
        placed,
        side: Some(beside),
        pane: Some(pane),
        child: pane,
        ..Layout::default()
    }
}

fn chart_alone(body: Rect, child: Rect) -> Layout {
    let mut rows = RowCutter { rest: body };
    let headroom = rows.bottom(1);
    let bar = rows.bottom(1);
    Layout {
        placed: vec![(Pane::Memory, rows.rest)],
        bar: Some(bar),
        headroom: Some(headroom),
        child,
        ..Layout::default()
    }
}

/// Rows and columns of the program's terminal.
pub(super) fn child_size(layout: &Layout) -> (u16, u16) {
    (
        layout.child.height.saturating_sub(1).max(2),
        layout.child.width.max(2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Run;
    use crate::ui::scene::Elsewhere;
    use crate::ui::theme::Theme;

    #[test]
    fn parts_never_overlap_and_never_leave_the_screen() {
        let state = State::default();
        let own = Scene::of(&state);
        let elsewhere = Scene {
            subject: Subject::Elsewhere(Elsewhere {
                place: "gpu-7",
                heard: None,
                trouble: None,
                command: "",
            }),
            ..own
        };
        for scene in [own, elsewhere] {
            check(&scene);
        }
    }

    #[test]
    fn events_have_a_place_beside_the_output() {
        let mut state = State::default();
        for runs in 1..=3 {
            state.runs.push(Run::default());
            let scene = Scene::of(&state);
            for (width, height) in [(110, 36), (120, 36), (120, 40), (160, 45), (200, 60)] {
                let mut view = View::new(Theme::full(), width, height);
                view.output
                    .feed("a line of output\r\n".repeat(90).as_bytes());
                let layout = layout_of(&view, &scene);
                let [events, runs_at] = [Pane::Events, Pane::Runs].map(|pane| layout.place(pane));
                assert!(events.is_some(), "{width}x{height}, {runs} runs");
                assert!(
                    runs < 2 || runs_at.is_some(),
                    "{width}x{height}, {runs} runs"
                );
            }
        }
    }

    fn check(scene: &Scene) {
        for width in (0..230).step_by(7) {
            for height in 0..70 {
                let area = Rect::new(0, 0, width, height);
                for maximized in [Maximized::Nothing, Maximized::Chart, Maximized::Pane] {
                    let mut view = View::new(Theme::full(), width, height);
                    view.maximized = maximized;
                    let mut layout = arrange(&view, scene);
                    let size = child_size(&layout);
                    if maximized == Maximized::Nothing && width % 2 == 0 {
                        layout.shorten_pane(height / 3 + 2);
                        assert_eq!(child_size(&layout), size);
                    }
                    layout.fill_side(&view, scene.state);
                    let placed = layout.placed.iter().map(|(_, area)| Some(*area));
                    let parts: Vec<Rect> = [
                        layout.line,
                        layout.header,
                        layout.banner,
                        layout.bar,
                        layout.headroom,
                        layout.pane,
                        layout.footer,
                    ]
                    .into_iter()
                    .chain(placed)
                    .flatten()
                    .filter(|part| !part.is_empty())
                    .collect();
                    for (n, part) in parts.iter().enumerate() {
                        assert_eq!(part.intersection(area), *part, "{width}x{height}");
                        for other in &parts[n + 1..] {
                            assert!(!part.intersects(*other), "{width}x{height} {maximized:?}");
                        }
                    }
                    let (rows, cols) = child_size(&layout);
                    assert!(rows >= 2 && cols >= 2);
                }
            }
        }
    }
}
