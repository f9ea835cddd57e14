//! Colours, and the characters that a terminal has. Drawing code names a [`Tone`], never a colour, so that one table is the whole theme: each tone's colours on dark and light, at
//! usual and high contrast, among sixteen colours, and its weight. Red is only for what has gone wrong.
//!
//! The hues are Okabe and Ito's (<https://jfly.uni-koeln.de/color/>), adjusted so that neighbours
//! can be told apart with protanopia, deuteranopia and tritanopia too (simulated after Machado,
//! Oliveira and Fernandes, 2009). The tests (`tests/palette.rs`) check that, a contrast of 4.5 for the categories, also with
//! 256 and 16 colours, and one of 7 for text of the high-contrast theme (WCAG 2.2, success criteria 1.4.3
//! and 1.4.6).

use clap::ValueEnum;
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
    /// Something has gone wrong.
    Wrong,
    /// Something does not work, without harm.
    Warning,
    /// Something works, or fits.
    Good,
    /// The parts of the breakdown from here on.
    Parameters,
    Gradients,
    OptimizerState,
    /// What earlier steps left, and what this one leaves.
    Kept,
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

    /// Changes the theme; what the terminal can show stays.
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
struct Hue {
    /// `0xrrggbb` at the usual contrast.
    pub usual: [u32; 2],
    /// At a high contrast.
    pub high: [u32; 2],
    /// Among the sixteen colours.
    pub ansi: [u8; 2],
}

impl Hue {
    /// The colour to send, if the terminal has colours.
    fn colour(&self, theme: &Theme) -> Option<Color> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Scheme {
    /// For the background that the terminal reports (`COLORFGBG`), or dark.
    #[default]
    Default,
    /// For a dark background, whatever the terminal reports.
    Dark,
    /// For a light background.
    Light,
    /// High contrast, for the background that the terminal reports.
    Contrast,
}

impl Scheme {
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_string())
    }

    fn next(self) -> Scheme {
        let all = Scheme::value_variants();
        all[(self as usize + 1) % all.len()]
    }

    fn ground(self, told: Ground) -> Ground {
        match self {
            Scheme::Default | Scheme::Contrast => told,
            Scheme::Dark => Ground::Dark,
            Scheme::Light => Ground::Light,
        }
    }

    fn contrast(self) -> Contrast {
        match self {
            Scheme::Default | Scheme::Dark | Scheme::Light => Contrast::Usual,
            Scheme::Contrast => Contrast::High,
        }
    }
}

struct Look {
    /// `None` for the terminal's text colour.
    pub hue: Option<Hue>,
    /// With colours.
    pub weight: Modifier,
    /// Without colours.
    pub mono: Modifier,
}

const PLAIN: Modifier = Modifier::empty();
const BOLD: Modifier = Modifier::BOLD;
const DIM: Modifier = Modifier::DIM;

#[rustfmt::skip]
const fn look(tone: Tone) -> Look {
    let (hue, weight, mono) = match tone {
        Tone::Text => (None, PLAIN, PLAIN),
        Tone::Strong => (None, BOLD, BOLD),
        Tone::Dim => (hue([0x9aa4b2, 0x5a6472], [0xe0e0e0, 0x303030], [7, 8]), PLAIN, DIM),
        Tone::Faint => (hue([0x4a5361, 0xb4bcc8], [0xb0b0b0, 0x606060], [8, 7]), PLAIN, DIM),
        Tone::Accent => (hue([0x7fd1ff, 0x005f9e], [0x9fe3ff, 0x00478a], [14, 4]), BOLD, BOLD),
        Tone::Allocated => (BLUE, PLAIN, PLAIN),
        Tone::Activations => (among(BLUE, [14, 12]), PLAIN, PLAIN),
        Tone::AllocatedBand => (hue([0x2f78ad, 0x9ccbea], [0x2f8fd0, 0x5090c0], [4, 14]), PLAIN, DIM),
        Tone::Reserved => (ORANGE, PLAIN, PLAIN),
        Tone::Cached => (among(ORANGE, [11, 5]), PLAIN, PLAIN),
        Tone::Used => (hue([0xc8d6d0, 0x414133], [0xffffff, 0x000000], [15, 0]), PLAIN, PLAIN),
        Tone::Capacity => (hue([0x8a94a3, 0x6a7482], [0xd0d0d0, 0x404040], [7, 8]), PLAIN, DIM),
        Tone::Limit => (PURPLE, PLAIN, PLAIN),
        Tone::OtherProcesses => (among(PURPLE, [15, 4]), PLAIN, PLAIN),
        Tone::Kept => (hue([0xe8ee8a, 0x5c0f22], [0xff4d2e, 0x470010], [9, 1]), PLAIN, PLAIN),
        Tone::Predicted | Tone::Good => (GREEN, PLAIN, PLAIN),
        Tone::Wrong => (hue([0xfb634b, 0xa11728], [0xff7a6a, 0xa4201c], [9, 1]), BOLD, BOLD),
        Tone::Warning => (hue([0xf0c95a, 0xa16c00], [0xffde4b, 0x402000], [11, 3]), PLAIN, BOLD),
        Tone::Parameters => (hue([0x4a869e, 0x053b8e], [0x6f9fff, 0x0727bb], [6, 4]), PLAIN, PLAIN),
        Tone::Gradients => (hue([0x1cab74, 0x10855f], [0x09fc99, 0x746f17], [2, 0]), PLAIN, PLAIN),
        Tone::OptimizerState => (hue([0x8f85fe, 0x7b2fef], [0xc473ad, 0x4c2b72], [13, 5]), PLAIN, PLAIN),
        Tone::NonPytorch => (hue([0xa7b0b4, 0x6e6cc4], [0xc7dcdc, 0x58576d], [7, 0]), PLAIN, PLAIN),
        Tone::Free => (hue([0x5a6372, 0xb4bcc8], [0x93856f, 0x808890], [8, 7]), PLAIN, DIM),
    };
    Look { hue, weight, mono }
}

