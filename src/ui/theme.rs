//! Colours and glyphs. Drawing code names a [`Tone`], never a colour, so that one table
//! (`palette.rs`) is the whole theme. Red is only for what has gone wrong.

mod colour;
mod glyphs;
mod palette;
mod scheme;
#[cfg(test)]
mod sight;

pub use colour::Depth;
pub use glyphs::{ASCII, Glyphs, UNICODE};
pub use scheme::Scheme;

use palette::look;
use ratatui::style::{Color, Modifier, Style};

/// What something means; the theme says how that looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Text,
    /// Less important text.
    Dim,
    /// Rules, axes, borders.
    Faint,
    /// Most important text.
    Strong,
    /// Keys, oomph's name, the selection.
    Accent,
    /// Live tensors.
    Allocated,
    /// Between minimum and maximum of a column's allocated memory.
    AllocatedBand,
    /// Reserved by the caching allocator.
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
    /// Something does not work, without harm.
    Warning,
    /// Something works, or fits.
    Good,
    /// The parts of the breakdown from here on.
    Parameters,
    Gradients,
    OptimizerState,
    Activations,
    Cached,
    NonPytorch,
    OtherProcesses,
    Free,
}

/// The terminal's background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contrast {
    Usual,
    High,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// How many colours it has.
    pub depth: Depth,
    /// The background that colours are chosen for.
    pub ground: Ground,
    pub contrast: Contrast,
    /// The characters that the terminal can show.
    pub glyphs: &'static Glyphs,
    /// The user's choice.
    pub scheme: Scheme,
    /// The background that the terminal reports.
    told: Ground,
}

impl Theme {
    /// From `NO_COLOR`, `COLORTERM`, `TERM`, `COLORFGBG`, `LC_ALL`, `LC_CTYPE` and `LANG`.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Theme {
        let told = ground_of(variable("COLORFGBG").as_deref());
        Theme {
            depth: Depth::of_environment(&variable),
            ground: told,
            contrast: Contrast::Usual,
            glyphs: Glyphs::of_environment(&variable),
            scheme: Scheme::Default,
            told,
        }
    }

    /// The same terminal with another theme.
    pub fn wearing(self, scheme: Scheme) -> Theme {
        Theme {
            ground: scheme.ground(self.told),
            contrast: scheme.contrast(),
            scheme,
            ..self
        }
    }

    /// The next theme that looks different on this terminal.
    pub fn next(self) -> Theme {
        let looks = |theme: Theme| (theme.ground, theme.contrast);
        let mut next = self.wearing(self.scheme.next());
        while looks(next) == looks(self) && next.scheme != self.scheme {
            next = next.wearing(next.scheme.next());
        }
        next
    }

    /// True colour on dark with all glyphs, for pictures and tests.
    pub const fn full() -> Theme {
        Theme {
            depth: Depth::True,
            ground: Ground::Dark,
            contrast: Contrast::Usual,
            glyphs: &UNICODE,
            scheme: Scheme::Default,
            told: Ground::Dark,
        }
    }

    pub fn style(&self, tone: Tone) -> Style {
        let look = look(tone);
        let style = Style::new().add_modifier(match (self.depth, self.contrast) {
            (Depth::None, Contrast::Usual) => look.mono,
            (Depth::None, Contrast::High) => look.mono - Modifier::DIM,
            (Depth::Sixteen | Depth::TwoFiftySix | Depth::True, _) => look.weight,
        });
        match look.hue.and_then(|hue| hue.colour(self)) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }

    /// Whether categories are drawn as letters: too few colours can be read to tell them apart.
    pub fn has_letters(&self) -> bool {
        match (self.depth, self.ground) {
            (Depth::None, _) | (Depth::Sixteen, Ground::Light) => true,
            (Depth::Sixteen | Depth::TwoFiftySix | Depth::True, _) => false,
        }
    }

    /// The style of text on a coloured background.
    pub fn on_ground(&self) -> Style {
        match (self.depth, self.ground) {
            (Depth::None, _) => Style::new(),
            (Depth::Sixteen, Ground::Dark) => Style::new().fg(Color::Indexed(0)),
            (Depth::Sixteen, Ground::Light) => Style::new().fg(Color::Indexed(15)),
            (Depth::TwoFiftySix, Ground::Dark) => Style::new().fg(Color::Indexed(16)),
            (Depth::TwoFiftySix, Ground::Light) => Style::new().fg(Color::Indexed(231)),
            (Depth::True, Ground::Dark) => Style::new().fg(Color::Rgb(0x10, 0x14, 0x1a)),
            (Depth::True, Ground::Light) => Style::new().fg(Color::Rgb(0xff, 0xff, 0xff)),
        }
    }

    /// A tone as background.
    pub fn ground(&self, tone: Tone) -> Style {
        match look(tone).hue.and_then(|hue| hue.colour(self)) {
            Some(colour) => Style::new().bg(colour),
            None => Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// `COLORFGBG` is `fg;bg` in the sixteen colours; 7 and 9 to 15 are light (rxvt, Konsole).
fn ground_of(colorfgbg: Option<&str>) -> Ground {
    let background = colorfgbg.and_then(|text| text.rsplit(';').next()?.parse::<u8>().ok());
    match background {
        Some(7 | 9..=15) => Ground::Light,
        Some(_) | None => Ground::Dark,
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
        let light = theme.wearing(Scheme::Light);
        let yellow = light.style(Tone::Warning).fg;
        assert_eq!(yellow, Some(Color::Indexed(3)), "bright yellow on white");
    }

    #[test]
    fn the_key_goes_through_all_that_look_different() {
        let dark = of(&[("TERM", "xterm-256color")]);
        let through = |first: Theme| {
            let mut seen = vec![first.scheme];
            let mut theme = first.next();
            while !seen.contains(&theme.scheme) {
                seen.push(theme.scheme);
                theme = theme.next();
            }
            seen
        };
        use Scheme::{Contrast, Dark, Default, Light};
        assert_eq!(through(dark), [Default, Light, Contrast]);
        assert_eq!(
            through(dark.wearing(Dark)),
            [Dark, Light, Contrast, Default]
        );
        let light = of(&[("TERM", "xterm-256color"), ("COLORFGBG", "0;15")]);
        assert_eq!(through(light), [Default, Dark, Light, Contrast]);
    }
}
