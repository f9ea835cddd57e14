//! What a traced step is made of, as it is looked at: the step, the cursor in it and what is alive
//! there. Worked out where one of them changes and not for each frame: a step has up to 20,000
//! events.

use crate::anatomy::{
    Category, FlameNode, Holding, ModuleHolding, StepAnatomy, by_line, by_module,
    categories_over_time, flame,
};
use crate::event::StepTrace;
use crate::state::StepTraces;
use crate::ui::step::flame_place::FlamePlace;
use crate::units::{Bytes, Pid, RunNumber};
use std::cmp::Reverse;

/// Names a traced step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) struct StepKey {
    pub run: RunNumber,
    pub pid: Pid,
    pub step: u64,
    pub failed: bool,
}

#[derive(Debug, PartialEq)]
pub(in crate::ui) enum StepView {
    /// No step of the process has been traced yet.
    Nothing,
    /// A recording's, and it says nothing that can be read.
    Unreadable(StepKey),
    /// The step that ran out of memory, where it was not traced: what was alive then is known by line.
    Failed(StepKey),
    Read(Box<ReadStep>),
}

/// How what is alive is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::ui) enum Grouping {
    /// By the program's line.
    #[default]
    Lines,
    /// By the model's module.
    Modules,
    /// As a flame graph of the modules.
    Flame,
    /// What grows from step to step, and who keeps it alive.
    Growth,
}

/// What the rows of the table are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::ui) enum RowOrder {
    /// The largest first.
    #[default]
    Bytes,
    /// The most blocks first.
    Blocks,
    /// By file and line, or by the module's name; what has none comes last.
    Name,
}

impl RowOrder {
    pub(in crate::ui) fn next(self) -> RowOrder {
        match self {
            RowOrder::Bytes => RowOrder::Blocks,
            RowOrder::Blocks => RowOrder::Name,
            RowOrder::Name => RowOrder::Bytes,
        }
    }
}

impl Grouping {
    /// The words of the key that leads to it.
    pub(in crate::ui) fn title(self) -> &'static str {
        match self {
            Grouping::Lines => "lines",
            Grouping::Modules => "modules",
            Grouping::Flame => "flame graph",
            Grouping::Growth => "growth",
        }
    }

    pub(in crate::ui) fn next(self) -> Grouping {
        match self {
            Grouping::Lines => Grouping::Modules,
            Grouping::Modules => Grouping::Flame,
            Grouping::Flame => Grouping::Growth,
            Grouping::Growth => Grouping::Lines,
        }
    }
}

#[derive(Debug, PartialEq)]
pub(in crate::ui) struct ReadStep {
    pub key: StepKey,
    pub anatomy: StepAnatomy,
    /// The bytes of each category at each position, in the order of [`Category::ALL`].
    pub categories: Vec<[Bytes; Category::ALL.len()]>,
    /// The most of each at any position.
    pub most: [Bytes; Category::ALL.len()],
    pub peak: usize,
    pub allocations: usize,
    /// A position.
    pub cursor: usize,
    /// The lines that hold memory at the cursor.
    pub lines: Vec<Holding>,
    /// The modules that do; empty if none is known.
    pub modules: Vec<ModuleHolding>,
    pub flame: Vec<FlameNode>,
    pub flame_place: FlamePlace,
    pub grouping: Grouping,
    pub order: RowOrder,
    /// The first line or module to show.
    pub scrolled: usize,
    /// The row that the pointer stands on.
    pub selected: usize,
    /// Whether all is shown that is known of that row.
    pub row_is_open: bool,
    /// Whether a later step takes its place: nobody has looked about in it.
    pub follows: bool,
}

impl StepKey {
    pub(in crate::ui) fn new(run: RunNumber, trace: &StepTrace) -> StepKey {
        StepKey {
            run,
            pid: trace.pid,
            step: trace.step,
            failed: trace.failed,
        }
    }
}