const BLUE: Option<Hue> = hue([0x28caff, 0x145b9e], [0x7cceff, 0x005eba], [12, 12]);
const ORANGE: Option<Hue> = hue([0xe7a73d, 0xa66800], [0xfcb31c, 0x772f00], [11, 3]);
const PURPLE: Option<Hue> = hue([0xae72c5, 0x8c276c], [0xd48dbe, 0x650149], [13, 5]);
const GREEN: Option<Hue> = hue([0x36c0a8, 0x14857b], [0x07f3bc, 0x004c82], [10, 6]);

/// `[dark, light]` at the usual contrast, at a high one, among sixteen.
const fn hue(usual: [u32; 2], high: [u32; 2], ansi: [u8; 2]) -> Option<Hue> {
    Some(Hue { usual, high, ansi })
}

/// A hue with other colours among the sixteen: of these only five can be read on white, and
/// categories that share one have their letters.
const fn among(hue: Option<Hue>, ansi: [u8; 2]) -> Option<Hue> {
    match hue {
        Some(hue) => Some(Hue { ansi, ..hue }),
        None => None,
    }
}

/// Makes the struct and its two sets from one table: name, type, UTF-8, ASCII.
macro_rules! glyphs {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $unicode:expr, $ascii:expr;)*) => {
        /// The characters that are not text.
        #[derive(Debug, PartialEq, Eq)]
        pub struct Glyphs {
            $($(#[$doc])* pub $name: $type,)*
        }

        /// For terminals with UTF-8. Only characters that are one column wide everywhere and in
        /// every common monospaced font.
        pub static UNICODE: Glyphs = Glyphs { $($name: $unicode,)* };

        /// For all others.
        pub static ASCII: Glyphs = Glyphs { $($name: $ascii,)* };
    };
}

glyphs! {
    /// A cell filled from below by 0 to 8 eighths.
    eighths: [&'static str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"], [" ", "_", "_", ".", "-", "=", "=", "#", "#"];
    /// A cell filled from the left by 0 to 8 eighths.
    lefts: [&'static str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"], [" ", ":", ":", ":", "#", "#", "#", "#", "#"];
    /// A cell of the band between least and most, where there are no colours.
    band: &'static str = "▒", ":";
    /// A solid line.
    line: &'static str = "─", "-";
    /// A solid line going up or down, and its four corners: from the left down, from the left up,
    /// down to the right, up to the right.
    riser: &'static str = "│", "|";
    /// `┐ ┘ └ ┌`: the line leaves its row downwards, upwards, arrives from above, from below.
    corners: [&'static str; 4] = ["┐", "┘", "└", "┌"], ["+", "+", "+", "+"];
    /// A line of lesser weight.
    dashes: &'static str = "╌", "~";
    /// A rule.
    dots: &'static str = "┈", ".";
    /// The rule of a prediction.
    sparse_dots: &'static str = "·", ".";
    /// A vertical axis.
    axis: &'static str = "│", "|";
    /// A vertical axis where a part of it is left out.
    broken_axis: &'static str = "┊", ":";
    /// The axis where a number stands beside it.
    axis_tick: &'static str = "┤", "+";
    /// The corner of both axes.
    origin: &'static str = "└", "+";
    /// The axis where an epoch begins.
    epoch: &'static str = "┴", "+";
    /// The mark of a relaunch.
    relaunch: &'static str = "╎", "|";
    /// The mark of what went wrong.
    cross: &'static str = "✗", "x";
    /// A source of data is there (probe, NVML).
    dot: &'static str = "●", "*";
    /// A source of data is not there, or not yet.
    ring: &'static str = "○", "o";
    /// A source of data is paused or stale.
    rest: &'static str = "◌", "-";
    /// From one to another.
    arrow: &'static str = "→", ">";
    /// What was cut.
    ellipsis: &'static str = "…", "~";
    /// The selected line.
    pointer: &'static str = "❯", ">";
    /// Chosen together.
    ticked: &'static str = "●", "x";
    /// Could be chosen.
    unticked: &'static str = "○", "-";
    /// Between two facts of one line.
    separator: &'static str = " · ", " | ";
    /// A full cell of a bar.
    full: &'static str = "█", "#";
    /// A cell of what is cached or free.
    shade: &'static str = "░", ":";
    /// A cell of what is not PyTorch's.
    dense_shade: &'static str = "▒", "%";
    /// Before a figure that is not exact.
    about: &'static str = "≈", "~";
    /// A quantity climbs: a leak, a rank above the median.
    climb: &'static str = "▲", "^";
    /// The peak is below.
    peak: &'static str = "▼", "v";
    /// Paused.
    paused: &'static str = "‖", "||";
    /// Playing.
    playing: &'static str = "▶", ">";
    /// The box of a dialog: top left, top right, bottom left, bottom right, horizontal, vertical.
    frame: [&'static str; 6] = ["╭", "╮", "╰", "╯", "─", "│"], ["+", "+", "+", "+", "-", "|"];
    /// Words taken out of a command.
    minus: &'static str = "−", "-";
    /// The keys up, down, left, right.
    arrow_keys: [&'static str; 4] = ["↑", "↓", "←", "→"], ["Up", "Down", "Left", "Right"];
    /// Degrees Celsius.
    celsius: &'static str = "°C", " C";
}

impl Glyphs {
    /// By the locale's character set (`LC_ALL` before `LC_CTYPE` before `LANG`).
    pub fn of_environment(variable: &impl Fn(&str) -> Option<String>) -> &'static Glyphs {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()))
            .unwrap_or_default()
            .to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") {
            &UNICODE
        } else {
            &ASCII
        }
    }

    /// Replaces characters in a text that this set lacks.
    pub fn spelled(&self, text: &str) -> String {
        if std::ptr::eq(self, &UNICODE) {
            return text.to_string();
        }
        text.replace(UNICODE.arrow, self.arrow)
            .replace(UNICODE.minus, self.minus)
            .replace(UNICODE.ellipsis, "...")
            .replace(['–', '—'], "-")
            .replace('≥', ">=")
            .replace('≤', "<=")
            .replace('≈', "~")
            .replace('±', "+-")
            .replace('×', "x")
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

    #[test]
    fn names_lead_back() {
        let mut scheme = Scheme::default();
        for &expected in Scheme::value_variants() {
            assert_eq!(scheme, expected);
            assert_eq!(Scheme::from_str(&scheme.name(), false), Ok(scheme));
            scheme = scheme.next();
        }
        assert_eq!(scheme, Scheme::default(), "around");
    }
}

#[cfg(test)]
mod glyphs_tests {
    use super::*;

    #[test]
    fn the_locale_decides() {
        for (all, lang, ascii) in [
            ("", "en_US.UTF-8", false),
            ("", "C.utf8", false),
            ("C", "en_US.UTF-8", true),
            ("", "POSIX", true),
            ("", "", true),
        ] {
            let variable = |name: &str| match name {
                "LC_ALL" => Some(all.to_string()),
                "LANG" => Some(lang.to_string()),
                _ => None,
            };
            let chosen = Glyphs::of_environment(&variable);
            assert_eq!(std::ptr::eq(chosen, &ASCII), ascii, "{all:?} {lang:?}");
        }
    }
}
