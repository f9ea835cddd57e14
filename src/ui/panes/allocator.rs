//! PyTorch's caching allocator: what its two pools hold and what of it is of no use, how often it
//! had to try again, and how it is set. What is not said is unknown, never zero.

use crate::event::Pool;
use crate::state::{DeviceState, RankState, State};
use crate::ui::figures::count;
use crate::ui::list::ListScroll;
use crate::ui::pen::Pen;
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::View;
use crate::units::Bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Rows without the title.
pub const HEIGHT: u16 = 9;

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The two pools, and the rest of what is known below them.
    Narrow,
    /// Both together as well, and the rest beside them.
    Wide,
    /// With words between that say what a row is.
    Wordy,
}

impl Shape {
    fn of(width: u16) -> Shape {
        match width {
            118.. => Shape::Wordy,
            76.. => Shape::Wide,
            _ => Shape::Narrow,
        }
    }
}

/// Columns of the words that say what a row is.
const WORDS: u16 = 34;

/// Columns of a name.
const NAME: u16 = 15;

/// Columns of a figure: `1023 KiB`.
const FIGURE: usize = 10;

/// What is known of one pool, or of both together.
#[derive(Default, Clone, Copy)]
struct Column {
    allocated: Option<Bytes>,
    reserved: Option<Bytes>,
    inactive_split: Option<Bytes>,
    segments: Option<u64>,
}

impl Column {
    fn of(pool: Pool) -> Column {
        Column {
            allocated: Some(pool.allocated),
            reserved: Some(pool.reserved),
            inactive_split: Some(pool.inactive_split),
            segments: Some(pool.segments),
        }
    }

    /// What of `self` is not in `part`.
    fn without(self, part: Column) -> Column {
        let rest = |all: Option<Bytes>, part: Option<Bytes>| Some(all? - part?);
        Column {
            allocated: rest(self.allocated, part.allocated),
            reserved: rest(self.reserved, part.reserved),
            inactive_split: rest(self.inactive_split, part.inactive_split),
            segments: self
                .segments
                .zip(part.segments)
                .map(|(all, part)| all.saturating_sub(part)),
        }
    }

    fn unallocated(self) -> Option<Bytes> {
        Some(self.reserved? - self.allocated?)
    }
}

/// The process whose allocator is shown: the one that reserves most of the device.
fn rank_on<'a>(state: &'a State, device: &DeviceState) -> Option<&'a RankState> {
    let ranks = state.run()?.ranks.iter();
    ranks
        .filter(|rank| rank.device.as_ref() == Some(&device.uuid))
        .max_by_key(|rank| rank.sample.as_ref().map(|(_, sample)| sample.reserved))
}

/// Whose allocator is shown, where there are several.
pub fn rank_name(view: &View, state: &State) -> Option<String> {
    let rank = rank_on(state, view.device(state)?)?;
    Some(match rank.hello.rank {
        Some(number) => format!("rank {number}"),
        None if state.run()?.ranks.len() > 1 => format!("process {}", rank.hello.pid),
        None => return None,
    })
}

/// Draws the table.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene, _: ListScroll) {
    let (theme, state) = (&view.theme, scene.state);
    let dim = theme.style(Tone::Dim);
    let rank = view.device(state).and_then(|device| rank_on(state, device));
    let Some((rank, (_, sample))) = rank.and_then(|rank| Some((rank, rank.sample.as_ref()?)))
    else {
        let room = area.width;
        let words = "unknown: the probe has read nothing of it yet";
        Pen::new(buf, area, 0)
            .skip(1)
            .cut(words, room.saturating_sub(1), theme, dim);
        return;
    };
    let all = Column {
        allocated: Some(sample.allocated),
        reserved: Some(sample.reserved),
        inactive_split: sample.inactive_split,
        segments: sample.segments,
    };
    let small = sample.small_pool.map_or(Column::default(), Column::of);
    let shape = Shape::of(area.width);
    let mut table = Table {
        area,
        row: 0,
        theme,
        columns: [small, all.without(small), all],
        shape,
    };
    table.heads(buf);
    table.bytes(buf, "allocated", Tone::Allocated, "in tensors", |c| {
        c.allocated
    });
    table.bytes(
        buf,
        "reserved",
        Tone::Reserved,
        "held from the device",
        |c| c.reserved,
    );
    let said = "reserved, in no tensor";
    table.bytes(buf, "unallocated", Tone::Text, said, Column::unallocated);
    let said = "of it, what lies beside tensors";
    table.bytes(buf, "inactive split", Tone::Text, said, |c| {
        c.inactive_split
    });
    table.figures(buf, "segments", "pieces held from the device", |c| {
        c.segments.map_or("?".to_string(), count)
    });
    if shape != Shape::Narrow {
        table.begin_beside();
    }
    table.line(
        buf,
        "retries",
        &retries(rank),
        tone_of(sample.alloc_retries),
    );
    table.line(buf, "largest free", &largest_free(state, rank), Tone::Dim);
    table.line(buf, "settings", &settings(rank), Tone::Dim);
    if let Some(requested) = sample.requested {
        let lost = sample.allocated - requested;
        table.line(buf, "rounding", &format!("{lost} lost to it"), Tone::Dim);
    }
}

