//! An environment variable as the program will see it: set by a word of the command, else typed
//! before the command, else inherited.

use super::argument::{Arguments, Name, Value, text};
use super::launcher::{CommandLayout, EnvPropagation};
use crate::command::{CommandLine, Word};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Variable<'a> {
    /// By a word of the command.
    Word(Value<'a>),
    /// Typed before the command, or inherited.
    Environment(&'a str),
}

impl<'a> Variable<'a> {
    /// `inherited` is its value in oomph's own environment.
    pub(crate) fn find(
        command: &'a CommandLine,
        layout: &CommandLayout,
        name: &str,
        inherited: Option<&'a str>,
    ) -> Option<Variable<'a>> {
        if let Some(value) = of_words(command, layout, name) {
            return Some(Variable::Word(value));
        }
        if layout.env_propagation() != EnvPropagation::Inherited {
            return None;
        }
        let typed = command.env.iter().rev().find(|change| change.name == *name);
        match typed {
            Some(change) => change.value.as_ref().and_then(Word::as_str),
            None => inherited,
        }
        .map(Variable::Environment)
    }

    pub(crate) fn text(&self) -> &'a str {
        match self {
            Variable::Word(value) => value.text,
            Variable::Environment(text) => text,
        }
    }
}

/// The innermost `NAME=VALUE` word of the command that sets the variable.
fn of_words<'a>(command: &'a CommandLine, layout: &CommandLayout, name: &str) -> Option<Value<'a>> {
    let behind = |whole: Value<'a>| {
        let text = whole.text.strip_prefix(name)?.strip_prefix('=')?;
        let from = whole.from + name.len() + 1;
        Some(Value {
            text,
            from,
            ..whole
        })
    };
    let word = |at: &usize| Value {
        text: text(&command.argv[*at]),
        at: *at,
        from: 0,
    };
    let mut assigned = layout.assignments.iter().rev().map(word);
    let in_container = || {
        layout.launchers.iter().rev().find_map(|launcher| {
            let EnvPropagation::Option(option) = launcher.environment else {
                return None;
            };
            let words = &command.argv[launcher.words.clone()];
            let options = Arguments::of_words(words, launcher.words.start);
            let hits = [option, "--env"].map(|name| options.find(Name::new(name)));
            let values = hits.into_iter().flatten().rev();
            values.filter_map(|hit| hit.value).find_map(behind)
        })
    };
    assigned.find_map(behind).or_else(in_container)
}
