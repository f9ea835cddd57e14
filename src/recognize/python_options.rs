//! The options of `python` that decide what it reads before the program, and those that keep the probe out: it comes by
//! `PYTHONPATH` and `sitecustomize`.

use super::argument::text;
use super::layout::CommandLayout;
use crate::command::CommandLine;

/// `-I` and `-E` leave `PYTHONPATH` unread, `-S` runs no `sitecustomize`.
const KEEP_OUT: [&str; 3] = ["-I", "-E", "-S"];

impl CommandLayout {
    /// The interpreter's options that decide what it reads: `-I`, `-E`, `-S` and `-s`, from the words
    /// between it and the program.
    pub fn python_options(&self, command: &CommandLine) -> Vec<String> {
        // A launcher that brings its own Python has options of its own.
        let is_python = |at: &usize| {
            let word = command.argv[*at].to_string_lossy();
            let name = word.rsplit('/').next().unwrap_or_default();
            name.starts_with("python")
        };
        let Some(at) = self.interpreter.filter(is_python) else {
            return Vec::new();
        };
        let end = self.program.min(command.argv.len());
        let words = command.argv.get(at + 1..end).unwrap_or_default();
        let mut letters = String::new();
        let mut words = words.iter().map(text);
        while let Some(word) = words.next() {
            let Some(options) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
                continue;
            };
            // What follows -W and -X is their value, in the same word or the next.
            let end = options.find(['c', 'm', 'W', 'X']).unwrap_or(options.len());
            letters.extend(
                options[..end]
                    .chars()
                    .filter(|letter| "IESs".contains(*letter)),
            );
            if matches!(&options[end..], "W" | "X") {
                words.next();
            }
        }
        letters.chars().map(|letter| format!("-{letter}")).collect()
    }

    /// The option with which this Python is started without the probe, if it is.
    pub fn keeps_probe_out(&self, command: &CommandLine) -> Option<String> {
        let mut options = self.python_options(command).into_iter();
        options.find(|option| KEEP_OUT.contains(&option.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_between_python_and_the_program() {
        for (line, options, keeps_out) in [
            ("python train.py", &[][..], None),
            ("python -I train.py -S", &["-I"], Some("-I")),
            ("python3 -uES -m train", &["-E", "-S"], Some("-E")),
            ("python -W Sort -X Ex -s train.py", &["-s"], None),
            ("torchrun -S train.py", &[], None),
        ] {
            let command = CommandLine::typed(line);
            let layout = CommandLayout::new(&command);
            assert_eq!(layout.python_options(&command), options, "{line}");
            assert_eq!(
                layout.keeps_probe_out(&command).as_deref(),
                keeps_out,
                "{line}"
            );
        }
    }
}
