//! The table of the themes: each tone's colours on dark and light, at usual and high contrast,
//! among sixteen colours, and its weight.
//!
//! The hues are Okabe and Ito's (<https://jfly.uni-koeln.de/color/>), adjusted so that neighbours
//! can be told apart with protanopia, deuteranopia and tritanopia too (simulated after Machado,
//! Oliveira and Fernandes, 2009). The tests check that, a contrast of 4.5 for the categories, also with
//! 256 and 16 colours, and one of 7 for text of the high-contrast theme (WCAG 2.2, success criteria 1.4.3
//! and 1.4.6).

use super::Tone;
use super::colour::Hue;
use ratatui::style::Modifier;

pub(super) struct Look {
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
pub(super) const fn look(tone: Tone) -> Look {
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

/// The same with others among the sixteen colours: of these only five can be read on white, and
/// categories that share one have their letters.
const fn among(hue: Option<Hue>, ansi: [u8; 2]) -> Option<Hue> {
    match hue {
        Some(hue) => Some(Hue { ansi, ..hue }),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sight::{Eye, contrast, distance, shown};
    use super::super::{Contrast, Depth, Ground, Theme};
    use super::*;

    const LINES: [Tone; 5] = [
        Tone::Allocated,
        Tone::Reserved,
        Tone::Used,
        Tone::Limit,
        Tone::Predicted,
    ];
    /// As they are stacked.
    const BREAKDOWN: [Tone; 8] = [
        Tone::Parameters,
        Tone::Gradients,
        Tone::OptimizerState,
        Tone::Activations,
        Tone::Cached,
        Tone::NonPytorch,
        Tone::OtherProcesses,
        Tone::Free,
    ];
    /// The categories of a step, as they are stacked: what stays first. Gradients are not there all the
    /// time, so that activations may lie on the optimizer's state.
    const STEP: [Tone; 6] = [
        Tone::Parameters,
        Tone::OptimizerState,
        Tone::Gradients,
        Tone::Activations,
        Tone::Cached,
        Tone::NonPytorch,
    ];
    /// What memory is made of; free memory is what is left, and drawn faintly.
    fn categories() -> &'static [Tone] {
        match &BREAKDOWN {
            [made_of @ .., Tone::Free] => made_of,
            _ => panic!("free memory lies on top"),
        }
    }

    const VERDICTS: [Tone; 3] = [Tone::Good, Tone::Warning, Tone::Wrong];

    fn themes() -> impl Iterator<Item = Theme> {
        let grounds = [Ground::Dark, Ground::Light];
        grounds.into_iter().flat_map(|ground| {
            [Contrast::Usual, Contrast::High].map(|contrast| Theme {
                ground,
                contrast,
                ..Theme::full()
            })
        })
    }

    fn rgb(theme: &Theme, tone: Tone) -> [u8; 3] {
        let colour = theme.style(tone).fg;
        colour.map_or_else(|| panic!("{tone:?} has no colour"), |fg| shown(fg, 0))
    }

    fn ground(theme: &Theme) -> [u8; 3] {
        match theme.ground {
            Ground::Dark => [0x10, 0x14, 0x1a],
            Ground::Light => [0xff; 3],
        }
    }

    /// The share of a distance that is asked for with each.
    const EYES: [(Eye, f64); 4] = [
        (Eye::Usual, 1.0),
        (Eye::Protanopia, 1.0),
        (Eye::Deuteranopia, 1.0),
        // One in ten thousand; the glyphs of lines and the order of the bar help there.
        (Eye::Tritanopia, 0.7),
    ];

    fn apart(theme: &Theme, one: Tone, other: Tone, least: f64) {
        for (eye, share) in EYES {
            let [one_rgb, other_rgb] = [one, other].map(|tone| eye.sees(rgb(theme, tone)));
            let seen = distance(one_rgb, other_rgb);
            assert!(
                seen >= least * share * 0.95,
                "{one:?} and {other:?} with {eye:?} on {:?}, {:?}: {seen:.3}",
                theme.ground,
                theme.contrast
            );
        }
    }

    fn pairs(tones: &[Tone]) -> impl Iterator<Item = (Tone, Tone)> {
        tones
            .iter()
            .enumerate()
            .flat_map(move |(n, one)| tones[n + 1..].iter().map(move |other| (*one, *other)))
    }

    /// Distances in Oklab, in which 0.02 can just be seen side by side.
    #[test]
    fn the_colour_blind_tell_apart_what_stands_side_by_side() {
        for theme in themes() {
            pairs(&LINES).for_each(|(one, other)| apart(&theme, one, other, 0.10));
            pairs(&BREAKDOWN).for_each(|(one, other)| apart(&theme, one, other, 0.065));
            let stacked = BREAKDOWN.iter().zip(&BREAKDOWN[1..]);
            stacked.for_each(|(one, other)| apart(&theme, *one, *other, 0.12));
            pairs(&STEP).for_each(|(one, other)| apart(&theme, one, other, 0.08));
            let stacked = STEP.iter().zip(&STEP[1..]);
            stacked.for_each(|(one, other)| apart(&theme, *one, *other, 0.12));
            apart(&theme, Tone::OptimizerState, Tone::Activations, 0.12);
            pairs(&VERDICTS).for_each(|(one, other)| apart(&theme, one, other, 0.12));
            apart(&theme, Tone::Allocated, Tone::Wrong, 0.12);
        }
    }

    /// The report's page stacks them too, and writes on them.
    #[test]
    fn the_categories_of_a_report_are_told_apart_as_well() {
        const STYLE: &str = include_str!("../../report/page/assets/page.css");
        const NAMES: [&str; 6] = [
            "parameters",
            "optimizer",
            "gradients",
            "activations",
            "temporaries",
            "other",
        ];
        let themes = STYLE.matches("--parameters: #").count();
        assert_eq!(themes, 3, "light, dark, on paper");
        for theme in 0..themes {
            let colours = NAMES.map(|name| {
                let declared = format!("--{name}: #");
                let value = STYLE.split(declared.as_str()).nth(theme + 1);
                let value = value.and_then(|value| value.get(..6)).expect("a colour");
                let value = u32::from_str_radix(value, 16).expect("a colour");
                let [_, r, g, b] = value.to_be_bytes();
                [r, g, b]
            });
            for (n, one) in colours.iter().enumerate() {
                let words = contrast(*one, [0x12, 0x15, 0x1b]);
                assert!(words >= 4.5, "{} in theme {theme}: {words:.1}", NAMES[n]);
                for (m, other) in colours.iter().enumerate().skip(n + 1) {
                    let least = if m == n + 1 { 0.12 } else { 0.08 };
                    for (eye, share) in EYES {
                        let seen = distance(eye.sees(*one), eye.sees(*other));
                        assert!(
                            seen >= least * share * 0.95,
                            "{} and {} with {eye:?} in theme {theme}: {seen:.3}",
                            NAMES[n],
                            NAMES[m]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_to_be_read_can_be_read() {
        for theme in themes() {
            let ground = ground(&theme);
            let (text, drawn, category) = match theme.contrast {
                Contrast::Usual => (4.4, 3.0, 4.5),
                Contrast::High => (7.0, 5.0, 5.0),
            };
            for tone in [
                Tone::Dim,
                Tone::Accent,
                Tone::Good,
                Tone::Warning,
                Tone::Wrong,
            ] {
                let ratio = contrast(rgb(&theme, tone), ground);
                assert!(ratio >= text, "{tone:?} on {:?}: {ratio:.1}", theme.ground);
            }
            let lines = LINES.iter().map(|tone| (tone, drawn));
            let categories = categories().iter().map(|tone| (tone, category));
            for (tone, least) in lines.chain(categories) {
                let ratio = contrast(rgb(&theme, *tone), ground);
                assert!(ratio >= least, "{tone:?} on {:?}: {ratio:.2}", theme.ground);
            }
        }
    }

    /// Less is asked for than with all colours: xterm's cube is coarse among the dark ones.
    const OF_256: f64 = 0.6;

    #[test]
    fn categories_are_read_and_told_apart_with_256_colours_too() {
        for theme in themes() {
            let theme = Theme {
                depth: Depth::TwoFiftySix,
                ..theme
            };
            for &tone in categories() {
                let ratio = contrast(rgb(&theme, tone), ground(&theme));
                assert!(ratio >= 4.5, "{tone:?} on {:?}: {ratio:.2}", theme.ground);
            }
            pairs(&BREAKDOWN).for_each(|(one, other)| apart(&theme, one, other, 0.065 * OF_256));
            pairs(&STEP).for_each(|(one, other)| apart(&theme, one, other, 0.08 * OF_256));
            let stacked = STEP.iter().zip(&STEP[1..]);
            stacked.for_each(|(one, other)| apart(&theme, *one, *other, 0.12 * OF_256));
        }
    }

    /// What the sixteen colours are is the terminal's: xterm's and the PC's stand for them.
    #[test]
    fn categories_are_read_and_told_apart_with_sixteen_colours_too() {
        for theme in themes() {
            let theme = Theme {
                depth: Depth::Sixteen,
                ..theme
            };
            let colour = |tone| theme.style(tone).fg.expect("a colour");
            let ground = match theme.ground {
                Ground::Dark => [0; 3],
                Ground::Light => [0xff; 3],
            };
            for &tone in categories() {
                for terminal in [0, 1] {
                    let ratio = contrast(shown(colour(tone), terminal), ground);
                    assert!(ratio >= 4.5, "{tone:?} on {:?}: {ratio:.2}", theme.ground);
                }
            }
            for (one, other) in pairs(categories()).filter(|_| !theme.has_letters()) {
                for terminal in [0, 1] {
                    let [one, other] = [one, other].map(|tone| shown(colour(tone), terminal));
                    let seen = distance(Eye::Deuteranopia.sees(one), Eye::Deuteranopia.sees(other));
                    assert!(seen >= 0.05, "{one:?} and {other:?}: {seen:.3}");
                }
            }
        }
    }
}
