//! Colours and glyphs, chosen once for a terminal. Everything else on the screen names a [`Tone`],
//! never a colour, so that one table is the whole theme.
//!
//! The hues are Okabe and Ito's (<https://jfly.uni-koeln.de/color/>), which people with any of the
//! common colour deficiencies tell apart; red is kept for what has gone wrong. It knows no state.

mod colour;
mod glyphs;

pub use colour::Depth;
pub use glyphs::{ASCII, Glyphs, UNICODE};

use colour::Hue;
use ratatui::style::{Color, Modifier, Style};

/// What something is on the screen; the theme says how that looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Running text.
    Text,
    /// What is there for the second look.
    Dim,
    /// Rules, axes, borders.
    Faint,
    /// What the eye is to find first.
    Strong,
    /// Keys that can be pressed, the name of the house, the selected thing.
    Accent,
    /// Live tensors: the one strong hue.
    Allocated,
    /// Between the least and the most allocated of a column.
    AllocatedBand,
    /// Held by the caching allocator.
    Reserved,
    /// In use on the device.
    Used,
    /// The rule at the device's capacity.
    Capacity,
    /// The rule at a limit set by the program.
    Limit,
    /// The rule at the predicted peak.
    Predicted,
    /// It has gone wrong.
    Wrong,
    /// It does not work as it should, without harm.
    Warning,
    /// It works, it fits.
    Good,
    /// Parameters, in the make-up.
    Parameters,
    /// Gradients.
    Gradients,
    /// Optimizer state.
    OptimizerState,
    /// Activations and the rest.
    Activations,
    /// Reserved but unallocated.
    Unallocated,
    /// The training's memory outside PyTorch.
    NonPytorch,
    /// Other processes.
    Foreign,
    /// Free.
    Free,
}

/// Which background the terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

/// How this terminal is drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// How many colours it has.
    pub depth: Depth,
    /// Its background.
    pub ground: Ground,
    /// The characters it can show.
    pub glyphs: &'static Glyphs,
}

impl Theme {
    /// The theme for a terminal, from the environment (`NO_COLOR`, `COLORTERM`, `TERM`,
    /// `COLORFGBG`, `LC_ALL`, `LC_CTYPE`, `LANG`).
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Theme {
        Theme {
            depth: Depth::of_environment(&variable),
            ground: ground_of(variable("COLORFGBG").as_deref()),
            glyphs: Glyphs::of_environment(&variable),
        }
    }

    /// True colour on dark with all glyphs: what pictures and tests are drawn with.
    pub const fn full() -> Theme {
        Theme {
            depth: Depth::True,
            ground: Ground::Dark,
            glyphs: &UNICODE,
        }
    }

    /// How a tone looks here.
    pub fn style(&self, tone: Tone) -> Style {
        let (hue, modifier) = look(tone);
        let style = Style::new().add_modifier(match self.depth {
            Depth::None => mono(tone),
            Depth::Sixteen | Depth::TwoFiftySix | Depth::True => modifier,
        });
        match hue.colour(self.depth, self.ground) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }

    /// Text on the ground of a tone.
    pub fn on_ground(&self) -> Style {
        match (self.depth, self.ground) {
            (Depth::None, _) => Style::new(),
            (Depth::Sixteen, _) => Style::new().fg(Color::Indexed(0)),
            (Depth::TwoFiftySix, Ground::Dark) => Style::new().fg(Color::Indexed(16)),
            (Depth::TwoFiftySix, Ground::Light) => Style::new().fg(Color::Indexed(231)),
            (Depth::True, Ground::Dark) => Style::new().fg(Color::Rgb(0x10, 0x14, 0x1a)),
            (Depth::True, Ground::Light) => Style::new().fg(Color::Rgb(0xff, 0xff, 0xff)),
        }
    }

