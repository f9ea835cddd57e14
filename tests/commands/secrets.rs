//! Secrets planted in commands: none of them is shown, stored or listed, and nothing else is masked.

use oomph::command::{CommandLine, EnvChange, MASK, Word, without_secrets};
use proptest::prelude::*;

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
        let secrets: Vec<&str> = line.split(['«', '»']).skip(1).step_by(2).collect();
        let command = command(&line.replace(['«', '»'], ""));
        let stored = serde_json::to_string(&command.without_secrets()).expect("JSON");
        for shown in [command.shown(), stored] {
            let right = shown.contains(MASK) != secrets.is_empty()
                && !secrets.iter().any(|secret| shown.contains(secret));
            if !right {
                wrong.push(format!("{line}\n  {shown}"));
            }
        }
        planted += usize::from(!secrets.is_empty());
    }
    assert!(planted >= 160, "{planted}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A secret of several parts, whatever stands between them: each part has what nothing else has.
fn secret() -> impl Strategy<Value = String> {
    let between = prop::sample::select(vec![
        ",", ", ", " ", "&", ")", "(", "}", "]", ";", ":", "=", "/", "|", "#", "@", "%20", "!",
        " & ",
    ]);
    prop::collection::vec(between, 0..5).prop_map(|between| {
        let mut whole = String::from("zQ0");
        for (n, text) in between.iter().enumerate() {
            whole += text;
            whole += &format!("zQ{}", n + 1);
        }
        whole
    })
}

/// Words around a secret, in which `{}` is where it goes.
fn places() -> Vec<Vec<&'static str>> {
    vec![
        vec!["--password", "{}"],
        vec!["--password={}"],
        vec!["--api_keys", "{}", "{}", "--lr", "1"],
        vec!["hub.token={}"],
        vec!["+wandb.key={}"],
        vec!["-e", "HF_TOKEN={}"],
        vec!["--from-literal=password={}"],
        vec![r#"{"lr": 1, "password": "{}"}"#],
        vec![r#"{"api_keys":["{}","{}"],"n":2}"#],
        vec![r#"{"auth": {"user": "ada", "pass": ["{}"]}}"#],
        vec![r#"{"inner": "{\"password\": \"{}\", \"n\": 1}"}"#],
        vec![r"{'secret': '{}', 'n': 1}"],
        vec!["-H", "X-Api-Key: {}"],
        vec!["-H", "Authorization: Bearer {}"],
        vec!["bash", "-c", "train.py --password '{}' --lr 1"],
        vec!["bash", "-c", "HF_TOKEN=\"{}\" python train.py"],
        vec![
            "bash",
            "-c",
            "cd x && export HF_TOKEN='{}'; python train.py",
        ],
        vec!["bash", "-c", "curl -u 'ada:{}' https://host/x"],
        vec!["python", "-c", "login(token='{}', write=True)"],
        vec!["python", "-c", "run(['login', '--token', '{}'])"],
        vec!["curl", "-u", "ada:{}"],
        vec!["curl", "--user=ada:{}"],
    ]
}

proptest! {
    #[test]
    fn a_secret_is_masked_to_its_end(secret in secret(), place in prop::sample::select(places())) {
        let mut argv = vec![Word::from("python"), Word::from("train.py")];
        argv.extend(place.iter().map(|word| Word::from(word.replace("{}", &secret))));
        let command = CommandLine { argv, ..CommandLine::default() };
        let shown = command.shown();
        prop_assert!(!shown.contains("zQ"), "{shown}");
        // What is masked once is masked.
        let again = without_secrets(&shown).into_owned();
        prop_assert!(!again.contains("zQ"), "{again}");
        // Nothing of the words before it is lost.
        prop_assert!(shown.starts_with("python train.py"), "{shown}");
    }

    #[test]
    fn no_text_makes_it_fail(text in ".{0,60}", also in "[\\\\\"'{}=:,;& a-ctoken_-]{0,60}") {
        let _ = without_secrets(&text);
        for text in [&also, &format!("token={also}"), &format!("x --token: {also}é{text}")] {
            let masked = without_secrets(text);
            prop_assert!(masked.len() <= text.len() + MASK.len() * text.len());
        }
        let argv = also.split(' ').map(Word::from).collect();
        let _ = CommandLine { argv, ..CommandLine::default() }.shown();
    }
}
