//! Whether a command says that its program, or what that is told to do, comes from standard input.

use super::layout::{CommandLayout, ProgramKind};
use crate::command::{CommandLine, Word};

/// Names of standard input.
const NAMES: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Whether the command reads standard input for certain: an interpreter without a program, `-`, or one of
/// its names.
pub fn reads_standard_input(command: &CommandLine) -> bool {
    let is_named = |word: &Word| {
        let text = word.to_string_lossy();
        text == "-" || text.ends_with("=-") || NAMES.iter().any(|name| text.contains(name))
    };
    let words = command.argv.iter().skip(1);
    words.clone().any(is_named) || CommandLayout::new(command).kind == ProgramKind::Missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_reads_standard_input_says_so() {
        for (line, reads) in [
            ("python -", true),
            ("python3 -u - --batch-size 8", true),
            ("python", true),
            ("bash", true),
            ("torchrun --nproc-per-node 2 train.py --config -", true),
            ("python train.py --config=-", true),
            ("python train.py --config /dev/stdin", true),
            ("sh -c train</dev/stdin", true),
            ("python train.py", false),
            ("python train.py -- --lr -1", false),
            ("make train", false),
        ] {
            let command = CommandLine::typed(line);
            assert_eq!(reads_standard_input(&command), reads, "{line}");
        }
    }
}
