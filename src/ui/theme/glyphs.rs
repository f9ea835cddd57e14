//! The characters of the screen: one set for terminals with UTF-8, one of ASCII for the others.

/// Every character that is more than text.
#[derive(Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// A cell filled from below by 0 to 8 eighths.
    pub eighths: [&'static str; 9],
    /// A cell filled from the left by 0 to 8 eighths.
    pub lefts: [&'static str; 9],
    /// A cell of the band between least and most, where there are no colours.
    pub band: &'static str,
    /// A solid line.
    pub line: &'static str,
    /// A solid line going up or down, and its four corners: from the left down, from the left up,
    /// down to the right, up to the right.
    pub riser: &'static str,
    /// `┐ ┘ └ ┌`: the line leaves its row downwards, upwards, arrives from above, from below.
    pub corners: [&'static str; 4],
    /// A line of lesser weight.
    pub dashes: &'static str,
    /// A rule.
    pub dots: &'static str,
    /// The rule of a prediction.
    pub sparse_dots: &'static str,
    /// A vertical axis.
    pub axis: &'static str,
    /// The axis where a number stands beside it.
    pub axis_tick: &'static str,
    /// The corner of both axes.
    pub origin: &'static str,
    /// The axis where an epoch begins.
    pub epoch: &'static str,
    /// The mark of a relaunch.
    pub relaunch: &'static str,
    /// The mark of what went wrong.
    pub cross: &'static str,
    /// It is there.
    pub dot: &'static str,
    /// It is not there yet.
    pub ring: &'static str,
    /// It rests.
    pub rest: &'static str,
    /// From one to another.
    pub arrow: &'static str,
    /// What was cut.
    pub ellipsis: &'static str,
    /// The selected line.
    pub pointer: &'static str,
    /// Chosen together.
    pub ticked: &'static str,
    /// Could be chosen.
    pub unticked: &'static str,
    /// Between two facts of one line.
    pub separator: &'static str,
    /// A full cell of a bar.
    pub full: &'static str,
    /// A cell of what is not allocated.
    pub shade: &'static str,
    /// A cell of what is not PyTorch's.
    pub dense_shade: &'static str,
    /// It climbs.
    pub climb: &'static str,
    /// Paused.
    pub paused: &'static str,
    /// Playing.
    pub playing: &'static str,
    /// The box of a dialog: top left, top right, bottom left, bottom right, horizontal, vertical.
    pub frame: [&'static str; 6],
    /// Words taken out of a command.
    pub minus: &'static str,
    /// The keys up, down, left, right.
    pub arrow_keys: [&'static str; 4],
    /// Degrees Celsius.
    pub celsius: &'static str,
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
}

/// For terminals with UTF-8. Only characters that are one column wide everywhere and in every
/// common monospaced font.
pub static UNICODE: Glyphs = Glyphs {
    eighths: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    lefts: [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    band: "▒",
    line: "─",
    riser: "│",
    corners: ["┐", "┘", "└", "┌"],
    dashes: "╌",
    dots: "┈",
    sparse_dots: "·",
    axis: "│",
    axis_tick: "┤",
    origin: "└",
    epoch: "┴",
    relaunch: "╎",
    cross: "✗",
    dot: "●",
    ring: "○",
    rest: "◌",
    arrow: "→",
    ellipsis: "…",
    pointer: "❯",
    ticked: "●",
    unticked: "○",
    separator: " · ",
    full: "█",
    shade: "░",
    dense_shade: "▒",
    climb: "▲",
    paused: "‖",
    playing: "▶",
    frame: ["╭", "╮", "╰", "╯", "─", "│"],
    minus: "−",
    arrow_keys: ["↑", "↓", "←", "→"],
    celsius: "°C",
};

/// For all others.
pub static ASCII: Glyphs = Glyphs {
    eighths: [" ", "_", "_", ".", "-", "=", "=", "#", "#"],
    lefts: [" ", ":", ":", ":", "#", "#", "#", "#", "#"],
    band: ":",
    line: "-",
    riser: "|",
    corners: ["+", "+", "+", "+"],
    dashes: "~",
    dots: ".",
    sparse_dots: ".",
    axis: "|",
    axis_tick: "+",
    origin: "+",
    epoch: "+",
    relaunch: "|",
    cross: "x",
    dot: "*",
    ring: "o",
    rest: "-",
    arrow: ">",
    ellipsis: "~",
    pointer: ">",
    ticked: "x",
    unticked: "-",
    separator: " | ",
    full: "#",
    shade: ":",
    dense_shade: "%",
    climb: "^",
    paused: "||",
    playing: ">",
    frame: ["+", "+", "+", "+", "-", "|"],
    minus: "-",
    arrow_keys: ["Up", "Down", "Left", "Right"],
    celsius: " C",
};

#[cfg(test)]
mod tests {
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
