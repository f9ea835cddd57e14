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
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
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
            Key::Backspace => b"\x7f".into(),
            Key::Delete => b"\x1b[3~".into(),
            Key::Up => b"\x1b[A".into(),
            Key::Down => b"\x1b[B".into(),
            Key::Right => b"\x1b[C".into(),
            Key::Left => b"\x1b[D".into(),
            Key::Home => b"\x1b[H".into(),
            Key::End => b"\x1b[F".into(),
            Key::PageUp => b"\x1b[5~".into(),
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
