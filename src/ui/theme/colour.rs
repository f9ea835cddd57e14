//! How many colours a terminal has, and a hue reduced to that many.

use super::{Contrast, Theme};
use ratatui::style::Color;

/// How many colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// None, or the user wants none.
    None,
    /// The sixteen of ECMA-48 and aixterm.
    Sixteen,
    /// xterm's 256.
    TwoFiftySix,
    /// 24 bits.
    True,
}

impl Depth {
    /// From `NO_COLOR` (<https://no-color.org>: present and not empty), `COLORTERM` and `TERM`.
    pub fn of_environment(variable: &impl Fn(&str) -> Option<String>) -> Depth {
        if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Depth::None;
        }
        let term = variable("TERM").unwrap_or_default();
        match variable("COLORTERM").as_deref() {
            Some("truecolor" | "24bit") => Depth::True,
            Some(_) | None if term.ends_with("-direct") => Depth::True,
            Some(_) | None if term.contains("256color") => Depth::TwoFiftySix,
            Some(_) | None if term.is_empty() || term == "dumb" || term.starts_with("vt") => {
                Depth::None
            }
            Some(_) | None => Depth::Sixteen,
        }
    }
}

/// A hue, each `[on dark, on light]`.
#[derive(Clone, Copy)]
pub(super) struct Hue {
    /// `0xrrggbb` at the usual contrast.
    pub usual: [u32; 2],
    /// At a high contrast.
    pub high: [u32; 2],
    /// Among the sixteen colours.
    pub ansi: [u8; 2],
}

impl Hue {
    /// The colour to send, if the terminal has colours.
    pub(super) fn colour(&self, theme: &Theme) -> Option<Color> {
        let ground = theme.ground as usize;
        let values = match theme.contrast {
            Contrast::Usual => self.usual,
            Contrast::High => self.high,
        };
        let [_, r, g, b] = values[ground].to_be_bytes();
        match theme.depth {
            Depth::None => None,
            Depth::Sixteen => Some(Color::Indexed(self.ansi[ground])),
            Depth::TwoFiftySix => Some(Color::Indexed(nearest_of_256(r, g, b))),
            Depth::True => Some(Color::Rgb(r, g, b)),
        }
    }
}

/// xterm's cube has the levels 0, 95, 135, 175, 215, 255 at 16 + 36r + 6g + b, and 24 greys from 8
/// in steps of 10 at 232.
fn nearest_of_256(r: u8, g: u8, b: u8) -> u8 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let level = |v: u8| (0..6).min_by_key(|&i| LEVELS[i].abs_diff(v)).unwrap_or(0);
    let (lr, lg, lb) = (level(r), level(g), level(b));
    let distance = |x: u8, y: u8, z: u8| {
        let square = |p: u8, q: u8| u32::from(p.abs_diff(q)).pow(2);
        square(r, x) + square(g, y) + square(b, z)
    };
    let cube = distance(LEVELS[lr], LEVELS[lg], LEVELS[lb]);
    let mean = (u16::from(r) + u16::from(g) + u16::from(b)) / 3;
    let step = (mean.saturating_sub(3) / 10).min(23) as u8;
    let grey = 8 + 10 * step;
    if distance(grey, grey, grey) < cube {
        232 + step
    } else {
        (16 + 36 * lr + 6 * lg + lb) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_256_is_near() {
        assert_eq!(nearest_of_256(0, 0, 0), 16);
        assert_eq!(nearest_of_256(255, 255, 255), 231);
        assert_eq!(nearest_of_256(128, 128, 128), 244);
        assert_eq!(nearest_of_256(0x56, 0xb4, 0xe9), 74);
    }

    #[test]
    fn terminals_say_their_depth() {
        for (term, colorterm, no_color, depth) in [
            ("xterm-256color", None, None, Depth::TwoFiftySix),
            ("xterm-256color", Some("truecolor"), None, Depth::True),
            ("xterm-256color", Some("truecolor"), Some("1"), Depth::None),
            ("xterm-256color", None, Some(""), Depth::TwoFiftySix),
            ("xterm-direct", None, None, Depth::True),
            ("linux", None, None, Depth::Sixteen),
            ("vt100", None, None, Depth::None),
            ("dumb", None, None, Depth::None),
        ] {
            let variable = |name: &str| match name {
                "TERM" => Some(term.to_string()),
                "COLORTERM" => colorterm.map(str::to_string),
                "NO_COLOR" => no_color.map(str::to_string),
                _ => None,
            };
            assert_eq!(Depth::of_environment(&variable), depth, "{term}");
        }
    }
}
