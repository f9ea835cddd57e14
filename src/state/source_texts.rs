//! What the lines of the program say that hold memory in a run.

use crate::event::{LineText, SourceLine};

/// Lines kept of a run.
pub const MOST_TEXTS: usize = 256;

/// The texts of one run's lines.
#[derive(Debug, Clone, Default)]
pub struct SourceTexts(Vec<LineText>);

impl SourceTexts {
    pub(crate) fn keep(&mut self, texts: &[LineText]) {
        let room = MOST_TEXTS.saturating_sub(self.0.len());
        self.0.extend(texts.iter().take(room).cloned());
    }

    /// The text of a line, if it could be read.
    pub fn of(&self, line: &SourceLine) -> Option<&str> {
        Some(&self.text_of(line)?.text)
    }

    /// The same with its place.
    pub fn text_of(&self, line: &SourceLine) -> Option<&LineText> {
        self.0.iter().find(|text| text.is_of(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_text_and_there_is_a_bound() {
        let text = |line: u32| LineText {
            file: "/w/model.py".into(),
            line,
            text: format!("x = layer_{line}(x)"),
        };
        let line = |file: &str, line| SourceLine {
            file: file.into(),
            line,
            function: String::new(),
        };
        let mut texts = SourceTexts::default();
        let all: Vec<LineText> = (1..=2 * MOST_TEXTS as u32).map(text).collect();
        texts.keep(&all);
        assert_eq!(texts.of(&line("/w/model.py", 3)), Some("x = layer_3(x)"));
        assert_eq!(texts.of(&line("/w/other.py", 3)), None);
        let most = MOST_TEXTS as u32;
        assert!(texts.of(&line("/w/model.py", most)).is_some());
        assert_eq!(texts.of(&line("/w/model.py", most + 1)), None);
    }
}
