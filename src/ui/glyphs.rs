//! The glyphs: one set for terminals with UTF-8, one of ASCII for the others.

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
            .replace('±', "+-")
            .replace('×', "x")
    }
}

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
