//! Where a dialog lies: at the bottom of the screen.

use ratatui::layout::Rect;

/// The width of a dialog: the whole screen if otherwise only a few columns of it would stay
/// visible.
pub(super) fn width_within(area: Rect, wanted: u16) -> u16 {
    if area.width < wanted.saturating_add(8) {
        area.width
    } else {
        wanted
    }
}

/// A rectangle of at most this size at the bottom of the screen, so that the chart stays visible if
/// there is room.
pub(super) fn place(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let room = area.height.saturating_sub(2);
    let height = height.min(room.max(area.height.min(3)));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area
            .bottom()
            .saturating_sub(height + u16::from(area.height > height)),
        width,
        height,
    }
}
