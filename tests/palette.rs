//! The palette of the themes: what stands side by side is told apart, also with a colour vision deficiency, and what is to be read can be
//! read, with all colours, with 256 and with sixteen.

use oomph::ui::theme::{Contrast, Depth, Ground, Scheme, Theme, Tone};
use ratatui::style::Color;

/// A kind of colour vision.
#[derive(Debug, Clone, Copy)]
enum Eye {
    Usual,
    Protanopia,
    Deuteranopia,
    Tritanopia,
}

impl Eye {
    /// A colour (sRGB) as these eyes see it, in linear light. The matrices are those of Machado,
    /// Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
    /// Deficiency" (2009), for a severity of 1.
    fn sees(self, rgb: [u8; 3]) -> [f64; 3] {
        let light = rgb.map(linear);
        let rows = match self {
            Eye::Usual => return light,
            Eye::Protanopia => [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
            Eye::Deuteranopia => [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
            Eye::Tritanopia => [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        };
        rows.map(|row| dot(row, light).clamp(0.0, 1.0))
    }
}

/// The perceived distance of two colours in linear light: Euclidean in Oklab
/// (<https://bottosson.github.io/posts/oklab/>).
fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
    let [one, other] = [one, other].map(oklab);
    let squares = one.iter().zip(other).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>().sqrt()
}

/// WCAG's contrast ratio of two colours, from 1 to 21.
fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let luminance = |rgb: [u8; 3]| dot([0.2126, 0.7152, 0.0722], rgb.map(linear)) + 0.05;
    let [one, other] = [one, other].map(luminance);
    one.max(other) / one.min(other)
}

/// sRGB's transfer function (IEC 61966-2-1).
fn linear(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.04045 {
        c / 12.92
    } else {
        ((c + 0.055) / 1.055).powf(2.4)
    }
}

fn oklab(light: [f64; 3]) -> [f64; 3] {
    let cones = [
        [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
        [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
        [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
    ]
    .map(|row| dot(row, light).cbrt());
    [
        [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
        [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
        [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
    ]
    .map(|row| dot(row, cones))
}

fn dot(one: [f64; 3], other: [f64; 3]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// The sixteen colours of xterm and of the PC's text modes.
const SIXTEEN: [[u32; 16]; 2] = [
    [
        0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, 0x7f7f7f,
        0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
    ],
    [
        0x000000, 0xaa0000, 0x00aa00, 0xaa5500, 0x0000aa, 0xaa00aa, 0x00aaaa, 0xaaaaaa, 0x555555,
        0xff5555, 0x55ff55, 0xffff55, 0x5555ff, 0xff55ff, 0x55ffff, 0xffffff,
    ],
];

/// What a terminal shows for a colour; which one matters for the first sixteen.
fn shown(colour: Color, terminal: usize) -> [u8; 3] {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match colour {
        Color::Rgb(r, g, b) => [r, g, b],
        Color::Indexed(index @ 0..16) => {
            let [_, r, g, b] = SIXTEEN[terminal][usize::from(index)].to_be_bytes();
            [r, g, b]
        }
        Color::Indexed(index @ 16..232) => {
            [36, 6, 1].map(|unit| LEVELS[usize::from((index - 16) / unit % 6)])
        }
        Color::Indexed(grey) => [8 + 10 * (grey - 232); 3],
        other => panic!("{other:?} is not sent"),
    }
}

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
const STEP: [Tone; 7] = [
    Tone::Parameters,
    Tone::OptimizerState,
    Tone::Gradients,
    Tone::Kept,
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

/// Each theme's colours on dark and on light, as a terminal with so many of them gets them.
fn themes_on(term: &'static str, colorterm: &'static str) -> impl Iterator<Item = Theme> {
    let grounds = ["15;0", "0;15"];
    grounds.into_iter().flat_map(move |ground| {
        let theme = Theme::of_environment(|name| {
            let value = match name {
                "COLORFGBG" => ground,
                "TERM" => term,
                "COLORTERM" => colorterm,
                _ => return None,
            };
            Some(String::from(value))
        });
        [Scheme::Default, Scheme::Contrast].map(|scheme| theme.wearing(scheme))
    })
}

fn themes() -> impl Iterator<Item = Theme> {
    themes_on("xterm", "truecolor")
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
    const STYLE: &str = include_str!("../src/report/page/assets/page.css");
    const NAMES: [&str; 7] = [
        "parameters",
        "optimizer",
        "gradients",
        "kept",
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
    for theme in themes_on("xterm-256color", "") {
        assert_eq!(theme.depth, Depth::TwoFiftySix);
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
    for theme in themes_on("xterm", "") {
        assert_eq!(theme.depth, Depth::Sixteen);
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

/// A report's chart has the colours that its lines have on the screen, on light and on dark.
#[test]
fn a_reports_chart_has_the_colours_of_the_screen() {
    const CSS: &str = include_str!("../src/report/page/assets/page.css");
    let (light, dark) = CSS.split_once("prefers-color-scheme: dark").expect("both");
    for (css, scheme) in [(light, Scheme::Light), (dark, Scheme::Dark)] {
        let theme = Theme::full().wearing(scheme);
        for (name, tone) in [
            ("allocated", Tone::Allocated),
            ("reserved", Tone::Reserved),
            ("used", Tone::Used),
            ("capacity", Tone::Capacity),
        ] {
            let Some(Color::Rgb(r, g, b)) = theme.style(tone).fg else {
                panic!("{name} has a colour");
            };
            let wanted = format!("--{name}: #{r:02x}{g:02x}{b:02x};");
            assert!(css.contains(&wanted), "{wanted} in {scheme:?}");
        }
    }
}
