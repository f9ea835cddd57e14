//! How colours are seen, also with a colour vision deficiency: for the tests of the palette.

use ratatui::style::Color;

/// A kind of colour vision.
#[derive(Debug, Clone, Copy)]
pub(super) enum Eye {
    Usual,
    Protanopia,
    Deuteranopia,
    Tritanopia,
}

impl Eye {
    /// A colour (sRGB) as these eyes see it, in linear light. The matrices are those of Machado,
    /// Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
    /// Deficiency" (2009), for a severity of 1.
    pub(super) fn sees(self, rgb: [u8; 3]) -> [f64; 3] {
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
pub(super) fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
    let [one, other] = [one, other].map(oklab);
    let squares = one.iter().zip(other).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>().sqrt()
}

/// WCAG's contrast ratio of two colours, from 1 to 21.
pub(super) fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
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
pub(super) fn shown(colour: Color, terminal: usize) -> [u8; 3] {
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
