//! A frame as a picture: every cell on a monospaced grid, block elements as rectangles so that the
//! picture has no seams. A small writer of our own, since what it has to do is small and the result
//! lies in the repository.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write;

const CELL_W: f64 = 8.4;
const CELL_H: f64 = 18.0;
const PAD: f64 = 14.0;
const GROUND: &str = "#10141a";
const TEXT: &str = "#d8dee9";

/// The sixteen colours, as a dark theme has them.
const ANSI: [&str; 16] = [
    "#1c2128", "#e5534b", "#57ab5a", "#c69026", "#539bf5", "#b083f0", "#39c5cf", "#adbac7",
    "#545d68", "#ff938a", "#8ddb8c", "#f0c95a", "#96d0ff", "#dcbdfb", "#56d4dd", "#ffffff",
];

/// The picture of a buffer.
pub fn render(buf: &Buffer, title: &str) -> String {
    let mut svg = head(buf, 0.0, title);
    body(&mut svg, buf);
    svg.push_str("</svg>\n");
    svg
}

/// One screen of an animation.
pub struct Shot {
    pub buf: Buffer,
    pub seconds: u32,
    /// What happens, below the screen; a word in square brackets is drawn as a key.
    pub caption: &'static str,
}

/// Height of the line below the screen.
const CAPTION: f64 = 34.0;

