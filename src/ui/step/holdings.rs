//! What is alive at the cursor: as categories with a bar each, and as a table of lines or modules.

use crate::anatomy::{Category, not_in_a_module};
use crate::document::{self, MemoryHolder};
use crate::event::SourceLine;
use crate::state::SourceTexts;
use crate::ui::canvas::{self, Canvas, Pen, StyledLine, columns};
use crate::ui::step::layout::StepLayout;
use crate::ui::step::traced::{Grouping, ReadStep, RowOrder};
use crate::ui::theme::{Theme, Tone};
use crate::ui::words::count;
use crate::units::Bytes;
use ratatui::layout::Rect;

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
const SHORT: u16 = 7;

/// From this width on categories have their whole names.
const WHOLE_NAMES: u16 = 140;

/// A category's name on a canvas that is not narrow.
fn named(category: Category, width: u16) -> &'static str {
    match width {
        WHOLE_NAMES.. => category.title(),
        _ => category.brief(),
    }
}

impl LineWidths {
    /// For rows of these categories, as far as they are known.
    fn new(width: u16, of: impl Iterator<Item = Category>) -> LineWidths {
        let longest = of.map(|of| columns(named(of, width)) + 1).max();
        let what = longest.is_some();
        let (bar, category, blocks) = match (width, what) {
            (100.., true) => ((width / 8).min(24), longest.unwrap_or(0).max(NAME), 8),
            (100.., false) => ((width / 8).min(24), 0, 8),
            // What the line says takes the place of the number of its blocks.
            (70.., true) => (9, SHORT, 0),
            (70.., false) => (9, 0, 8),
            (_, true) => (0, SHORT, 0),
            (_, false) => (0, 0, 0),
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
    /// `None` where it is not known.
    category: Option<Category>,
    blocks: usize,
    /// The line or the module; `None` where it is not known.
    by: Option<String>,
    /// What the line says.
    text: Option<&'a str>,
    /// The library's line, or how many modules it is.
    more: Option<String>,
    unknown: &'a str,
}

/// Marks the row at the pointer.
pub(super) fn draw_table(
    canvas: &mut Canvas,
    read: &ReadStep,
    source: Option<&SourceTexts>,
    pointer: Option<usize>,
) {
    let categories: Vec<Category> = match read.grouping {
        Grouping::Lines => read.lines.iter().map(|held| held.category).collect(),
        Grouping::Modules | Grouping::Flame | Grouping::Growth => {
            read.modules.iter().map(|held| held.category).collect()
        }
    };
    let widths = LineWidths::new(canvas.area.width, categories.into_iter());
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
    draw_rows(
        canvas,
        widths,
        titles,
        &rows,
        whole,
        pointer.map(|at| (at, first)),
    );
}

/// The lines that held memory when it ran out, of a step that was not traced.
pub(super) fn draw_lines(canvas: &mut Canvas, lines: &[MemoryHolder], whole: Bytes) {
    let widths = widths_of(canvas.area.width, lines);
    let titles = StepLayout::titles(canvas.area);
    let shown = usize::from(canvas.area.height.saturating_sub(titles));
    if titles > 0 {
        let below = lines.len().saturating_sub(shown);
        head(canvas, widths, RowOrder::Bytes, "allocated by", below);
    }
    let arrow = canvas.theme.glyphs.arrow;
    let rows = lines.iter().take(shown).map(|line| Held {
        bytes: line.bytes,
        category: line.category,
        blocks: line.blocks as usize,
        by: Some(line.place.clone()),
        text: line.says.as_deref(),
        more: (line.inside.as_ref()).map(|inside| format!("{arrow} {inside}")),
        unknown: "",
    });
    let rows: Vec<Held> = rows.collect();
    draw_rows(canvas, widths, titles, &rows, whole, None);
}

fn widths_of(width: u16, lines: &[MemoryHolder]) -> LineWidths {
    LineWidths::new(width, lines.iter().filter_map(|line| line.category))
}

/// Columns of the names, and of what the lines say beside them: the texts stand below each other.
fn rooms<'n>(width: u16, widths: LineWidths, names: impl Iterator<Item = &'n str>) -> (u16, u16) {
    let room = width.saturating_sub(widths.before());
    // What the line says has what its name leaves: a name that is cut says nothing.
    let by = names.map(columns).max().unwrap_or(0).min(room);
    (by, room.saturating_sub(by + 2))
}

/// The rows of these lines with their titles, where none of them is cut.
pub(super) fn rows_uncut(width: u16, lines: &[MemoryHolder]) -> u16 {
    let names = lines.iter().map(|line| line.place.as_str());
    let (_, room) = rooms(width, widths_of(width, lines), names);
    let texts = lines.iter().filter_map(|line| line.says.as_deref());
    let below = texts.filter(|text| columns(text) > room).count();
    (1 + lines.len() + below) as u16
}

/// Rows below the titles; `pointer` is the row that is marked, and the first that is shown.
fn draw_rows(
    canvas: &mut Canvas,
    widths: LineWidths,
    titles: u16,
    rows: &[Held],
    whole: Bytes,
    pointer: Option<(usize, usize)>,
) {
    let names = rows.iter().filter_map(|held| held.by.as_deref());
    let (by, text_room) = rooms(canvas.area.width, widths, names);
    // Where there are rows to spare and none has to be found again by its place, what a line says is not cut.
    let is_cut = |held: &Held| held.text.is_some_and(|text| columns(text) > text_room);
    let below = rows.iter().filter(|held| is_cut(held)).count();
    let wanted = usize::from(titles) + rows.len() + below;
    if pointer.is_none() && below > 0 && wanted <= usize::from(canvas.area.height) {
        let mut row = titles;
        for held in rows {
            let share = held.bytes.fraction_of(whole).unwrap_or(0.0);
            let text = held.text.filter(|_| is_cut(held));
            let first = Held {
                text: held.text.filter(|_| text.is_none()),
                by: held.by.clone(),
                more: held.more.clone(),
                ..*held
            };
            line(canvas, row, widths, &first, share, by);
            row += 1;
            if let Some(text) = text {
                let text = canvas.theme.glyphs.spelled(text);
                let mut pen = canvas.pen(row);
                pen.to(widths.before() + 2).rest(&text, Tone::Dim);
                row += 1;
            }
        }
        return;
    }
    for (row, held) in (titles..).zip(rows) {
        if pointer.is_some_and(|(at, first)| at == first + usize::from(row - titles)) {
            let mark = canvas.theme.glyphs.pointer;
            canvas.pen(row).text(mark, Tone::Accent);
        }
        let share = held.bytes.fraction_of(whole).unwrap_or(0.0);
        line(canvas, row, widths, held, share, by);
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
        category: Some(holding.category),
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
        category: Some(holding.category),
        blocks: holding.blocks,
        by: holding.module.clone(),
        text: None,
        more: (holding.alike > 1).then(|| {
            let each = holding.bytes.scale(1.0 / holding.alike as f64);
            format!("{} × {each}", holding.alike)
        }),
        unknown: match holding.category {
            Category::Kept => document::MODULE_NOT_SEEN,
            category => not_in_a_module(category),
        },
    });
    held.collect()
}

