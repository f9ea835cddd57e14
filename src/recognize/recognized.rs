//! A command as far as it was understood: its launchers, program, entry and arguments, which ranks it
//! starts where, and whether it is one of several parts of a job.
//!
//! [`Recognized::new`] is the one entry to this room; everything else is asked of its result, which
//! travels with the command.

use super::argument::{Arguments, Name, same, text};
use super::launch::LaunchEnvironment;
use super::layout::Variable;
use super::layout::{CommandLayout, Launcher, ProgramKind, file_name};
use super::program::{Catalogue, ProgramClues, ProgramEntry};
use super::spellings::{is_off, is_one, spellings};
use super::text::ProgramText;
use crate::command::CommandLine;

/// A command as far as it was understood, with what is known of its launch.
#[derive(Debug, Clone)]
pub struct Recognized<'c> {
    pub command: &'c CommandLine,
    pub launch: LaunchEnvironment<'c>,
    pub layout: CommandLayout,
    /// The program's entry; `None` if none fits, or several do.
    pub known: Option<&'c ProgramEntry>,
    /// Why no remedy can change the program's arguments, if none can.
    pub closed: Option<String>,
    /// Why this is one part of a job, if it is. The parts must agree on what they run, so no part can be
    /// relaunched alone: the new command is there to copy.
    pub part_of_a_job: Option<String>,
}

impl<'c> Recognized<'c> {
    /// Splits a command and looks the program up, first among the user's own entries.
    pub fn new(command: &'c CommandLine, launch: &LaunchEnvironment<'c>) -> Recognized<'c> {
        let layout = CommandLayout::new(command);
        let arguments = layout.arguments_of(command);
        let program = command.argv.get(layout.program).map_or("", text);
        let seen = ProgramClues {
            program,
            arguments: &arguments,
        };
        let unread = unread(&layout, program);
        let catalogues = launch.own.iter().chain([Catalogue::built_in()]);
        let mut catalogues = catalogues.filter(|_| unread.is_none());
        let known = catalogues.find_map(|catalogue| catalogue.entry(&layout, &seen));
        let known = known.filter(|entry| !is_contradicted(entry, &arguments, launch));
        let trains = launch.text.is_some_and(|text| text.trains)
            || launch.told.is_some_and(|told| !told.evaluated);
        let closed = unread.or_else(|| closed(program, &arguments, known, trains));
        let part_of_a_job = part_of_a_job(command, &layout, launch);
        Recognized {
            command,
            launch: *launch,
            layout,
            known,
            closed,
            part_of_a_job,
        }
    }

    /// An error, with the reason, if no remedy can change the program's arguments.
    pub(crate) fn check_open(&self) -> Result<(), String> {
        self.closed.clone().map_or(Ok(()), Err)
    }

    /// Whether it may train, as far as its program and its words show.
    pub fn may_train(&self) -> bool {
        self.closed.is_none()
    }

    /// Outermost first.
    pub fn launchers(&self) -> &[Launcher] {
        &self.layout.launchers
    }

    /// The program's arguments.
    pub(crate) fn arguments(&self) -> Arguments<'c> {
        self.layout.arguments_of(self.command)
    }

    /// The arguments that batch and precision are among: the program's words, or those inside one of
    /// them. The error says why they can't be read.
    pub(crate) fn opened(&self) -> Result<Arguments<'c>, String> {
        let arguments = self.arguments();
        let Some(entry) = self.known.filter(|entry| !entry.nested.is_empty()) else {
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

    /// Processes that the launchers start on this machine, if they say so.
    pub(crate) fn processes(&self) -> Option<u32> {
        self.launchers().iter().rev().find_map(|l| l.processes)
    }

    /// Where its ranks run.
    pub fn reach(&self) -> Reach {
        if self.part_of_a_job.is_some() {
            return Reach::OneOfMany;
        }
        let nodes = NODES.iter().find_map(|name| {
            let value = self.launch.inherited_value(name)?;
            value.trim().parse::<u32>().ok()
        });
        let far = self
            .launchers()
            .iter()
            .find(|launcher| launcher.reaches_nodes);
        match (far, nodes) {
            (_, Some(1)) | (None, None) => Reach::ThisNode,
            (Some(launcher), _) => Reach::OneLauncher(launcher.name.clone()),
            (None, Some(_)) => Reach::Unknown,
        }
    }
}

/// Whether the program's text declares all its options and the batch of a built-in entry is none of them, or not its config
/// while the command names one by another option: it is another program of the same name.
fn is_contradicted(
    entry: &ProgramEntry,
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'_>,
) -> bool {
    let is_own = launch.own.iter().any(|catalogue| catalogue.has(entry));
    let names_another_config = |text: &ProgramText| {
        let is_of_entry = |option: &str| entry.config.iter().any(|known| same(known, option));
        let mut typed = arguments.tokens.iter().filter(|token| token.is_option());
        let mut known = entry.config.iter().peekable();
        known.peek().is_some()
            && known.all(|option| option.starts_with("--") && !text.declares(option))
            && typed.any(|token| {
                let option = token.text.split('=').next().unwrap_or(token.text);
                !is_of_entry(option)
                    && text.declares(option)
                    && is_one(&spellings().config_files, &option.replace('_', "-"))
            })
    };
    let lacks =
        |text: &ProgramText| text.lacks_options(&entry.batch.names) || names_another_config(text);
    !is_own && launch.text.is_some_and(lacks)
}

