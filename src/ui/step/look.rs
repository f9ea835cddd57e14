//! How a category looks: its tone, and its letter where there are no colours.

use crate::anatomy::Category;
use crate::ui::theme::{Theme, Tone};

pub(super) fn tone(category: Category) -> Tone {
    match category {
        Category::Parameters => Tone::Parameters,
        Category::Gradients => Tone::Gradients,
        Category::OptimizerState => Tone::OptimizerState,
        Category::Activations => Tone::Activations,
        Category::Temporaries => Tone::Cached,
        Category::Other => Tone::NonPytorch,
    }
}

/// Its name where there is little room.
pub(super) fn short(category: Category) -> &'static str {
    match category {
        Category::Parameters => "param",
        Category::Gradients => "grad",
        Category::OptimizerState => "optim",
        Category::Activations => "activ",
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
        Category::Gradients => "G",
        Category::OptimizerState => "O",
        Category::Activations => "A",
        Category::Temporaries => "T",
        Category::Other => "x",
    }
}

/// A full cell of its area or bar.
pub(super) fn full(theme: &Theme, category: Category) -> &'static str {
    match theme.has_letters() {
        true => letter(category),
        false => theme.glyphs.full,
    }
}

/// Its bar on so many columns, for a share of the whole; something is never drawn as nothing.
pub(super) fn bar(theme: &Theme, category: Category, share: f64, width: u16) -> String {
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
