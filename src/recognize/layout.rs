//! How a command is laid out: environment variables, launchers, the interpreter, and the program with
//! its arguments. The options of launchers are never taken for the program's.
//!
//! The launchers are in `launchers.toml` (`launcher_grammar`). This knows nothing of batches, precisions or programs.

use super::argument::{Arguments, Name, Value, text};
use super::launcher_grammar::{LauncherGrammar, Then, grammars, launcher_at};
use super::memory_limit::SizeLimit;
use crate::command::{CommandLine, Word};
use serde::Serialize;
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Launcher {
    /// `torchrun`, `accelerate launch`.
    pub name: String,
    /// Its words and options.
    #[serde(skip)]
    pub words: Range<usize>,
    /// The index of its first option.
    #[serde(skip)]
    pub options: usize,
    /// Processes that it starts on this machine, if its options give a number.
    pub processes: Option<u32>,
    /// Why this command is one of several parts of a job, if it is.
    #[serde(skip)]
    pub part_of: Option<String>,
    /// Whether it starts processes on the other machines of a job itself.
    #[serde(skip)]
    pub reaches_nodes: bool,
    #[serde(skip)]
    pub environment: EnvPropagation,
    /// Whether what it starts has files of its own.
    #[serde(skip)]
    pub is_container: bool,
    /// Whether what it starts is no descendant of it: a server or another node starts that.
    #[serde(skip)]
    pub is_outside: bool,
    /// The sizes among its options that limit the host's memory of what it starts.
    #[serde(skip)]
    pub(crate) limits: Vec<SizeLimit>,
    /// Its option for the size of /dev/shm, typed or not.
    #[serde(skip)]
    pub(crate) shm_option: Option<&'static str>,
}

/// How an environment variable reaches what a launcher starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvPropagation {
    Inherited,
    /// By an option (`docker run -e`).
    Option(&'static str),
    /// Not at all.
    Cut,
}

/// What the launchers start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramKind {
    /// A Python file, by path or URL.
    Script,
    /// `python -m NAME`.
    Module,
    /// `python -c CODE`.
    Code,
    /// Any other executable: a console script, `make`.
    Executable,
    ShellScript,
    /// A command in a string for a shell: never edited.
    ShellString,
    /// The entry point of a container image.
    Image,
    /// Something that runs on another machine.
    Remote,
    Missing,
}

/// A command, split up to the arguments of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLayout {
    /// Indices of `NAME=VALUE` words, in front or after `env`.
    pub assignments: Vec<usize>,
    /// Outermost first.
    pub launchers: Vec<Launcher>,
    /// The index of the Python interpreter, or of the launcher that brings its own.
    pub interpreter: Option<usize>,
    pub kind: ProgramKind,
    /// The index of the word that names it; the length of the command if there is none.
    pub program: usize,
    pub arguments: Range<usize>,
}

impl CommandLayout {
    /// Splits a command.
    pub fn new(command: &CommandLine) -> CommandLayout {
        let words = &command.argv;
        CommandReader {
            words,
            found: CommandLayout {
                assignments: Vec::new(),
                launchers: Vec::new(),
                interpreter: None,
                kind: ProgramKind::Missing,
                program: words.len(),
                arguments: words.len()..words.len(),
            },
        }
        .read()
    }

    /// The program's arguments, of the command that this is the layout of.
    pub(crate) fn arguments_of<'a>(&self, command: &'a CommandLine) -> Arguments<'a> {
        let range = self.arguments.clone();
        Arguments::of_words(&command.argv[range.clone()], range.start)
    }

    /// The index of the word that starts Python: the interpreter, a launcher or a console script.
    /// `None` if that is in a container, on another machine or in a shell script.
    pub fn python_word(&self) -> Option<usize> {
        use ProgramKind::{Code, Executable, Module, Script};
        let elsewhere = |launcher: &Launcher| {
            launcher.is_container || matches!(launcher.environment, EnvPropagation::Option(_))
        };
        let is_python = matches!(self.kind, Script | Module | Code | Executable);
        let word = self.interpreter.unwrap_or(self.program);
        (is_python && !self.launchers.iter().any(elsewhere)).then_some(word)
    }

    /// How a variable gets to the program.
    pub(crate) fn env_propagation(&self) -> EnvPropagation {
        let mut ways = self.launchers.iter().map(|launcher| launcher.environment);
        let other = ways.find(|way| *way != EnvPropagation::Inherited);
        other.unwrap_or(EnvPropagation::Inherited)
    }
}

