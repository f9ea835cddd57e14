//! The lines that hold memory at the cursor, or the modules, the largest first.

use super::layout::StepLayout;
use super::look;
use crate::anatomy::Category;
use crate::state::SourceTexts;
use crate::ui::canvas::Canvas;
use crate::ui::figures::count;
use crate::ui::paragraph;
use crate::ui::pen::columns;
use crate::ui::theme::Tone;
use crate::ui::view::step::{Grouping, ReadStep, RowOrder};
use crate::units::Bytes;

/// Columns of a figure: `1023 KiB`.
const FIGURE: u16 = 9;

/// Columns of a share with the space behind it: ` 54% `.
const SHARE: u16 = 5;

/// Columns of a line's text, at least: less of it says nothing.
const TEXT: u16 = 14;

/// Columns of the other parts of a row with the space behind them; 0 for a part that is left out.
#[derive(Clone, Copy)]
struct LineWidths {
    bar: u16,
    category: u16,
    blocks: u16,
}

/// Columns of a category that is cut down to its short name.
const SHORT: u16 = 6;

impl LineWidths {
    fn of(width: u16) -> LineWidths {
        let (bar, category, blocks) = match width {
            100.. => ((width / 8).min(24), 16, 8),
            // What the line says takes the place of the number of its blocks.
            70.. => (9, SHORT, 0),
            _ => (0, SHORT, 0),
        };
        LineWidths {
            bar,
            category,
            blocks,
        }
    }

    /// Columns before the line or the module.
    fn before(self) -> u16 {
        FIGURE + 1 + SHARE + self.bar + self.category + self.blocks
    }
}

/// What a row has of a line or a module.
struct Held<'a> {
    bytes: Bytes,
    category: Category,
    blocks: usize,
    /// The line or the module; `None` where it is not known.
    by: Option<String>,
    /// What the line says.
    text: Option<&'a str>,
    /// The library's line, or how many modules it is.
    more: Option<String>,
    unknown: &'a str,
}

pub(super) fn draw(canvas: &mut Canvas, read: &ReadStep, source: Option<&SourceTexts>) {
    let widths = LineWidths::of(canvas.area.width);
    let titles = StepLayout::titles(canvas.area);
    let shown = usize::from(canvas.area.height.saturating_sub(titles));
    let most = read.rows().saturating_sub(shown);
    let first = read.scrolled.min(most);
    if read.grouping == Grouping::Modules && read.modules.is_empty() {
        return unknown(canvas);
    }
    if titles > 0 {
        let by = match read.grouping {
            Grouping::Lines => "allocated by",
            Grouping::Modules | Grouping::Flame | Grouping::Growth => "in module",
        };
        head(canvas, widths, read.order, by, most - first);
    }
    let whole = read.at_cursor();
    let arrow = canvas.theme.glyphs.arrow;
    let rows: Vec<Held> = match read.grouping {
        Grouping::Lines => of_lines(read, source, arrow, first, shown),
        Grouping::Modules | Grouping::Flame | Grouping::Growth => of_modules(read, first, shown),
    };
    let longest = rows
        .iter()
        .filter_map(|held| held.by.as_deref())
        .map(columns);
    let room = canvas.area.width.saturating_sub(widths.before());
    // So that the texts stand below each other.
    let by = longest.max().unwrap_or(0).min(room / 2);
    for (row, held) in (titles..).zip(rows) {
        let share = held.bytes.fraction_of(whole).unwrap_or(0.0);
        line(canvas, row, widths, &held, share, by);
    }
}

fn of_lines<'a>(
    read: &'a ReadStep,
    source: Option<&'a SourceTexts>,
    arrow: &str,
    first: usize,
    shown: usize,
) -> Vec<Held<'a>> {
    let lines = read.lines.iter().skip(first).take(shown);
    let held = lines.map(|holding| Held {
        bytes: holding.bytes,
        category: holding.category,
        blocks: holding.blocks,
        by: holding.line.as_ref().map(|line| line.path_to(None, "")),
        text: (holding.line.as_ref()).and_then(|line| source?.of(line)),
        more: (holding.inside.as_ref())
            .map(|inside| format!("{arrow} {}", inside.path_to(None, ""))),
        unknown: "line not known",
    });
    held.collect()
}

