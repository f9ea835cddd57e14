//! Options that docopt makes of a program's usage text: `--batch-size=<int>  batch size [default: 32]`. Only their lines are
//! read; the patterns above them say nothing of numbers.

use super::statements::SourceStatements;

/// Options of a text that are read.
const MOST_OPTIONS: usize = 256;

/// One that takes a value and has a default.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsageOption {
    /// The string that it stands in.
    pub token: usize,
    pub line: u32,
    /// `-b`, `--batch-size`.
    pub names: Vec<String>,
    pub default: String,
    pub help: String,
}

/// The options of a source that calls docopt with a text of its own.
pub(super) fn usage_options(said: &SourceStatements<'_>) -> Vec<UsageOption> {
    if !said.calls.iter().any(|call| call.name() == "docopt") {
        return Vec::new();
    }
    let tokens = &said.tokens;
    let texts = tokens.all.iter().enumerate().filter_map(|(at, token)| {
        let text = tokens.string(at)?;
        let is_usage = text.contains('\n') && text.to_lowercase().contains("usage:");
        is_usage.then_some((at, token.line, text))
    });
    let options = texts.flat_map(|(token, line, text)| options_of(token, line, text));
    options.take(MOST_OPTIONS).collect()
}

/// Those of one text. A description goes on in the lines below, up to the next option or an empty line.
fn options_of(token: usize, first: u32, text: &str) -> Vec<UsageOption> {
    let mut found: Vec<UsageOption> = Vec::new();
    let mut is_open = false;
    for (line, written) in (first..).zip(text.lines()) {
        let written = written.trim();
        if written.starts_with('-') {
            // Names and description are two blanks apart.
            let (head, help) = written.split_once("  ").unwrap_or((written, ""));
            let names = head.split([' ', ',', '=']);
            let names = names.filter(|word| word.starts_with('-') && word.len() > 1);
            found.push(UsageOption {
                token,
                line,
                names: names.map(String::from).collect(),
                default: String::new(),
                help: help.trim().into(),
            });
            is_open = true;
        } else if let Some(option) = found.last_mut().filter(|_| is_open && !written.is_empty()) {
            option.help.push(' ');
            option.help.push_str(written);
        } else {
            is_open = false;
        }
    }
    for option in &mut found {
        let said = option.help.split_once("[default: ");
        let default = said.and_then(|(_, rest)| rest.split_once(']'));
        option.default = default.map_or(String::new(), |(default, _)| default.trim().into());
    }
    found.retain(|option| !option.default.is_empty() && !option.names.is_empty());
    found
}
