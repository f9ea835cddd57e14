//! Secrets known by the words before them: by an option's own name, by a name that a value follows
//! (`API_KEY x`), or because of the program (`docker login -p x`). For the words of a command, and for a script's.

use super::MASK;
use super::names::{is_compound, is_of_user, is_plain_value, is_plural, is_secret};
use super::rules::{Given, RulesInForce, begins_pairs};
use super::script::{Placed, Script};

/// Where the secret begins in each word that has one.
type Hidden = Vec<Option<usize>>;

/// How deep quotes inside quotes are looked into.
const DEPTH: usize = 4;

/// The secrets among the words of one command.
pub(super) fn values<T: AsRef<str>>(words: &[T]) -> Hidden {
    let mut hidden = vec![None; words.len()];
    let mut holding = RulesInForce::new();
    let mut pairs = Pairs::None;
    let mut previous = "";
    let mut at = 0;
    while let Some(word) = words.get(at).map(AsRef::as_ref) {
        holding.see(word);
        let next = words.get(at + 1).map(AsRef::as_ref);
        let inner = Inner::parse(word);
        pairs = pairs.at(&inner);
        let before = inner.option.unwrap_or(previous);
        previous = word;
        if inner.text.starts_with('-') && !inner.text.contains('=') && is_secret(inner.text) {
            let end = after_values(words, at, is_plural(inner.text), &mut hidden);
            previous = words[end - 1].as_ref();
            at = end;
            continue;
        }
        if names_the_next(&inner, before, pairs, &holding)
            && next.is_some_and(|next| is_value(next) && !stands_for_itself(next, ""))
        {
            hide(&mut hidden, at + 1, 0);
            previous = "";
            at += 2;
            continue;
        }
        for (text, base) in [(word, 0), (inner.text, inner.from)] {
            if let Some((offset, from)) = of_program(text, next, &holding) {
                let base = if offset == 0 { base } else { 0 };
                hide(&mut hidden, at + offset, base + from);
            }
            if base == inner.from {
                break;
            }
        }
        pairs = pairs.behind(&inner);
        at += 1;
    }
    hidden
}

fn hide(hidden: &mut Hidden, word: usize, from: usize) {
    if let Some(place) = hidden.get_mut(word) {
        *place = Some(place.map_or(from, |before| before.min(from)));
    }
}

/// What a word holds for another reader: itself, or behind `=` an option or a name: `--args=--token`.
struct Inner<'a> {
    text: &'a str,
    from: usize,
    /// What it is given to.
    option: Option<&'a str>,
}

impl Inner<'_> {
    fn parse(word: &str) -> Inner<'_> {
        let quotes = ['"', '\''];
        let mut inner = Inner {
            text: word.trim_start_matches(quotes),
            from: 0,
            option: None,
        };
        while let Some((name, value)) = inner.text.split_once('=') {
            let value = value.trim_start_matches(quotes);
            if !is_name(name) || !(value.starts_with('-') || is_name(value)) {
                break;
            }
            inner.option = Some(name);
            inner.text = value;
        }
        inner.from = word.len() - inner.text.len();
        inner
    }

    fn is_option(&self) -> bool {
        is_option(self.text)
    }
}

/// A negative number is none.
fn is_option(word: &str) -> bool {
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    (word.strip_prefix('-')).is_some_and(|rest| !rest.is_empty() && !rest.starts_with(digit))
}

fn is_name(text: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && text.bytes().all(of_name)
}

/// Not an operator of a program, nor an option.
fn is_value(word: &str) -> bool {
    word.contains(char::is_alphanumeric) && !word.starts_with('-') && !is_plain_value(word)
}

/// Where a word stands in a list of names and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pairs {
    None,
    Name,
    Value,
}

impl Pairs {
    /// For a word, before it is taken.
    fn at(self, inner: &Inner) -> Pairs {
        match inner.option {
            Some(option) if begins_pairs(option) => Pairs::Name,
            Some(option) if is_option(option) => Pairs::None,
            _ if inner.is_option() && begins_pairs(inner.text) => Pairs::Value,
            _ if inner.is_option() => Pairs::None,
            _ => self,
        }
    }

    /// For the word after it.
    fn behind(self, inner: &Inner) -> Pairs {
        let is_setting = inner.option.is_some_and(|option| !begins_pairs(option));
        match self {
            Pairs::Name if inner.text.contains('=') || is_setting => Pairs::Name,
            Pairs::Name => Pairs::Value,
            Pairs::Value => Pairs::Name,
            Pairs::None => Pairs::None,
        }
    }
}

/// Whether the word is a name and the next one its secret value.
fn names_the_next(inner: &Inner, before: &str, pairs: Pairs, holding: &RulesInForce) -> bool {
    let is_bare = !inner.is_option() && !inner.text.contains(['=', '/', ' ']);
    let is_asked_for =
        pairs == Pairs::Name || holding.givens().any(|given| given == Given::AfterName);
    let is_address_of_setting = inner.text.starts_with("//") && !inner.text.contains('=');
    is_asked_for && (is_bare || is_address_of_setting) && is_secret(inner.text)
        || is_bare && stands_for_itself(inner.text, before)
}

