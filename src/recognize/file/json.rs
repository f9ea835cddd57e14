//! The settings of a JSON file, with their places.

use super::{FileSetting, FileSettings};

/// All scalars of a document.
pub(super) fn settings(text: &str) -> Result<FileSettings, String> {
    let mut reader = JsonReader {
        text: text.as_bytes(),
        at: 0,
        found: Vec::new(),
    };
    // A program that accepts comments in JSON may read it differently.
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map_err(|error| format!("it isn't valid JSON ({error})"))?;
    reader.value(String::new());
    Ok(FileSettings {
        all: reader.found,
        may_hide: false,
    })
}

/// Walks over valid JSON.
struct JsonReader<'a> {
    text: &'a [u8],
    at: usize,
    found: Vec<FileSetting>,
}

impl JsonReader<'_> {
    fn peek(&mut self) -> u8 {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// The byte range of the string that begins here, without quotes.
    fn string(&mut self) -> (usize, usize) {
        self.at += 1;
        let from = self.at;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let to = self.at.min(self.text.len());
        self.at += 1;
        (from, to)
    }

    fn value(&mut self, name: String) {
        match self.peek() {
            b'{' => self.members(&name, b'}', true),
            b'[' => self.members(&name, b']', false),
            b'"' => {
                let (from, to) = self.string();
                self.push(name, from, to);
            }
            0 => {}
            _ => {
                let from = self.at;
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
                while self.text.get(self.at).is_some_and(|byte| !ends(byte)) {
                    self.at += 1;
                }
                self.push(name, from, self.at);
            }
        }
    }

    fn members(&mut self, name: &str, end: u8, named: bool) {
        self.at += 1;
        let mut index = 0;
        loop {
            match self.peek() {
                0 => return,
                byte if byte == end => {
                    self.at += 1;
                    return;
                }
                b',' => self.at += 1,
                _ => {
                    let part = if named {
                        let (from, to) = self.string();
                        self.peek();
                        self.at += 1;
                        String::from_utf8_lossy(&self.text[from..to]).into_owned()
                    } else {
                        index.to_string()
                    };
                    index += 1;
                    let dot = if name.is_empty() { "" } else { "." };
                    self.value(format!("{name}{dot}{part}"));
                }
            }
        }
    }

    fn push(&mut self, name: String, from: usize, to: usize) {
        self.found.push(FileSetting {
            name,
            from,
            to,
            is_plain: true,
        });
    }
}