/// Where a command's ranks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Here, as far as can be told.
    ThisNode,
    /// On several nodes, all started by this launcher of the command: it can be changed and started again
    /// as a whole.
    OneLauncher(String),
    /// Each node has its own launcher.
    OneOfMany,
    /// The job has several nodes, and the command does not say whether it uses them.
    Unknown,
}

impl Reach {
    /// Whether ranks may run on other nodes.
    pub fn is_far(&self) -> bool {
        *self != Reach::ThisNode
    }
}

/// The number of nodes of the allocation, by SLURM.
const NODES: [&str; 2] = ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"];

/// Why the program's arguments can't be read, if so.
fn unread(layout: &CommandLayout, program: &str) -> Option<String> {
    Some(match layout.kind {
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
    trains: bool,
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
        let says_so =
            entry.is_script_beside_a_console(program) || entry.trains_with.iter().any(says);
        if !entry.trains_with.is_empty() && !says_so {
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
    if is_one(&spellings().not_training, stem) && !trains {
        return Some(format!("{name} doesn't look like a training"));
    }
    // `--mode sample`
    for option in ["--mode", "--phase"] {
        let value = arguments.value_of(option);
        if let Some(value) = value.filter(|value| is_one(&spellings().not_training, value)) {
            return Some(format!("{option} {value}: it does not train"));
        }
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

/// SLURM's steps for a batch script and an interactive shell (`slurm.h`): these aren't tasks of a
/// job, though they may start one.
const NO_TASK: [&str; 2] = ["4294967291", "4294967290"];

/// Why a command is one of several parts of a job; `None` if it is the whole job.
fn part_of_a_job(
    command: &CommandLine,
    layout: &CommandLayout,
    launch: &LaunchEnvironment<'_>,
) -> Option<String> {
    // What starts the launchers of all machines is the whole job: `srun torchrun --nnodes 2`.
    let outermost = layout
        .launchers
        .iter()
        .find(|l| l.reaches_nodes || l.part_of.is_some());
    if let Some(part) = outermost.and_then(|l| l.part_of.clone()) {
        return Some(part);
    }
    let value_of = |name: &str| {
        let inherited = launch.inherited_value(name);
        Some(Variable::find(command, layout, name, inherited)?.text())
    };
    let number = |name: &str| -> Option<u32> {
        // torchrun's elastic `1:4`: the maximum.
        value_of(name)?.trim().rsplit(':').next()?.parse().ok()
    };
    let shown = |name: &str| format!("{name}={}", value_of(name).unwrap_or_default());
    let more_than = |least: u32, names: &[String]| {
        names
            .iter()
            .find(|name| number(name).is_some_and(|n| n > least))
            .map(|name| shown(name))
    };
    let task_of_slurm = || {
        let step = value_of("SLURM_STEP_ID")?;
        let counts = step.parse::<u32>().is_ok() && !NO_TASK.contains(&step);
        counts.then(|| more_than(1, &["SLURM_STEP_NUM_TASKS".into()]))?
    };
    let rank = || {
        value_of("RANK").or_else(|| value_of("LOCAL_RANK"))?;
        more_than(1, &["WORLD_SIZE".into()])
    };
    let job = &spellings().job;
    more_than(1, &job.machines)
        .or_else(|| more_than(0, &job.machine))
        .or_else(task_of_slurm)
        .or_else(|| more_than(1, &job.processes))
        .or_else(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;

    #[test]
    fn a_launcher_or_the_allocation_says_where_the_ranks_are() {
        let one = |name: &str| Reach::OneLauncher(name.into());
        for (line, nodes, expected) in [
            ("python train.py", None, Reach::ThisNode),
            ("python train.py", Some("1"), Reach::ThisNode),
            ("bash run.sh", Some("4"), Reach::Unknown),
            (
                "torchrun --nproc_per_node 8 train.py",
                None,
                Reach::ThisNode,
            ),
            ("torchrun --nnodes 2 train.py", None, Reach::OneOfMany),
            ("srun -N2 python train.py", None, one("srun")),
            ("srun -N2 python train.py", Some("2"), one("srun")),
            ("srun python train.py", Some("1"), Reach::ThisNode),
            ("srun torchrun --nnodes 2 train.py", Some("2"), one("srun")),
            ("mpirun -np 16 python train.py", None, one("mpirun")),
            ("deepspeed --hostfile h train.py", None, one("deepspeed")),
            ("deepspeed --num_nodes 2 train.py", None, one("deepspeed")),
            ("deepspeed --node_rank 1 train.py", None, Reach::OneOfMany),
        ] {
            let command = CommandLine {
                argv: line.split(' ').map(Word::from).collect(),
                ..CommandLine::default()
            };
            let environment: Vec<(String, String)> = nodes
                .map(|nodes| ("SLURM_JOB_NUM_NODES".to_string(), nodes.to_string()))
                .into_iter()
                .collect();
            let launch = LaunchEnvironment {
                environment: &environment,
                ..LaunchEnvironment::default()
            };
            assert_eq!(
                Recognized::new(&command, &launch).reach(),
                expected,
                "{line} {nodes:?}"
            );
        }
    }
}
