//! The bytes that a terminal sends for a key, for typing to the training. From xterm's ctlseqs,
//! "PC-Style Function Keys" and "VT220-Style Function Keys".

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Empty for a key that no terminal sends.
pub(super) fn bytes(key: &KeyEvent, application_cursor: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if key.modifiers.contains(KeyModifiers::ALT) {
        bytes.push(0x1b);
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char(c) if control => bytes.extend(control_byte(c)),
        KeyCode::Char(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        KeyCode::Enter => bytes.push(b'\r'),
        KeyCode::Tab => bytes.push(b'\t'),
        KeyCode::BackTab => bytes.extend(b"\x1b[Z"),
        KeyCode::Backspace => bytes.push(0x7f),
        KeyCode::Esc => bytes.push(0x1b),
        KeyCode::Up => bytes.extend(cursor(b'A', application_cursor)),
        KeyCode::Down => bytes.extend(cursor(b'B', application_cursor)),
        KeyCode::Right => bytes.extend(cursor(b'C', application_cursor)),
        KeyCode::Left => bytes.extend(cursor(b'D', application_cursor)),
        KeyCode::Home => bytes.extend(cursor(b'H', application_cursor)),
        KeyCode::End => bytes.extend(cursor(b'F', application_cursor)),
        KeyCode::PageUp => bytes.extend(b"\x1b[5~"),
        KeyCode::PageDown => bytes.extend(b"\x1b[6~"),
        KeyCode::Insert => bytes.extend(b"\x1b[2~"),
        KeyCode::Delete => bytes.extend(b"\x1b[3~"),
        KeyCode::F(n) => bytes.extend(function_key(n)),
        KeyCode::Null => bytes.push(0),
        _ => bytes.clear(),
    }
    bytes
}

fn cursor(letter: u8, application: bool) -> [u8; 3] {
    [0x1b, if application { b'O' } else { b'[' }, letter]
}

/// Ctrl with a letter or one of `@[\]^_` clears the upper bits; with space it is NUL.
fn control_byte(c: char) -> Option<u8> {
    match c {
        ' ' | '2' => Some(0),
        'a'..='z' | 'A'..='Z' | '@' | '['..='_' => Some(c as u8 & 0x1f),
        '3'..='7' => Some(c as u8 - b'3' + 0x1b),
        '/' => Some(0x1f),
        '8' | '?' => Some(0x7f),
        _ => None,
    }
}

fn function_key(n: u8) -> &'static [u8] {
    match n {
        1 => b"\x1bOP",
        2 => b"\x1bOQ",
        3 => b"\x1bOR",
        4 => b"\x1bOS",
        5 => b"\x1b[15~",
        6 => b"\x1b[17~",
        7 => b"\x1b[18~",
        8 => b"\x1b[19~",
        9 => b"\x1b[20~",
        10 => b"\x1b[21~",
        11 => b"\x1b[23~",
        12 => b"\x1b[24~",
        _ => b"",
    }
}

/// Pasted text, bracketed if the program asked for that. An end mark in the text is removed, so
/// that the paste cannot end itself.
pub(super) fn pasted(text: &str, bracketed: bool) -> Vec<u8> {
    if bracketed {
        let text = text.replace("\x1b[201~", "");
        format!("\x1b[200~{text}\x1b[201~").into_bytes()
    } else {
        text.replace('\n', "\r").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_what_a_terminal_sends() {
        for (code, modifiers, expected) in [
            (KeyCode::Char('x'), KeyModifiers::NONE, &b"x"[..]),
            (KeyCode::Char('é'), KeyModifiers::NONE, "é".as_bytes()),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, b"\x03"),
            (KeyCode::Char('d'), KeyModifiers::CONTROL, b"\x04"),
            (KeyCode::Char('\\'), KeyModifiers::CONTROL, b"\x1c"),
            (KeyCode::Char('b'), KeyModifiers::ALT, b"\x1bb"),
            (KeyCode::Enter, KeyModifiers::NONE, b"\r"),
            (KeyCode::Up, KeyModifiers::NONE, b"\x1b[A"),
            (KeyCode::F(5), KeyModifiers::NONE, b"\x1b[15~"),
            (KeyCode::CapsLock, KeyModifiers::ALT, b""),
        ] {
            assert_eq!(bytes(&KeyEvent::new(code, modifiers), false), expected);
        }
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(bytes(&up, true), b"\x1bOA");
    }

    #[test]
    fn a_paste_cannot_end_itself() {
        assert_eq!(pasted("a\nb", false), b"a\rb");
        assert_eq!(pasted("a\x1b[201~rm", true), b"\x1b[200~arm\x1b[201~");
    }
}
