//! The categories at the cursor, each with its bar.

use super::look;
use crate::anatomy::Category;
use crate::ui::canvas::Canvas;
use crate::ui::pen::columns;
use crate::ui::theme::Tone;
use crate::ui::view::step::ReadStep;
use crate::units::Bytes;
use ratatui::layout::Rect;

/// Columns of a name.
const NAME: u16 = 16;

/// Columns of a figure: `1023 KiB`.
const FIGURE: usize = 9;

pub(super) fn draw(canvas: &mut Canvas, read: &ReadStep) {
    let all = Category::ALL.len() as u16;
    let lists = match canvas.area.height < all {
        true => 2,
        false => 1,
    };
    let rows = all.div_ceil(lists);
    let width = canvas.area.width / lists;
    let whole = read.at_cursor();
    let sums = Category::ALL.into_iter().zip(read.categories[read.cursor]);
    for (place, (category, bytes)) in (0..).zip(sums) {
        let area = Rect {
            x: canvas.area.x + place / rows * width,
            width: width.saturating_sub(1),
            ..canvas.area
        };
        row(&mut canvas.at(area), place % rows, category, bytes, whole);
    }
}

fn row(canvas: &mut Canvas, row: u16, category: Category, bytes: Bytes, whole: Bytes) {
    let theme = canvas.theme;
    let (figure, tone) = match bytes {
        Bytes::ZERO => (String::from("0"), Tone::Dim),
        bytes => (bytes.to_string(), Tone::Text),
    };
    let mut pen = canvas.pen(row);
    pen.skip(1)
        .text(category.title(), tone)
        .to(1 + NAME)
        .text(&format!("{figure:>FIGURE$} "), tone);
    let share = bytes.fraction_of(whole).unwrap_or(0.0);
    // The largest share leaves room for its percentage.
    let room = pen.room().saturating_sub(columns(" 100%"));
    let bar = look::bar(theme, category, share, room);
    pen.text(&bar, look::tone(category));
    if share > 0.0 {
        pen.text(&format!(" {}", look::percent(share)), Tone::Dim);
    }
}