/// The last part of a path or URL.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

struct CommandReader<'a> {
    words: &'a [Word],
    found: CommandLayout,
}

impl CommandReader<'_> {
    fn text(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(text)
    }

    fn read(mut self) -> CommandLayout {
        let mut at = 0;
        let mut assignments_may_stand = true;
        while at < self.words.len() {
            while assignments_may_stand && self.text(at).is_some_and(is_assignment) {
                self.found.assignments.push(at);
                at += 1;
            }
            assignments_may_stand = false;
            let Some(word) = self.text(at) else { break };
            let name = file_name(word).to_string();
            if is_python(&name) {
                match self.python(at) {
                    Some(next) => at = next,
                    None => break,
                }
            } else if is_shell(&name) {
                self.shell(at);
                break;
            } else if let Some((grammar, words)) = launcher_at(self.words, at) {
                assignments_may_stand = name == "env";
                match self.launcher(grammar, at, at + words) {
                    Some(next) => at = next,
                    None => break,
                }
            } else if let Some(next) = python_behind(self.words, at) {
                self.unlisted_launcher(at, next);
                at = next;
            } else {
                let kind = if name.ends_with(".py") {
                    ProgramKind::Script
                } else if name.ends_with(".sh") || name.ends_with(".bash") {
                    ProgramKind::ShellScript
                } else {
                    ProgramKind::Executable
                };
                self.program(kind, at);
                break;
            }
        }
        self.found
    }

    /// The program is the word at `at`. Its arguments follow, up to a bare `--`, or after one that
    /// precedes all of them.
    fn program(&mut self, kind: ProgramKind, at: usize) {
        if at >= self.words.len() {
            return;
        }
        let from = at + 1 + usize::from(self.text(at + 1) == Some("--"));
        let to = (from..self.words.len())
            .find(|k| self.text(*k) == Some("--"))
            .unwrap_or(self.words.len());
        self.found.kind = kind;
        self.found.program = at;
        self.found.arguments = from..to;
    }

    /// `python` at `at`; returns where to continue if a launcher's module runs another command.
    fn python(&mut self, at: usize) -> Option<usize> {
        self.found.interpreter = Some(at);
        let mut k = at + 1;
        while let Some(word) = self.text(k) {
            match word {
                "-m" => return self.module(k),
                "-c" => {
                    self.program(ProgramKind::Code, k + 1);
                    // Code may read its arguments in any way.
                    self.found.arguments = self.words.len()..self.words.len();
                    return None;
                }
                "-X" | "-W" | "--check-hash-based-pycs" => k += 2,
                _ if word.starts_with('-') && word.len() > 1 => k += 1,
                _ => break,
            }
        }
        self.program(ProgramKind::Script, k);
        None
    }

    /// `-m` at `k`.
    fn module(&mut self, k: usize) -> Option<usize> {
        let module = self.text(k + 1)?.to_string();
        match grammars().iter().find(|g| g.modules.contains(&module)) {
            Some(grammar) => self.launcher(grammar, k + 1, k + 2),
            None => {
                self.program(ProgramKind::Module, k + 1);
                None
            }
        }
    }

    fn shell(&mut self, at: usize) {
        let mut k = at + 1;
        while let Some(word) = self.text(k) {
            if !word.starts_with('-') && !word.starts_with('+') {
                break;
            }
            if !word.starts_with("--") && word.contains('c') {
                self.program(ProgramKind::ShellString, k + 1);
                self.found.arguments = self.words.len()..self.words.len();
                return;
            }
            k += if matches!(word, "-o" | "-O" | "+O" | "--rcfile" | "--init-file") {
                2
            } else {
                1
            };
        }
        self.program(ProgramKind::ShellScript, k);
    }

    /// A launcher that is in no list, with its words before `next`: it is taken to start its command as a child and with
    /// its environment, as most do.
    fn unlisted_launcher(&mut self, at: usize, next: usize) {
        self.found.launchers.push(Launcher {
            name: file_name(self.text(at).unwrap_or_default()).to_string(),
            words: at..next,
            options: at + 1,
            processes: None,
            part_of: None,
            reaches_nodes: false,
            environment: EnvPropagation::Inherited,
            is_container: false,
            is_outside: false,
            limits: Vec::new(),
            shm_option: None,
        });
    }

    /// A launcher with its name at `at` and its options from `options` on.
    fn launcher(
        &mut self,
        grammar: &'static LauncherGrammar,
        at: usize,
        options: usize,
    ) -> Option<usize> {
        let mut processes = None;
        let mut part_of = None;
        let mut starts_module = false;
        let mut starts_command = false;
        let mut is_outside = grammar.outside;
        let mut limits = Vec::new();
        let mut k = options;
        while let Some(word) = self.text(k) {
            if word == "--" {
                k += 1;
                break;
            }
            if !word.starts_with('-') || word == "-" && !grammar.flags.iter().any(|f| f == "-") {
                break;
            }
            let (name, glued) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let is = |list: &[String]| list.iter().any(|option| option == name);
            if is(&grammar.module) {
                starts_module = true;
                k += 1;
                break;
            }
            starts_command |= is(&grammar.command);
            is_outside &= !is(&grammar.inside);
            limits.extend(grammar.limit(word, k, self.text(k + 1)));
            let width = grammar.width(name, glued.is_some());
            let value = match glued {
                Some(value) => Some(value),
                None if width == 2 => self.text(k + 1),
                None => None,
            };
            if is(&grammar.each) {
                processes = value.and_then(|v| v.parse().ok());
            }
            if is(&grammar.nodes) && value.is_some_and(|v| most_nodes(v) != Some(1)) {
                part_of = Some(format!("{name} {}", value.unwrap_or_default()));
            }
            if is(&grammar.node) && value.is_some_and(|v| v != "0") {
                part_of = Some(format!("{name} {}", value.unwrap_or_default()));
            }
            k += width;
        }
        k = (k + grammar.skip).min(self.words.len());
        let called = (at..options).map(|w| file_name(self.text(w).unwrap_or_default()));
        self.found.launchers.push(Launcher {
            name: called.collect::<Vec<_>>().join(" "),
            words: at..k,
            options,
            processes,
            part_of,
            reaches_nodes: grammar.cluster,
            environment: match grammar.env.as_deref() {
                None => EnvPropagation::Inherited,
                Some("none") => EnvPropagation::Cut,
                Some(option) => EnvPropagation::Option(option),
            },
            is_container: grammar.then == Then::Image,
            is_outside,
            limits,
            shm_option: grammar.shm.first().map(String::as_str),
        });
        match grammar.then {
            _ if starts_module => {
                self.found.interpreter.get_or_insert(at);
                self.program(ProgramKind::Module, k);
                None
            }
            Then::Command => Some(k),
            Then::Python if starts_command => Some(k),
            Then::Python => {
                self.found.interpreter.get_or_insert(at);
                // As in `accelerate launch python train.py`, which occurs.
                if self.text(k).is_some_and(|w| is_python(file_name(w))) {
                    return Some(k);
                }
                self.program(ProgramKind::Script, k);
                None
            }
            Then::Recipe => {
                self.found.interpreter.get_or_insert(at);
                self.program(ProgramKind::Executable, k);
                None
            }
            Then::Image => match self.text(k + 1) {
                Some(word) if !word.starts_with('-') => {
                    if let Some(launcher) = self.found.launchers.last_mut() {
                        launcher.words.end = k + 1;
                    }
                    Some(k + 1)
                }
                _ => {
                    self.program(ProgramKind::Image, k);
                    None
                }
            },
            Then::Remote => {
                self.program(ProgramKind::Remote, at);
                self.found.arguments = self.words.len()..self.words.len();
                None
            }
        }
    }
}

