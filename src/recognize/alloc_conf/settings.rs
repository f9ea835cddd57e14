//! Allocator settings as written: `key:value,key:[a:1,b:2]`.

use std::fmt;

/// In the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocConf {
    settings: Vec<(String, String)>,
}

impl AllocConf {
    /// Parses `key:value,key:[a:1,b:2]`. Like the allocator it accepts spaces and a trailing comma;
    /// the error says what is wrong and how to write it.
    pub fn parse(text: &str) -> Result<AllocConf, String> {
        let mut settings = Vec::new();
        for piece in pieces(text) {
            let piece = piece.trim();
            if piece.is_empty() {
                continue;
            }
            match piece.split_once(':') {
                Some((key, value))
                    if !key.trim().is_empty() && !value.trim().is_empty() && !key.contains('=') =>
                {
                    settings.push((key.trim().to_string(), value.trim().to_string()));
                }
                _ => {
                    let mended = piece.replacen('=', ":", 1);
                    let mended = if mended.contains(':') && mended != piece {
                        mended
                    } else {
                        "key:value".into()
                    };
                    return Err(format!(
                        "`{piece}` isn't an allocator setting: write `{mended}`"
                    ));
                }
            }
        }
        Ok(AllocConf { settings })
    }

    /// The last value counts if a key is set twice.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.settings
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Sets a key in place, or at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.settings.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value.to_string(),
            None => self.settings.push((key.to_string(), value.to_string())),
        }
    }

    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl fmt::Display for AllocConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, (key, value)) in self.settings.iter().enumerate() {
            let comma = if k == 0 { "" } else { "," };
            write!(f, "{comma}{key}:{value}")?;
        }
        Ok(())
    }
}

/// The settings, split at commas outside of brackets.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut from, mut depth) = (0, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pieces.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}