impl StepView {
    /// One of these traced steps, with the cursor at its peak.
    pub(in crate::ui) fn new(run: RunNumber, trace: &StepTrace, of: &StepTraces) -> StepView {
        let key = StepKey::new(run, trace);
        let Ok(anatomy) = StepAnatomy::among(trace, of) else {
            return StepView::Unreadable(key);
        };
        let categories = categories_over_time(&anatomy);
        let mut most = [Bytes::ZERO; Category::ALL.len()];
        for (most, place) in most.iter_mut().zip(0..) {
            *most = (categories.iter().map(|of| of[place]).max()).unwrap_or_default();
        }
        let mut read = ReadStep {
            key,
            categories,
            most,
            peak: anatomy.peak(),
            allocations: anatomy.allocations(),
            anatomy,
            cursor: 0,
            lines: Vec::new(),
            modules: Vec::new(),
            flame: Vec::new(),
            flame_place: FlamePlace::default(),
            grouping: Grouping::default(),
            order: RowOrder::default(),
            scrolled: 0,
            selected: 0,
            row_is_open: false,
            follows: true,
        };
        read.point_at(read.peak);
        StepView::Read(Box::new(read))
    }

    /// A step, grouped and sorted as another one was.
    pub(in crate::ui) fn grouped(
        run: RunNumber,
        trace: &StepTrace,
        of: &StepTraces,
        grouping: Grouping,
        order: RowOrder,
    ) -> StepView {
        let mut view = StepView::new(run, trace, of);
        if let Some(read) = view.read_mut() {
            read.grouping = grouping;
            read.sort_by(order);
        }
        view
    }

    pub(in crate::ui) fn key(&self) -> Option<StepKey> {
        match self {
            StepView::Nothing => None,
            StepView::Unreadable(key) | StepView::Failed(key) => Some(*key),
            StepView::Read(read) => Some(read.key),
        }
    }

    pub(in crate::ui) fn read(&self) -> Option<&ReadStep> {
        match self {
            StepView::Nothing | StepView::Unreadable(_) | StepView::Failed(_) => None,
            StepView::Read(read) => Some(read),
        }
    }

    pub(in crate::ui) fn read_mut(&mut self) -> Option<&mut ReadStep> {
        match self {
            StepView::Nothing | StepView::Unreadable(_) | StepView::Failed(_) => None,
            StepView::Read(read) => Some(read),
        }
    }
}

impl ReadStep {
    /// Whether its curve is shown, which has the cursor: what stays between steps is of no one step.
    pub fn has_curve(&self) -> bool {
        self.grouping != Grouping::Growth
    }

    /// Moves the cursor to a position.
    pub(in crate::ui) fn point_at(&mut self, position: usize) {
        self.cursor = position.min(self.anatomy.end());
        self.lines = by_line(&self.anatomy, self.cursor);
        self.modules = by_module(&self.anatomy, self.cursor);
        self.flame = flame(&self.anatomy, self.cursor);
        self.sort();
        self.select(self.selected);
    }

    /// Puts the pointer on a row, or on the last one.
    pub(in crate::ui) fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows().saturating_sub(1));
        self.row_is_open &= self.rows() > 0;
    }

    /// Scrolls as far as needed to have the pointer's row among so many in view.
    pub(in crate::ui) fn show_selected(&mut self, shown: usize) {
        let least = (self.selected + 1).saturating_sub(shown.max(1));
        self.scrolled = self.scrolled.clamp(least, self.selected);
    }

    /// Sorts the rows by another column.
    pub(in crate::ui) fn sort_by(&mut self, order: RowOrder) {
        self.order = order;
        self.sort();
    }

    fn sort(&mut self) {
        // A stable sort: rows that compare equal stay largest first.
        self.lines.sort_by_key(|held| Reverse(held.bytes));
        self.modules.sort_by_key(|held| Reverse(held.bytes));
        match self.order {
            RowOrder::Bytes => {}
            RowOrder::Blocks => {
                self.lines.sort_by_key(|held| Reverse(held.blocks));
                self.modules.sort_by_key(|held| Reverse(held.blocks));
            }
            RowOrder::Name => {
                self.lines.sort_by_cached_key(|held| {
                    let line = held.line.as_ref();
                    (
                        line.is_none(),
                        line.map(|line| (line.file.clone(), line.line)),
                    )
                });
                self.modules
                    .sort_by_cached_key(|held| (held.module.is_none(), held.module.clone()));
            }
        }
    }

    /// Rows of the table, as it is grouped.
    pub(in crate::ui) fn rows(&self) -> usize {
        match self.grouping {
            Grouping::Lines => self.lines.len(),
            Grouping::Modules => self.modules.len(),
            Grouping::Flame | Grouping::Growth => 0,
        }
    }

    pub(in crate::ui) fn at_cursor(&self) -> Bytes {
        self.anatomy.allocated[self.cursor]
    }
}