/// All that is known of the row at the pointer: what it holds, where it was allocated and what the line says, in full.
pub(super) fn draw_row(canvas: &mut Canvas, read: &ReadStep, source: Option<&SourceTexts>) {
    let arrow = canvas.theme.glyphs.arrow;
    let rows = match read.grouping {
        Grouping::Lines => of_lines(read, source, arrow, read.selected, 1),
        Grouping::Modules => of_modules(read, read.selected, 1),
        Grouping::Flame | Grouping::Growth => Vec::new(),
    };
    let Some(held) = rows.first() else { return };
    let line = match read.grouping {
        Grouping::Lines => read.lines.get(read.selected),
        Grouping::Modules | Grouping::Flame | Grouping::Growth => None,
    };
    let share = percent(held.bytes.fraction_of(read.at_cursor()).unwrap_or(0.0));
    let blocks = match held.blocks {
        1 => String::from("1 block"),
        n => format!("{} blocks", count(n as u64)),
    };
    let what = held.category.map_or("", Category::title);
    let held_there = format!("{} in {blocks} ({share}): {what}", held.bytes);
    let mut said = vec![(held_there, Tone::Strong)];
    let full =
        |line: &SourceLine| format!("{}, line {}, in {}", line.file, line.line, line.function);
    match line.and_then(|holding| holding.line.as_ref()) {
        Some(line) => {
            said.push((full(line), Tone::Text));
            let text = held.text.unwrap_or("The text of this line is not known.");
            said.push((format!("    {text}"), Tone::Accent));
        }
        None => said.push((held.by.clone().unwrap_or(held.unknown.into()), Tone::Text)),
    }
    let inside = line.and_then(|holding| holding.inside.as_ref()).map(full);
    let inside = inside.map(|inside| format!("calls {inside}"));
    let alike = held.more.clone().filter(|_| line.is_none());
    said.extend(inside.or(alike).map(|more| (more, Tone::Dim)));
    let width = canvas.area.width.min(WIDEST_ROW);
    let lines: Vec<StyledLine> = said
        .into_iter()
        .flat_map(|(text, tone)| {
            let text = canvas.theme.glyphs.spelled(&text);
            canvas::text(&text, width.saturating_sub(4), tone)
        })
        .collect();
    let height = (lines.len() as u16 + 2).min(canvas.area.height);
    let area = Rect {
        y: canvas.area.bottom() - height,
        width,
        height,
        ..canvas.area
    };
    let title = held.by.as_deref().unwrap_or(held.unknown);
    let mut inside = canvas.boxed(area, title, Tone::Accent);
    for (row, line) in (0..inside.area.height).zip(lines) {
        line.draw(&mut inside, row);
    }
}

