//! Programs that read the command's words with two parsers, neither of which knows the other's options: whichever is typed, one of
//! the two refuses it. The numbers are edited where they stand.

use super::statements::{CallSite, SourceStatements};

/// Whether another parser of the same function reads the same words and was not told of these options, which `declaring` declares.
pub(super) fn refuse(
    said: &SourceStatements<'_>,
    declaring: &CallSite<'_>,
    options: &[String],
) -> bool {
    let Some(own) = owner(declaring, "add_argument") else {
        return false;
    };
    // All words of the command: no others are given.
    let reading = |name: &str| {
        let mut calls = said.calls.iter().filter(|call| {
            let takes_all = call.positional.is_empty() && call.keyword("args").is_none();
            owner(call, "parse_args") == Some(name) && takes_all
        });
        calls.next()
    };
    let Some(read) = reading(own) else {
        return false;
    };
    let function = said.enclosing(read.at).function;
    let made = said
        .calls
        .iter()
        .filter(|call| call.name() == "ArgumentParser");
    made.filter(|call| call.keyword("parents").is_none())
        .filter_map(|call| said.target_of(call))
        .filter(|name| *name != own)
        .filter(|name| {
            reading(name).is_some_and(|call| said.enclosing(call.at).function == function)
        })
        .any(|name| !declares(said, name, options))
}

fn declares(said: &SourceStatements<'_>, parser: &str, options: &[String]) -> bool {
    let declared = (said.calls.iter()).filter(|call| owner(call, "add_argument") == Some(parser));
    let mut words = declared.flat_map(|call| &call.positional);
    words.any(|word| {
        let word = said.tokens.string(word.start);
        word.is_some_and(|word| options.iter().any(|option| option == word))
    })
}

/// `parser` of `parser.add_argument`.
fn owner<'t>(call: &CallSite<'t>, method: &str) -> Option<&'t str> {
    call.callee.strip_suffix(method)?.strip_suffix('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(script: &str) -> bool {
        let said = SourceStatements::new(script);
        let is_it = |call: &&CallSite<'_>| {
            let mut words = call.positional.iter();
            words.any(|word| said.tokens.string(word.start) == Some("--batch"))
        };
        let declaring = said.calls.iter().find(is_it).expect("it is declared");
        refuse(&said, declaring, &["--batch".into()])
    }

    #[test]
    fn an_option_that_the_second_parser_was_not_told_of_cannot_be_typed() {
        let first = "p = argparse.ArgumentParser()\np.add_argument('--batch', type=int, default=8)\nargs = p.parse_args()\n";
        let second =
            "q = argparse.ArgumentParser()\nq.add_argument('--width', type=int, default=8)\n";
        for (more, expected) in [
            ("", false),
            ("rest = q.parse_args()\n", true),
            ("rest, _ = q.parse_known_args()\n", false),
            ("rest = q.parse_args([])\n", false),
            (
                "q.add_argument('--batch', type=int)\nrest = q.parse_args()\n",
                false,
            ),
        ] {
            let script = format!("{first}{second}{more}");
            assert_eq!(is_refused(&script), expected, "{more}");
        }
        let parent = second.replace("()\n", "(parents=[p])\n");
        assert!(!is_refused(&format!(
            "{first}{parent}rest = q.parse_args()\n"
        )));
        let elsewhere = format!(
            "{first}def other():\n    q = argparse.ArgumentParser()\n    return q.parse_args()\n"
        );
        assert!(!is_refused(&elsewhere), "another program's");
    }
}