/// Where a command begins that certainly runs Python, behind a word at `at` that is in no list: `firejail python
/// train.py`, `doppler run -- torchrun train.py`. A script of its own (`train.py`, `yolo`) may have any of these words
/// among its arguments, but not an interpreter with a file.
fn python_behind(words: &[Word], at: usize) -> Option<usize> {
    let name = |k: usize| words.get(k).map(|word| file_name(text(word)));
    if name(at).is_some_and(|word| word.contains('.')) {
        return None;
    }
    let is_file = |k: usize| name(k).is_some_and(|word| word.ends_with(".py"));
    let runs_python = |k: usize| {
        let has_options = || (k + 1..words.len()).find(|k| !text(&words[*k]).starts_with('-'));
        let is_module = name(k + 1) == Some("-m");
        name(k).is_some_and(is_python) && (is_module || has_options().is_some_and(is_file))
    };
    let is_launched = |k: usize| {
        let launcher = launcher_at(words, k);
        let brings_python = |grammar: &LauncherGrammar| grammar.then == Then::Python;
        launcher.is_some_and(|(grammar, _)| brings_python(grammar))
            && (k + 1..words.len()).any(is_file)
    };
    (at + 1..words.len()).find(|k| runs_python(*k) || is_launched(*k))
}

/// The largest number of machines in `--nnodes 2`, `1:4` or `1`.
fn most_nodes(value: &str) -> Option<u32> {
    value.rsplit(':').next()?.parse().ok()
}

