//! Words and texts that tell of people, machines and places, whoever they are: addresses, URLs, paths,
//! and the values of options that are given to such.

use regex::{Captures, Regex};
use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Words in the name of an option or a variable whose value is a machine.
const HOSTS: [&str; 15] = [
    "addr",
    "address",
    "addresses",
    "endpoint",
    "host",
    "hostfile",
    "hostname",
    "hosts",
    "ip",
    "ips",
    "nodelist",
    "nodefile",
    "server",
    "servers",
    "coordinator",
];

/// And those of a person or a group of people.
const PEOPLE: [&str; 16] = [
    "account",
    "author",
    "email",
    "entity",
    "group",
    "login",
    "mail",
    "name",
    "org",
    "organization",
    "owner",
    "team",
    "user",
    "username",
    "workspace",
    "assignee",
];

/// Names with one of these are of a run or of a model, not of a person.
const THINGS: [&str; 22] = [
    "backbone",
    "checkpoint",
    "class",
    "column",
    "config",
    "dataset",
    "model",
    "module",
    "optimizer",
    "path",
    "project",
    "run",
    "scheduler",
    "task",
    "tokenizer",
    "loss",
    "metric",
    "layer",
    "split",
    "experiment",
    "job",
    "exp",
];

/// What a value is, by the name that it is given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Host,
    Person,
}

impl Holds {
    /// By the name of an option or a variable; `None` for anything else.
    pub(super) fn of(name: &str) -> Option<Holds> {
        // `mpirun -H`, `srun -w`.
        if matches!(name, "-H" | "-w") {
            return Some(Holds::Host);
        }
        let name = name.to_ascii_lowercase();
        let words: Vec<&str> = (name.split(|c: char| !c.is_ascii_alphanumeric()))
            .filter(|word| !word.is_empty())
            .collect();
        let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
        match (
            has(&HOSTS),
            has(&PEOPLE) && !has(&THINGS) && words != ["name"],
        ) {
            (true, _) => Some(Holds::Host),
            (false, true) => Some(Holds::Person),
            (false, false) => None,
        }
    }

    /// What stands for a value. Numbers and switches name nobody.
    pub(super) fn replacement(self, value: &str) -> Option<String> {
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
pub(super) struct Patterns {
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
    pub(super) fn new() -> Patterns {
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
    pub(super) fn text(&self, text: &str) -> String {
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
    pub(super) fn word(&self, word: &str) -> String {
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
pub(super) fn name_pattern(name: &str) -> Option<Regex> {
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

pub(super) fn without_name<'a>(pattern: &Regex, stands_for: &str, text: &'a str) -> Cow<'a, str> {
    let replaced = |found: &Captures| format!("{}{stands_for}{}", &found[1], &found[2]);
    pattern.replace_all(text, replaced)
}

/// A pattern of this file's own.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern that a test compiles")
}
