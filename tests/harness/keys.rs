//! What a person presses, as the bytes that an xterm sends for it.

/// A key, or text that is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Characters as they are.
    Text(String),
    Enter,
    Esc,
    Tab,
    BackTab,
    End,
    PageDown,
    /// A letter with Control held.
    Ctrl(char),
}

impl Key {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Key::Text(text) => text.clone().into_bytes(),
            Key::Enter => b"\r".into(),
            Key::Esc => b"\x1b".into(),
            Key::Tab => b"\t".into(),
            Key::BackTab => b"\x1b[Z".into(),
            Key::End => b"\x1b[F".into(),
            Key::PageDown => b"\x1b[6~".into(),
            Key::Ctrl(letter) => vec![*letter as u8 & 0x1f],
        }
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::Text(text.into())
    }
}

impl From<char> for Key {
    fn from(letter: char) -> Key {
        Key::Text(letter.into())
    }
}
