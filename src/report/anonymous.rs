//! Takes user, host and paths out of events, so that everything made from them is without these.
//! File names stay: a line of the program is what one talks about.

mod words;

use crate::event::{Event, EventKind};
use regex::Regex;
use serde_json::Value;
use std::borrow::Cow;
use words::{Holds, Patterns, name_pattern, without_name};

/// Names that say nothing of anybody, and would be missed in sentences.
const COMMON: [&str; 24] = [
    "root",
    "user",
    "ubuntu",
    "host",
    "home",
    "localhost",
    "python",
    "torch",
    "admin",
    "batch",
    "cuda",
    "data",
    "docker",
    "gpu",
    "jovyan",
    "memory",
    "model",
    "node",
    "nobody",
    "oomph",
    "runner",
    "step",
    "test",
    "train",
];

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
        if name.len() < 2 || COMMON.contains(&name) {
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
