//! Secrets planted in commands: none of them is shown, stored or listed, and nothing else is masked.

use oomph::command::{CommandLine, EnvChange, MASK, Word};

/// Words that are settings come first, as in a shell.
fn command(line: &str) -> CommandLine {
    let words = shlex::split(line).expect("a line that a shell reads");
    let is_setting = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let settings = words.iter().take_while(is_setting);
    let env: Vec<EnvChange> = settings
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| EnvChange {
            name: Word::from(name),
            value: Some(Word::from(value)),
        })
        .collect();
    CommandLine {
        argv: words.iter().skip(env.len()).map(Word::from).collect(),
        env,
        cwd: "/".into(),
    }
}

#[test]
fn planted_secrets_are_masked_and_nothing_else() {
    let lines = include_str!("secrets.list").lines();
    let (mut planted, mut wrong) = (0, Vec::new());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let secret = line.split(['«', '»']).nth(1);
        let command = command(&line.replace(['«', '»'], ""));
        let stored = serde_json::to_string(&command.without_secrets()).expect("JSON");
        for shown in [command.shown(), stored] {
            let right = match secret {
                Some(secret) => shown.contains(MASK) && !shown.contains(secret),
                None => !shown.contains(MASK),
            };
            if !right {
                wrong.push(format!("{line}\n  {shown}"));
            }
        }
        planted += usize::from(secret.is_some());
    }
    assert!(planted >= 100, "{planted}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
