//! Takes user, host and paths out of events, so that everything made from them is without these.
//! File names stay: a line of the program is what one talks about.

use crate::event::{Event, EventKind};
use regex::{Captures, Regex};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

/// What `anonymous.toml` has, which explains each list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownNames {
    common: Vec<String>,
    hosts: Vec<String>,
    people: Vec<String>,
    things: Vec<String>,
}

static NAMES: LazyLock<KnownNames> = LazyLock::new(|| {
    toml::from_str(include_str!("anonymous.toml")).expect("anonymous.toml is valid")
});

#[derive(Debug)]
pub struct Anonymizer {
    /// Names of people and machines, and what stands for them.
    names: Vec<(Regex, &'static str)>,
    patterns: Patterns,
}

impl Anonymizer {
    /// For what was recorded by these users on these hosts. Users whose home a path lies in, or that
    /// NVML's processes belong to, are found in the events themselves.
    pub fn new(users: &[String], hosts: &[String]) -> Anonymizer {
        let mut anonymizer = Anonymizer {
            names: Vec::new(),
            patterns: Patterns::new(),
        };
        for user in users {
            anonymizer.add(user, "user");
        }
        for host in hosts {
            anonymizer.add(host, "host");
            // Without its domain it is as much a name.
            anonymizer.add(host.split('.').next().unwrap_or_default(), "host");
        }
        anonymizer
    }

    fn add(&mut self, name: &str, stands_for: &'static str) {
        if name.len() < 2 || NAMES.common.iter().any(|one| one == name) {
            return;
        }
        let Some(pattern) = name_pattern(name) else {
            return;
        };
        let is_known = |known: &Regex| known.as_str() == pattern.as_str();
        if !self.names.iter().any(|(known, _)| is_known(known)) {
            self.names.push((pattern, stands_for));
        }
    }

    /// The event without them; as it is, if it cannot be written as JSON.
    pub fn event(&mut self, event: Event) -> Event {
        if let EventKind::SourceText(_) = event.what {
            // The program's own words may say anything.
            let what = EventKind::SourceText(Box::default());
            return Event { what, ..event };
        }
        let Ok(mut value) = serde_json::to_value(&event) else {
            return event;
        };
        self.learn(&value);
        self.clean(&mut value);
        serde_json::from_value(value).unwrap_or(event)
    }

