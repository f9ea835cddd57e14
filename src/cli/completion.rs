//! What may stand at the cursor: the answer that the shells' completion scripts ask for.
//!
//! Where the command begins only our own reader of words knows, so a script asks the program
//! rather than carrying a copy of the options; from the command's first word on, the shell
//! completes as it would without oomph. Options, values and their descriptions come from the
//! definition of the command line.

use super::{Following, WordReader, WordRole, assignment};
use crate::command::Word;
use clap::{Arg, Command, ValueHint};
use std::ffi::{OsStr, OsString};
use std::fmt;

/// The word that makes this binary answer a completion script.
pub const COMPLETE_WORD: &str = "__complete";

/// Which sessions an argument may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedSessions {
    Running,
    /// Ended ones as well, which have a log.
    All,
}

/// A word, and a few words on it.
type ProposedWord = (String, String);

/// What the shell adds by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FromShell {
    Nothing,
    Files,
    Directories,
    /// A command's words, of which the first is this one, counted from 0 after `oomph`.
    Command(usize),
}

impl fmt::Display for FromShell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FromShell::Nothing => f.write_str("nothing"),
            FromShell::Files => f.write_str("files"),
            FromShell::Directories => f.write_str("directories"),
            FromShell::Command(at) => write!(f, "command {at}"),
        }
    }
}

struct Completion {
    from_shell: FromShell,
    proposed: Vec<ProposedWord>,
}

impl Completion {
    const NOTHING: Completion = Completion {
        from_shell: FromShell::Nothing,
        proposed: Vec::new(),
    };

    fn of_shell(from_shell: FromShell) -> Completion {
        Completion {
            from_shell,
            proposed: Vec::new(),
        }
    }
}

/// The answer to a script: what the shell adds by itself, then a line for each word that fits, with
/// its description after a tab. `words` are those after `oomph` up to the cursor, the last of which
/// may be unfinished or empty.
pub(crate) fn complete(
    mut definition: Command,
    words: &[OsString],
    sessions: impl FnOnce(NamedSessions) -> Vec<ProposedWord>,
) -> String {
    definition.build();
    let mut completion = completion(&definition, words, sessions);
    let typed = words
        .last()
        .map_or("".into(), |word| word.to_string_lossy());
    completion
        .proposed
        .retain(|(word, _)| word.starts_with(&*typed));
    let mut text = format!("{}\n", completion.from_shell);
    for (word, about) in completion.proposed {
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("{word}\t{about}\n"));
    }
    text
}

fn completion(
    definition: &Command,
    words: &[OsString],
    sessions: impl FnOnce(NamedSessions) -> Vec<ProposedWord>,
) -> Completion {
    let Some((current, before)) = words.split_last() else {
        return Completion::NOTHING;
    };
    let current = current.to_string_lossy();
    let command_from = |at: usize| {
        let is_variable = |word: &&OsString| assignment(&Word::from(OsStr::new(word))).is_some();
        let variables = before[at..].iter().take_while(is_variable).count();
        Completion::of_shell(FromShell::Command(at + variables))
    };
    let mut reader = WordReader::new(definition);
    for (at, word) in before.iter().enumerate() {
        match reader.read(word) {
            Ok(WordRole::Ours | WordRole::SpelledOut) => {}
            Ok(WordRole::Dashes) => return command_from(at + 1),
            Ok(WordRole::Command) => return command_from(at),
            Err(_) => return Completion::NOTHING,
        }
    }
    if let Some((option, _)) = reader.awaits {
        return values(option, &current, "", sessions, reader.scope);
    }
    if let Some((name, value)) = current
        .split_once('=')
        .filter(|_| current.starts_with("--"))
    {
        let mut options = reader.scope.get_arguments();
        let option = options.find(|option| option.get_long() == name.strip_prefix("--"));
        let before = format!("{name}=");
        return option.map_or(Completion::NOTHING, |option| {
            values(option, value, &before, sessions, reader.scope)
        });
    }
    if current.starts_with('-') {
        return Completion {
            from_shell: FromShell::Nothing,
            proposed: options(reader.scope),
        };
    }
    match reader.following {
        Following::Command => Completion {
            proposed: match reader.is_at_top() {
                true => subcommands(definition),
                false => Vec::new(),
            },
            ..command_from(before.len())
        },
        Following::Own | Following::OwnThenCommand => {
            let argument = reader.scope.get_positionals().nth(reader.own);
            argument.map_or(Completion::NOTHING, |argument| {
                values(argument, &current, "", sessions, reader.scope)
            })
        }
    }
}

fn subcommands(definition: &Command) -> Vec<ProposedWord> {
    let named = definition.get_subcommands().map(|subcommand| {
        let about = subcommand.get_about().map(ToString::to_string);
        (subcommand.get_name().into(), about.unwrap_or_default())
    });
    let run = ("run".into(), "Run a command under oomph".into());
    named.chain([run]).collect()
}

fn options(scope: &Command) -> Vec<ProposedWord> {
    let shown = scope.get_arguments().filter(|option| !option.is_hide_set());
    shown
        .filter_map(|option| {
            let help = option.get_help().map(ToString::to_string);
            Some((
                format!("--{}", option.get_long()?),
                help.unwrap_or_default(),
            ))
        })
        .collect()
}

/// The values of an argument; `before` is what stands before the value in the same word.
fn values(
    argument: &Arg,
    typed: &str,
    before: &str,
    sessions: impl FnOnce(NamedSessions) -> Vec<ProposedWord>,
    scope: &Command,
) -> Completion {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        // In a list the last value is completed, and those before it stay.
        let listed = argument
            .get_value_delimiter()
            .and_then(|comma| typed.rfind(comma))
            .map_or("", |at| &typed[..=at]);
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return Completion {
            from_shell: FromShell::Nothing,
            proposed: shown
                .map(|value| {
                    let about = value.get_help().map(ToString::to_string);
                    (
                        format!("{before}{listed}{}", value.get_name()),
                        about.unwrap_or_default(),
                    )
                })
                .collect(),
        };
    }
    let names = argument.get_value_names().unwrap_or_default();
    let takes = |what: &str| {
        names
            .iter()
            .any(|name| name.split('|').any(|one| one == what))
    };
    if takes("ID") {
        let which = match scope.get_name() {
            "attach" | "stop" => NamedSessions::Running,
            _ => NamedSessions::All,
        };
        let named = sessions(which).into_iter();
        return Completion {
            from_shell: match takes("FILE") {
                true => FromShell::Files,
                false => FromShell::Nothing,
            },
            proposed: named
                .map(|(id, about)| (format!("{before}{id}"), about))
                .collect(),
        };
    }
    Completion::of_shell(match argument.get_value_hint() {
        ValueHint::AnyPath | ValueHint::FilePath => FromShell::Files,
        ValueHint::DirPath => FromShell::Directories,
        _ => FromShell::Nothing,
    })
}
