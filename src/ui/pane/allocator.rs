//! PyTorch's caching allocator: its two pools, what is wasted in them, its retries and settings.
//! Unknown figures are shown as unknown, not as zero.

use crate::event::{Pool, Sample};
use crate::state::{RankState, RunOutcome, State};
use crate::ui::canvas::{self, Canvas, Pen};
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::count;
use crate::ui::words::{rank_name, rank_on};
use crate::units::Bytes;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    subtitle: |view, state| Some((moment_words(view, state)?, Tone::Dim)),
    own_rows: |_, _, _, rest| match rest > HEIGHT + BELOW {
        true => HEIGHT + 1,
        false => 0,
    },
    rows: PaneRows::Fixed(|_, _, width| match width {
        // The facts stand beside the pools.
        WIDE.. => 1 + FACTS,
        _ => HEIGHT,
    }),
    short: "alloc",
    ..PaneSpec::plain("allocator", draw)
};

/// Rows that runs and events have below it, at least.
const BELOW: u16 = 12;

const HEIGHT: u16 = 8;

/// Rows of the facts.
const FACTS: u16 = 4;

/// From this width on there is a column for both pools together, and the facts stand beside it.
const WIDE: u16 = 76;

/// Columns of a row's explanation.
const WORDS: u16 = 46;

const NAME: u16 = 15;

/// Columns of a figure: `1023 KiB`.
const FIGURE: usize = 10;

/// What is known of one pool or of both together.
#[derive(Default, Clone, Copy)]
struct PoolColumn {
    reserved: Option<Bytes>,
    inactive_split: Option<Bytes>,
    segments: Option<u64>,
}

impl PoolColumn {
    fn new(pool: Pool) -> PoolColumn {
        PoolColumn {
            reserved: Some(pool.reserved),
            inactive_split: Some(pool.inactive_split),
            segments: Some(pool.segments),
        }
    }

    /// With no more free pieces than so much.
    fn with_pieces_within(self, most: Bytes) -> PoolColumn {
        PoolColumn {
            inactive_split: self.inactive_split.map(|pieces| pieces.min(most)),
            ..self
        }
    }

    /// What is in `self` but not in `part`.
    fn without(self, part: PoolColumn) -> PoolColumn {
        let rest = |all: Option<Bytes>, part: Option<Bytes>| Some(all? - part?);
        PoolColumn {
            reserved: rest(self.reserved, part.reserved),
            inactive_split: rest(self.inactive_split, part.inactive_split),
            segments: self
                .segments
                .zip(part.segments)
                .map(|(all, part)| all.saturating_sub(part)),
        }
    }
}

/// Whose allocator is shown, if there are several, and of when its figures are: the moment of those beside the chart.
fn moment_words(view: &View, state: &State) -> Option<String> {
    let run = state.run()?;
    let rank = rank_on(state, view.device(state)?)?;
    let when = match (run.ended, at_oom(state, rank)) {
        (_, Some(_)) => "when memory ran out",
        (Some(_), None) => "before the end",
        (None, None) => "peak of the last 5 s",
    };
    Some(match rank_name(run, rank) {
        Some(name) => format!("{name}, {when}"),
        None => when.to_string(),
    })
}

/// Name, tone, explanation, and the figure of a pool.
type PoolRow = (
    &'static str,
    Tone,
    &'static str,
    fn(PoolColumn) -> Option<String>,
);

/// What is allocated changes within a step and stands beside the chart, with its moment.
const ROWS: [PoolRow; 3] = [
    (
        "reserved",
        Tone::Reserved,
        "taken from CUDA, in use or cached",
        |pool| Some(pool.reserved?.to_string()),
    ),
    (
        "fragments",
        Tone::Text,
        "free, cannot be given back: inactive split",
        |pool| Some(pool.inactive_split?.to_string()),
    ),
    (
        "cudaMallocs",
        Tone::Text,
        "segments that the blocks are cut from",
        |pool| pool.segments.map(count),
    ),
];