    /// Machines and users named by this event: `"user"` of a process, and whose home a path lies in.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                for home in ["/home/", "/Users/"] {
                    let below = text.split_once(home).map(|(_, rest)| rest);
                    if let Some(owner) = below.and_then(|rest| rest.split('/').next()) {
                        self.add(owner, "user");
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.learn(value)),
            Value::Object(fields) => {
                if let Some(Value::String(user)) = fields.get("user") {
                    self.add(user, "user");
                }
                if let Some(Value::Array(words)) = fields.get("argv") {
                    for (holds, value) in named_values(words) {
                        let host = value.split(':').next().unwrap_or_default();
                        if holds == Holds::Host && holds.replacement(value).is_some() {
                            self.add(host, "host");
                        }
                    }
                }
                for name in ["host", "node"] {
                    if let Some(Value::String(host)) = fields.get(name) {
                        self.add(host, "host");
                    }
                }
                fields.values().for_each(|value| self.learn(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn clean(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(cleaned) = self.text(text) {
                    *text = cleaned;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.clean(value)),
            Value::Object(fields) => {
                // A variable that a command sets.
                let variable = (fields.get("name").and_then(Value::as_str)).and_then(Holds::of);
                if let (Some(holds), Some(Value::String(value))) =
                    (variable, fields.get_mut("value"))
                    && let Some(replaced) = holds.replacement(value)
                {
                    *value = replaced;
                }
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("cwd", value) => *value = Value::String(String::new()),
                        ("argv", Value::Array(words)) => self.clean_command(words),
                        (_, value) => self.clean(value),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The words of a command, of which one may say what the next one is.
    fn clean_command(&self, words: &mut [Value]) {
        let replaced: Vec<Option<String>> = {
            let mut holds = None;
            let replace = |word: &Value| {
                let word = word.as_str()?;
                let before = std::mem::take(&mut holds);
                if word.starts_with('-') {
                    holds = Holds::of(word).filter(|_| !word.contains('='));
                } else if let Some(holds) = before {
                    return holds.replacement(word);
                }
                Some(self.without_names(self.patterns.word(word)))
            };
            words.iter().map(replace).collect()
        };
        for (word, replaced) in words.iter_mut().zip(replaced) {
            if let Some(replaced) = replaced {
                *word = Value::String(replaced);
            }
        }
    }

    /// A string without them.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let now = self.without_names(self.patterns.text(text));
        match now == text {
            true => Cow::Borrowed(text),
            false => Cow::Owned(now),
        }
    }

    fn without_names(&self, mut text: String) -> String {
        for (name, stands_for) in &self.names {
            if let Cow::Owned(without) = without_name(name, stands_for, &text) {
                text = without;
            }
        }
        text
    }
}

/// The values after options that are given to people and machines.
fn named_values(words: &[Value]) -> impl Iterator<Item = (Holds, &str)> {
    let texts = || words.iter().map(|word| word.as_str().unwrap_or_default());
    texts()
        .zip(texts().skip(1).chain([""]))
        .filter_map(|(word, next)| match word.split_once('=') {
            Some((name, value)) => Some((Holds::of(name)?, value)),
            None if word.starts_with('-') => Some((Holds::of(word)?, next)),
            None => None,
        })
}

/// What a value is, by the name that it is given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Host,
    Person,
}

impl Holds {
    /// By the name of an option or a variable; `None` for anything else.
    fn of(name: &str) -> Option<Holds> {
        // `mpirun -H`, `srun -w`.
        if matches!(name, "-H" | "-w") {
            return Some(Holds::Host);
        }
        let name = name.to_ascii_lowercase();
        let words: Vec<&str> = (name.split(|c: char| !c.is_ascii_alphanumeric()))
            .filter(|word| !word.is_empty())
            .collect();
        let has = |known: &[String]| known.iter().any(|one| words.contains(&one.as_str()));
        match (
            has(&NAMES.hosts),
            has(&NAMES.people) && !has(&NAMES.things) && words != ["name"],
        ) {
            (true, _) => Some(Holds::Host),
            (false, true) => Some(Holds::Person),
            (false, false) => None,
        }
    }

    /// What stands for a value. Numbers and switches name nobody.
    fn replacement(self, value: &str) -> Option<String> {
        let plain = [
            "",
            "true",
            "false",
            "none",
            "null",
            "yes",
            "no",
            "auto",
            "localhost",
        ];
        let is_plain = value.parse::<f64>().is_ok()
            || plain.iter().any(|plain| value.eq_ignore_ascii_case(plain));
        if is_plain {
            return None;
        }
        let word = match self {
            Holds::Host => "host",
            Holds::Person => "user",
        };
        // The port says nothing.
        let port = value.rsplit_once(':').map(|(_, port)| port);
        let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        Some(match port.filter(is_port) {
            Some(port) if self == Holds::Host && !value.contains(',') => format!("{word}:{port}"),
            Some(_) | None => word.to_string(),
        })
    }
}

/// Stands for a slash that later patterns leave alone.
const SLASH: &str = "\u{1}";

/// The values of options in a text: `--master_addr gpu7`, `MASTER_ADDR=gpu7`.
#[derive(Debug)]
struct Patterns {
    options: Regex,
    urls: Regex,
    mail: Regex,
    ipv4: Regex,
    ipv6: Regex,
    ports: Regex,
    quoted: Regex,
    paths: Regex,
}

impl Patterns {
    fn new() -> Patterns {
        Patterns {
            options: pattern(r#"(--?[A-Za-z][\w.-]*|\b[A-Z][A-Z0-9_]+)([= ])([^\s"'=]+)"#),
            // Who is asked, and for what.
            urls: pattern(r#"\b([a-zA-Z][a-zA-Z0-9+.-]*://)([^/\s"']*)([^\s"']*)"#),
            mail: pattern(r#"[\w.+%-]+@[\w-]+(?:\.[\w-]+)*(:[^\s"',;]*)?"#),
            ipv4: pattern(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
            ipv6: pattern(r"\[?[0-9A-Za-z_.%]*(?::[0-9A-Za-z_.%]*){2,}\]?"),
            ports: pattern(r"\b[A-Za-z][\w.-]*:\d{4,5}\b"),
            quoted: pattern(r#"(["'])(~[\w.-]*)?/[^"'\n]*["']"#),
            // A blank, comma or colon in a path is told by the slash that follows soon.
            paths: pattern(
                r#"(^|[\s"'=,;:(\[@])(?:~[\w.-]*)?/(?:(?:[^/\s"'=,;:]|'\w)*(?:[ ,:]+[^/\s"'=,;:\d](?:[^/\s"'=,;:]|'\w)*){0,4}/)*([^/\s"'=,;:]*)"#,
            ),
        }
    }

    /// A text without what tells of anybody, as far as its form shows it.
    fn text(&self, text: &str) -> String {
        let option = |found: &Captures| {
            let replaced = Holds::of(&found[1]).and_then(|holds| holds.replacement(&found[3]));
            match replaced {
                Some(value) => format!("{}{}{value}", &found[1], &found[2]),
                None => found[0].to_string(),
            }
        };
        let mut now = self.options.replace_all(text, option).into_owned();
        let url = |found: &Captures| {
            let rest = if found[3].len() > 1 {
                "/…"
            } else {
                &found[3]
            };
            let kept = match &found[2] {
                "" => format!("{}…", found[1].trim_end_matches('/')),
                _ => format!("{}host{rest}", &found[1]),
            };
            // Its slashes are no path's.
            kept.replace('/', SLASH)
        };
        now = self.urls.replace_all(&now, url).into_owned();
        let mail = |found: &Captures| {
            let rest = found.get(1).map_or("", |_| ":…");
            format!("user@host{rest}")
        };
        now = self.mail.replace_all(&now, mail).into_owned();
        now = self.ipv4.replace_all(&now, "host").into_owned();
        let ipv6 = |found: &Captures| match is_ipv6(&found[0]) {
            true => "host".to_string(),
            false => found[0].to_string(),
        };
        now = self.ipv6.replace_all(&now, ipv6).into_owned();
        let port = |found: &Captures| {
            let (host, port) = found[0].split_once(':').unwrap_or_default();
            match is_file(host) || port.parse::<u32>().is_ok_and(|port| port < 10_000) {
                true => found[0].to_string(),
                false => format!("host:{port}"),
            }
        };
        now = self.ports.replace_all(&now, port).into_owned();
        let quoted = |found: &Captures| {
            let quote = &found[1];
            let path = found[0].trim_matches(['"', '\'']);
            format!("{quote}{}{quote}", file_of(path))
        };
        now = self.quoted.replace_all(&now, quoted).into_owned();
        let cut = |found: &Captures| format!("{}…/{}", &found[1], &found[2]);
        self.paths.replace_all(&now, cut).replace(SLASH, "/")
    }

    /// One word of a command, which may be a path with anything in it, or end in one.
    fn word(&self, word: &str) -> String {
        let (before, value) = match word.split_once('=') {
            Some((name, value)) if !name.contains(['/', ' ', '"']) => {
                (&word[..name.len() + 1], value)
            }
            Some(_) | None => ("", word),
        };
        let is_path =
            |text: &str| text.starts_with('/') || text.starts_with('~') && text.contains('/');
        if let Some(holds) = Holds::of(before.trim_end_matches('='))
            && let Some(replaced) = holds.replacement(value)
        {
            return format!("{before}{replaced}");
        }
        if !is_path(value) || value.contains(['\n', '"', '\'']) {
            return format!("{before}{}", self.text(value));
        }
        let mut parts = Vec::new();
        let mut from = 0;
        let lists = value.match_indices([',', ':']);
        for (at, _) in lists.filter(|(at, _)| is_path(&value[at + 1..])) {
            parts.push((&value[from..at], &value[at..at + 1]));
            from = at + 1;
        }
        parts.push((&value[from..], ""));
        let cut = |(path, separator): &(&str, &str)| format!("{}{separator}", file_of(path));
        format!("{before}{}", parts.iter().map(cut).collect::<String>())
    }
}

/// The file of a path; one that reads as more than a name may name somebody.
fn file_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    match file.contains([' ', ',', ':', '@']) {
        true => "…/…".into(),
        false => format!("…/{file}"),
    }
}

/// Whether something before a colon and a number is a file, and the number a line.
fn is_file(word: &str) -> bool {
    let extension = word.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| {
        [
            "py", "pyx", "cu", "cuh", "cpp", "cc", "c", "h", "hpp", "rs", "jsonl", "yaml", "toml",
        ]
        .contains(&extension)
    })
}

fn is_ipv6(text: &str) -> bool {
    let address = text.trim_start_matches('[').trim_end_matches(']');
    let address = address.split('%').next().unwrap_or_default();
    address.contains(|c: char| c.is_ascii_hexdigit()) && address.parse::<Ipv6Addr>().is_ok()
}

/// A name that may stand inside a word: `janedoe_exp1`. A short one only between other characters than
/// letters.
fn name_pattern(name: &str) -> Option<Regex> {
    let either_case = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        false => regex::escape(c.encode_utf8(&mut [0; 4])),
    };
    let escaped: String = name.chars().map(either_case).collect();
    let text = match name.len() {
        ..4 => format!(r"(^|[^A-Za-z]){escaped}($|[^A-Za-z])"),
        4.. => format!(r"(){escaped}()"),
    };
    Regex::new(&text).ok()
}

fn without_name<'a>(pattern: &Regex, stands_for: &str, text: &'a str) -> Cow<'a, str> {
    let replaced = |found: &Captures| format!("{}{stands_for}{}", &found[1], &found[2]);
    pattern.replace_all(text, replaced)
}

/// A pattern of this file's own.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern that a test compiles")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandLine, Word};
    use crate::event::Started;
    use crate::units::{Moment, Pid, RunNumber};

    #[test]
    fn user_host_and_paths_are_left_out() {
        let mut anonymizer = Anonymizer::new(&["alice".into()], &["gpu7.lab.example".into()]);
        anonymizer.learn(&Value::String("/home/bob/x".into()));
        for (text, expected) in [
            ("/home/alice/proj/train.py", "…/train.py"),
            ("--data=/data/set/a.bin,/b/c", "--data=…/a.bin,…/c"),
            ("tcp://gpu7:29500/x", "tcp://host/…"),
            ("see file:///home/zoe/a.bin", "see file:…"),
            ("janedoe_exp1", "janedoe_exp1"),
            ("alice_exp1 and exp-Alice2", "user_exp1 and exp-user2"),
            ("zoe.x@lab.example wrote", "user@host wrote"),
            ("git@host.example:zoe/repo.git", "user@host:…"),
            ("at [fe80::1]:29500, 2001:db8::7", "at host:29500, host"),
            (
                "at 12:30:45, std::vector, c10::Error",
                "at 12:30:45, std::vector, c10::Error",
            ),
            ("node9.zoe.example:29500", "host:29500"),
            (
                "cannot read /data/Zoe Doe's set/a.bin: denied",
                "cannot read …/a.bin: denied",
            ),
            (
                "cannot read '/data/Zoe, Doe/a.bin'",
                "cannot read '…/a.bin'",
            ),
            (
                "srun --nodelist=zoe[1-2] --nodes 2",
                "srun --nodelist=host --nodes 2",
            ),
            ("MASTER_ADDR=zoe python", "MASTER_ADDR=host python"),
            ("--master_addr zoe --lr 1", "--master_addr host --lr 1"),
            (
                "process 12 (python, alice) on gpu7",
                "process 12 (python, user) on host",
            ),
            ("10.0.3.4:80", "host:80"),
            ("bob's job", "user's job"),
            ("models.py:32 forward", "models.py:32 forward"),
            ("3.1 GiB/step and a/b.py", "3.1 GiB/step and a/b.py"),
            ("~/runs/x", "…/x"),
        ] {
            assert_eq!(anonymizer.text(text), expected);
        }
    }

    #[test]
    fn an_event_is_the_same_event_without_them() {
        let mut anonymizer = Anonymizer::new(&[], &[]);
        let words = [
            "/opt/carol/bin/python",
            "train.py",
            "--out",
            "/home/carol/out",
            "--rdzv-endpoint=zoe7:29500",
            "--master_addr",
            "zoe8",
            "--data=/data/Zoe Doe/x:y,z/set.bin,/b/c",
            "/data/Zoe Doe/Her: notes.txt",
            "--run-name",
            "carol_exp1-zoe8",
            "--wandb_entity",
            "zoes-lab",
            "--mail-user=zoe@lab.example",
            "file:///srv/zoe/x",
            "--nodes",
            "2",
            "--model_name",
            "bert-base",
        ];
        let event = Event {
            at: Moment(5),
            what: EventKind::Started(Started {
                run: RunNumber(1),
                pid: Pid(3),
                command: CommandLine {
                    argv: words.into_iter().map(Word::from).collect(),
                    env: Vec::new(),
                    cwd: "/home/carol/proj".into(),
                },
                remedies: Vec::new(),
                predicted_peak: None,
                prediction: None,
                numerics: None,
            }),
        };
        let clean = anonymizer.event(event);
        let EventKind::Started(started) = &clean.what else {
            panic!("{clean:?}");
        };
        let words: Vec<String> = started
            .command
            .argv
            .iter()
            .map(Word::to_string_lossy)
            .collect();
        assert_eq!(
            words,
            [
                "…/python",
                "train.py",
                "--out",
                "…/out",
                "--rdzv-endpoint=host:29500",
                "--master_addr",
                "host",
                "--data=…/set.bin,…/c",
                "…/…",
                "--run-name",
                "user_exp1-host",
                "--wandb_entity",
                "user",
                "--mail-user=user",
                "file:…",
                "--nodes",
                "2",
                "--model_name",
                "bert-base",
            ]
        );
        assert_eq!(started.command.cwd, std::path::PathBuf::new());
    }
}