    /// A tone as background, for text on a coloured ground.
    pub fn ground(&self, tone: Tone) -> Style {
        match look(tone).0.colour(self.depth, self.ground) {
            Some(colour) => Style::new().bg(colour),
            None => Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// `COLORFGBG` is `fg;bg` in the sixteen colours; 7 and 9 to 15 are light grounds (rxvt, Konsole).
fn ground_of(colorfgbg: Option<&str>) -> Ground {
    let background = colorfgbg.and_then(|text| text.rsplit(';').next()?.parse::<u8>().ok());
    match background {
        Some(7 | 9..=15) => Ground::Light,
        Some(_) | None => Ground::Dark,
    }
}

/// The table: a tone's hue on dark, on light and among sixteen, and its weight.
const fn look(tone: Tone) -> (Hue, Modifier) {
    const PLAIN: Modifier = Modifier::empty();
    const BOLD: Modifier = Modifier::BOLD;
    match tone {
        Tone::Text => (Hue::DEFAULT, PLAIN),
        Tone::Dim => (Hue::new(0x9aa4b2, 0x5a6472, 7), PLAIN),
        Tone::Faint => (Hue::new(0x4a5361, 0xb4bcc8, 8), PLAIN),
        Tone::Strong => (Hue::DEFAULT, BOLD),
        Tone::Accent => (Hue::new(0x7fd1ff, 0x005f9e, 14), BOLD),
        Tone::Allocated => (Hue::new(0x56b4e9, 0x0072b2, 12), PLAIN),
        Tone::AllocatedBand => (Hue::new(0x2f78ad, 0x9ccbea, 4), PLAIN),
        Tone::Reserved => (Hue::new(0xe6a63c, 0xa86a00, 11), PLAIN),
        Tone::Used => (Hue::new(0xc3cad4, 0x3c4450, 15), PLAIN),
        Tone::Capacity => (Hue::new(0x8a94a3, 0x6a7482, 7), PLAIN),
        Tone::Limit => (Hue::new(0xcc79a7, 0xa03a74, 13), PLAIN),
        Tone::Predicted => (Hue::new(0x3fbf9a, 0x00795a, 10), PLAIN),
        Tone::Wrong => (Hue::new(0xff6b5e, 0xc0271a, 9), BOLD),
        Tone::Warning => (Hue::new(0xf0c95a, 0x8a6100, 11), PLAIN),
        Tone::Good => (Hue::new(0x3fbf9a, 0x00795a, 10), PLAIN),
        Tone::Parameters => (Hue::new(0x2f7fc2, 0x0072b2, 4), PLAIN),
        Tone::Gradients => (Hue::new(0x2ba88b, 0x009e73, 2), PLAIN),
        Tone::OptimizerState => (Hue::new(0x9a86d8, 0x6a4fc0, 5), PLAIN),
        Tone::Activations => (Hue::new(0x56b4e9, 0x2f9be0, 12), PLAIN),
        Tone::Unallocated => (Hue::new(0xe6a63c, 0xa86a00, 11), PLAIN),
        Tone::NonPytorch => (Hue::new(0x8a94a3, 0x7a8492, 7), PLAIN),
        Tone::Foreign => (Hue::new(0xcc79a7, 0xa03a74, 13), PLAIN),
        Tone::Free => (Hue::new(0x5a6473, 0xb4bcc8, 8), PLAIN),
    }
}

/// What weight is left to say where there are no colours.
const fn mono(tone: Tone) -> Modifier {
    match tone {
        Tone::Strong | Tone::Accent | Tone::Wrong | Tone::Warning => Modifier::BOLD,
        Tone::Dim | Tone::Faint | Tone::AllocatedBand | Tone::Free | Tone::Capacity => {
            Modifier::DIM
        }
        Tone::Text
        | Tone::Allocated
        | Tone::Reserved
        | Tone::Used
        | Tone::Limit
        | Tone::Predicted
        | Tone::Good
        | Tone::Parameters
        | Tone::Gradients
        | Tone::OptimizerState
        | Tone::Activations
        | Tone::Unallocated
        | Tone::NonPytorch
        | Tone::Foreign => Modifier::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Theme {
        Theme::of_environment(|name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn the_environment_says_what_the_terminal_can() {
        let plain = of(&[("TERM", "xterm"), ("LANG", "C")]);
        assert_eq!(plain.depth, Depth::Sixteen);
        assert_eq!(plain.glyphs.cross, "x");
        let full = of(&[
            ("TERM", "xterm-256color"),
            ("COLORTERM", "truecolor"),
            ("LANG", "de_DE.UTF-8"),
            ("COLORFGBG", "0;15"),
        ]);
        assert_eq!(full.depth, Depth::True);
        assert_eq!(full.ground, Ground::Light);
        assert_eq!(full.glyphs.cross, "✗");
    }

    #[test]
    fn without_colours_no_colour_is_set() {
        let theme = of(&[("NO_COLOR", "1"), ("TERM", "xterm-256color")]);
        for tone in [Tone::Wrong, Tone::Allocated, Tone::Text] {
            assert_eq!(theme.style(tone).fg, None);
            assert_eq!(theme.ground(tone).bg, None);
        }
    }

    #[test]
    fn sixteen_colours_stay_sixteen() {
        let theme = of(&[("TERM", "linux")]);
        assert_eq!(theme.style(Tone::Wrong).fg, Some(Color::Indexed(9)));
    }
}