/// Columns of the box with all that is known of a row, at most.
const WIDEST_ROW: u16 = 120;

fn unknown(canvas: &mut Canvas) {
    let words = "Which module allocated what is not known of this step: modules are seen from the first \
                 model call on, and not where torch.compile is used.";
    let width = canvas.area.width;
    for (row, line) in (0..).zip(canvas::text(words, width, Tone::Dim)) {
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
    pen.to(FIGURE - columns("live"))
        .text("live", tone(RowOrder::Bytes))
        .to(FIGURE + 1 + SHARE - 2)
        .text("%", Tone::Dim)
        .to(FIGURE + 1 + SHARE + widths.bar);
    if widths.category > 0 {
        pen.text("what", Tone::Dim);
    }
    pen.to(FIGURE + 1 + SHARE + widths.bar + widths.category);
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
    let tone = held.category.map_or(Tone::Allocated, category_tone);
    let bytes = held.bytes.to_string();
    let width = canvas.area.width;
    let mut pen = canvas.pen(row);
    pen.to(FIGURE.saturating_sub(columns(&bytes)))
        .text(&bytes, Tone::Text)
        .to(FIGURE + 1)
        .text(&format!("{:>4}", percent(share)), Tone::Text)
        .to(FIGURE + 1 + SHARE);
    if widths.bar > 0 {
        let category = held.category.unwrap_or(Category::Other);
        let bar = share_bar(theme, category, share, widths.bar - 1);
        pen.text(&bar, tone).to(FIGURE + 1 + SHARE + widths.bar);
    }
    let category = held.category.map(|category| match widths.category {
        SHORT => short_name(category),
        _ => named(category, width),
    });
    let category = category.unwrap_or_default();
    pen.text(category, Tone::Text)
        .to(FIGURE + 1 + SHARE + widths.bar + widths.category);
    if widths.blocks > 0 {
        let width = usize::from(widths.blocks - 2);
        // Of what has no line the blocks are not counted.
        let blocks = match held.blocks {
            0 => String::new(),
            blocks => count(blocks as u64),
        };
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

/// Columns of a category's name with the space behind it, at the least.
const NAME: u16 = 16;

/// From this width on a list of them has the whole names.
const ROOM_FOR_TITLES: u16 = 46;

/// What most steps have nothing of has a row where they have.
fn is_shown(read: &ReadStep, category: Category) -> bool {
    match category {
        Category::Frozen | Category::Kept | Category::Left | Category::Recomputed => {
            read.most[category.place()] > Bytes::ZERO
        }
        Category::Parameters
        | Category::OptimizerState
        | Category::Gradients
        | Category::Activations
        | Category::Temporaries
        | Category::Other => true,
    }
}

/// What nobody misses in a sum, as a share of it.
const LITTLE: f64 = 0.01;

/// Those that have a row; where there is no room for all, the ones that are largest in this step, and apart from them the others,
/// which have a row together, so that the sum is all.
fn shown_categories(read: &ReadStep, room: usize) -> (Vec<Category>, Vec<Category>) {
    let all = Category::ALL.into_iter();
    let mut shown: Vec<Category> = all.filter(|of| is_shown(read, *of)).collect();
    shown.sort_by_key(|of| std::cmp::Reverse(read.most[of.place()]));
    let most = |of: &Category| read.most[of.place()];
    let little = read.most.iter().copied().sum::<Bytes>().scale(LITTLE);
    let is_all = |left: &[Category]| left.iter().map(most).sum::<Bytes>() <= little;
    if is_all(shown.get(room..).unwrap_or_default()) {
        shown.truncate(room);
        shown.sort_by_key(|of| of.place());
        return (shown, Vec::new());
    }
    let others = shown.split_off(room.saturating_sub(1));
    shown.sort_by_key(|of| of.place());
    (shown, others)
}

/// Rows of the categories of a step.
pub(super) fn category_rows(read: &ReadStep) -> usize {
    shown_categories(read, usize::MAX).0.len()
}

pub(super) fn draw_categories(canvas: &mut Canvas, read: &ReadStep) {
    let lists = match usize::from(canvas.area.height) < category_rows(read) {
        true => 2,
        false => 1,
    };
    let room = usize::from(lists * canvas.area.height);
    let (shown, others) = shown_categories(read, room);
    let count = (shown.len() + usize::from(!others.is_empty())) as u16;
    let rows = count.div_ceil(lists).max(1);
    let width = canvas.area.width / lists;
    let name = match width >= ROOM_FOR_TITLES {
        true => Category::title,
        false => Category::brief,
    };
    let longest = shown.iter().map(|of| columns(name(*of)) + 1).max();
    let indent = NAME.max(longest.unwrap_or(0));
    let (theme, whole) = (canvas.theme, read.at_cursor());
    let amount = |category: Category| read.categories[read.cursor][category.place()];
    let each = shown
        .into_iter()
        .map(|category| (name(category), category, amount(category)));
    let others = (!others.is_empty()).then(|| {
        let bytes = others.iter().map(|category| amount(*category)).sum();
        ("all others", Category::Other, bytes)
    });
    for (place, (name, category, bytes)) in (0..).zip(each.chain(others)) {
        let area = Rect {
            x: canvas.area.x + place / rows * width,
            width: width.saturating_sub(1),
            ..canvas.area
        };
        let share = bytes.fraction_of(whole).unwrap_or(0.0);
        let mut area = canvas.at(area);
        let mut pen = area.pen(place % rows);
        let tone = match bytes {
            Bytes::ZERO => Tone::Dim,
            _ => Tone::Text,
        };
        pen.skip(1).text(name, tone).to(1 + indent);
        draw_amount(pen, theme, category, bytes, share);
    }
}

fn draw_amount(mut pen: Pen, theme: &Theme, category: Category, bytes: Bytes, share: f64) {
    let (figure, tone) = match bytes {
        Bytes::ZERO => (String::from("0"), Tone::Dim),
        bytes => (bytes.to_string(), Tone::Text),
    };
    let width = usize::from(FIGURE);
    pen.text(&format!("{figure:>width$} "), tone);
    // The largest share leaves room for its percentage.
    let room = pen.room().saturating_sub(columns(" 100%"));
    let bar = share_bar(theme, category, share, room);
    pen.text(&bar, category_tone(category));
    if share > 0.0 {
        pen.text(&format!(" {}", percent(share)), Tone::Dim);
    }
}

pub(super) fn category_tone(category: Category) -> Tone {
    match category {
        Category::Parameters | Category::Frozen => Tone::Parameters,
        Category::Gradients => Tone::Gradients,
        Category::OptimizerState => Tone::OptimizerState,
        Category::Kept | Category::Left => Tone::Kept,
        Category::Activations | Category::Recomputed => Tone::Activations,
        Category::Temporaries => Tone::Cached,
        Category::Other => Tone::NonPytorch,
    }
}

/// A category's name where there is little room.
fn short_name(category: Category) -> &'static str {
    match category {
        Category::Parameters => "param",
        Category::Frozen => "froz",
        Category::Gradients => "grad",
        Category::OptimizerState => "optim",
        Category::Kept => "kept",
        Category::Left => "left",
        Category::Activations => "activ",
        Category::Recomputed => "recomp",
        Category::Temporaries => "temp",
        Category::Other => "other",
    }
}

/// A share as a percentage: `31%`; something is never nothing.
pub(super) fn percent(share: f64) -> String {
    match share.clamp(0.0, 1.0) * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => String::from("<1%"),
        percent => format!("{percent:.0}%"),
    }
}

fn letter(category: Category) -> &'static str {
    match category {
        Category::Parameters => "P",
        Category::Frozen => "F",
        Category::Gradients => "G",
        Category::OptimizerState => "O",
        Category::Kept => "K",
        Category::Left => "L",
        Category::Activations => "A",
        Category::Recomputed => "R",
        Category::Temporaries => "T",
        Category::Other => "x",
    }
}

/// A full cell of a category's area or bar.
pub(super) fn full_cell(theme: &Theme, category: Category) -> &'static str {
    match theme.has_letters() {
        true => letter(category),
        false => theme.glyphs.full,
    }
}

/// A category's bar for its share (0 to 1) of `width` columns; something is never drawn as nothing.
fn share_bar(theme: &Theme, category: Category, share: f64, width: u16) -> String {
    let share = share.clamp(0.0, 1.0);
    if theme.has_letters() {
        let cells = (share * f64::from(width)).round() as usize;
        return letter(category).repeat(cells.max(usize::from(share > 0.0)));
    }
    let eighths = (share * f64::from(width) * 8.0).round() as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    let mut text = theme.glyphs.full.repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push_str(theme.glyphs.lefts[eighths % 8]);
    }
    text
}
