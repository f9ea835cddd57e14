//! Takes user, host and paths out of events, so that everything made from them is without these.
//! File names stay: a line of the program is what one talks about.

use crate::event::{Event, What};
use regex::{Captures, Regex};
use serde_json::Value;
use std::borrow::Cow;

/// Names that say nothing of anybody, and would be missed in sentences.
const COMMON: [&str; 8] = [
    "root",
    "user",
    "ubuntu",
    "host",
    "home",
    "localhost",
    "python",
    "torch",
];

#[derive(Debug)]
pub struct Anonymizer {
    /// Names of people and machines, and what stands for them.
    names: Vec<(Regex, &'static str)>,
    hosts: Regex,
    addresses: Regex,
    paths: Regex,
}

impl Anonymizer {
    /// For what was recorded by these users on these hosts. Users whose home a path lies in, or that
    /// NVML's processes belong to, are found in the events themselves.
    pub fn new(users: &[String], hosts: &[String]) -> Anonymizer {
        let mut anonymizer = Anonymizer {
            names: Vec::new(),
            // A scheme, then who is asked; the path after it stays.
            hosts: pattern(r"\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s\x22']+"),
            addresses: pattern(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
            paths: pattern(r#"(^|[\s"'=,;:(\[])~?/(?:[^/\s"'=,;:]+/)*([^/\s"'=,;:]|$)"#),
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
        let word = format!(r"\b{}\b", regex::escape(name));
        if self.names.iter().any(|(known, _)| known.as_str() == word) {
            return;
        }
        if let Ok(known) = Regex::new(&word) {
            self.names.push((known, stands_for));
        }
    }

    /// The event without them; as it is, if it cannot be written as JSON.
    pub fn event(&mut self, event: Event) -> Event {
        if let What::SourceText(_) = event.what {
            // The program's own words may say anything.
            let what = What::SourceText(Box::default());
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
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("cwd", value) => *value = Value::String(String::new()),
                        (_, value) => self.clean(value),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A string without them.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut now = self.hosts.replace_all(text, "${1}host").into_owned();
        now = self.addresses.replace_all(&now, "host").into_owned();
        for (name, stands_for) in &self.names {
            now = name.replace_all(&now, *stands_for).into_owned();
        }
        let cut = |found: &Captures| format!("{}…/{}", &found[1], &found[2]);
        now = self.paths.replace_all(&now, cut).into_owned();
        match now == text {
            true => Cow::Borrowed(text),
            false => Cow::Owned(now),
        }
    }
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
            ("tcp://gpu7:29500/x", "tcp://host/x"),
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
        ];
        let event = Event {
            at: Moment(5),
            what: What::Started(Started {
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
        let What::Started(started) = &clean.what else {
            panic!("{clean:?}");
        };
        let words: Vec<String> = started
            .command
            .argv
            .iter()
            .map(Word::to_string_lossy)
            .collect();
        assert_eq!(words, ["…/python", "train.py", "--out", "…/out"]);
        assert_eq!(started.command.cwd, std::path::PathBuf::new());
    }
}