/// Screens of one size after each other, without end. By style sheets alone: a picture in a README
/// runs no scripts. Where nothing moves, the first screen is seen.
pub fn animate(shots: &[Shot], title: &str) -> String {
    let total: u32 = shots.iter().map(|shot| shot.seconds).sum();
    let mut svg = head(&shots[0].buf, CAPTION, title);
    svg.push_str("<style>");
    let mut begins = 0;
    for (n, shot) in shots.iter().enumerate() {
        let percent = |seconds: u32| f64::from(seconds) * 100.0 / f64::from(total);
        let (from, to) = (percent(begins), percent(begins + shot.seconds));
        let _ = write!(
            svg,
            "@keyframes k{n}{{0%{{opacity:{}}}",
            u8::from(begins == 0)
        );
        if begins > 0 {
            let _ = write!(svg, "{from:.2}%{{opacity:1}}");
        }
        let _ = write!(svg, "{to:.2}%{{opacity:0}}100%{{opacity:0}}}}");
        let _ = write!(svg, ".s{n}{{animation:k{n} {total}s step-end infinite}}");
        begins += shot.seconds;
    }
    svg.push_str("@media (prefers-reduced-motion:reduce){g{animation:none!important}}</style>\n");
    for (n, shot) in shots.iter().enumerate() {
        let opacity = u8::from(n == 0);
        let _ = writeln!(svg, r#"<g class="s{n}" opacity="{opacity}">"#);
        body(&mut svg, &shot.buf);
        caption(&mut svg, &shot.buf, shot.caption);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn caption(svg: &mut String, buf: &Buffer, words: &str) {
    let top = PAD + f64::from(buf.area.height) * CELL_H + CAPTION - 26.0;
    let (key, words) = match words
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((key, rest)) => (Some(key), rest.trim_start()),
        None => (None, words),
    };
    let mut x = PAD + CELL_W;
    if let Some(key) = key {
        let _ = writeln!(
            svg,
            r##"<rect x="{x:.1}" y="{top:.1}" width="26" height="26" rx="5" fill="#f0c95a"/><text x="{:.1}" y="{:.1}" font-size="17" font-weight="bold" fill="{GROUND}" text-anchor="middle">{key}</text>"##,
            x + 13.0,
            top + 19.0
        );
        x += 38.0;
    }
    let _ = writeln!(
        svg,
        r##"<text x="{x:.1}" y="{:.1}" font-size="17" font-weight="bold" fill="#f0c95a">{words}</text>"##,
        top + 19.0
    );
}

fn head(buf: &Buffer, below: f64, title: &str) -> String {
    let width = f64::from(buf.area.width) * CELL_W + 2.0 * PAD;
    let height = f64::from(buf.area.height) * CELL_H + 2.0 * PAD + below;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" shape-rendering="crispEdges" viewBox="0 0 {width:.1} {height:.1}" role="img" aria-label="{title}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" fill="{TEXT}" xml:space="preserve">
<rect width="100%" height="100%" rx="10" fill="{GROUND}"/>
"#
    )
}

fn body(svg: &mut String, buf: &Buffer) {
    for y in 0..buf.area.height {
        backgrounds(svg, buf, y);
        blocks(svg, buf, y);
        text(svg, buf, y);
    }
}

fn cell(buf: &Buffer, x: u16, y: u16) -> &Cell {
    &buf[(buf.area.x + x, buf.area.y + y)]
}

/// Foreground and background, as they are seen.
fn colours(cell: &Cell) -> (String, Option<String>) {
    let fg = hex(cell.fg).unwrap_or(TEXT.to_string());
    let bg = hex(cell.bg);
    if cell.modifier.contains(Modifier::REVERSED) {
        (bg.unwrap_or(GROUND.to_string()), Some(fg))
    } else {
        (fg, bg)
    }
}

fn hex(colour: Color) -> Option<String> {
    match colour {
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
        Color::Indexed(n @ 0..=15) => Some(ANSI[usize::from(n)].to_string()),
        Color::Indexed(n @ 16..=231) => {
            let level = |v: u8| if v == 0 { 0 } else { 55 + 40 * v };
            let n = n - 16;
            let (r, g, b) = (level(n / 36), level(n / 6 % 6), level(n % 6));
            Some(format!("#{r:02x}{g:02x}{b:02x}"))
        }
        Color::Indexed(n) => {
            let v = 8 + 10 * (n - 232);
            Some(format!("#{v:02x}{v:02x}{v:02x}"))
        }
        _ => None,
    }
}

/// Runs of cells that look alike to `of`, as (first column, length, look).
fn runs<T: PartialEq>(width: u16, of: impl Fn(u16) -> Option<T>) -> Vec<(u16, u16, T)> {
    let mut runs: Vec<(u16, u16, T)> = Vec::new();
    for x in 0..width {
        let Some(look) = of(x) else { continue };
        match runs.last_mut() {
            Some((first, length, last)) if *first + *length == x && *last == look => *length += 1,
            _ => runs.push((x, 1, look)),
        }
    }
    runs
}

fn rect(svg: &mut String, x: f64, y: f64, w: f64, h: f64, fill: &str) {
    let _ = writeln!(
        svg,
        r#"<rect x="{x:.1}" y="{y:.2}" width="{w:.1}" height="{h:.2}" fill="{fill}"/>"#
    );
}

fn left(x: u16) -> f64 {
    PAD + f64::from(x) * CELL_W
}

fn top(y: u16) -> f64 {
    PAD + f64::from(y) * CELL_H
}

fn backgrounds(svg: &mut String, buf: &Buffer, y: u16) {
    for (x, length, fill) in runs(buf.area.width, |x| colours(cell(buf, x, y)).1) {
        rect(
            svg,
            left(x),
            top(y),
            f64::from(length) * CELL_W,
            CELL_H,
            &fill,
        );
    }
}

/// The eighths that a block element fills from below, or from the left.
#[derive(PartialEq)]
enum Block {
    Below(u8),
    Left(u8),
    Shade(&'static str),
}

fn block(symbol: &str) -> Option<Block> {
    let c = symbol.chars().next()?;
    match c {
        '▁'..='█' => Some(Block::Below((c as u32 - '▁' as u32 + 1) as u8)),
        '▉'..='▏' => Some(Block::Left(('▏' as u32 - c as u32 + 1) as u8)),
        '░' => Some(Block::Shade("0.3")),
        '▒' => Some(Block::Shade("0.55")),
        _ => None,
    }
}

fn blocks(svg: &mut String, buf: &Buffer, y: u16) {
    let looks = runs(buf.area.width, |x| {
        let cell = cell(buf, x, y);
        Some((block(cell.symbol())?, colours(cell).0))
    });
    for (x, length, (block, fill)) in looks {
        let w = f64::from(length) * CELL_W;
        match block {
            Block::Below(n) => {
                let h = CELL_H * f64::from(n) / 8.0;
                rect(svg, left(x), top(y) + CELL_H - h, w, h, &fill);
            }
            Block::Left(n) => {
                let w = w - CELL_W + CELL_W * f64::from(n) / 8.0;
                rect(svg, left(x), top(y), w, CELL_H, &fill);
            }
            Block::Shade(opacity) => {
                let _ = writeln!(
                    svg,
                    r#"<rect x="{:.1}" y="{:.2}" width="{w:.1}" height="{CELL_H:.2}" fill="{fill}" opacity="{opacity}"/>"#,
                    left(x),
                    top(y)
                );
            }
        }
    }
}

fn text(svg: &mut String, buf: &Buffer, y: u16) {
    let looks = runs(buf.area.width, |x| {
        let cell = cell(buf, x, y);
        let plain = cell.symbol() != " " && block(cell.symbol()).is_none();
        plain.then(|| (colours(cell).0, cell.modifier))
    });
    let baseline = top(y) + CELL_H * 0.75;
    for (x, length, (fill, modifier)) in looks {
        let mut words = String::new();
        for x in x..x + length {
            for c in cell(buf, x, y).symbol().chars() {
                match c {
                    '<' => words.push_str("&lt;"),
                    '>' => words.push_str("&gt;"),
                    '&' => words.push_str("&amp;"),
                    c => words.push(c),
                }
            }
        }
        let mut looks = String::new();
        if modifier.contains(Modifier::BOLD) {
            looks.push_str(r#" font-weight="bold""#);
        }
        if modifier.contains(Modifier::ITALIC) {
            looks.push_str(r#" font-style="italic""#);
        }
        if modifier.contains(Modifier::DIM) {
            looks.push_str(r#" opacity="0.6""#);
        }
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{baseline:.1}" textLength="{:.1}" fill="{fill}"{looks}>{words}</text>"#,
            left(x),
            f64::from(length) * CELL_W,
        );
    }
}