fn of_modules(read: &ReadStep, first: usize, shown: usize) -> Vec<Held<'_>> {
    let modules = read.modules.iter().skip(first).take(shown);
    let held = modules.map(|holding| Held {
        bytes: holding.bytes,
        category: holding.category,
        blocks: holding.blocks,
        by: holding.module.clone(),
        text: None,
        more: (holding.alike > 1).then(|| {
            let each = holding.bytes.scale(1.0 / holding.alike as f64);
            format!("{} × {each}", holding.alike)
        }),
        unknown: "outside of modules",
    });
    held.collect()
}

fn unknown(canvas: &mut Canvas) {
    let words = "Which module allocated what is not known of this step: modules are seen from the first \
                 model call on, and not where torch.compile is used.";
    let width = canvas.area.width;
    for (row, line) in (0..).zip(paragraph::text(words, width, Tone::Dim)) {
        line.draw(canvas, row);
    }
}

/// The titles of the columns, and how many lines are below those in view.
fn head(canvas: &mut Canvas, widths: LineWidths, order: RowOrder, by: &str, below: usize) {
    let [_, down, ..] = canvas.theme.glyphs.arrow_keys;
    let width = canvas.area.width;
    let tone = |of: RowOrder| match of == order {
        true => Tone::Accent,
        false => Tone::Dim,
    };
    let mut pen = canvas.pen(0);
    pen.to(FIGURE - columns("held"))
        .text("held", tone(RowOrder::Bytes))
        .to(FIGURE + 1 + SHARE - 2)
        .text("%", Tone::Dim)
        .to(FIGURE + 1 + SHARE + widths.bar)
        .text("what", Tone::Dim)
        .to(FIGURE + 1 + SHARE + widths.bar + widths.category);
    if widths.blocks > 0 {
        pen.text("blocks", tone(RowOrder::Blocks))
            .text("  ", Tone::Dim);
    }
    pen.text(by, tone(RowOrder::Name));
    if order != RowOrder::Bytes {
        let sorted = match order {
            RowOrder::Blocks => "  sorted by blocks",
            RowOrder::Bytes | RowOrder::Name => "  sorted by name",
        };
        pen.text(sorted, Tone::Dim);
    }
    if below > 0 {
        let more = format!("  {down} {} more", count(below as u64));
        pen.to(width.saturating_sub(columns(&more)))
            .text(&more, Tone::Dim);
    }
}

fn line(canvas: &mut Canvas, row: u16, widths: LineWidths, held: &Held, share: f64, by_width: u16) {
    let theme = canvas.theme;
    let tone = look::tone(held.category);
    let bytes = held.bytes.to_string();
    let mut pen = canvas.pen(row);
    pen.to(FIGURE.saturating_sub(columns(&bytes)))
        .text(&bytes, Tone::Text)
        .to(FIGURE + 1)
        .text(&format!("{:>4}", look::percent(share)), Tone::Text)
        .to(FIGURE + 1 + SHARE);
    if widths.bar > 0 {
        let bar = look::bar(theme, held.category, share, widths.bar - 1);
        pen.text(&bar, tone).to(FIGURE + 1 + SHARE + widths.bar);
    }
    let category = match widths.category {
        SHORT => look::short(held.category),
        _ => held.category.title(),
    };
    pen.text(category, Tone::Text)
        .to(FIGURE + 1 + SHARE + widths.bar + widths.category);
    if widths.blocks > 0 {
        let width = usize::from(widths.blocks - 2);
        let blocks = count(held.blocks as u64);
        pen.text(&format!("{blocks:>width$}  "), Tone::Dim);
    }
    let Some(by) = &held.by else {
        pen.rest(held.unknown, Tone::Dim);
        return;
    };
    let by = theme.glyphs.spelled(by);
    let text = held.text.filter(|_| pen.room() >= by_width + 2 + TEXT);
    let end = pen.column() + by_width + 2;
    match text {
        Some(text) => {
            pen.cut(&by, by_width, Tone::Text).to(end);
            pen.rest(&theme.glyphs.spelled(text), Tone::Dim);
        }
        None => {
            pen.rest(&by, Tone::Text);
        }
    }
    let more = held.more.as_ref();
    let more = more.map(|more| format!("  {}", theme.glyphs.spelled(more)));
    if let Some(more) = more.filter(|more| columns(more) <= pen.room()) {
        pen.text(&more, Tone::Dim);
    }
}