/// Whether a word alone says that a secret follows: `WANDB.API_KEY`, `hub.token`. One in capitals behind an option is
/// a variable that is passed on (`docker run -e HF_TOKEN image`); `server.key` and `make_token.py` are files.
fn stands_for_itself(word: &str, before: &str) -> bool {
    let last = word.rsplit('.').next().unwrap_or_default();
    let has_dot = last.len() < word.len();
    let is_long = last.len() > "auth".len();
    let is_capital = !word.contains(|c: char| c.is_ascii_lowercase());
    let fits = match (is_capital, has_dot) {
        (true, true) => true,
        (true, false) => is_long && (!is_option(before) || begins_pairs(before)),
        (false, true) => {
            is_long && before != "-m" && last.starts_with(|c: char| c.is_ascii_lowercase())
        }
        (false, false) => false,
    };
    fits && is_name(word) && is_secret(last)
}

/// Hides the values of the option at `at`: one, or all up to the next option if its name is a plural.
/// Returns where to go on.
fn after_values<T: AsRef<str>>(words: &[T], at: usize, many: bool, hidden: &mut Hidden) -> usize {
    let mut next = at + 1;
    while let Some(value) = words.get(next).map(AsRef::as_ref) {
        let is_option = match next == at + 1 {
            true => value.starts_with("--"),
            false => value.starts_with('-') || !many,
        };
        if is_option || is_plain_value(value) {
            break;
        }
        hide(hidden, next, 0);
        next += 1;
    }
    next
}

/// In which of the two words there is a secret, 0 or 1 on, and where it begins there: by the rules for the
/// programs before it, and for any program behind an option for a user.
fn of_program(word: &str, next: Option<&str>, holding: &RulesInForce) -> Option<(usize, usize)> {
    let by_rule = holding.givens().find_map(|given| match given {
        Given::UserAndPassword(options) => of_option(word, next, options, is_user_and_password),
        Given::Any(options) => of_option(word, next, options, is_given),
        Given::Attached(options) => of_option(word, None, options, is_given),
        Given::Words => {
            let is_one = next.is_some_and(|next| is_value(next) && !next.contains("://"));
            is_one.then_some((1, 0))
        }
        Given::AfterName => None,
    });
    by_rule.or_else(|| {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        if holding.has_groups || !is_option(option) || !is_of_user(option) {
            return None;
        }
        match (value, next) {
            (Some(value), _) if is_user_and_password(value) => Some((0, word.len() - value.len())),
            (None, Some(next)) if is_user_and_password(next) => Some((1, 0)),
            _ => None,
        }
    })
}

/// In which of the two words the value of one of `options` is, and where it begins there.
fn of_option(
    word: &str,
    next: Option<&str>,
    options: &[&str],
    fits: fn(&str) -> bool,
) -> Option<(usize, usize)> {
    options.iter().find_map(|option| {
        let rest = word.strip_prefix(option)?;
        if rest.is_empty() {
            return next.is_some_and(fits).then_some((1, 0));
        }
        let value = match option.starts_with("--") {
            true => rest.strip_prefix('=')?,
            false => rest,
        };
        fits(value).then_some((0, word.len() - value.len()))
    })
}

fn is_given(value: &str) -> bool {
    !value.is_empty() && !value.starts_with('-')
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
    look_into(text, 0, DEPTH, &mut found);
    found
}

fn look_into(text: &str, base: usize, depth: usize, found: &mut Vec<(usize, usize)>) {
    let script = Script::new(text);
    for command in &script.commands {
        for (placed, from) in command.iter().zip(values(command)) {
            // Masked already, and quoted for a shell.
            let Some(from) = from.filter(|_| placed.word != MASK) else {
                continue;
            };
            // Quotes make a word longer in the script, so this is rather too early than too late.
            let mut start = placed.start + from;
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            found.push((base + start, base + placed.end));
        }
    }
    if let [command] = &script.commands[..]
        && let [name, value] = &command[..]
        && is_name_and_value(name, value)
    {
        found.push((base + value.start, base + value.end));
    }
    if depth > 0 {
        for (from, to) in script.quoted {
            look_into(&text[from..to], base + from, depth - 1, found);
        }
    }
}

/// Whether two words that are all of a text are a name and its secret: `hf_token x`, `key a9FX20`,
/// but not `secret garden`.
fn is_name_and_value(name: &Placed, value: &Placed) -> bool {
    let name = Inner::parse(&name.word).text;
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_named = is_name(name) && !name.starts_with('-') && is_secret(last);
    is_named
        && is_value(&value.word)
        && value.word != MASK
        && (is_compound(name) || is_no_english(&value.word))
}

/// Whether a word is none of a sentence, nor a number.
fn is_no_english(word: &str) -> bool {
    let letters = |test: fn(&char) -> bool| word.chars().filter(test).count();
    let digits = letters(char::is_ascii_digit);
    let capitals = word
        .chars()
        .skip(1)
        .filter(char::is_ascii_uppercase)
        .count();
    let mixed = capitals > 0 && letters(char::is_ascii_lowercase) > 0;
    let length = word.chars().count();
    length > 20 || length >= 6 && (mixed || digits > 0 && digits < length)
}