fn tone_of(retries: u64) -> Tone {
    match retries {
        0 => Tone::Dim,
        _ => Tone::Warning,
    }
}

/// How often cudaMalloc failed and was tried again, and when last.
fn retries(rank: &RankState) -> String {
    let (retries, ooms) = rank
        .sample
        .as_ref()
        .map_or((0, 0), |(_, sample)| (sample.alloc_retries, sample.ooms));
    match ooms {
        0 => count(retries),
        1 => format!("{}, 1 out-of-memory", count(retries)),
        n => format!("{}, {} out-of-memories", count(retries), count(n)),
    }
}

/// The largest free piece: known from the snapshot at an out-of-memory alone, which is too dear to
/// be taken at other times.
fn largest_free(state: &State, rank: &RankState) -> String {
    let oom = state.run().and_then(|run| {
        let of_rank = |oom: &&crate::state::OomIncident| oom.pid == Some(rank.hello.pid);
        run.ooms.iter().rev().find(of_rank)
    });
    match oom.and_then(|oom| oom.record.as_ref()?.largest_free) {
        Some(bytes) => format!("{bytes} at the OOM"),
        None => String::from("unknown, no OOM yet"),
    }
}

fn settings(rank: &RankState) -> String {
    let hello = &rank.hello;
    let segments = match hello.expandable_segments {
        Some(true) => "expandable segments",
        Some(false) => "fixed segments",
        None => "segments unknown",
    };
    let conf = hello.alloc_conf.as_deref().filter(|conf| !conf.is_empty());
    match (&hello.backend, conf) {
        (_, Some(conf)) => format!("{segments}, {conf}"),
        (Some(backend), None) if backend != "native" => format!("{segments}, {backend}"),
        (Some(_) | None, None) => String::from(segments),
    }
}

/// Rows from above, each a name and a figure for each pool.
struct Table<'t> {
    area: Rect,
    row: u16,
    theme: &'t Theme,
    columns: [Column; 3],
    shape: Shape,
}

impl Table<'_> {
    /// The columns that there is room for, and where they begin.
    fn shown(&self) -> &[Column] {
        match self.shape {
            Shape::Narrow => &self.columns[..2],
            Shape::Wide | Shape::Wordy => &self.columns,
        }
    }

    /// What follows stands beside the table, from its first row of figures on.
    fn begin_beside(&mut self) {
        let words = match self.shape {
            Shape::Narrow | Shape::Wide => 0,
            Shape::Wordy => WORDS,
        };
        let width = NAME + 3 * FIGURE as u16 + 2 + words;
        self.area.x += width;
        self.area.width -= width.min(self.area.width);
        self.row = 1;
    }

    fn heads(&mut self, buf: &mut Buffer) {
        let names = ["small", "large", "both"];
        let dim = self.theme.style(Tone::Dim);
        let mut pen = Pen::new(buf, self.area, self.row);
        pen.skip(NAME);
        for name in &names[..self.shown().len()] {
            pen.text(&format!("{name:>FIGURE$}"), dim);
        }
        self.row += 1;
    }

    fn bytes(
        &mut self,
        buf: &mut Buffer,
        name: &str,
        tone: Tone,
        words: &str,
        of: impl Fn(Column) -> Option<Bytes>,
    ) {
        let pen = self.begin(buf, name, tone);
        let figure = |column| of(column).map_or("?".to_string(), |bytes| bytes.to_string());
        self.fill(pen, words, figure);
        self.row += 1;
    }

    fn figures(
        &mut self,
        buf: &mut Buffer,
        name: &str,
        words: &str,
        of: impl Fn(Column) -> String,
    ) {
        let pen = self.begin(buf, name, Tone::Text);
        self.fill(pen, words, of);
        self.row += 1;
    }

    fn begin<'b>(&self, buf: &'b mut Buffer, name: &str, tone: Tone) -> Pen<'b> {
        let mut pen = Pen::new(buf, self.area, self.row);
        pen.skip(1)
            .text(name, self.theme.style(tone))
            .to(self.area.x + NAME);
        pen
    }

    fn fill(&self, mut pen: Pen, words: &str, of: impl Fn(Column) -> String) {
        for column in self.shown() {
            let text = of(*column);
            let tone = if text == "?" { Tone::Dim } else { Tone::Text };
            pen.text(&format!("{text:>FIGURE$}"), self.theme.style(tone));
        }
        if self.shape == Shape::Wordy {
            pen.skip(2);
            pen.cut(words, WORDS, self.theme, self.theme.style(Tone::Dim));
        }
    }

    fn line(&mut self, buf: &mut Buffer, name: &str, words: &str, tone: Tone) {
        let mut pen = self.begin(buf, name, Tone::Text);
        let room = pen.room();
        pen.skip(1).cut(
            words,
            room.saturating_sub(1),
            self.theme,
            self.theme.style(tone),
        );
        self.row += 1;
    }
}