/// `NAME=VALUE`, as for a shell and `env`.
pub(crate) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn is_python(name: &str) -> bool {
    ["python", "pypy"].iter().any(|stem| {
        name.strip_prefix(stem).is_some_and(|rest| {
            rest.bytes()
                .all(|b| b.is_ascii_digit() || b == b'.' || b == b't')
        })
    })
}

fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish")
}

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

/// Names of standard input.
const STANDARD_INPUT: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Whether the command reads standard input for certain: an interpreter without a program, `-`, or one of
/// its names.
pub fn reads_standard_input(command: &CommandLine) -> bool {
    let is_named = |word: &Word| {
        let text = word.to_string_lossy();
        text == "-" || text.ends_with("=-") || STANDARD_INPUT.iter().any(|name| text.contains(name))
    };
    let words = command.argv.iter().skip(1);
    words.clone().any(is_named) || CommandLayout::new(command).kind == ProgramKind::Missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_in_no_list_is_passed_over_where_python_certainly_follows() {
        for (line, program, launchers) in [
            (
                "firejail --quiet python train.py --batch-size 8",
                "train.py",
                "firejail",
            ),
            ("doppler run -- python3 -u train.py", "train.py", "doppler"),
            (
                "op run --env-file .env -- torchrun --nproc-per-node 2 train.py",
                "train.py",
                "op/torchrun",
            ),
            (
                "bwrap --dev-bind / / /opt/python3.12 -m pkg.train",
                "pkg.train",
                "bwrap",
            ),
            (
                "sudo firejail numactl -l python train.py",
                "train.py",
                "sudo/firejail",
            ),
            (
                "gosu me accelerate launch train.py",
                "train.py",
                "gosu/accelerate launch",
            ),
            // No Python for certain: what follows are the program's own words.
            ("make python", "make", ""),
            ("train --interpreter python --batch-size 8", "train", ""),
            ("./train.py --child python other.py", "./train.py", ""),
            ("run.bin python train.py", "run.bin", ""),
            ("notes torchrun", "notes", ""),
        ] {
            let command = CommandLine::typed(line);
            let layout = CommandLayout::new(&command);
            let names: Vec<&str> = layout.launchers.iter().map(|l| l.name.as_str()).collect();
            let found = (text(&command.argv[layout.program]), names.join("/"));
            assert_eq!(found, (program, launchers.to_string()), "{line}");
        }
    }

    #[test]
    fn a_command_that_reads_standard_input_says_so() {
        for (line, reads) in [
            ("python -", true),
            ("python3 -u - --batch-size 8", true),
            ("python", true),
            ("bash", true),
            ("torchrun --nproc-per-node 2 train.py --config -", true),
            ("python train.py --config=-", true),
            ("python train.py --config /dev/stdin", true),
            ("sh -c train</dev/stdin", true),
            ("python train.py", false),
            ("python train.py -- --lr -1", false),
            ("make train", false),
        ] {
            let command = CommandLine::typed(line);
            assert_eq!(reads_standard_input(&command), reads, "{line}");
        }
    }
}
