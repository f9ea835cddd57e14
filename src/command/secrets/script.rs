//! A script taken apart into commands, their words and what is quoted in it, as far as a shell's quotes and
//! separators tell them.

/// A word without its quotes, and its place in the script.
pub(super) struct Placed {
    pub start: usize,
    pub end: usize,
    pub word: String,
}

impl AsRef<str> for Placed {
    fn as_ref(&self) -> &str {
        &self.word
    }
}

#[derive(Default)]
pub(super) struct Script {
    pub commands: Vec<Vec<Placed>>,
    /// What stands between quotes and has several words: it may be a script itself, for another shell.
    pub quoted: Vec<(usize, usize)>,
}

impl Script {
    pub(super) fn new(text: &str) -> Script {
        let mut script = Script::default();
        let mut command = Vec::new();
        let mut word: Option<Placed> = None;
        let mut quote = None;
        let mut characters = text.char_indices();
        while let Some((at, c)) = characters.next() {
            let end = at + c.len_utf8();
            if quote.is_none() && (c.is_whitespace() || matches!(c, ';' | '|' | '&')) {
                command.extend(word.take());
                if !matches!(c, ' ' | '\t') {
                    script.finish(&mut command);
                }
                continue;
            }
            let begins = word.is_none();
            let placed = word.get_or_insert_with(|| Placed {
                start: at,
                end,
                word: String::new(),
            });
            placed.end = end;
            match (quote, c) {
                (Some((open, from)), c) if c == open => {
                    quote = None;
                    if text[from..at].contains([' ', '\t', '\n']) {
                        script.quoted.push((from, at));
                    }
                }
                // An apostrophe is no quote.
                (None, '\'') if !begins && placed.word.ends_with(char::is_alphanumeric) => {
                    placed.word.push(c);
                }
                (None, '"' | '\'') => quote = Some((c, end)),
                (None | Some(('"', _)), '\\') => {
                    if let Some((next, escaped)) = characters.next() {
                        placed.end = next + escaped.len_utf8();
                        placed.word.push(escaped);
                    }
                }
                (_, c) => placed.word.push(c),
            }
        }
        command.extend(word);
        script.finish(&mut command);
        script
    }

    fn finish(&mut self, command: &mut Vec<Placed>) {
        if !command.is_empty() {
            self.commands.push(std::mem::take(command));
        }
    }
}
