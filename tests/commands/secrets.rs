//! Secrets planted in commands: none of them is shown, stored or listed, and nothing else is masked.

use nix::time::{ClockId, clock_gettime};
use oomph::command::{CommandLine, EnvChange, MASK, Word, without_secrets};
use proptest::prelude::*;
use std::time::Duration;

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
    assert!(planted >= 230, "{planted}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What masking costs this thread, whatever else the machine does.
fn cost(work: &dyn Fn()) -> Duration {
    let spent =
        || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock"));
    let before = spent();
    work();
    spent() - before
}

fn command_of(words: impl Iterator<Item = String>) -> CommandLine {
    CommandLine {
        argv: words.map(Word::from).collect(),
        ..CommandLine::default()
    }
}

/// Asks for a few figures, since a clock alone may be wrong once.
fn at_most(bound: u32, what: &str, figures: impl Fn(usize) -> [Duration; 2]) {
    let mut seen = Vec::new();
    for attempt in 0..3 {
        let [small, large] = figures(attempt);
        // Less than that is measured badly.
        if large <= small.max(Duration::from_millis(2)) * bound {
            return;
        }
        seen.push([small, large]);
    }
    panic!("{what}: {seen:?}");
}

#[test]
fn a_text_four_times_as_long_costs_no_more_than_eight_times() {
    let pieces: [(&str, usize); 14] = [
        ("http://10.0.0.1:8080/data/shard-000000.tar,", 2_000),
        ("http://a:", 8_000),
        ("http://a:b/c d ", 4_000),
        ("https://host/x?code=&", 2_000),
        ("hooks.slack.com/services/", 4_000),
        ("(token=,", 8_000),
        ("token: true, ", 4_000),
        (" token='' ", 4_000),
        ("curl -u a ", 4_000),
        ("--opts=", 4_000),
        ("'a b' ", 4_000),
        ("a=", 8_000),
        ("-----BEGIN Bearer ", 4_000),
        ("\\\"", 4_000),
    ];
    for (piece, count) in pieces {
        for end in ["", ",token=x"] {
            at_most(8, piece, |_| {
                [count, 4 * count].map(|count| {
                    let text = piece.repeat(count) + end;
                    cost(&|| drop(without_secrets(&text)))
                })
            });
        }
    }
    at_most(8, "blanks behind a value", |_| {
        [10_000, 40_000].map(|count| {
            let text = format!("a=1,token=x{}y", " ".repeat(count));
            cost(&|| drop(without_secrets(&text)))
        })
    });
}

#[test]
fn four_times_as_many_words_cost_no_more_than_eight_times() {
    for pattern in [
        "data.path=/data/N",
        "--token N",
        "curl -u ada:N",
        "--opts API_KEY N",
        "docker login -p N",
    ] {
        at_most(8, pattern, |attempt| {
            [1_000, 4_000].map(|count| {
                let lines = (0..count).map(|n| pattern.replace('N', &format!("{attempt}x{n}")));
                let words =
                    lines.flat_map(|line| line.split(' ').map(String::from).collect::<Vec<_>>());
                let command = command_of(words);
                cost(&|| drop(command.without_secrets()))
            })
        });
    }
}

#[test]
fn a_command_that_was_masked_just_now_is_not_masked_again() {
    at_most(1, "again", |attempt| {
        let words = |n| format!("data.path=/data/again/{attempt}/{n}");
        let command = command_of((0..4_000).map(words));
        let work = || drop(command.without_secrets());
        let first = cost(&work);
        [first / 4, cost(&work)]
    });
}

#[test]
fn a_word_too_long_to_look_into_is_masked_as_a_whole() {
    let piece = "http://10.0.0.1:8080/data/shard-000000.tar,";
    let long = piece.repeat((64 << 10) / piece.len() + 1);
    let words = ["train.py", &long, "--lr", "1"].map(String::from);
    let mut command = command_of(words.into_iter());
    assert_eq!(command.shown(), format!("train.py '{MASK}' --lr 1"));
    command.env.push(EnvChange {
        name: Word::from("SHARDS"),
        value: Some(Word::from(long)),
    });
    let stored = command.without_secrets();
    assert_eq!(stored.env[0].value, Some(Word::from(MASK)));
    // One that is long, but not too long, is shown.
    let fits = piece.repeat((64 << 10) / piece.len());
    let command = command_of(["train.py".into(), fits.clone()].into_iter());
    assert_eq!(command.without_secrets().argv[1], *fits);
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
        vec!["--proxy-user", "ada:{}"],
        vec!["--opts", "API_KEY", "{}", "LR", "1"],
        vec!["docker", "login", "-p", "{}"],
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
