//! Values of options that are secrets: by the option's own name, or because of the program that it is
//! given to (`curl -u name:password`). For the words of a command, and for a script's.

use super::MASK;
use super::names::{is_plain_value, is_plural, is_secret};

/// Options of programs whose values are secrets, though their names do not say so.
const OPTIONS: [(&str, &[&str], Given); 9] = [
    (
        "curl",
        &["-u", "--user", "-U", "--proxy-user"],
        Given::UserAndPassword,
    ),
    ("curl", &["-b"], Given::Any),
    ("http", &["-a"], Given::Any),
    ("https", &["-a"], Given::Any),
    ("redis-cli", &["-a"], Given::Any),
    ("sshpass", &["-p"], Given::Any),
    ("mysql", &["-p"], Given::Attached),
    ("mysqldump", &["-p"], Given::Attached),
    ("wandb", &["login"], Given::Any),
];

/// Programs whose `--user a:b` is a user and a group.
const GROUPS: [&str; 7] = [
    "docker",
    "podman",
    "nerdctl",
    "apptainer",
    "singularity",
    "chown",
    "kubectl",
];

/// How a program takes a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// `name:password`; a name alone is none.
    UserAndPassword,
    /// In the next word or in the same one.
    Any,
    /// Only in the same word.
    Attached,
}

/// The part of a word that is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hidden {
    pub word: usize,
    /// The byte that it begins at.
    pub from: usize,
}

/// The secrets among the words of one command.
pub(super) fn values<T: AsRef<str>>(words: &[T]) -> Vec<Hidden> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    let mut has_groups = false;
    let mut at = 0;
    while let Some(word) = words.get(at).map(AsRef::as_ref) {
        let name = word.rsplit('/').next().unwrap_or_default();
        has_groups |= GROUPS.contains(&name);
        known.extend(OPTIONS.iter().filter(|(program, ..)| *program == name));
        if word.starts_with('-') && !word.contains('=') && is_secret(word) {
            at = after_values(words, at, &mut found);
            continue;
        }
        let next = words.get(at + 1).map(AsRef::as_ref);
        let of_program = known
            .iter()
            .find_map(|(_, options, given)| of_option(word, next, options, *given));
        let anywhere = || {
            let both = of_option(word, next, &["-u", "--user"], Given::UserAndPassword)?;
            // `-utf8:x` may be an option of another name.
            (!has_groups && (both.0 == 1 || word.starts_with("--"))).then_some(both)
        };
        if let Some((offset, from)) = of_program.or_else(anywhere) {
            let word = at + offset;
            found.push(Hidden { word, from });
        }
        at += 1;
    }
    found
}

/// Hides the values of the option at `at`: one, or all up to the next option if its name is a plural.
/// Returns where to go on.
fn after_values<T: AsRef<str>>(words: &[T], at: usize, found: &mut Vec<Hidden>) -> usize {
    let many = is_plural(words[at].as_ref());
    let mut next = at + 1;
    while let Some(value) = words.get(next).map(AsRef::as_ref) {
        let is_option = match next == at + 1 {
            true => value.starts_with("--"),
            false => value.starts_with('-') || !many,
        };
        if is_option || is_plain_value(value) {
            break;
        }
        found.push(Hidden {
            word: next,
            from: 0,
        });
        next += 1;
    }
    next
}

/// In which of the two words the value of one of `options` is, and where it begins there.
fn of_option(
    word: &str,
    next: Option<&str>,
    options: &[&str],
    given: Given,
) -> Option<(usize, usize)> {
    let fits = |value: &str| match given {
        Given::UserAndPassword => is_user_and_password(value),
        Given::Any | Given::Attached => !value.is_empty() && !value.starts_with('-'),
    };
    options.iter().find_map(|option| {
        let rest = word.strip_prefix(option)?;
        if rest.is_empty() {
            return (given != Given::Attached && next.is_some_and(fits)).then_some((1, 0));
        }
        let value = match option.starts_with("--") {
            true => rest.strip_prefix('=')?,
            false if option.starts_with('-') => rest,
            false => return None,
        };
        fits(value).then_some((0, word.len() - value.len()))
    })
}

/// `ada:secret`, but not `1000:1000` (a user and a group) or a URL.
fn is_user_and_password(value: &str) -> bool {
    let Some((user, password)) = value.split_once(':') else {
        return false;
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !(password.starts_with("//") || is_number(user) && is_number(password))
}

/// The secrets among the words of a script: byte ranges.
pub(super) fn in_script(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for command in commands(text) {
        let words: Vec<&str> = command.iter().map(|(_, _, word)| word.as_str()).collect();
        for hidden in values(&words) {
            let (start, end, word) = &command[hidden.word];
            let (start, end) = (*start, *end);
            // Masked already, and quoted for a shell.
            if word == MASK {
                continue;
            }
            // Quotes make a word longer in the script, so this is rather too early than too late.
            let mut from = start + hidden.from;
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            found.push((from, end));
        }
    }
    found
}

/// A word with its place in the script.
type Placed = (usize, usize, String);

/// The commands of a script, as far as a shell's quotes and separators tell them.
fn commands(text: &str) -> Vec<Vec<Placed>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Placed> = None;
    let mut quote = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let end = at + c.len_utf8();
        if quote.is_none() && (c.is_whitespace() || matches!(c, ';' | '|' | '&')) {
            if let (Some(done), Some(command)) = (word.take(), commands.last_mut()) {
                command.push(done);
            }
            if !matches!(c, ' ' | '\t') {
                commands.push(Vec::new());
            }
            continue;
        }
        let begins = word.is_none();
        let (_, last, characters_of_word) = word.get_or_insert((at, end, String::new()));
        *last = end;
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            // An apostrophe is no quote.
            (None, '"') => quote = Some(c),
            (None, '\'') if begins || !characters_of_word.ends_with(char::is_alphanumeric) => {
                quote = Some(c);
            }
            (None | Some('"'), '\\') => {
                if let Some((next, escaped)) = characters.next() {
                    *last = next + escaped.len_utf8();
                    characters_of_word.push(escaped);
                }
            }
            (_, c) => characters_of_word.push(c),
        }
    }
    if let (Some(done), Some(command)) = (word, commands.last_mut()) {
        command.push(done);
    }
    commands
}
