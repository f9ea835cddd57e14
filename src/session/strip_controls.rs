//! Removes control characters from a recording's strings: a line break or an escape sequence in a
//! file name, for example, would act as a line of its own, or as a terminal command, wherever it is
//! displayed. Commands keep theirs, since quoting escapes them.

use serde_json::Value;

/// Whether a line of a recording may contain such characters, escaped or raw.
pub(super) fn is_suspect(line: &[u8]) -> bool {
    let spelled = memchr::memchr_iter(b'\\', line).any(|at| {
        matches!(
            line.get(at + 1..),
            Some(
                [b'n' | b'r' | b't' | b'b' | b'f', ..]
                    | [b'u', b'0', b'0', ..]
                    | [b'u', b'2', b'0', ..]
            )
        )
    });
    let raw = || {
        line.windows(2).any(|pair| {
            matches!(
                pair,
                [0xc2, 0x80..=0x9f] | [0x7f, _] | [0x80, 0xaa..=0xae] | [0x81, 0xa6..=0xa9]
            )
        })
    };
    spelled || raw()
}

/// Replaces them by spaces, except in commands.
pub(super) fn strip_controls(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_active = |c: char| {
                c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            if text.contains(is_active) {
                *text = text.replace(is_active, " ");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(strip_controls),
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| *name != "command")
            .for_each(|(_, value)| strip_controls(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_becomes_blank() {
        let text = r#"{"file":"a\nb\u001b[2J.py","command":{"argv":["a\nb"]},"n":["\r"]}"#;
        assert!(is_suspect(text.as_bytes()));
        let mut value: Value = serde_json::from_str(text).unwrap();
        strip_controls(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"file": "a b [2J.py", "command": {"argv": ["a\nb"]}, "n": [" "]})
        );
        assert!(is_suspect("x\u{9b}y".as_bytes()) && is_suspect("x\u{202e}".as_bytes()));
        assert!(!is_suspect(
            r#"{"at":1,"path":"C:\\x","ü":"漢 …"}"#.as_bytes()
        ));
    }
}
