//! What a command is: its launchers, program, entry and arguments.

use super::argument::{Arguments, Name, text};
use super::environment::LaunchEnvironment;
use super::job::part_of_a_job;
use super::launcher::{Anatomy, Launcher, Passage, ProgramKind, file_name, take_apart};
use super::program::{Catalogue, ProgramClues, ProgramEntry};
use super::spellings::{is_off, is_one, spellings};
use crate::command::CommandLine;

/// A command as far as it was understood.
#[derive(Debug, Clone)]
pub struct Recognised<'c> {
    pub anatomy: Anatomy,
    /// The program's entry.
    pub known: Option<&'c ProgramEntry>,
    /// Why no remedy can change the program's arguments, if none can.
    pub closed: Option<String>,
    /// Why this is one part of a job, which can't be relaunched alone: the new command is there to
    /// copy.
    pub part_of_a_job: Option<String>,
}

/// Splits a command and looks the program up, first among the user's own entries.
pub fn recognise<'c>(command: &CommandLine, launch: &LaunchEnvironment<'c>) -> Recognised<'c> {
    let anatomy = take_apart(&command.argv);
    let arguments = arguments_of(command, &anatomy);
    let program = command.argv.get(anatomy.program).map_or("", text);
    let seen = ProgramClues {
        program,
        arguments: &arguments,
    };
    let unread = unread(&anatomy, program);
    let catalogues = launch.own.iter().chain([Catalogue::built_in()]);
    let mut catalogues = catalogues.filter(|_| unread.is_none());
    let known = catalogues.find_map(|catalogue| catalogue.entry(&anatomy, &seen));
    let closed = unread.or_else(|| closed(program, &arguments, known));
    let part_of_a_job = part_of_a_job(command, &anatomy, launch);
    Recognised {
        anatomy,
        known,
        closed,
        part_of_a_job,
    }
}

impl Recognised<'_> {
    /// An error, with the reason, if no remedy can change the program's arguments.
    pub(crate) fn check_open(&self) -> Result<(), String> {
        self.closed.clone().map_or(Ok(()), Err)
    }

    /// Outermost first.
    pub fn launchers(&self) -> &[Launcher] {
        &self.anatomy.launchers
    }

    /// The index of the word that starts Python: the interpreter, a launcher or a console script.
    /// `None` if that is in a container, on another machine or in a shell script.
    pub fn python_word(&self) -> Option<usize> {
        use ProgramKind::{Code, Executable, Module, Script};
        let elsewhere = |launcher: &Launcher| {
            launcher.is_container || matches!(launcher.environment, Passage::Option(_))
        };
        let is_python = matches!(self.anatomy.kind, Script | Module | Code | Executable);
        let word = self.anatomy.interpreter.unwrap_or(self.anatomy.program);
        (is_python && !self.anatomy.launchers.iter().any(elsewhere)).then_some(word)
    }

    /// Processes that the launchers start on this machine, if they say so.
    pub(crate) fn processes(&self) -> Option<u32> {
        self.anatomy
            .launchers
            .iter()
            .rev()
            .find_map(|l| l.processes)
    }
}

/// The program's arguments.
pub(crate) fn arguments_of<'a>(command: &'a CommandLine, anatomy: &Anatomy) -> Arguments<'a> {
    let range = anatomy.arguments.clone();
    Arguments::of_words(&command.argv[range.clone()], range.start)
}

/// The arguments that batch and precision are among: the program's words, or those inside one of
/// them. The error says why they can't be read.
pub(crate) fn opened<'a>(
    arguments: Arguments<'a>,
    known: Option<&ProgramEntry>,
) -> Result<Arguments<'a>, String> {
    let Some(entry) = known.filter(|entry| !entry.nested.is_empty()) else {
        return Ok(arguments);
    };
    let hits: Vec<_> = entry
        .nested
        .iter()
        .flat_map(|option| arguments.find(Name::new(option)))
        .collect();
    match hits.as_slice() {
        [] => Err(format!("the command has no {}", entry.nested[0])),
        [hit] => hit
            .value
            .and_then(|value| Arguments::inside(value, entry.separator.unwrap_or(' ')))
            .filter(|inside| !inside.tokens.is_empty())
            .ok_or_else(|| format!("the contents of {} cannot be parsed", hit.name)),
        [one, two, ..] => Err(format!("{} and {} are both set", one.name, two.name)),
    }
}

/// Why the program's arguments can't be read, if so.
fn unread(anatomy: &Anatomy, program: &str) -> Option<String> {
    Some(match anatomy.kind {
        ProgramKind::Missing => "the command has no program".into(),
        ProgramKind::Code => "the program is inline code in the command".into(),
        ProgramKind::ShellString => "the command is one shell string, which is not edited".into(),
        ProgramKind::Remote => format!("{} starts it on another machine", file_name(program)),
        ProgramKind::Script
        | ProgramKind::Module
        | ProgramKind::Executable
        | ProgramKind::ShellScript
        | ProgramKind::Image => return None,
    })
}

fn closed(
    program: &str,
    arguments: &Arguments<'_>,
    known: Option<&ProgramEntry>,
) -> Option<String> {
    let name = file_name(program);
    if name.contains("submitit")
        || program.contains("dinov2/run/")
        || program.starts_with("dinov2.run.")
    {
        return Some(format!(
            "{name} submits jobs to a cluster; it does not train here"
        ));
    }
    if let Some(entry) = known {
        if let Some(reason) = &entry.refuse {
            return Some(reason.clone());
        }
        let says = |word: &String| arguments.tokens.iter().any(|t| t.text == word);
        if !entry.trains_with.is_empty() && !entry.trains_with.iter().any(says) {
            return Some(format!("{} does not train here", entry.shown()));
        }
        if let Some(option) = entry.evaluates_with.iter().find(|o| is_on(arguments, o)) {
            return Some(format!("{option}: it only evaluates"));
        }
        return None;
    }
    if name == "make" || name == "just" || name == "ninja" {
        return Some(format!("what {name} starts is not visible from here"));
    }
    let stem = name.strip_suffix(".py").unwrap_or(name);
    let stem = stem.rsplit('.').next().unwrap_or(stem);
    if is_one(&spellings().not_training, stem) {
        return Some(format!("{name} doesn't look like a training"));
    }
    let mut switches = spellings().only_evaluates.iter();
    switches
        .find(|option| is_on(arguments, option))
        .map(|option| format!("{option}: it only evaluates"))
}

/// Whether a switch is there and not turned off.
fn is_on(arguments: &Arguments<'_>, option: &str) -> bool {
    arguments
        .find(Name::new(option))
        .iter()
        .any(|hit| !hit.value.is_some_and(|v| is_off(v.text)))
}