/// Draws the pools, and the other facts below or beside them.
fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    let state = scene.state;
    let rank = view.device(state).and_then(|device| rank_on(state, device));
    let Some((rank, sample)) = rank.and_then(|rank| Some((rank, sample_of(state, rank)?))) else {
        let words = "unknown until the probe's first sample";
        let width = canvas.area.width.saturating_sub(1);
        for (row, line) in (0..).zip(canvas::text(words, width, Tone::Dim)) {
            line.behind(" ", Tone::Dim).draw(canvas, row);
        }
        return;
    };
    let all = PoolColumn {
        reserved: Some(sample.reserved),
        inactive_split: sample.inactive_split,
        segments: sample.segments,
    };
    let small = sample
        .small_pool
        .map_or(PoolColumn::default(), PoolColumn::new);
    // A look at the allocator falls a little before or after a peak: what was cached at the peak is known exactly.
    let all = match rank.cached_at_peak(state) {
        Some(cached) if at_oom(state, rank).is_none() => all.with_pieces_within(cached),
        Some(_) | None => all,
    };
    let small = match all.inactive_split {
        Some(pieces) => small.with_pieces_within(pieces),
        None => small,
    };
    let has_pools = sample.small_pool.is_some();
    let (pools, words): (&[PoolColumn], u16) = match (has_pools, canvas.area.width) {
        (true, 130..) => (&[small, all.without(small), all], WORDS),
        (true, WIDE..) => (&[small, all.without(small), all], 0),
        (true, _) => (&[small, all.without(small)], 0),
        // Of a process that was read less often only the whole is known.
        (false, 130..) => (&[all], WORDS),
        (false, _) => (&[all], 0),
    };
    let names: &[&str] = match has_pools {
        true => &["small", "large", "total"],
        false => &["total"],
    };
    let mut pen = canvas.pen(0);
    pen.skip(NAME);
    for name in &names[..pools.len()] {
        pen.text(&format!("{name:>FIGURE$}"), Tone::Dim);
    }
    for (row, (name, tone, says, figure)) in (1..).zip(ROWS) {
        let mut pen = named(canvas, row, name, tone);
        for pool in pools {
            let (text, tone) = match figure(*pool) {
                Some(text) => (text, Tone::Text),
                None => ("?".to_string(), Tone::Dim),
            };
            pen.text(&format!("{text:>FIGURE$}"), tone);
        }
        if words > 0 {
            pen.skip(2).cut(says, words, Tone::Dim);
        }
    }
    let mut beside = canvas.area;
    let mut first = 1 + ROWS.len() as u16;
    if canvas.area.width >= 76 {
        let width = NAME + (pools.len() * FIGURE) as u16 + 2 + words;
        beside.x += width;
        beside.width = beside.width.saturating_sub(width);
        first = 1;
    }
    let rounding = sample
        .requested
        .map(|requested| sample.allocated - requested);
    let glyphs = canvas.theme.glyphs;
    let facts = [
        Some(("retries", retries(rank), tone_of(sample.alloc_retries))),
        Some(("largest free", largest_free(state, rank), Tone::Dim)),
        Some(("settings", settings(rank), Tone::Dim)),
        rounding.map(|lost| {
            (
                "rounding",
                format!("{lost} more than was requested"),
                Tone::Dim,
            )
        }),
    ];
    for (row, (name, text, tone)) in (first..).zip(facts.into_iter().flatten()) {
        named(&mut canvas.at(beside), row, name, Tone::Text)
            .skip(1)
            .clauses(&glyphs.spelled(&text), tone);
    }
}

/// The sample at the peak of the last seconds; of a process that ran out of memory the one at that moment, as beside the chart.
fn sample_of<'a>(state: &'a State, rank: &'a RankState) -> Option<&'a Sample> {
    at_oom(state, rank).or_else(|| rank.sample_at_peak())
}

/// The sample with which memory ran out in this process, if that ended the run.
fn at_oom<'a>(state: &'a State, rank: &RankState) -> Option<&'a Sample> {
    let run = state.run()?;
    let oom = run
        .oom()
        .filter(|_| run.outcome() == RunOutcome::OutOfMemory)?;
    let record = oom.record.as_ref()?;
    (record.pid == rank.hello.pid).then_some(&record.sample)
}

fn named<'c>(canvas: &'c mut Canvas, row: u16, name: &str, tone: Tone) -> Pen<'c> {
    let mut pen = canvas.pen(row);
    pen.skip(1).text(name, tone).to(NAME);
    pen
}

fn tone_of(retries: u64) -> Tone {
    match retries {
        0 => Tone::Dim,
        _ => Tone::Warning,
    }
}

/// How often cudaMalloc failed and was retried.
fn retries(rank: &RankState) -> String {
    let (retries, ooms) = rank
        .sample
        .as_ref()
        .map_or((0, 0), |(_, sample)| (sample.alloc_retries, sample.ooms));
    let flushed = match retries {
        0 => String::from("none: cache never flushed"),
        n => format!("cache flushed {}×", count(n)),
    };
    match ooms {
        0 => flushed,
        1 => format!("{flushed}, 1 OOM"),
        n => format!("{flushed}, {} OOMs", count(n)),
    }
}

/// The largest free piece. Only a snapshot tells it, which is too expensive except at an OOM.
fn largest_free(state: &State, rank: &RankState) -> String {
    let oom = state.run().and_then(|run| {
        let of_rank = |oom: &&crate::state::OomIncident| oom.pid == Some(rank.hello.pid);
        run.ooms.iter().rev().find(of_rank)
    });
    match oom.and_then(|oom| oom.record.as_ref()?.largest_free) {
        Some(bytes) => format!("{bytes} at the OOM"),
        None => String::from("measured only at an OOM"),
    }
}

fn settings(rank: &RankState) -> String {
    let hello = &rank.hello;
    let segments = match hello.expandable_segments {
        Some(true) => "expandable segments",
        Some(false) => "fixed segments",
        None => "segment type unknown",
    };
    let conf = hello.alloc_conf.as_deref().filter(|conf| !conf.is_empty());
    match (&hello.backend, conf) {
        (_, Some(conf)) => format!("{segments}, {conf}"),
        (Some(backend), None) if backend != "native" => format!("{segments}, {backend}"),
        (Some(_) | None, None) => String::from(segments),
    }
}
